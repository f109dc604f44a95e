"""Whose jobs are on which nodes, and who may join them: a job may share its nodes with jobs of its user only.

Slurm has this for a job (``--exclusive=user``) and for all jobs of a partition (``ExclusiveUser=YES``), of which it
tells by the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Job
from ..waste.stranded import Need

Tenant = tuple[str, bool]
"""A user, '' for one of whom it does not matter or is not known who it is, and whether a job of it is to be alone."""
NOBODY, SEVERAL = 0, -1
"""Numbers in place of a user's: on an empty node, and where there are others than one user who is known."""


def lone_users(jobs: Iterable[Job]) -> frozenset[str]:
    """Return the users who have jobs that share nodes with their user's only."""
    return frozenset(job.user for job in jobs if job.request.details.exclusive_user)


class NodeSharing:
    """The users on each node, by row, as jobs come and go."""

    def __init__(self, rows: Mapping[str, int], jobs: Iterable[Job], known: Iterable[str]) -> None:
        self._numbers = {user: number for number, user in enumerate(sorted(set(known) - {""}), 1)}
        self._tenants: list[Counter[Tenant]] = [Counter() for _ in rows]
        for job in (job for job in jobs if job.state.active):
            tenant = (job.user if job.user in self._numbers else "", job.request.details.exclusive_user)
            for name in {part.node for part in job.allocations} & rows.keys():
                self._tenants[rows[name]][tenant] += 1
        self._only = np.array([self._only_user(tenants) for tenants in self._tenants], np.int64)
        self._closed = np.array([_closed(tenants) for tenants in self._tenants], bool)

    def copy(self) -> NodeSharing:
        """Return the same, to which jobs can be added without changing this one."""
        other = object.__new__(NodeSharing)
        other._numbers, other._tenants = self._numbers, list(self._tenants)
        other._only, other._closed = self._only.copy(), self._closed.copy()
        return other

    def open_to(self, wanted: Need) -> NDArray[np.bool_]:
        """Return the nodes whose jobs share them with a job, and with whose jobs it shares."""
        own = (self._only == NOBODY) | (self._only == self._numbers.get(wanted.user, NOBODY))
        return np.asarray(own if wanted.alone else own | ~self._closed)

    def opened(self, row: int, wanted: Need, leaving: Iterable[Need]) -> bool:
        """Tell whether a job may share a node with who stays there once some have left it."""
        tenants = self._tenants[row] - Counter(map(_tenant, leaving))
        return not (wanted.alone or _closed(tenants)) or \
            self._only_user(tenants) in (NOBODY, self._numbers.get(wanted.user, NOBODY))

    def join(self, row: int, wanted: Need) -> None:
        """Note that a job comes to a node."""
        self._note(row, self._tenants[row] + Counter([_tenant(wanted)]))

    def leave(self, row: int, wanted: Need) -> None:
        """Note that a job leaves a node."""
        self._note(row, self._tenants[row] - Counter([_tenant(wanted)]))

    def _note(self, row: int, tenants: Counter[Tenant]) -> None:
        self._tenants[row] = tenants  # a new one: copies share the old
        self._only[row], self._closed[row] = self._only_user(tenants), _closed(tenants)

    def _only_user(self, tenants: Counter[Tenant]) -> int:
        users = {user for user, _ in tenants}
        return NOBODY if not users else self._numbers.get(users.pop(), SEVERAL) if len(users) == 1 else SEVERAL


def _tenant(wanted: Need) -> Tenant:
    return wanted.user, wanted.alone


def _closed(tenants: Counter[Tenant]) -> bool:
    return any(alone for _, alone in tenants)
