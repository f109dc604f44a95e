"""Recommendations on allocation from end to end: scenes in, rows and metrics out; nothing hostile ends a round."""

import gc
import json
import math
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.advisor import Advice
from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import allocation, subjects
from idlewatt.daemon.advice.rightsizing import node_view
from idlewatt.daemon.advice.rightsizing.node_view import Past
from idlewatt.daemon.advice.rightsizing.recommender import ShareRecommender
from idlewatt.daemon.config import ConfigError, parse
from idlewatt.daemon.settings.recommenders import AllocationSettings
from idlewatt.exporters.publish import check
from idlewatt.exporters.simulated import direct
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.gpus import cpus_busy
from idlewatt.exporters.simulated.jobs import Behaviour
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.recommendations import Placement, Recommendation
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuReading, JobReading, Telemetry
from idlewatt.storage.uses import Use

GIB = 2**30
NODE = Node("n1", ("gpu",), 8, "a100", cpus=64, memory_bytes=512 * GIB, cpus_allocated=64, gpus_allocated=6,
            memory_allocated_bytes=512 * GIB)


class Shelf:
    """A history in memory, that may be out of order."""

    def __init__(self):
        self.kept, self.broken = {}, False

    def record_uses(self, uses):
        if self.broken:
            raise StoreUnavailable("the disk is full")
        self.kept |= {use.run: use for use in uses}

    def uses(self, since_s, last):
        if self.broken:
            raise StoreUnavailable("the disk is full")
        found = (use for use in self.kept.values() if use.updated_s >= since_s)
        return tuple(sorted(found, key=lambda use: use.updated_s))[-last:]


def running(job_id, cpus, *, gpus=(0, 1, 2), memory=256 * GIB, node="n1", name="train", **more):
    return Job(job_id, 0.0, JobState.RUNNING, "gpu", Request(len(gpus), cpus=cpus), "ann", name=name, start_s=10.0,
               allocations=(Allocation(node, len(gpus), gpus, cpus, memory),), **more)


def waiting(job_id, cpus, *, gpus=2, memory=16 * GIB, limit_s=3600.0):
    return Job(job_id, 0.0, JobState.PENDING, "gpu", Request(gpus, cpus=cpus, memory_bytes=memory), "bob",
               name="fresh", limit_s=limit_s)


def held(job_id, start_s, node="n1"):
    return Recommendation(job_id, 0.0, "gpu", 0.0, "easy", "wait", "hold", "waits", Placement((node,), (2,)), start_s)


class Site:
    """An recommender, and minutes of what it is shown."""

    def __init__(self, *jobs, nodes=(NODE,), advice=(), **changes):
        self.shelf = Shelf()
        self.shares = ShareRecommender(AllocationSettings(**{"window": "10m"} | changes), self.shelf)
        self.jobs, self.nodes, self.advice, self.now, self.spent = jobs, nodes, advice, 1000.0, {}

    def look(self, minutes=1, *, cores=None, activity=None, memory=None):
        """Show jobs that use so many cores, whose GPUs work so much; return what is said at the end."""
        for _ in range(minutes):
            self.now += 60.0
            readings, gpus = [], []
            for job in self.jobs:
                for part in job.allocations:
                    self.spent[job.job_id] = self.spent.get(job.job_id, 0.0) + 60.0 * (cores or {}).get(job.job_id, 0)
                    if cores and job.job_id in cores:
                        readings.append(JobReading(job.job_id, part.node, self.now, self.spent[job.job_id],
                                                   (memory or {}).get(job.job_id)))
                    gpus += [GpuReading(f"G{index}", part.node, index, self.now,
                                          activity=(activity or {}).get(job.job_id, 1.0)) for index in part.gpu_indexes]
            said = self.shares.recommend(RecommenderContext(
                self.now, SchedulerSnapshot(self.now, self.nodes, (), self.jobs),
                Telemetry(gpus=tuple(gpus), jobs=tuple(readings)), Advice(self.now, tuple(self.advice))))
            check(said.metrics)
        return said


