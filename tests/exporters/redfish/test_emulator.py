"""The same source against servers that others wrote: sushy-tools' emulator, and its server of mockup files.

The emulator has chassis and no power; the mockup files are a tree of our own in the form that DMTF's mockups have.
"""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mockup import Tree, chassis, empty, rack
from test_redfish import hgx, source

from idlewatt.exporters.source import SourceError

AUTH = "admin:$2y$05$mYl8KMwM94l4LR/sw1teIeA6P2u8gfX16e8wvT7NmGgAM5r9jgLl."
"""Password: password, as in sushy-tools' documentation."""


@pytest.fixture
def serve():
    """Start one of sushy-tools' servers and return its address once it listens."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin(program: str, *options: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        begun.append(subprocess.Popen([Path(sys.executable).with_name(program), "-i", "127.0.0.1", "-p", str(port),
                                       *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        until = time.monotonic() + 30
        while time.monotonic() < until and begun[-1].poll() is None:
            with socket.socket() as knock:
                if not knock.connect_ex(("127.0.0.1", port)):
                    return f"127.0.0.1:{port}"
        pytest.fail(f"{program} does not listen")

    yield begin
    for process in begun:
        process.kill()
        process.wait()


class At:
    """Where a server is, as tests of mock BMCs name it."""

    def __init__(self, address: str) -> None:
        self.address = address


def written(tree: Tree, folder: Path) -> str:
    """Write a tree as mockup files: ``index.json`` in a folder for each resource."""
    for path, resource in tree.items():
        place = folder / path.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "index.json").write_text(json.dumps(resource))
    return str(folder)


@pytest.mark.parametrize(("tree", "watts"), [
    (chassis(empty(), "1U", "RackMount", environment={"Reading": 374, "DataSourceUri": "/redfish/v1/Chassis/1U/Sensors/"
                                                      "TotalPower"}, supplies={"Bay1": 937.4, "Bay2": "absent"},
             control=344, sensor=374), 374.0),
    (chassis(empty(), "1U", "RackMount", supplies={"Bay1": 937.4, "Bay2": "absent"}, control=344), 937.4),
    (chassis(empty(), "1U", "RackMount", control=344), 344.0),
    (hgx(), 7100.0)], ids=["metrics", "supplies", "control", "hgx"])
def test_mockup_files_served_by_another_program_are_read(serve, tmp_path, tree, watts):
    found = source(At(serve("sushy-static", "-m", written(tree, tmp_path))))
    assert [node.power_watts for node in found.read().nodes] == [watts]
    found.close()


def test_a_rack_of_mockup_files_is_read(serve, tmp_path):
    address = serve("sushy-static", "-m", written(rack({"1": 15_000.0, "2": 14_500.0}, {"A": 800.0}), tmp_path))
    found = source(At(address), labels={"enclosure": "rack7"})
    assert [one.power_watts for one in found.read().enclosures] == [29_500.0], "the larger sum counts"
    found.close()


def test_the_emulator_has_chassis_and_no_power_and_that_is_told(serve, tmp_path):
    secret, settings = tmp_path / "htpasswd", tmp_path / "emulator.conf"
    secret.write_text(AUTH + "\n")
    settings.write_text(f"SUSHY_EMULATOR_AUTH_FILE = {str(secret)!r}\nSUSHY_EMULATOR_STATE_DIR = {str(tmp_path)!r}\n")
    bmc = At(serve("sushy-emulator", "--fake", "--config", str(settings)))
    wrong = source(bmc, auth="basic", basic_auth={"username": "admin", "password": "guess"})
    with pytest.raises(SourceError, match="HTTP 401"):
        wrong.read()
    wrong.close()
    found = source(bmc, auth="basic", basic_auth={"username": "admin", "password": "password"})
    with pytest.raises(SourceError, match=r"no power at any chassis \("):
        found.read()
    found.close()
