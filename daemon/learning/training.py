"""One training, from a history to a judged model in the store: the same for the command and for the nightly run.

material --split--> fit + select --kind.train--> best so far --keep--> kind@version --judge on test--> its card
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ...storage.ledger import Ledger
from ...storage.promotions import Decision, Promotion, states
from ...storage.records import ModelCard
from ...storage.whole_files import write
from ..agents.checkpoint import LARGEST_CARD_BYTES, CheckpointError, plain_content, verify, write_card
from ..agents.histories import Split
from ..agents.kinds import ALIASES, AgentKind, Objective, Progress, TraceWindow, TrainingConfig, TrainingError, kinds
from ..agents.tracking import TensorBoard
from ..agents.training_loop import WAY
from ..replay.speed_file import text
from ..settings.flavours import FlavourSettings
from ..simulator_error import Fidelity
from . import learning_curve
from .lineage import LearnedSpan, joined, known_until
from .members import Engine, alone, of_seeds, processes
from .members import train as train_members
from .members_ray import side_by_side
from .models import SPEEDS, ModelStore, StoredModel
from .promotion import HEURISTICS, judge
from .promotion_criteria import ASSUMED, PromotionCriteria
from .trials import agent_on_trial, trials
from .verdict import PolicyFigures, Verdict

INCUMBENT = "fifo+first-fit+easy"
ORDER = "order.json"
SHADOWS = 2
"""Models of a kind that are listened to beside the active one; older ones make room."""
ENGINES: dict[str, Engine] = {"alone": alone, "processes": processes, "ray": side_by_side}
"""Where seeds are trained: one after the other here, in processes of this machine, on a Ray cluster."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What is to be trained on what; kept beside an interrupted training, so that it goes on as it began."""

    agent: str
    source: str
    """A trace, ``history``, or the URL of a database."""
    budget_s: float
    cluster: str | None = None
    """The cluster as the command line describes it; None where the history has its own."""
    trace_format: str | None = None
    since_s: float | None = None
    until_s: float | None = None
    """What was submitted later is not looked at, nor judged by."""
    incumbent: str = INCUMBENT
    seed: int = 0
    objective: Objective = Objective()
    device: str = "cpu"
    """Where a kind that trains with torch does."""
    speeds: str = ""
    """``site``, ``flat`` or a YAML file; '' is the site's for a recorded history, and flat for a trace."""
    steps: int | None = None
    """Trained for so many steps in place of the budget; None trains for the budget."""
    flavours: tuple[FlavourSettings, ...] = ()
    """The configured flavours; without any, sizes of jobs are flavours."""
    seeds: int = 1
    """The number of trainings, by ``seed`` and the seeds that follow it; the best of them serves."""
    known_until_s: float | None = None
    """Until when the model that it goes on from has seen this history; None where it goes on from none of it."""
    lineage: tuple[LearnedSpan, ...] = ()
    """What the model that it goes on from and all models before that one have learned from."""
    start: str | None = None
    """The model that it goes on from, ``kind@version``; None also in orders before 0.3, which did not keep it."""

    def after(self, start: Path | None, same: Callable[[str], bool] | None = None) -> TrainingJob:
        """Return the order that goes on from a model: what that one has seen of this history is no test any more.

        ``same`` tells of another name whether it stands for this history; without it, dates alone tell.
        """
        if start is None:
            return self
        before, card = TrainingJob.read(start), verify(start)
        span = LearnedSpan(before.source, card.history_from_s, card.history_until_s)
        lineage = joined((*self.lineage, *before.lineage, span))
        known_until_s = known_until(lineage, lambda name: name == self.source or (same is not None and same(name)))
        return replace(self, known_until_s=known_until_s, lineage=lineage, start=card.model)

    def write(self, folder: Path) -> None:
        """Keep the order beside what is made for it."""
        write(folder / ORDER, _ORDER.dump_json(self))

    @classmethod
    def read(cls, folder: Path) -> TrainingJob:
        """Return the order that something was made for; ``TrainingError`` when nobody knows any more."""
        try:
            return _ORDER.validate_json(plain_content(folder / ORDER, LARGEST_CARD_BYTES))
        except (OSError, CheckpointError, ValidationError) as error:
            why = "it is no order of a training" if isinstance(error, ValidationError) else error
            raise TrainingError(f"{folder / ORDER}: what it was trained on is not known any more: {why}") from error


_ORDER = TypeAdapter(TrainingJob)


class NoAgent(TrainingError):
    """There is no agent of that kind."""


def kind_of(agent: str) -> AgentKind:
    """Return a kind of agent; ``NoAgent`` lists those that there are."""
    known, agent = kinds(), ALIASES.get(agent, agent)
    if agent not in known:
        raise NoAgent(f"there is no agent {agent!r}; there are {', '.join(sorted(known))}")
    return known[agent]


