"""What each test costs in CPU seconds, which a busy machine does not change much: its own, and its children's.

Machine code is left out, as far as a test's own process makes it: whoever comes first makes it for all.
"""

import os
import resource
import time
from collections.abc import Generator

import pytest
from numba.core import event

BUDGET_S, FACTOR = 6.0, 8.0
"""What a test may cost on usual cores; a test fails a run of CI where it took that many times as much."""
USUAL_S = 0.045
"""CPU that a million additions take on the cores for which seconds are promised."""
MARGIN = 3.0
"""What is late by a hang is late by far more: cores lose half their speed to others from one second to the next."""
PATIENCE = 20.0
"""Times the seconds that a wait takes on usual cores, after which it is given up: one that ends well costs no more."""
SOONEST_S, LATEST_S = 0.1, 0.5
"""Between two looks at what is waited for."""
SHARING = {"stack", "systemd"}
"""Marks of tests on real parts: who ends a daemon that several shared is billed for its life, so nobody fails by it."""
SHOWN = 10
_PROPERTY = "cpu_s"


def slowness() -> float:
    """Return how many times slower this machine's cores are than usual ones, at least 1, at the worst seen so far."""
    began, total = time.thread_time(), 0
    for number in range(1_000_000):
        total += number
    _seen.append((time.thread_time() - began) / USUAL_S)
    return max(1.0, *_seen)


def overload() -> float:
    """Return how many times slower this machine is than usual cores with nothing else to do: by load, and by core."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) * slowness()


def widened(seconds: float) -> float:
    """Return a bound for what takes that long on usual cores with nothing else to do, here and now."""
    return MARGIN * overload() * seconds


def patient(seconds: float) -> float:
    """Return after how long to give up a wait that ends within seconds on usual cores with nothing else to do."""
    return PATIENCE * seconds


def pause(began_s: float) -> None:
    """Let a tenth of the time pass since a wait began, within bounds, until the next look at what is waited for.

    Most looks start a process, which takes its share of few cores from whatever is waited for.
    """
    time.sleep(min(LATEST_S, max(SOONEST_S, (time.monotonic() - began_s) / 10)))


_seen: list[float] = []


class Compilation(event.Listener):
    """CPU seconds that this process spent on making machine code; what is made for something else counts once."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._depth = 0
        self._since_s = 0.0
        event.register("numba:compile", self)

    def on_start(self, event: event.Event) -> None:
        if not self._depth:
            self._since_s = time.process_time()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if not self._depth:
            self.spent_s += time.process_time() - self._since_s


class Meter:
    """Tells with each test's last report what it cost, its fixtures included."""

    def __init__(self) -> None:
        self._compilation = Compilation()
        self._before_s = 0.0

    def _spent_s(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() - self._compilation.spent_s + children.ru_utime + children.ru_stime

    def pytest_runtest_logstart(self) -> None:
        self._before_s = self._spent_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) \
            -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((_PROPERTY, round(self._spent_s() - self._before_s, 2)))
        return report


class Bill:
    """Shows the dearest tests at the end of a run; in CI one far above its budget fails the run."""

    def __init__(self, limit_s: float) -> None:
        self.costs_s: dict[str, float] = {}
        self._sharing = set[str]()
        self._limit_s = limit_s

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _PROPERTY and report.when == "teardown":
                self.costs_s[report.nodeid] = float(str(value))
                if SHARING & report.keywords.keys():
                    self._sharing.add(report.nodeid)

    def too_dear(self) -> list[str]:
        """Return the tests that cost far more than their budget."""
        return [test for test, cost_s in self.costs_s.items() if cost_s > self._limit_s and test not in self._sharing]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.too_dear():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"{sum(self.costs_s.values()):.0f} CPU s, the dearest tests first")
        for test, cost_s in sorted(self.costs_s.items(), key=lambda one: -one[1])[:SHOWN]:
            terminalreporter.line(f"{cost_s:7.2f} s  {test}")
        for test in self.too_dear():
            terminalreporter.line(f"above {self._limit_s:.0f} CPU s: mark it long or make it cheaper: {test}", red=True)


def meter(config: pytest.Config) -> None:
    """Let a process measure its tests, and the one that people look at show what they cost, where CI runs them."""
    if not os.environ.get("CI"):
        return
    config.pluginmanager.register(Meter(), "meter")
    if not hasattr(config, "workerinput"):
        limited = not config.getoption("--long") and not config.getoption("--benchmarks")
        config.pluginmanager.register(Bill(BUDGET_S * FACTOR * slowness() if limited else float("inf")), "bill")