def rows(said):
    return {row.job_id: row for row in said.rows}


def test_a_starved_job_is_told_of_the_cores_that_its_neighbour_does_not_use():
    site = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5), name="other"))
    said = site.look(12, cores={"123": 13.9, "124": 23.9}, activity={"124": 0.3})
    row, giver = rows(said)["124"], rows(said)["123"]
    assert row.reason == ("give job 124 the 24 cores that job 123 does not use; it may finish 50 % sooner, job 123 no "
                          "later")
    assert (row.cpus, row.cpus_advised, row.basis, row.gpus, row.nodes) == (24, 48, "measured", 3, ("n1",))
    assert row.sooner_ratio == pytest.approx(0.5)
    assert row.sooner_interval == (0.0, pytest.approx(0.5))
    assert [(one.job_id, one.cpus, one.sooner_ratio) for one in row.givers] == [("123", 24, 0.0)]
    assert (giver.cpus_advised, giver.request) == (16, "--cpus-per-gpu=6")
    assert said.rows[0] is row
    assert said.metrics["allocation_cpus"]["gpu", "124", "advised"] == 48
    assert said.metrics["unused_cpus"] == {"gpu": 24.0}
    assert said.metrics["allocation_jobs"] == {"measured": 2, "prior": 0, "fair-share": 0}


def test_two_that_trade_cores_for_memory_both_finish_sooner():
    """One has cores to spare and all its memory full, the other has memory to spare and all its cores busy."""
    memory = 60 * 10**9
    node = replace(NODE, cpus=24, memory_bytes=500 * 10**9, cpus_allocated=24, memory_allocated_bytes=500 * 10**9)
    site = Site(running("123", 18, memory=memory, name="resnet50"),
                running("124", 6, gpus=(3, 4, 5), memory=440 * 10**9, name="other-resnet18"), nodes=(node,))
    said = site.look(12, cores={"123": 5.0, "124": 5.9}, activity={"124": 0.4, "123": 0.5},
                     memory={"123": 0.99 * memory, "124": 50e9})
    row = rows(said)["124"]
    assert row.reason == "give job 124 the 9 cores that job 123 does not use; both finish sooner"
    assert rows(said)["123"].memory_advised_bytes > memory
    assert row.givers[0].sooner_interval[0] > 0


def test_a_job_on_two_nodes_gives_nothing_as_both_nodes_would_have_to():
    there = Allocation("n2", 3, (0, 1, 2), 40, 256 * GIB)
    both = replace(running("123", 40), allocations=(*running("123", 40).allocations, there))
    site = Site(both, running("124", 24, gpus=(3, 4, 5)), nodes=(NODE, replace(NODE, name="n2", cpus_allocated=40)))
    said = site.look(12, cores={"123": 13.9, "124": 23.9}, activity={"124": 0.3})
    assert rows(said)["123"].cpus_advised == 40
    assert not rows(said)["124"].givers
    assert said.metrics["unused_cpus"] == {"gpu": 0.0}


def test_what_was_never_measured_is_not_taken_and_said_to_be_unknown():
    said = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5))).look(20, activity={"124": 0.2})
    assert {row.basis for row in said.rows} == {"fair-share"}
    assert all((row.cpus, row.sooner_ratio) == (row.cpus_advised, None) for row in said.rows)
    assert said.metrics["allocation_jobs"]["fair-share"] == 2


def test_a_job_that_waits_is_started_on_what_others_do_not_use():
    node = replace(NODE, memory_allocated_bytes=480 * GIB)
    site = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5)), waiting("125", 20), nodes=(node,),
                advice=[held("125", 20_000.0)])
    said = site.look(12, cores={"123": 13.9, "124": 10.0})
    row = said.rows[0]
    assert (row.job_id, row.state, row.cpus_advised, row.basis) == ("125", "pending", 20, "fair-share")
    assert row.starts_sooner_s == pytest.approx(20_000 - site.now)
    assert row.reason == ("give job 125 the 20 cores that job 123 does not use; it can start now on n1 instead of in "
                          "5.1 h")
    assert said.metrics["allocation_starts_sooner_seconds"] == {("gpu", "125"): row.starts_sooner_s}


