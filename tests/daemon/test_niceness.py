import os
import subprocess
import sys

import pytest

from idlewatt.daemon.niceness import give_way


def test_a_process_gives_way():
    script = "import os; from idlewatt.daemon.niceness import give_way; give_way(7); print(os.nice(0))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 7


def test_where_the_sandbox_forbids_it_the_work_is_done_all_the_same(monkeypatch):
    def forbidden(increment):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "nice", forbidden)
    give_way(10)


def test_a_niceness_that_is_none_is_a_fault_and_not_hidden():
    with pytest.raises(TypeError):
        give_way("10")
