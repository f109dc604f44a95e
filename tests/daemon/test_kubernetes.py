"""The daemon under Kubernetes: what it records and shows, and that watts do not depend on the scheduler."""

import math
import re
import time
from collections import Counter
from dataclasses import replace
from threading import Event

import pytest
from werkzeug.test import Client

from idlewatt.daemon.advice.job_wait_estimate import JobWaitEstimates
from idlewatt.daemon.efficiency.wasters import remedy
from idlewatt.daemon.view import DaemonView
from idlewatt.daemon.web.app import WebApp
from idlewatt.exporters.kubernetes import reflector
from idlewatt.exporters.simulated import kubernetes as site
from idlewatt.exporters.simulated import shards, throughput
from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.jobs import USERS, Behaviour
from idlewatt.exporters.simulated.kubernetes import USER
from idlewatt.exporters.simulated.slurm_shapes import SETTINGS
from idlewatt.storage.owners import OwnerKind
from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.records import JobState
from idlewatt.storage.waiting import WaitReason


def configured(url: str, folder, scheduler: str) -> dict[str, str]:
    """Return what differs from the rig's own configuration: GPUs and wall meters, and this scheduler."""
    tail = "_pods" if scheduler == "kubernetes" else ""
    pages = {"dcgm": f"dcgm{tail}", "cgroup": f"cgroup{tail}", "ipmi": "ipmi"}
    kinds = {"kubernetes": f"{{kind: kubernetes, url: '{url}/kubernetes', user: 'label:{USER}'}}",
             "slurm": f"{{kind: slurm_rest, url: '{url}', settings: {SETTINGS}}}"}
    read = "".join(f"{{kind: {kind}, http_sd_configs: [{{url: '{url}/targets/{page}'}}]}}, "
                   for kind, page in pages.items())
    query = {"kubernetes": throughput.PODS_QUERY, "slurm": throughput.QUERY}[scheduler]
    rates = f"""{{kind: throughput, url: '{url}', query: "{query}"}}, """
    curve = "{name: 'resnet50*', speeds: {2: 198.0, 4: 392.2, 8: 769.2}}"
    return {"storage": f"{{url: 'sqlite:///{folder / scheduler}.db'}}", "sources": f"[{read}{rates}{kinds[scheduler]}]",
            "recommenders": f"{{elastic: {{settle: 1s, curves: [{curve}]}}}}"}


def waited_for(met) -> None:
    pause, deadline = Event(), time.monotonic() + 60.0
    while not met():
        assert time.monotonic() < deadline, "the watches never came to the present"
        pause.wait(0.002)


@pytest.fixture
def kube(rig):
    """A daemon on the same cluster, which tells of itself as Kubernetes."""
    rig.server.site.kubernetes.bookmark_s = 0.02
    service = rig.service(**configured(rig.server.url, rig.folder, "kubernetes"))
    service.jobs()
    yield service
    rig.server.site.kubernetes.drop_watches()


@pytest.fixture
def step(rig, kube):
    """Return the function that moves the cluster on, waits until all watches know of it, and runs the cycles."""
    def move(seconds, *services):
        rig.now_s += seconds
        rig.server.site.refresh()
        store, source = rig.server.site.kubernetes.store, kube._collection.of("scheduler")[0].source
        waited_for(lambda: all(int(version or 0) >= store.version for version in source.versions.values()))
        for one in services:
            one.scrape()
            one.jobs()
            one.assess()

    return move


def watts(service):
    """Return the watts by partition and class, to a hundredth."""
    return {(partition.lower(), power_class): round(value, 2)
            for partition, classes in service.known.assessment.totals.items()
            for power_class, value in classes.items() if value}


def gpus(service):
    return {(gpu.uuid, gpu.state, gpu.job_id.rpartition("-")[2], gpu.user, gpu.account, gpu.guessed)
            for gpu in service.known.assessment.gpu_verdicts}


def numbered(job_id):
    """Return what both schedulers call a job alike."""
    return job_id.rpartition("-")[2]


def sized(service):
    """Return what CPUs and memory each job uses of its servers, and should have."""
    return {(numbered(row.job_id), row.state, row.nodes, row.gpus, row.cpus, row.cpus_advised, row.memory_bytes,
             row.memory_advised_bytes, row.basis, row.cpus_used, row.memory_used_bytes, row.starts_sooner_s)
            for row in service.known.recommended["allocation"].rows}


def placed(job):
    """Return which GPUs a job held, as it was recorded; Kubernetes does not know, its exporters do."""
    return tuple(sorted((part.node, part.gpus, part.gpu_indexes) for part in job.allocations))


