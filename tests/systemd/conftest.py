"""Debian packages, and booted machines to install them on."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from cost import patient, pause

REPOSITORY = Path(__file__).parents[2]
SANDBOX = Path(__file__).parent / "sandbox.sh"
BUILD = REPOSITORY / "systemd/packages/debian.sh"
FORMER = "c0a9df8"
"""Version 0.1.0."""


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """The packages of 0.1.0 and of now, built here, or those in the folder IDLEWATT_PACKAGES."""
    folder = Path(os.environ.get("IDLEWATT_PACKAGES", tmp_path_factory.mktemp("packages")))
    if not list(folder.glob("*.deb")):
        former = tmp_path_factory.mktemp("former")
        archive = subprocess.run(("git", "archive", FORMER), cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
        subprocess.run(("tar", "x", "-C", former), input=archive.stdout, check=True)
        for source in (former, REPOSITORY):
            subprocess.run((BUILD, source, folder), check=True, timeout=900,
                           env=os.environ | {"SOURCE_DATE_EPOCH": "1763749525"})
    old, new = sorted(folder.glob("idlewatt_*.deb"))
    assert "_0.1.0_" in old.name
    return old, new


class Machine:
    """A booted Debian, and a port for the daemon in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def run(self, *argv: str, **options) -> str:
        """Run a command inside as root and return what it prints."""
        # Its own programs, not those of the environment that runs the tests.
        done = subprocess.run([SANDBOX, "exec", self.folder, *argv], capture_output=True, text=True, timeout=300,
                              check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}, **options)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout.strip() + done.stderr.strip()

    def write(self, path: str, text: str) -> None:
        """Write a file as an editor would: it keeps its owner and mode."""
        self.run("sh", "-c", 'cat > "$1"', "-", path, input=text)

    def show(self, name: str) -> str:
        return self.run("systemctl", "show", "--property", name, "--value", "idlewatt")

    def get(self, path: str):
        """Return the daemon's answer, None while there is none."""
        try:
            answer = requests.get(f"http://127.0.0.1:{self.port}{path}", timeout=60)
        except requests.ConnectionError:
            return None
        return answer if answer.ok else None

    @staticmethod
    def wait_for(condition, seconds: float = 300):
        began_s = time.monotonic()
        while not (found := condition()):
            assert time.monotonic() < began_s + patient(seconds), f"not within {seconds:g} s"
            pause(began_s)
        return found


@pytest.fixture(scope="session")
def boot():
    """Boot a machine with these files in /srv/packages, and with folders of ours where they are wanted.

    Its network is that of this machine, or ``own``: then its ports are its own, and only commands inside reach it.
    """
    @contextmanager
    def booted(*files: Path, bound: dict[Path, str] | None = None, network: str = "") -> Iterator[Machine]:
        folder = Path(tempfile.mkdtemp(prefix="idlewatt-debian-"))
        given = folder.with_name(f"{folder.name}-packages")
        given.mkdir()
        for file in files:
            shutil.copy(file, given)
        places = {given: "/srv/packages", **(bound or {})}
        try:
            subprocess.run([SANDBOX, "start", folder, *(f"{source}:{place}" for source, place in places.items())],
                           check=True, timeout=900, env=os.environ | {"NETWORK": network})
            yield Machine(folder)
        finally:
            subprocess.run([SANDBOX, "stop", folder], check=True, timeout=900)
            shutil.rmtree(given)

    return booted
