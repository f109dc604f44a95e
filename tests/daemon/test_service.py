import gc
import os
import sqlite3
import threading
import time
from contextlib import closing
from functools import partial

import pytest
from cost import widened

from idlewatt.daemon import config, opening
from idlewatt.daemon.advice import warm_up
from idlewatt.daemon.advice.recommender import Recommendations
from idlewatt.daemon.advice.warm_up import WarmUp
from idlewatt.daemon.config import ConfigError
from idlewatt.daemon.settings.priority import MULTIFACTOR, PRIORITY_LINES
from idlewatt.daemon.settings.sections import FIRST_COME
from idlewatt.daemon.view import DaemonView
from idlewatt.exporters.source import SourceError
from idlewatt.storage.errors import StoreLocked, StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Request


def wait_until(condition, timeout_s=60.0):
    event, deadline = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        event.wait(0.01)


def published(service):
    return DaemonView(service, lambda: service.settings).published()


def collect(service):
    for cycle in (service.jobs, service.scrape, service.assess):
        cycle()


def test_one_round_knows_every_watt_and_every_pending_job(rig):
    service = rig.service()
    collect(service)
    service.advise()
    facts = published(service)
    wall = sum(facts.node_power_watts.values())
    assert sum(facts.power_watts.values()) == pytest.approx(wall)
    assert facts.unaccounted_power_watts == pytest.approx(0.0, abs=1e-6)
    assert set(facts.up.values()) == {1.0}
    pending = {job.job_id for job in service.known.snapshot.jobs if job.state is JobState.PENDING}
    advised = {row.job_id for row in service.known.advice.recommendations if not row.shadow}
    assert pending == advised != set()


def test_wall_power_is_what_the_meters_say(rig):
    service = rig.service()
    collect(service)
    meters = {reading.node: reading.power_watts for reading in service.known.telemetry.nodes if reading.power_watts}
    for row in DaemonView(service, lambda: service.settings).nodes():
        assert row.power_watts >= meters[row.node.name] - 1e-6


def test_the_shadow_policies_are_marked_as_such_and_never_published_as_advice(rig):
    service = rig.service()
    collect(service)
    service.advise()
    shadows = [row for row in service.known.advice.recommendations if row.shadow]
    assert {row.policy for row in shadows} == {"fifo+first-fit"}
    assert {labels[0] for labels in published(service).advice_info} <= {"limit-aged+best-fit+easy"}


def test_what_is_advised_is_published_with_its_reason_and_what_is_held_with_its_expected_start(rig):
    service = rig.service()
    collect(service)
    service.advise()
    advice, facts = service.known.advice, published(service)
    rows = [row for row in advice.recommendations if not row.shadow]
    assert {row.action for row in rows} == {"start", "hold"}
    assert set(facts.advice_reason_info) == {(row.policy, row.job_id, row.action, row.reason) for row in rows}
    assert {job for _, _, job, *_ in facts.advice_info} == {row.job_id for row in rows if row.action == "start"}
    assert facts.advice_expected_start_timestamp_seconds == {
        (row.policy, row.job_id): row.expected_start_s for row in rows if row.action == "hold"}
    assert set(facts.power_down_info) == set(advice.power_down)


def test_a_source_that_fails_keeps_its_last_good_data_and_its_age_and_the_rest_works(rig):
    service = rig.service()
    collect(service)
    before = service.known.snapshot
    answers = rig.server.site._slurm.copy()
    rig.server.site._slurm.clear()
    rig.watch(service, 15)
    facts = published(service)
    assert facts.up == {"dcgm": 1.0, "node": 1.0, "ipmi": 1.0, "slurm_rest": 0.0}
    assert facts.last_success_timestamp_seconds["slurm_rest"] == rig.now_s - 15
    assert service.known.snapshot == before
    assert service.known.assessment.time_s == rig.now_s
    rig.server.site._slurm.update(answers)
    rig.watch(service, 15)
    assert published(service).up["slurm_rest"] == 1.0


