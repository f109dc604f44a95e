"""Fair-share by account tree: the classic formula and Fair Tree, and usage that decays.

Usage is booked on a user's association and on every account above it up to the root. The classic factor is
2^(-effective usage / normalised shares); Fair Tree ranks users by walking through the tree, at each level the
associations with the largest ratio of shares to usage first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...settings.priority import PrioritySettings

Floats = NDArray[np.float64]
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
        kept = [member for member in members if member.account != "root" or member.user]
        self.members: tuple[ShareNode, ...] = (ShareNode("root"), *kept)
        accounts = {member.account: row for row, member in enumerate(self.members) if not member.user}
        self.rows = {(member.account, member.user): row for row, member in enumerate(self.members) if row}
        self.parent = np.array([-1, *(accounts.get(member.account if member.user else member.parent, ROOT)
                                      for member in kept)])
        self.user = np.array([bool(member.user) for member in self.members])
        self.own = np.array([member.shares is not None for member in self.members])
        self.shares = np.array([float(member.shares or 0) for member in self.members])
        self.children: list[list[int]] = [[] for _ in self.members]
        for row, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                self.children[parent].append(row)
        self.deep = self._from_the_root()
        self.level = self._level_shares()
        self.chain = [self._up(row) for row in range(len(self.members))]
        self._above = np.concatenate(self.chain)
        self.under = np.maximum(self.parent, 0)
        # Who has no shares of his own is shown with those of his account.
        self.shown = np.where(self.own, self.level, self.level[self.under])
        self._who = np.repeat(np.arange(len(self.members)), [len(chain) for chain in self.chain])

    def __len__(self) -> int:
        """Return the number of associations with the root."""
        return len(self.members)

    def _from_the_root(self) -> list[int]:
        """Return all rows, parents before children; those in a circle are left out."""
        found = [ROOT]
        for row in found:
            found.extend(self.children[row])
        return found

    def _up(self, row: int) -> NDArray[np.int64]:
        chain = [row]
        while self.parent[chain[-1]] >= 0 and len(chain) <= len(self.members):
            chain.append(int(self.parent[chain[-1]]))
        return np.array(chain, np.int64)

    def _level_shares(self) -> Floats:
        """Return each association's share of what its siblings have; 1 for the root and whoever has the parent's."""
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

    def book(self, amounts: Floats) -> Floats:
        """Return the usage of every association when these are what each used itself."""
        return np.bincount(self._above, amounts[self._who], len(self)).astype(np.float64)


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
    """Return the ranks of users over their number; users who cannot be told apart rank alike."""
    above = usage[tree.under]
    effective = np.divide(usage, above, out=np.zeros(len(tree)), where=above > 0)
    level = np.divide(tree.level, effective, out=np.full(len(tree), np.inf), where=effective > 0)
    level = np.where(tree.level > 0, level, 0.0)
    level[~tree.own & tree.user] = np.inf
    effective[ROOT], level[ROOT] = 1.0, np.nan
    walk = _Walk(tree, level)
    walk.down(tree.children[ROOT], tied=False)
    return Standing(walk.factor, tree.shown, effective, level)


class _Walk:
    """One walk through the tree that gives every user a rank."""

    def __init__(self, tree: Tree, level: Floats) -> None:
        self._tree, self._level = tree, level.tolist()
        self._user = tree.user.tolist()
        self._place = list(zip((-level).tolist(), (~tree.user).tolist(), strict=True))
        self._users = int(tree.user.sum())
        self._rank = self._left = self._users
        self._factor = [0.0] * len(tree)

    @property
    def factor(self) -> Floats:
        """Return the ranks over the number of users; 0 of accounts."""
        return np.array(self._factor)

    def down(self, siblings: list[int], *, tied: bool) -> None:
        """Rank the users among siblings and below them: those with the largest ratio first, users before accounts."""
        level, user = self._level, self._user
        ordered = sorted(siblings, key=self._place.__getitem__)
        before, index = math.nan, 0
        while index < len(ordered):
            row = ordered[index]
            alike = tied if index == 0 else before == level[row]
            before = level[row]
            if user[row]:
                self._seat(row, alike)
                index += 1
                continue
            # Slurm's manual says that accounts with the same ratio are merged; its code never does, and is followed.
            self.down(self._tree.children[row], tied=alike)
            index += 1

    def _seat(self, row: int, alike: bool) -> None:
        if not alike:
            self._rank = self._left
        self._factor[row] = self._rank / self._users
        self._left -= 1


def decayed(settings: PrioritySettings, usage: Floats, seconds: float) -> Floats:
    """Return what is left of usage after so many seconds."""
    return usage * settings.decay ** seconds
