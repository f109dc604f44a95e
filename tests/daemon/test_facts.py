from dataclasses import replace
from types import SimpleNamespace

from idlewatt.daemon.facts import Known, Process, published
from idlewatt.daemon.job_facts import flavour_facts, job_facts, power_and_waste
from idlewatt.daemon.recall import Recall
from idlewatt.daemon.waste import WasteAccountant, WasteSettings
from idlewatt.exporters.source import SourceStatus
from idlewatt.storage.finished import Finished
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuDetail, GpuReading, NodeReading, Telemetry
from idlewatt.storage.waiting import WaitReason


def known(*pending: Job) -> Known:
    """Return one DGX with a job of carol's that does nothing on two of its GPUs, and an empty one."""
    idle = Job("1", 0.0, JobState.RUNNING, "a100", Request(2), user="carol", start_s=0.0,
               allocations=(Allocation("dgx01", 2, (0, 1)),))
    nodes = tuple(Node(name, ("a100",), 4, cpus=64) for name in ("dgx01", "dgx02"))
    snapshot = SchedulerSnapshot(1000.0, nodes, (Partition("a100", ("dgx01", "dgx02")),), (idle, *pending))
    gpus = tuple(GpuReading(f"{name}-{index}", name, index, 1000.0, "A100", power_watts=50.0, activity=0.0,
                              activity_source="sm_active", resident=0.0, memory_used_bytes=0.0)
                   for name in ("dgx01", "dgx02") for index in range(4))
    walls = tuple(NodeReading(name, 1000.0, power_watts=1000.0, power_source="ipmi") for name in ("dgx01", "dgx02"))
    accountant = WasteAccountant(WasteSettings(window=0, grace_batch=0))
    return Known(snapshot=snapshot, assessment=accountant.assess(snapshot, Telemetry(gpus, walls), 1000.0))


def test_wasted_watts_by_node_add_up_to_all_that_is_wasted():
    page, assessment = published(known(), Process()), known().assessment
    assert sum(page.node_wasted_power_watts.values()) == assessment.wasted_watts > 0
    assert page.node_wasted_power_watts["dgx02"] == 1000.0


def test_a_user_is_named_with_what_the_own_jobs_waste_and_nothing_else():
    assert published(known(), Process()).user_wasted_power_watts == {("carol", "a100"): 100.0}


def test_jobs_are_published_one_by_one_only_as_many_as_are_asked_for():
    page = published(known(), Process(job_series=10))
    labels = ("1", "a100", "carol", "", "")
    assert page.job_power_watts == page.job_wasted_power_watts == {labels: 100.0}
    assert page.job_start_timestamp_seconds == {labels: 0.0}
    assert page.user_power_watts == {("carol", "a100"): 100.0}
    assert page.node_info == {("dgx01", "a100"): 1.0, ("dgx02", "a100"): 1.0}
    assert published(known(), Process()).job_power_watts == {}


def verdict(job_id, watts, wasted_watts, state=PowerClass.ALLOCATED_IDLE, submit_s=0.0):
    return SimpleNamespace(run=(job_id, submit_s, 0.0) if job_id else None, job_id=job_id, partition="a100",
                           user="carol", node="dgx01", watts=watts, wasted_watts=wasted_watts, state=state)


def test_of_jobs_users_and_flavours_whose_gpus_do_nobody_knows_what_nobody_says_that_they_waste_nothing():
    jobs = tuple(Job(str(number), 0.0, JobState.RUNNING, "a100", Request(1), start_s=0.0, user="carol",
                     flavour=f"f{number}") for number in range(3))
    gpus = [verdict("0", 300.0, 0.0, PowerClass.UNMEASURED), verdict("1", 300.0, 0.0, PowerClass.PRODUCTIVE),
            verdict("1", 300.0, 0.0, PowerClass.UNMEASURED), verdict("2", 300.0, 250.0),
            verdict("2", 300.0, 0.0, PowerClass.UNMEASURED)]
    found, snapshot = SimpleNamespace(gpu_verdicts=gpus), SchedulerSnapshot(0.0, jobs=jobs)
    by_job, by_flavour = job_facts(found, snapshot, 10), flavour_facts(found, snapshot)
    assert {labels[0]: watts for labels, watts in by_job["job_power_watts"].items()} == {"0": 300, "1": 600, "2": 600}
    assert {labels[0]: watts for labels, watts in by_job["job_wasted_power_watts"].items()} == {"2": 250.0}
    assert by_flavour["flavour_wasted_power_watts"] == {("a100", "f2"): 250.0}
    assert by_flavour["flavour_power_watts"]["a100", "f0"] == 300.0
    power, wasted = power_and_waste((gpu.user, gpu) for gpu in gpus[:3])
    assert (power, wasted) == ({"carol": 900.0}, {}), "1 GPU of 3 does something, of the others nobody knows"