def test_without_telemetry_everything_becomes_unmeasured_and_nothing_wasted(rig):
    service = rig.service()
    collect(service)
    rig.server.site._pages = {}
    rig.watch(service, 300)
    facts = published(service)
    assert sum(facts.unmeasured_gpus.values()) == 32
    assert sum(facts.wasted_power_watts.values()) == pytest.approx(0.0)
    assert sum(facts.unmeasured_seconds_total.values()) > 0


def test_energy_is_the_integral_of_power_over_the_watched_time(rig):
    service = rig.service()
    collect(service)
    rig.watch(service, 15)
    before = sum(published(service).energy_joules_total.values())
    power = sum(published(service).power_watts.values())
    rig.watch(service, 15)
    after = sum(published(service).energy_joules_total.values())
    assert after - before == pytest.approx(15 * sum(published(service).power_watts.values()))
    assert after - before == pytest.approx(15 * power, rel=0.2)


@pytest.mark.long
def test_the_idle_and_the_hung_job_of_the_scene_are_found_within_half_an_hour(rig):
    service = rig.service()
    collect(service)
    rig.watch(service, 1800)
    states = {gpu.job_id: gpu.state for gpu in service.known.assessment.gpu_verdicts if gpu.job_id}
    assert PowerClass.ALLOCATED_IDLE in states.values()
    assert PowerClass.ALLOCATED_HUNG in states.values()


def test_who_records_looks_for_no_garbage(rig, monkeypatch):
    """Which takes longer than all else where days are lived through in seconds."""
    looks = []
    service = rig.service()
    collect(service)
    monkeypatch.setattr(gc, "collect", lambda *_: looks.append(None))
    service.record()
    assert looks == []


def test_a_followed_recommendation_is_recorded_and_counted(rig):
    service = rig.service()
    collect(service)
    service.advise()
    chosen = next(row for row in service.known.advice.recommendations
                  if row.action == "start" and not row.shadow and sum(row.placement.gpus) > 1)
    rig.cluster.steer(int(chosen.job_id), chosen.placement.nodes)
    for _ in range(2000):
        rig.watch(service, 15)
        started = next(job for job in service.known.snapshot.jobs if job.job_id == chosen.job_id)
        if started.state is not JobState.PENDING:
            break
        service.advise()
    service.record()
    facts = published(service)
    assert tuple(part.node for part in started.allocations) == chosen.placement.nodes
    assert facts.advice_followed_total[chosen.policy] >= 1
    assert facts.communication_cost[chosen.partition, "advised"] >= chosen.communication_cost
    assert facts.communication_cost.keys() >= {(chosen.partition, "actual")}


def test_windows_learned_floors_and_jobs_survive_a_restart(rig):
    service = rig.service()
    collect(service)
    rig.watch(service, 700)
    jobs = len(service.known.snapshot.jobs)
    counted = sum(service.accountant.counters.energy_joules.values())
    floors = service.accountant.floors.learned()
    rig.services.remove(service)
    service.stop()
    again = rig.service()
    collect(again)
    with History.read_only(again.settings.storage.url) as history:
        kept = history.waste(rig.now_s - 86400, rig.now_s + 86400)
        recorded = history.jobs(0, rig.now_s + 86400)
    assert sum(reading.energy_joules for reading in kept) == pytest.approx(counted, rel=1e-6)
    assert len({job.key for job in recorded}) == len(recorded) == jobs
    assert again.accountant.floors.learned().keys() == floors.keys() != set()


def test_a_history_that_cannot_be_written_stops_nothing_and_loses_nothing(rig, monkeypatch, caplog):
    service = rig.service()
    write = History._write

    def full(self, work):
        raise StoreUnavailable("database idlewatt.db cannot grow: the disk or the quota is full; free some space")

    monkeypatch.setattr(History, "_write", full)
    collect(service)
    rig.watch(service, 15)
    service.record()
    assert published(service).recorder_backlog_records > 0
    assert any("the disk or the quota is full" in str(getattr(record, "error", "")) for record in caplog.records)
    assert sum(published(service).power_watts.values()) > 0
    monkeypatch.setattr(History, "_write", write)
    rig.watch(service, 15)
    service.record()
    assert published(service).recorder_backlog_records == 0
    with closing(sqlite3.connect(rig.folder / "idlewatt.db")) as database:
        assert database.execute("SELECT count(*) FROM jobs").fetchone()[0] == len(service.known.snapshot.jobs)


