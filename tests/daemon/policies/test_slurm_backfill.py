from dataclasses import replace

import numpy as np

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.power import PowerModel
from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.daemon.replay.timeline import Reserved, begun, energies, proceed
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.settings.priority import BackfillSettings
from idlewatt.storage.records import Node

POLICY = "fifo+slurm-placement+slurm-backfill"


def starts(cluster, workload, policy=POLICY, **settings):
    cluster = replace(cluster, scheduling=Scheduling(backfill=BackfillSettings(**settings)))
    return engine.run(cluster, workload, named(policy)).start.tolist()


def test_a_short_job_passes_who_waits_at_the_next_walk_and_not_before():
    # 3 of 4 GPUs are taken until 1000; the second waits for all 4, the third would be gone by then.
    workload = Workload.of([0, 1, 40], [1000, 100, 500], [3, 4, 1], limit=[1000, 100, 500])

    assert starts(Cluster.from_spec("1x4"), workload) == [0, 1000, 40]
    at_once = Workload.of([0, 1, 2], [1000, 100, 500], [3, 4, 1], limit=[1000, 100, 500])
    assert starts(Cluster.from_spec("1x4"), at_once) == [0, 1000, 31]  # the walk of second 1 was the last for 30 s
    assert starts(Cluster.from_spec("1x4"), at_once, interval_s=5) == [0, 1000, 6]


def test_both_schedulers_look_as_often_as_is_told_and_not_whenever_something_happens():
    # The second starts in the first walk, at 3; the third comes between two looks; the last when a walk has been due
    # since 33, and is looked for every ten seconds from then on.
    workload = Workload.of([0, 3, 4, 51], [1000] * 4, [1] * 4, limit=[1000] * 4)

    assert starts(Cluster.from_spec("1x4"), workload) == [0, 3, 4, 51]
    assert starts(Cluster.from_spec("1x4"), workload, looks_s=10) == [0, 3, 10, 53]


def test_the_first_walk_is_an_interval_after_the_last_before_the_replay():
    # The third may pass the second, which waits for all GPUs, only in a walk.
    workload = Workload.of([0, 1, 2], [1000, 100, 500], [3, 4, 1], limit=[1000, 100, 500])

    assert starts(Cluster.from_spec("1x4"), workload, began_s=-20.0) == [0, 1000, 10]
    assert starts(Cluster.from_spec("1x4"), workload, began_s=-28.5) == [0, 1000, 31.5]


def behind_two_nodes():
    """Return the jobs of a queue: one holds a node for long, one waits for two, and a short one is behind it."""
    return Workload.of([0, 10, 20], [36000, 100, 3600], [8, 16, 8], limit=[36000, 100, 3600])


def test_a_walk_follows_when_a_node_comes_back_though_no_job_came_or_ended():
    cluster = Cluster.from_spec("2x8").with_events([NodeEvent(0, "node0001", "down"), NodeEvent(100, "node0001", "up")])

    assert starts(cluster, behind_two_nodes()) == [0, 36000, 100]
    late = cluster.with_events([NodeEvent(0, "node0001", "down"), NodeEvent(45, "node0001", "up")])
    assert starts(late, behind_two_nodes()) == [0, 36000, 70]  # the walk of second 40 was the last for 30 s


def test_a_walk_follows_when_a_job_loses_one_of_its_nodes_and_leaves_the_others():
    # The second job holds two nodes, of which one fails for good; the third may have the other until the first ends.
    workload = Workload.of([0, 0, 10], [36000, 20000, 3600], [8, 16, 8], limit=[36000, 20000, 3600])
    cluster = Cluster.from_spec("3x8").with_events([NodeEvent(100, "node0002", "down")])

    assert starts(cluster, workload)[2] == 100


def test_a_walk_follows_when_a_reservation_ends():
    reserved = [Reserved(0, "node0001", "maintenance"), Reserved(100, "node0001", "")]
    run, _ = energies(Cluster.from_spec("2x8"), behind_two_nodes(), named(POLICY), [0.0, 40000.0], PowerModel(),
                      reserved=reserved)

    assert run.start.tolist() == [0, 36000, 100]


