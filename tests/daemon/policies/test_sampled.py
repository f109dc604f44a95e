"""Orders that let the first of many like jobs tell how long the others last."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.arrays import ENDED
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.ended_runs import REACH
from idlewatt.daemon.replay.state import ClusterState, Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

FEW = Cluster.from_spec("1x4")
LONG, SHORT, JOBS = 10_000.0, 100.0, 60
RUN = np.repeat([LONG, SHORT], JOBS // 2)
"""A burst at once: first those that last, then those that do not; all are predicted to last alike."""
ENOUGH = 10


def replay(policy, run=RUN, cluster=FEW, submit=None, **columns):
    submit = np.arange(len(run), dtype=float) if submit is None else submit
    known = {"prediction": 1000.0, "limit": np.inf} | columns
    return engine.run(cluster, Workload.of(submit, run, np.ones(len(run), int), **known), named(policy))


def waited(policy, **columns):
    found = replay(policy, **columns)
    return found.start - found.workload.submit


@pytest.mark.parametrize("policy", ["sampled", "sampled-aged"])
def test_the_short_half_of_a_burst_is_found_and_passes_the_long_one(policy):
    ours, fifo, predicted = (waited(f"{start}+best-fit+easy") for start in (policy, "fifo", "qssf"))
    assert np.array_equal(fifo, predicted)  # what was predicted does not tell them apart
    assert ours[JOBS // 2:].mean() < 0.3 * fifo[JOBS // 2:].mean()
    assert ours.mean() < 0.75 * fifo.mean()


def test_jobs_of_another_user_tell_nothing():
    alternately = np.tile(["a", "b"], JOBS // 2)
    run = np.where(alternately == "a", LONG, SHORT)
    own = replay("sampled+best-fit+easy", run, user=alternately)
    shared = replay("sampled+best-fit+easy", run)
    waits = [(start.start - start.workload.submit)[alternately == "b"].mean() for start in (own, shared)]
    assert waits[0] < 0.5 * waits[1]


def test_with_ageing_a_job_known_to_be_long_passes_newcomers_in_the_end():
    newcomers, came_s = 400, 2010.0
    length = np.insert(np.full(newcomers, 110.0), 101, 5000.0)
    submit = np.insert(np.arange(newcomers) * 20.0, 101, came_s)
    user = np.where(submit == came_s, "long", "short")
    plain, aged = (waited(f"{start}+best-fit+easy", run=length, submit=submit, prediction=length, user=user)[101]
                   for start in ("sampled", "sampled-aged"))
    assert 0 < aged < 0.75 * plain


@given(st.integers(0, 2**32 - 1), st.sampled_from(["sampled", "sampled-aged"]))
def test_what_has_not_ended_yet_tells_nothing_of_how_long_it_will_run(seed, policy):
    draw = np.random.default_rng(seed)
    run = draw.lognormal(5.0, 2.0, 40).round() + 1
    submit = np.sort(draw.uniform(0, 2000, 40)).round()
    first = replay(f"{policy}+best-fit+easy", run, submit=submit)
    until = float(np.median(first.end))
    other = np.where(first.end > until, np.maximum(run * draw.uniform(0.5, 9.0, 40), until - first.start + 1), run)
    second = replay(f"{policy}+best-fit+easy", np.where(first.end > until, other, run), submit=submit)
    before = np.minimum(first.start, second.start) <= until
    assert np.array_equal(first.start[before], second.start[before])


def snapshot_of(point):
    """Return what a scheduler tells at a decision of a replay: of jobs that have ended nothing."""
    work, nodes, jobs, taken = point.state.workload, point.state.cluster.names, [], Counter()
    for row, name in enumerate(work.ids):
        start, status = point.state.arrays.jobs[row].start, point.state.arrays.jobs[row].status
        job = Job(name, work.submit[row], JobState.PENDING, "p", Request(int(work.gpus[row]), 1, int(work.gpus[row])),
                  user=work.user_names[work.user[row]], limit_s=float(work.limit[row]))
        if start < point.time and status != ENDED:
            held = tuple(Allocation(nodes[part.node], int(part.gpus)) for part in point.state.held(row))
            taken.update({part.node: part.gpus for part in held})
            jobs.append(replace(job, state=JobState.RUNNING, start_s=start, allocations=held))
        elif status != ENDED and job.submit_s <= point.time:
            jobs.append(job)
    known = tuple(Node(node, ("p",), gpus=4, gpus_allocated=taken[node]) for node in nodes)
    return SchedulerSnapshot(point.time, known, (), tuple(jobs))


def recorded(tmp_path, jobs):
    """Return jobs as columns of a history in which they were recorded."""
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        history.record_finished(jobs)
        return history.load_columns()


def live_starts(snapshot, policy, predicted, ended):
    """Return what a policy starts live."""
    state = ClusterState.from_snapshot(snapshot, snapshot.time_s, past=ended, predictor=lambda jobs: {
        "prediction": np.array([predicted[job.job_id] for job in jobs])})
    return [(state.records[start.job].job_id, start.nodes, start.gpus) for start in named(policy).decide(state)]


@pytest.mark.parametrize("policy", [
    "sampled+best-fit+easy", pytest.param("sampled-aged+best-fit+greedy", marks=pytest.mark.long)])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_live_it_decides_as_in_a_replay_which_still_has_ended_jobs_among_its_rows(tmp_path, policy, every):
    draw, count = np.random.default_rng(1), 2 * REACH
    run = draw.lognormal(5.0, 1.5, count).round() + 1
    work = Workload.of(np.sort(draw.uniform(0, run.sum() / 9, count).round()), run, draw.choice([1, 2], count),
                       user=draw.choice(["a", "b"], count), ids=[str(row) for row in range(count)], limit=3 * run,
                       prediction=draw.choice([100.0, 900.0], count))
    cluster, predicted = Cluster.from_spec("2x4"), dict(zip(work.ids, work.prediction.tolist(), strict=True))
    done = engine.run(cluster, work, named(policy))
    columns = recorded(tmp_path, [
        Job(name, work.submit[row], JobState.COMPLETED, "p", Request(int(work.gpus[row])), start_s=done.start[row],
            end_s=done.end[row], user=work.user_names[work.user[row]]) for row, name in enumerate(work.ids)])
    compared = otherwise = 0
    for number, point in enumerate(engine.decisions(cluster, work, named(policy))):
        wanted = [(work.ids[start.job], start.nodes, start.gpus) for start in point.actions if isinstance(start, Start)]
        if wanted and number % every == 0:
            over = columns.end_s <= point.time
            ended = replace(columns, **{field.name: getattr(columns, field.name)[over] for field in fields(columns)
                                        if field.name != "vocabularies"})
            snapshot = snapshot_of(point)
            assert live_starts(snapshot, policy, predicted, ended) == wanted
            compared += 1
            if otherwise <= ENOUGH:
                otherwise += live_starts(snapshot, policy, predicted, None) != wanted
    assert compared > 100
    assert otherwise > ENOUGH  # it matters what has ended


def test_of_a_job_that_runs_again_and_of_one_that_never_ran_the_past_tells_nothing(tmp_path):
    now = 10_000.0
    again = Job("7", 100.0, JobState.RUNNING, "p", Request(1), user="a", start_s=now - 5.0, limit_s=3600.0,
                allocations=(Allocation("n", 1),))
    over = replace(again, state=JobState.COMPLETED, start_s=200.0, end_s=900.0)
    gone = replace(over, job_id="3", end_s=300.0)
    never = replace(over, job_id="4", start_s=None, end_s=300.0)
    waiting = Job("9", now - 60.0, JobState.PENDING, "p", Request(1), user="a", limit_s=3600.0)
    state = ClusterState.from_snapshot(SchedulerSnapshot(now, (Node("n", ("p",), gpus=4),), (), (again, waiting)), now,
                                       past=recorded(tmp_path, [over, gone, never]))
    assert [job.job_id for job in state.records] == ["7", "9"]
    assert state.ended().tolist() == [[0.0, 1.0, state.arrays.jobs[1].user, np.log(100.0)]]
    assert state.copy().ended is state.ended


def test_it_looks_at_like_jobs_beside_a_backfill_that_keeps_books_of_its_own():
    work = Workload.of(np.arange(60.0), RUN, np.ones(JOBS, int), limit=3 * RUN, prediction=1000.0)
    arrays = [named(f"{order}+best-fit+slurm-backfill").rules.ready(ClusterState.of(FEW, work))
              for order in ("sampled", "fifo")]
    assert arrays[0].kin.size > JOBS
    assert arrays[1].kin.size == 0
    assert np.array_equal(arrays[0].weights, arrays[1].weights)
    found = replay("sampled+best-fit+slurm-backfill", limit=3 * RUN)
    waits, fifo = found.start - found.workload.submit, waited("fifo+best-fit+easy")
    assert waits[JOBS // 2:].mean() < 0.5 * fifo[JOBS // 2:].mean()


def test_where_nobody_waits_nothing_is_started():
    empty = ClusterState.from_snapshot(SchedulerSnapshot(1e9, (Node("n", ("p",), gpus=4),), (), ()), 1e9)
    assert list(named("sampled+best-fit+easy").decide(empty)) == []
