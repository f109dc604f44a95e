"""The container image, built on this machine and run as its pod runs it: not root, nothing to write but its volumes.

Debian's mirror and pip's index are asked, and it takes some ten minutes: it is long. IDLEWATT_IMAGES names a folder
that keeps the image from run to run.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from threading import Event

import pytest

from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import NODES, PODS, Store

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/exporters/kubernetes"))
MOST_BYTES = 900e6
NEEDED = ("buildah", "debootstrap", "unshare", "setpriv")
CONFINED = """
mount --make-rprivate /
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"
for folder in tmp var/lib/idlewatt var/cache/idlewatt; do mount -t tmpfs -o mode=1777 none "$0/$folder"; done
mount -t tmpfs none "$0/mnt" && cp "$1" "$0/mnt/config.yml" && chmod 755 "$0/mnt" && chmod 644 "$0/mnt/config.yml"
mount -t proc none "$0/proc" && mount --rbind /dev "$0/dev"
exec chroot --userspec=9723:9723 "$0" /usr/bin/setpriv --no-new-privs /usr/bin/env -i \\
    NUMBA_CACHE_DIR=/var/cache/idlewatt MALLOC_ARENA_MAX=2 PYTHONDONTWRITEBYTECODE=1 "${@:2}"
"""
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.skipif(
    os.geteuid() != 0 or any(shutil.which(name) is None for name in NEEDED), reason="needs root, buildah, debootstrap")]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Return buildah's command for the store in which the image lies."""
    store = Path(os.environ.get("IDLEWATT_IMAGES") or tmp_path_factory.mktemp("images"))
    subprocess.run([ROOT / "systemd/packages/image.sh", ROOT, store], check=True, stdout=subprocess.DEVNULL)
    return ["buildah", "--root", f"{store}/images", "--runroot", f"{store}/run", "--storage-driver", "vfs"]


@pytest.fixture(scope="module")
def filled(image):
    """Return the folder with what is in the image."""
    made = subprocess.run([*image, "from", "localhost/idlewatt"], check=True, capture_output=True, text=True)
    place = subprocess.run([*image, "mount", made.stdout.strip()], check=True, capture_output=True, text=True)
    yield place.stdout.strip()
    subprocess.run([*image, "rm", made.stdout.strip()], check=True, stdout=subprocess.DEVNULL)


def test_the_image_is_smaller_than_its_bound_and_is_not_run_as_root(image, capsys):
    told = subprocess.run([*image, "inspect", "--type", "image", "localhost/idlewatt"], check=True, capture_output=True)
    assert json.loads(told.stdout)["OCIv1"]["config"]["User"] == "9723:9723"
    sizes = subprocess.run([*image, "images", "--json"], check=True, capture_output=True)
    size = next(row["size"] for row in json.loads(sizes.stdout)
                if "localhost/idlewatt:latest" in (row.get("names") or ()))
    with capsys.disabled():
        print(f"\nthe image has {size}")
    number, unit = size.split()
    assert float(number) * {"MB": 1e6, "GB": 1e9}[unit] < MOST_BYTES


def test_it_serves_what_the_api_server_tells_without_root_and_with_nothing_to_write_but_its_volumes(filled, tmp_path):
    import kube_objects as make  # a helper of the tests of exporters

    store = Store()
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.pod("p", on="n1"))
    server = ApiServer(Api(store, bookmark_s=0.1)).begin()
    config = tmp_path / "config.yml"
    config.write_text(f"storage: {{url: 'sqlite:////var/lib/idlewatt/idlewatt.db'}}\n"
                      f"sources: [{{kind: kubernetes, url: '{server.url}'}}]\n")
    line = ["unshare", "--mount", "bash", "-ec", CONFINED, filled, str(config), "/opt/idlewatt/bin/idlewatt", "serve",
            "--config.file=/mnt/config.yml", "--web.listen-address=127.0.0.1:19723"]
    running = subprocess.Popen(line, stderr=subprocess.PIPE)
    try:
        assert [row["node"]["name"] for row in asked("nodes", running)] == ["n1"]
        status = Path(f"/proc/{running.pid}/status").read_text()
        facts = dict(one.split(":\t", 1) for one in status.splitlines() if ":\t" in one)
        assert facts["Uid"].split() == ["9723"] * 4
        assert (facts["NoNewPrivs"], int(facts["CapEff"], 16)) == ("1", 0)
        roots = [one.split() for one in Path(f"/proc/{running.pid}/mounts").read_text().splitlines()]
        assert next(one[3] for one in roots if one[1] == "/").startswith("ro")
    finally:
        running.terminate()
        _, told = running.communicate(timeout=60)
        server.api.drop_watches()
        server.shutdown()
        server.server_close()
    assert b"Read-only file system" not in told


def asked(what: str, running: subprocess.Popen) -> list[dict[str, object]]:
    """Return the rows of an answer, once the daemon knows some."""
    deadline = time.monotonic() + 180.0
    while time.monotonic() < deadline and running.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:19723/api/v1/{what}", timeout=5) as answer:
                rows = json.load(answer)["data"]
        except (OSError, ValueError):
            rows = []
        if rows:
            return rows
        Event().wait(0.2)  # a server that is starting tells nobody when it has
    pytest.fail(f"it never told of any {what}: {running.poll()}")
