"""Batch jobs: whose they are, by which their pods' jobs are named, and how they end.

A job has one name from its first pod to its last. So the owner of a batch job that is not understood is read as far
as that can be, and known for as long as pods name it: it is deleted before they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from ..text import clean
from .disruptions import spare_pods
from .fields import Condition, Identity, ListOf, Meta, ObjectPart, Owner, Text, condition, seconds
from .objects import BatchJob, BatchSpec, BatchStatus
from .pods import PodFacts
from .strange_pods import decoded

_BATCH = msgspec.json.Decoder(BatchJob)
BATCHES = msgspec.json.Decoder(ListOf[BatchJob])
"""Reads a page of them at once."""


class BatchFacts(msgspec.Struct, frozen=True, gc=False):
    """A job of the group batch; times in seconds since the epoch."""

    namespace: str
    name: str
    uid: str
    owner: Owner | None
    created_s: float | None
    limit_s: float | None
    suspended: bool
    begun: bool
    ended_s: float | None
    complete: bool
    failed: str
    """Why it failed, '' where it has not."""
    spare: float
    """So many of its pods may be taken away at once without an end of it."""


def parse_batch(raw: Text) -> BatchFacts:
    """Return a job of the group batch."""
    return batch_of(_BATCH.decode(raw))


def batch_of(job: BatchJob) -> BatchFacts:
    """Return what is kept of a job of the group batch."""
    complete, failed = (condition(job.status.conditions, kind) for kind in ("Complete", "Failed"))
    return BatchFacts(
        namespace=clean(job.metadata.namespace), name=clean(job.metadata.name), uid=job.metadata.uid,
        owner=job.metadata.controller, created_s=seconds(job.metadata.creation_timestamp),
        limit_s=job.spec.active_deadline_seconds, suspended=bool(job.spec.suspend),
        begun=job.status.start_time is not None,
        ended_s=seconds(job.status.completion_time) or _since(failed) or _since(complete),
        complete=complete is not None and complete.status == "True",
        failed=clean(failed.reason or "Failed") if failed and failed.status == "True" else "",
        spare=spare_pods(job.spec, job.status))


def _since(status: Condition | None) -> float | None:
    return seconds(status.last_transition_time) if status and status.status == "True" else None


class _BatchSections(ObjectPart, frozen=True):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Owners(ObjectPart, frozen=True):
    owner_references: list[Owner] | None = None


class _Created(ObjectPart, frozen=True):
    creation_timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class StrangeBatch:
    """A batch job that is not understood, and whose owner is unknown."""

    namespace: str = ""
    name: str = ""
    """'' where not even that is known: it may be any that is not known."""

    def may_own(self, pod: PodFacts) -> bool:
        """Tell whether a pod may be one of its pods."""
        return not self.name or (pod.owner is not None and (self.namespace, self.name) == (
            pod.namespace, clean(pod.owner.name)))


def strange_batch(raw: Text) -> BatchFacts | StrangeBatch:
    """Return a batch job that is not understood, as far as that can be read part by part."""
    sections = decoded(raw, _BatchSections)
    identity = decoded(sections.metadata, Identity) if sections else None
    if sections is None or identity is None or not identity.name:
        return StrangeBatch()
    owners, created = decoded(sections.metadata, _Owners), decoded(sections.metadata, _Created)
    if owners is None or created is None:
        return StrangeBatch(clean(identity.namespace), clean(identity.name))
    meta = Meta(identity.name, identity.namespace, identity.uid, owner_references=owners.owner_references,
                creation_timestamp=created.creation_timestamp)
    spec, status = decoded(sections.spec, BatchSpec), decoded(sections.status, BatchStatus)
    facts = batch_of(BatchJob(meta, spec or BatchSpec(), status or BatchStatus()))
    return facts if spec and status else msgspec.structs.replace(facts, spare=0.0)


@dataclass(slots=True)
class KnownBatches:
    """The batch jobs that there are, and those that have gone before their pods."""

    _named: dict[str, BatchFacts] = field(default_factory=dict)
    """By uid, those that pods named at the last look."""

    def look(self, there: Iterable[BatchFacts], gone: Iterable[BatchFacts],
             pods: Iterable[PodFacts]) -> list[BatchFacts]:
        """Return the batch jobs of which anything is left."""
        by_uid = {batch.uid: batch for batch in there}
        last = {**self._named, **{batch.uid: batch for batch in gone}}
        uids = {pod.owner.uid for pod in pods if pod.owner is not None and pod.owner.kind == "Job"}
        by_uid |= {uid: last[uid] for uid in uids if uid in last and uid not in by_uid}
        self._named = {uid: by_uid[uid] for uid in uids if uid in by_uid}
        return list(by_uid.values())


def nameable(pods: Iterable[PodFacts], known: Collection[str], strange: Collection[StrangeBatch]) -> list[PodFacts]:
    """Return the pods whose job's name is known: those of a strange batch job are returned once it is understood."""
    return [pod for pod in pods if not (
        strange and pod.owner is not None and pod.owner.kind == "Job" and pod.owner.uid not in known
        and any(batch.may_own(pod) for batch in strange))]
