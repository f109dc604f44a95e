"""What only starting needed is given back, and comes again when it is needed."""

import gc
import re
import subprocess
import sys
import weakref
from pathlib import Path

import numba
import pytest

from idlewatt.daemon.memory import _unwritten, give_back


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


def mapping(line: str, anonymous: int = 0) -> str:
    return f"{line}\nSize: 64 kB\nRss: 64 kB\nAnonymous:      {anonymous} kB\nShmemPmdMapped: 0 kB\nSwap:       0 kB\n"


@pytest.mark.parametrize("told", [
    mapping("7f00-7f10 r--p 00000000 00:00 1 /a/libllvmlite.so", anonymous=4),
    mapping("7f00-7f10 rw-p 00000000 00:00 1 /a/libllvmlite.so"),
    mapping("7f00-7f10 r-xp 00000000 00:00 1 /a/libother.so"), mapping("7f00-7f10 r-xp 00000000 00:00 0")])
@pytest.mark.parametrize("mode", ["r-xp", "r--p"])
def test_nothing_but_what_nobody_wrote_of_the_compiler_is_touched(told, mode):
    ours = mapping(f"7f20-7f30 {mode} 0 00:00 1 /a folder/libllvmlite.so")
    assert list(_unwritten(told)) == []
    assert list(_unwritten(told + ours + told)) == [(0x7f20, 0x10)]


@pytest.mark.parametrize(("count", "size"), [(20, 4_000_000), (800, 100_000)])
def test_large_blocks_are_returned_at_once(count, size):
    """A block that the heap would keep, since a smaller one lies above it, is a mapping of its own."""
    told = subprocess.run((sys.executable, "-c", _BLOCKS, str(count), str(size)), capture_output=True, text=True,
                          check=True)
    assert float(told.stdout) < 10


def test_pages_that_come_and_go_take_the_same_memory_each_time():
    told = subprocess.run((sys.executable, "-c", _PAGES), capture_output=True, text=True, check=True)
    assert int(told.stdout) < 2000


_PAGES = """
import resource
from idlewatt.daemon.memory import save
save()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(1000):
    pages = [b"x" * size for size in (40_000, 50_000)]
    del pages
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_all_threads_share_one_heap():
    told = subprocess.run((sys.executable, "-c", _THREADS), capture_output=True, text=True, check=True)
    assert re.findall(r"^Arena \d+", told.stderr, re.MULTILINE) == ["Arena 0"]


_THREADS = """
import ctypes
from threading import Barrier, Thread
from idlewatt.daemon.memory import save
save()
together = Barrier(8)
def work():
    blocks = [bytes(5000) for _ in range(100)]
    together.wait()
threads = [Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""
_BLOCKS = """
import re
import sys
from pathlib import Path
from idlewatt.daemon.memory import save
def heap():
    smaps = Path("/proc/self/smaps").read_text().partition("[heap]")[2]
    return int(re.search(r"Rss: +(\\d+)", smaps)[1]) / 1024
save()
before, kept, (count, size) = heap(), [], map(int, sys.argv[1:])
for _ in range(3):  # freeing a mapping is what moves the bound for the next
    large = [(bytes(size), kept.append(bytes(600))) for _ in range(count)]
    kept += [bytes(600) for _ in range(1000)]
    del large
print(heap() - before)
"""


def test_circles_of_garbage_are_found_when_memory_is_given_back():
    class Page:
        pass

    page = Page()
    page.itself, gone = page, weakref.ref(page)
    gc.disable()
    try:
        del page
        assert gone() is not None
        give_back()
        assert gone() is None
    finally:
        gc.enable()


def test_what_a_cycle_replaces_is_read_without_a_look_for_garbage_everywhere():
    told = subprocess.run((sys.executable, "-c", _ROUNDS), capture_output=True, text=True, check=True)
    assert told.stdout == "0\n"


_ROUNDS = """
import gc
from idlewatt.daemon.memory import settle
settle()
looks = []
gc.callbacks.append(lambda phase, told: looks.append(told["generation"]))
for _ in range(4):  # each replaces what the last one read
    known = [({"gpu": str(gpu)}, [gpu]) for gpu in range(50_000)]
print(looks.count(2))
"""


def test_the_daemon_loads_neither_pyarrow_nor_torch():
    code = ("import sys; import idlewatt.daemon.main, idlewatt.daemon.service, idlewatt.daemon.web.page; "
            "print(*sys.modules)")
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True, timeout=120)
    assert {"pyarrow", "torch", "pandas", "jinja2"} & set(done.stdout.split()) == {"jinja2"}