@pytest.mark.parametrize("advised", [(0.0, 5.0), (0.0,)])
def test_jobs_of_two_schedulers_that_share_id_and_partition_have_rows_and_no_series_that_is_either_ones(advised):
    twins = [replace(waiting("125", 20, gpus=1), submit_s=submit_s) for submit_s in (0.0, 5.0)]
    site = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5)), *twins,
                nodes=(replace(NODE, memory_allocated_bytes=480 * GIB),),
                advice=[replace(held("125", 20_000.0), submit_s=submit_s) for submit_s in advised])
    said = site.look(12, cores={"123": 13.9, "124": 10.0})
    assert [(row.job_id, row.submit_s) for row in said.rows if row.gains] == [("125", submit_s) for submit_s in advised]
    for name in ("allocation_starts_sooner_seconds", "allocation_cpus", "allocation_info"):
        assert said.metrics[name] == {}


@pytest.mark.parametrize(("limit_s", "starts"), [(3600.0, True), (40_000.0, False), (None, False)])
def test_it_does_not_delay_who_comes_before_it(limit_s, starts):
    node = replace(NODE, memory_allocated_bytes=480 * GIB)
    site = Site(running("123", 40), waiting("8", 30, gpus=8), waiting("125", 20, limit_s=limit_s), nodes=(node,),
                advice=[held("8", 30_000.0), held("125", 40_000.0)])
    assert ("125" in rows(site.look(12, cores={"123": 10.0}))) == starts


def test_what_is_advised_to_start_now_is_not_given_away():
    node = replace(NODE, cpus_allocated=40, memory_allocated_bytes=0)
    start = replace(held("9", 1.0), action="start")
    site = Site(running("123", 40), waiting("9", 24), waiting("125", 30), nodes=(node,),
                advice=[start, held("125", 9e4)])
    assert "125" not in rows(site.look(12, cores={"123": 10.0}))


def test_like_runs_teach_what_a_job_that_waits_needs_across_a_restart():
    node = replace(NODE, cpus_allocated=44, memory_allocated_bytes=480 * GIB)
    site = Site(running("123", 44, name="fresh"), nodes=(node,))
    site.look(12, cores={"123": 14.0})
    again = Site(running("130", 44), replace(waiting("125", 60), user="ann"), nodes=(node,), advice=[held("125", 9e4)])
    again.shelf.kept, again.now = site.shelf.kept, site.now
    row = rows(again.look())["125"]
    assert (row.basis, row.cpus_advised) == ("measured", 20)


def test_a_restart_does_not_replace_what_was_recorded_of_a_run_that_goes_on():
    site = Site(running("123", 44))
    site.look(31, cores={"123": 14.0}, memory={"123": 99e9})
    again = Site(running("123", 44))
    again.shelf.kept, again.now = dict(site.shelf.kept), site.now
    again.look(7, cores={"123": 1.0}, memory={"123": 1e9})
    (before,), (after,) = site.shelf.kept.values(), again.shelf.kept.values()
    assert after.measured_s > before.measured_s > 1500
    assert (after.cpus_p95, after.memory_peak_bytes) == (pytest.approx(14), 99e9)


def test_what_accounting_tells_is_learned_however_late():
    node = replace(NODE, cpus_allocated=44, memory_allocated_bytes=480 * GIB)
    site = Site(running("130", 44), replace(waiting("125", 60), user="ann"), nodes=(node,), advice=[held("125", 9e4)])
    site.now = 1e6
    assert rows(site.look(6))["125"].basis == "fair-share"
    site.shares.finished([replace(running("77", 60, gpus=(0, 1), name="fresh"), end_s=9e4, cpu_seconds=5e4)])
    row = rows(site.look(6))["125"]
    assert row.basis == "measured"


