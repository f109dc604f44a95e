"""The site's watts from its records, and everybody who replays by them."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from idlewatt.daemon import counterfactual, recorded_watts, simulator_error
from idlewatt.daemon.agents.histories import recorded, split
from idlewatt.daemon.agents.kinds import Objective
from idlewatt.daemon.cli import main
from idlewatt.daemon.cli._history import JobSource
from idlewatt.daemon.counterfactual import WindowRequest
from idlewatt.daemon.learning.pairs import Exam
from idlewatt.daemon.learning.pairs import replayed as examined
from idlewatt.daemon.policies import named
from idlewatt.daemon.recorded_watts import CATALOGUED, site_watts
from idlewatt.daemon.recorded_window import past
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run as replayed
from idlewatt.daemon.replay.power import energy, joules
from idlewatt.daemon.report import write_report
from idlewatt.daemon.sweep import Sweep, SweepPlan, rows
from idlewatt.daemon.sweep import replay as sweep_replay
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, SchedulerSnapshot, WasteReading
from idlewatt.storage.records import Request as Asked
from idlewatt.storage.run_energy import EnergyShare

SINCE, HOUR, DAY, STEP = 1_795_219_200.0, 3600.0, 86400.0, 600.0
UNTIL = SINCE + 3 * DAY
POLICY = "fifo+first-fit+easy"
NODES = (Node("big", ("all",), 8, gpu_model="a100", cpus=64), Node("small", ("all",), 8, gpu_model="v100", cpus=64))
TRUE = {"big": (51.0, 90.0, 360.0, 1000.0, 1300.0), "small": (40.0, 80.0, 260.0, 400.0, 500.0)}
"""Idle, context, limit, host and busy host."""
LOADS = {("hot", "train-1"): 0.9, ("hot", "tune-1"): 0.7, ("cold", "notebook-1"): 0.1}


def lived():
    """Return jobs that follow each other on both nodes, of different users by turns."""
    kinds = list(LOADS)
    for number in range(48):
        user, name = kinds[number % 3]
        start = SINCE + (number // 2) * 3 * HOUR
        yield Job(str(number), start, JobState.COMPLETED, "all", Asked(8, 1), user=user, name=name, start_s=start,
                  end_s=start + 2 * HOUR, limit_s=4 * HOUR,
                  allocations=(Allocation(("big", "small")[number % 2], 8),))


def drawn(job, node):
    """Return the watts of a node by class, with a job or without."""
    idle, context, limit, host, busy = TRUE[node]
    if job is None:
        return {PowerClass.IDLE_UNALLOCATED: 8 * idle, PowerClass.NODE_OVERHEAD_EMPTY: host}
    load = LOADS[job.user, job.name]
    wasted = 8 * context * (1 - load)
    return {PowerClass.ALLOCATED_UNDERUSED: wasted, PowerClass.HOST_ACTIVE: busy,
            PowerClass.PRODUCTIVE: 8 * (context + (limit - context) * load) - wasted}


def write(url, *, by_node=True, by_run=True):
    jobs = list(lived())
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(SINCE - 10, NODES, (Partition("all", ("big", "small")),)))
        history.record_finished(jobs)
        waste, shares = [], []
        for at in np.arange(SINCE, UNTIL, STEP).tolist():
            whole = {}
            for node in TRUE:
                job = next((one for one in jobs if one.allocations[0].node == node and one.start_s <= at < one.end_s),
                           None)
                spent = {power_class: value * STEP for power_class, value in drawn(job, node).items()}
                whole = {one: whole.get(one, 0.0) + spent.get(one, 0.0) for one in (*whole, *spent)}
                if by_node:
                    waste += [WasteReading(at, STEP, "all", power_class, value, node)
                              for power_class, value in spent.items()]
                if job is not None and by_run:
                    gpu_s = 8 * STEP
                    shares.append(EnergyShare(
                        at, STEP, node, "all", spent, job.job_id, job.submit_s, job.start_s, job.user, gpus=8,
                        seen_seconds=STEP, gpu_seconds=gpu_s, measured_seconds=gpu_s,
                        active_seconds=gpu_s * LOADS[job.user, job.name]))
            waste += [WasteReading(at, STEP, "all", one, value) for one, value in whole.items()]
        history.record_waste(waste)
        history.record_shares(shares)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    found = f"sqlite:///{tmp_path_factory.mktemp('watts')}/h.db"
    write(found)
    return found


@pytest.fixture
def history(url):
    with History.read_only(url) as reader:
        yield reader


def test_nodes_draw_what_was_recorded_of_them(history):
    model = site_watts(history).on(Cluster.from_records(NODES))
    for name, index in (("idle", 0), ("host", 3), ("host_busy", 4)):
        np.testing.assert_allclose(getattr(model, name), [TRUE["big"][index], TRUE["small"][index]], rtol=1e-3)
    for name, index in (("context", 1), ("limit", 2)):
        np.testing.assert_allclose(getattr(model, name), [TRUE["big"][index], TRUE["small"][index]], rtol=0.02)


def test_a_node_that_is_new_draws_what_its_like_do_and_an_unknown_type_what_the_catalogue_says(history):
    new = (*NODES, replace(NODES[1], name="newer"), replace(NODES[1], name="other", gpu_model="h200"))
    model = site_watts(history).on(Cluster.from_records(new))
    assert model.host[2] == pytest.approx(TRUE["small"][3], rel=1e-3)
    assert (model.idle[3], model.limit[3]) == (78.0, 700.0)


def test_a_new_job_draws_what_its_users_jobs_of_such_a_name_do_and_shrinks_to_the_users_where_they_are_few(history):
    watts = site_watts(history)
    assert watts.of("cold", "notebook-77").draw == pytest.approx(0.1, abs=0.08)
    assert watts.of("hot", "train-5").draw > watts.of("hot", "never-seen").draw > watts.of("who", "ever").draw
    few = site_watts(history, SINCE + 5 * HOUR)
    assert few.of("hot", "train-5").draw < watts.of("hot", "train-5").draw


def test_a_job_that_was_watched_draws_what_it_drew(history):
    window = past(history, SINCE, UNTIL, watts=site_watts(history))
    expected = [LOADS[job.user, job.name] for job in window.jobs]
    np.testing.assert_allclose(window.workload.draw, expected, atol=0.06)
    np.testing.assert_allclose(window.workload.load, expected, atol=0.06)


def test_what_really_happened_costs_what_was_measured(history):
    window = past(history, SINCE, UNTIL, watts=site_watts(history))
    spent = joules(window.occupation(SINCE, UNTIL), window.cluster.gpus, window.power)
    real = sum(reading.energy_joules for reading in history.waste(SINCE, UNTIL))
    assert spent.total == pytest.approx(real, rel=0.01)
    run = replayed(window.cluster, window.workload, named(POLICY))
    assert energy(run, window.power, until=UNTIL).total == pytest.approx(real, rel=0.01)


def test_the_check_says_how_far_the_watts_are_off_on_windows_that_they_know_nothing_of(history):
    found = simulator_error.check(history, SINCE, UNTIL, POLICY)
    assert abs(found.schedule_energy_error_ratio) < 0.02
    assert found.watts_part_error_ratio < 0.03
    assert found.watts_node_error_ratio < 0.03
    assert found.watts == "as recorded of 2 nodes with 2 types of GPUs and of 24 runs"


def test_the_error_is_told_by_part_and_as_it_were_if_each_jobs_watts_were_known(history):
    found = simulator_error.check(history, SINCE, UNTIL, POLICY)
    assert abs(found.watts_known_error_ratio) < 0.01
    assert {(one.part, one.gpu_model) for one in found.watts_parts} == {
        (part, model) for part in simulator_error.OF_REPLAYS for model in ("a100", "v100")}
    assert sum(one.measured for one in found.watts_parts) == pytest.approx(found.measured_joules)
    told = [found.row()[f"watts_{part}_error_ratio"] for part in simulator_error.OF_REPLAYS]
    assert sum(told) == pytest.approx(found.schedule_energy_error_ratio)
    assert told[1:] == pytest.approx([0.0, 0.0, 0.0], abs=1e-3)


def test_what_hangs_does_not_bend_the_line_to_full_load(history):
    nodes = history.nodes()
    placed = history.load_placements(SINCE, UNTIL)
    spent = recorded_watts._spent(history, nodes, placed, SINCE, UNTIL)
    runs = [recorded_watts._WatchedRun(str(number), ("a", "b"), "v100", 3600.0, 3600.0, 80.0 + 180.0 * load, load)
            for number, load in enumerate((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))]
    hung = [recorded_watts._WatchedRun(f"h{number}", ("a", "c"), "v100", 36e3, 36e3, 82.0, 1.0) for number in range(3)]
    found = recorded_watts._type("v100", spent, runs + hung)
    assert (found.context, found.limit) == pytest.approx((80.0, 260.0))


def test_each_part_is_told_by_what_was_known_when_it_began(history):
    found = simulator_error.check(history, SINCE, UNTIL, POLICY)
    assert len(found.watts_steps) == simulator_error.SPLITS
    assert max(map(abs, found.watts_steps)) < 0.1
    assert found.row()["watts_steps_error_ratio"] == pytest.approx(np.mean(found.watts_steps))


def test_a_history_of_partitions_alone_gives_the_watts_of_all_nodes_together(tmp_path):
    url = f"sqlite:///{tmp_path}/h.db"
    write(url, by_node=False, by_run=False)
    with History.read_only(url) as history:
        found = simulator_error.check(history, SINCE, UNTIL, POLICY)
    assert abs(found.schedule_energy_error_ratio) < 0.02
    assert found.watts_node_error_ratio is None
    assert (found.watts_parts, found.row()["watts_busy_hosts_error_ratio"]) == ((), None)


def doubled(monkeypatch):
    """Let every reading have been twice as high, where the one builder hands out its watts."""
    true = recorded_watts.SiteWatts.on

    def twice(self, cluster):
        model = true(self, cluster)
        return replace(model, **{name: 2 * getattr(model, name) for name in ("idle", "context", "limit", "host")},
                       host_busy=None if model.host_busy is None else 2 * model.host_busy)

    monkeypatch.setattr(recorded_watts.SiteWatts, "on", twice)


def planned(url):
    cluster, prepared = JobSource(url).read(None)
    return SweepPlan(cluster, prepared.workload, model=prepared.power, watts=prepared.watts)


def of_replay(url, history, folder):
    return sweep_replay(planned(url), POLICY).figures["energy_joules"]


def of_report(url, history, folder):
    plan, page = planned(url), folder.with_suffix(".html")
    outcome = sweep_replay(plan, POLICY)
    write_report(page, [outcome], rows([outcome], plan, POLICY), plan, {})
    assert "Watts are as recorded of 2 nodes" in page.read_text()
    return float(outcome.arrays["watts"].sum())


def of_counterfactual(url, history, folder):
    return counterfactual.replayed(WindowRequest(url, UNTIL - DAY, UNTIL - HOUR, (POLICY,))).joules[POLICY]


def of_check(url, history, folder):
    return simulator_error.check(history, SINCE, UNTIL, POLICY).simulated_joules


def of_verdict(url, history, folder):
    material = recorded(history, SINCE, UNTIL, "the history", watts=site_watts(history))
    window = replace(stretch_of(material), since_s=SINCE)
    return float(examined(named(POLICY), Exam.of([window]), 0).replays[0].joules[-1])


def of_training(url, history, folder):
    material = recorded(history, SINCE, UNTIL, "the history", watts=site_watts(history))
    return float(np.max(Objective(energy_wasted=1.0).watts(stretch_of(material)).host))


def stretch_of(material):
    from idlewatt.daemon.agents.kinds import TraceWindow

    return TraceWindow(material.cluster, material.workload, SINCE, power=material.power)


@pytest.mark.parametrize("caller", [of_replay, of_report, of_counterfactual, of_check, of_verdict, of_training])
def test_everybody_who_counts_watts_reacts_to_the_one_model(url, history, tmp_path, monkeypatch, caller):
    once = caller(url, history, tmp_path / "once")
    doubled(monkeypatch)
    assert caller(url, history, tmp_path / "twice") == pytest.approx(2 * once, rel=0.02)


def test_a_trace_goes_by_the_catalogue():
    cluster = Cluster.from_spec("2x8:v100")
    assert (CATALOGUED.on(cluster).idle, CATALOGUED.on(cluster).limit) == (55.0, 300.0)


def test_the_command_line_says_what_the_watts_rest_on_and_words_of_one_s_own_go_before_all(url, tmp_path, monkeypatch):
    monkeypatch.setattr(Sweep, "carry_out", lambda *_: None)
    words = ["replay", url, "--state-dir", str(tmp_path)]
    assert "watts are as recorded of 2 nodes" in CliRunner().invoke(main, words).stderr
    assert "watts are those of h100" in CliRunner().invoke(main, [*words, "--power", "h100"]).stderr


def test_a_split_history_hands_its_watts_to_every_stretch():
    from idlewatt.daemon.agents.histories import Material
    from idlewatt.daemon.replay.power import PowerModel
    from idlewatt.daemon.replay.workload import Workload

    rng, power = np.random.default_rng(0), PowerModel(host=123.0)
    work = Workload.of(np.sort(rng.uniform(0, 12 * DAY, 600)), rng.uniform(60, 7200, 600),
                       rng.integers(1, 8, 600), limit=7200.0)
    parts = split(Material("x", Cluster.from_spec("2x8"), work, power=power))
    assert all(window.power is power for window in (parts.fit(0), *parts.select, *parts.test))
