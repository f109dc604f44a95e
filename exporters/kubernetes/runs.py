"""Jobs of groups of pods: what they ask and hold now, and the runs that have ended.

Kubernetes keeps no accounts: an ended pod stays for a while, a deleted one is gone. What ran at the last look and does
not run now has ended, by the best evidence that is left; a run tells its start but once, so that it stays the same run.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any

from ...storage.owners import OwnerKind
from ...storage.records import Allocation, Job, JobState
from ...storage.waiting import WaitReason
from ..software import Software, software
from .groups import CRON, NOTEBOOKS, SERVICES, JobPods, Key
from .messages import gang_reason, pod_reason, shortened
from .pods import PodFacts
from .queues import Queues
from .request import Grounds, parts_of
from .steer import Levers

KEPT = 20_000
"""Ended runs that are remembered."""
_PREEMPTED = ("PreemptionByScheduler", "EvictionByEvictionAPI", "Preempting", "Preempted", "TerminationByScheduler")
_NODE = ("DeletionByTaintManager", "TerminationByKubelet", "DeletionByPodGC", "NodeLost", "Evicted", "NodeShutdown",
         "Terminated", "NodeAffinity")
_ENDED_BY = {"DeadlineExceeded": JobState.TIMEOUT, "OOMKilled": JobState.OUT_OF_MEMORY}

Naming = Callable[[JobPods], str]
"""Returns a name for a job: of its partition, or of its user."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What jobs are laid over."""

    grounds: Grounds
    queues: Queues
    partition: Naming
    user: Naming
    queue: Naming = lambda group: ""  # noqa: E731 - a default
    """The queue whose quota a group uses."""
    levers: Levers = Levers()
    blind: bool = False
    """The workloads of queues are not known now: nobody can tell whether one that is not seen has ended."""


@dataclass(slots=True)
class _Life:
    """What is remembered of a group."""

    name: str
    submit_s: float
    start_s: float | None = None
    """Of the present run."""
    job: Job | None = None
    """As it ran at the last look."""
    waited: Job | None = None
    """As it waited at the last look."""
    queued: bool = False
    """It waited in a queue, without pods."""
    held: frozenset[str] = frozenset()
    """The pods that held GPUs at the last look, by their uids."""
    seen_s: float = -math.inf
    """When it was last seen running."""


_NOBODY = _Life("", 0.0)


