"""The life of ``idlewatt follow``: take back what was left, follow until stopped, leave nothing behind."""

from __future__ import annotations

import logging
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from prometheus_client import start_http_server

from ...exporters.causes import innermost
from ...storage.errors import StoreError
from ...storage.follow_ledger import FollowLedger
from ..notify import notify
from ..settings.follow import FollowSettings
from .advice import Adviser
from .config import load
from .dry import DryScheduler
from .follower import Follower
from .page import FollowPage, registry
from .slurm import Scheduler, Slurm, SlurmError

log = logging.getLogger(__name__)

GUARD = "guard"
MOST_PORT = 65535


class CannotFollow(Exception):
    """It cannot start; the message says what is in its way."""


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """What the command line says."""

    config_file: Path
    dry_run: bool = False
    address: str = "127.0.0.1:9724"


def follow(options: FollowOptions) -> int:
    """Follow advice until SIGTERM or SIGINT; return how many changes may be left. ConfigError, CannotFollow."""
    stop = _stopping()
    rules = settings(options)
    slurm = Slurm(rules.slurm)
    if not _checked(options, rules, slurm, stop):
        return 0
    with _opened(rules, FollowLedger.own) as ledger:
        follower = _follower(rules, slurm, ledger)
        with _page(options.address, rules, follower):
            return _run(rules, follower, stop)


def _follower(rules: FollowSettings, slurm: Scheduler, ledger: FollowLedger) -> Follower:
    """Return who follows; before a dry run, what a former process changed in earnest is taken back."""
    if rules.dry_run:
        try:
            Follower(rules, slurm, ledger, Adviser(rules).advice, GUARD).take_all_back("a dry run begins")
        except SlurmError as error:
            log.warning("what stands is left to the guard", extra={"reason": str(error)})
    scheduler = DryScheduler(slurm) if rules.dry_run else slurm
    return Follower(rules, scheduler, ledger, Adviser(rules).advice, secrets.token_hex(8), only_dry=rules.dry_run)


def settings(options: FollowOptions) -> FollowSettings:
    """Return the settings of the file, dry where the command line says so."""
    rules = load(options.config_file)
    return rules.model_copy(update={"dry_run": True}) if options.dry_run else rules


def release(rules: FollowSettings, *, stale_only: bool) -> tuple[int, str]:
    """Take back what a dead process left, or a living one is late with; return how much may be left, and words.

    Raises CannotFollow where ledger or Slurm do not answer.
    """
    if not rules.ledger.exists():
        return 0, "there is no ledger: nothing was ever changed"
    with _opened(rules, FollowLedger.guard) as ledger:
        if not ledger.open_changes():
            return 0, "nothing stands"
        follower = Follower(rules, Slurm(rules.slurm), ledger, Adviser(rules).advice, GUARD)
        try:
            if stale_only and not ledger.alone:
                left = follower.take_back_overdue(2 * rules.every)
            else:
                left = follower.take_all_back("released by hand")
        except SlurmError as error:
            raise CannotFollow(str(error)) from error
        taken = sum(number for (_, state), number in follower.tally.results.items() if state == "taken_back")
        return left, f"{taken} taken back, {left} may be left"


def _stopping() -> threading.Event:
    stop = threading.Event()

    def on_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_stop)
    return stop


def _checked(options: FollowOptions, rules: FollowSettings, slurm: Slurm, stop: threading.Event) -> bool:
    """Ask Slurm for its partitions until it answers, and check the allow-list; False when stopped meanwhile."""
    while not stop.is_set():
        try:
            partitions = slurm.partitions()
        except SlurmError as error:
            log.warning("waiting for Slurm", extra={"reason": str(error)})
            stop.wait(rules.every)
        else:
            load(options.config_file, partitions)
            return True
    return False


@contextmanager
def _opened(rules: FollowSettings, how: Callable[[Path], FollowLedger]) -> Iterator[FollowLedger]:
    try:
        with how(rules.ledger) as ledger:
            yield ledger
    except StoreError as error:
        raise CannotFollow(str(error)) from error


@contextmanager
def _page(address: str, rules: FollowSettings, follower: Follower) -> Iterator[None]:
    """Serve the metrics; an empty address serves none."""
    if not address:
        yield
        return
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > MOST_PORT:
        raise CannotFollow(f"cannot listen on {address}: an address with a port up to {MOST_PORT} is expected")
    page = registry(FollowPage(rules, lambda: follower.tally))
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), page)
    except (OSError, ValueError) as error:  # ValueError: a name that no host can have
        raise CannotFollow(f"cannot listen on {address}: {innermost(error)}") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _run(rules: FollowSettings, follower: Follower, stop: threading.Event) -> int:
    """Look again and again; whatever ends this, what stands is taken back. Return how much may be left."""
    left = 0
    notify("READY=1", f"STATUS={'dry run' if rules.dry_run else 'following'}")
    log.info("ready", extra={"dry_run": rules.dry_run})
    try:
        while not stop.is_set():
            _look(follower)
            notify("WATCHDOG=1")
            stop.wait(rules.every)
    finally:
        notify("STOPPING=1")
        left = _leave(follower)
        log.info("stopped", extra={"left": left})
    return left


def _look(follower: Follower) -> None:
    try:
        follower.look()
    except SlurmError as error:
        follower.tally.errors["slurm"] += 1
        log.warning("Slurm does not answer", extra={"reason": str(error)})
    except StoreError as error:
        # Nothing is done that cannot be noted.
        follower.tally.errors["ledger"] += 1
        log.error("the ledger cannot be written", extra={"reason": str(error)})


def _leave(follower: Follower) -> int:
    try:
        return follower.take_all_back("idlewatt follow has stopped")
    except (SlurmError, StoreError) as error:
        log.error("what stands could not be taken back", extra={"reason": str(error)})
        return len(follower.tally.standing)
