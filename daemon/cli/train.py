"""``idlewatt train``: trains an agent on this site's history or on a trace."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._client import Since, warn_beside
from ._costs import stated
from ._extras import check_extras, check_interrupted, check_machine
from ._history import JobSource
from ._renamed import Renamed
from ._store import ledger, settings, store, uses_models
from .replay import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from ..agents.histories import Split
    from ..agents.tracking import TensorBoard
    from ..learning.models import ModelStore, StoredModel
    from ..learning.sequel import Sequel
    from ..learning.training import TrainingDirectory, TrainingJob, TrainingRun
    from ..learning.verdict import Verdict


ALL_BUDGET_S = 240.0
"""Default budget of ``--all`` for all kinds, s; with evaluation it takes less than five minutes."""


class MomentType(click.ParamType):  # type: ignore[type-arg]
    """An age, a date such as ``2026-11-01`` or ``2026-11-01T03:00``, in UTC unless it says otherwise, or seconds."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds since the epoch; a trace may count from its own beginning."""
        from ..moments import moment_of

        try:
            return float(value)
        except ValueError:
            pass  # an age or a date, then
        try:
            return moment_of(value, time.time())
        except ValueError:
            self.fail(f"{value!r} is neither an age (7d) nor a date such as 2026-11-01T03:00 nor a number of seconds",
                      param, ctx)


@click.command("train", short_help="Train an agent on a history.")
@click.option("--agent", default="scorer", show_default=True, metavar="KIND", help="The kind of agent.")
@click.option("--all", "every", is_flag=True, help="Train every kind in turn; they share the --budget.  [then 4m]")
@click.option("--from", "source", default="history", show_default=True, metavar="history|TRACE|URL",
              help="Jobs to learn from: the daemon's history, a trace file, or a database by its URL.")
@click.option("--cluster", metavar="NODESxGPUS|FILE.yaml",
              help="Cluster of a trace: 64x8 or a YAML file. A recorded history has its own.")
@click.option("--trace-format", help="Format of the trace, if it is not recognised.")
@click.option("--speeds", metavar="site|flat|FILE.yaml", default="",
              help="Speeds of jobs by placement.  [site for a history, flat for a trace]")
@click.option("--since", cls=Renamed, former=("--last",), type=Since(),
              help="From this time on: 30d, 2026-10-01; an age counts back from --until.  [90d]")
@click.option("--until", "until_s", type=MomentType(),
              help="Until this time; later records are ignored: 7d, 2026-11-01T03:00, or seconds.")
@click.option("--budget", "budget_s", type=Seconds(), default="10m", show_default=True,
              help="Longest time to train.")
@click.option("--steps", type=click.IntRange(1), help="Train for this many steps instead of a time: gives the same "
                                                      "weights on any machine.")
@click.option("--incumbent", help="The policy to start from and to beat.  [the configuration's]")
@click.option("--objective", metavar="NAME[=WEIGHT],…", help="Goal: utilization, makespan, jct, wait, energy or a "
                                                             "mixture of them.  [the configuration's, else the kind's]")
@click.option("--start", "start_from", metavar="MODEL", help="Start from this model (fine-tuning), if its kind can.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--seeds", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Number of trainings, with --seed and the following seeds, each for the whole budget; the model "
                   "that is best on later history is kept.")
@click.option("--engine", type=click.Choice(["alone", "processes", "ray"]), default="alone", show_default=True,
              help="Where seeds are trained: one after the other, in processes of this machine, or on a Ray cluster "
                   "(RAY_ADDRESS; needs idlewatt[ray]).")
@click.option("--device", type=click.Choice(["cpu", "cuda", "auto"]), default="cpu", show_default=True,
              help="Device for agents that train with torch; auto is CUDA if there is one.")
@click.option("--resume", is_flag=True, help="Resume the interrupted training, with the data that it began with.")
@click.option("--tensorboard", is_flag=True, help="Also write the learning curve for TensorBoard (needs "
                                                  "idlewatt[train]).")
@click.option("--nightly", is_flag=True, help="Train as the configuration's `training` says, and make the model "
                                              "active if it meets the criteria; for idlewatt-train.timer.")