def test_a_database_that_vanishes_is_told_by_gauge_and_log_and_its_facts_wait_for_the_next_start(rig, caplog):
    service = rig.service()
    collect(service)
    (rig.folder / "idlewatt.db").unlink()
    rig.watch(service, 60)
    service.record()
    assert published(service).recorder_backlog_records > 0
    assert published(service).recorder_backlog_bytes > 0
    recording = service.process().recording
    assert not recording.possible
    assert "idlewatt.db was deleted or moved away while idlewatt records into it" in recording.reason
    assert any("was deleted or moved away" in str(getattr(record, "error", "")) for record in caplog.records)
    rig.services.remove(service)
    service.stop()
    again = rig.service()
    assert again.process().recording.backlog > 0
    collect(again)
    again.record()
    assert published(again).recorder_backlog_records == 0


@pytest.mark.postgres
def test_a_server_that_is_away_is_told_and_caught_up_with_over_a_restart(rig, frail_postgres):
    storage = f"{{url: '{frail_postgres.url}', state: '{rig.folder}'}}"
    service = rig.service(storage=storage)
    collect(service)
    frail_postgres.stop()
    rig.watch(service, 600)
    service.record()
    assert published(service).recorder_backlog_records > 0
    assert "cannot be reached" in service.process().recording.reason
    assert service.process().recording.since_s is not None
    assert sum(published(service).power_watts.values()) > 0
    counted = sum(service.accountant.counters.energy_joules.values())
    rig.services.remove(service)
    began = time.monotonic()
    service.stop()
    assert time.monotonic() - began < widened(3)
    frail_postgres.start()
    again = rig.service(storage=storage)
    assert again.process().recording.backlog > 0
    again.jobs()
    assert (again.process().recording.backlog, again.process().recording.possible) == (0, True)
    with History.read_only(frail_postgres.url) as history:
        kept = history.waste(rig.now_s - 86400, rig.now_s + 86400)
        assert len(history.jobs(0, rig.now_s + 1)) == len(again.known.snapshot.jobs)
    assert sum(reading.energy_joules for reading in kept) == pytest.approx(counted, rel=1e-6)


def test_a_second_daemon_on_the_same_database_is_refused(rig):
    service = rig.service()
    with pytest.raises(StoreLocked, match=f"another idlewatt daemon records into .*process {os.getpid()}"):
        History.open(service.settings.storage.url)


def test_a_good_reload_is_in_force_at_once_and_shown(rig):
    service = rig.service()
    collect(service)
    rig.now_s += 60
    service.reload(lambda: config.parse(rig.text(advice="{policy: fifo+first-fit}")))
    facts = published(service)
    assert (facts.config_last_reload_successful, facts.config_last_reload_success_timestamp_seconds) == (1, rig.now_s)
    service.advise()
    assert {row.policy for row in service.known.advice.recommendations if not row.shadow} == {"fifo+first-fit"}


def test_a_bad_reload_changes_nothing_and_is_shown(rig):
    service = rig.service()
    collect(service)
    sources, settings = service.sources, service.settings
    with pytest.raises(ConfigError, match="unknown key"):
        service.reload(lambda: config.parse(rig.text(colour="blue")))
    assert service.sources is sources
    assert service.settings is settings
    assert published(service).config_last_reload_successful == 0


def unreadable(*_, **__):
    raise StoreUnavailable("the server of the database does not answer")


@pytest.mark.parametrize(("method", "change"), [
    ("speeds", {"recommenders": "{elastic: {settle: 20m}}"}),
    ("standings", {"storage": "{url: 'sqlite:///URL', retention: {speeds: 500d}}"})])
def test_a_reload_while_the_history_cannot_be_read_keeps_the_old_configuration_and_its_cycles(
        rig, monkeypatch, method, change):
    service = rig.service()
    settings, beat = service.settings, service.beat
    change = {key: text.replace("sqlite:///URL", settings.storage.url) for key, text in change.items()}
    monkeypatch.setattr(service._history, method, unreadable)
    with pytest.raises(ConfigError, match="the server of the database does not answer"):
        service.reload(lambda: config.parse(rig.text(**change)))
    assert (service.settings, service.beat) == (settings, beat)
    assert service.settings is settings
    assert not beat._stopping


