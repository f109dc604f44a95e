"""What notices say: Jinja templates, ours or the site's own, with the job's figures; a faulty one is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from jinja2 import ChoiceLoader, FileSystemLoader, PackageLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...storage.notice_reading import Run
from ...storage.notices import Key, Notice
from ..durations import ago
from .rules import Finding

KWH_J = 3.6e6
MOST_JOBS = 50
"""That one mail shows."""
MOST_CHARACTERS = 200_000
"""Of one mail: names of jobs may be as long as somebody likes."""
_CUT = "\n\nThe rest of this mail was too long."
OWNER, ADMINS = "notice.txt", "notice_admins.txt"
TEMPLATES = (OWNER, ADMINS)
"""The first line of each is the subject."""
Found = Sequence[Notice]
"""What was found of one run, by one rule or several."""


class Texts:
    """Renders notices; ValueError names the template that cannot be."""

    def __init__(self, directory: Path | None = None, page_url: str = "", cluster: str = "") -> None:
        self._page_url, self._cluster = page_url.rstrip("/"), cluster
        package = PackageLoader("idlewatt.daemon")
        loader = ChoiceLoader([FileSystemLoader(directory), package]) if directory is not None else package
        # The text is plain, and a site's template reads figures only.
        self._pages = ImmutableSandboxedEnvironment(  # noqa: S701 - plain text
            loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
        self._pages.filters |= {"ago": ago, "day": _day, "percent": _percent, "kwh": _kwh}

    def check(self) -> None:
        """Render every template once with figures made up; ValueError names the first that cannot be."""
        for name in TEMPLATES:
            for stage in ("first", "second"):
                self.render(name, [_SAMPLE, _UNKNOWN], stage)

    def render(self, name: str, notices: Sequence[Notice], stage: str, firsts: Mapping[Key, Notice] | None = None) \
            -> tuple[str, str]:
        """Return subject and text; ``firsts`` are the first notices to owners, sent or not, by the key of a notice.

        The text is bounded: it shows the jobs that wasted most, and says how many it does not show.
        """
        jobs = _by_run(notices)
        count = min(MOST_JOBS, len(jobs))
        while True:
            subject, body = self._rendered(name, jobs, _worst(jobs, count), stage, firsts or {})
            body += _left(len(jobs) - count)
            if len(body) <= MOST_CHARACTERS:
                return subject, body
            if count == 1:
                return subject, body[:MOST_CHARACTERS - len(_CUT)] + _CUT
            count //= 2

    def _rendered(self, name: str, jobs: Sequence[Found], shown: Sequence[Found], stage: str,
                  firsts: Mapping[Key, Notice]) -> tuple[str, str]:
        notices = [notice for found in jobs for notice in found]
        all_sent = all((first := firsts.get(notice.key)) is not None and first.sent_s is not None
                       for notice in notices)
        try:
            text = self._pages.get_template(name).render(
                items=[_item(found, firsts) for found in shown], total=len(jobs),
                all_told=all_sent, kinds=sorted({notice.kind for notice in notices}), stage=stage, user=notices[0].user,
                cluster=self._cluster, page_url=self._page_url)
        except TemplateSyntaxError as error:
            raise ValueError(f"template {name}, line {error.lineno}: {error.message}") from error
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"template {name}: {error}") from error
        subject, _, body = text.strip().partition("\n")
        return subject, body.strip("\n")

    def figures(self, finding: Finding) -> dict[str, object]:
        """Return what the texts say of a job; what is not known is None."""
        job, run = finding.facts.job, finding.facts.run
        cost = run.cost if run else None
        return {
            "name": job.name, "gpus": finding.facts.held, "gpu_model": run.gpu_model if run else "",
            "started_s": finding.run[2], "ran_s": finding.facts.ran_s,
            "energy_kwh": run.energy_joules / KWH_J if run else None,
            "wasted_kwh": run.wasted_joules / KWH_J if run else None, "activity": run.activity if run else None,
            "cost": cost.energy if cost else None, "wasted_cost": cost.wasted if cost else None,
            "currency": cost.currency if cost else "", "url": self._url(job.job_id)}

    def _url(self, job_id: str) -> str:
        return f"{self._page_url}/jobs/{quote(job_id)}" if self._page_url else ""


def _by_run(notices: Iterable[Notice]) -> list[Found]:
    """Return the notices of each run together: a job that several rules find is one job, and took its energy once."""
    runs: dict[Run, list[Notice]] = {}
    for notice in notices:
        runs.setdefault(notice.run, []).append(notice)
    return list(runs.values())


def _worst(jobs: Sequence[Found], count: int) -> list[Found]:
    """Return the jobs that wasted most, in the order in which they are."""
    if count == len(jobs):
        return list(jobs)
    wasted = [found[0].figures.get("wasted_kwh") for found in jobs]
    ranks = [float(value) if isinstance(value, int | float) else -1.0 for value in wasted]
    places = sorted(range(len(jobs)), key=lambda place: -ranks[place])[:count]
    return [jobs[place] for place in sorted(places)]


def _left(count: int) -> str:
    """Return how many jobs a mail does not show; '' for none."""
    if not count:
        return ""
    what = "1 more job is not shown in this mail: it" if count == 1 else \
        f"{count} more jobs are not shown in this mail: they"
    return f"\n\n{what} wasted less, or that is not measured. `idlewatt notices` lists all."


def _item(found: Found, firsts: Mapping[Key, Notice]) -> Mapping[str, object]:
    """Return what a template reads of a job: its figures, each finding, and all findings in one."""
    findings = [_finding(notice, firsts.get(notice.key)) for notice in found]
    first = found[0]
    told = [sent_s for one in findings if isinstance(sent_s := one["told_s"], int | float)]
    return {**dict(first.figures), "job_id": first.job_id, "user": first.user, "account": first.account,
            "partition": first.partition, "stage": first.stage, "kind": first.kind,
            "found_s": min(notice.found_s for notice in found), "told_s": min(told, default=None),
            "untold": "" if told else findings[0]["untold"], "rule": ", ".join(notice.rule for notice in found),
            "words": " ".join(notice.words for notice in found),
            "fix": " ".join(notice.fix for notice in found if notice.fix), "findings": findings}


def _finding(notice: Notice, first: Notice | None) -> Mapping[str, object]:
    sent_s = first.sent_s if first is not None else None
    return {"rule": notice.rule, "kind": notice.kind, "words": notice.words, "fix": notice.fix, "stage": notice.stage,
            "found_s": notice.found_s, "told_s": sent_s,
            "untold": first.why if first is not None and sent_s is None else ""}


def _day(time_s: float | None) -> str:
    return "-" if not time_s else datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{100 * value:.0f} %"


def _kwh(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g} kWh"


_SAMPLE = Notice("idle_gpus", "first", "mail", "4711", 0.0, 1e9, "idle_gpus", "ada", "lab", "gpu", "waiting", 1e9, 1e9,
                 "All of its 4 GPUs have done nothing for 2h 5m.", "End it.", figures={
                     "name": "train", "gpus": 4, "gpu_model": "A100", "started_s": 1e9, "ran_s": 36000.0,
                     "energy_kwh": 12.0, "wasted_kwh": 4.0, "activity": 0.12, "cost": 3.0, "wasted_cost": 1.0,
                     "currency": "EUR", "url": "https://idlewatt.example.org/jobs/4711"})
_UNKNOWN = Notice("low", "second", "mail", "4712_1", 0.0, 0.0, "low_activity", "", "", "", "waiting", 1e9, 1e9, "", "",
                  figures={**dict(_SAMPLE.figures), **dict.fromkeys(
                      ("energy_kwh", "wasted_kwh", "activity", "cost", "wasted_cost")), "currency": "", "url": ""})
