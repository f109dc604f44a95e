import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.compiled import cache_folder
from synthetic import synthetic
print(engine.run(Cluster.from_spec("64x8"), synthetic(2000, 1.1), named("random+random-fit+easy"), seed=7).digest)
print(cache_folder())
"""


def ask(**environment: str) -> tuple[str, Path]:
    """Run a replay in another process and return its digest and its cache folder."""
    there = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "CACHE_DIRECTORY")}
    there |= {"PYTHONPATH": str(Path(__file__).parent)} | environment
    done = subprocess.run([sys.executable, "-c", ASK], env=there, capture_output=True, text=True, check=True,
                          timeout=240)
    digest, folder = done.stdout.split()
    return digest, Path(folder)


def test_another_process_with_other_hash_seeds_comes_to_the_same_digest():
    assert ask(PYTHONHASHSEED="1")[0] == ask(PYTHONHASHSEED="2")[0]


def test_machine_code_is_kept_in_the_cache_directory_that_systemd_gives(tmp_path):
    _, folder = ask(CACHE_DIRECTORY=str(tmp_path))
    assert folder.parent == tmp_path
    assert list(folder.rglob("*.nbc"))


@pytest.mark.parametrize("where", ["/proc/nothing/here", "/dev/null/cache"])
def test_without_a_writable_cache_the_same_run_comes_out(where):
    assert ask(NUMBA_CACHE_DIR=where)[0] == ask()[0]
