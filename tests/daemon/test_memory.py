"""What only starting needed is given back, and comes again when it is needed."""

import re
from pathlib import Path

import numba
import pytest

from idlewatt.daemon.memory import _code_of, give_back


def resident_code_bytes() -> int:
    mapped = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    return sum(1024 * int(re.search(r"\nRss: +(\d+)", part)[1]) for part in mapped
               if "libllvmlite" in part.partition("\n")[0] and " r-xp " in part.partition("\n")[0])


def test_the_compilers_code_is_given_back_and_comes_again():
    one = numba.njit(lambda number: number + 1)
    assert one(1) == 2
    before = resident_code_bytes()
    give_back()
    assert resident_code_bytes() < before / 5
    assert (one(2), numba.njit(lambda number: number + 2)(1)) == (3, 3)


@pytest.mark.parametrize("line", [
    "7f00-7f10 r--p 00000000 00:00 1 /a/libllvmlite.so", "7f00-7f10 rw-p 00000000 00:00 1 /a/libllvmlite.so",
    "7f00-7f10 r-xp 00000000 00:00 1 /a/libother.so", "7f00-7f10 r-xp 00000000 00:00 0"])
def test_nothing_but_the_compilers_code_is_touched(line):
    assert list(_code_of(line)) == []
    assert list(_code_of("7f00-7f10 r-xp 0 00:00 1 /a folder/libllvmlite.so")) == [(0x7f00, 0x10)]
