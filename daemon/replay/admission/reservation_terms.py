"""Which reservations a job may use, by whom they admit and when, and which others it would meet."""

from __future__ import annotations

from collections.abc import Collection

from ....storage.records import Job, SchedulerSnapshot
from ....storage.rules import Reservation

Own = tuple[str, ...]
"""Names of the reservations that a job uses at once; () for none."""


class ReservationTerms:
    """The reservations of a moment, and the accounts above those that they may name."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        rules, cpus = snapshot.rules, {node.name: node.cpus for node in snapshot.nodes}
        self.known = {one.name: one for one in rules.reservations}
        self.partial = frozenset(one.name for one in rules.reservations if not one.keeps_all(cpus))
        """Those that keep some GPUs or CPUs of their nodes, of which nobody tells on which they are."""
        self._parents = {one.account: one.parent for one in rules.associations or () if not one.user}
        self._magnetic = [one for one in rules.reservations if "MAGNETIC" in one.flags and (one.users or one.accounts)]

    def refusal(self, job: Job, now_s: float) -> str:
        """Return why a job may use none of the reservations that it names; '' where it may, or names none."""
        why = [self._refusal(job, name, now_s) for name in names_of(job)]
        return why[0] if why and all(why) else ""

    def ways(self, job: Job, now_s: float) -> tuple[Own, ...]:
        """Return what a job is tried in, one after the other, as Slurm does: each reservation by itself, then none.

        Those that it names and may use, or the magnetic ones that admit it if it names none.
        """
        named = names_of(job)
        if named:
            return tuple((name,) for name in named if not self._refusal(job, name, now_s)) or (named,)
        drawn = ((one.name,) for one in self._magnetic
                 if self._admits(one, job) and one.start_s <= now_s < one.end_s)
        return *drawn, ()

    def own(self, job: Job, now_s: float) -> Own:
        """Return all the reservations that a job may use."""
        return tuple(name for own in self.ways(job, now_s) for name in own)

    def met(self, own: Collection[str], begin_s: float, end_s: float) -> tuple[str, ...]:
        """Return the reservations beside some own that are in force between two moments."""
        return tuple(one.name for one in self.known.values() if one.name not in own and one.overlaps(begin_s, end_s))

    def _refusal(self, job: Job, name: str, now_s: float) -> str:
        known = self.known.get(name)
        if known is None:
            return ""
        if not self._admits(known, job):
            return f"{name} is not for it"
        if not known.start_s <= now_s < known.end_s and "FLEX" not in known.flags:
            return f"{name} {'has not begun' if known.start_s > now_s else 'is over'}"
        return ""

    def _admits(self, one: Reservation, job: Job) -> bool:
        above, account = list[str](), self._parents.get(job.account, "")
        while account and account not in above:
            above.append(account)
            account = self._parents.get(account, "")
        return one.admits(job.user, job.account, tuple(above))


def names_of(job: Job) -> Own:
    """Return the reservations that a job names."""
    return tuple(filter(None, job.request.reservation.split(",")))
