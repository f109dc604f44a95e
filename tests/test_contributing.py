"""The worked examples of CONTRIBUTING.md do what it says, each as the one file that it is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"
POLICY = """
from idlewatt.daemon import policies
policies.__path__.append({folder!r})
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from synthetic import synthetic
work = synthetic(60, 3.0)
starts = [engine.run(Cluster.from_spec("1x8"), work, named(f"{{order}}+best-fit")).digest
          for order in ("narrow-first", "fifo")]
print(len(set(starts)))
"""
SOURCE = """
import sys
from idlewatt import exporters
exporters.__path__.append({folder!r})
from idlewatt.exporters.source import SourceError, kinds
source = kinds()["watts_file"](kind="watts_file", path={page!r}).build(lambda: 7.0)
try:
    print([(reading.node, reading.power_watts, reading.time_s) for reading in source.read().nodes])
except SourceError as error:
    print(f"SourceError: {{error}}")
print([target.up for target in source.health()])
"""


@pytest.fixture
def example(tmp_path):
    """Write an example of the guide into a folder of its own and return the folder."""
    def write(place: str) -> str:
        found = re.search(rf"<!-- file: {re.escape(place)} -->\n```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        (tmp_path / Path(place).name).write_text(found[1])
        return str(tmp_path)

    return write


def printed(script: str) -> list[str]:
    """Return what a script prints in a process of its own, which its modules leave with it."""
    caches = {name: os.environ[name] for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME") if name in os.environ}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240,
                          env=caches | {"PYTHONPATH": str(Path(__file__).parent / "daemon/replay"),
                                        "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_file_adds_a_policy_that_replays(example):
    assert printed(POLICY.format(folder=example("daemon/policies/narrow_first.py"))) == ["2"]


def test_one_file_adds_a_source_that_reads_what_it_can(example, tmp_path):
    page = tmp_path / "watts.txt"
    page.write_bytes(b"dgx-1 1234.5\n\ndgx-2 nan\ndgx-3 -5\ndgx-4\ndgx-5 much\ndgx-\xf6 10\n")

    lines = printed(SOURCE.format(folder=example("exporters/watts_file.py"), page=str(page)))

    assert lines == ["[('dgx-1', 1234.5, 7.0), ('dgx-\N{REPLACEMENT CHARACTER}', 10.0, 7.0)]", "[True]"]


def test_its_fault_says_where(example, tmp_path):
    lines = printed(SOURCE.format(folder=example("exporters/watts_file.py"), page=str(tmp_path / "nothing.txt")))

    assert lines == [f"SourceError: [Errno 2] No such file or directory: '{tmp_path}/nothing.txt'", "[False]"]