def test_a_plan_keeps_its_node_whole():
    # The second is planned for 1000 on the only node with 4 GPUs free by then, so the third may not stay longer there,
    # though three of the GPUs would be left to it.
    workload = Workload.of([0, 1, 100], [1000, 100, 2000], [3, 2, 1], limit=[1000, 100, 2000])

    assert starts(Cluster.from_spec("1x4"), workload) == [0, 1000, 1000]
    shorter = Workload.of([0, 1, 100], [1000, 100, 700], [3, 2, 1], limit=[1000, 100, 700])
    assert starts(Cluster.from_spec("1x4"), shorter) == [0, 1000, 100]


def test_plans_begin_at_multiples_of_the_resolution():
    # Planned for second 1010, kept from 960 on: who would be gone by 1000 is in the way all the same.
    workload = Workload.of([0, 1, 100], [1010, 100, 880], [3, 2, 1], limit=[1010, 100, 880])

    assert starts(Cluster.from_spec("1x4"), workload)[2] == 1010
    assert starts(Cluster.from_spec("1x4"), workload, resolution_s=1)[2] == 100


def test_jobs_that_end_within_a_window_are_taken_to_end_together():
    # The first GPUs are free at 1000, but the window lasts until 30 s after the next half minute, 1050: the plan is for
    # 1040, and 939 s fit before.
    workload = Workload.of([0, 0, 1, 100], [1000, 1040, 100, 939], [2, 2, 2, 1], limit=[1000, 1040, 100, 939])

    assert starts(Cluster.from_spec("1x5"), workload, resolution_s=1) == [0, 0, 1000, 100]
    later = Workload.of([0, 0, 1, 100], [1000, 1060, 100, 939], [2, 2, 2, 1], limit=[1000, 1060, 100, 939])
    assert starts(Cluster.from_spec("1x5"), later, resolution_s=1) == [0, 0, 1000, 1000]


def test_each_further_window_ends_twice_as_long_after_the_first_half_minute():
    # 1000 opens windows that end at 1050, 1080, 1140: the jobs of 1090 and 1130 are taken to end together, so four
    # GPUs are planned for 1130, although those of 1090 would do.
    def workload_with(last):
        return Workload.of([0, 0, 0, 1, 100], [1000, 1090, 1130, 100, last], [1, 3, 1, 4, 1],
                           limit=[1000, 1090, 1130, 100, last])

    assert starts(Cluster.from_spec("1x6"), workload_with(1029), resolution_s=1) == [0, 0, 0, 1090, 100]
    assert starts(Cluster.from_spec("1x6"), workload_with(1030), resolution_s=1)[4] > 100


def test_a_window_takes_in_whoever_follows_upon_a_job_of_other_nodes():
    # Three GPUs of node 0 are free at 1000. If a job of node 1 ends next, Slurm passes over it without a look at when
    # the one after it ends, 1500, and plans for that moment.
    nodes = [Node(f"n{number}", ("default", name), 4) for number, name in enumerate(("left", "right"))]

    def workload_with(other):
        return Workload.of([0, 0, 0, 1, 100], [1000, 1500, other, 100, 1399], [2, 1, 4, 3, 1],
                           limit=[1000, 1500, other, 100, 1399], partition=["left", "left", "right", "left", "left"])

    assert starts(Cluster.from_records(nodes), workload_with(1010), resolution_s=1)[3:] == [1499, 100]
    assert starts(Cluster.from_records(nodes), workload_with(900), resolution_s=1)[3:] == [1000, 1100]


def test_a_plan_ends_at_the_last_multiple_of_the_resolution():
    # The third is planned for 1010 on node 0, which is kept from 960 to 1020 and not to 1060; the fourth, for both
    # nodes, from then on, so that the last has node 1 until 1020.
    def workload_with(last):
        return Workload.of([0, 0, 1, 1, 100], [1000, 1010, 50, 400, last], [4, 1, 4, 8, 1],
                           limit=[1000, 1010, 50, 400, last], nodes=[1, 1, 1, 2, 1])

    assert starts(Cluster.from_spec("2x4"), workload_with(919))[4] == 100
    assert starts(Cluster.from_spec("2x4"), workload_with(920))[4] > 100