class TrainingUnderWay(TrainingError):
    """Somebody else trains into this folder of models."""


class TrainingDirectory:
    """Where one kind is trained: what it keeps of itself until it is done, and the order that it is done for."""

    def __init__(self, store: ModelStore, agent: str) -> None:
        self.folder = store.training_directory(agent)
        self.unfinished = self.folder / "course"
        self.curves = self.folder / "tensorboard"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let nobody else train into this store; ``TrainingError`` when somebody does, or nobody may."""
        path = self.folder.parent / "lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+")
        except OSError as error:
            raise TrainingError(f"{path.parent}: models cannot be kept there: {error.strerror or error}") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise TrainingUnderWay("a training is under way already (process "
                                       f"{file.read(32).strip() or 'unknown'}); its lock is {path}") from error
            with suppress(OSError):  # on a full disk the lock holds all the same; what is written next tells the fault
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), str(os.getpid()).encode())
            yield

    def begin(self, order: TrainingJob) -> None:
        """Forget what was interrupted and begin a new training."""
        self.clear()
        self.folder.mkdir(parents=True)
        order.write(self.folder)

    def interrupted(self) -> TrainingJob:
        """Return the order of the training that was interrupted; ``TrainingError`` when there is none."""
        if not self.folder.is_dir():
            raise TrainingError(f"there is no interrupted training in {self.folder} to go on with; leave --resume away")
        return TrainingJob.read(self.folder)

    def clear(self) -> None:
        """Remove all that the training keeps of itself."""
        shutil.rmtree(self.folder, ignore_errors=True)


def gone_partitions(card: ModelCard | None, parts: Split) -> list[str]:
    """Return the partitions that a model has met and that the cluster has no more: gone, or renamed."""
    met = card.known.get("partition", ()) if card is not None else ()
    return [name for name in met if name not in parts.fit.cluster.partitions]


@dataclass
class TrainingRun:
    """A training under way; iterate over it, and stop whenever it is enough."""

    order: TrainingJob
    split: Split
    training_directory: TrainingDirectory
    tracker: TensorBoard | None = None
    start: Path | None = None
    """A model to go on from."""
    engine: str = "alone"
    """Where several seeds are trained, of ``ENGINES``."""
    curve: dict[float, float] = field(default_factory=dict)
    """Held-out score by the share of the budget that was spent."""
    saved: bool = False
    """Whether there is something to keep."""

    def __iter__(self) -> Iterator[Progress]:
        """Train and yield how far it has come; ``TrainingError`` when it comes to nothing."""
        folder = self.training_directory.unfinished
        self.saved = (folder / "best").is_dir()
        self.curve = learning_curve.kept(self.training_directory.folder, self._budget) | self.curve
        try:
            for step, progress in enumerate(self._trained(folder)):
                self._note(step, progress)
                yield progress
        except ArithmeticError as error:
            raise TrainingError(f"the training of {self.order.agent} came to numbers that are none: {error}") from error
        except CheckpointError as error:
            raise TrainingError(f"what {self.order.agent} would go on from cannot be used: {error}") from error

    def _trained(self, folder: Path) -> Iterator[Progress]:
        order = self.order
        if order.seeds == 1 and not self._apart(folder):
            return kind_of(order.agent).train(self._config(order.seed))
        seeds = range(order.seed, order.seed + order.seeds)
        return train_members(of_seeds(kind_of(order.agent).name, self._config, seeds), ENGINES[self.engine], folder)

    def _apart(self, folder: Path) -> bool:
        """Return whether a single seed has a folder of its own: as it was begun, whatever engine goes on with it."""
        return (folder / f"seed-{self.order.seed}").is_dir() if folder.is_dir() else self.engine != "alone"

    @property
    def _budget(self) -> learning_curve.TrainingBudget:
        return learning_curve.TrainingBudget(self.order.budget_s, self.order.steps)

    def _config(self, seed: int) -> TrainingConfig:
        """Return what is trained by a seed, as if it were the only one."""
        order, fit = self.order, replace(self.split.fit, seed=seed)
        folder = self.training_directory.unfinished
        return TrainingConfig(fit, self.split.select, order.incumbent, seed, order.budget_s, folder, order.objective,
                              self.start, order.device, order.steps, order.flavours)

    def _note(self, step: int, progress: Progress) -> None:
        self.saved |= progress.saved
        if progress.score is not None:
            point = {learning_curve.rounded(progress.done): progress.score}
            if not point.items() <= self.curve.items():  # what has not changed need not be written again
                self.curve |= point
                learning_curve.keep(self.training_directory.folder, self._budget, self.curve)
            if self.tracker is not None:
                self.tracker.write(step, {"held_out_score": progress.score, "done": progress.done})

    def keep(self, store: ModelStore, trained_s: float) -> StoredModel:
        """Put the best so far into the store; ``TrainingError`` when nothing has been saved yet."""
        try:
            if not self.saved:
                raise TrainingError(f"{self.order.agent} has nothing to show yet: give it a larger budget")
            best, order = self.training_directory.unfinished / "best", self.order
            order.write(best)
            if self.split.fit.speeds.identity:
                write(best / SPEEDS, text(self.split.fit.speeds).encode())
            return store.keep(best, replace(
                verify(best), kind=order.agent, trained_s=trained_s, code_version=version("idlewatt"),
                source=_source_of(order), history_from_s=self.split.since_s,
                history_until_s=max(self.split.until_s, order.known_until_s or self.split.until_s),
                known=dict(self.split.known), curve=tuple(sorted(self.curve.items())),
                speeds=self.split.fit.speeds.identity, objective=order.objective.aim))
        except (OSError, CheckpointError) as error:
            raise TrainingError(f"the trained {self.order.agent} cannot be kept: {error}") from error


def _source_of(order: TrainingJob) -> str:
    return order.source if order.cluster is None else f"{order.source} on {order.cluster}"


def examined(store: ModelStore, model: StoredModel, windows: Sequence[TraceWindow], incumbent: str, *,
             fidelity: Fidelity | None = None, foreign: bool = False, terms: PromotionCriteria = ASSUMED,
             seed: int = 0) -> Verdict:
    """Judge a model on history that it has not seen, and write the result on its card; ModelError where ``load`` does.

    What came of a ``foreign`` history, another than it was trained on, is not written down, nor what came of another
    seed than that of its training: the best of several seeds is as many chances.
    """
    verdict = judge(store.load(model.name), incumbent, HEURISTICS, windows, fidelity=fidelity, foreign=foreign,
                    terms=terms, seed=seed)
    if model.card is not None and not foreign and seed == TrainingJob.read(model.folder).seed:
        learned = {name: worth for name, worth in model.card.metrics.items() if name.startswith(WAY)}
        write_card(model.folder, replace(model.card, metrics={**learned, **figures(verdict)}, incumbent=incumbent))
    return verdict


def figures(verdict: Verdict) -> Mapping[str, float]:
    """Return the held-out figures of a card: mean JCT over the incumbent's and the best heuristic's, p99 wait.

    ``earned`` is 1 when it may be active; evidence is the logarithm of what ``evidence.py`` has of it.
    """
    card_figures = {"days": float(verdict.days), "jobs": float(verdict.jobs),
                    "earned": float(verdict.decision is Decision.PROMOTE)}
    for role, name in (("incumbent", verdict.incumbent), ("best_heuristic", verdict.best)):
        if name in verdict.against:
            interval = verdict.against[name]
            card_figures |= {f"jct_over_{role}": interval.estimate, f"jct_over_{role}_low": interval.low,
                             f"jct_over_{role}_high": interval.high}
            card_figures[f"evidence_over_{role}"] = interval.evidence
    card_figures |= next((_columns(row) for row in verdict.rows if row.policy == verdict.model), {})
    if verdict.incumbent in verdict.utilization:
        card_figures["utilization_over_incumbent"] = verdict.utilization[verdict.incumbent].estimate
    if verdict.tail is not None:
        card_figures["wait_p99_over_incumbent"] = verdict.tail.estimate
    return {name: value for name, value in card_figures.items() if not math.isnan(value)}


def _columns(row: PolicyFigures) -> dict[str, float]:
    """Return the five figures that every policy is judged by, whatever it is after."""
    return {"utilization": row.utilization, "makespan_s": row.makespan_s, "jct_mean_s": row.jct_mean_s,
            "wait_mean_s": row.wait_mean_s, "energy_joules": row.energy_joules}


@dataclass(frozen=True, slots=True)
class ModelLimit:
    """How many models of a kind there is room for."""

    agent: str
    keep: int


def make_room(ledger: Ledger, store: ModelStore, room: ModelLimit, by: str, now_s: float) -> None:
    """Release all but the newest models of a kind in the shadow; remove those beyond ``keep`` that nobody asks.

    The one on trial makes room for none: its evidence would be lost, and its trial spent.
    """
    decisions = ledger.decisions()
    in_force, spared = states(decisions), agent_on_trial(trials(decisions, now_s), room.agent)
    listened = sorted((name for name, last in in_force.items() if name.startswith(f"{room.agent}@")
                       and (spared is None or name != spared.name)
                       and last.decision in (Decision.SHADOW, Decision.DEMOTE)), reverse=True)
    for name in listened[SHADOWS:]:
        ledger.decide(Promotion(now_s, name, Decision.REFUSE, by, "newer ones are in shadow"))
    judged = {name for name, last in in_force.items() if last.decision is not Decision.REFUSE}
    store.prune(room.keep, judged - set(listened[SHADOWS:]))
