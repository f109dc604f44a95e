"""What Slurm did beside what was advised: figures, and each difference with the options that bring it about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from idlewatt.storage.recommendations import Recommendation

from .rounds import Case, Round

AHEAD, ROOM, NODES, LIMIT, NEVER, UNKNOWN = "jobs ahead", "room", "nodes", "limit", "never", "unknown"
FEASIBILITY = (ROOM, NODES, NEVER, LIMIT, "Licenses")
"""Holds that say: it could not start now even if nobody were before it."""
_SLURM = ((r"Priority", AHEAD), (r"Resources|None|^$", ROOM), (r"ReqNodeNotAvail|Reservation|NodeDown", NODES),
          (r"QOS|Assoc", LIMIT), (r"BadConstraints|PartitionConfig|PartitionNodeLimit", NEVER))
_OURS = ((r"^unknown|not known", UNKNOWN), (r"^can never run", NEVER), (r"come first", AHEAD),
         (r"the scheduler (?:would )?says? (\w+)", ""), (r"limit|QOS|account", LIMIT),
         (r"drain|down|reserv|cannot be used|out of use|meets? its constraints", NODES), (r"", ROOM))


def slurms(reason: str) -> str:
    """Return the class of Slurm's own reason; a reason of its own kind is its own class."""
    return next((kind for pattern, kind in _SLURM if re.search(pattern, reason)), reason)


def ours(words: str) -> str:
    """Return the class of a reason of ours."""
    for pattern, kind in _OURS:
        if found := re.search(pattern, words):
            return kind or slurms(found[1])
    return ROOM


USED_UP = "those who come first leave too little: "
_CAUSES = {"ahead": AHEAD, "room": ROOM, "nodes": NODES, "limit": LIMIT, "never": NEVER, "unknown": UNKNOWN,
           "licenses": "Licenses"}


def told_by(said: Recommendation) -> str:
    """Return the class of a hold: that of its cause, else of its words."""
    return _CAUSES.get(said.cause) or ours(said.reason)


def alike(told: str, slurm: str) -> bool:
    """Tell whether two classes agree: Priority and Resources are both 'jobs ahead' or 'not enough free'."""
    waiting = (AHEAD, ROOM)
    return told == slurm or (told in waiting and slurm in waiting)


def agrees(case: Case) -> bool:
    """Tell whether a hold's reason is of the class of Slurm's own, after release or alone in the queue."""
    told = told_by(case.advice) if case.advice else UNKNOWN
    # "Nodes required for job are DOWN, DRAINED or reserved" goes by the name of Resources.
    down = told == NODES and "DRAINED" in case.description
    # What those who come first use up, Slurm calls by either name.
    words = case.advice.reason.removeprefix(USED_UP) if case.advice else ""
    either = told == AHEAD and bool(case.reason) and ours(words) == slurms(case.reason)
    return either or down or any(alike(told, slurms(reason)) for reason in (case.reason, case.alone or case.reason))


@dataclass
class Verdict:
    """The figures over all rounds."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[str, str]] = field(default_factory=list)
    """Class of the difference, and one line that shows it."""

    def judge(self, played: Round) -> None:
        """Add a round."""
        self.counts["rounds"] += 1
        for case in played.cases:
            self.counts["jobs"] += 1
            for kind in _differences(case, self.counts):
                self.differences.append((kind, f"{played.seed}: {line(case, played)}"))
        if played.fault:
            self.differences.append(("advice fails", f"{played.seed}: {played.fault}"))
        for job in played.differing:
            self.differences.append(("the two sources differ", f"{played.seed}: {job}"))

    def break_off(self, error: AssertionError) -> None:
        """Count a round that came to no end: nothing is known of its jobs."""
        self.counts["broken off"] += 1
        self.differences.append(("round broken off", str(error)))

    def share(self, part: str, whole: str) -> float:
        """Return the share of one count in another; 1 of nothing."""
        return self.counts[part] / self.counts[whole] if self.counts[whole] else 1.0

    def __str__(self) -> str:
        """Return the figures, one a line."""
        count = self.counts
        return "\n".join((
            f"{count['jobs']} jobs in {count['rounds']} rounds: {count['advised']} advised to start, "
            f"{count['started']} started, {count['held']} held; rounds broken off: {count['broken off']}",
            f"starts refused: {count['refused']}; started elsewhere: {count['elsewhere']}",
            f"started by Slurm and advised: {self.share('started as advised', 'started'):.1%}",
            f"unknown: {self.share('unknown', 'jobs'):.1%}",
            f"holds for feasibility confirmed alone: {self.share('confirmed', 'feasibility'):.1%} "
            f"of {count['feasibility']}",
            f"reasons in Slurm's class: {self.share('reasons alike', 'reasons'):.1%} of {count['reasons']}"))

    def listed(self) -> str:
        """Return the differences by class, most frequent first."""
        kinds = Counter(kind for kind, _ in self.differences)
        return "\n".join(f"== {kind}: {count}\n" + "\n".join(
            f"   {text}" for other, text in self.differences if other == kind) for kind, count in kinds.most_common())


def line(case: Case, played: Round) -> str:
    """Return a case on one line."""
    said = case.advice
    advice = "none" if said is None else f"{said.action} {said.placement or ''} ({said.reason})"
    alone = case.forecast.words if case.forecast else "not asked"
    became = " ".join(filter(None, (case.state, case.reason, case.description[:60], ",".join(case.nodes))))
    return (f"[{', '.join(case.wish.kinds)}] {' '.join(case.wish.options)} | scene: {'; '.join(played.scenery) or '-'}"
            f" | alone: {alone} | advised: {advice} | became: {became}" + (f" | {case.alone}" if case.alone else ""))


def disputed(case: Case) -> bool:
    """Tell whether a hold for feasibility is against what Slurm forecasts, so that it has to be tried alone."""
    if case.advised or case.advice is None or case.started:
        return False
    doubtful = told_by(case.advice) in FEASIBILITY and (case.forecast is None or case.forecast.now)
    return doubtful or not agrees(case)


def _differences(case: Case, count: Counter[str]) -> Iterable[str]:
    if case.advice is None:
        count["unadvised"] += 1
        yield "no advice"
        return
    if case.started:
        count["started"] += 1
    if case.advised:
        yield from _of_start(case, count)
    else:
        yield from _of_hold(case, count)


def _of_start(case: Case, count: Counter[str]) -> Iterable[str]:
    count["advised"] += 1
    if not case.started:
        count["refused"] += 1
        yield f"refused: {case.reason}"
        return
    count["started as advised"] += 1
    nodes = {node for said in case.parts if said.placement for node in said.placement.nodes}
    if nodes != set(case.nodes) and not (case.wish.array or case.wish.heterogeneous):
        count["elsewhere"] += 1
        yield "started on other nodes"


def _of_hold(case: Case, count: Counter[str]) -> Iterable[str]:
    assert case.advice is not None
    count["held"] += 1
    told = told_by(case.advice)
    count["unknown"] += told == UNKNOWN
    if case.started:
        yield f"missed: held for {told}"
    if told in FEASIBILITY:
        count["feasibility"] += 1
        # A limit may be reached by what starts before it in the same advice: alone it would start.
        reached = told == LIMIT == slurms(case.reason)
        if case.started or (case.alone == "RUNNING" and not reached):
            yield f"unconfirmed: held for {told}, starts alone"
        else:
            count["confirmed"] += 1
    if not case.started:
        count["reasons"] += 1
        if agrees(case):
            count["reasons alike"] += 1
        else:
            yield f"reason: ours {told}, Slurm's {slurms(case.reason)}"