def test_who_starts_beyond_the_window_is_not_planned_for():
    workload = Workload.of([0, 1, 100], [5000, 100, 9000], [3, 4, 1], limit=[5000, 100, 9000])

    assert starts(Cluster.from_spec("1x4"), workload)[2] > 5000
    assert starts(Cluster.from_spec("1x4"), workload, window_s=3600) == [0, 9100, 100]


def test_a_job_without_gpus_starts_beside_gpus_that_are_all_taken():
    nodes = [Node(f"n{number}", ("default",), 4, cpus=8) for number in range(2)]
    workload = Workload.of([0, 0, 1, 40], [1000, 1000, 100, 500], [4, 4, 4, 0], cpus=[2, 2, 2, 2],
                           nodes=[1, 1, 1, 1], limit=[1000, 1000, 100, 500])

    assert starts(Cluster.from_records(nodes), workload) == [0, 0, 1000, 40]


def test_only_so_many_jobs_are_looked_at():
    workload = Workload.of([0, 1, 2, 100], [1000, 100, 100, 50], [3, 4, 4, 1], limit=[1000, 100, 100, 50])

    assert starts(Cluster.from_spec("1x4"), workload)[3] == 100
    assert starts(Cluster.from_spec("1x4"), workload, jobs_tested=2)[3] > 1000


def test_a_job_of_several_nodes_is_planned_for_when_all_are_free_at_once():
    # Node 0 is free from 100, node 1 from 300: the pair is planned for 300, so 150 s fit before on node 0, 350 do not.
    def workload_with(last):
        return Workload.of([0, 0, 1, 110], [100, 300, 50, last], [4, 4, 8, 4], limit=[100, 300, 50, last],
                           nodes=[1, 1, 2, 1])

    assert starts(Cluster.from_spec("2x4"), workload_with(120)) == [0, 0, 300, 130]
    assert starts(Cluster.from_spec("2x4"), workload_with(350)) == [0, 0, 300, 350]


def test_nothing_is_lost_and_nobody_overlaps_on_random_queues():
    random = np.random.default_rng(4)
    size = 400
    workload = Workload.of(np.cumsum(random.exponential(60, size)), random.integers(30, 4000, size),
                           random.choice([1, 2, 4, 8, 16], size), limit=random.integers(4000, 9000, size))
    run = engine.run(Cluster.from_spec("4x8"), workload, named(POLICY))
    assert np.isfinite(run.start).all()
    events = sorted([*((end, -gpus) for end, gpus in zip(run.end, workload.gpus, strict=True)),
                     *((start, gpus) for start, gpus in zip(run.start, workload.gpus, strict=True))])
    assert np.cumsum([gpus for _, gpus in events]).max() <= 32


def test_a_job_takes_the_node_of_the_smallest_run_of_neighbours():
    # Free are n0, n2 and n3 as n1 is full: n0 stands alone, so that n2 and n3 stay together.
    nodes = [Node(f"n{number}", ("default",), 4, cpus=8) for number in range(4)]
    run = engine.run(Cluster.from_records(nodes), Workload.of(
        [0, 0, 20, 20], [10, 1000, 100, 100], [4, 4, 4, 8], nodes=[1, 1, 1, 2], limit=[10, 1000, 100, 100],
        cpus=[4, 4, 4, 8]), named(POLICY))
    assert run.state.placement(2).nodes == ("n0",)
    assert run.state.placement(3).nodes == ("n2", "n3")


def test_a_job_that_says_how_many_tasks_a_node_runs_takes_the_first_node():
    nodes = [Node(f"n{number}", ("default",), 4, cpus=8) for number in range(2)]

    def place(tasked):
        work = Workload.of([0, 0, 20], [10, 1000, 100], [4, 1, 1], nodes=[1, 1, 1], limit=[10, 1000, 100],
                           cpus=[4, 4, 4], tasked=[0, 0, tasked])
        return engine.run(Cluster.from_records(nodes), work, named(POLICY)).state.placement(2).nodes

    assert place(0) == ("n1",)  # fewer CPUs are free there
    assert place(1) == ("n0",)


