"""Delivers what waits: one mail to a user a day, none in quiet hours, and again later what nobody took.

What the far end does not take is kept with the reason, and tried again after a pause that doubles; what it refuses for
good has failed.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...storage.notice_reading import Run
from ...storage.notices import Key, Notice
from ..settings.notices import NoticesSettings
from .addresses import NoAddress, address_of
from .local_time import quiet
from .mail import Mail, MailError, Outcome, send
from .posts import PostError, alerts, payload, post
from .programs import ProgramError, run
from .texts import ADMINS, OWNER, Texts

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 3600.0
ROUND_S = 60.0
"""How long one round delivers; the rest is left to the next, so that the cycle comes round."""
ALERTS_LAST = 4.0
"""Beats after which an alert that is not posted again ends."""

Book = Callable[[Iterable[Notice]], None]


@dataclass(frozen=True, slots=True)
class _Letter:
    """A mail and what it says."""

    mail: Mail
    notices: tuple[Notice, ...]


class Delivery:
    """Delivers by the settings of the moment."""

    def __init__(self, settings: NoticesSettings, texts: Texts, clock: Callable[[], float]) -> None:
        self._settings, self._texts, self._clock = settings, texts, clock
        self.present: set[tuple[str, Run]] = set()
        """Rules and runs of the last findings: only those that still hold are delivered."""

    def deliver(self, ledger: Mapping[Key, Notice], opted_out: set[str], now_s: float, book: Book) -> None:
        """Deliver what waits, as far as one round reaches."""
        until = time.monotonic() + ROUND_S
        waiting = [notice for notice in ledger.values() if notice.state == "waiting" and notice.stage != "digest"]
        out = [notice for notice in waiting if notice.user in opted_out and notice.stage != "admins"]
        book(replace(notice, state="left_out", why="opted out", updated_s=now_s) for notice in out)
        unset = [notice for notice in waiting if notice not in out and notice.channel in self._unset()]
        book(replace(notice, state="left_out", why=f"no {notice.channel} is set any more", updated_s=now_s, next_s=None)
             for notice in unset)
        due = [notice for notice in waiting if notice not in out + unset and self._due(notice, now_s)]
        self._mail([notice for notice in due if notice.channel == "mail"], ledger, now_s, book, until)
        self._alert(ledger, opted_out, now_s, book)
        for notice in due:
            if time.monotonic() > until:
                return
            if notice.channel == "webhook":
                book((self._posted(notice, now_s),))
            elif notice.channel == "hook":
                book((self._hooked(notice, now_s),))

    def _unset(self) -> set[str]:
        """Return the channels without settings; notices found before a reload may still wait for one."""
        settings = {"mail": self._settings.mail, "webhook": self._settings.webhook,
                    "alertmanager": self._settings.alertmanager}
        return {channel for channel, one in settings.items() if one is None}

    def _due(self, notice: Notice, now_s: float) -> bool:
        still = (notice.rule, notice.run) in self.present or notice.kind == "time_limit"
        return still and (notice.next_s is None or notice.next_s <= now_s)

    # Mail.

    def _mail(self, due: Sequence[Notice], ledger: Mapping[Key, Notice], now_s: float, book: Book,
              until: float) -> None:
        mail = self._settings.mail
        if not due or mail is None:
            return
        letters = list(self._letters(due, ledger, now_s, book, until - ROUND_S / 2))
        if not letters:
            return
        decided = set[int]()

        def done(number: int, outcome: Outcome) -> bool:
            decided.add(number)
            letter = letters[number]
            book(became(notice, outcome, letter.mail.to, now_s) for notice in letter.notices)
            return time.monotonic() < until

        try:
            send([letter.mail for letter in letters], mail, self._clock, done)
        except MailError as error:
            log.warning("mail is kept and sent later", extra={"error": str(error)})
            book(later(notice, f"mail: {error}", now_s) for number, letter in enumerate(letters)
                 if number not in decided for notice in letter.notices)

    def _letters(self, due: Sequence[Notice], ledger: Mapping[Key, Notice], now_s: float, book: Book,
                 until: float) -> Iterable[_Letter]:
        by_reader: dict[str, list[Notice]] = {}
        for notice in sorted(due, key=lambda entry: (entry.found_s, entry.key)):
            reader = "" if notice.stage == "admins" else notice.user
            by_reader.setdefault(reader, []).append(notice)
        hushed = quiet(now_s, self._settings.quiet_hours, self._settings.zone)
        mailed = _last_mailed(ledger)
        for user, notices in by_reader.items():
            if time.monotonic() > until:
                return  # addresses are looked up one by one: those that are known get their mail in this round
            wait = "quiet hours" if hushed else ""
            if not wait and now_s - mailed.get(user, float("-inf")) < self._settings.per_user:
                wait = "one mail a day"
            if wait:
                book(replace(notice, why=wait) for notice in notices if notice.why != wait)
                continue
            letter = self._letter(user, notices, _firsts(notices, ledger), now_s, book)
            if letter is not None:
                yield letter

    def _letter(self, user: str, notices: Sequence[Notice], firsts: Mapping[Key, Notice], now_s: float,
                book: Book) -> _Letter | None:
        try:
            to = (address_of(user, self._settings.addresses),) if user else self._settings.admins
            if not to:
                raise NoAddress("no administrator has an address")
            stage = notices[0].stage if len({notice.stage for notice in notices}) == 1 else "first"
            subject, text = self._texts.render(OWNER if user else ADMINS, notices, stage, firsts)
        except NoAddress as error:
            book(replace(notice, state="left_out", why=str(error), updated_s=now_s) for notice in notices)
        except (ProgramError, ValueError) as error:
            book(later(notice, str(error), now_s) for notice in notices)
        else:
            return _Letter(Mail(to, subject, text), tuple(notices))
        return None

    # Programs.

    def _alert(self, ledger: Mapping[Key, Notice], opted_out: set[str], now_s: float, book: Book) -> None:
        """Post every alert that holds again, as Alertmanager wants it; none goes to users who opted out."""
        settings = self._settings.alertmanager
        held = [notice for notice in ledger.values()
                if notice.channel == "alertmanager" and notice.state in ("waiting", "sent")
                and (notice.rule, notice.run) in self.present
                and (notice.stage == "admins" or notice.user not in opted_out)]
        if settings is None or not held:
            return  # else at each look, be it that the last failed: what is posted no more is shown as resolved
        try:
            until_s = now_s + ALERTS_LAST * self._settings.every
            post(settings, "/api/v2/alerts", alerts(held, settings, until_s, opted_out))
        except PostError as error:
            book(later(notice, f"alertmanager: {error}", now_s) for notice in held if notice.state == "waiting")
        else:
            book(_delivered(notice, now_s) for notice in held if notice.state == "waiting")

    def _posted(self, notice: Notice, now_s: float) -> Notice:
        assert self._settings.webhook is not None
        try:
            post(self._settings.webhook, "", payload(notice))
        except PostError as error:
            return later(notice, f"webhook: {error}", now_s)
        return _delivered(notice, now_s)

    def _hooked(self, notice: Notice, now_s: float) -> Notice:
        hooks = self._settings.hooks
        command = getattr(hooks, notice.stage)
        if not command:
            return replace(notice, state="left_out", why="no command is set for this stage", updated_s=now_s)
        if hooks.dry_run:
            return replace(notice, state="dry_run", why=f"would run {command[0]}", updated_s=now_s)
        try:
            run(command, json.dumps(payload(notice)), hooks.timeout)
        except ProgramError as error:
            return later(notice, str(error), now_s)
        return _delivered(notice, now_s)


def _delivered(notice: Notice, now_s: float) -> Notice:
    return replace(notice, state="sent", sent_s=now_s, updated_s=now_s, why="", next_s=None, tries=notice.tries + 1)


def became(notice: Notice, outcome: Outcome, to: tuple[str, ...], now_s: float) -> Notice:
    """Return what became of a notice that was mailed."""
    if outcome.again:
        return later(notice, f"mail: {outcome.refused}", now_s)
    return replace(notice, state="failed" if outcome.refused else "sent", why=outcome.refused, updated_s=now_s,
                   sent_s=None if outcome.refused else now_s, next_s=None, tries=notice.tries + 1,
                   address=", ".join(to))


def later(notice: Notice, why: str, now_s: float) -> Notice:
    """Return a notice that nobody took, to be tried again after a pause that doubles."""
    pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(notice.tries, 10))
    return replace(notice, why=why, updated_s=now_s, next_s=now_s + pause_s, tries=notice.tries + 1)


def _firsts(notices: Iterable[Notice], ledger: Mapping[Key, Notice]) -> dict[Key, Notice]:
    """Return the first notice to the owner of each job, whatever became of it, by the keys of these notices."""
    firsts = {notice.key: ledger.get(replace(notice, stage="first").key) for notice in notices}
    return {key: first for key, first in firsts.items() if first is not None}


def _last_mailed(ledger: Mapping[Key, Notice]) -> dict[str, float]:
    """Return when each user was sent a mail last; '' are the administrators."""
    mailed: dict[str, float] = {}
    for notice in ledger.values():
        if notice.channel == "mail" and notice.sent_s is not None and notice.stage != "digest":
            reader = "" if notice.stage == "admins" else notice.user
            mailed[reader] = max(mailed.get(reader, 0.0), notice.sent_s)
    return mailed
