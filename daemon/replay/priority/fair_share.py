"""Fair-share by account tree: the classic formula and Fair Tree, and usage that decays.

Usage is booked on a user's association and on every account above it up to the root. The classic factor is
2^(-effective usage / normalised shares); Fair Tree ranks users by walking through the tree, at each level the
associations with the largest ratio of shares to usage first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...settings.priority import PrioritySettings
from ..arrays import Floats, Longs, Masks
from ..compiled import compiled, only_version

ROOT = 0


@dataclass(frozen=True)
class ShareNode:
    """An account, or a user in one."""

    account: str
    user: str = ""
    parent: str = ""
    """The account above; "" for the root's children."""
    shares: int | None = 1
    """None for one that shares what its parent has."""


class Tree:
    """Associations as columns, the root first; row ``i`` of every array is ``members[i]``."""

    def __init__(self, members: Sequence[ShareNode]) -> None:
        counted = [member for member in members if member.account != "root" or member.user]
        self.members: tuple[ShareNode, ...] = (ShareNode("root"), *counted)
        accounts = {member.account: row for row, member in enumerate(self.members) if not member.user}
        self.rows = {(member.account, member.user): row for row, member in enumerate(self.members) if row}
        self.parent = np.array([-1, *(accounts.get(member.account if member.user else member.parent, ROOT)
                                      for member in counted)])
        self.user = np.array([bool(member.user) for member in self.members])
        self.own = np.array([member.shares is not None for member in self.members])
        self.shares = np.array([float(member.shares or 0) for member in self.members])
        self.children: list[list[int]] = [[] for _ in self.members]
        for row, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                self.children[parent].append(row)
        # Where the rows below each one begin when all rows are sorted by their parents.
        self.begins = np.searchsorted(np.sort(self.parent), np.arange(len(self.members) + 1))
        self.deep = self._from_the_root()
        self.level = self._level_shares()
        self.chain = [self._up(row) for row in range(len(self.members))]
        # Where each one's chain begins among all, and all.
        self.chains = np.cumsum([0, *map(len, self.chain)]), np.concatenate(self.chain)
        self.under = np.maximum(self.parent, 0)
        # An association without shares of its own is shown with those of its account.
        self.shown = np.where(self.own, self.level, self.level[self.under])
        self.shared, self.account = ~self.own & self.user, ~self.user

    def __len__(self) -> int:
        """Return the number of associations with the root."""
        return len(self.members)

    def _from_the_root(self) -> list[int]:
        """Return all rows, parents before children; those in a circle are left out."""
        rows = [ROOT]
        for row in rows:
            rows.extend(self.children[row])
        return rows

    def _up(self, row: int) -> NDArray[np.int64]:
        chain = [row]
        while self.parent[chain[-1]] >= 0 and len(chain) <= len(self.members):
            chain.append(int(self.parent[chain[-1]]))
        return np.array(chain, np.int64)

    def _level_shares(self) -> Floats:
        """Return each association's share of what its siblings have; 1 for the root and each that has the parent's."""
        part = np.ones(len(self.members))
        for siblings in self.children:
            total = self.shares[siblings][self.own[siblings]].sum()
            if total > 0:
                part[siblings] = np.where(self.own[siblings], self.shares[siblings] / total, 1.0)
            else:
                part[siblings] = np.where(self.own[siblings], 0.0, 1.0)
        return part

    def add(self, usage: Floats, row: int, amount: float) -> None:
        """Book usage on an association and on everything above it."""
        usage[self.chain[row]] += amount


@dataclass(frozen=True)
class Standing:
    """What fair-share makes of the usage so far; every array is [association]."""

    factor: Floats
    """0 to 1; of users."""
    shares: Floats
    """Normalised shares: of the siblings with Fair Tree, else of the cluster."""
    effective: Floats
    """Effective usage: of the parent's with Fair Tree."""
    level: Floats
    """Shares over usage within a level, larger for those who had less; Fair Tree only."""


