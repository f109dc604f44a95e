import os
import subprocess
import tempfile
import threading
import time

import pytest

from idlewatt.exporters.commands import Commands


def run(commands, *command, timeout=30.0):
    with tempfile.TemporaryFile() as output:
        done = commands.run(command, env=os.environ, stdout=output, timeout=timeout)
        output.seek(0)
        return done, output.read()


def test_a_program_is_run_to_its_end():
    done, output = run(Commands(), "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, output, done.stderr) == (3, b"out\n", b"err\n")


def test_a_program_that_takes_too_long_is_ended():
    commands = Commands()
    with pytest.raises(subprocess.TimeoutExpired):
        run(commands, "sleep", "60", timeout=0.1)
    assert commands._running == set()


def test_closing_ends_what_is_running_and_starts_nothing_more():
    commands, codes = Commands(), []
    thread = threading.Thread(target=lambda: codes.append(run(commands, "sleep", "60")[0].returncode))
    thread.start()
    pause, deadline = threading.Event(), time.monotonic() + 60
    while not commands._running:
        assert time.monotonic() < deadline
        pause.wait(0.005)
    commands.close()
    thread.join(20)
    assert codes == [-9]
    with pytest.raises(OSError, match="nothing is run any more"):
        run(commands, "true")