@dataclass(slots=True)
class JobRuns:
    """The jobs that there are, look by look."""

    _lives: dict[Key, _Life] = field(default_factory=dict)
    _ended: OrderedDict[tuple[str, float, float | None], Job] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, groups: Sequence[JobPods], scene: Surroundings, now_s: float) -> list[Job]:
        """Return the jobs that wait or run now; those that have ended since the last look are kept for ``ended``."""
        jobs, seen = [], dict[Key, _Life]()
        taken = {group.key[:3] for group in groups if group.kind == CRON and _unfinished(group)
                 and self._lives.get(group.key, _NOBODY).name == group.name}
        for group in groups:
            life = seen[group.key] = self._lives.get(group.key) or _Life(_named(group, taken), _submitted(group))
            job = self._job(group, life, scene)
            active = job is not None and job.state.active
            if life.job is not None and not active:
                self._note(_over(life.job, group, life, now_s))
                life.start_s = None
            elif job is None:
                self._missed(group, life, scene, now_s)
            life.job, life.waited = (job, None) if active else (None, job)
            life.held = frozenset([pod.uid for pod in group.pods if pod.holds])
            life.seen_s = now_s if active else -math.inf
            life.queued = group.work is not None and not group.pods
            if job is not None:
                jobs.append(job)
        for key in [key for key in self._lives if key not in seen]:
            life = self._lives[key]
            if scene.blind and life.queued:
                seen[key] = life
            else:
                self._gone(life, JobPods(key), now_s)
        self._lives = seen
        return jobs

    def ended(self, since_s: float) -> list[Job]:
        """Return the runs that ended at or after a time, as far as they are remembered."""
        with self._lock:  # accounts are read on another thread
            known = list(self._ended.values())
        return [job for job in known if job.end_s is not None and job.end_s >= since_s]

    def _note(self, job: Job) -> None:
        with self._lock:
            self._ended[job.job_id, job.submit_s, job.start_s] = job
            while len(self._ended) > KEPT:
                self._ended.popitem(last=False)

    def _gone(self, life: _Life, group: JobPods, now_s: float) -> None:
        """Note the end of what ran or waited at the last look, and of which nothing is left."""
        job = life.job or life.waited
        if job is not None:
            self._note(_over(job, group, life, now_s))

    def _missed(self, group: JobPods, life: _Life, scene: Surroundings, now_s: float) -> None:
        """Note a run that began and ended between two looks, or before the first; else that it waits no more."""
        ran = [pod for pod in (*group.pods, *group.gone) if pod.node]
        if not ran:
            self._gone(life, group, now_s)
            return
        start_s = _first(pod.scheduled_s for pod in ran)
        job_id = f"{group.namespace}/{life.name}"
        if (job_id, life.submit_s, start_s) not in self._ended:
            most = _at_their_most(ran)
            held = self._record(group, most, life, scene)
            # Nobody saw it run, and where nothing tells of its end it may never have: nodes refuse pods, too.
            latest_s = start_s if start_s is not None and all(pod.over for pod in ran) else now_s
            self._note(_over(replace(held, state=JobState.RUNNING, start_s=start_s, allocations=_held(most, scene)),
                             group, life, latest_s))

    def _job(self, group: JobPods, life: _Life, scene: Surroundings) -> Job | None:
        """Return the job of a group, None where it is over."""
        active = [pod for pod in group.pods if pod.holds]
        waiting = [pod for pod in group.pods if not pod.node and not pod.over and pod.deleted_s is None]
        if active:
            if life.start_s is None:
                life.start_s = _first([pod.scheduled_s for pod in active])
            leaving = None not in [pod.deleted_s for pod in active]
            reason, text = _starts(active)
            return self._record(group, [*active, *waiting], life, scene,
                                state=JobState.COMPLETING if leaving else JobState.RUNNING, start_s=life.start_s,
                                allocations=_held(active, scene), reason=reason, reason_text=text)
        if not waiting and (_finished(group) or group.work is None):
            return None
        reason, text = self._waits(group, waiting, scene.partition(group), scene)
        planned = tuple(sorted({pod.nominated for pod in waiting if pod.nominated}))
        return self._record(group, waiting, life, scene, state=JobState.PENDING, reason=reason, reason_text=text,
                            scheduled_nodes=planned)

    def _record(self, group: JobPods, pods: Sequence[PodFacts], life: _Life, scene: Surroundings,
                state: JobState = JobState.UNKNOWN, **others: Any) -> Job:
        """Return a job; ``others`` is what depends on whether it runs."""
        work, first = group.work, pods[0] if pods else None
        parts = parts_of(pods) if pods else work.parts if work else ()
        queue, runs = scene.queue(group), _software(first.image if first else "")
        pending = state is JobState.PENDING
        labels = first.labels if first else work.labels if work else {}
        request = scene.grounds.wanted(parts, group.namespace, labels, queue) if pending \
            else scene.grounds.held(parts, queue)
        return Job(
            job_id=f"{group.namespace}/{life.name}", submit_s=life.submit_s, state=state,
            partition=scene.partition(group), request=request, user=scene.user(group),
            account=group.namespace, name=group.name, qos=first.priority_class if first else "",
            limit_s=_limit(group, first),
            priority=first.priority if first else work.priority if work else None,
            restarts=sum([pod.restarts for pod in group.pods]) + sum([pod.restarts for pod in group.gone]),
            owner_kind=_kind(group),
            owner=f"{group.kind}/{group.name}", steering=scene.levers.steering(group, pods, queue),
            image=runs.image, framework=runs.framework, cuda=runs.cuda, **others)

    def _waits(self, group: JobPods, pods: Sequence[PodFacts], partition: str, scene: Surroundings) -> tuple[WaitReason,
                                                                                                             str]:
        """Return why a group waits: for its gates, in its queue, or by the word of the scheduler on its first pod."""
        gates = sorted({gate for pod in pods for gate in pod.gates})
        work = group.work
        if scene.levers.awaits(group, pods):
            return WaitReason.NONE, "waits for advice"
        if work is not None and not work.admitted:
            return scene.queues.waits_for(work, scene.queues.local.get((work.namespace, work.queue), partition))
        if gates:
            return WaitReason.HELD, f"SchedulingGated: {', '.join(gates)}"[:300]
        reasons = [*_of_gang(group, pods, scene.queues), *((pod_reason(*pod.wait), pod.wait) for pod in pods
                                                           if any(pod.wait))]
        if not reasons:
            return (WaitReason.PREPARING, "pods are being made") if not pods else (WaitReason.NONE, "")
        # One pod that no node suits keeps the whole gang waiting.
        reason, (word, message) = next((candidate for candidate in reasons if candidate[0].bars), reasons[0])
        return reason, ": ".join(filter(None, (word, shortened(message))))


