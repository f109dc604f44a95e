"""What dashboards, rules and alerts ask of a Prometheus, as Grafana would put it, and what it answers."""

import json
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import promql_parser as promql
import requests
import yaml

GRAFANA = Path(__file__).parents[2] / "grafana"
SITES = "resources"
"""The dashboard of dcgm-exporter's and node_exporter's series."""
POINTS = 200
"""Of a curve: what Grafana asks for a panel of a laptop's width, more or less."""
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LABELS = {"cluster": "gist", "instance": "127.0.0.1:9723", "job": "idlewatt"}
"""What the Prometheus of a test calls the daemon that it scrapes."""
VARIABLES = {"job": "idlewatt", "cluster": ".*", "partition": ".*", "members": ".*", "node": ".*", "user": ".*",
             "job_id": ".*", "page": "http://localhost:9723"}
"""What Grafana puts in when everything is chosen."""

# What is empty when all is well, and why; whatever is listed here and has an answer after all fails, too.
NO_AGENT = {
    "health: Trained agents A",
    *(f"learning: Agents in use {letter}" for letter in "ABC"), "learning: Days worse than the scheduler A",
    *(f"learning: Best agent on held-out history {letter}" for letter in "AB"), "learning: Drift of waiting jobs A",
    "learning: Active agent abstains A", "learning: Age of the active agent A",
    "learning: Last judgement of agents A", *(f"learning: Candidates to advise {letter}" for letter in "BCD"),
    *(f"learning: Policies on held-out history {letter}" for letter in "ABCDEFGHIJK"), "learning: Regret of policies A",
    "learning: Rounds without advice A", "learning: Training curves A", "learning: Trainings of agents A",
    "GpuAdviceAgentAbstains: idlewatt_abstaining", "GpuAdviceAgentDemoted: idlewatt_policy_info",
    "GpuAdviceTrainingFailing: idlewatt_training_last_success_timestamp_seconds",
    "GpuAdviceTrainingFailing: idlewatt_training_runs_total",
}
"""Empty as long as nothing has been trained: a heuristic is active."""
NO_FOLLOWER = {
    "IdlewattFollowDown: idlewatt_follow_last_look_timestamp_seconds",
    "IdlewattFollowOverdue: idlewatt_follow_overdue_changes", "IdlewattFollowStopped: idlewatt_follow_stopped",
    *(f"follow: {panel} A" for panel in (
        "Mode of following", "Kill switch", "Advice to follow", "Changes in force", "Changes overdue", "Time to start",
        "Started where advised", "Changes taken back", "Changes refused", "Actions over time",
        "Jobs left alone over time", "Failures over time", "Changes in force over time",
        "Age of the oldest change over time")),
}
"""Empty where nobody follows advice: that is a process of its own."""
NO_RACK = {
    *(f"racks: {panel} A" for panel in (
        "Power of all racks", "NVLink switches", "Conversion loss", "Unmeasured in racks", "Power by rack",
        "Broken domains", "Free GPUs in broken domains", "Free GPUs of broken domains by partition",
        "Trays with their share of the rack")),
    *(f"racks: {panel} {letter}" for letter in "ABCD" for panel in (
        "Power of racks by part", "NVLink domains by state")),
    *(f"racks: Racks now {letter}" for letter in "ABCDE"),
}
"""Empty where no rack has a meter of its own and no NVLink domain spans nodes."""
NO_HOUR = {"WastedPowerHigh: idlewatt_power_watts"}
"""Empty while less than an hour is recorded: an alert on an hour waits for one."""
NO_WEEK = {"advice: Nodes that could be powered down C"}
"""Empty while less than a week is recorded: nobody can say when an empty node is needed again."""
BY_CHANCE = {
    "advice: Starts within their interval A", "advice: Locality penalty above the advised A",
    *(f"advice: Locality penalty of placements, as they are and as advised {letter}" for letter in "AB"),
    "advice: Speed beside scattered GPUs A", "advice: Moves that would let a waiting job start A",
    *(f"advice: Who should have what others do not use {letter}" for letter in "ABCDE"),
    *(f"cluster-waste: Wasted now {letter}" for letter in "BC"), "health: Degraded for A",
    "partitions: In use outside the scheduler A", "node: In use outside the scheduler on the node A",
    "node: Errors of the node's GPUs A", *(f"advice: Waiting hours saved, if followed {letter}" for letter in "AB"),
    "GpuOutsideScheduler: idlewatt_outside_scheduler_since_timestamp_seconds", "GpuError: idlewatt_gpu_error_info",
}
"""Empty until a job of several GPUs runs, or waits, for which there is something to be had; until a job starves beside
one that leaves CPUs; or while all is measured and nobody works past the scheduler; or until ten jobs have waited: that
is chance."""
ENERGY_SAVED = {*(f"advice: Energy saved, if followed {letter}" for letter in "AB"),
                "advice: Cost saved, if followed A"}