def standing(settings: PrioritySettings, tree: Tree, usage: Floats) -> Standing:
    """Return every association's standing."""
    return fair_tree(tree, usage) if settings.fair_tree else classic(tree, usage, settings.dampening)


def classic(tree: Tree, usage: Floats, dampening: float = 1.0) -> Standing:
    """Return the factors 2^(-effective usage / shares / dampening)."""
    size = len(tree)
    shares, effective = np.ones(size), np.ones(size)
    normed = np.minimum(usage / usage[ROOT], 1.0) if usage[ROOT] > 0 else np.zeros(size)
    for row in tree.deep[1:]:
        parent = tree.parent[row]
        if not tree.own[row]:
            shares[row], effective[row] = shares[parent], effective[parent]
            continue
        shares[row] = shares[parent] * tree.level[row]
        effective[row] = normed[row] + (effective[parent] - normed[row]) * tree.level[row] if parent != ROOT \
            else normed[row]
    factor = np.where(shares > 0, 2.0 ** -(effective / np.maximum(shares, 1e-300) / dampening), 0.0)
    return Standing(factor, shares, effective, np.full(size, np.nan))


def fair_tree(tree: Tree, usage: Floats) -> Standing:
    """Return the ranks of users over their number; users who cannot be distinguished rank alike."""
    effective, level = np.zeros(len(tree)), np.zeros(len(tree))
    only_version(compare)(tree.under, tree.level, tree.shared, usage, effective, level)
    return Standing(_ranked(tree, level), tree.shown, effective, level)


def _ranked(tree: Tree, level: Floats) -> Floats:
    """Return the ranks of users over their number, by their ratios; 0 of accounts."""
    factor, tied = np.zeros(len(tree)), np.zeros(len(tree), bool)
    # Siblings side by side: those with the largest ratio first, users before accounts, else as they were reported.
    ordered = np.lexsort((tree.account, -level, tree.parent))
    only_version(rank_users)((tree.parent, tree.user, tree.begins), level, ordered, tree.begins.copy(), tied, factor)
    return factor


@compiled
def compare(under: Longs, shares: Floats, shared: Masks, usage: Floats, effective: Floats, level: Floats) -> None:
    """Write down which part of its parent's usage is each association's, and its shares over that."""
    for row in range(usage.size):
        above = usage[under[row]]
        effective[row] = usage[row] / above if above > 0.0 else 0.0
        level[row] = np.inf
        if shares[row] <= 0.0 and not shared[row]:
            level[row] = 0.0
        elif effective[row] > 0.0 and not shared[row]:
            level[row] = shares[row] / effective[row]
    effective[ROOT], level[ROOT] = 1.0, np.nan


@compiled
def rank_users(tree: tuple[Longs, Masks, Longs], level: Floats, ordered: Longs, upcoming: Longs, tied: Masks,
               factor: Floats) -> None:
    """Walk down from the root, and rank every user that is met; users that cannot be distinguished share a rank.

    Of each account ``upcoming`` tells which sibling below it is next, and ``tied`` whether it is like the sibling
    before it: then so is the first below it. Slurm's manual says that accounts with the same ratio are merged; its code
    never does, and is followed.
    """
    parent, user, begins = tree
    users = user.sum()
    rank = left = users
    account = ROOT
    while account >= 0:
        index = upcoming[account]
        if index == begins[account + 1]:
            account = parent[account]
            continue
        upcoming[account], row = index + 1, ordered[index]
        alike = tied[account] if index == begins[account] else level[ordered[index - 1]] == level[row]
        if user[row]:
            rank = rank if alike else left
            factor[row], left = rank / users, left - 1
        else:
            tied[row], account = alike, row


def decayed(settings: PrioritySettings, usage: Floats, seconds: float) -> Floats:
    """Return what is left of usage after so many seconds."""
    return usage * settings.decay ** seconds