def test_the_watts_of_two_clusters_jobs_of_one_number_are_not_one_jobs():
    jobs = tuple(Job("7", submit_s, JobState.RUNNING, partition, Request(1), start_s=0.0, flavour=partition)
                 for submit_s, partition in ((-1.0, "a100"), (-2.0, "v100")))
    gpus = [verdict("7", 300.0, 100.0, submit_s=-1.0), verdict("7", 50.0, 20.0, submit_s=-2.0)]
    found, snapshot = SimpleNamespace(gpu_verdicts=gpus), SchedulerSnapshot(0.0, jobs=jobs)
    by_job = job_facts(found, snapshot, 10)
    assert {labels[1]: watts for labels, watts in by_job["job_power_watts"].items()} == {"a100": 300.0, "v100": 50.0}
    assert {labels[1]: watts for labels, watts in by_job["job_wasted_power_watts"].items()} == {
        "a100": 100.0, "v100": 20.0}
    assert {labels[1]: watts for labels, watts in flavour_facts(found, snapshot)["flavour_power_watts"].items()} == {
        "a100": 300.0, "v100": 50.0}


def test_what_labels_do_not_tell_apart_is_one_series_with_the_watts_of_both():
    jobs = tuple(Job("7", submit_s, JobState.RUNNING, "a100", Request(1), start_s=0.0) for submit_s in (-1.0, -2.0))
    gpus = [verdict("7", 300.0, 100.0, submit_s=-1.0), verdict("7", 50.0, 20.0, submit_s=-2.0)]
    by_job = job_facts(SimpleNamespace(gpu_verdicts=gpus), SchedulerSnapshot(0.0, jobs=jobs), 10)
    assert [*by_job["job_power_watts"].values()] == [350.0]


def test_of_many_jobs_those_that_waste_most_are_published():
    jobs = [Job(str(number), 0.0, JobState.RUNNING, "a100", Request(1), start_s=0.0) for number in range(20)]
    gpus = [verdict(job.job_id, 300.0, float(job.job_id)) for job in jobs]
    gpus += [verdict("3", None, 0.0, PowerClass.UNMEASURED), verdict("gone", 300.0, 300.0)]
    found = job_facts(SimpleNamespace(gpu_verdicts=gpus), SchedulerSnapshot(0.0, jobs=tuple(jobs)), 3)
    assert [labels[0] for labels in found["job_wasted_power_watts"]] == ["19", "18", "17"]


def test_watts_add_up_by_flavour_and_those_of_no_flavour_are_told_as_such():
    jobs = [Job(str(number), 0.0, JobState.RUNNING, "a100", Request(1), start_s=0.0, flavour=flavour)
            for number, flavour in enumerate(("s", "s", "", None))]
    gpus = [verdict(job.job_id, 300.0, 100.0) for job in jobs]
    gpus += [verdict("0", None, 0.0, PowerClass.UNMEASURED), verdict("", 50.0, 50.0)]
    found = flavour_facts(SimpleNamespace(gpu_verdicts=gpus), SchedulerSnapshot(0.0, jobs=tuple(jobs)))
    assert found == {"flavour_power_watts": {("a100", "s"): 600.0, ("a100", ""): 300.0},
                     "flavour_wasted_power_watts": {("a100", "s"): 200.0, ("a100", ""): 100.0}}