def runs(service, now_s):
    """Return what was recorded of runs that have ended."""
    return sorted((numbered(job.job_id), job.state, job.submit_s, job.start_s, job.end_s, job.user, placed(job))
                  for job in service._history.jobs(0.0, now_s + 1.0) if job.end_s is not None)


def same_scenario(rig, kube, step, steps, seconds):
    """Run the same cluster under both schedulers and compare what both daemons say of it at each step."""
    slurm, seen = rig.service(**configured(rig.server.url, rig.folder, "slurm")), set()
    resized = set()
    for _ in range(steps):
        step(seconds, slurm, kube)
        assert watts(kube) == watts(slurm), f"at {rig.now_s}"
        assert gpus(kube) == gpus(slurm)
        for service in (slurm, kube):
            service.recommend("allocation")
        assert sized(kube) == sized(slurm)
        resized |= {row for row in sized(kube) if row[4] != row[5]}
        seen |= {power_class for _, power_class in watts(kube)}
    for service in (slurm, kube):
        service.record()
    return slurm, seen, resized


def test_the_same_scenario_has_the_same_watts_by_class_whatever_the_scheduler(rig, kube, step):
    slurm, seen, resized = same_scenario(rig, kube, step, 44, 90.0)
    assert {PowerClass.ALLOCATED_IDLE, PowerClass.ALLOCATED_UNDERUSED, PowerClass.STRANDED, PowerClass.PRODUCTIVE,
            PowerClass.HOST_ACTIVE} <= seen
    assert len(runs(kube, rig.now_s)) >= 5
    assert runs(kube, rig.now_s) == runs(slurm, rig.now_s)
    assert resized, "of nobody's CPUs it was said that others should have them"


@pytest.mark.long
def test_a_day_has_the_same_watts_by_class_whatever_the_scheduler(rig, kube, step):
    slurm, seen, _ = same_scenario(rig, kube, step, 1440, 60.0)
    assert PowerClass.ALLOCATED_HUNG in seen
    assert runs(kube, rig.now_s) == runs(slurm, rig.now_s)


def advised(service):
    """Return what each job is advised, by the active policy, and when it is foretold to start."""
    return {numbered(row.job_id): (row.action, row.placement and row.placement.nodes,
                                   row.placement and row.placement.gpus, row.cause, row.expected_start_s,
                                   row.start_interval_s)
            for row in service.known.advice.recommendations if not row.shadow}


def scaled(service):
    """Return what more or fewer GPUs would do for each job, but for what it takes of the scheduler."""
    service.recommend("elastic")
    return {(numbered(row.job_id), row.state, row.gpus, row.basis, row.sizes, row.remaining_s, row.free_gpus,
             row.has_room, *((effect and (effect.gpus, effect.time_ratio, effect.saved_s, tuple(map(
                 numbered, effect.helps)))) for effect in (row.more, row.fewer)))
            for row in service.known.recommended["elastic"].rows}


def expected(service):
    """Return each waiting job's wait estimate: when it starts, what stands before it, what smaller would start now.

    How a smaller request is written is each scheduler's own.
    """
    known = service.known.snapshot
    told = JobWaitEstimates(known, known.time_s, service.settings.advice.policy)
    estimates = [one for job in known.jobs if job.state is JobState.PENDING for one in told.of(job.job_id)]
    return {numbered(one.job_id): (one.verdict, one.placement, one.latest_s, one.position,
                                   {(numbered(other.job_id), other.state, other.free_s) for other in one.ahead},
                                   [(shape.change, shape.verdict, shape.placement) for shape in one.shapes])
            for one in estimates}


INTERVAL = -1


def waits(service):
    """Return why jobs wait, by the word of the scheduler and in what class of reasons."""
    return {numbered(job.job_id): (job.reason, job.reason.bars) for job in service.known.snapshot.jobs
            if job.state is JobState.PENDING}


def further(service):
    """Return what is said beyond starts: who would move where for whom, who holds idle GPUs, which nodes are spare."""
    for subject in ("moves", "reclaim"):
        service.recommend(subject)
    moves, reclaim = (service.known.recommended[subject].rows for subject in ("moves", "reclaim"))

    return ([(numbered(row.job_id), row.placement, [(numbered(move.job_id), move.origin, move.destination)
                                                    for move in row.moves]) for row in moves],
            {(numbered(row.job_id), row.gpus_idle, row.gpus_held, row.starts and tuple(
                numbered(one.job_id) for one in row.starts)) for row in reclaim},
            set(service.known.advice.power_down))


