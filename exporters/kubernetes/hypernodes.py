"""Volcano's HyperNodes: a tree of nodes by tier, whose members are named, matched by a pattern, or by labels.

Patterns come from outside and are Go's, which cannot be made to take for ever; Python's can. Of those that a person
writes for names of nodes all are taken; nested repetition, or more than a few of any, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

from ...storage.topology import Fabric, Switch, TopologyError
from .fields import Meta, ObjectPart, some

_LONGEST, _MOST_REPEATED, _LONGEST_NAME = 200, 3, 253
_REPEATED = re.compile(r"[*+?{]")
Labels = Mapping[str, Mapping[str, str]]
"""By node."""


class _Exact(ObjectPart, frozen=True):
    """A member by its name."""

    name: str = ""


class _Pattern(ObjectPart, frozen=True):
    """Members by a pattern of their names."""

    pattern: str = ""


class _Wanted(ObjectPart, frozen=True):
    """Members by their labels; expressions are not read."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[msgspec.Raw] | None = None


class _Selector(ObjectPart, frozen=True):
    """Which nodes or HyperNodes are members."""

    exact_match: _Exact | None = None
    regex_match: _Pattern | None = None
    label_match: _Wanted | None = None


class _Member(ObjectPart, frozen=True):
    """Members of one kind: Node, or HyperNode."""

    type: str = ""
    selector: _Selector = _Selector()


class _HyperNodeSpec(ObjectPart, frozen=True):
    """The place of a HyperNode in the tree."""

    tier: int = 0
    members: list[_Member] | None = None


class HyperNode(ObjectPart, frozen=True):
    """A group of nodes, or of other groups, that are equally close."""

    metadata: Meta = Meta()
    spec: _HyperNodeSpec = _HyperNodeSpec()


def fabric_of(groups: Iterable[HyperNode], nodes: Labels) -> Fabric:
    """Return the tree that HyperNodes make of these nodes.

    Raises:
        TopologyError: it is no tree, or its selector does not name its members.
    """
    known = {group.metadata.name: group for group in groups}
    return Fabric.of(_switch(group, known, nodes) for group in known.values())


def _switch(group: HyperNode, known: Mapping[str, HyperNode], nodes: Labels) -> Switch:
    hosts, below = dict[str, None](), dict[str, None]()
    for member in some(group.spec.members):
        named = known if member.type == "HyperNode" else nodes
        members = dict.fromkeys(_members(group.metadata.name, member.selector, named, nodes))
        (below if member.type == "HyperNode" else hosts).update(members)
    below.pop(group.metadata.name, None)  # a pattern may fit its own name
    return Switch(group.metadata.name, tuple(hosts), tuple(below))


def _members(hypernode: str, selector: _Selector, named: Collection[str], nodes: Labels) -> Iterator[str]:
    if selector.exact_match is not None:
        # A node may have left the cluster, and its HyperNode not.
        yield from (name for name in (selector.exact_match.name,) if name in named)
    if selector.regex_match is not None:
        pattern = _safe(hypernode, selector.regex_match.pattern)
        yield from (name for name in named if len(name) <= _LONGEST_NAME and pattern.search(name))
    if selector.label_match is not None:
        if selector.label_match.match_expressions:
            raise TopologyError(f"HyperNode {hypernode}: expressions of labels are not read; matchLabels are")
        wanted = (selector.label_match.match_labels or {}).items()
        yield from (name for name in named if wanted and wanted <= nodes.get(name, {}).items())


def _safe(hypernode: str, pattern: str) -> re.Pattern[str]:
    repeated = len(_REPEATED.findall(pattern))
    if len(pattern) > _LONGEST or repeated > _MOST_REPEATED or fnmatchcase(pattern, "*)[*+?{]*") or "(?" in pattern:
        raise TopologyError(f"HyperNode {hypernode}: the pattern {pattern[:60]!a} is too involved to be tried safely")
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise TopologyError(f"HyperNode {hypernode}: {pattern[:60]!a} is no pattern: {error}") from error
