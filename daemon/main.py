"""The life of the daemon process: start, say ready, listen to signals, stop."""

from __future__ import annotations

import gc
import logging
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from ..exporters.source import Clock
from ..storage.errors import StoreError
from ..storage.history import History
from .config import load
from .degraded import AHEAD_S, ClockWatch
from .memory import give_back, save
from .notify import notify, reloading, watchdog_period_s
from .service import Service
from .view import DaemonView
from .web.app import WebApp
from .web.gate import WebConfigFile
from .web.server import ListenError, WebServer, activated, listen
from .web.view import ReloadError
from .web.webconfig import WebConfigError

log = logging.getLogger(__name__)

GLANCE_S = 1.0
"""How often the main thread looks after the cycles."""
GIVE_BACK_S = 60.0
"""How often it returns memory that is not in use."""
DESCRIPTORS = 32768
"""How many descriptors are wanted: a connection to each page of some thousand nodes, and people's browsers."""
WAIT_S = 120.0
"""How long a clock that is behind is waited for: time is synchronised soon after a machine has started."""
_CLOCK_GLANCE_S = 0.5


class CannotServe(Exception):
    """The daemon cannot start; the message says what is in its way."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    config_file: Path
    addresses: tuple[str, ...]
    web_config: Path | None = None
    telemetry_path: str = "/metrics"
    lifecycle: bool = False
    systemd_socket: bool = False
    speed: float = 1.0
    start_s: float | None = None


class Stop(Protocol):
    """A signal that ends a wait, as an event does."""

    def wait(self, timeout: float) -> bool:
        """Wait, and tell whether to stop."""


@dataclass(slots=True)
class Signals:
    """The signals since the last look at them; handlers only set flags."""

    stop: threading.Event
    reload: bool = False

    def on_stop(self, number: int, frame: FrameType | None) -> None:
        """Note that the process shall end."""
        self.stop.set()

    def on_reload(self, number: int, frame: FrameType | None) -> None:
        """Note that the configuration shall be read again."""
        self.reload = True


def serve(options: Options) -> None:
    """Run the daemon until SIGTERM or SIGINT; ConfigError or CannotServe when it cannot start."""
    save()
    signals = Signals(threading.Event())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signals.on_stop)
    signal.signal(signal.SIGHUP, signals.on_reload)
    settings = load(options.config_file)
    _allow_descriptors()
    try:
        gate = WebConfigFile(options.web_config)
        sockets = activated() if options.systemd_socket else [listen(address) for address in options.addresses]
        _prepare(options.config_file, settings.storage.url)
        storage = settings.storage
        history = History.open(storage.url, storage.spool_folder, storage.backlog_bytes)
        clock = _clock(options)
        if options.speed == 1.0:
            await_clock(history.newest_s(), clock, signals.stop)
    except (WebConfigError, ListenError, StoreError) as error:
        raise CannotServe(str(error)) from error
    service = Service(settings, history, clock, speed=options.speed, steps=ClockWatch(clock, options.speed))
    view = DaemonView(service, lambda: load(options.config_file))
    app = WebApp(view, gate, telemetry_path=options.telemetry_path, lifecycle=options.lifecycle)
    with closing(view), _served(WebServer(app, sockets, gate)), _running(service):
        _watch(service, view, app, signals)
    # The kernel frees memory at once; Python would look through millions of objects for seconds before it ends.
    gc.freeze()


def _prepare(config_file: Path, url: str) -> None:
    """Bring an old schema up to date in a process of its own: here Alembic would stay as long as the daemon, 9 MB.

    Whatever is wrong with the database is logged when it is opened.
    """
    try:
        History.read_only(url).close()
    except StoreError:
        command = (sys.executable, "-m", "idlewatt.daemon.cli", "db", "upgrade", "--config.file", str(config_file))
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # noqa: S603


def _allow_descriptors() -> None:
    """Raise the soft limit of descriptors, which is 1,024 in most shells, as far as is wanted and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with suppress(OSError, ValueError):  # a sandbox may forbid it; fewer connections are then kept open
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _clock(options: Options) -> Clock:
    if options.speed == 1.0:
        return time.time
    from ..exporters.simulated.clock import SimulatedClock  # no site simulates: its daemon does not pay for it

    return SimulatedClock(options.speed, options.start_s if options.start_s is not None else time.time())


def await_clock(newest_s: float | None, clock: Callable[[], float], stop: Stop,
                timer: Callable[[], float] = time.monotonic) -> None:
    """Wait for two minutes at most until the clock has come to what was recorded last, ``newest_s``.

    What is still later than the clock after that was recorded by one that was ahead, as far as anybody can tell.
    """
    if newest_s is None or (behind_s := newest_s - clock()) <= AHEAD_S:
        return
    log.warning("the clock is behind what was recorded last; waiting for it to be set", extra={
        "seconds": round(behind_s), "longest_s": round(WAIT_S)})
    until = timer() + WAIT_S
    while newest_s - clock() > AHEAD_S and timer() < until and not stop.wait(_CLOCK_GLANCE_S):
        pass


@contextmanager
def _served(server: WebServer) -> Iterator[None]:
    server.start()
    log.info("listening", extra={"urls": " ".join(server.urls)})
    try:
        yield
    finally:
        server.stop()


@contextmanager
def _running(service: Service) -> Iterator[None]:
    # The daemon is ready once it serves with the database open; targets that hang must not make systemd give up on it.
    service.start()
    notify("READY=1", f"STATUS=watching with {len(service.sources)} sources")
    log.info("ready", extra={"sources": len(service.sources)})
    try:
        yield
    finally:
        notify("STOPPING=1")
        service.stop()
        log.info("stopped")


def _watch(service: Service, view: DaemonView, app: WebApp, signals: Signals) -> None:
    """Serve signals, prepare the metrics page, tidy up, and ping the watchdog as long as every cycle comes round."""
    # Not kept until the next look: that would be a second of everything, 12 MB at a thousand nodes.
    period, prepared = watchdog_period_s(), weakref.ref(service.known)
    due = time.monotonic()
    give_back_due = due + GIVE_BACK_S
    while not signals.stop.wait(GLANCE_S if period is None else min(GLANCE_S, period)):
        if signals.reload:
            signals.reload = False
            _reload(view)
        service.beat.keep_time()
        if service.known is not prepared():
            prepared = weakref.ref(service.known)
            app.prepare()
        if time.monotonic() >= give_back_due:
            give_back()
            give_back_due = time.monotonic() + GIVE_BACK_S
        hung = service.beat.hung()
        if hung:
            log.error("cycles hang", extra={"target": " ".join(hung)})
        elif period is not None and time.monotonic() >= due:
            notify("WATCHDOG=1")
            due = time.monotonic() + period


def _reload(view: DaemonView) -> None:
    reloading()
    try:
        view.reload()
    except ReloadError:
        pass  # Logged and shown as a gauge where it failed; the old configuration goes on.
    finally:
        notify("READY=1")
