"""What closed windows would have cost under other policies, beside how far the replay is from what was measured.

All policies are replayed from the same recorded moment with the same jobs, so that differences are paired: a policy
against itself saves exactly nothing. The replay is heavy, so it runs in a process of its own at low priority:
``python -m idlewatt.daemon.counterfactual`` reads a request from its input and writes its findings.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..storage.errors import StoreError
from ..storage.promotions import ShadowResult
from ..storage.simulated import Simulated
from .niceness import give_way

if TYPE_CHECKING:
    from .recorded_window import RecordedWindow
    from .replay.engine import Policy, Run

log = logging.getLogger(__name__)

WARM_UP_S = 86400.0
"""The time before the window at which replays begin, from what really ran then: queues of policies need it."""
NICENESS = 10
CLOSED_S = 900.0
"""Older windows are written down for good: the recorder has had its turn, accounting too."""
STEP_S = 300.0
"""Windows of recorded energy; ours begin and end where they do."""
MOST_S = 7 * 86400.0
"""What lies further back is not made up for after a failure."""


class Paired(NamedTuple):
    """A policy beside an incumbent, over the windows in which both were replayed."""

    incumbent: str
    saved_joules: float = 0.0
    """Negative where it took more."""
    of_joules: float = 0.0
    """What the incumbent took."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What is known of all windows that have closed."""

    until_s: float | None = None
    """End of the last closed window."""
    joules: Mapping[str, float] = field(default_factory=dict)
    """Simulated energy by policy, summed over all windows since its first; the incumbent's where it was not replayed,
    so that the difference of two counters is that of windows with both."""
    error_ratio: float | None = None
    """(Simulated - measured) / measured for the incumbent in the last window; None where nothing was measured."""
    wait_s: Mapping[str, float] = field(default_factory=dict)
    """Simulated waiting of all jobs by policy, summed likewise."""
    wait_error_ratio: float | None = None
    """``simulator_error.error_of_waits`` of the last replay; None where too few jobs waited."""
    paired: Mapping[str, Paired] = field(default_factory=dict)
    """By policy. Totals cannot be subtracted: each begins with the first window of its policy."""

    @classmethod
    def restored(cls, totals: Sequence[Simulated]) -> Counterfactual:
        """Return what an earlier daemon had come to; errors are those of the last window."""
        if not totals:
            return cls()
        last = max(totals, key=lambda total: total.until_s)
        waits = last.wait_error_ratio
        # Up to 0.2 it was signed, of the sums over all jobs: that is another figure.
        return cls(last.until_s, {total.policy: total.joules for total in totals}, last.error_ratio,
                   {total.policy: total.wait_s for total in totals}, None if waits is None or waits < 0 else waits,
                   {total.policy: Paired(total.incumbent, total.saved_joules, total.of_joules)
                    for total in totals if total.incumbent})

    def totals(self) -> tuple[Simulated, ...]:
        """Return what a later daemon goes on from."""
        if self.until_s is None:
            return ()
        return tuple(Simulated(policy, self.until_s, joules, self.wait_s.get(policy, 0.0), self.error_ratio,
                               self.wait_error_ratio, *self.paired.get(policy, Paired("")))
                     for policy, joules in self.joules.items())

    def next(self, now_s: float, period_s: float) -> tuple[float, float]:
        """Return the window that has closed since the last one; a period long at first, and after a clock set back."""
        until_s = (now_s - CLOSED_S) // STEP_S * STEP_S
        if self.until_s is None or self.until_s > now_s:
            return until_s - max(period_s, STEP_S) // STEP_S * STEP_S, until_s
        return max(self.until_s, until_s - MOST_S), until_s

    def plus(self, window: ReplayedWindow, incumbent: str) -> Counterfactual:
        """Return the totals with one more replayed window."""
        return Counterfactual(window.until_s, _added(self.joules, window.joules, incumbent), window.error_ratio,
                              _added(self.wait_s, window.wait_s, incumbent), window.wait_error_ratio,
                              {**self.paired, **_paired(self.paired, window.joules, incumbent)})


def _added(before: Mapping[str, float], more: Mapping[str, float], incumbent: str) -> dict[str, float]:
    """Return sums with those of one more window, in which who was not replayed did as the incumbent."""
    every = {**dict.fromkeys(before, more[incumbent]), **more} if incumbent in more else more
    return {**before, **{policy: before.get(policy, 0.0) + value for policy, value in every.items()}}


def _paired(before: Mapping[str, Paired], joules: Mapping[str, float], incumbent: str) -> dict[str, Paired]:
    """Return how the policies of a window did beside its incumbent so far; anew where that was another."""
    if incumbent not in joules:
        return {}
    known = {policy: paired for policy, paired in before.items() if paired.incumbent == incumbent}
    sums = {policy: known.get(policy, Paired(incumbent)) for policy in joules if policy != incumbent}
    return {policy: Paired(incumbent, so_far.saved_joules + joules[incumbent] - joules[policy],
                           so_far.of_joules + joules[incumbent]) for policy, so_far in sums.items()}


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """A window to be replayed."""

    url: str
    since_s: float
    until_s: float
    policies: Sequence[str]
    """The first is the incumbent, which really decided; agents are ``kind@version``."""
    seed: int = 0
    models: str = ""
    """Folder of the agents."""
    applications: Mapping[str, str] = field(default_factory=dict)
    """The application whose published speeds jobs follow until the site's own are known, by pattern of their names."""


