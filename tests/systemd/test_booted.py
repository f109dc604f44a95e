"""The shipped unit in a booted systemd: as root installs it, hardening on, against a simulated cluster on loopback."""

import base64
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
import yaml
from compiled_ahead import advice_is_compiled
from cost import widened
from letters import mail_server, telling
from sites import record
from sites import site as three_weeks
from slow_clients import HALF_A_HEADER, SlowClients
from unit_machine import COMPILED_THERE, REPOSITORY, Machine

from idlewatt.daemon.cli.demo import DemoPlan, configuration

pytestmark = [pytest.mark.systemd, pytest.mark.xdist_group("systemd"), pytest.mark.timeout(1800)]

POSTGRESQL = """set -e
install -d -o postgres -m 755 /srv/postgresql
cd /srv/postgresql
runuser -u postgres -- "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/pg_ctl" --pgdata /srv/postgresql/data initdb \
    --options "--auth=peer --no-sync" > /dev/null
"""
POSTGRESQL_CONTROL = """cd /srv/postgresql
exec runuser -u postgres -- "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/pg_ctl" --pgdata /srv/postgresql/data "$@" \
    > /dev/null
"""
POSTGRESQL_START = ("start", "--wait", "--log", "/srv/postgresql/log",
                    "--options", "-c listen_addresses='' -c unix_socket_directories=/srv/postgresql")


