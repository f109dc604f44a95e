"""The Debian package in a booted systemd: installed, upgraded from 0.1 with what it recorded, removed, purged."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.long, pytest.mark.systemd, pytest.mark.xdist_group("systemd"), pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).parents[2]
RECORDED = REPOSITORY / "tests/recorded/idlewatt-0.1.0.sql.gz"
KEPT = "# a line of the operator's\n"


@pytest.fixture(scope="module")
def simulation():
    """The URL of a simulated cluster at the far end of the wire."""
    with subprocess.Popen((sys.executable, "-m", "idlewatt.exporters.simulated", "--speed=1"), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as child:
        yield child.stdout.readline().strip()
        child.stdin.close()


@pytest.fixture(scope="module")
def machine(packages, boot):
    with boot(*packages, RECORDED) as booted:
        yield booted


def configuration(simulation: str) -> str:
    """Return what an operator wrote for 0.1 and today alike."""
    pages = [{"kind": kind, "http_sd_configs": [{"url": f"{simulation}/targets/{kind}"}]}
             for kind in ("dcgm", "node", "ipmi")]
    settings = {"cluster": "kept", "sources": [*pages, {"kind": "slurm_rest", "url": simulation}],
                "storage": {"url": "sqlite:////var/lib/idlewatt/idlewatt.db"}}
    return KEPT + yaml.safe_dump(settings)


def recorded_jobs() -> set[str]:
    """Return the ids of the jobs that 0.1.0 recorded."""
    import sqlite3

    with sqlite3.connect(":memory:") as database:
        database.executescript(gzip.decompress(RECORDED.read_bytes()).decode())
        return {job for job, in database.execute("SELECT job_id FROM jobs")}


def query(machine, sql: str) -> list[list]:
    script = ("import json, sqlite3; database = sqlite3.connect('/var/lib/idlewatt/idlewatt.db'); "
              f"print(json.dumps(database.execute({sql!r}).fetchall()))")
    return json.loads(machine.run("python3", "-c", script))


@pytest.fixture(scope="module")
def former(machine, packages, simulation):
    """Version 0.1.0, installed by its package, running on a past that it recorded."""
    machine.run("dpkg", "--install", f"/srv/packages/{packages[0].name}")
    assert machine.show("UnitFileState") == "disabled"
    machine.write("/etc/idlewatt/config.yml", configuration(simulation))
    machine.run("systemd-tmpfiles", "--create", "idlewatt.conf")
    machine.write("/etc/default/idlewatt", f'ARGS="--web.listen-address=127.0.0.1:{machine.port}"\n')
    machine.run("install", "-d", "-o", "idlewatt", "-g", "idlewatt", "-m", "750", "/var/lib/idlewatt")
    script = ("import gzip, sqlite3; sqlite3.connect('/var/lib/idlewatt/idlewatt.db').executescript("
              "gzip.open('/srv/packages/idlewatt-0.1.0.sql.gz', 'rt').read())")
    machine.run("runuser", "-u", "idlewatt", "--", "python3", "-c", script)
    machine.run("systemctl", "enable", "--now", "idlewatt")
    machine.wait_for(lambda: machine.get("/-/ready"))
    assert "0.1.0" in machine.run("idlewatt", "--version")
    return machine


@pytest.fixture(scope="module")
def upgraded(former, packages):
    process = former.show("MainPID")
    said = former.run("dpkg", "--install", f"/srv/packages/{packages[1].name}")
    former.wait_for(lambda: former.show("ActiveState") == "active" and former.show("MainPID") != process)
    former.wait_for(lambda: former.get("/-/ready"))
    return former, said


def test_an_upgrade_restarts_the_daemon_on_the_past_that_0_1_recorded(upgraded):
    machine, _ = upgraded
    assert f"version {packages_version()}" in machine.run("idlewatt", "--version")
    assert query(machine, "PRAGMA integrity_check") == [["ok"]]
    now = {job for job, in query(machine, "SELECT job_id FROM jobs")}
    assert recorded_jobs() - now == set()
    assert machine.get("/api/v1/nodes").json()["data"]


def test_an_upgrade_keeps_the_operators_files(upgraded, simulation):
    machine, said = upgraded
    assert machine.run("cat", "/etc/idlewatt/config.yml") == configuration(simulation).strip()
    assert str(machine.port) in machine.run("cat", "/etc/default/idlewatt")
    assert machine.run("stat", "--format=%U:%G %a", "/etc/idlewatt/config.yml") == "root:idlewatt 640"
    assert machine.run("stat", "--format=%U:%G %a", "/etc/default/idlewatt") == "root:root 640"
    assert "needs your hand" not in said


def test_a_key_of_0_1_is_named_with_its_new_name_while_the_package_is_installed(upgraded, simulation):
    machine, _ = upgraded
    machine.write("/etc/idlewatt/config.yml", configuration(simulation) + "counsel: {}\n")
    said = machine.run("dpkg-reconfigure", "--frontend=noninteractive", "idlewatt")
    assert "needs your hand" in said
    assert "recommenders" in said
    machine.write("/etc/idlewatt/config.yml", configuration(simulation))


def test_manual_pages_and_completions_are_installed(upgraded):
    machine, _ = upgraded
    assert "Replay a history" in machine.run("sh", "-c", "man idlewatt-replay | col -b")
    assert "_idlewatt_completion" in machine.run("cat", "/usr/share/bash-completion/completions/idlewatt")


def test_a_removal_stops_the_daemon_and_keeps_what_it_recorded(upgraded):
    machine, _ = upgraded
    machine.run("dpkg", "--remove", "idlewatt")
    assert machine.show("ActiveState") == "inactive"
    assert machine.run("ls", "/var/lib/idlewatt/idlewatt.db", "/etc/idlewatt/config.yml")
    assert machine.run("sh", "-c", "ls -d /opt/idlewatt /usr/bin/idlewatt 2> /dev/null || true") == ""


def test_a_purge_leaves_nothing(upgraded):
    machine, _ = upgraded
    machine.run("dpkg", "--purge", "idlewatt")
    left = machine.run("find", "/etc", "/opt", "/usr/bin", "/usr/lib", "/usr/share", "/lib/systemd", "/var", "-xdev",
                       "-name", "*idlewatt*", "-not", "-path", "*/site-packages/*", "-not", "-path", "/var/log/*",
                       "-not", "-path", "/var/cache/man/*")
    assert left == ""
    assert machine.run("sh", "-c", "getent passwd idlewatt || getent group idlewatt || true") == ""


def packages_version() -> str:
    return next(line.removeprefix("version = ") for line in (REPOSITORY / "setup.cfg").read_text().splitlines()
                if line.startswith("version = "))