def test_who_lacks_a_large_node_among_those_free_of_plans_is_looked_for_behind_the_plan():
    # 12 GPUs are 8 on one node and 4 on another. The only node of 8 is planned for somebody else from 1000 to 2000;
    # two others are free of plans, but no end of a job there will do, and whoever ends last is on a node of others.
    nodes = [Node(f"n{number}", ("default", name), gpus) for number, (name, gpus) in enumerate(
        (("ours", 8), ("ours", 4), ("ours", 4), ("theirs", 4)))]
    workload = Workload.of([0, 0, 0, 1, 2, 100], [1000, 500, 5000, 1000, 2000, 50], [8, 3, 4, 8, 12, 1],
                           limit=[1000, 500, 5000, 1000, 2000, 50],
                           partition=["ours", "ours", "theirs", "ours", "ours", "ours"])

    assert starts(Cluster.from_records(nodes), workload) == [0, 0, 0, 1000, 2000, 100]


def test_a_job_without_a_limit_starts_behind_who_waits_where_nothing_is_planned():
    # The second is planned for 1000 on the node of 4; the other node is nobody's, so who may run for ever starts there.
    nodes = [Node("n0", ("default",), 4), Node("n1", ("default",), 2)]
    workload = Workload.of([0, 1, 100], [1000, 100, 500], [3, 4, 2], limit=[1000, 100, np.inf])

    assert starts(Cluster.from_records(nodes), workload) == [0, 1000, 100]


def random_site(seed, nodes):
    """Return a cluster of three partitions that share nodes, and a queue of all sorts of jobs."""
    random = np.random.default_rng(seed)
    known = [Node(f"n{number:03d}", ("default", *random.choice(["left", "right"], random.integers(0, 3), False)),
                  int(random.choice([2, 4, 8])), cpus=int(random.choice([8, 16]))) for number in range(nodes)]
    size = 250
    gpus, run = random.choice([0, 1, 2, 4, 8, 12], size), random.integers(30, 4000, size)
    return Cluster.from_records(known), Workload.of(
        np.cumsum(random.exponential(4000 / nodes, size)), run, gpus, limit=run * random.choice([1, 2, 5], size),
        cpus=random.integers(0, 6, size), partition=random.choice(["default", "left", "right"], size).tolist(),
        nodes=random.choice([0, 0, 1, 2], size))


def replay_without_memory(cluster, workload, policy):
    """Return a replay that forgets now and then what it knew of nodes and kinds of jobs."""
    run, event_list = begun(cluster, workload, named(policy))
    for until in np.arange(0.0, workload.submit[-1] + 4000.0, 61.0):
        proceed(run.state, event_list, named(policy), until)
        run.state.arrays.outlook[:] = 0
    proceed(run.state, event_list, named(policy), np.inf)
    return run


def test_what_is_known_from_earlier_walks_changes_no_start():
    waited = 0.0
    for seed, nodes in ((1, 3), (2, 9), (3, 20), (4, 70)):
        cluster, workload = random_site(seed, nodes)
        for policy in (POLICY, "sjf-limit+best-fit+whole-nodes"):
            run = engine.run(cluster, workload, named(policy))
            forgetful = replay_without_memory(cluster, workload, policy)
            assert np.array_equal(run.start, forgetful.start, equal_nan=True)
            assert run.state.arrays.held.tolist() == forgetful.state.arrays.held.tolist()
            waited += float(np.nansum(run.start - workload.submit))
    assert waited > 0  # else nobody was ever planned for


def test_more_kinds_of_jobs_than_are_kept_in_mind_are_planned_all_the_same():
    # 300 kinds, told apart by their CPUs, wait for a node that is free at 1000; the last of them is short enough to go.
    jobs = 300
    workload = Workload.of(np.arange(jobs + 2), [1000, *(np.full(jobs, 5000.0)), 100], [3, *np.full(jobs, 4), 1],
                           limit=[1000, *np.full(jobs, 5000.0), 100], cpus=[0, *range(1, jobs + 1), 1])
    cluster = Cluster.from_records([Node("n0", ("default",), 4, cpus=1000)])

    found = starts(cluster, workload, jobs_tested=1000)
    assert found[1] == 1000
    assert jobs < found[-1] < 400