def test_of_a_node_that_is_not_measured_nobody_says_that_it_wastes_nothing():
    before = known()
    dark = Telemetry(nodes=tuple(NodeReading(name, 1000.0, power_watts=1000.0, power_source="ipmi")
                                 for name in ("dgx01", "dgx02")))
    found = WasteAccountant(WasteSettings(window=0, grace_batch=0)).assess(before.snapshot, dark, 1000.0)
    page = published(replace(before, assessment=found), Process())
    assert page.node_wasted_power_watts == {"dgx01": None, "dgx02": None}
    assert page.user_wasted_power_watts == {}
    assert page.power_watts["a100", "unmeasured"] == 2000.0


def test_gpus_that_jobs_hold_are_counted_by_partition_whether_anybody_measures_them_or_not():
    before = known()
    found = WasteAccountant(WasteSettings(window=0, grace_batch=0)).assess(before.snapshot, Telemetry(), 1000.0)
    assert published(before, Process()).allocated_gpus == {"a100": 2.0}
    page = published(replace(before, assessment=found), Process())
    assert page.allocated_gpus == {"a100": 2.0}
    assert page.gpus["a100", "unmeasured"] == 8.0
    empty = replace(before.snapshot, jobs=())
    found = WasteAccountant(WasteSettings(window=0, grace_batch=0)).assess(empty, Telemetry(), 1000.0)
    assert published(replace(before, assessment=found), Process()).allocated_gpus == {"a100": 0.0}


def test_empty_nodes_of_which_only_the_gpus_are_measured_are_counted():
    before = known()
    gpus = Telemetry(tuple(GpuReading(f"{name}-{index}", name, index, 1000.0, "A100", power_watts=50.0, activity=0.0)
                             for name in ("dgx01", "dgx02") for index in range(4)))
    found = WasteAccountant(WasteSettings(window=0, grace_batch=0)).assess(before.snapshot, gpus, 1000.0)
    assert published(replace(before, assessment=found), Process()).unmeasured_hosts == {"a100": 1.0}


def test_a_gpu_in_use_outside_the_scheduler_is_told_with_node_gpu_and_since_when():
    before, accountant = known(), WasteAccountant(WasteSettings(outside_after=30))
    for now in (1000.0, 1015.0, 1030.0):
        gpus = (GpuReading("u", "dgx02", 3, now, "A100", power_watts=690.0, activity=1.0),)
        found = accountant.assess(replace(before.snapshot, time_s=now), Telemetry(gpus), now)
    page = published(replace(before, assessment=found), Process())
    assert page.outside_scheduler_since_timestamp_seconds == {("dgx02", "3"): 1000.0}
    assert page.gpu_state["dgx02", "3"] == 9.0


def test_a_gpu_whose_driver_told_an_error_is_named_with_its_number():
    gpus = tuple(GpuReading(f"u{index}", "dgx02", index, 1000.0, detail=GpuDetail(xid=xid))
                 for index, xid in enumerate((None, 0, 79)))
    assert published(Known(Telemetry(gpus)), Process()).gpu_error_info == {("dgx02", "2", "79"): 1.0}


def test_jobs_wait_by_partition_and_reason_and_each_task_of_an_array_counts():
    jobs = [Job("2", 1.0, JobState.PENDING, "a100", Request(1), reason=WaitReason.PRIORITY, tasks=40),
            Job("3", 1.0, JobState.PENDING, "a100", Request(1), reason=WaitReason.PRIORITY),
            Job("4", 1.0, JobState.PENDING, 'a"b\\c', Request(1))]
    assert published(known(*jobs), Process()).pending_jobs == {("a100", "priority"): 41.0, ('a"b\\c', "none"): 1.0}


def test_a_job_that_may_run_in_several_partitions_counts_in_the_first_alone():
    page = published(known(Job("2", 1.0, JobState.PENDING, "a100,v100", Request(2), user="ann", tasks=3)), Process())
    assert page.pending_jobs == {("a100", "none"): 3.0}
    assert page.jobs["a100", "", "queued"] == 3.0
    assert (page.user_queued_jobs, page.user_queued_gpus) == ({("ann", "a100"): 3.0}, {("ann", "a100"): 6.0})


def test_before_the_first_snapshot_nothing_is_said_of_jobs():
    assert published(Known(), Process()).pending_jobs == {}


