"""What every test shares: benchmarks run only when asked for, and in CI a skipped test is a failed one."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fresh_schema
import hypothesis
import pytest
from chain import chain  # noqa: F401  (the real parts, tests/stack/chain.py)
from compiled_once import compile_once
from cost import meter
from postgres import frail_postgres, postgres  # noqa: F401  (likewise)
from properties import is_property, with_fewer_examples
from rewritten import rewrite_once
from together import begin_with_chains, share_workers

from idlewatt.daemon.replay.compiled import cache_folder
from idlewatt.storage import database

ADVISED_BY = ("limit-aged+best-fit+easy", "fifo+first-fit+easy", "fifo+first-fit")
"""The policies of the demo, of a site without settings, and of the simulated scheduler."""
COMPILING = pytest.StashKey[subprocess.Popen[bytes]]()
LONGEST_NAME = 200
"""Characters of a parameter in the name of its test; some parameters are megabytes, and names go to every worker."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--benchmarks", action="store_true", help="run tests/benchmarks and print their figures")
    parser.addoption("--long", action="store_true", help="run the long tests, and properties with all their examples")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile what most tests run once, while tests are collected, and write their asserts out for all workers."""
    config = session.config
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        fresh = next(cache_folder().rglob("*.nbc"), None) is None
        command = (sys.executable, Path(__file__).parent / "stack/compiled_ahead.py", str(int(fresh)), *ADVISED_BY)
        config.stash[COMPILING] = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        rewrite_once(config, Path(__file__).parent)


def pytest_sessionfinish(session: pytest.Session) -> None:
    compiling = session.config.stash.get(COMPILING, None)
    if compiling is not None:
        compiling.kill()
        compiling.wait()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let the garbage collector pass over modules and thousands of tests, which live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)  # a worker compiles, and makes and drops thousands of objects in each test
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long text by its beginning and its length; anything else has the name that pytest gives it."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        return f"{ascii(val[:60])} and so on, {len(val)} long"
    return None


def pytest_ignore_collect(collection_path, config: pytest.Config) -> bool | None:
    if collection_path.name == "benchmarks" and not config.getoption("--benchmarks"):
        return True
    return None


@pytest.hookimpl(tryfirst=True)  # before xdist reads who shares a worker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose long tests and properties with all their examples, or everything that is not long, with fewer.

    What is left out is deselected and not skipped, which CI does not allow.
    """
    share_workers(items)
    properties = {id(item.obj): item.obj for item in items if is_property(getattr(item, "obj", None))}
    if config.getoption("--long"):
        chosen = [item for item in items if item.get_closest_marker("long") or id(item.obj) in properties]
    else:
        chosen = [item for item in items if not item.get_closest_marker("long")]
        for test in properties.values():
            with_fewer_examples(test)
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen
    begin_with_chains(items)


def pytest_configure(config: pytest.Config) -> None:
    database.upgrade = fresh_schema.upgrade
    if hasattr(config, "workerinput"):
        compile_once()
    # How long an example takes, or data to be made, is a matter of the machine, not of the code.
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("desk", deadline=None, suppress_health_check=slow)
    # CI tries the same examples each time: new ones are found at a desk, where somebody looks at them.
    hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("desk"), derandomize=True)
    hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")
    if os.environ.get("CI") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NothingSkipped(), "nothing-skipped")
    meter(config)


@pytest.fixture
def real_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a new database have its schema by migrations, one after the other."""
    monkeypatch.setattr(database, "upgrade", fresh_schema.migrate)


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of the published traces: tests/traces, or the one that IDLEWATT_TRACES names."""
    return Path(os.environ.get("IDLEWATT_TRACES") or Path(__file__).parent / "traces")


class NothingSkipped:
    """In CI every part is installed, so a skip means that the proof is missing."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.append(f"{report.nodeid}: {report.longrepr[2] if report.longrepr else ''}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.skipped:
            terminalreporter.section("skipped, which CI does not allow", red=True)
            for line in self.skipped:
                terminalreporter.line(line)
