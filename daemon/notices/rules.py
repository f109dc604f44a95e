"""Which jobs a rule speaks of: the kinds of ``daemon.efficiency.findings``, with a site's limits and exclusions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ...storage.notice_reading import Run
from ...storage.owners import OwnerKind
from ...storage.power_classes import PowerClass
from ...storage.records import Job
from ..efficiency import Note
from ..efficiency.findings import KINDS, FindingKind, RunFacts
from ..settings.notices import ExclusionSettings, NoticesSettings, RuleSettings


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found of one run."""

    rule: RuleSettings
    facts: RunFacts
    note: Note

    @property
    def run(self) -> Run:
        """Return the run that it is about."""
        job, run = self.facts.job, self.facts.run
        return job.job_id, job.submit_s, (run.start_s if run else job.start_s) or 0.0

    @property
    def kind(self) -> FindingKind:
        """Return the kind of the rule."""
        return KINDS[self.rule.kind]


def check(settings: NoticesSettings) -> None:
    """Raise ValueError for a rule of a kind or class that nobody knows."""
    for rule in settings.rules:
        if rule.kind not in KINDS:
            raise ValueError(f"there is no kind {rule.kind!r} of notices; there are {', '.join(KINDS)}")
        if rule.kind == "wasted" and rule.power_class not in tuple(PowerClass):
            raise ValueError(f"a rule of kind wasted needs its class, one of {', '.join(PowerClass)}")
        if rule.kind != "wasted" and rule.power_class:
            raise ValueError(f"a rule of kind {rule.kind} takes no class")


def found(settings: NoticesSettings, known: Iterable[RunFacts], interactive: Sequence[str]) -> Iterator[Finding]:
    """Yield what each rule finds of each run; ``interactive`` are partitions that people sit before."""
    for facts in known:
        if not facts.job.user:
            continue  # nobody to tell
        for rule in settings.rules:
            note = None if _spared(facts, rule, settings, interactive) else _judged(facts, rule)
            if note is not None:
                yield Finding(rule, facts, note)


def _judged(facts: RunFacts, rule: RuleSettings) -> Note | None:
    kind, run = KINDS[rule.kind], facts.run
    if kind.ended != facts.job.state.finished or (not kind.ended and not facts.job.state.active):
        return None
    if kind.of_gpus and (run is None or run.activity is None or run.activity >= rule.activity_below or not facts.seen):
        return None
    if rule.min_gpu_hours and (run is None or run.gpu_seconds < rule.min_gpu_hours * 3600):
        return None
    threshold = kind.threshold if rule.threshold is None else rule.threshold
    window_s = kind.window_s if rule.window is None else rule.window
    judged = replace(facts, power_class=PowerClass(rule.power_class)) if rule.power_class else facts
    return kind.find(judged, threshold, window_s)


def _spared(facts: RunFacts, rule: RuleSettings, settings: NoticesSettings, interactive: Sequence[str]) -> bool:
    job = facts.job
    if rule.partitions and not _fits(job.partition, rule.partitions):
        return True
    return any(_excluded(job, excluded, interactive) for excluded in (settings.exclude, rule.exclude))


def _excluded(job: Job, given: ExclusionSettings, interactive: Sequence[str]) -> bool:
    if given.interactive and (job.owner_kind is OwnerKind.INTERACTIVE or job.partition in interactive):
        return True
    return _fits(job.user, given.users) or _fits(job.account, given.accounts) or _fits(job.qos, given.qos) \
        or _fits(job.partition, given.partitions)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