@dataclass(frozen=True, slots=True)
class ReplayedWindow:
    """What one window took."""

    until_s: float
    joules: dict[str, float]
    error_ratio: float | None
    wait_s: dict[str, float] = field(default_factory=dict)
    wait_error_ratio: float | None = None
    since_s: float = 0.0
    system_s: dict[str, float] = field(default_factory=dict)
    """Seconds that jobs waited or ran, summed over jobs, by policy."""
    faults: dict[str, str] = field(default_factory=dict)
    """Why an agent could not be replayed, by its name."""
    speeds: str = ""
    """By which speeds jobs ran, and on what those rest, in a sentence."""

    def standings(self, incumbent: str) -> tuple[ShadowResult, ...]:
        """Return how everybody else did beside the incumbent."""
        return tuple(ShadowResult(policy, self.since_s, self.until_s, system_s, self.system_s[incumbent],
                              self.wait_s[policy], self.wait_s[incumbent], incumbent)
                     for policy, system_s in self.system_s.items() if policy != incumbent)


def replayed(request: WindowRequest) -> ReplayedWindow:
    """Replay a window under each policy; StoreError or ClusterError when it cannot be."""
    from ..storage.history import History  # what the child alone needs costs the daemon no memory
    from .agents.kinds import FAILURES
    from .learning.models import ModelError
    from .recorded_speeds import site_speeds
    from .recorded_watts import site_watts
    from .recorded_window import measured, past
    from .replay.outcome import coverage
    from .simulator_error import WATCHED, error_of_waits, off

    begin, span = request.since_s - WARM_UP_S, (request.since_s, request.until_s)
    with History.read_only(request.url) as history:
        speeds = site_speeds(history, request.until_s, request.applications)
        # Nodes by what was known before; a job that is replayed draws what it drew.
        watts = site_watts(history, request.since_s, own_until_s=request.until_s)
        history_window = past(history, begin, request.until_s, speeds, watts)
        then = measured(history, *span)
    trials, faults = dict[str, _Trial](), dict[str, str]()
    for policy in request.policies:
        try:
            trials[policy] = _trial(history_window, _named(policy, request.models), span, request.seed)
        except (ModelError, *FAILURES) as error:
            if "@" not in policy:
                raise
            faults[policy] = f"{type(error).__name__}: {error}"
    incumbent, real = trials[request.policies[0]], then.total if then.coverage >= WATCHED else None
    return ReplayedWindow(request.until_s, {policy: trial.joules for policy, trial in trials.items()},
                          off(incumbent.joules, real), {policy: trial.wait_s for policy, trial in trials.items()},
                          error_of_waits(incumbent.run, history_window.started, begin), request.since_s,
                          {policy: trial.system_s for policy, trial in trials.items()}, faults,
                          str(coverage(incumbent.run, speeds, history_window.unplaced)))


class _Trial(NamedTuple):
    run: Run
    joules: float
    wait_s: float
    system_s: float


def _trial(window: RecordedWindow, policy: Policy, span: tuple[float, float], seed: int) -> _Trial:
    from .agents.kinds import RESTART_S  # as above
    from .replay.timeline import energies
    from .simulator_error import waited

    run, drawn = energies(window.cluster, window.workload, policy, (window.since_s, *span), window.power, seed,
                          window.reserved, speed=window.speeds.table_for(policy), resize_s=RESTART_S)
    return _Trial(run, float(drawn[2] - drawn[1]), waited(run, run.start, *span), waited(run, run.end, *span))


def _named(policy: str, models: str) -> Policy:
    from .learning.models import ModelStore  # as above
    from .policies import named

    return ModelStore(Path(models)).load(policy) if "@" in policy else named(policy)


class WindowReplayer:
    """Replays one window at a time in a child process, which can be ended at any moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._ended = False

    def replay(self, request: WindowRequest, timeout_s: float) -> ReplayedWindow | None:
        """Return what the window took; None when it could not be replayed, which is logged."""
        with self._lock:
            if self._ended:
                return None
            self._child = subprocess.Popen(  # noqa: S603 - this very module
                [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True)
        try:
            output, errors = self._child.communicate(json.dumps(asdict(request)), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            output, errors = self._child.communicate()
            errors = f"not done after {timeout_s:.0f} s"
        if self._child.returncode == 0:
            return ReplayedWindow(**json.loads(output))
        if not self._ended:
            log.warning("a closed window could not be replayed", extra={"error": errors.strip()[-500:]})
        return None

    def end(self) -> None:
        """End the child, whatever it does; nothing is replayed any more."""
        with self._lock:
            self._ended = True
            if self._child is not None and self._child.poll() is None:
                self._child.kill()


def main() -> None:
    """Serve one request: JSON in, JSON out; what is wrong goes to standard error in one line."""
    give_way(NICENESS)
    try:
        window = replayed(WindowRequest(**json.load(sys.stdin)))
    except (StoreError, ValueError) as error:
        sys.exit(str(error))
    json.dump(asdict(window), sys.stdout)


if __name__ == "__main__":
    main()