def test_no_more_is_remembered_than_is_bounded(monkeypatch):
    monkeypatch.setattr(node_view, "MOST_KINDS", 2)
    runs = [Use(str(number), 0.0, 1.0, "ann", name, 2, 16, 128, float(number), 60.0, "cgroup", 1.0, 1.0 + number, 0.0)
            for number, name in enumerate(["a", "b", *"a" * 30, "c"])]
    past = Past()
    past.learn([*runs, replace(runs[0], job_id="late", updated_s=-1.0)])
    assert [len(past.like(replace(waiting("9", 1), user="ann", name=name))) for name in "abc"] == [20, 0, 1]
    assert past.like(replace(waiting("9", 1), user="ann", name="a"))[0].cpus_p95 == 32.0


def test_what_is_remembered_of_runs_takes_a_tenth_of_a_kilobyte_each():
    past, many = Past(), 50 * node_view.MOST_RUNS
    tracemalloc.start()
    try:
        past.learn(Use(f"job {number}", 0.5, 1.5 + number, f"user {number % 50}", "fresh #", 2, 16, 128 << 30,
                       2.5 + number, 60.5, "cgroup", 1.5, 1.5, 0.5, 1.5e9, 0.5) for number in range(many))
        gc.collect()  # gives back what is kept for the next tuples
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(past.like(replace(waiting("9", 1), user=f"user {user}", name="fresh 7"))) for user in range(50)] \
        == [node_view.MOST_RUNS] * 50
    assert held < 100 * many


def test_a_run_that_is_learned_again_replaces_what_was_known_of_it():
    past, use = Past(), Use("7", 0.0, 1.0, "ann", "a", 2, 16, 128, 9.0, 60.0, "cgroup", 1.0, 2.0, 0.25, None, 0.5)
    past.learn([use, replace(use, updated_s=10.0, cpus_p95=3.0, memory_peak_bytes=64.0, activity=None)])
    assert past.like(replace(waiting("9", 1), user="ann", name="a")) == [(2, 16, 3.0, 0.25, 64.0, None)]


def test_a_database_that_fails_does_not_end_recommendations_and_is_caught_up_with():
    site = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5)))
    site.shelf.broken = True
    assert rows(site.look(12, cores={"123": 10.0, "124": 23.9}, activity={"124": 0.3}))["124"].gains
    site.shelf.broken = False
    site.look(6, cores={"123": 10.0, "124": 23.9})
    assert {use.job_id for use in site.shelf.kept.values()} == {"123", "124"}


def test_a_job_that_is_gone_is_gone_from_the_rows():
    site = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5)))
    site.look(12, cores={"123": 10.0, "124": 23.9}, activity={"124": 0.3})
    site.jobs = site.jobs[1:]
    said = site.look(cores={"124": 23.9}, activity={"124": 0.3})
    assert set(rows(said)) == {"124"}
    assert not rows(said)["124"].givers


def test_settings_name_models_that_exist():
    parse("recommenders: {allocation: {models: {'vit-*': image}}}")
    with pytest.raises(ConfigError, match="recommenders.allocation.models.vit-[*]: there is no model 'vit'"):
        parse("recommenders: {allocation: {models: {'vit-*': vit}}}")


def test_a_prior_lends_words_until_the_job_was_measured():
    node = replace(NODE, cpus_allocated=6)
    site = Site(running("1", 6, memory=250 * GIB), nodes=(node,), models={"tr*": "resnet18"})
    row = rows(site.look())["1"]
    assert (row.basis, row.cpus_advised) == ("prior", 27)
    assert 0 < row.sooner_interval[0] < row.sooner_ratio <= row.sooner_interval[1]
    assert row.reason.startswith("give job 1 the 21 cores that nobody holds; it finishes")
    assert rows(site.look(12, cores={"1": 3.0}))["1"].basis == "measured"