@uses_models
def command(nightly: bool, every: bool, resume: bool, config_file: Path, folder: Path | None,
            **options: object) -> None:
    """Train an agent on a history, judge it on the history's last weeks, and keep it among the models.

    Ctrl-C keeps the best model so far; --resume continues from there.

    \b
    Examples:
      idlewatt train
      idlewatt train --from jobs.csv --cluster 64x8 --budget 5m
      idlewatt train --agent topdrl --steps 200
      idlewatt train --agent dl2 --seeds 4 --engine ray
      idlewatt train --objective utilization=0.7,energy=0.3
      idlewatt train --all
      idlewatt train --resume
    """
    from ..agents.kinds import TrainingError
    from ..learning.training import NoAgent

    models = store(config_file, folder)
    try:
        if nightly:
            _nightly(config_file)
        elif every:
            _train_all(config_file, models, resume, options)
        else:
            _train(config_file, models, resume, options)
    except NoAgent as error:
        raise click.UsageError(str(error)) from error
    except TrainingError as error:
        raise click.ClickException(str(error)) from error


def _nightly(config_file: Path) -> None:
    from ..learning.nightly import by_hand

    known = settings(config_file)
    warn_beside(known.storage.url)
    night = by_hand(known)
    click.echo(f"{night.result}: {night.message}")
    if night.result == "failed":
        raise click.exceptions.Exit(1)


def _train_all(config_file: Path, models: ModelStore, resume: bool, options: dict[str, Any]) -> None:
    """Train every kind in turn with its share of the budget; print why a kind cannot be trained here."""
    from ..agents.kinds import kinds
    from ..learning.sequel import Sequel
    from ..learning.training import TrainingDirectory, kind_of
    from ._resumed import given, noted, resumed_all

    if options["start_from"] is not None:
        raise click.UsageError("--all trains every kind, and a model is of one: leave --start or --all away")
    names, trained = sorted(kinds()), 0
    share_s = (options["budget_s"] if given("budget_s") else ALL_BUDGET_S) / len(names)
    sequel = Sequel(models, names, share_s, noted(options))
    # Held throughout: another training would note its kinds as done here, and remove what these keep of themselves.
    with TrainingDirectory(models, names[0]).locked():
        anew = resumed_all(sequel, options) if resume else options
        if resume:
            check_interrupted([kind_of(name) for name in names if name not in sequel.done and sequel.interrupted(name)],
                              anew)
        done = len(sequel.done)
        for name in [name for name in names if name not in sequel.done]:
            trained += _one_of_all(config_file, models, sequel, _share(sequel, name, options, anew))
            sequel.note(name)
        sequel.clear()
    click.echo(f"{trained} of {len(names)} kinds are trained; `idlewatt models` lists them")
    if not trained and not done:
        raise click.exceptions.Exit(1)


