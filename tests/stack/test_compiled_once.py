import os
import subprocess
import sys
from pathlib import Path

RACING = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from compiled_once import compile_once
from idlewatt.daemon.replay.moves import scramble
compile_once()
print("ready", flush=True)
sys.stdin.readline()
scramble(np.uint64(7))
print(sum(scramble.stats.cache_misses.values()), sum(scramble.stats.cache_hits.values()))
"""


def test_of_two_that_need_the_same_machine_code_at_once_one_makes_it(tmp_path):
    racers = [subprocess.Popen([sys.executable, "-c", RACING, str(Path(__file__).parent)], text=True,
                               env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n", "ready\n"]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    made_and_found = sorted(racer.communicate(timeout=240)[0].split() for racer in racers)
    assert made_and_found == [["0", "1"], ["1", "0"]]


NAMELESS = """
import sys
sys.path.insert(0, sys.argv[1])
from compiled_once import compile_once
from idlewatt.daemon.replay.compiled import compiled
compile_once()
double = compiled(lambda number: number * 2)
more = compiled(lambda number: double(number) + 1)
print(more(20))
"""


def test_functions_without_names_that_call_one_another_do_not_wait_for_themselves(tmp_path):
    done = subprocess.run([sys.executable, "-c", NAMELESS, str(Path(__file__).parent)], text=True, check=True,
                          capture_output=True, timeout=900, env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)})
    assert done.stdout == "41\n"