def test_a_source_that_nobody_has_read_yet_is_not_said_to_be_down():
    failed = SourceStatus("slurm", "scheduler", success=False, duration_s=0.5, reads=1, failures=1)
    unread = SourceStatus("throughput", "throughput", success=False, duration_s=0.0)
    page = published(Known(), Process((failed, unread)))
    assert (page.up, page.collector_duration_seconds) == ({"slurm": 0.0}, {"slurm": 0.5})


def test_jobs_are_counted_by_partition_flavour_and_state_and_the_longest_queues_of_users_told():
    pending = [Job(str(number), 0.0, JobState.PENDING, "a100", Request(4), user=f"u{number % 70}", tasks=2,
                   flavour="4-gpu") for number in range(100, 240)]
    page = published(known(*pending), Process())
    assert page.jobs == {("a100", "4-gpu", "queued"): 280.0, ("a100", "", "running"): 1.0}
    assert len(page.user_queued_jobs) == len(page.user_queued_gpus) == 50
    assert set(page.user_queued_jobs.values()) == {4.0}
    assert set(page.user_queued_gpus.values()) == {16.0}
    assert published(replace(known(*pending), old=True), Process()).jobs == {}


def test_how_jobs_fared_is_told_by_partition_flavour_and_window_and_not_while_the_scheduler_is_unread():
    fared = {"1d": (Finished("a100", "4-gpu", 3, 60.0, 3600.0, 3660.0, 1.1, 80_000.0),)}
    page, key = published(replace(known(), fared=fared), Process()), ("a100", "4-gpu", "1d")
    assert (page.finished_jobs[key], page.job_wait_mean_seconds[key], page.job_slowdown_mean_ratio[key]) == (3, 60, 1.1)
    assert (page.job_run_mean_seconds[key], page.job_completion_mean_seconds[key]) == (3600.0, 3660.0)
    assert page.job_makespan_seconds == {key: 80_000.0}
    assert published(replace(known(), fared=fared, old=True), Process()).finished_jobs == {}


def test_what_rests_on_the_same_facts_is_the_same_object_and_goes_with_them():
    recall, facts = Recall(), known()
    page, again = (published(facts, Process(), recall) for _ in range(2))
    large = ("gpu_state", "node_gpus", "node_power_watts", "node_wasted_power_watts", "node_info", "job_wait_seconds")
    assert [name for name in large if getattr(page, name) is not getattr(again, name)] == []
    later = published(replace(facts, assessment=replace(facts.assessment)), Process(), recall)
    assert [name for name in large if getattr(later, name) is page.__dict__[name]] == ["node_info", "job_wait_seconds"]
    assert later == page == published(facts, Process())


def test_two_gpus_of_a_node_with_one_number_are_two_series():
    """The drivers of two vendors count from 0 each, and so may two exporters."""
    def gpu(uuid: str, index: int, activity: float) -> GpuReading:
        return GpuReading(uuid, "dgx01", index, 1000.0, "A100", power_watts=50.0 + 200 * activity, activity=activity,
                          activity_source="sm_active", resident=activity, detail=GpuDetail(xid=79))

    gpus = (gpu("GPU-a", 0, 0.0), gpu("GPU-b", 0, 0.9), gpu("GPU-c", 1, 0.0))
    snapshot = SchedulerSnapshot(1000.0, (Node("dgx01", ("a100",), 4),), (Partition("a100", ("dgx01",)),))
    found = WasteAccountant(WasteSettings(window=0)).assess(snapshot, Telemetry(gpus), 1000.0)
    page = published(Known(snapshot=snapshot, assessment=found, telemetry=Telemetry((*gpus, gpus[2]))), Process())
    assert page.gpu_state.keys() == {("dgx01", "GPU-a"), ("dgx01", "GPU-b"), ("dgx01", "1"), ("dgx01", "2")}
    assert page.gpu_state["dgx01", "GPU-a"] != page.gpu_state["dgx01", "GPU-b"]
    assert page.gpu_error_info.keys() == {("dgx01", name, "79") for name in ("GPU-a", "GPU-b", "1")}