@pytest.fixture(scope="module")
def simulation():
    """The URL of a simulated cluster at the far end of the wire."""
    with subprocess.Popen((sys.executable, "-m", "idlewatt.exporters.simulated", "--speed=1"), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as child:
        yield child.stdout.readline().strip()
        child.stdin.close()


@pytest.fixture(scope="module")
def machine(simulation):
    # Not pytest's own folder: the unit's user must be able to walk there.
    config = configuration(simulation, DemoPlan(Path("/var/lib/idlewatt"), 4, 1, 60.0, 9723, "slurm"))
    machine = Machine(Path(tempfile.mkdtemp(prefix="idlewatt-systemd-")),
                      config | {"cycles": dict.fromkeys(config["cycles"], "1s")})
    try:
        machine.boot()
        machine.install()
        yield machine
    finally:
        machine.stop()


@dataclass(frozen=True)
class FirstStart:
    """The states that the unit went through until there was advice, and what was compiled for that."""

    states: set[str]
    compiled: set[str]


@pytest.fixture(scope="module")
def first_start(machine):
    """The first start: without any machine code, or with all of this run's but for one part of the active policy."""
    given = set()
    if advice_is_compiled():
        machine.take_machine_code()
        given = machine.machine_code()
    states = []
    machine.run("systemctl", "start", "--no-block", "idlewatt")

    def active():
        states.append(machine.show("ActiveState"))
        return states[-1] == "active"

    machine.wait_for(active)
    machine.wait_for(machine.ready)
    machine.wait_for(machine.advised)
    return FirstStart(set(states), {line.split()[0] for line in machine.machine_code() - given})


def running(machine):
    """Return the process of the running unit, None while it does not run."""
    return int(machine.show("MainPID")) if machine.show("ActiveState") == "active" else None


def test_the_unit_is_active_only_once_the_daemon_is_ready(machine, first_start):
    assert first_start.states == {"activating", "active"}
    assert machine.value("idlewatt_unaccounted_power_watts") == pytest.approx(0, abs=0.01)
    assert machine.show("StatusText") == "watching with 7 sources"


def test_the_unit_compiles_what_is_not_there_and_nothing_that_is(first_start):
    compiled = {file.partition(".")[0] for file in first_start.compiled}
    assert COMPILED_THERE in compiled
    assert compiled == {COMPILED_THERE} or not advice_is_compiled(), first_start.compiled


def test_the_daemon_is_nobody_special(machine, first_start):
    status = machine.run("cat", f"/proc/{running(machine)}/status")

    assert machine.run("stat", "--format=%U", f"/proc/{running(machine)}") == "idlewatt"
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


def test_its_own_process_is_measured_in_spite_of_the_hardening(machine, first_start):
    assert 0 < machine.value("process_resident_memory_bytes") < 250 * 2**20
    assert machine.value("process_open_fds") > 5
    assert machine.value("process_start_time_seconds") == pytest.approx(time.time(), abs=3600)


def test_a_reload_takes_effect_and_a_bad_one_does_not(machine, first_start):
    before = running(machine)
    loaded = machine.value("idlewatt_config_last_reload_success_timestamp_seconds")
    machine.write("/etc/idlewatt/config.yml", machine.config.replace("advise: 1s", "advise: 2s"))
    machine.run("systemctl", "reload", "idlewatt")
    machine.wait_for(lambda: machine.value("idlewatt_config_last_reload_success_timestamp_seconds") > loaded)

    machine.write("/etc/idlewatt/config.yml", machine.config + "typo: 1\n")
    machine.run("systemctl", "reload", "idlewatt")
    machine.wait_for(lambda: machine.value("idlewatt_config_last_reload_successful") == 0)
    assert "unknown key" in machine.run("journalctl", "--unit=idlewatt", "--output=cat")
    assert machine.value("idlewatt_advice_interval_seconds") == 2

    machine.write("/etc/idlewatt/config.yml", machine.config)
    machine.run("systemctl", "reload", "idlewatt")
    machine.wait_for(lambda: machine.value("idlewatt_config_last_reload_successful") == 1)
    assert machine.wait_for(lambda: running(machine)) == before


def test_owners_are_told_by_mail_and_a_hook_runs_in_spite_of_the_hardening(machine):
    with mail_server() as (box, port):
        machine.write("/etc/idlewatt/config.yml", telling(machine.config, port))
        machine.run("systemctl", "reload-or-restart", "idlewatt")
        machine.wait_for(lambda: box.taken)
        sent = 'SELECT DISTINCT channel FROM notices WHERE state = "sent" ORDER BY channel'
        machine.wait_for(lambda: machine.query(sent) == [["hook"], ["mail"]])
    assert "done nothing for" in box.taken[0][1]
    machine.write("/etc/idlewatt/config.yml", machine.config)
    machine.run("systemctl", "reload", "idlewatt")


def test_a_killed_daemon_is_started_again_with_its_data_and_compiles_nothing(machine, first_start):
    # A reload just before may still be under way: the unit is not active then.
    before, jobs = machine.wait_for(lambda: running(machine)), machine.query("SELECT job_id, submit_s FROM jobs")
    compiled = machine.machine_code()
    machine.run("kill", "-KILL", str(before))
    machine.wait_for(lambda: running(machine) not in (None, before))
    machine.wait_for(machine.advised)

    assert machine.show("NRestarts") == "1"
    assert machine.query("PRAGMA integrity_check") == [["ok"]]
    assert jobs
    assert [job for job in jobs if job not in machine.query("SELECT job_id, submit_s FROM jobs")] == []
    assert machine.machine_code() == compiled


def test_a_hanging_daemon_is_ended_by_the_watchdog_and_started_again(machine, first_start):
    before = machine.wait_for(lambda: running(machine))
    machine.run("kill", "-STOP", str(before))
    machine.wait_for(lambda: running(machine) not in (None, before))

    assert "Watchdog timeout" in machine.run("journalctl", "--unit=idlewatt", "--output=cat")
    machine.wait_for(machine.ready)


@pytest.fixture
def many(tmp_path):
    """The sources of 600 nodes with three pages each; every sixth node takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "hung.json").write_text(json.dumps(list(range(0, 600, 6))))
    farm = REPOSITORY / "tests/benchmarks/farm.py", str(port), "600", REPOSITORY / "tests/recorded/node_exporter.prom"
    with subprocess.Popen((sys.executable, *farm, tmp_path / "hung.json"), stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield [{"kind": kind, "name": f"many-{kind}", "targets": [
            f"127.{1 + node // 200}.{1 + node % 200}.{1 + number}:{port}" for node in range(600)]}
            for number, kind in enumerate(("dcgm", "node", "ipmi"))]
        process.kill()


def test_more_targets_than_a_process_usually_may_open_many_of_them_hung(machine, many):
    config = yaml.safe_load(machine.config)
    config["cycles"]["scrape"] = "5s"
    machine.write("/etc/idlewatt/config.yml", yaml.safe_dump(config | {"sources": config["sources"] + many}))
    machine.run("systemctl", "restart", "idlewatt")
    restarts, process = machine.show("NRestarts"), running(machine)
    machine.wait_for(machine.ready)
    for source in many:
        machine.wait_for(lambda name=source["name"]: machine.value(f'idlewatt_up{{collector="{name}"}}') == 1)
    machine.wait_for(lambda: machine.value("process_open_fds") > 1500)  # 500 nodes answer, each page keeps its own
    assert (machine.show("NRestarts"), running(machine)) == (restarts, process)
    began = time.monotonic()
    machine.run("systemctl", "stop", "idlewatt")
    took = time.monotonic() - began
    assert machine.show("Result") == "success"
    assert took < widened(3)
    assert "Too many open files" not in machine.run("journalctl", "--unit=idlewatt", "--output=cat")
    machine.write("/etc/idlewatt/config.yml", machine.config)
    machine.run("systemctl", "start", "idlewatt")


def test_it_stops_at_once_with_everything_written(machine, first_start):
    machine.wait_for(lambda: running(machine))
    began = time.monotonic()
    machine.run("systemctl", "stop", "idlewatt")

    assert time.monotonic() - began < widened(20)
    assert (machine.show("ActiveState"), machine.show("Result"), machine.show("ExecMainStatus")) \
        == ("inactive", "success", "0")
    assert machine.query("PRAGMA integrity_check") == [["ok"]]
    written = machine.run("find", "/dev/shm", "/etc", "/run", "/srv", "/tmp", "/var", "-user", "idlewatt").splitlines()
    assert {path for path in written if not path.startswith(("/var/lib/idlewatt", "/var/cache/idlewatt"))} == set()


@pytest.fixture(scope="module")
def site(machine, tmp_path_factory):
    """Three recorded weeks of another site, and the training unit pointed at them: the daemon's own are an hour."""
    folder = tmp_path_factory.mktemp("site")
    record(f"sqlite:///{folder}/site.db", three_weeks(days=20, jobs=1700, since_s=time.time() - 20.1 * 86400))
    machine.run("install", "--directory", "--owner=idlewatt", "--group=idlewatt", "--mode=750", "/var/lib/idlewatt")
    machine.run("runuser", "-u", "idlewatt", "--", "sh", "-c", "base64 --decode > /var/lib/idlewatt/site.db",
                input=base64.b64encode((folder / "site.db").read_bytes()).decode())
    machine.write("/etc/idlewatt/site.yml",
                  "storage: {url: 'sqlite:////var/lib/idlewatt/site.db'}\ntraining: {budget: 5s}\n")
    machine.write("/etc/systemd/system/idlewatt-train.service.d/test.conf",
                  "[Service]\nExecStart=\nExecStart=/opt/idlewatt/bin/idlewatt train --nightly "
                  "--config.file=/etc/idlewatt/site.yml\n")
    machine.run("systemctl", "daemon-reload")
    if advice_is_compiled():
        machine.take_machine_code()  # what trainings run, as far as tests of agents have compiled it by now
    return "/etc/idlewatt/site.yml"


@pytest.mark.long
def test_the_timers_unit_trains_a_model_under_its_hardening(machine, site):
    machine.run("systemctl", "start", "--no-block", "idlewatt-train")

    def ended():
        return machine.run("systemctl", "show", "--property=ActiveState", "--value", "idlewatt-train") == "inactive"

    machine.wait_for(lambda: not ended())
    nice = machine.run("sh", "-c", "ps -o ni= -p $(systemctl show --property=MainPID --value idlewatt-train)")
    machine.wait_for(lambda: machine.hurry() and ended(), 240)
    log = machine.run("journalctl", "--unit=idlewatt-train", "--output=cat")
    assert "done: scorer@" in log
    assert nice.strip() == "19"
    models = json.loads(machine.run("runuser", "-u", "idlewatt", "--", "/opt/idlewatt/bin/idlewatt", "models",
                                    "--format=json", f"--config.file={site}"))
    assert {model["by"] for model in models if model["card"]} == {"nightly"}
    trained = next(model for model in models if model["model"].startswith("scorer@"))
    assert machine.run("stat", "--format=%U", trained["folder"]) == "idlewatt"
    timer = machine.run("systemctl", "list-timers", "--all", "--no-legend")
    assert "idlewatt-train" not in timer, "nobody enabled it"


@pytest.mark.long
def test_the_daemon_replays_closed_windows_and_trains_at_night_under_its_hardening(machine, site):
    """The clock says when: as soon as the daemon watches, on the recorded weeks."""
    settings = yaml.safe_load(machine.config) | {"storage": {"url": "sqlite:////var/lib/idlewatt/site.db"}}
    machine.write("/etc/idlewatt/config.yml", yaml.safe_dump(settings))
    machine.run("systemctl", "start", "idlewatt")  # it returns once the daemon watches
    restarts = machine.show("NRestarts")
    at = datetime.now().replace(microsecond=0) + timedelta(seconds=1)
    night = {"enabled": True, "at": f"{at:%H:%M:%S}", "budget": "5s"}
    machine.write("/etc/idlewatt/config.yml", yaml.safe_dump(settings | {"training": night}))
    # It looks whether it is time as soon as it is reloaded, and not again for a minute.
    machine.wait_for(lambda: datetime.now() > at)
    machine.run("systemctl", "reload", "idlewatt")
    machine.wait_for(lambda: machine.hurry() and machine.series("idlewatt_simulated_energy_joules_total"), 120)
    ended = machine.wait_for(lambda: machine.hurry() and [
        line for line in machine.series("idlewatt_training_runs_total") if not line.endswith(" 0.0")], 240)
    assert ended == ['idlewatt_training_runs_total{result="done"} 1.0'], machine.run("journalctl", "--unit=idlewatt")
    assert machine.show("NRestarts") == restarts, machine.run("journalctl", "--unit=idlewatt")
    machine.run("systemctl", "stop", "idlewatt")
    machine.write("/etc/idlewatt/config.yml", machine.config)


class PostgreSQL:
    """A server inside the machine that knows the unit's user by the socket: peer authentication."""

    def __init__(self, machine):
        self._machine = machine
        machine.run("sh", "-c", POSTGRESQL)

    def control(self, *arguments):
        self._machine.run("sh", "-c", POSTGRESQL_CONTROL, "pg_ctl", *arguments)

    def ask(self, sql, database="idlewatt"):
        """Return the lines that the server answers."""
        return self._machine.run("runuser", "-u", "postgres", "--", "psql", "-h", "/srv/postgresql", "-d", database,
                                 "-Atc", sql).splitlines()

    def jobs(self):
        """Return the jobs that are recorded."""
        return set(self.ask("SELECT job_id FROM jobs"))


@pytest.fixture(scope="module")
def postgresql(machine):
    """A PostgreSQL that runs, and the unit recording in it."""
    server = PostgreSQL(machine)
    server.control(*POSTGRESQL_START)
    server.ask("CREATE USER idlewatt", "postgres")
    server.ask("CREATE DATABASE idlewatt OWNER idlewatt", "postgres")
    machine.write("/etc/idlewatt/config.yml", yaml.safe_dump(yaml.safe_load(machine.config) | {
        "storage": {"url": "postgresql://idlewatt@/idlewatt?host=/srv/postgresql"}}))
    machine.run("systemctl", "restart", "idlewatt")
    yield server
    machine.run("systemctl", "stop", "idlewatt")
    machine.write("/etc/idlewatt/config.yml", machine.config)


def backlog(machine):
    return machine.value("idlewatt_recorder_backlog_records")


def test_the_daemon_records_over_the_socket_of_a_postgresql_in_spite_of_the_hardening(machine, postgresql):
    machine.wait_for(lambda: backlog(machine) == 0 and postgresql.jobs())


@pytest.mark.long
def test_an_outage_of_postgresql_loses_nothing_though_the_unit_is_stopped_and_started_meanwhile(machine, postgresql):
    machine.wait_for(lambda: backlog(machine) == 0)
    postgresql.control("stop", "--mode", "immediate")
    machine.wait_for(lambda: backlog(machine) > 0)
    machine.wait_for(lambda: machine.value('idlewatt_degraded{cause="database_behind"}') == 1)
    seen = {row["job_id"] for row in machine.rows("jobs")}
    machine.run("systemctl", "stop", "idlewatt")
    assert machine.show("Result") == "success"
    assert machine.run("find", "/var/lib/idlewatt", "-path", "*.spool/*", "-size", "+0"), "facts wait on the disk"
    machine.run("systemctl", "start", "--no-block", "idlewatt")
    machine.wait_for(lambda: int(machine.show("NRestarts")) > 0)  # it is ready with its database, and not before

    postgresql.control(*POSTGRESQL_START)
    machine.wait_for(lambda: backlog(machine) == 0)
    assert seen
    assert seen <= postgresql.jobs()
    assert machine.value("idlewatt_recorder_dropped_records_total") == 0
    machine.wait_for(lambda: machine.value('idlewatt_degraded{cause="database_behind"}') == 0)


def test_a_thousand_slow_clients_hold_up_neither_prometheus_nor_the_health_check_of_the_unit(machine, postgresql):
    machine.wait_for(machine.ready)
    process = running(machine)
    with SlowClients(machine.port, HALF_A_HEADER):
        for path in ("metrics", "-/healthy"):
            took = [requests.get(f"{machine.url}/{path}", timeout=60).elapsed.total_seconds() for _ in range(5)]
            assert statistics.median(took) < widened(1), path
    assert running(machine) == process


@pytest.mark.long
def test_the_timers_unit_refuses_where_the_daemon_trains(machine, site):
    machine.write(site, "storage: {url: 'sqlite:////var/lib/idlewatt/site.db'}\ntraining: {enabled: true}\n")
    with pytest.raises(AssertionError, match="failed"):
        machine.run("systemctl", "start", "idlewatt-train")
    assert "one of them, never both" in machine.run("journalctl", "--unit=idlewatt-train", "--output=cat")


QUEUE = "/var/lib/idlewatt-follow/queue"
SQUEUE = f'#!/bin/sh\necho "7|7|PENDING|gpu|ada|$(cat {QUEUE} 2> /dev/null)|0|2026-11-22T16:16:55"\n'
SCONTROL = f"#!/bin/sh\nsed -n 's/^update .*ReqNodeList=//p' > {QUEUE}\n"
"""It is told what to do on its standard input."""


@contextmanager
def adviser(rows):
    """Serve what a daemon answers that is well and advises these rows; yield its URL."""
    class Api(BaseHTTPRequestHandler):
        def do_GET(self):
            data = [{"ready": True}] if self.path.endswith("/status") else [
                row | {"issued_s": time.time(), "snapshot_s": time.time()} for row in rows]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"status": "success", "data": data}).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_follows_is_hardened_and_leaves_nothing_behind_when_it_is_killed(machine):
    submitted_s = datetime.fromisoformat("2026-11-22T16:16:55+00:00").timestamp()
    rows = [{"job_id": "7", "submit_s": submitted_s, "partition": "gpu", "policy": "easy", "action": "start",
             "placement": {"nodes": ["a"]}, "command": "scontrol update jobid=7 ReqNodeList=a"}]
    for name, text in {"squeue": SQUEUE, "scontrol": SCONTROL, "sinfo": "#!/bin/sh\necho gpu\n"}.items():
        machine.write(f"/srv/slurm/{name}", text)
        machine.run("chmod", "755", f"/srv/slurm/{name}")
    assert machine.run("systemctl", "list-unit-files", "idlewatt-follow.service").count("disabled") >= 1
    with adviser(rows) as url:
        machine.write("/etc/idlewatt-follow/config.yml", yaml.safe_dump({
            "dry_run": False, "daemon": {"url": url}, "slurm": {"bin_dir": "/srv/slurm"}, "every": "30s",
            "allow": {"partitions": ["gpu"], "users": ["ada"]}}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        machine.write("/etc/systemd/system/idlewatt-follow.service.d/test.conf",
                      "[Service]\nExecStart=\nExecStart=/opt/idlewatt/bin/idlewatt follow "
                      f"--web.listen-address=127.0.0.1:{port}\n")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "start", "idlewatt-follow")
        machine.wait_for(lambda: machine.run("sh", "-c", f"cat {QUEUE} 2> /dev/null || true") == "a")
        machine.wait_for(lambda: "idlewatt_follow_changes{attribute=\"required_nodes\"} 1.0" in requests.get(
            f"http://127.0.0.1:{port}/metrics", timeout=60).text)
        process = machine.run("systemctl", "show", "--property", "MainPID", "--value", "idlewatt-follow")
        status = machine.run("cat", f"/proc/{process}/status")
        assert machine.run("stat", "--format=%U", f"/proc/{process}") == "idlewatt-follow"
        assert "CapEff:\t0000000000000000" in status
        rows.clear()
        machine.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", "idlewatt-follow")
        machine.wait_for(lambda: machine.run("cat", QUEUE) == "")
        machine.run("systemctl", "stop", "idlewatt-follow")
        assert machine.run("systemctl", "is-active", "idlewatt-follow-guard.timer") == "active"
        machine.run("systemctl", "stop", "idlewatt-follow-guard.timer")
    (change,) = json.loads(machine.run("/opt/idlewatt/bin/idlewatt", "follow", "--ledger", "--format", "json"))
    assert (change["state"], change["why"]) == ("taken_back", "left behind by a former process")
