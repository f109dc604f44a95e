"""A training that is killed without a word goes on where it last kept itself, and ends with the same weights."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from resizable import config

from idlewatt.daemon.agents.dl2.train import train
from idlewatt.daemon.agents.kinds import kinds

CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from resizable import config
from small import small
from idlewatt.daemon.agents.dl2.train import train
with small():
    for progress in train(config(Path(sys.argv[1]), steps=2)):
        print(progress.done, flush=True)
"""


@pytest.mark.long
def test_a_training_that_is_killed_goes_on_and_ends_with_the_same_weights(trained, tmp_path):
    helpers = str(Path(__file__).parents[1])
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path), helpers], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert float(child.stdout.readline()) < 1.0  # it has kept itself, and learns on
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    rest = list(train(config(tmp_path, steps=2)))
    assert [progress.done for progress in rest] == [1.0]
    ours, theirs = (kinds()["dl2"].load(folder / "best").weights for folder in (trained[0], tmp_path))
    assert np.array_equal(ours, theirs)