def _share(sequel: Sequel, name: str, options: dict[str, Any], anew: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a kind: ``anew`` if it begins; one that goes on compares ``options`` with its order."""
    from ..learning.training import kind_of

    device = anew["device"] if kind_of(name).torch else "cpu"
    return {**(options if sequel.interrupted(name) else anew), "agent": name, "budget_s": sequel.share_s,
            "device": device, "engine": anew["engine"]}


def _one_of_all(config_file: Path, models: ModelStore, sequel: Sequel, options: dict[str, Any]) -> bool:
    """Train a kind; return whether it is trained, and print why not."""
    from ..agents.kinds import TrainingError

    click.echo(f"agent:   {options['agent']}")
    try:
        _train_locked(config_file, models, sequel.interrupted(options["agent"]), options, sequel.begin)
    except TrainingError as error:
        click.echo(f"{options['agent']} is not trained: {error}", err=True)
        return False
    return True


def _train(config_file: Path, models: ModelStore, resume: bool, options: dict[str, Any]) -> None:
    from ..learning.training import TrainingDirectory, kind_of

    with TrainingDirectory(models, kind_of(options["agent"]).name).locked():
        _train_locked(config_file, models, resume, options)


def _train_locked(config_file: Path, models: ModelStore, resume: bool, options: dict[str, Any],
                  begun: Callable[[], None] = lambda: None) -> None:
    """Train a kind; ``begun`` is called once its options are known to be right, before anything is forgotten."""
    from ..agents.histories import split
    from ..learning.lineage import undated
    from ..learning.training import TrainingDirectory, TrainingRun, kind_of
    from ._resumed import begun_from, resumed
    from ._training import HIDDEN, read, tell

    kind = kind_of(options["agent"])
    options["agent"] = kind.name
    if options["device"] == "cuda" and not kind.torch:
        raise click.BadParameter(f"{kind.name} does not train with torch but on the CPU", param_hint="--device")
    check_extras(options, resume)
    training_directory = TrainingDirectory(models, options["agent"])
    tell(filter(None, [models.remove_drafts()]))
    order = resumed(training_directory, options) if resume else _ordered(config_file, options)
    check_machine(kind, order.device)
    # The order holds no password.
    source = options["source"] if HIDDEN in order.source else order.source
    where = JobSource(source, config_file, order.trace_format, speeds=order.speeds)
    if order.source == "history":
        _claim(config_file, models)
    parts = split(read(where, order), seed=order.seed)
    tell(parts.notes)
    name = options["start_from"]
    start = _start(models, parts, kind.name, begun_from(order, models, name) if resume else name)
    order = order.after(start, where.same_as)
    tell(undated(order.lineage, where.same_as) if where.recorded else ())
    begun()
    if resume:
        order.write(training_directory.folder)
    else:
        training_directory.begin(order)
    with contextlib.ExitStack() as stack:
        tracker = _tracker(training_directory, options["tensorboard"], stack)
        run = TrainingRun(order, parts, training_directory, tracker, start, options["engine"])
        interrupted = _learn(run)
    model = _kept(run, models, interrupted)
    if not interrupted.is_set():
        verdict = _judged(config_file, models, model, where, run)
        if order.source == "history":
            _listened_to(config_file, models, verdict)


def _claim(config_file: Path, models: ModelStore) -> None:
    """Note that the models belong to the daemon's database; TrainingError if they belong to another one."""
    from ..agents.kinds import TrainingError
    from ..learning.models import ModelError
    from ..learning.models_owner import claim

    try:
        with ledger(config_file) as (opened, _):
            claim(models.folder, opened, settings(config_file).storage.url)
    except (ModelError, OSError) as error:
        raise TrainingError(str(error)) from error


def _start(models: ModelStore, parts: Split, kind: str, name: str | None) -> Path | None:
    """Return the folder of the model to continue from; a UsageError if it is of another kind."""
    if name is None:
        return None
    from ..learning.training import gone_partitions
    from ._store import found

    model = found(models, name)
    if model.name.partition("@")[0] != kind or model.fault:
        raise click.UsageError(f"{kind} cannot go on from {model.name}: " + (
            model.fault or f"it is of another kind; name a {kind}@VERSION, or leave --start away"))
    gone = gone_partitions(model.card, parts)
    if gone:
        raise click.UsageError(
            f"{model.name} learned on partition {', '.join(gone)}, which this cluster has not (renamed?); it has "
            f"{', '.join(parts.fit.cluster.partitions)}. Partitions are known by name: give it back its name, or leave "
            "--start away to train anew")
    return model.folder


def _ordered(config_file: Path, options: dict[str, Any]) -> TrainingJob:
    """Return the training order that the options describe."""
    from ..learning.aims import AimError, aimed
    from ..learning.training import TrainingJob, kind_of
    from ..policies.registry import parse
    from ._training import now_of, shown

    known = JobSource(options["source"], config_file).told(settings(config_file))
    incumbent = options["incumbent"] or known.incumbent
    try:
        parse(incumbent)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        objective = aimed(options["objective"], known.training, kind_of(options["agent"]))
    except AimError as error:
        raise click.BadParameter(str(error), param_hint="--objective") from error
    until_s, since_s = options["until_s"], None
    if JobSource(options["source"]).recorded:
        until_s = now_of(JobSource(options["source"], config_file)) if until_s is None else until_s
        since_s = _since(options["since"], until_s, known.training.history)
    return TrainingJob(options["agent"], shown(options["source"]), options["budget_s"], shown(options["cluster"]),
                 options["trace_format"], since_s, until_s, incumbent, options["seed"],
                 objective, options["device"], shown(options["speeds"]), options["steps"],
                 known.flavours, options["seeds"])


def _since(text: str | None, until_s: float, usual_s: float) -> float:
    from ..moments import moment_of

    return until_s - usual_s if text is None else moment_of(text, until_s)


def _tracker(training_directory: TrainingDirectory, wanted: bool, stack: contextlib.ExitStack) -> TensorBoard | None:
    from ..agents.tracking import TensorBoard

    if not wanted:
        return None
    try:
        tracker = stack.enter_context(TensorBoard(training_directory.curves))
    except ImportError as error:
        raise click.ClickException("TensorBoard is not installed: pip install 'idlewatt[train]'") from error
    click.echo(f"curves: tensorboard --logdir {training_directory.curves}", err=True)
    return tracker


def _learn(run: TrainingRun) -> Event:
    """Train to the end or to an interruption; return the event that is set by an interruption."""
    from ._training import interruptible, watched

    with interruptible() as interrupted, watched(run.order.agent, run.order.incumbent) as report:
        for progress in run:
            report(progress)
            if interrupted.is_set():
                break
    return interrupted


def _kept(run: TrainingRun, models: ModelStore, interrupted: Event) -> StoredModel:
    """Save the best model so far and print its name; end with status 130 after an interruption."""
    from ..agents.training_loop import WAY

    if interrupted.is_set() and not run.saved:
        click.echo("interrupted before anything was learned; nothing is kept", err=True)
        raise click.exceptions.Exit(130)
    model = run.keep(models, time.time())
    click.echo(f"model:   {model.name}, in {model.folder}")
    metrics = {} if model.card is None else model.card.metrics
    ways = {name.removeprefix(WAY): worth for name, worth in metrics.items() if name.startswith(WAY)}
    if len(ways) > 1:
        comparison = ", ".join(f"{name.replace('_', ' ')} {worth:.3f}" for name, worth in sorted(ways.items()))
        click.echo(f"learned: {comparison} of {run.order.incumbent}; the better one serves")
    if interrupted.is_set():
        click.echo(f"interrupted: the best so far is kept; `idlewatt train --agent {run.order.agent} --resume` goes "
                   f"on, `idlewatt evaluate {model.name}` judges what there is", err=True)
        raise click.exceptions.Exit(130)
    return model


def _judged(config_file: Path, models: ModelStore, model: StoredModel, where: JobSource,
            run: TrainingRun) -> Verdict:
    """Evaluate a finished training, show the result and the next steps, and delete its saved state."""
    from ...storage.promotions import Decision
    from ..learning.promotion_criteria import PromotionCriteria
    from ..learning.training import examined
    from ._training import fidelity, judging, show_verdict

    order = run.order
    faithful = fidelity(where, order, run.split.until_s)
    with judging():
        verdict = examined(models, model, run.split.test, order.incumbent, seed=order.seed,
                           terms=PromotionCriteria.of(where.told(settings(config_file))), fidelity=faithful)
    show_verdict(verdict, "table", stated(where.config_file))
    run.training_directory.clear()
    earned = verdict.decision is Decision.PROMOTE
    anyway = "" if order.source == "history" else " --reason '...'"
    click.echo(f"next:    `idlewatt promote {model.name}{anyway}` makes it active" if earned else
               "next:    it has not earned to be active; a longer --budget or more history may help")
    return verdict


def _listened_to(config_file: Path, models: ModelStore, verdict: Verdict) -> None:
    """Put a model trained on this site into the shadow, in place of older models."""
    from ...storage.promotions import Decision, Promotion
    from ..learning.training import ModelLimit, make_room

    with ledger(config_file) as (opened, now_s):
        opened.decide(Promotion(now_s, verdict.model, Decision.SHADOW, "operator", verdict.reason, verdict.figures()))
        room = ModelLimit(verdict.model.partition("@")[0], settings(config_file).training.keep)
        make_room(opened, models, room, "operator", now_s)
