import numpy as np
import pytest

from idlewatt.daemon.policies import named, names
from idlewatt.daemon.replay import engine, events
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.state import ClusterState, Preempt, Resize, Start
from idlewatt.daemon.replay.workload import Workload

NODE = Cluster.from_spec("1x8")


def starts(policy, submit, run, gpus, cluster=NODE, **columns):
    options = {key: columns.pop(key) for key in ("preemption_s",) if key in columns}
    return engine.run(cluster, Workload.of(submit, run, gpus, **columns), named(policy), **options).start.tolist()


def test_an_unknown_rule_is_refused_with_a_list_of_what_exists():
    for wrong in ("fifi", "fifo+wurst-fit", "fifo+best-fit+hope", "", "fifo+"):
        with pytest.raises(ValueError, match=r"orders: .*fifo.*placements: .*best-fit.*backfills: .*easy"):
            named(wrong)


def test_every_name_that_is_listed_builds_and_runs():
    workload = Workload.of([0, 1, 2], [9, 5, 1], [8, 8, 4], limit=[10, 10, 10], user=["a", "b", "a"])
    for name in names():
        assert not np.isnan(engine.run(NODE, workload, named(name)).end).any(), name


@pytest.mark.parametrize(("policy", "order"), [
    ("fifo", [0, 1, 2, 3]), ("sjf-limit", [0, 3, 2, 1]), ("sjf-oracle", [0, 2, 1, 3]), ("ljf", [0, 1, 2, 3]),
    ("sjf-prediction", [0, 1, 3, 2]), ("qssf", [0, 3, 1, 2]), ("priority", [0, 2, 3, 1])])
def test_orders_order(policy, order):
    got = starts(policy, [0, 1, 2, 3], [10, 20, 10, 30], [8, 8, 8, 1], limit=[100, 90, 80, 70],
                 prediction=[5, 5, np.nan, 10], priority=[0, 1, 3, 2])
    assert sorted(range(4), key=lambda job: (got[job], job)) == order or policy == "qssf"


def test_the_largest_job_of_the_paper_is_the_one_with_most_gpus_whatever_its_limit():
    got = starts("ljf", [0, 1, 1, 1], [10] * 4, [8, 2, 8, 4], limit=[10, 900, 10, 90])
    assert got == [0, 20, 10, 20]


def test_ageing_lets_a_long_job_pass_newcomers_in_the_end():
    submit = [0, 1, *range(10, 2000, 10)]
    run = [10, 10, *[10] * 199]
    limit = [10, 500, *[10] * 199]
    plain = starts("sjf-limit", submit, run, [8] * 201, limit=limit)
    aged = starts("limit-aged", submit, run, [8] * 201, limit=limit)
    assert plain[1] > 1900
    assert aged[1] < 600


def test_easy_backfill_never_delays_the_first_in_line():
    # 0 runs to 100 on 6 GPUs; 1 wants all 8; 2 is short enough to pass, 3 is not, 4 would be but 3 GPUs are not there.
    got = starts("fifo+easy", [0, 1, 2, 3, 4], [100, 10, 50, 200, 10], [6, 8, 2, 2, 3], limit=[100, 10, 50, 200, 10])
    assert got[:3] == [0, 100, 2]
    assert got[3] >= 110


def test_conservative_backfill_delays_nobody_before():
    # 0 runs to 100 on 6 GPUs; 1 wants all 8 then, 2 all 8 after it. 3 would pass under EASY, but delay 2.
    jobs = [0, 1, 2, 3], [100, 10, 10, 105], [6, 8, 8, 2]
    limits = {"limit": [100, 10, 10, 105]}
    assert starts("fifo+conservative", *jobs, **limits) == [0, 100, 110, 120]
    assert starts("fifo+conservative", [0, 1, 2], [100, 10, 90], [6, 8, 2], limit=[100, 10, 90]) == [0, 100, 2]


def test_a_blocked_partition_does_not_block_another():
    cluster = Cluster.from_mapping({"nodes": [{"name": "a", "gpus": 8, "partitions": ["a"]},
                                              {"name": "b", "gpus": 8, "partitions": ["b"]}]})
    got = starts("fifo", [0, 1, 2], [100, 100, 10], [8, 8, 8], cluster, partition=["a", "a", "b"])
    assert got == [0, 100, 2]


def test_srtf_preempts_and_the_overhead_is_paid():
    workload = Workload.of([0, 10], [100, 20], [8, 8])
    run = engine.run(NODE, workload, named("srtf"), preemption_s=7)
    assert run.start.tolist() == [0, 10]
    assert run.end.tolist() == [127, 30]


def test_a_job_that_must_not_be_preempted_is_not():
    run = engine.run(NODE, Workload.of([0, 10], [100, 20], [8, 8], preemptible=[0, 1]), named("srtf"))
    assert run.end.tolist() == [100, 120]


def test_las_demotes_a_job_at_its_threshold_although_nothing_else_happens():
    # 3600 GPU-seconds on 8 GPUs: level 1 after 450 s; the second job, still in level 0, then takes over.
    run = engine.run(NODE, Workload.of([0, 10], [1000, 100], [8, 8]), named("las"))
    assert run.start.tolist() == [0, 450]
    assert run.end.tolist() == [1100, 550]


