"""``idlewatt evaluate``: compares a trained model with other policies on held-out history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._costs import stated
from ._history import JobSource
from ._store import decisions, found, ledger, settings, store, uses_models

if TYPE_CHECKING:
    from ..agents.histories import Material
    from ..agents.kinds import TraceWindow
    from ..learning.models import ModelStore, StoredModel
    from ..learning.promotion_criteria import PromotionCriteria
    from ..learning.training import TrainingJob
    from ..learning.verdict import Verdict


@click.command("evaluate", short_help="Judge a model on history that it has not seen.")
@click.argument("model")
@click.option("--from", "source", metavar="history|TRACE|URL",
              help="Jobs to judge it on.  [what it was trained on, later than what it has seen]")
@click.option("--cluster", metavar="NODESxGPUS|FILE.yaml",
              help="Cluster of a trace: 64x8 or a YAML file. A recorded history has its own.")
@click.option("--trace-format", help="Format of the trace, if it is not recognised.")
@click.option("--incumbent", help="The policy that others are compared with.  [that of its training; for other jobs "
                                  "(--from) the configuration's]")
@click.option("--seed", type=click.IntRange(0), help="Random seed.  [that of its training, so that both say the same]")
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
              help="Output format.")
@uses_models
def command(model: str, source: str | None, incumbent: str | None, seed: int | None, style: str, config_file: Path,
            folder: Path | None, **trace: str | None) -> None:
    """Compare MODEL with the scheduler's own policy, heuristics, a random baseline and an oracle on unseen history.

    MODEL is kind@version, or a kind for its newest version. The results are written to its card, but for those of
    another seed than its training's.

    \b
    Examples:
      idlewatt evaluate scorer
      idlewatt evaluate scorer@20261121-030000 --from jobs.csv --cluster 64x8 --format json
    """
    from ..agents.kinds import TrainingError
    from ..learning.models import ModelError
    from ..learning.promotion_criteria import PromotionCriteria
    from ..learning.training import TrainingJob
    from ._training import shown

    models = store(config_file, folder)
    known = found(models, model)
    try:
        trained = _trained_on(known, source, shown(trace["cluster"]), config_file)
        if source is None or trained is not None:
            order = replace(trained or TrainingJob.read(known.folder), until_s=None)
        else:
            default = JobSource(source, config_file).told(settings(config_file)).incumbent
            order = TrainingJob(known.name, source, 0.0, shown(trace["cluster"]), trace["trace_format"],
                                incumbent=default)
        where = JobSource(source or order.source, config_file, order.trace_format, speeds=order.speeds)
        order = replace(order, source=shown(order.source), incumbent=_policy(incumbent or order.incumbent),
                        seed=order.seed if seed is None else seed)
        _judge(models, known, order, where, PromotionCriteria.of(where.told(settings(config_file))), style)
    except (ModelError, TrainingError) as error:
        raise click.ClickException(str(error)) from error


def _trained_on(known: StoredModel, source: str | None, cluster: str | None, config_file: Path) -> TrainingJob | None:
    """Return the training order of a model that was trained on these jobs, under any of their names; otherwise None."""
    from ..agents.kinds import TrainingError
    from ..learning.training import TrainingJob

    if source is None:
        return None
    try:
        trained = TrainingJob.read(known.folder)
    except TrainingError:  # other jobs judge it all the same
        return None
    return trained if cluster == trained.cluster and JobSource(source, config_file).same_as(trained.source) else None


def _policy(name: str) -> str:
    """Return the name of a policy; a UsageError if there is no such policy."""
    from ..policies.registry import parse

    try:
        parse(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return name


def _judge(models: ModelStore, model: StoredModel, order: TrainingJob, where: JobSource, terms: PromotionCriteria,
           style: str) -> None:
    from ..agents.histories import TEST_MOST_S, held_out
    from ..learning.training import TrainingJob, examined
    from ..settings.training import TRIAL_S, WARM_UP_S
    from ._training import fidelity, judging, now_of, read, show_verdict, tell

    seen_s, trained = _seen_until(model, order), TrainingJob.read(model.folder)
    learned_here = seen_s > float("-inf")
    if where.recorded:
        # The present of a simulated history is when its last job came: the training may have been told a later one.
        now_s = max(now_of(where), (learned_here and trained.until_s) or 0.0)
        since_s = seen_s if learned_here else now_s - TEST_MOST_S
        until_s = min(now_s, since_s + TRIAL_S)
        if learned_here and trained.until_s is not None and not _ended_later(where, seen_s, trained.until_s):
            until_s = trained.until_s
        # What jobs will take is foretold from all that came before them, as it was for the training.
        begins_s = order.since_s if learned_here and order.since_s is not None else float("inf")
        order = replace(order, since_s=min(begins_s, since_s - WARM_UP_S), until_s=until_s)
    material = read(where, order)
    tell(material.notes)
    windows = held_out(material, seen_s if learned_here else _after_other_names(model, trained, material, where))
    tell(_other_jobs(where, trained, windows, seen_s) if learned_here else ())
    faithful = fidelity(where, order, windows[0].since_s)
    with judging():
        verdict = examined(models, model, windows, order.incumbent, seed=order.seed, foreign=not learned_here,
                           terms=terms, fidelity=faithful)
    show_verdict(verdict, style, stated(where.config_file))
    if learned_here and order.seed != trained.seed:
        click.echo(f"not written to its card: the best of several seeds is as many chances, and {trained.seed} is that "
                   "of its training", err=True)
    elif learned_here and model.card is not None and model.card.source == "history":
        _count(where.config_file, verdict)


def _count(config_file: Path, verdict: Verdict) -> None:
    """Record the evaluation of a model without a decision, as each evaluation is a chance of a false promotion."""
    from ...storage.promotions import Decision, Promotion, states
    from ..learning.trials import uncounted

    if not uncounted(decisions(config_file), verdict.model):
        return
    with ledger(config_file) as (opened, now_s):
        last = states(opened.decisions()).get(verdict.model)
        what, why = (Decision.SHADOW, verdict.reason) if last is None else (last.decision, last.reason)
        opened.decide(Promotion(now_s, verdict.model, what, "operator", why, verdict.figures()))


def _after_other_names(model: StoredModel, trained: TrainingJob, material: Material, where: JobSource) -> float:
    """Return from when on jobs are judged that a model knows under another name, s; minus infinity for its last weeks.

    Dates tell: a trace may be an export of this history, and the other way round.
    """
    from ..agents.histories import TEST_MOST_S
    from ..learning.lineage import LearnedSpan, known_until, undated
    from ._training import tell

    card = model.card
    card_spans = () if card is None else (LearnedSpan(trained.source, card.history_from_s, card.history_until_s),)
    spans = (*trained.lineage, *card_spans)
    until_s, last_s = known_until(spans, where.same_as), float(material.workload.submit.max(initial=float("-inf")))
    tell(undated(spans, where.same_as) if where.recorded else ())
    if until_s is None or until_s <= last_s - TEST_MOST_S:
        return float("-inf")
    tell([f"the days that {model.name} learned from under another name are left out; it learned on "
          f"{', '.join(dict.fromkeys(span.source for span in spans))}"])
    return until_s


def _other_jobs(where: JobSource, trained: TrainingJob, windows: Sequence[TraceWindow], seen_s: float) -> Iterator[str]:
    """Yield a note if the jobs differ from those by which the training was judged, because new jobs were added."""
    until_s = trained.until_s
    if until_s is None:
        return
    later = _ended_later(where, seen_s, until_s) if where.recorded else sum(
        int((window.workload.submit >= until_s).sum()) for window in windows)
    if later:
        yield (f"these are not the jobs that its training was judged by: {later} of them ended or came after it, so "
               "that the two verdicts may differ")


def _ended_later(where: JobSource, seen_s: float, until_s: float) -> int:
    """Return the number of jobs submitted after a model's training data that ended after a moment."""
    with where.history() as reader:
        return sum(job.end_s is not None and job.end_s > until_s for job in reader.jobs(seen_s, float("inf")))


def _seen_until(model: StoredModel, order: TrainingJob) -> float:
    """Return the end of the model's knowledge of the history that judges it, s; minus infinity for another history."""
    from ..learning.training import TrainingJob

    same = TrainingJob.read(model.folder)
    if model.card is None or model.card.history_until_s is None or (same.source, same.cluster) != (
            order.source, order.cluster):
        return float("-inf")
    return model.card.history_until_s
