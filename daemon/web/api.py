"""The JSON API: one table of endpoints, each a list of rows with filters, in Prometheus' envelope."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import Any

from pydantic import TypeAdapter
from werkzeug.datastructures import MultiDict

from ...storage.promotions import Decision
from ...storage.recommendations import ACTIONS, Recommendation
from ...storage.records import Job, JobState, NodeState
from ...storage.values import finite
from ..advice.recommender import RecommenderKind
from ..advice.recommenders import subjects, topics
from ..waste.assessment import EnclosureVerdict
from .view import DecisionRow, ModelRow, NodeRow, SourceRow, Status, TargetGroup, View, WasteRow

MOST_ROWS = 1_000_000
LONGEST_FILTER = 256

Values = Callable[[Any], Collection[str]]
Match = Callable[[Any], bool]


def _nothing(row: object) -> Collection[str]:
    return ()


class BadData(ValueError):
    """The request asks for something that cannot be meant; the message says what and what is possible."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A query parameter that keeps the rows having its value."""

    help: str
    values: Values = _nothing
    """What of a row is compared: any of these must equal the parameter."""
    choices: tuple[str, ...] = ()
    joined: Callable[[View], Values] | None = None
    """Instead of ``values`` where a row must first be joined with another list."""

    def values_of(self, view: View) -> Values:
        """Return the function that reads a row's current values."""
        return self.joined(view) if self.joined else self.values


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of the API."""

    name: str
    help: str
    rows: Callable[[View], Sequence[Any]]
    row: TypeAdapter[Any]
    filters: Mapping[str, Filter]
    enveloped: bool = True
    """False where another standard prescribes the answer: HTTP service discovery is a bare list."""

    @property
    def path(self) -> str:
        """Return the path on the server."""
        return f"/api/v1/{self.name}"


def _users(view: View) -> Values:
    users = {job.key: job.user for job in view.jobs()}
    return lambda row: (users.get((row.job_id, row.submit_s), ""),)


def _job_nodes(job: Job) -> Collection[str]:
    return [allocation.node for allocation in job.allocations] or job.scheduled_nodes


def _recommended(subject: RecommenderKind) -> Endpoint:
    rows: Any = GenericAlias(tuple, (subject.row, ...))
    help_ = topics()[subject.name]
    return Endpoint(subject.name, help_, lambda view: view.recommended(subject.name), TypeAdapter(rows), {
        "partition": Filter("Partition of the job.", lambda row: (row.partition,)),
        "node": Filter("Node that the row is about.", lambda row: row.nodes),
        "user": Filter("User of the job.", joined=_users)})


ENDPOINTS: Mapping[str, Endpoint] = {endpoint.name: endpoint for endpoint in (
    Endpoint(
        "recommendations", "What to do with each pending job now, and why.",
        lambda view: view.recommendations(), TypeAdapter(tuple[Recommendation, ...]),
        {"partition": Filter("Partition of the job.", lambda row: (row.partition,)),
         "node": Filter("Node of the placement.", lambda row: row.placement.nodes if row.placement else ()),
         "user": Filter("User of the job.", joined=_users),
         "job": Filter("Id of the job, or of its array.", lambda row: (row.job_id, row.job_id.partition("_")[0])),
         "policy": Filter("Policy that gave the advice.", lambda row: (row.policy,)),
         "state": Filter("What is advised.", lambda row: (row.action,), ACTIONS)}),
    *map(_recommended, subjects().values()),
    Endpoint(
        "waste", "Where every watt goes: the rows add up to the power of all nodes, at the wall where they have meters."
        " Watts are null where nothing is measured.",
        lambda view: view.waste(), TypeAdapter(tuple[WasteRow, ...]),
        {"partition": Filter("Partition in whose account the watts are.", lambda row: (row.partition,)),
         "node": Filter("Node that draws the watts.", lambda row: (row.node,)),
         "user": Filter("User who holds the gpu.", lambda row: (row.user,)),
         "flavour": Filter("Flavour of the job that holds the gpu.", lambda row: (row.flavour,)),
         "state": Filter("`wasted` or `useful`.", lambda row: ("wasted" if row.wasted else "useful",),
                         ("wasted", "useful"))}),
    Endpoint(
        "racks", "Racks with a meter of their own: its watts by part, and each tray with its share of switches and "
        "loss.",
        lambda view: view.racks(), TypeAdapter(tuple[EnclosureVerdict, ...]),
        {"enclosure": Filter("Name of the rack.", lambda row: (row.name,)),
         "node": Filter("A tray of it.", lambda row: row.nodes)}),
    Endpoint(
        "nodes", "Every node with its power and its GPUs by state.",
        lambda view: view.nodes(), TypeAdapter(tuple[NodeRow, ...]),
        {"partition": Filter("Partition that the node serves.", lambda row: row.node.partitions),
         "node": Filter("Name of the node.", lambda row: (row.node.name,)),
         "state": Filter("State of the node.", lambda row: (row.node.state,), tuple(NodeState))}),
    Endpoint(
        "jobs", "Pending, running and lately finished jobs.",
        lambda view: view.jobs(), TypeAdapter(tuple[Job, ...]),
        {"partition": Filter("Partition of the job.", lambda row: (row.partition,)),
         "node": Filter("Node that the job holds or is planned for.", _job_nodes),
         "user": Filter("User of the job.", lambda row: (row.user,)),
         "flavour": Filter("Flavour of the job.", lambda row: (row.flavour or "",)),
         "image": Filter("Container image of the job.", lambda row: (row.image,)),
         "framework": Filter("Framework of the job.", lambda row: (row.framework,)),
         "cuda": Filter("CUDA version of the job.", lambda row: (row.cuda,)),
         "state": Filter("State of the job.", lambda row: (row.state,), tuple(JobState))}),
    Endpoint(
        "models", "All candidates, agents and heuristics: who is active, on trial or no candidate, why, and how each "
        "stands.",
        lambda view: view.models(), TypeAdapter(tuple[ModelRow, ...]),
        {"state": Filter("What it is now.", lambda row: (row.state,),
                         ("active", "on trial", "candidate", "demoted", "not a candidate"))}),
    Endpoint(
        "decisions", "Every decision on a trained agent, the newest first.",
        lambda view: view.decisions(), TypeAdapter(tuple[DecisionRow, ...]),
        {"model": Filter("The agent, `kind@version`.", lambda row: (row.model,)),
         "state": Filter("What was decided.", lambda row: (row.decision,), tuple(Decision))}),
    Endpoint(
        "status", "The state of the data: one row with everything that is degraded, in words and since when.",
        lambda view: (view.status(),), TypeAdapter(tuple[Status, ...]), {}),
    Endpoint(
        "sources", "The state of each source and of each of its targets.",
        lambda view: view.sources(), TypeAdapter(tuple[SourceRow, ...]),
        {"state": Filter("Whether the source is up.", lambda row: ("up" if row.up else "down",),
                         ("up", "down"))}),
    Endpoint(
        "sd/exporters", "Prometheus HTTP service discovery of the exporters of the GPU nodes.",
        lambda view: view.targets(), TypeAdapter(tuple[TargetGroup, ...]),
        {"kind": Filter("Kind of exporter, e.g. `dcgm`.",
                        lambda row: (row.labels.get("__meta_idlewatt_kind", ""),))},
        enveloped=False),
)}


def answer(endpoint: Endpoint, arguments: MultiDict[str, str], view: View) -> str:
    """Return the endpoint's answer as JSON; raise BadData when an argument is not one of its own or makes no sense."""
    limit = _limit(arguments) if endpoint.enveloped else MOST_ROWS
    filters = [name for name in arguments if not (endpoint.enveloped and name == "limit")]
    matches = [_match(name, endpoint, arguments.getlist(name), view) for name in filters]
    matching = [row for row in endpoint.rows(view) if all(match(row) for match in matches)]
    rows = endpoint.row.dump_python(tuple(matching[:limit]), mode="json")
    if not endpoint.enveloped:
        return dumps(rows)
    envelope = {"status": "success", "data": rows}
    if len(matching) > limit:
        envelope["warnings"] = [f"{len(matching) - limit} of {len(matching)} rows left out by limit={limit}"]
    return dumps(envelope)


