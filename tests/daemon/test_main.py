"""The real process: how it starts, what it refuses, what it survives, how it ends."""

import queue
import re
import resource
import signal
import socket
import sqlite3
import threading
import time
import weakref
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from cost import widened

from idlewatt.daemon import main
from idlewatt.daemon.cycles import Cycle, CycleScheduler
from idlewatt.daemon.facts import Known
from idlewatt.daemon.web.view import ReloadError
from idlewatt.storage.history import History
from idlewatt.storage.records import Node, SchedulerSnapshot


@pytest.fixture
def silent_target():
    """A target that takes connections and says nothing until the test lets it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held, stop = [], threading.Event()

        def accept() -> None:
            while not stop.is_set():
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()

        def let_go() -> None:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            for connection in held:
                connection.close()

        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics", let_go
        if not stop.is_set():
            let_go()


def rows(database, query):
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def children(running):
    """Return the folders in /proc of what a daemon has started."""
    found = Path(f"/proc/{running.popen.pid}/task/{running.popen.pid}/children").read_text().split()
    return [Path("/proc", child) for child in found]


def alive(process):
    """Tell whether the process of a folder in /proc still does anything; nobody may be there to bury it."""
    try:
        return (process / "stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


# Start.

HUNG = ("[{{kind: dcgm, targets: ['{0}'], timeout: 50s}}, {{kind: prometheus, url: '{0}', timeout: 50s}}, "
        "{{kind: node, http_sd_configs: [{{url: '{0}', timeout: 50s}}]}}, "
        "{{kind: slurm_rest, url: '{1}', http: {{timeout: 50s}}}}, "
        "{{kind: slurm_cli, bin_dir: '{2}', timeout: 50s}}, {{kind: slurm_topology, bin_dir: '{2}', timeout: 50s}}]")


@pytest.fixture
def everything_hangs(silent_target, tmp_path):
    """The sources of a site where every peer takes connections, or starts, and never answers."""
    for program in ("sinfo", "squeue", "scontrol", "sacct"):
        (tmp_path / program).write_text("#!/bin/sh\nexec sleep 600\n")
        (tmp_path / program).chmod(0o755)
    target, _ = silent_target
    return HUNG.format(target, target.removesuffix("/metrics"), tmp_path)


def test_it_serves_and_is_ready_for_the_service_manager_though_every_peer_hangs(
        daemon, configured, everything_hangs, manager, tmp_path):
    began = time.monotonic()
    running = daemon(configured(sources=everything_hangs, database=False), from_nothing=True,
                     env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
    assert heard(manager) == "READY=1"
    assert running.status("/-/healthy") == 200
    assert time.monotonic() - began < widened(15), "each peer would take fifty seconds"


def test_it_stops_at_once_though_every_peer_hangs(daemon, configured, everything_hangs):
    running = daemon(configured(sources=everything_hangs))
    running.until(lambda: (running.metric('idlewatt_cycle_duration_seconds{cycle="scrape"}') or 0) > 0)
    began = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - began < widened(3)
    assert "cycles hang" not in running.log


def test_a_reload_is_in_force_at_once_though_every_peer_hangs(daemon, configured, everything_hangs):
    running = daemon(configured(sources=everything_hangs))
    running.until(lambda: (running.metric('idlewatt_cycle_duration_seconds{cycle="scrape"}') or 0) > 0)
    configured(sources="[]")
    began = time.monotonic()
    running.popen.send_signal(signal.SIGHUP)
    running.said('event="configuration reloaded"')
    assert time.monotonic() - began < widened(15)
    running.until(lambda: len(children(running)) <= 1)  # at most the one that compiles policies


def test_it_is_ready_only_as_long_as_the_scheduler_is_read_and_says_so_everywhere(daemon, configured, rig):
    running = daemon(configured(waste="{scheduler_max_age: 1s}"))
    running.ready()
    rig.server.site._slurm, answers = {}, rig.server.site._slurm
    running.until(lambda: running.status("/-/ready") == 503)
    assert re.fullmatch(r"idlewatt is not ready: Slurm not read since \d\d:\d\d\.\n", running.page("/-/ready"))
    said = running.page("/-/ready").removeprefix("idlewatt is not ready: ").strip()
    assert said in running.page("/")
    running.until(lambda: running.metric('idlewatt_degraded{cause="scheduler_unread"}') == 1)
    assert "idlewatt_advice_info{" not in running.page("/metrics")
    running.said("event=degraded")
    rig.server.site._slurm = answers
    running.ready()
    assert running.metric('idlewatt_degraded{cause="scheduler_unread"}') == 0


def test_a_port_that_is_taken_is_named(daemon, configured):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = daemon(configured(), f"--web.listen-address={address}")
        assert refused.ended() == 1
    assert f"cannot listen on {address}: Address already in use; is another daemon running there?" in refused.log


def test_every_fault_of_a_bad_configuration_is_told(daemon, configured):
    refused = daemon(configured(colour="blue", cycles="{scrape: soon}"))
    assert refused.ended() == 2
    assert "colour: unknown key" in refused.log
    assert "cycles.scrape: 'soon' is not a duration" in refused.log
    assert "Traceback" not in refused.log


def test_a_configuration_that_is_not_there_is_named(daemon, tmp_path):
    refused = daemon(tmp_path / "nowhere.yml")
    assert refused.ended() == 2
    assert "nowhere.yml: cannot be read" in refused.log


def test_a_second_daemon_on_the_database_is_refused(daemon, configured):
    config = configured()
    first = daemon(config)
    first.ready()
    second = daemon(config)
    assert second.ended() == 1
    assert "another idlewatt daemon records into" in second.log
    assert f"process {first.popen.pid}" in second.log
    assert first.status("/-/ready") == 200


def test_a_database_of_a_newer_version_is_left_alone(daemon, configured, rig):
    first = daemon(configured())
    first.ready()
    assert first.stop() == 0
    with closing(sqlite3.connect(rig.folder / "idlewatt.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'f00000000000'")
    refused = daemon(configured())
    assert refused.ended() == 1
    assert "has schema f00000000000, which is newer than this idlewatt" in refused.log
    assert rows(rig.folder / "idlewatt.db", "SELECT version_num FROM alembic_version") == [("f00000000000",)]


@pytest.mark.parametrize(("url", "message"), [
    ("sqlite:////proc/idlewatt/idlewatt.db", "cannot create /proc/idlewatt/idlewatt.db.lock"),
    ("sqlite://", "names no file"),
    ("mysql://host/name", "idlewatt knows sqlite and postgresql"),
])
def test_a_database_that_cannot_be_made_is_named(daemon, configured, url, message):
    refused = daemon(configured(storage=f"{{url: '{url}'}}"))
    assert refused.ended() == 1
    assert message in refused.log
    assert "Traceback" not in refused.log


def test_a_web_configuration_that_is_wrong_is_named(daemon, configured, tmp_path):
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: nowhere.pem, key_file: nowhere.key}\n")
    refused = daemon(configured(), f"--web.config.file={tmp_path / 'web.yml'}")
    assert refused.ended() == 1
    assert "nowhere.pem" in refused.log


@pytest.mark.parametrize(("given", "raised"), [
    ((1024, 524288), (32768, 524288)), ((1024, 4096), (4096, 4096)), ((65536, 65536), None),
    ((1024, resource.RLIM_INFINITY), (32768, resource.RLIM_INFINITY)), ((resource.RLIM_INFINITY,) * 2, None)])
def test_as_many_descriptors_as_are_wanted_and_allowed_are_taken(monkeypatch, given, raised):
    limits = [None]
    monkeypatch.setattr(main.resource, "getrlimit", lambda _which: given)
    monkeypatch.setattr(main.resource, "setrlimit", lambda _which, limit: limits.append(limit))
    main._allow_descriptors()
    assert limits[-1] == raised


# Signals.

def test_a_good_reload_by_signal_is_in_force_and_shown(daemon, configured):
    running = daemon(configured())
    running.ready()
    before = running.metric("idlewatt_config_last_reload_success_timestamp_seconds")
    configured(advice="{policy: fifo+first-fit}")
    running.popen.send_signal(signal.SIGHUP)
    running.said('event="configuration reloaded"')
    assert running.metric("idlewatt_config_last_reload_successful") == 1
    assert running.metric("idlewatt_config_last_reload_success_timestamp_seconds") > before


def test_a_bad_reload_by_signal_is_said_and_shown_and_changes_nothing(daemon, configured):
    running = daemon(configured())
    running.ready()
    configured(colour="blue")
    running.popen.send_signal(signal.SIGHUP)
    assert "colour: unknown key" in running.said("configuration not reloaded")
    running.until(lambda: running.metric("idlewatt_config_last_reload_successful") == 0)
    runs = running.metric('idlewatt_cycle_duration_seconds{cycle="scrape"}')
    assert runs is not None
    configured()
    running.popen.send_signal(signal.SIGHUP)
    running.until(lambda: running.metric("idlewatt_config_last_reload_successful") == 1)


def test_reloading_over_the_web_must_be_allowed(daemon, configured):
    running = daemon(configured())
    assert running.status("/-/reload", "POST") == 403
    assert "configuration reloaded" not in running.log


def test_a_reload_over_the_web_tells_its_faults(daemon, configured):
    running = daemon(configured(), "--web.enable-lifecycle")
    running.ready()
    assert running.status("/-/reload", "POST") == 200
    configured(colour="blue")
    answer = requests.post(f"{running.url}/-/reload", timeout=60)
    assert answer.status_code == 500
    assert "colour: unknown key" in answer.text
    assert running.metric("idlewatt_config_last_reload_successful") == 0


def test_a_signal_that_comes_early_is_not_lost_and_kills_nobody(daemon, configured, silent_target):
    target, let_go = silent_target
    running = daemon(configured(sources=f"[{{kind: dcgm, targets: ['{target}'], timeout: 20s}}]"))
    running.said("event=listening")
    running.popen.send_signal(signal.SIGHUP)
    let_go()
    running.said('event="configuration reloaded"')


def test_a_clock_that_is_behind_the_history_is_waited_for_and_a_stop_is_not_held_up(daemon, configured, rig):
    with History.open(f"sqlite:///{rig.folder / 'idlewatt.db'}") as history:
        history.record_snapshot(SchedulerSnapshot(time.time() + 7200.0, (Node("a", ("gpu",), 8),)))
    running = daemon(configured())
    running.said("the clock is behind what was recorded last")
    assert "event=ready" not in running.log
    assert running.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_when_told_and_keeps_what_it_knows(daemon, configured, rig, number):
    running = daemon(configured())
    counted = re.compile(r"^idlewatt_energy_joules_total{.*} (?!0.0$)", re.MULTILINE)
    running.until(lambda: counted.search(running.page("/metrics")))
    running.popen.send_signal(number)
    assert running.ended(15) == 0
    assert "event=stopped" in running.log
    assert rows(rig.folder / "idlewatt.db", "PRAGMA integrity_check") == [("ok",)]
    assert rows(rig.folder / "idlewatt.db", "SELECT count(*) FROM waste")[0][0] > 0


def test_it_stops_at_once_while_policies_are_being_compiled(daemon, configured, tmp_path):
    running = daemon(configured(database=False), env={"NUMBA_CACHE_DIR": str(tmp_path / "cold")}, from_nothing=True)
    running.ready()
    compiling = children(running)
    assert compiling
    began = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - began < widened(5)
    assert not any(map(alive, compiling))


@pytest.mark.long
def test_nobody_goes_on_compiling_for_a_daemon_that_was_killed(daemon, configured, tmp_path):
    running = daemon(configured(database=False), env={"NUMBA_CACHE_DIR": str(tmp_path / "cold")}, from_nothing=True)
    running.ready()
    compiling = children(running)
    assert compiling
    running.popen.kill()
    pause, deadline = threading.Event(), time.monotonic() + 60
    while any(map(alive, compiling)):
        assert time.monotonic() < deadline
        pause.wait(0.05)


def test_a_daemon_that_is_killed_leaves_a_sound_database_and_the_next_one_goes_on(daemon, configured, rig):
    # Without advice, which is none of this test's matter: on a busy machine its compilation is in the way.
    config = configured(cycles="{scrape: 200ms, jobs: 200ms, assess: 200ms, advise: 1h, record: 200ms}")
    first = daemon(config)
    first.ready()
    first.until(lambda: rows(rig.folder / "idlewatt.db", "SELECT count(*) FROM jobs")[0][0])
    first.popen.kill()
    assert first.ended() == -signal.SIGKILL
    assert rows(rig.folder / "idlewatt.db", "PRAGMA integrity_check") == [("ok",)]
    again = daemon(config)
    again.ready()

    def shown():
        return {job["job_id"] for job in requests.get(f"{again.url}/api/v1/jobs", timeout=60).json()["data"]}

    def recorded():
        return {job for (job,) in rows(rig.folder / "idlewatt.db", "SELECT job_id FROM jobs")}

    again.until(lambda: shown() and shown() <= recorded())


# The service manager.

@pytest.fixture
def manager(tmp_path):
    """A service manager's end of the notification socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