@pytest.mark.long
def test_the_same_scenario_has_the_same_advice_whatever_the_scheduler(rig, kube, step):
    slurm, compared, told = rig.service(**configured(rig.server.url, rig.folder, "slurm")), 0, set()
    reasons, seen = set(), set()
    for _ in range(6):
        step(600.0, slurm, kube)
        for service in (slurm, kube):
            service.advise()
        assert advised(kube) == advised(slurm), f"at {rig.now_s}"
        assert waits(kube) == waits(slurm), f"at {rig.now_s}"
        reasons |= {reason for reason, _ in waits(kube).values()}
        assert further(kube) == further(slurm), f"at {rig.now_s}"
        assert scaled(kube) == scaled(slurm), f"at {rig.now_s}"
        assert expected(kube) == expected(slurm), f"at {rig.now_s}"
        seen |= {"elastic"} if scaled(kube) else set()
        seen |= {shape[1] for one in expected(kube).values() for shape in one[-1]}
        compared += len(advised(kube))
        for words, service in (("kubectl --namespace=", kube), ("scontrol update ", slurm)):
            told |= {words for row in service.known.advice.recommendations if row.command.startswith(words)}
            assert all(row.command.startswith(words) for row in service.known.advice.recommendations if row.command)
    assert compared > 10
    assert reasons == {WaitReason.RESOURCES, WaitReason.PRIORITY}
    assert told == {"kubectl --namespace=", "scontrol update "}
    assert seen >= {"elastic", "starts", "waits"}


def serving(cluster):
    """Begin a service without a limit that holds two GPUs and does nothing with them."""
    job = cluster.submissions.make(next(user for user in USERS if user.name == "carol"), "A100", 0, Behaviour.IDLE,
                                   1.0, cluster.now_s)
    job.flavor, job.run_s = replace(job.flavor, limit_s=math.inf), math.inf
    cluster.start(job, [next(number for number, server in enumerate(cluster.servers)
                             if server.name == "dgx-a100-02")])
    return job


def parted(service):
    """Return the parts of GPUs that jobs hold; of which GPU only Slurm says, elsewhere it is read from exporters."""
    return {(numbered(job.job_id), held.node, part.share) for job in service.known.snapshot.jobs
            for held in job.allocations for part in held.parts}


def spent(service):
    """Return the joules of each job and of nobody, by class."""
    sums = Counter()
    for share in service.accountant.drain_all().shares:
        for power_class, joules in share.joules.items():
            sums[numbered(share.job_id), share.node, power_class] += joules
    return {key: pytest.approx(joules, rel=1e-6) for key, joules in sums.items() if joules}


@pytest.mark.long
def test_what_never_ends_and_what_shares_a_gpu_cost_the_same_whatever_the_scheduler(rig, kube, step, monkeypatch):
    """An endless job is a Deployment there, and shards of a GPU are KAI's fractions of it."""
    monkeypatch.setattr(shards, "sharded", lambda server: server.name == "dgx-v100-01")
    rig.cluster.shards = shards.share_a_gpu(rig.cluster)
    service, slurm = serving(rig.cluster), rig.service(**configured(rig.server.url, rig.folder, "slurm"))
    states = []
    # Its first quarter of an hour is grace; then ten minutes count, of which a longer step than 37.5 s is no more.
    for seconds in (*[225.0] * 4, *[30.0] * 20):
        step(seconds, slurm, kube)
        states += [{gpu.state for gpu in kube.known.assessment.gpu_verdicts if numbered(gpu.job_id) == str(
            service.job_id)}]
        assert watts(kube) == watts(slurm), f"at {rig.now_s}"
        assert gpus(kube) == gpus(slurm)
        assert parted(kube) == parted(slurm)
    assert states == [{PowerClass.ALLOCATED_UNDERUSED}] * 23 + [{PowerClass.ALLOCATED_IDLE}]
    assert sorted(share for *_, share in parted(kube)) == [0.25, 0.5]
    for one in (slurm, kube):
        one.advise()
    # Nothing in Slurm says that a job never ends: it may end whenever its like did, so that an interval may begin
    # earlier there. A Deployment never does, nor do those starts move that wait for it. All else is the same.
    assert {job: said[:INTERVAL] for job, said in advised(kube).items()} == {
        job: said[:INTERVAL] for job, said in advised(slurm).items()}
    told = {numbered(job.job_id): job for one in (slurm, kube) for job in one.known.snapshot.jobs}
    assert remedy(told[str(service.job_id)], PowerClass.ALLOCATED_IDLE, 2, 2)[1] == \
        f"kubectl --namespace=nlp scale deployment.apps/notebook-{service.job_id} --replicas=0"
    assert further(kube) == further(slurm)
    kinds = {numbered(job.job_id): job.owner_kind for job in kube.known.snapshot.jobs}
    assert kinds[str(service.job_id)] is OwnerKind.SERVICE
    assert spent(kube) == spent(slurm)


