"""What was last seen of the scheduler, so that only what changed is recorded."""

from __future__ import annotations

from . import jobs, nodes
from .batches import SnapshotChanges
from .records import Job, SchedulerSnapshot
from .scheduler_configuration import SchedulerConfiguration, configuration_of


class LastSeen:
    """The newest snapshot that was recorded, as far as it is needed to tell what changed since."""

    def __init__(self) -> None:
        self._jobs: dict[jobs.Key, Job] = {}
        self._nodes: tuple[dict[str, object], ...] = ()
        self._configuration: SchedulerConfiguration | None = None
        self.time_s = float("-inf")
        """Of the newest snapshot."""

    def __contains__(self, key: jobs.Key) -> bool:
        """Tell whether a job was in the newest snapshot."""
        return key in self._jobs

    def forget(self) -> None:
        """Take everything in the next snapshot for new: what was recorded of the last ones may be gone."""
        self._jobs, self._nodes, self._configuration = {}, (), None

    def changes(self, snapshot: SchedulerSnapshot) -> SnapshotChanges:
        """Return what a snapshot brings that is new, and remember it; of an older one the jobs alone.

        An older snapshot may still hold a run that nobody else saw; the recorder sorts it out.
        """
        newer = snapshot.time_s >= self.time_s
        known = self._jobs if newer else {}
        changed = tuple(job for job in snapshot.jobs
                        if jobs.recordable(job) and known.get(job.key) != jobs.steady(job))
        if not newer:
            return SnapshotChanges(changed, (), snapshot.time_s)
        inventory, configuration = tuple(map(nodes.facts, snapshot.nodes)), configuration_of(snapshot)
        found = SnapshotChanges(changed, snapshot.nodes if inventory != self._nodes else (), snapshot.time_s,
                                configuration if configuration != self._configuration else None)
        self._jobs = {job.key: jobs.steady(job) for job in snapshot.jobs}
        self._nodes, self.time_s = inventory, snapshot.time_s
        self._configuration = configuration or self._configuration
        return found