def heard(manager, *wanted):
    """Return the next datagram's first line, leaving out pings of the watchdog unless they are wanted."""
    while True:
        first = manager.recv(1000).decode().splitlines()[0]
        if first != "WATCHDOG=1" or "WATCHDOG=1" in wanted:
            return first


def test_the_service_manager_is_told_every_turn_of_its_life(daemon, configured, manager, tmp_path):
    running = daemon(configured(), env={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"})
    assert heard(manager, "WATCHDOG=1") == "READY=1"
    assert running.status("/-/healthy") == 200
    assert heard(manager, "WATCHDOG=1") == "WATCHDOG=1"
    running.popen.send_signal(signal.SIGHUP)
    assert heard(manager) == "RELOADING=1"
    assert heard(manager) == "READY=1"
    assert heard(manager, "WATCHDOG=1") == "WATCHDOG=1"
    running.popen.terminate()
    assert heard(manager) == "STOPPING=1"
    assert running.ended() == 0


@pytest.fixture
def watched(manager, monkeypatch, tmp_path):
    """The main thread's watch over a beat that never beats, on a clock that the test moves."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    now = [0.0]
    service = SimpleNamespace(beat=CycleScheduler([Cycle("scrape", 15.0, lambda: None)], clock=lambda: now[0]),
                              known=Known())
    signals, prepared = main.Signals(threading.Event()), queue.SimpleQueue()
    view, app = SimpleNamespace(reload=lambda: None), SimpleNamespace(prepare=lambda: prepared.put(service.known))
    thread = threading.Thread(target=main._watch, args=(service, view, app, signals))
    thread.start()
    yield SimpleNamespace(now=now, view=view, signals=signals, service=service, prepared=prepared)
    signals.stop.set()
    thread.join()


def test_the_watchdog_is_pinged_only_while_every_cycle_comes_round(watched, manager, caplog):
    assert heard(manager, "WATCHDOG=1") == "WATCHDOG=1"
    watched.now[0] = 100.0
    deadline = time.monotonic() + 60
    while "cycles hang" not in caplog.text:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    manager.setblocking(False)
    while True:
        try:
            manager.recv(1000)
        except BlockingIOError:
            break
    manager.settimeout(0.5)
    with pytest.raises(TimeoutError):
        manager.recv(1000)


def test_a_reload_that_fails_still_ends_for_the_service_manager(watched, manager):
    def refuse() -> None:
        raise ReloadError("colour: unknown key")

    watched.view.reload = refuse
    watched.signals.reload = True
    assert heard(manager) == "RELOADING=1"
    assert heard(manager) == "READY=1"


def test_the_metrics_page_is_prepared_once_for_each_change_of_what_is_known(watched):
    for _ in range(2):
        watched.service.known = Known()
        assert watched.prepared.get(timeout=60) is watched.service.known
    assert watched.prepared.empty()


def test_what_was_known_is_not_kept_until_the_next_look():
    service, kept = SimpleNamespace(beat=CycleScheduler([]), known=Known()), []

    def glance(_period_s: float) -> bool:
        before, service.known = weakref.ref(service.known), Known()
        kept.append(before() is not None)
        return len(kept) == 2

    main._watch(service, None, SimpleNamespace(prepare=lambda: None), main.Signals(SimpleNamespace(wait=glance)))
    assert kept == [False, False]


def test_memory_that_is_not_in_use_is_returned_again_and_again(monkeypatch, request):
    returned = queue.SimpleQueue()
    monkeypatch.setattr(main, "GIVE_BACK_S", 0.0)
    monkeypatch.setattr(main, "give_back", lambda: returned.put(None))
    request.getfixturevalue("watched")
    for _ in range(2):
        returned.get(timeout=60)


# Log lines.

def test_a_target_that_is_down_is_one_structured_line_not_one_a_scrape(daemon, configured):
    running = daemon(configured(sources="[{kind: dcgm, targets: ['127.0.0.1:1']}]"))
    running.ready()
    running.until(lambda: (running.metric('idlewatt_cycle_duration_seconds{cycle="assess"}') or 0) > 0)
    before = running.metric("process_cpu_seconds_total")
    running.until(lambda: (running.metric("process_cpu_seconds_total") or 0) > (before or 0) + 0.3)
    warnings = [line for line in running.lines if "127.0.0.1:1" in line]
    assert len(warnings) == 1
    assert "level=warning" in warnings[0]
    assert running.metric('idlewatt_up{collector="dcgm"}') == 0


# A database in trouble.

def backlog(running):
    return running.metric("idlewatt_recorder_backlog_records")


def recorded_jobs(rig):
    return {row[0] for row in rows(rig.folder / "idlewatt.db", "SELECT job_id FROM jobs")}


def submitted(running):
    return {job["job_id"] for job in requests.get(f"{running.url}/api/v1/jobs", timeout=60).json()["data"]}


def times_change(running, rig):
    """Let two hours pass at once while nothing can be written; return the jobs that the daemon has seen then."""
    before = submitted(running)
    rig.now_s += 7200
    running.until(lambda: submitted(running) - before)
    running.until(lambda: (backlog(running) or 0) > 0)
    return before | submitted(running)


def test_a_database_that_another_program_locks_for_a_while_loses_nothing(daemon, configured, rig):
    database = rig.folder / "idlewatt.db"
    running = daemon(configured(storage=f"{{url: 'sqlite:///{database}?timeout=0.1'}}"))
    running.ready()
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        seen = times_change(running, rig)
        assert "is locked by another program" in running.said("history cannot be written")
        assert running.status("/-/ready") == 200
        assert running.metric('idlewatt_up{collector="dcgm"}') == 1
        other.execute("ROLLBACK")
    running.until(lambda: backlog(running) == 0)
    running.until(lambda: recorded_jobs(rig) >= seen)


def test_a_disk_that_takes_no_more_stops_nothing_and_loses_nothing(daemon, configured, rig):
    running = daemon(configured())
    running.ready()
    limits = resource.prlimit(running.popen.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(running.popen.pid, resource.RLIMIT_FSIZE, (4096, limits[1]))
    seen = times_change(running, rig)
    running.said("history cannot be written")
    assert running.status("/-/ready") == 200
    resource.prlimit(running.popen.pid, resource.RLIMIT_FSIZE, limits)
    running.until(lambda: backlog(running) == 0)
    running.until(lambda: recorded_jobs(rig) >= seen)
    assert rows(rig.folder / "idlewatt.db", "PRAGMA integrity_check") == [("ok",)]