@pytest.mark.parametrize("gpus", [[4, 2], [2, 4]])
def test_las_wakes_when_the_first_of_several_jobs_drops_a_level(gpus):
    # 3600 GPU-seconds: the one with 4 GPUs drops after 900 s, the other after 1800 s; the third waits for 4 GPUs.
    run = engine.run(NODE, Workload.of([0, 0, 10], [5000, 5000, 100], [*gpus, 4]), named("las"))
    assert run.start.tolist() == [0, 0, 900]


def test_drf_takes_from_the_rich_until_shares_are_level_and_then_leaves_it_at_that():
    workload = Workload.of([0] * 4 + [10] * 4, [100] * 8, [2] * 8, user=["hog"] * 4 + ["meek"] * 4)
    run = engine.run(NODE, workload, named("drf+preempt"))
    assert run.start.tolist() == [0, 0, 0, 0, 10, 10, 110, 110]
    assert run.state.arrays.jobs.preempted.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


def test_drf_does_not_trade_many_small_jobs_for_a_large_one_and_back():
    workload = Workload.of([0] * 4 + [10], [100] * 5, [2, 2, 2, 2, 8], user=["hog"] * 4 + ["meek"])
    assert engine.run(NODE, workload, named("drf+preempt")).state.arrays.jobs.preempted.sum() == 0


def test_drf_serves_the_user_who_has_least():
    got = starts("drf", [0, 1, 2, 3], [100, 100, 100, 100], [4, 4, 4, 4], user=["hog", "hog", "hog", "meek"])
    assert got == [0, 1, 101, 100]
    waiting = starts("drf", [0, 0, 0, 0], [100] * 4, [4] * 4, user=["hog", "hog", "hog", "meek"])
    assert waiting == [0, 100, 100, 0]


def test_a_failed_node_sends_its_jobs_back_and_a_drained_one_lets_them_finish():
    cluster = Cluster.from_spec("2x8")
    workload = Workload.of([0], [100], [8])
    down = engine.run(cluster.with_events([NodeEvent(40, "node0000", "down")]), workload, named("fifo"))
    assert down.end.tolist() == [140]
    assert down.state.held(0).node.tolist() == [1]
    drained = engine.run(cluster.with_events([NodeEvent(40, "node0000", "drain")]), workload, named("fifo"))
    assert drained.end.tolist() == [100]


def test_a_job_of_no_length_starts_and_ends_at_once_and_frees_its_place():
    assert starts("fifo", [0, 0], [0, 5], [8, 8]) == [0, 0]


class Elastic:
    """Halves the first job at its second decision, doubles it when the other has gone."""

    name = "elastic"

    def decide(self, state):
        jobs = state.arrays.jobs
        actions = []
        running = set(state.running.tolist())
        if 0 in running and 1 in state.waiting:
            actions.append(Resize(0, (0,), (4,)))
        actions += [Start(int(job), (0,), (min(8, int(jobs[job].gpus)),)) for job in state.waiting]
        if 0 in running and not len(state.waiting) and len(running) == 1 and jobs[0].gpus_held == 4:
            actions.append(Resize(0, (0,), (8,)))
        return actions


def test_an_elastic_job_is_resized_and_runs_at_the_speed_of_its_size():
    from idlewatt.daemon.replay.speed import SpeedTable

    linear = SpeedTable(np.arange(9.0)[None, :], np.ones((1, 5)))
    workload = Workload.of([0, 10], [100, 20], [8, 4], minimum=[4, 4], maximum=[8, 4])
    run = engine.run(NODE, workload, Elastic(), speed=linear)
    assert run.start.tolist() == [0, 10]
    assert run.end.tolist() == [110, 30]  # 20 s at half speed cost 10 s


@pytest.mark.parametrize("action", [Start(0, (0,), (9,)), Start(0, (), ()), Start(0, (0, 0), (4, 4)), Preempt(0)])
def test_an_action_that_cannot_be_carried_out_is_refused_by_name(action):
    class Wrong:
        name = "wrong"

        def decide(self, state):
            return [action]

    with pytest.raises(ValueError, match="job=0"):
        engine.run(NODE, Workload.of([0], [1], [8]), Wrong())


def test_deciding_leaves_the_state_as_it_was():
    state = ClusterState.of(NODE, Workload.of([0, 0], [5, 5], [4, 4]))
    for decision in engine.stepwise(state, events.event_list_of(NODE), named("random-feasible")):
        before = {name: getattr(decision.state.arrays, name).tobytes() for name in ("nodes", "jobs", "words", "heap")}
        named("limit-aged+random-fit+easy").decide(decision.state)
        after = {name: getattr(decision.state.arrays, name).tobytes() for name in ("nodes", "jobs", "words", "heap")}
        assert before == after


def test_the_name_oracle_is_refused_with_the_name_of_what_it_was():
    with pytest.raises(ValueError, match=r"^policy 'oracle' is now called sjf-oracle\+best-fit\+easy$"):
        named("oracle")