def test_nothing_is_unmeasured_and_jobs_are_shown_with_namespace_and_queue(kube, step):
    for _ in range(3):
        step(60.0, kube)
    totals = kube.known.assessment.totals
    assert sum(classes[PowerClass.UNMEASURED] for classes in totals.values()) == 0.0
    assert sum(classes[wasted] for classes in totals.values() for wasted in WASTED) > 0.0
    assert {"a100", "v100"} == set(totals)
    page = Client(WebApp(DaemonView(kube, lambda: kube.settings)))
    jobs = page.get("/api/v1/jobs").json["data"]
    assert jobs
    assert all(job["job_id"].startswith(f"{job['account']}/") and job["partition"] in totals for job in jobs)


def test_a_scheduler_is_answered_as_advised_and_with_nothing_when_the_cluster_was_not_seen(rig, kube, step):
    step(600.0, kube)
    kube.advise()
    page = Client(WebApp(DaemonView(kube, lambda: kube.settings)))
    nodes = [node.name for node in kube.known.snapshot.nodes]

    def scores(job_id):
        namespace, _, name = job_id.partition("/")
        owner = {"kind": "Job", "name": name, "uid": "u", "controller": True}
        pod = {"metadata": {"name": f"{name}-0", "namespace": namespace, "creationTimestamp": "2026-11-22T10:00:00Z",
                            "ownerReferences": [owner]},
               "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
        answer = page.post("/api/v1/kubernetes/prioritize", json={"Pod": pod, "NodeNames": nodes})
        return {row["Host"]: row["Score"] for row in answer.json}

    said = {row.action: row for row in kube.known.advice.recommendations if not row.shadow}
    assert not scores(said["hold"].job_id)
    assert set(scores("team/unheard-of")) == set(nodes)
    rig.now_s += 86_400.0
    assert not scores("team/unheard-of")


def test_an_api_server_that_is_gone_for_a_day_is_told_and_no_run_is_lost_or_doubled(rig, kube, step, monkeypatch):
    monkeypatch.setattr(site, "KEPT_S", 200_000.0)  # what is deleted unseen nobody can tell of
    monkeypatch.setattr(reflector, "_LONGEST_WAIT_S", 0.2)  # of a day that passes within seconds
    slurm, api = rig.service(**configured(rig.server.url, rig.folder, "slurm")), rig.server.site.kubernetes
    for _ in range(3):
        step(600.0, slurm, kube)
    kube.advise()
    page = Client(WebApp(DaemonView(kube, lambda: kube.settings)))
    assert page.get("/api/v1/recommendations").json["data"]
    lists = {name: one.lists for name, one in reflectors(kube).items()}
    api.faults.append(Fault("/", 503, times=-1))
    api.drop_watches()
    waited_for(lambda: all(one.error for one in reflectors(kube).values()))
    api.store.expire()  # what happened meanwhile is not told any more: all is listed anew
    for _ in range(4):
        rig.now_s += 21_600.0
        for one in reflectors(kube).values():
            one.last_answer -= 21_600.0  # silence is counted by a clock that nobody sets
        rig.server.site.refresh()
        for service in (slurm, kube):
            service.scrape()
            service.jobs()
            service.assess()
        kube.advise()
        assert not page.get("/api/v1/recommendations").json["data"]
        assert any(re.fullmatch(r"Kubernetes not read since .*", one.words) for one in kube.degraded())
    api.faults.clear()
    step(60.0, slurm, kube)
    waited_for(lambda: not any(one.error for one in reflectors(kube).values()))
    assert all(one.lists == lists[name] + 1 for name, one in reflectors(kube).items()), "one list, no flapping"
    step(60.0, slurm, kube)
    kube.advise()
    assert page.get("/api/v1/recommendations").json["data"]
    assert not [one for one in kube.degraded() if one.cause.startswith("source")]
    for service in (slurm, kube):
        service.record()
    # Of what ran meanwhile nobody can tell on which GPUs.
    assert [run[:-1] for run in runs(kube, rig.now_s)] == [run[:-1] for run in runs(slurm, rig.now_s)]
    assert len(runs(kube, rig.now_s)) > 20


def reflectors(service):
    """Return the lists of the source, by name."""
    return service._collection.of("scheduler")[0].source._reflectors