"""Answered are the energy saved and its cost, or that it cannot be told from nothing; which is chance."""
NO_LIKE = {
    *(f"advice: What more or fewer GPUs would do for a job {letter}" for letter in "ABCD"),
    *(f"advice: Who should have what others do not use {letter}" for letter in "ABCDE"),
}
"""Empty where nobody has told how fast like jobs were, or what jobs use of their CPUs and memory."""
NO_ALERT = {"health: Alerts that fire A"}
"""A past knows no alerts: those begin to pend where a Prometheus evaluates them."""
NO_RULES = {"health: Recording rules A"}
"""The one panel that asks for a recorded series: it tells that there are none."""
NO_WINDOW = {
    "GpuAdviceModelDrift: idlewatt_simulation_energy_error_ratio",
    *ENERGY_SAVED, *(f"advice: Waiting hours saved, if followed {letter}" for letter in "AB"),
    "advice: Error of the simulated energy A", "advice: Error of the simulated waiting A",
    *(f"advice: {panel} {letter}" for letter in "AB" for panel in (
        "Energy saved against the scheduler's own policy", "Cost saved against the scheduler's own policy",
        "Hours of waiting saved against the scheduler's own policy",
        "Policies side by side", "Error of the simulation over time")), "advice: Policies side by side C",
}
"""Empty until the first closed window has been replayed: what is younger than a quarter of an hour is not closed."""


@dataclass(frozen=True)
class Question:
    """One query of a panel, a rule or an alert."""

    where: str
    """Dashboard, panel and letter, or the name of the rule."""
    expr: str
    range_s: float = 0.0
    """Time range of the panel; 0 asks for one instant only."""
    instant: bool = True
    variables: dict[str, str] = field(default_factory=lambda: dict(VARIABLES), compare=False)

    def asked(self, range_s: float) -> str:
        """Return the expression with the variables put in."""
        step_s = max(range_s / POINTS, 15.0)
        own = self.variables | {"__range": f"{range_s:.0f}s", "__rate_interval": f"{max(step_s + 15.0, 60.0):.0f}s",
                                "__interval": f"{step_s:.0f}s", "__interval_ms": f"{1000 * step_s:.0f}"}
        return re.sub(r"\$(?:([a-z_]\w*)|\{(\w+)(?::\w+)?\})", lambda found: own[found[1] or found[2]], self.expr)


def of_dashboards() -> list[Question]:
    """Return every query of every panel that asks for our own metrics."""
    return [question for path in sorted((GRAFANA / "dashboards").glob("*.json")) if path.stem != SITES
            for question in _of_dashboard(path.stem, json.loads(path.read_text()))]


def of_resources() -> list[Question]:
    """Return every query of the dashboard of the site's own series."""
    return list(_of_dashboard(SITES, json.loads((GRAFANA / "dashboards" / f"{SITES}.json").read_text())))


def _of_dashboard(name: str, dashboard: dict[str, Any]) -> Iterator[Question]:
    usual = dashboard["time"]["from"].removeprefix("now-")
    nested = [inner for panel in dashboard["panels"] for inner in panel.get("panels", [])]
    for panel in dashboard["panels"] + nested:
        for target in panel.get("targets", ()):
            yield Question(f"{name}: {panel['title']} {target['refId']}", target["expr"],
                           _seconds(panel.get("timeFrom") or usual), bool(target.get("instant")))


def of_rules() -> list[Question]:
    """Return the expression of every recording rule."""
    return [Question(rule["record"], rule["expr"]) for rule in _rules("recording.yml")]


def of_alerts() -> list[Question]:
    """Return what every alert looks at: the expression itself is empty while all is well."""
    return [Question(f"{rule['alert']}: {selector.name}", str(selector))
            for rule in _rules("alerts.yml") for selector in selectors(promql.parse(rule["expr"]))]


def _rules(file: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((GRAFANA / "rules" / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def selectors(node: Any) -> Iterator[Any]:
    """Yield every vector selector of a parsed expression."""
    if isinstance(node, promql.VectorSelector):
        yield node
        return
    inner = [getattr(node, name) for name in ("expr", "lhs", "rhs", "vector_selector") if hasattr(node, name)]
    for child in inner + list(getattr(node, "args", [])):
        yield from selectors(child)


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * SECONDS[duration[-1]]


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus and the moment at which it is asked."""

    url: str
    now: Callable[[], float]

    def answer(self, question: Question, range_s: float | None = None) -> list[dict[str, Any]]:
        """Return the series of an answer; ``range_s`` replaces the panel's own time range."""
        range_s = question.range_s if range_s is None else range_s
        now_s, asked = self.now(), {"query": question.asked(range_s or 3600.0)}
        if question.instant:
            return self._get("query", asked | {"time": now_s})
        step_s = max(range_s / POINTS, 1.0)
        return self._get("query_range", asked | {"start": now_s - range_s, "end": now_s, "step": step_s})

    def unanswered(self, questions: Iterable[Question], range_s: float | None = None) -> set[Question]:
        """Return the questions to which there is no answer."""
        return {question for question in questions if not self.answer(question, range_s)}

    def _get(self, path: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
        answer = requests.get(f"{self.url}/api/v1/{path}", params=asked, timeout=60).json()
        assert answer["status"] == "success", f"{asked['query']}: {answer.get('error')}"
        return answer["data"]["result"]
