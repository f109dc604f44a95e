"""Sends the digest of a week to administrators and to owners of accounts, each once, and again if nobody took it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from ...storage.notices import Key, Notice
from ..efficiency import EnergyBook, digest_pages
from ..efficiency.digest import Saved, digest
from ..facts import Known
from ..settings.sections import Sections
from .delivery import became, later
from .local_time import digest_due, digest_until
from .mail import Mail, MailError, Outcome, send

WEEK_S, DAY_S = 7 * 86400.0, 86400.0
RULE = "digest"


def due(settings: Sections, ledger: Mapping[Key, Notice], now_s: float) -> Iterator[tuple[Notice, tuple[str, ...]]]:
    """Yield the digests that are to be sent now, with recipients; one that is over a day late is left out."""
    wanted = settings.notices.digest
    moment_s = digest_due(now_s, wanted, settings.notices.zone)
    if not wanted.enabled or now_s - moment_s > DAY_S:
        return
    readers = {"": settings.notices.admins} | {account: (to,) for account, to in sorted(wanted.owners.items())}
    for account, to in readers.items():
        fresh = Notice(RULE, "digest", "mail", account, 0.0, moment_s - WEEK_S, RULE, "", account, "", "waiting",
                       moment_s, now_s, address=", ".join(to))
        known = ledger.get(fresh.key, fresh)
        if to and known.state == "waiting" and (known.next_s is None or known.next_s <= now_s):
            yield known, to


def given_up(ledger: Mapping[Key, Notice], now_s: float) -> Iterator[Notice]:
    """Yield the digests that nobody took within a day: nothing is behind because of a week that is over."""
    for notice in ledger.values():
        if notice.stage == "digest" and notice.state == "waiting" and now_s - notice.found_s > DAY_S:
            yield replace(notice, state="failed", why=f"given up: {notice.why}", updated_s=now_s, next_s=None)


def deliver(settings: Sections, ledger: Mapping[Key, Notice], book: EnergyBook, known: Known,
            clock: Callable[[], float], write: Callable[[Iterable[Notice]], None]) -> None:
    """Send what is due; StoreError when the history cannot be read."""
    now_s = clock()
    write(given_up(ledger, now_s))
    for notice, to in due(settings, ledger, now_s):
        if settings.notices.dry_run or settings.notices.mail is None:
            write((replace(notice, state="dry_run", updated_s=now_s),))
            continue
        until_s = digest_until(notice.found_s, settings.notices.digest, settings.notices.zone)
        row = digest_pages.as_json(digest(book, until_s - WEEK_S, until_s, notice.account,
                                          None if notice.account else saved(settings, known)))
        mail = Mail(to, digest_pages.subject(row, settings.cluster), digest_pages.text(row, settings.cluster),
                    digest_pages.html(row, settings.cluster))
        outcomes: list[Outcome] = []

        def done(number: int, outcome: Outcome, outcomes: list[Outcome] = outcomes) -> bool:
            outcomes.append(outcome)
            return True

        try:
            send([mail], settings.notices.mail, clock, done)
        except MailError as error:
            write((later(notice, f"mail: {error}", now_s),))
        else:
            write((became(replace(notice, words=mail.subject), outcomes[0], to, now_s),))


def saved(settings: Sections, known: Known) -> Saved | None:
    """Return what advice would have saved, as far as it was replayed."""
    return Saved.of(known.counterfactual, settings.incumbent, settings.advising(known.learned.leader))
