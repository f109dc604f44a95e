import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("dependencies")  # both write the metadata of this one tree as they install it
@pytest.mark.parametrize("which", ["lowest", "newest"])
def test_a_smoke_set_runs_with_the_dependencies_that_are_allowed(which, tmp_path):
    done = subprocess.run([sys.executable, ROOT / "tests/dependencies.py", which, tmp_path / which],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