def error(kind: str, message: str) -> str:
    """Return Prometheus' envelope of a failure."""
    return dumps({"status": "error", "errorType": kind, "error": message})


def dumps(value: object) -> str:
    """Return JSON that any reader accepts: numbers that are none become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), allow_nan=False)


def _limit(arguments: MultiDict[str, str]) -> int:
    text = arguments.get("limit", str(MOST_ROWS))
    if not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= MOST_ROWS and len(text) <= 8):
        raise BadData(f"limit must be a whole number from 1 to {MOST_ROWS}, not {_short(text)}")
    return int(text)


def _match(name: str, endpoint: Endpoint, wanted: Iterable[str], view: View) -> Match:
    """Return the test of one parameter; given more than once, any of its values will do."""
    known = endpoint.filters.get(name)
    if known is None:
        raise BadData(f"unknown parameter {_short(name)}; {endpoint.path} knows "
                      f"{', '.join((*endpoint.filters, *(['limit'] if endpoint.enveloped else [])))}")
    values = frozenset(wanted)
    for value in values:
        if len(value) > LONGEST_FILTER:
            raise BadData(f"{name} is longer than {LONGEST_FILTER} characters")
        if known.choices and value not in known.choices:
            raise BadData(f"{name} must be one of {', '.join(known.choices)}, not {_short(value)}")
    values_of = known.values_of(view)
    return lambda row: not values.isdisjoint(values_of(row))


def _short(text: str) -> str:
    return repr(text[:40])
