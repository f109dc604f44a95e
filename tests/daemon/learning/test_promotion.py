"""Promotion: real replays of small histories, an agent that is better, worse, alike, unfair, broken or cheating."""

import json
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.agents.kinds import Stretch
from idlewatt.daemon.agents.scorer.agent import MEMBERS, Scorer
from idlewatt.daemon.agents.scorer.network import SIZE
from idlewatt.daemon.learning import promotion
from idlewatt.daemon.learning.promotion import judge
from idlewatt.daemon.learning.promotion_criteria import PromotionCriteria
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.simulator_error import Fidelity
from idlewatt.storage.promotions import Decision
from idlewatt.storage.records import ModelCard

DAY = 86400.0
INCUMBENT, HEURISTICS = "fifo+first-fit+easy", ("sjf-limit+best-fit+easy", "limit-aged+best-fit+easy")
CARD = ModelCard("agent", "1", 0.0, 0, "", "", "", -30 * DAY, 0.0, kind="agent")


class Agent:
    """A trained agent whose learning came to what a policy does."""

    def __init__(self, policy: str, **card) -> None:
        self.card = replace(CARD, **card)
        self.name = self.card.model
        self._policy = named(policy)
        self.rules = self._policy.rules

    def decide(self, state):
        return self._policy.decide(state)

    def doubt(self, state):
        return None

    def reasons(self, state, job):
        return ()

    def drift(self, state):
        return 0.0


class Stranger(Agent):
    """An agent in plain Python that decides what a function says."""

    def __init__(self, decide) -> None:
        super().__init__("fifo")
        del self.rules
        self.decide = decide