def _of_gang(group: JobPods, pods: Sequence[PodFacts], queues: Queues) -> Iterator[tuple[WaitReason, tuple[str, str]]]:
    """Yield why the gang of a group waits, where its scheduler says that on the gang."""
    known = queues.gangs.get((group.namespace, next((pod.gang for pod in pods if pod.gang), "")))
    if known is not None and (known.reason or known.message):
        yield gang_reason(known.reason, known.message), (known.reason, known.message)


@lru_cache(maxsize=1024)
def _software(image: str) -> Software:
    """Return what an image tells: thousands of jobs run the same one."""
    return software(image)


def _limit(group: JobPods, first: PodFacts | None) -> float | None:
    """Return how long a job may run at most: by the first that says so of its owner, its workload and its pods."""
    for teller in (group.batch, group.work, first):
        if teller is not None and teller.limit_s is not None and 0 < teller.limit_s < math.inf:
            return teller.limit_s
    return None


def _named(group: JobPods, taken: set[tuple[str, str, str]]) -> str:
    """Return the name that a job has from now on: that of its CronJob for one of its batch jobs at a time."""
    if group.kind != CRON or not _unfinished(group):
        return group.name
    if group.key[:3] in taken and group.batch is not None:
        return group.batch.name
    taken.add(group.key[:3])
    return group.name


def _unfinished(group: JobPods) -> bool:
    """Tell whether it runs or waits."""
    return any(not pod.over for pod in group.pods) or (group.work is not None and not _finished(group))


def _submitted(group: JobPods) -> float:
    """Return when it was requested: its owner's own time where that is known, which outlives all pods."""
    for teller in (group.batch, group.work):
        if teller is not None and teller.created_s is not None:
            return teller.created_s
    return min(pod.created_s for pod in (*group.pods, *group.gone))


def _first(times: Iterable[float | None]) -> float | None:
    return min([time_s for time_s in times if time_s is not None], default=None)


def _at_their_most(ran: Sequence[PodFacts]) -> list[PodFacts]:
    """Return the pods of the last moment at which those that ran held the most GPUs: pods of a Job may take turns."""
    spans = [(pod, *_span(pod)) for pod in ran]
    changes = [change for pod, start_s, end_s in spans
               for change in ((start_s, 1, pod), (end_s, 0 if end_s > start_s else 2, pod))]
    gpus = slices = count = 0
    most, peak_s = (0, 0, 0), -math.inf
    for time_s, order, pod in sorted(changes, key=itemgetter(0, 1)):
        sign = 1 if order == 1 else -1
        gpus, slices, count = gpus + sign * pod.amount.gpus, slices + sign * pod.amount.slices, count + sign
        if (gpus, slices, count) >= most:
            most, peak_s = (gpus, slices, count), time_s
    return [pod for pod, start_s, end_s in spans if start_s == peak_s or start_s < peak_s < end_s]


def _span(pod: PodFacts) -> tuple[float, float]:
    """Return from when until when a pod held what it requested; one that is over without a time may never have."""
    start_s = pod.created_s if pod.scheduled_s is None else pod.scheduled_s
    end_s = pod.ended_s if pod.ended_s is not None else start_s if pod.over else pod.deleted_s
    return start_s, math.inf if end_s is None else max(start_s, end_s)


def _held(pods: Iterable[PodFacts], scene: Surroundings) -> tuple[Allocation, ...]:
    """Return what pods hold of each node; which GPUs these are the exporters tell, by the pods' names."""
    nodes: dict[str, list[PodFacts]] = {}
    for pod in pods:
        nodes.setdefault(pod.node, []).append(pod)
    return tuple([_allocation(name, node_pods, scene) for name, node_pods in nodes.items()])


def _allocation(name: str, pods: Sequence[PodFacts], scene: Surroundings) -> Allocation:
    node = scene.grounds.nodes.get(name)
    if len(pods) == 1:
        pod, amount = pods[0], pods[0].amount
        return Allocation(name, node.whole(amount) if node else amount.gpus, None, math.ceil(amount.cpus),
                          int(amount.memory_bytes), (pod.full_name, *pod.known_as) if amount.any_gpu else (),
                          pod.devices, pod.parts)
    return Allocation(
        name, sum(node.whole(pod.amount) if node else pod.amount.gpus for pod in pods), None,
        math.ceil(sum(pod.amount.cpus for pod in pods)), int(sum(pod.amount.memory_bytes for pod in pods)),
        members=tuple(sorted({name for pod in pods if pod.amount.any_gpu
                              for name in (pod.full_name, *pod.known_as)})),
        gpu_uuids=tuple(sorted({uuid for pod in pods for uuid in pod.devices})),
        parts=tuple(part for pod in pods for part in pod.parts))


