"""Promotion: real replays of small histories, an agent that is better, worse, alike, unfair, broken or cheating."""

import json
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.agents.scorer.agent import MEMBERS, Scorer
from idlewatt.daemon.agents.scorer.network import SIZE
from idlewatt.daemon.learning import promotion
from idlewatt.daemon.learning import verdict as judged
from idlewatt.daemon.learning.evidence import FEWEST_BLOCKS, NOTHING, USE_RATES, compared
from idlewatt.daemon.learning.promotion import judge
from idlewatt.daemon.learning.promotion_criteria import DOWN, ON, PromotionCriteria
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS, SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.state import Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.simulator_error import Fidelity
from idlewatt.daemon.sweep import ALWAYS
from idlewatt.storage.promotions import Decision
from idlewatt.storage.records import ModelCard, Node

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


def window(days: int = 28, jobs: int = 5000, since_s: float = 0.0, seed: int = 1, load: float = 0.7) -> TraceWindow:
    """Return crowded weeks of two partitions whose users are bad at telling limits."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(since_s - DAY, since_s + days * DAY, jobs))
    gpus = rng.choice([1, 2, 4, 8], jobs, p=[.4, .3, .2, .1])
    run = np.clip(rng.lognormal(0.0, 1.3, jobs), 0.01, 8.0)
    run *= load * 32 * (days + 1) * DAY / (gpus * run).sum()
    work = Workload.of(submit, run, gpus, limit=run * 10 ** rng.uniform(0, 2.5, jobs),
                       partition=rng.choice(["a", "b"], jobs), user=[f"u{n}" for n in rng.integers(0, 12, jobs)])
    nodes = [{"name": "x", "count": 2, "gpus": 8, "partitions": ["a"]},
             {"name": "y", "count": 2, "gpus": 8, "partitions": ["b"]}]
    return TraceWindow(Cluster.from_mapping({"nodes": nodes}), work, since_s)


@pytest.fixture(scope="module")
def held_out() -> list[TraceWindow]:
    return [window(days=8, jobs=900), window(days=8, jobs=900, since_s=10 * DAY, seed=2)]


@pytest.fixture(scope="module")
def long_held_out() -> list[TraceWindow]:
    return [window(days=20, jobs=3600), window(days=20, jobs=3600, since_s=22 * DAY, seed=2)]


def verdict(agent, held_out, **more):
    return judge(agent, INCUMBENT, HEURISTICS, held_out, **more)


LAX = PromotionCriteria(group=3.0, tail=9.0)


def test_an_agent_that_beats_the_incumbent_and_every_heuristic_is_promoted(long_held_out):
    found = verdict(Agent("sjf-oracle+best-fit+easy"), long_held_out, terms=LAX)
    assert found.decision is Decision.PROMOTE, found.reason
    assert set(found.against) == {INCUMBENT, found.best}
    assert all(one.low <= one.estimate <= one.high < 1 for one in found.against.values())
    assert all(one.evidence >= np.log(1 / LAX.error) and one.blocks >= FEWEST_BLOCKS for one in found.against.values())
    assert found.days == pytest.approx(40, abs=0.2)
    assert "of that under" in found.reason


def test_every_table_has_chance_and_shortest_run_first_beside_the_agent(held_out):
    found = verdict(Agent("fifo+best-fit+easy"), held_out)
    rows = {row.policy: row for row in found.rows}
    assert list(rows) == ["agent@1", INCUMBENT, *HEURISTICS, *ALWAYS]
    assert rows[ALWAYS[1]].jct_mean_s == min(row.jct_mean_s for row in found.rows)
    assert all(row.jobs == found.jobs and row.unfinished == 0 and row.energy_joules > row.energy_down_joules > 0
               for row in found.rows)


@pytest.mark.parametrize("times", [1.0, 2.0])
def test_nobody_is_held_to_an_oracle_by_limits_that_tell_run_times(long_held_out, times):
    """Nor to one that goes by limits while no run times are predicted."""
    leaking = [replace(one, workload=replace(one.workload, limit=times * one.workload.run)) for one in long_held_out]
    fair, unpredicted = "fifo+best-fit+easy", "sjf-prediction+best-fit+easy"
    found = judge(Agent("sjf-oracle+best-fit+easy"), INCUMBENT, (*HEURISTICS, fair, unpredicted), leaking, terms=LAX)
    assert set(found.unfit) == {*HEURISTICS, unpredicted}
    assert all("is an oracle here" in why for why in found.unfit.values())
    assert found.decision is Decision.PROMOTE, found.reason
    assert found.best in (INCUMBENT, fair)
    assert [row.policy for row in found.rows] == ["agent@1", INCUMBENT, fair, *ALWAYS]
    assert json.loads(json.dumps(found.figures()))["unfit"] == found.unfit


def test_an_agent_that_is_as_good_as_the_best_heuristic_stays_in_shadow(held_out):
    found = verdict(Agent(HEURISTICS[1]), held_out)
    assert found.decision is Decision.SHADOW
    assert f"1.000 in every block of that under {HEURISTICS[1]}: the same" in found.reason
    alike = found.against[HEURISTICS[1]]
    assert (alike.low, alike.estimate, alike.high, alike.evidence) == (1, 1, 1, 0), "against itself nothing differs"


def test_one_that_is_worse_throughout_its_interval_is_called_worse(long_held_out):
    found = verdict(Agent("ljf+best-fit"), long_held_out)
    assert found.decision is Decision.SHADOW
    jct = found.against[INCUMBENT]
    assert jct.low > 1
    assert f"mean JCT is {jct.said} of that under {INCUMBENT}: worse" in found.reason


def test_better_at_one_look_is_not_yet_enough_for_somebody_who_looks_every_night():
    found = verdict(Agent("sjf-oracle+best-fit+easy"), [window(days=16, jobs=3000)], terms=replace(LAX, error=1e-9))
    assert found.against[INCUMBENT].high < 1
    assert found.decision is Decision.SHADOW
    assert "not yet surely if one looks every night" in found.reason
    assert "1000000000 needed" in found.reason


def test_better_in_most_blocks_and_worse_in_all_is_not_better():
    often = compared(np.array([0.8] * 30 + [90.0]), np.array([1.0] * 30 + [60.0]))
    assert often.evidence > np.log(1 / LAX.error)
    assert not often.below(LAX.error)
    assert "not better" in judged.verdict(replace(often, high=0.95), LAX.error)


def test_who_would_suffer_is_named(long_held_out):
    found = verdict(Agent("ljf+best-fit"), long_held_out)
    assert set(found.groups) == {"partition a", "partition b", "light users", "middle users", "heavy users"}
    assert all(group.known for group in found.groups.values())
    assert any(group in found.reason for group in found.groups)
    assert "p99 wait is" in found.reason
    assert found.tail.known


def bounded(spread, bound, *, blocks=40, mean=1.0):
    """Return a ratio that lies at ``mean`` in all and spreads from block to block."""
    ours = mean * np.exp(spread * np.tile([1.0, -1.0], blocks // 2))
    return replace(compared(ours, np.ones(len(ours)), bound=bound), total=mean)


@pytest.mark.parametrize(("where", "words"), [
    ({"groups": {"heavy users": bounded(0.6, 1.1)}}, "heavy users: mean JCT is 1.000"),
    ({"tail": bounded(0.9, 1.25)}, "p99 wait is 1.000"),
    ({"energy": {INCUMBENT: {ON: bounded(0.1, 1.02), DOWN: bounded(0.0, 1.02)}}}, "energy at the wall, all nodes on,")])
def test_what_is_alike_by_its_estimate_and_not_surely_within_its_bound_is_harm(where, words):
    reasons = list(promotion._harmful(replace(aiming(1.0), **where)))
    assert len(reasons) == 1
    assert words in reasons[0]
    assert "not yet surely less than" in reasons[0]
    assert "320 needed" in reasons[0]


@pytest.mark.parametrize("where", [
    {"groups": {"heavy users": bounded(0.1, 1.1)}}, {"tail": bounded(0.2, 1.25)},
    {"energy": {INCUMBENT: {ON: bounded(0.005, 1.02), DOWN: bounded(0.1, 1.02)}}}])
def test_what_is_surely_within_its_bound_is_none(where):
    assert list(promotion._harmful(replace(aiming(1.0), **where))) == []


def test_what_lies_beyond_its_bound_in_all_is_harm_whatever_most_blocks_say():
    tail = replace(bounded(0.1, 1.25, mean=0.9), total=1.3)
    assert tail.within > np.log(1 / LAX.error)
    reason = next(promotion._harmful(replace(aiming(1.0), tail=tail)))
    assert "1.30 of it in all, and less than 1.25 is required" in reason


@pytest.mark.parametrize(("blocks", "mean", "harm"), [(18, 1.09, 0), (18, 1.11, 1), (22, 1.09, 1)])
def test_a_group_that_is_seldom_there_is_held_to_its_ratio(blocks, mean, harm):
    found = replace(aiming(1.0), groups={"partition old": bounded(0.1, 1.1, blocks=blocks, mean=mean)})
    assert len(list(promotion._harmful(found))) == harm


def test_energy_is_bounded_in_the_way_that_the_site_runs_and_in_the_other_no_worse_for_sure():
    on = {"energy": {INCUMBENT: {ON: bounded(0.1, 1.02), DOWN: bounded(0.0, 1.02)}}}
    down = replace(aiming(1.0), terms=replace(LAX, power_down_s=1800.0), **on)
    assert list(promotion._harmful(down)) == []
    worse = {INCUMBENT: {ON: bounded(0.001, 1.02, mean=1.03), DOWN: bounded(0.0, 1.02)}}
    assert "all nodes on, is 1.030" in next(promotion._harmful(replace(down, energy=worse)))


def saving(spread, energy=0.9):
    """Return a verdict on one that takes so much of the energy, and of whose JCT blocks differ by ``spread``."""
    return replace(aiming(1.0, "energy"), against={INCUMBENT: bounded(spread, LAX.alike)}, energy={
        INCUMBENT: {ON: bounded(0.01, 1.02, mean=energy), DOWN: bounded(0.01, 1.02)}})


def test_one_that_surely_takes_less_energy_and_is_surely_as_fast_is_promoted():
    assert list(judged.not_better(saving(0.001))) == []
    assert list(judged.not_better(saving(0.001, energy=0.985))), "less than a fiftieth is not worth it"


def test_one_that_takes_less_energy_and_is_as_fast_at_this_look_only_stays_in_shadow_and_is_told_why():
    found = saving(0.029)
    assert found.against[INCUMBENT].high < LAX.alike
    not_distinguishable, why = judged.not_better(found)
    assert "not distinguishable" in not_distinguishable
    assert why.startswith("its energy would earn it, but mean JCT is not yet surely less than 1.01 of it")


def test_each_condition_has_its_interval(held_out):
    found = verdict(Agent("sjf-prediction+best-fit+easy"), held_out)
    told = [*found.against.values(), *found.groups.values(), found.tail,
            *(one for energy in found.energy.values() for one in energy.values())]
    assert all(one.known for one in told)
    assert {counted for energy in found.energy.values() for counted in energy} == {ON, DOWN}


def test_too_little_history_promotes_nobody():
    found = verdict(Agent("sjf-oracle+best-fit+easy"), [window(days=3, jobs=800)])
    assert found.decision is Decision.SHADOW
    assert "not enough yet: only 3.0 held-out days" in found.reason
    assert not found.against[INCUMBENT].known


@pytest.mark.parametrize(("days", "jobs", "enough"), [
    (13.995, 500, True), (14.5, 500, True), (13.98, 500, False), (14.0, 499, False)])
def test_days_that_end_with_their_last_submission_count_as_whole(days, jobs, enough):
    found = replace(aiming(1.0), days=days, jobs=jobs, terms=PromotionCriteria(days=14, jobs=500))
    assert (not list(promotion._unfounded(found, (None, None)))) == enough


def test_whoever_listens_hears_how_many_replays_are_done_of_how_many():
    told: list[tuple[float, float]] = []
    with promotion.heard(lambda done, total: told.append((done, total))):
        verdict(Agent("fifo"), [window(days=1, jobs=20)])
    assert told == [(done, 6) for done in range(6)]  # the incumbent, two heuristics, two of ALWAYS and the agent


def test_a_heuristic_is_called_by_its_name_and_an_agent_by_its_kind_and_version():
    assert judge(named(INCUMBENT), INCUMBENT, (), []).model == INCUMBENT
    assert judge(Agent("sjf-oracle+best-fit+easy", kind="scorer", version="7"), INCUMBENT, (), []).model == "scorer@7"


def test_no_history_at_all_promotes_nobody():
    found = verdict(Agent("sjf-oracle+best-fit+easy"), [])
    assert found.decision is Decision.SHADOW
    assert "only 0.0 held-out days with 0 jobs" in found.reason
    json.dumps(found.figures())


def test_history_that_the_agent_was_trained_on_is_no_test(held_out):
    found = verdict(Agent("sjf-oracle+best-fit+easy", history_until_s=2 * DAY), held_out)
    assert found.decision is Decision.SHADOW
    assert "trained on a part of this history" in found.reason


@pytest.mark.parametrize(("mean_s", "ratio", "missed", "words"), [
    (5000.0, None, 0, "starts off by 5000 s"), (10.0, None, 50, "50 of 150 starts missed"),
    (10.0, 0.8, 0, "starts off by 80% of the wait of the 40 that waited"), (None, None, 0, "nothing started")])
def test_an_incumbent_whose_replay_is_far_from_what_happened_proves_nothing(held_out, mean_s, ratio, missed, words):
    # Half of the jobs start to the second: the median says nothing of those that waited.
    errors = {} if mean_s is None else {"p50": 0.0}
    fidelity = Fidelity(INCUMBENT, 100, missed, errors, mean_s, None, 1.0, None, None, 40, ratio)
    found = verdict(Agent("sjf-oracle+best-fit+easy"), held_out, fidelity=fidelity)
    assert found.decision is Decision.SHADOW
    assert words in found.reason


@pytest.mark.parametrize(("ratio", "limit", "near"), [
    (0.20, None, True), (0.26, None, False), (0.20, 0.25, True), (0.20, 0.26, False)])
def test_the_limit_of_the_error_decides_where_there_is_one(ratio, limit, near):
    fidelity = Fidelity(INCUMBENT, 100, 0, {"p50": 0.0}, 10.0, None, 1.0, None, None, 40, ratio, limit)
    fault = promotion.not_reproduced(fidelity, PromotionCriteria())
    assert (not fault) == near
    if limit == 0.26:
        assert "off by 20% (surely less than 26%) of the wait" in fault


@pytest.mark.parametrize(("missed", "near"), [(5, True), (6, False)])
def test_a_replay_may_miss_its_share_of_all_starts_and_no_more(missed, near):
    fidelity = Fidelity(INCUMBENT, 100 - missed, missed, {"p50": 0.0}, 10.0, None, 1.0, None, None)
    assert (not promotion.not_reproduced(fidelity, PromotionCriteria(missed=0.05))) == near


@pytest.mark.parametrize(("decide", "words"), [
    (lambda state: (), "jobs never end under it"),
    (lambda state: [Start(int(job), (0,), (99,)) for job in state.waiting[:1]], "failed: ValueError: Start(job=0"),
    (lambda state: [Start(int(job), (float("nan"),), (1,)) for job in state.waiting[:1]], "failed"),
    pytest.param(lambda state: 1 / 0, "ZeroDivisionError", marks=pytest.mark.long),
    pytest.param(lambda state: state.nothing, "AttributeError", marks=pytest.mark.long),
    (lambda state: next(iter(())), "StopIteration"),
    pytest.param(lambda state: exec("raise RuntimeError('kernel')"), "RuntimeError", marks=pytest.mark.long),
    pytest.param(lambda state: exec("assert False"), "AssertionError", marks=pytest.mark.long),
    (lambda state: exec("raise MemoryError"), "MemoryError"),
    (lambda state: exec("raise EOFError('weights')"), "EOFError: weights"),
    pytest.param(lambda state: exec("raise SystemError"), "SystemError", marks=pytest.mark.long),
    (lambda state: exec("raise Exception('of no kind')"), "Exception: of no kind"),
    (lambda state: mute(), "Mute"),
])
def test_an_agent_that_starts_nothing_or_what_cannot_be_is_refused_with_the_reason(decide, words):
    found = verdict(Stranger(decide), [window(jobs=200)])
    assert found.decision is Decision.REFUSE
    assert words in found.reason


class Mute(Exception):
    """What cannot even be put into words."""

    def __str__(self):
        raise RuntimeError


def mute():
    raise Mute


class Unlike(Stranger):
    """An agent of which one attribute is not what it should be."""

    def __init__(self, **attributes) -> None:
        super().__init__(lambda state: ())
        self.__dict__ |= attributes


class Silent(Stranger):
    """An agent that cannot even tell its card."""

    def __init__(self) -> None:
        self.decide = lambda state: ()

    @property
    def card(self):
        raise EOFError("no card")


@pytest.mark.parametrize(("agent", "words"), [
    (Unlike(card={"kind": "agent"}), "its card is none, but a dict"),
    (Unlike(card="agent@1"), "its card is none, but a str"),
    (Unlike(card=replace(CARD, objective=None)), "its card is damaged: objective is a NoneType"),
    (Unlike(card=replace(CARD, history_until_s="yesterday")), "its card is damaged: history_until_s is a str"),
    (Silent(), "it cannot be looked at: EOFError: no card")])
def test_an_agent_whose_card_is_none_is_refused_with_the_reason(agent, words):
    found = verdict(agent, [])
    assert found.decision is Decision.REFUSE
    assert words in found.reason
    json.dumps(found.figures())


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_what_asks_the_process_to_end_is_no_failure_of_an_agent(end):
    def decide(state):
        raise end

    with pytest.raises(end):
        judge(Stranger(decide), INCUMBENT, (), [window(days=1, jobs=20)])


def test_an_agent_with_numbers_that_are_none_deep_inside_is_refused(held_out):
    nested = {"gpu": [type("Net", (), {"weights": {"q": np.array([0.0, np.nan])}})()]}
    inner = nested["gpu"][0]
    inner.weights = type(inner).weights
    found = verdict(Unlike(agents=nested), held_out)
    assert found.decision is Decision.REFUSE
    assert found.reason == "its agents holds numbers that are none"


def test_an_agent_whose_weights_are_no_numbers_is_refused(held_out):
    weights = np.random.default_rng(1).normal(0, 0.1, (MEMBERS, SIZE))
    weights[0, 3] = np.nan
    found = verdict(Scorer(weights, replace(CARD, name="scorer", kind="scorer")), held_out)
    assert found.decision is Decision.REFUSE
    assert "holds numbers that are none" in found.reason
    assert (found.days, found.jobs, found.rows) == (0.0, 0, ()), "nothing was replayed"


def test_a_history_that_nobody_can_replay_is_said_and_not_raised(held_out):
    found = judge(Agent("fifo"), "no-such-policy", HEURISTICS, held_out)
    assert found.decision is Decision.SHADOW
    assert "nothing can be compared" in found.reason


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
    whole = held_out[0].workload
    work = replace(whole, gpus=np.where(np.arange(len(whole)) == 300, 99, whole.gpus))
    whole, without = (promotion.Exam.of([replace(held_out[0], workload=some)]) for some in (held_out[0].workload, work))
    assert without.counted[0].sum() == whole.counted[0].sum() - 1


def test_the_same_exam_gives_the_same_verdict_and_it_can_be_written_down(held_out):
    first, again = (verdict(Agent("sjf-oracle+best-fit+easy"), held_out, seed=3) for _ in range(2))
    assert json.dumps(first.figures()) == json.dumps(again.figures())
    told = json.loads(json.dumps(first.figures()))
    assert told["rows"][0]["policy"] == "agent@1"
    assert told["against"][INCUMBENT]["high"] == first.against[INCUMBENT].high


SLOW = SiteSpeeds("site", (SpeedGroup("*", "*", 50, spread={"spine": SpeedCell(0.4, 0.35, 0.45, "measured", 50)}),))


def apart(speeds):
    """Return forty crowded days of jobs of two nodes, which first-fit spreads over leaf switches."""
    rng, jobs, days = np.random.default_rng(3), 2700, 40
    submit, gpus = np.sort(rng.uniform(-DAY, days * DAY, jobs)), rng.choice([2, 8], jobs)
    run = rng.lognormal(0.0, 1.0, jobs)
    run *= 0.4 * 32 * (days + 1) * DAY / (gpus * run).sum()
    work = Workload.of(submit, run, gpus, limit=4 * run, application=0 if speeds.flat else 1)
    nodes = [Node(f"n{number}", ("default",), 4, leaf=f"l{number // 2}") for number in range(8)]
    return TraceWindow(Cluster.from_records(nodes), work, 0.0, speeds)


def test_promotion_reacts_to_the_speeds_and_tells_them():
    flat, told = (judge(Agent("fifo+nearest+easy"), INCUMBENT, ("fifo+best-fit+easy",), [apart(speeds)], terms=LAX)
                  for speeds in (FLAT_SPEEDS, SLOW))
    assert told.against[INCUMBENT].high < 0.9 < flat.against[INCUMBENT].low
    assert told.decision is Decision.PROMOTE
    assert "site: 1 groups of like jobs" in str(told.speeds[0])
    assert 0.8 < told.speeds[0].shares["measured"] < 1.0  # nobody knows what one leaf switch costs
    assert "measured" in json.dumps(told.figures())


def test_an_agent_that_was_trained_with_speeds_is_not_judged_without_them():
    agent = Agent("fifo+nearest+easy", speeds=SLOW.identity)
    found = judge(agent, INCUMBENT, ("fifo+best-fit+easy",), [apart(FLAT_SPEEDS)])
    assert found.decision is Decision.SHADOW
    assert f"it was trained with speeds ({SLOW.identity}), and these replays have none" in found.reason
    judged = judge(agent, INCUMBENT, ("fifo+best-fit+easy",), [apart(SLOW)], terms=LAX)
    assert judged.decision is Decision.PROMOTE, judged.reason


def test_every_policy_is_told_by_all_five_figures(held_out):
    found = verdict(Agent("fifo+best-fit+easy"), held_out)
    assert all(0.3 < row.utilization <= 1.0 and 16 * DAY < row.makespan_s < 60 * DAY and row.energy_joules > 0
               and row.jct_mean_s > row.wait_mean_s >= 0 for row in found.rows)
    rows = {row.policy: row for row in found.rows}
    assert rows[INCUMBENT].utilization_ratio.estimate == 1.0


def aiming(use, objective="utilization"):
    """Return a verdict on one that is as fast as the incumbent and has so much of its utilisation, in forty blocks."""
    return promotion.Verdict("agent@1", Decision.SHADOW, (), INCUMBENT, INCUMBENT, objective=objective, terms=LAX,
                             against={INCUMBENT: compared(np.ones(40), np.ones(40), bound=LAX.alike)},
                             utilization={INCUMBENT: compared(np.full(40, use), np.ones(40), USE_RATES)},
                             energy={INCUMBENT: {ON: NOTHING, DOWN: NOTHING}})


def test_an_agents_aim_is_told_with_its_verdict(held_out):
    assert verdict(Agent("fifo+best-fit", objective="utilization+jct_mean"), held_out).objective \
        == "utilization+jct_mean"


def test_one_that_is_after_utilisation_and_has_less_of_it_stays_in_shadow_for_that():
    assert list(promotion._harmful(aiming(0.9))) == [
        f"utilisation, which it is after, is 0.900 in every block of that under {INCUMBENT}: worse"]
    assert not list(promotion._harmful(aiming(0.9, "jct_mean")))
    assert not list(promotion._harmful(aiming(1.1)))


def test_one_that_is_after_utilisation_and_surely_has_more_is_promoted_though_it_is_no_faster():
    found = aiming(1.1)
    assert list(judged.not_better(found)) == []
    assert judged.why(found, INCUMBENT).startswith("utilisation is 1.100")
    assert list(judged.not_better(replace(found, objective="jct_mean")))
