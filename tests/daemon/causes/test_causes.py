"""Why a GPU is underused: told where two kinds of evidence agree, and nowhere else."""

import itertools
from dataclasses import replace

import pytest
from labelled import NOW, Host, Labelled, Signals, levels, verdict, watch

from idlewatt.daemon.causes import CauseWatch, HostMeans, Means, evidence_text, judge, remedy, reported_causes
from idlewatt.storage.underuse import Cause, CauseTally

CAUSES = [cause for cause in Cause if cause.known]
GAPPED = Signals(0.4, 0.3, 0.1, 0.1, 0.1, pcie=0.01)
BUSY = Signals(0.98, 0.9, 0.3, 0.5, 0.4)


def clocks() -> CauseWatch:
    """Return a watch that has seen a GPU at its highest clock."""
    return watch(levels(Cause.NONE, 0, minutes=6))


def steady(signals, host, *, gpus=1, cpus=16, minutes=20, **more):
    return Labelled(Cause.NONE, more.pop("name", "train"), gpus, cpus, 30.0,
                    tuple((host, (signals,) * gpus) for _ in range(minutes * 2)), **more)


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_told_of_jobs_that_have_it(cause):
    found = [verdict(levels(cause, seed), clocks() if cause in (Cause.HEAT, Cause.POWER) else None)
             for seed in range(4)]
    assert set(found) <= {cause, Cause.NONE}
    assert found.count(cause) >= 3


def test_clean_jobs_are_not_blamed():
    assert {verdict(levels(Cause.NONE, seed)) for seed in range(12)} == {Cause.NONE}


def test_gaps_alone_are_no_cause():
    assert verdict(steady(GAPPED, Host(cores=6.0))) is Cause.NONE
    assert verdict(steady(GAPPED, Host(cores=None, disk=None, waiting=None))) is Cause.NONE


def test_a_busy_disk_is_another_jobs_where_another_job_is():
    reading = Host(cores=2.0, disk=0.9, waiting=0.7)
    assert verdict(steady(GAPPED, reading)) is Cause.WAITING_FOR_DATA
    assert verdict(steady(GAPPED, reading, alone=False)) is Cause.NONE


def test_a_full_load_at_the_usual_power_limit_is_not_throttled():
    assert verdict(steady(replace(BUSY, clock=1410e6, flags=("power",)), Host(4.0)), clocks()) is Cause.NONE


def test_heat_is_told_by_its_counter_where_flags_are_not():
    assert judge(Means(engine=0.9, sm=0.8, heat=0.5, clock=0.7), HostMeans()).cause is Cause.HEAT
    assert judge(Means(engine=0.9, sm=0.8, heat=0.5, clock=0.99), HostMeans()).cause is not Cause.HEAT


def test_arithmetic_of_64_bits_and_simulations_are_no_wrong_precision():
    plain = Means(engine=0.98, sm=0.9, tensor=0.0, fp32=0.4, fp64=0.0, dram=0.3)
    assert judge(plain, HostMeans(training=True)).cause is Cause.PRECISION
    assert judge(plain, HostMeans(training=False)).cause is Cause.NONE
    assert judge(replace(plain, fp64=0.3), HostMeans(training=True)).cause is Cause.NONE


def test_a_gpu_that_does_nothing_is_one_of_several_only_beside_one_that_works():
    assert judge(Means(sm=0.0), HostMeans(busiest=0.8)).cause is Cause.ONE_OF_SEVERAL
    assert judge(Means(sm=0.0), HostMeans(busiest=0.0)).cause is Cause.UNKNOWN
    assert judge(Means(), HostMeans()).cause is Cause.UNKNOWN


def test_every_verdict_is_said_in_words_with_a_remedy():
    for cause in CAUSES:
        (_, tallies, activity), = watch(levels(cause, 1), clocks()).running(NOW)
        (one, share), *_ = reported_causes(tallies, 8) or reported_causes(tallies, 1)
        assert remedy(one.cause)
        assert evidence_text(one.evidence)
        assert 0 < share <= 1
        assert 0 < one.confidence <= 1
        assert activity is None or 0 <= activity <= 1


def test_what_was_recorded_before_a_restart_goes_on():
    job = levels(Cause.SMALL_BATCH, 3)
    before = watch(job)
    before.resume(())
    recorded = before.unrecorded(NOW)
    assert before.unrecorded(NOW) == []
    after = watch(replace(job, frames=job.frames[:4]))
    after.resume(recorded)
    (_, tallies, _), = after.running(NOW)
    assert {one.cause for one in tallies} == {one.cause for one in recorded}


def test_nothing_is_told_of_what_was_judged_for_less_than_ten_minutes():
    tallies = [CauseTally("1", 0.0, 0.0, Cause.HEAT, NOW, 2 * 590.0, 0.9, {})]
    assert reported_causes(tallies, 2) == ()
    assert reported_causes([replace(tallies[0], gpu_seconds=1210.0)], 2)


def test_a_gpu_that_several_jobs_hold_is_not_judged():
    job = steady(GAPPED, Host(2.0, 0.9, 0.9))
    watcher = CauseWatch()
    from labelled import readings

    from idlewatt.daemon.advice.held_gpus import HeldGpus
    from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

    nodes = (Node("n0", ("p",), 1, cpus=64),)
    both = tuple(Job(str(number), NOW, JobState.RUNNING, "p", Request(1), start_s=NOW,
                     allocations=(Allocation("n0", 1, (0,), 16),)) for number in (1, 2))
    for now, telemetry in itertools.islice(readings(job), 40):
        watcher.observe(SchedulerSnapshot(now, nodes, (), both), telemetry, HeldGpus(telemetry.gpus, nodes).of, now)
    assert list(watcher.running(NOW)) == []
