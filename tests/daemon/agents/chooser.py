"""The smallest kind of agent that really learns: which of three known policies to follow, by replaying them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.checkpoint import load, save
from idlewatt.daemon.agents.kinds import AgentKind, Progress, TraceWindow, TrainingConfig, TrainingError
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.engine import run
from idlewatt.storage.records import ModelCard

CHOICES = ("fifo+first-fit+easy", "sjf-limit+best-fit+easy", "sjf-prediction+best-fit+easy")
SCHEMA = {"choices": list(CHOICES)}
LIKE = {"jct": np.zeros(len(CHOICES), np.float32)}
ROUNDS = 3


@dataclass
class Chooser:
    """Does what the best of its choices does."""

    card: ModelCard
    choice: str

    def __post_init__(self) -> None:
        self.name = self.card.model
        self._policy = named(self.choice)
        self.rules = self._policy.rules

    def decide(self, state):
        return self._policy.decide(state)

    def doubt(self, state):
        return None

    def reasons(self, state, job):
        return (f"{self.choice} did best here",)

    def drift(self, state):
        return 0.0


def jct(window: TraceWindow, policy: str) -> float:
    done = run(window.cluster, window.workload, named(policy))
    counted = window.workload.submit >= window.since_s
    return float(np.nanmean((done.end - window.workload.submit)[counted]))


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Replay a trace window a round under every choice; what was measured is kept, so that it can go on."""
    config.folder.mkdir(parents=True, exist_ok=True)
    kept = config.folder / "rounds.npy"
    sums = np.load(kept) if kept.exists() else np.zeros((0, len(CHOICES)))
    yield Progress(0.0, None, saved=False)
    base = np.mean([jct(window, config.incumbent) for window in config.select])
    for number in range(len(sums), ROUNDS):
        window = config.fit(number)
        if not np.isfinite(window.workload.run).all():
            raise TrainingError("the history has run times that are no numbers")
        sums = np.vstack([sums, [jct(window, choice) for choice in CHOICES]])
        np.save(kept, sums)
        save(config.folder / "best", ModelCard("chooser", "", 0.0, config.seed, "", "", ""),
             {"jct": sums.mean(axis=0).astype(np.float32)}, SCHEMA)
        score = np.mean([jct(window, CHOICES[int(sums.mean(axis=0).argmin())]) for window in config.select]) / base
        yield Progress((number + 1) / ROUNDS, float(score), saved=True)


def loaded(folder: Path) -> Chooser:
    weights, card = load(folder, SCHEMA, like=LIKE)
    return Chooser(card, CHOICES[int(weights["jct"].argmin())])


@pytest.fixture
def chooser(monkeypatch) -> AgentKind:
    """Make the kind known."""
    kind = AgentKind("chooser", train, loaded)
    monkeypatch.setitem(kinds._KINDS, kind.name, kind)
    return kind
