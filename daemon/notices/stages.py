"""Which notice of each finding is due next: first, second, to administrators, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ...storage.notices import Key, Notice, Stage, State
from ..settings.notices import NoticesSettings
from .rules import Finding

Ledger = Mapping[Key, Notice]
DECIDED: tuple[State, ...] = ("sent", "dry_run", "left_out", "failed")
"""States of a stage that is over, so that the next may come."""


def new(findings: Iterable[Finding], ledger: Ledger, settings: NoticesSettings, now_s: float,
        figures: Mapping[int, Mapping[str, object]]) -> Iterator[Notice]:
    """Yield the notices that are due and not in the ledger; ``figures`` are by the identity of the finding."""
    for finding in findings:
        for channel in finding.rule.channels:
            stage = _next(finding, channel, ledger, settings, now_s)
            if stage is not None:
                yield _notice(finding, channel, stage, settings, now_s, figures.get(id(finding), {}))


def _next(finding: Finding, channel: str, ledger: Ledger, settings: NoticesSettings, now_s: float) -> Stage | None:
    first = _of(finding, channel, "first", ledger, settings)
    if first is None:
        return "first"
    if first.state not in DECIDED:
        return None
    since_s = now_s - (first.sent_s or first.found_s)
    # A user who got no first notice gets no second, and administrators are notified in any case.
    notified = first.state in ("sent", "dry_run")
    for stage, after_s in (("second", settings.escalation.second_after), ("admins", settings.escalation.admins_after)):
        due = after_s is not None and since_s >= after_s and (notified or stage == "admins")
        if due and _of(finding, channel, _STAGES[stage], ledger, settings) is None:
            return _STAGES[stage]
    return None


_STAGES: Mapping[str, Stage] = {"second": "second", "admins": "admins"}


def _of(finding: Finding, channel: str, stage: Stage, ledger: Ledger, settings: NoticesSettings) -> Notice | None:
    """Return a stage of the ledger; what was only tried out counts as long as it is tried out."""
    notice = ledger.get((finding.rule.called, stage, channel, *finding.run))
    tried = settings.dry_run or (channel == "hook" and settings.hooks.dry_run)
    return None if notice is not None and notice.state == "dry_run" and not tried else notice


def _notice(finding: Finding, channel: str, stage: Stage, settings: NoticesSettings, now_s: float,
            figures: Mapping[str, object]) -> Notice:
    job, (job_id, submit_s, start_s) = finding.facts.job, finding.run
    state: State = "dry_run" if settings.dry_run else "waiting"
    return Notice(finding.rule.called, stage, channel, job_id, submit_s, start_s, finding.rule.kind, job.user,
                  job.account, job.partition, state, now_s, now_s, finding.note.words, finding.note.fix,
                  figures=figures)


def over(ledger: Ledger, findings: Iterable[Finding], running: set[tuple[str, float, float]], now_s: float,
         give_up_s: float) -> Iterator[Notice]:
    """Yield notices that wait and shall wait no longer: what they are about has ended, or it took too long."""
    present = {(finding.rule.called, finding.run) for finding in findings}
    for notice in ledger.values():
        if notice.state != "waiting" or notice.stage == "digest":
            continue
        if notice.tries and now_s - notice.found_s > give_up_s:  # who waits for a turn has not been refused
            yield replace(notice, state="failed", why=f"given up: {notice.why}", updated_s=now_s, next_s=None)
        elif (notice.rule, notice.run) not in present and notice.run not in running and notice.kind != "time_limit":
            yield replace(notice, state="lapsed", why="the job has ended", updated_s=now_s, next_s=None)