def stretch(days: int = 8, jobs: int = 600, since_s: float = 0.0, seed: int = 1) -> Stretch:
    """Return a crowded week of two partitions whose users are bad at telling limits."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(since_s - DAY, since_s + days * DAY, jobs))
    gpus = rng.choice([1, 2, 4, 8], jobs, p=[.4, .3, .2, .1])
    run = np.clip(rng.lognormal(0.0, 1.5, jobs), 0.01, 50.0)
    run *= 1.0 * 32 * (days + 1) * DAY / (gpus * run).sum()
    work = Workload.of(submit, run, gpus, limit=run * 10 ** rng.uniform(0, 2.5, jobs),
                       partition=rng.choice(["a", "b"], jobs), user=[f"u{n}" for n in rng.integers(0, 12, jobs)])
    nodes = [{"name": "x", "count": 2, "gpus": 8, "partitions": ["a"]},
             {"name": "y", "count": 2, "gpus": 8, "partitions": ["b"]}]
    return Stretch(Cluster.from_mapping({"nodes": nodes}), work, since_s)


@pytest.fixture(scope="module")
def held_out() -> list[Stretch]:
    return [stretch(), stretch(since_s=9 * DAY, seed=2)]


def verdict(agent, held_out, **more):
    return judge(agent, INCUMBENT, HEURISTICS, held_out, **more)


def test_an_agent_that_beats_the_incumbent_and_every_heuristic_is_promoted(held_out):
    found = verdict(Agent("oracle"), held_out, terms=PromotionCriteria(group=2.0, tail=5.0))
    assert found.decision is Decision.PROMOTE
    assert set(found.against) == {INCUMBENT, found.best}
    assert all(interval.low <= interval.estimate <= interval.high < 1 for interval in found.against.values())
    assert found.days == 16
    assert "of that under" in found.reason


def test_every_table_has_chance_and_the_future_beside_the_agent(held_out):
    found = verdict(Agent("fifo+best-fit+easy"), held_out)
    rows = {row.policy: row for row in found.rows}
    assert list(rows) == ["agent@1", INCUMBENT, *HEURISTICS, "random-feasible", "oracle"]
    assert rows["oracle"].jct_mean_s == min(row.jct_mean_s for row in found.rows)
    assert all(row.jobs == found.jobs and row.unfinished == 0 and row.energy_wasted_joules > 0 for row in found.rows)


def test_an_agent_that_is_as_good_as_the_best_heuristic_stays_in_shadow(held_out):
    found = verdict(Agent(HEURISTICS[0]), held_out)
    assert found.decision is Decision.SHADOW
    assert f"of that under {HEURISTICS[0]}: not surely better" in found.reason
    alike = found.against[HEURISTICS[0]]
    assert (alike.low, alike.estimate, alike.high) == (1, 1, 1), "paired: against itself nothing differs"


def test_alike_in_the_mean_is_enough_where_the_tail_is_clearly_shorter(held_out):
    lax = PromotionCriteria(group=2.0, tail=5.0, better=0.0, alike=1.01, clearly=99)
    beaten = verdict(Agent("oracle"), held_out, terms=lax)
    assert beaten.decision is Decision.PROMOTE
    strict = PromotionCriteria(group=2.0, tail=5.0, better=0.0, clearly=0.0)
    not_clearly = verdict(Agent("oracle"), held_out, terms=strict)
    assert not_clearly.decision is Decision.SHADOW


def test_who_would_suffer_is_named(held_out):
    found = verdict(Agent("ljf+best-fit"), held_out)
    assert found.decision is Decision.SHADOW
    assert set(found.groups) == {"partition a", "partition b", "light users", "middle users", "heavy users"}
    assert any(group in found.reason for group in found.groups)
    assert "p99 wait is" in found.reason


def test_too_little_history_promotes_nobody():
    found = verdict(Agent("oracle"), [stretch(days=3)])
    assert found.decision is Decision.SHADOW
    assert "only 3 held-out days" in found.reason


def test_no_history_at_all_promotes_nobody():
    found = verdict(Agent("oracle"), [])
    assert found.decision is Decision.SHADOW
    assert "only 0 held-out days with 0 jobs" in found.reason
    json.dumps(found.figures())


def test_history_that_the_agent_was_trained_on_is_no_test(held_out):
    found = verdict(Agent("oracle", history_until_s=2 * DAY), held_out)
    assert found.decision is Decision.SHADOW
    assert "trained on a part of this history" in found.reason


@pytest.mark.parametrize(("mean_s", "ratio", "missed", "words"), [
    (5000.0, None, 0, "starts off by 5000 s"), (10.0, None, 50, "50 of 150 starts missed"),
    (10.0, 0.8, 0, "starts off by 80% of the wait of the 40 that waited"), (None, None, 0, "nothing started")])
def test_an_incumbent_whose_replay_is_far_from_what_happened_proves_nothing(held_out, mean_s, ratio, missed, words):
    # Half of the jobs start to the second: the median says nothing of those that waited.
    errors = {} if mean_s is None else {"p50": 0.0}
    fidelity = Fidelity(INCUMBENT, 100, missed, errors, mean_s, None, 1.0, None, None, 40, ratio)
    found = verdict(Agent("oracle"), held_out, fidelity=fidelity)
    assert found.decision is Decision.SHADOW
    assert words in found.reason


@pytest.mark.parametrize(("decide", "words"), [
    (lambda state: (), "jobs never end under it"),
    (lambda state: [Start(int(job), (0,), (99,)) for job in state.waiting[:1]], "failed: ValueError: Start(job=0"),
    (lambda state: [Start(int(job), (float("nan"),), (1,)) for job in state.waiting[:1]], "failed"),
    (lambda state: 1 / 0, "ZeroDivisionError"),
])
def test_an_agent_that_starts_nothing_or_what_cannot_be_is_refused_with_the_reason(decide, words):
    found = verdict(Stranger(decide), [stretch(jobs=200)])
    assert found.decision is Decision.REFUSE
    assert words in found.reason


def test_a_real_agent_that_learned_nothing_is_not_promoted(held_out):
    weights = np.random.default_rng(1).normal(0, 0.1, (MEMBERS, SIZE))
    found = verdict(Scorer(weights, replace(CARD, name="scorer", kind="scorer")), held_out)
    assert found.decision is Decision.SHADOW
    assert found.rows[0].policy == "scorer@1"
    assert found.rows[0].unfinished == 0


def test_jobs_that_fill_the_cluster_beforehand_do_not_count(held_out):
    work, since_s = held_out[0].workload, held_out[0].since_s
    found = verdict(Agent("fifo"), held_out[:1])
    assert found.jobs == int((work.submit >= since_s).sum()) < len(work)
    assert found.since_s >= since_s


def test_jobs_that_can_never_run_count_for_nobody(held_out):
    work = replace(held_out[0].workload, gpus=np.where(np.arange(600) == 300, 99, held_out[0].workload.gpus))
    whole, without = (promotion.Exam.of([replace(held_out[0], workload=some)]) for some in (held_out[0].workload, work))
    assert without.counted[0].sum() == whole.counted[0].sum() - 1


def test_the_same_exam_gives_the_same_verdict_and_it_can_be_written_down(held_out):
    first, again = (verdict(Agent("oracle"), held_out, seed=3) for _ in range(2))
    assert first == again
    told = json.loads(json.dumps(first.figures()))
    assert told["rows"][0]["policy"] == "agent@1"
    assert told["against"][INCUMBENT]["high"] == first.against[INCUMBENT].high
