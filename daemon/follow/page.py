"""The metrics page of ``idlewatt follow``, a page of its own beside the daemon's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from ...storage.follow import CLOSED, OPEN
from ..settings.follow import FollowSettings
from .decision import PASSED_OVER
from .follower import FollowCounts

ERRORS = ("slurm", "ledger", "taking_back")
ATTRIBUTES = ("required_nodes", "nice")
WAITING = ("intended", "done", "pinned", "taking_back")


class FollowPage(Collector):
    """Builds the page from what has been done so far; it keeps nothing."""

    def __init__(self, rules: FollowSettings, tally: Callable[[], FollowCounts], clock: Callable[[],
                                                                                                 float] = time.time) \
            -> None:
        self._rules, self._tally, self._clock = rules, tally, clock

    def collect(self) -> Iterator[Metric]:
        """Return the families as they are now."""
        tally, now_s = self._tally(), self._clock()
        waiting = [change for change in tally.standing if change.state in WAITING]
        yield _gauge("info", "The running version; always 1.", {(version("idlewatt"),): 1.0}, "version")
        yield _gauge("dry_run", "Whether nothing is changed, only noted (1), or not (0).", self._rules.dry_run)
        yield _gauge("stopped", "Whether the kill switch is thrown (1) or not (0).", tally.stopped)
        yield _gauge("silent", "Whether no advice can be believed now (1), so that nothing is followed, or some can (0)"
                     ".", bool(tally.silence))
        yield _gauge("changes", "Changes that stand on the scheduler while their jobs wait, by attribute.",
                     {(name,): sum(change.attribute == name for change in waiting) for name in ATTRIBUTES}, "attribute")
        yield _gauge("oldest_change_seconds", "Age of the oldest of them in seconds; 0 where there is none.",
                     max((now_s - change.intended_s for change in waiting), default=0.0))
        yield _gauge("overdue_changes", "Changes whose time is up and that have not been taken back.",
                     sum(now_s > change.deadline_s + self._rules.every for change in waiting))
        yield _gauge("last_look_timestamp_seconds", "When the queue was last looked at, in seconds since the epoch.",
                     tally.looked_s or 0.0)
        yield _gauge("passed_over_jobs", "Jobs that are advised to start and were left alone at the last look, by "
                     "reason.", {(name,): tally.passed_over[name] for name in PASSED_OVER}, "reason")
        yield _counter("results_total", "What became of changes since the start, by attribute and state.",
                       {(name, state): tally.results[name, state] for name in ATTRIBUTES
                        for state in (*OPEN, *CLOSED) if state != "intended"}, "attribute", "state")
        yield _counter("start_wait_seconds_total", "Seconds from changes to the starts of their jobs, all together; "
                       "over results_total with state started it is the mean.", {(): tally.waited_s})
        yield _counter("errors_total", "What failed since the start: slurm (it did not answer), ledger (it could not "
                       "be written), taking_back (Slurm refused).", {(name,): tally.errors[name] for name in ERRORS},
                       "part")


def registry(page: FollowPage) -> CollectorRegistry:
    """Return a registry of this page alone."""
    registry = CollectorRegistry()
    registry.register(page)
    return registry


def _gauge(name: str, text: str, value: float | Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    return _filled(GaugeMetricFamily(f"idlewatt_follow_{name}", text, labels=labels), value)


def _counter(name: str, text: str, value: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    return _filled(CounterMetricFamily(f"idlewatt_follow_{name}", text, labels=labels), value)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, value: float | Mapping[tuple[str, ...], float]) -> Metric:
    for labels, number in value.items() if isinstance(value, Mapping) else [((), value)]:
        family.add_metric(labels, float(number))
    return family
