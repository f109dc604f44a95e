"""What was last seen of the scheduler, so that only what changed is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from . import jobs, nodes
from .ahead import AHEAD_S
from .batches import SnapshotChanges
from .records import Job, Node, SchedulerSnapshot
from .scheduler_configuration import SchedulerConfiguration, configuration_of


class LastSeen:
    """The newest snapshot that was recorded, as far as it is needed to tell what changed since."""

    def __init__(self) -> None:
        self._jobs: dict[jobs.Key, Job] = {}
        self._nodes: dict[str, tuple[Node, dict[str, object]]] = {}
        """With what is kept of each: those that a scheduler tells in the same words are the same objects."""
        self._configuration: SchedulerConfiguration | None = None
        self.time_s = float("-inf")
        """Of the newest snapshot."""
        self._whole = True
        """Whether every scheduler was in it."""
        self._anew = True

    def __contains__(self, key: jobs.Key) -> bool:
        """Tell whether a job was in the newest snapshot."""
        return key in self._jobs

    def forget(self) -> None:
        """Take everything in the next snapshot for new: what was recorded of the last ones may be gone."""
        self._jobs, self._nodes, self._configuration = {}, {}, None
        self._anew = True

    def changes(self, snapshot: SchedulerSnapshot, now_s: float | None = None) -> SnapshotChanges:
        """Return what a snapshot brings that is new, and remember it; of an older one the jobs alone.

        An older snapshot may still hold a run that nobody else saw; the recorder sorts it out. None is newer than
        ``now_s``, what the clock says: one that seems so was read by a clock that was ahead, and all is recorded anew.
        """
        if now_s is not None:
            snapshot = self._by(now_s, snapshot)
        newer = snapshot.time_s >= self.time_s
        known = self._jobs if newer else {}
        changed = tuple(job for job in snapshot.jobs if jobs.recordable(job) and not _alike(known.get(job.key), job))
        if not newer:
            return SnapshotChanges(changed, (), snapshot.time_s, shared_ids=_shared_ids(snapshot.jobs))
        anew, self._anew = self._anew, False
        self._jobs = {job.key: job for job in snapshot.jobs}
        changes = SnapshotChanges(changed, self._new_nodes(snapshot), snapshot.time_s,
                                  self._new_configuration(snapshot), now_s if anew else None,
                                  _shared_ids(snapshot.jobs), snapshot.whole)
        self.time_s = snapshot.time_s
        return changes

    def _by(self, now_s: float, snapshot: SchedulerSnapshot) -> SchedulerSnapshot:
        if self.time_s > now_s + AHEAD_S:
            self.forget()
            self.time_s = float("-inf")
        return replace(snapshot, time_s=now_s) if snapshot.time_s > now_s else snapshot

    def _new_nodes(self, snapshot: SchedulerSnapshot) -> tuple[Node, ...]:
        """Return the nodes if some are not as they were, and remember them if they will be recorded for certain.

        Of two changes at one time, as while one of several schedulers is silent, the first alone is recorded.
        """
        inventory, known = self._inventory(snapshot.nodes), [facts for _, facts in self._nodes.values()]
        same = (self._whole or not snapshot.whole) and [facts for _, facts in inventory.values()] == known
        self._nodes = inventory if same or snapshot.time_s > self.time_s else {}
        self._whole = snapshot.whole
        return () if same else snapshot.nodes

    def _new_configuration(self, snapshot: SchedulerSnapshot) -> SchedulerConfiguration | None:
        """Return the configuration if it is not as it was; what some of its schedulers tell is not the site's."""
        configuration = configuration_of(snapshot) if snapshot.whole else None
        if configuration is None or configuration == self._configuration:
            return None
        self._configuration = configuration if snapshot.time_s > self.time_s else None
        return configuration

    def _inventory(self, listed: Iterable[Node]) -> dict[str, tuple[Node, dict[str, object]]]:
        """Return nodes with what is kept of them."""
        pairs = ((node, self._nodes.get(node.name)) for node in listed)
        return {node.name: known if known is not None and known[0] is node else (node, nodes.facts(node))
                for node, known in pairs}


def _alike(known: Job | None, job: Job) -> bool:
    """Tell whether a job needs no writing."""
    return known is job or (known is not None and jobs.steady(known) == jobs.steady(job))


def _shared_ids(listed: Iterable[Job]) -> tuple[str, ...]:
    """Return the ids of several jobs of one snapshot."""
    submissions = {job.key for job in listed}
    return tuple(job_id for job_id, times in Counter(job_id for job_id, _ in submissions).items() if times > 1)