def test_recommenders_do_not_go_by_advice_that_is_too_old(rig, monkeypatch):
    service = rig.service(cycles="{jobs: 1h, assess: 1h, advise: 15s, record: 1h}")
    collect(service)
    service.advise()
    service.assess()
    given = []
    monkeypatch.setattr(service._recommenders["power_down"], "recommend",
                        lambda context: given.append(context.advice) or Recommendations(context.now_s))
    service.recommend("power_down")
    rig.watch(service, 900)  # while every round of advice fails
    service.recommend("power_down")
    assert [advice.withdrawn for advice in given] == [False, True]
    assert given[1].power_down == {}


def test_another_database_needs_a_restart(rig):
    service = rig.service()
    with pytest.raises(ConfigError, match="needs a restart"):
        service.reload(lambda: config.parse(rig.text(storage="{url: 'sqlite:////tmp/other.db'}")))


def test_a_reload_of_waste_settings_keeps_exported_counters_and_floors(rig):
    service = rig.service()
    collect(service)
    rig.watch(service, 600)
    energy, floors = published(service).energy_joules_total, service.accountant.floors.learned()
    service.reload(lambda: config.parse(rig.text(waste="{epsilon: 0.05}")))
    service.assess()
    after = published(service).energy_joules_total
    assert all(after[key] >= joules for key, joules in energy.items())
    assert service.accountant.floors.learned().keys() == floors.keys()


def test_a_reload_keeps_what_recommenders_have_seen_unless_its_own_section_changes(rig):
    service = rig.service()
    before = dict(service._recommenders)
    service.reload(lambda: config.parse(rig.text(recommenders="{allocation: {margin: 0.5}}")))
    changed = {name for name, recommender in before.items() if service._recommenders[name] is not recommender}
    assert changed == {"allocation"}


@pytest.mark.parametrize("wanted", [True, False])
def test_what_runs_used_by_the_accounts_is_recorded_only_for_recommendations_on_allocation(rig, monkeypatch, wanted):
    service = rig.service(recommenders=f"{{allocation: {{enabled: {str(wanted).lower()}}}}}")
    ended = [Job(str(gpus), 0.0, JobState.COMPLETED, "a100", Request(gpus), "ann", name="train", start_s=100.0,
                 end_s=1100.0, allocations=(Allocation("dgx01", gpus, None, 16, 128),), cpu_seconds=200.0)
             for gpus in (0, 2)]
    monkeypatch.setattr(service._collection.of("scheduler")[0].source, "completed", lambda since_s: ended)
    service.record()
    assert [use.job_id for use in service._history.uses()] == ["2"] * wanted


def test_a_clock_that_jumps_back_adds_no_energy(rig):
    service = rig.service()
    collect(service)
    rig.watch(service, 30)
    before = published(service).energy_joules_total
    rig.now_s -= 3600
    service.scrape()
    service.assess()
    after = published(service).energy_joules_total
    assert sum(after.values()) == pytest.approx(sum(before.values()))


def test_until_the_policies_are_compiled_there_is_no_advice_and_a_stop_does_not_wait_for_them(
        rig, monkeypatch, tmp_path):
    monkeypatch.setattr(warm_up, "compiled_mark", lambda policies: tmp_path / "no mark")  # nothing is compiled yet
    monkeypatch.setattr(opening, "warm_up", lambda settings: WarmUp(opening.heuristics(settings)))
    service = rig.service()
    monkeypatch.setattr(service._warm_up, "over", lambda: False)
    collect(service)
    service.advise()
    assert service.known.advice is None
    began = time.monotonic()
    rig.services.remove(service)
    service.stop()
    assert service._warm_up._child.poll() is not None
    assert time.monotonic() - began < widened(20)


