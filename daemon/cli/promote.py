"""``idlewatt promote``: make a trained model active."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._history import JobSource
from ._store import decide, decisions, found, settings, store, uses_models

if TYPE_CHECKING:
    from ...storage.promotions import Promotion
    from ...storage.records import ModelCard
    from ..learning.models import ModelStore


@click.command("promote", short_help="Make a model active.")
@click.argument("model")
@click.option("--reason", default="", help="Why, for the record; required for a model that has not passed promotion.")
@uses_models
def command(model: str, reason: str, config_file: Path, folder: Path | None) -> None:
    """Make MODEL (kind@version, or a kind for its newest) active; the model that is active now continues in the shadow.

    A running daemon uses it from its next round of advice on, and asks the heuristic where the model abstains.

    \b
    Examples:
      idlewatt promote scorer@20261121-030000
      idlewatt promote scorer --reason "tried for a week in shadow"
    """
    from ...storage.promotions import Decision
    from ..learning.trials import JUDGED

    models = store(config_file, folder)
    known = found(models, model)
    if known.fault or known.card is None:
        raise click.ClickException(f"{known.name} must not be used: {known.fault}")
    judged = frozenset() if reason else _judged(known.card, config_file, models)
    if not reason and (why := _unearned(known.card, config_file) or _chances(judged, config_file)):
        raise click.UsageError(f"{known.name} {why}; `idlewatt evaluate {known.name}` shows what it does. Say --reason "
                               "why it shall be active anyway.")
    decide(config_file, known.name, Decision.PROMOTE, reason or "it has earned it on held-out history",
           {JUDGED: len(judged)} if judged else {})
    click.echo(f"{known.name} is active")


def _judged(card: ModelCard, config_file: Path, models: ModelStore) -> frozenset[str]:
    """Return the manually trained agents from which this one is chosen; none if nightly training has tried it."""
    from ..learning.trials import TRIED, YEAR_S, judged_by_hand

    taken, now_s = decisions(config_file), time.time()
    if any(decision.model == card.model and TRIED in decision.figures for decision in taken):
        return frozenset()
    cards = {model.name for model in models.models() if model.card is not None and model.card.source == "history"
             and "earned" in model.card.metrics and model.card.trained_s >= now_s - YEAR_S}
    return judged_by_hand(taken, now_s, {*cards, card.model})


def _chances(judged: frozenset[str], config_file: Path) -> str:
    """Return why too many agents were tried for a promotion by figures alone; '' if few were tried."""
    from ..learning.promotion_criteria import TRIALS
    from ..learning.trials import trials

    tried = sum("@" in trial.name for trial in trials(decisions(config_file), time.time()))
    if not judged or len(judged) + tried <= TRIALS:
        return ""
    return (f"is one of {len(judged) + tried} agents that were judged within a year ({len(judged)} of trainings by "
            f"hand, {tried} by night), and the error that a year is allowed is shared out among {TRIALS}: each is a "
            "chance to be wrong")


def _unearned(card: ModelCard, config_file: Path) -> str:
    """Return why a model does not meet the promotion criteria on this site now; '' if it does."""
    from ...storage.promotions import Decision, states
    from ..learning.trials import never_tried

    if card.metrics.get("earned") != 1:
        return "has not earned it on history that it did not know"
    if card.source != "history":
        return f"has earned it on {card.source}, and not on this site's own history"
    incumbent = JobSource("history", config_file).told(settings(config_file)).incumbent
    if card.incumbent != incumbent:
        return (f"has been compared with {card.incumbent or 'nobody knows whom'}, and this site runs {incumbent} "
                f"(`idlewatt evaluate {card.model} --incumbent {incumbent}` compares it with that)")
    taken = decisions(config_file)
    last: Promotion | None = states(taken).get(card.model)
    if last is not None and last.decision is Decision.DEMOTE:
        return f"was demoted since: {last.reason}"
    # Whatever was decided since: that newer ones are in its place gives it no turn.
    if waits := never_tried(taken, card.model):
        return f"has not had its turn: {waits}"
    if not any(decision.model == card.model and decision.figures.get("against") for decision in taken):
        return "was never judged by the jobs of this database (another one's model, or a backup restored since?)"
    return ""