def test_rows_become_a_table():
    site = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5), name="other"))
    said = site.look(12, cores={"123": 13.9, "124": 23.9}, activity={"124": 0.3})
    subject = subjects()["allocation"]
    from pydantic import TypeAdapter

    shown = [subject.cells(row) for row in TypeAdapter(tuple[subject.row, ...]).dump_python(said.rows, mode="json")]
    json.dumps(shown)
    assert all(set(subject.columns) <= set(row) for row in shown)
    assert (shown[0]["cores"], shown[0]["gain"], shown[0]["memory"]) == ("24 → 48", "50 % (0 to 50)", "256 GiB")
    assert allocation._cells(shown[0] | {"starts_sooner_s": 7200.0, "nodes": ["a", "b"]})["gain"] == "2.0 h"


def test_on_the_simulated_cluster_who_starves_is_told_whose_cores_lie_idle():
    cluster = SimulatedCluster(ClusterShape(start_s=1e9))
    configs = direct.sources(cluster, lambda: cluster.now_s)
    sources = {config.kind: config.build(lambda: cluster.now_s) for config in configs}
    shares = ShareRecommender(AllocationSettings(window="10m"), Shelf())
    for _ in cluster.run(900.0, 60.0):
        read = [sources[kind].read() for kind in ("dcgm", "cgroup")]
        said = shares.recommend(RecommenderContext(cluster.now_s, sources["slurm_rest"].read(),
                                     Telemetry(read[0].gpus, (), read[1].jobs)))
    carols = {job.behaviour: job for job in cluster.running.values() if job.user.name == "carol"}
    starved, idle = carols[Behaviour.UNDERUSED], carols[Behaviour.IDLE]
    row = rows(said)[str(starved.job_id)]
    assert row.cpus_used == pytest.approx(cpus_busy(starved) * starved.cpus)
    assert row.cpus_advised > row.cpus
    assert str(idle.job_id) in {giver.job_id for giver in row.givers}
    assert "does not use" in row.reason or "do not use" in row.reason


numbers = st.one_of(st.none(), st.floats(), st.floats(0, 1e7))


@given(st.lists(st.lists(st.tuples(st.sampled_from(["123", "124", "x"]), numbers, numbers, numbers), max_size=4),
                min_size=1, max_size=14),
       st.integers(0, 128), st.integers(0, 8))
@settings(max_examples=40, deadline=None)
def test_whatever_is_read_the_node_is_never_given_out_twice_and_nobody_below_his_use(rounds, free, gpus):
    node = replace(NODE, cpus=64 + free, gpus_allocated=8 - gpus)
    site = Site(running("123", 40), running("124", 24, gpus=(3, 4, 5)), waiting("125", 20, memory=0), nodes=(node,),
                advice=[held("125", 1e6)])
    for shown in rounds:
        site.now += 60.0
        said = site.shares.recommend(RecommenderContext(
            site.now, SchedulerSnapshot(site.now, site.nodes, (), site.jobs),
            Telemetry(gpus=tuple(GpuReading(job_id, "n1", index, site.now, activity=activity)
                                 for index, (job_id, _, _, activity) in enumerate(shown)),
                      jobs=tuple(JobReading(job_id, "n1", site.now, cpu, memory) for job_id, cpu, memory, _ in shown)),
            Advice(site.now, tuple(site.advice))))
        check(said.metrics)
        assert sum(row.cpus_advised for row in said.rows) <= node.cpus
        for row in said.rows:
            assert row.cpus_advised >= min(row.cpus, row.cpus_used or 0)
            assert row.sooner_ratio is None or math.isfinite(row.sooner_ratio)
            assert row.memory_advised_bytes >= min(row.memory_bytes, row.memory_used_bytes or 0)