def _starts(active: Iterable[PodFacts]) -> tuple[WaitReason, str]:
    """Return that a job holds GPUs while a pod of it has not begun, and why."""
    late = [pod for pod in active if not pod.ready and pod.deleted_s is None]
    if not late:
        return WaitReason.NONE, ""
    why = next((pod.starting for pod in late if pod.starting), "")
    return WaitReason.PREPARING, f"starting: {why}" if why else "starting"


def _kind(group: JobPods) -> OwnerKind:
    if group.kind in NOTEBOOKS or True in [pod.interactive for pod in group.pods]:
        return OwnerKind.INTERACTIVE
    return OwnerKind.SERVICE if group.kind in SERVICES else OwnerKind.BATCH


def _finished(group: JobPods) -> bool:
    """Tell whether its owner says that nothing more will come of it."""
    return bool((group.work and group.work.finished)
                or (group.batch and (group.batch.complete or group.batch.failed)))


def _over(job: Job, group: JobPods, life: _Life, now_s: float) -> Job:
    """Return a run after its end, by what its owner, its pods or their absence tell, in the server's time if known."""
    pods = [pod for pod in (*group.pods, *group.gone) if pod.uid in life.held or _is_of(pod, job.start_s)]
    state, text = _verdict(group, pods)
    end_s = _end_s(group, pods, life, now_s)
    complete = group.batch is not None and group.batch.complete
    codes = [0] if complete else [pod.exit_code for pod in pods if pod.exit_code is not None]
    return replace(job, state=state, end_s=max(end_s, job.start_s or end_s), reason=WaitReason.NONE, reason_text=text,
                   exit_code=max(codes, key=abs, default=None), scheduled_nodes=())


def _is_of(pod: PodFacts, start_s: float | None) -> bool:
    """Tell whether a pod is one of a run that began at a time: those of earlier runs say nothing of how it ended."""
    if start_s is None:
        return True
    return pod.scheduled_s is not None and pod.scheduled_s >= start_s and (pod.ended_s is None or pod.ended_s > start_s)


def _end_s(group: JobPods, pods: Sequence[PodFacts], life: _Life, now_s: float) -> float:
    """Return when a run ended: with the last of its pods, of which one may be gone without a word of its end."""
    told_s = group.batch.ended_s if group.batch is not None else None
    times = [pod.ended_s for pod in pods if pod.ended_s is not None]
    known = {pod.uid: pod for pod in pods}
    for pod in map(known.get, life.held):
        if pod is None or pod.ended_s is None:
            # A deletion is announced for the end of the time that a pod has for it.
            if pod is not None and pod.deleted_s is not None:
                times.append(min(pod.deleted_s, now_s))
            elif told_s is None:
                times.append(now_s)
    times = times or [min(pod.deleted_s, now_s) for pod in pods if pod.deleted_s is not None]
    if told_s is None:
        return max(times, default=now_s)
    return max([*times, told_s] if times else [told_s, life.seen_s])


def _verdict(group: JobPods, pods: Sequence[PodFacts]) -> tuple[JobState, str]:
    if group.batch is not None and group.batch.complete:
        return JobState.COMPLETED, ""
    ends = [word for pod in pods for word in (pod.disrupted, pod.end_reason) if word]
    if group.work is not None and group.work.evicted:
        ends.insert(0, group.work.evicted)
    if group.batch is not None and group.batch.failed:
        ends.append(group.batch.failed)
    for word in ends:
        if word in _ENDED_BY or word in _PREEMPTED or word in _NODE:
            return _ENDED_BY.get(word) or (JobState.PREEMPTED if word in _PREEMPTED else JobState.NODE_FAILED), word
    if (group.batch is not None and group.batch.failed) or any(pod.phase == "Failed" for pod in pods):
        return JobState.FAILED, next(iter(ends), "")
    if pods and all(pod.phase == "Succeeded" for pod in pods):
        return JobState.COMPLETED, ""
    return JobState.CANCELLED, next(iter(ends), "")
