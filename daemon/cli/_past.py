"""``idlewatt demo --days``: weeks of a simulated cluster, lived through by the daemon itself in a minute or two.

The very service runs, on the cluster's time: every few simulated minutes it is asked as its own beat would, and its
page is written down as a Prometheus would have scraped it then. When the past is over the same service goes on with
the wall clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ...exporters.publish import registry
from ...exporters.simulated.cluster import ClusterShape, SimulatedCluster
from ...exporters.simulated.direct import sources
from ...storage.errors import StoreError
from ...storage.history import History
from ..advice.advisor import Advice
from ..advice.recommenders import subjects
from ..config import Settings
from ..counterfactual import WindowRequest, replayed
from ..service import Service
from ..settings.advice import AdviceSettings, CounterfactualSettings
from ..settings.costs import CostSettings
from ..settings.flavours import FlavourSettings
from ..settings.storage import StorageSettings
from ..view import DaemonView
from ..waste import WasteSettings
from . import _openmetrics as openmetrics
from ._parts import ADVISES, COMPILED_WITHIN_S, COSTS, RATED_WATTS, SCHEDULER, SPARE_NODES, DemoError, table_2

log = logging.getLogger(__name__)

DAY_S = 86400.0
STEP_S = 270.0
"""Simulated time between two steps, s, below the five minutes after which Prometheus treats a series as stale."""
REPLAY_S = DAY_S / 3
"""Simulated time between two counterfactual replays, s; hourly replays, as in the daemon, would take too long."""
HOUR_S = 120.0
"""Length of an hour of the paper's Table 2, s, so that two weeks have hundreds of jobs."""
TICK_S = 30.0
CYCLES = {"scrape": 1, "jobs": 1, "assess": 1, "advise": 2, "record": 8, **dict.fromkeys(subjects(), 16),
          "allocation": 2}
"""The cycles of a look, each after those it reads from, and how many looks lie between two of its runs: advice that is
younger than ten minutes is not called stale, and over longer than ten minutes nobody's use of CPUs is measured."""
DRAWS = 2
"""Number of drawn futures for an advice: a tenth of the usual number, to save time."""
PATIENCE = 1.5
"""Number of steps between two readings from which on there is a gap."""

Tick = Callable[[float], object]
"""Receives the number of finished days."""


class Time:
    """A clock: simulated time while the past is simulated, then real time."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.past = True

    def __call__(self) -> float:
        """Return seconds since the epoch."""
        return self._cluster.now_s if self.past else time.time()


class Operator:
    """A simulated operator who follows every third advice."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def read(self, advice: Advice | None) -> None:
        """Set the advised nodes of jobs, as ``scontrol update ReqNodeList=`` does."""
        for row in advice.recommendations if advice else ():
            if row.placement and row.action == "start" and not row.shadow and int(row.job_id) % 3 == 0:
                with suppress(KeyError):  # it has started on its own
                    self._cluster.steer(int(row.job_id), row.placement.nodes)


def simulated(days: float, nodes: int, seed: int, now_s: float) -> SimulatedCluster:
    """Return the simulated cluster as of a number of days before ``now_s``."""
    start_s = float(int(now_s - days * DAY_S))
    return SimulatedCluster(ClusterShape(nodes=nodes, seed=seed, start_s=start_s, hour_s=HOUR_S, tick_s=TICK_S))


@contextmanager
def serving(cluster: SimulatedCluster, clock: Time, folder: Path) -> Iterator[Service]:
    """Yield a daemon that reads the cluster directly, and stop it at the end."""
    settings = Settings(cluster="GIST AI-X (simulated)",
                        storage=StorageSettings(url=f"sqlite:///{folder / 'idlewatt.db'}"),
                        advice=AdviceSettings(policy=ADVISES, spare_nodes=SPARE_NODES, draws=DRAWS),
                        counterfactual=CounterfactualSettings(incumbent=SCHEDULER),
                        costs=CostSettings.model_validate(COSTS))
    gap = PATIENCE * STEP_S / settings.cycles.scrape
    settings = settings.model_copy(update={
        # Recommenders are asked seldom while days go by in seconds; none is older than the cluster's own pace.
        "waste": WasteSettings(gap_factor=gap, rated_node_watts=RATED_WATTS,
                               scheduler_max_age=PATIENCE * max(CYCLES.values()) * STEP_S),
        "flavours": tuple(FlavourSettings.model_validate(flavour) for flavour in table_2(HOUR_S)),
        "sources": sources(cluster, clock)})
    service = Service(settings, History.open(settings.storage.url), clock)
    try:
        yield service
    finally:
        service.stop()


def write(service: Service, cluster: SimulatedCluster, days: float, file: Path, labels: Mapping[str, str],
          tick: Tick) -> None:
    """Simulate the days and write every page as OpenMetrics with timestamps; ``labels`` are those of the scrape job."""
    page = registry(DaemonView(service, lambda: service.settings).published)
    unfinished = file.with_suffix(".part")
    start_s = cluster.now_s
    try:
        with unfinished.open("w", encoding="utf-8") as out:
            pages = openmetrics.PageWriter(labels)
            for now_s in lived(service, cluster, days * DAY_S):
                out.writelines(pages.lines(page.collect(), now_s))
                tick((now_s - start_s) / DAY_S)
            out.write(openmetrics.END)
        unfinished.rename(file)
    finally:
        unfinished.unlink(missing_ok=True)


def lived(service: Service, cluster: SimulatedCluster, seconds: float) -> Iterator[float]:
    """Run the daemon through simulated time, and yield the time after each step."""
    operator, replay_s = Operator(cluster), cluster.now_s + REPLAY_S
    _rehearsed(service)
    for look, now_s in enumerate(cluster.run(seconds, STEP_S)):
        for cycle, every in CYCLES.items():
            if look % every == 0:
                service.beat.run(cycle)
        operator.read(service.known.advice)
        if now_s >= replay_s:
            replay_s += REPLAY_S
            _replay(service, now_s)
        yield now_s


def _rehearsed(service: Service) -> None:
    """Wait for the first advice, which needs compiled policies."""
    deadline = time.monotonic() + COMPILED_WITHIN_S
    service.beat.run("jobs")
    while service.known.advice is None:
        if time.monotonic() > deadline:
            raise DemoError("the daemon does not advise; its log is demo.log")
        service.beat.run("advise")
        time.sleep(0.1)


def _replay(service: Service, now_s: float) -> None:
    """Run the counterfactual replay in this process, because a child process would take longer to start."""
    settings, known = service.settings, service.known.counterfactual
    since_s, until_s = known.next(now_s, REPLAY_S)
    policies = tuple(dict.fromkeys((settings.incumbent, settings.advising(None))))
    try:
        window = replayed(WindowRequest(settings.storage.url, since_s, until_s, policies,
                                        applications=settings.advice.applications))
    except (StoreError, ValueError) as error:
        log.warning("a window could not be replayed", extra={"error": str(error)})
        return
    service.known = replace(service.known, counterfactual=known.plus(window, policies[0]))