def test_a_stop_lets_the_sources_go_before_it_waits_for_cycles_and_writes(rig, monkeypatch):
    service, order = rig.service(), []
    for what, name in ((service.sources[0].source, "close"), (service.beat, "stop"), (service._history, "close")):
        monkeypatch.setattr(what, name, noted(getattr(what, name), f"{type(what).__name__}.{name}", order))
    service.stop()
    assert order == ["PageSource.close", "CycleScheduler.stop", "History.close"]


def noted(call, name, order):
    def run(*args):
        order.append(name)
        return call(*args)

    return run


def test_the_beat_runs_every_cycle(rig):
    service = rig.service(cycles="{scrape: 50ms, jobs: 50ms, assess: 50ms, advise: 50ms, record: 50ms}")
    service.start()
    from_start, names = service.known, ("scrape", "jobs", "assess", "advise", "record")
    wait_until(lambda: all(service.beat.health()[name].runs for name in names))
    assert service.known is not from_start
    assert all(health.failures == 0 for health in service.beat.health().values())


def test_a_daemon_without_sources_is_ready_and_says_nothing(rig):
    service = rig.service(sources="[]")
    collect(service)
    facts = published(service)
    assert facts.power_watts == {}
    assert DaemonView(service, lambda: service.settings).missing() == ()


def test_what_is_missing_before_the_first_collection_is_told(rig):
    service = rig.service()
    assert DaemonView(service, lambda: service.settings).missing() == (
        "the first collection has not ended", "Slurm not read yet")


def test_the_exporters_of_the_nodes_are_offered_to_prometheus(rig):
    service = rig.service()
    collect(service)
    groups = DaemonView(service, lambda: service.settings).targets()
    assert len(groups) == 3 * 4
    host = rig.server.url.removeprefix("http://")
    assert {group.targets for group in groups} == {(host,)}
    assert {"__scheme__": "http", "__metrics_path__": "/dgx-a100-01/dcgm", "__meta_idlewatt_kind": "dcgm",
            "__meta_idlewatt_node": "dgx-a100-01"} in [group.labels for group in groups]


def test_the_incumbent_is_what_slurm_tells_of_itself_as_soon_as_it_does_and_after_a_restart_too(rig, monkeypatch):
    warmed = []
    monkeypatch.setattr(opening, "warm_up", lambda settings: warmed.append(opening.heuristics(settings)) or Idle())
    lines = ", ".join(f"{line}: '{'priority/multifactor' if line == 'PriorityType' else 0}'" for line in PRIORITY_LINES)
    told = f"[{{kind: slurm_rest, url: '{rig.server.url}', settings: {{{lines}}}}}]"
    service = rig.service(advice="{shadow: []}", sources=told)
    assert service.settings.incumbent == FIRST_COME
    service.jobs()
    assert service.settings.incumbent == MULTIFACTOR
    assert MULTIFACTOR not in warmed[-1], "its plans take seconds for thousands of jobs"
    assert service.settings.advising(None) == "priority+first-fit+easy"
    service.stop()

    again = rig.service(advice="{shadow: []}", sources=told)
    assert again.settings.incumbent == MULTIFACTOR, "the history knows it before Slurm is read"
    assert (MULTIFACTOR, "incumbent") in again.process().roles


class Idle:
    """Compiles nothing."""

    def over(self) -> bool:
        return True

    def end(self) -> None:
        pass


def test_accounts_that_were_away_are_asked_from_their_own_last_answer_on(rig, monkeypatch):
    """Whatever the accounts of another scheduler have answered meanwhile."""
    url, asked, away = rig.server.url, {"north": [], "south": []}, set()
    service = rig.service(sources=f"[{', '.join(f'{{kind: slurm_rest, name: {name}, url: {url}}}' for name in asked)}]")

    def completed(name, since_s):
        if name in away:
            raise SourceError(f"{name} is away")
        asked[name].append(since_s)
        return ()

    for watched in service.sources:
        monkeypatch.setattr(watched.source, "completed", partial(completed, watched.name))
    service.record()
    away.add("south")
    for _ in range(3):
        rig.now_s += 3600.0
        service.record()
    away.clear()
    service.record()
    assert [asked["south"][number] - asked["north"][number] for number in (0, 1)] == [0.0, 0.0]
    assert asked["south"][1] < asked["north"][-1]
