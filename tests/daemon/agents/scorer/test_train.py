"""Training: better than the incumbent, on from where it was, and clear about what cannot be learned from."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scattered import SINCE, scattered
from scipy.optimize import check_grad

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.agents.kinds import Objective, TraceWindow, TrainingError, kinds
from idlewatt.daemon.agents.scorer import imitation
from idlewatt.daemon.agents.scorer.arena import Arena, blank, initial, plain
from idlewatt.daemon.agents.scorer.train import STATE, EnsembleTraining, ScorerEnvironment, _initialise, train, worse
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS, SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.timeline import Reserved
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.scorer.regimes import INCUMBENT

from .conftest import small


def test_it_becomes_better_than_the_incumbent_and_says_how_far_it_has_come(trained):
    folder, progress = trained
    assert progress[-1].done == 1.0
    assert progress[-1].score < 0.95
    assert min(step.score for step in progress) < progress[0].score
    card = kinds()["scorer"].load(folder / "best").card
    assert card.metrics["objective_select"] == pytest.approx(progress[-1].score, rel=0.02)
    assert 0.0 < card.metrics["imitation_top1"] <= 1.0
    assert card.seen["nodes"] == (4.0, 4.0)


def test_a_training_that_was_left_goes_on_where_it_was(tmp_path, config_of):
    config = config_of(tmp_path, budget_s=1000.0)
    first = list(itertools.islice(train(config), 2))
    again = next(train(config))
    assert again.done > first[-1].done
    assert again.score < 1.1 * first[-1].score
    assert list(train(config_of(tmp_path, budget_s=0.0))) == []


@pytest.mark.parametrize("change", [{"seed": 1}, {"objective": Objective(jct_mean=1.0)}, {"incumbent": "qssf+easy"}])
def test_another_training_does_not_go_on_in_the_same_folder(trained, config_of, change):
    with pytest.raises(CheckpointError, match="move it away"):
        next(train(config_of(trained[0], budget_s=100.0, **change)))


def test_a_damaged_unfinished_training_is_refused_by_name(tmp_path, config_of):
    (tmp_path / STATE).write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match=STATE):
        next(train(config_of(tmp_path)))


def test_it_sets_out_from_a_model_where_that_is_better_than_all_it_knows(trained, tmp_path, config_of):
    config = config_of(tmp_path, start=trained[0] / "best")
    known = kinds()["scorer"].load(trained[0] / "best").members[0]
    with ThreadPoolExecutor(1) as threads:
        environment = ScorerEnvironment(config, threads)
        started = _initialise(EnsembleTraining(config), environment, 0).weights
        trials = [environment.fit(number) for number in range(4)]
        ours, theirs = environment.losses([started, known], trials)
    assert ours <= theirs


def test_regret_hurts_more_than_the_same_gain_pleases(tmp_path, config_of, monkeypatch):
    regrets = {"even": [0.01, 0.01], "bold": [0.1, -0.1], "worse": [0.02, 0.02]}
    with ThreadPoolExecutor(1) as threads:
        environment = ScorerEnvironment(config_of(tmp_path), threads)
        monkeypatch.setattr(Arena, "regret", lambda arena, name: regrets[name][environment.select.index(arena)])
        even, bold, worse = environment.losses(["even", "bold", "worse"], environment.select)
    assert even == pytest.approx(0.01)
    assert bold > worse > even


@pytest.mark.parametrize(("more", "vetoed"), [([0.01, 0.02], True), ([-0.01, 0.0], False), ([0.3, -0.2], False)])
def test_later_history_vetoes_only_what_is_worse_by_more_than_chance(more, vetoed):
    kept = np.array([0.1, 0.1])
    assert worse(kept + more, kept) == vetoed


def test_no_known_order_does_better_than_the_bar_and_one_reaches_it():
    arena = Arena(small(1), INCUMBENT, Objective())
    regrets = [arena.regret(weights) for weights in plain(blank(Objective().longest_wait_s))]
    assert min(regrets) >= 0.0
    assert min(*regrets, -arena.bar) == 0.0


def test_first_come_first_served_is_among_the_known_orders():
    whole = small(3)
    arena = Arena(whole, "fifo+best-fit+easy", Objective())
    first = next(plain(blank(Objective().longest_wait_s)))
    theirs = run(whole.cluster, whole.workload, named("fifo+best-fit+easy"))
    assert np.array_equal(arena.play(first).start, theirs.start)


def test_learning_keeps_jobs_off_nodes_that_were_reserved_for_others_each_time_anew():
    whole = small(3)
    first_s, node = float(whole.workload.submit[0]), whole.cluster.names[0]
    reserved = replace(whole, reserved=(Reserved(first_s, node, "course"), Reserved(first_s + 86400.0, node, "")))
    free, arena = (Arena(window, "fifo+best-fit+easy", Objective()) for window in (whole, reserved))
    weights = next(plain(blank(Objective().longest_wait_s)))
    again = [arena.play(weights).start for _ in range(2)]
    assert np.array_equal(*again)
    assert np.array_equal(again[0], reserved.replayed(named("fifo+best-fit+easy")).start)
    assert arena.incumbent.jct_mean_s > free.incumbent.jct_mean_s


def site(ran, gpus, submit):
    work = Workload.of(submit, ran, gpus, limit=ran)
    return TraceWindow(Cluster.from_spec("1x8"), work, 0.0)


def test_jobs_that_are_all_alike_are_refused(tmp_path, config_of):
    alike = site(np.full(60, 600.0), np.full(60, 8), np.arange(60.0))
    with pytest.raises(TrainingError, match="alike"):
        next(train(config_of(tmp_path, fit=lambda _: alike, select=[alike])))


def test_a_short_history_is_refused(tmp_path, config_of):
    few = site(np.arange(5) + 60.0, np.full(5, 8), np.arange(5.0))
    with pytest.raises(TrainingError, match="5 jobs"):
        next(train(config_of(tmp_path, fit=lambda _: few, select=[few])))


def test_a_history_without_later_part_is_refused(tmp_path, config_of):
    with pytest.raises(TrainingError, match="later history"):
        next(train(config_of(tmp_path, select=[])))


def test_a_site_where_nobody_waits_is_refused(tmp_path, config_of):
    idle = site(np.arange(60) + 60.0, np.ones(60, int), 1e4 * np.arange(60.0))
    with pytest.raises(TrainingError, match="nobody waits"):
        next(train(config_of(tmp_path, fit=lambda _: idle, select=[idle])))


def test_an_objective_that_is_no_number_ends_the_training_and_keeps_the_best(tmp_path, config_of, monkeypatch):
    training = train(config_of(tmp_path, budget_s=1000.0))
    next(training)
    kept = (tmp_path / "best" / "weights.safetensors").read_bytes()
    monkeypatch.setattr(Arena, "score", lambda self, weights: math.nan)
    with pytest.raises(TrainingError, match="no number"):
        list(training)
    assert (tmp_path / "best" / "weights.safetensors").read_bytes() == kept


@pytest.mark.parametrize("loss", ["choices", "run times"])
def test_the_gradients_of_imitation_are_those_of_differences(loss):
    arena = Arena(small(1), INCUMBENT, Objective())
    weights = initial(np.random.default_rng(0), 1e6)
    weights += 0.1 * np.random.default_rng(1).standard_normal(len(weights))
    chosen = imitation.choices_by([arena], INCUMBENT)[:40]
    rows = np.concatenate(chosen)
    function = imitation._loss if loss == "choices" else imitation._error
    rest = np.cumsum([0, *map(len, chosen)])[:-1] if loss == "choices" else rows[:, 0] - 1.0
    found = check_grad(lambda x: function(x, rows, rest)[0], lambda x: function(x, rows, rest)[1],
                       imitation._parameters(weights))
    assert found < 1e-5


def test_a_policy_that_orders_by_what_is_told_is_imitated_well():
    arena, other = (Arena(small(number), INCUMBENT, Objective()) for number in (1, 2))
    weights = initial(np.random.default_rng(0), 1e6)
    policy = "sjf-limit+best-fit+greedy"
    learned = imitation.imitate(weights, imitation.choices_by([arena], policy))
    assert imitation.agreement(learned, imitation.choices_by([other], policy)) > 0.85


@pytest.mark.long
def test_so_many_steps_give_the_same_weights_twice_interrupted_or_not(tmp_path, config_of):
    for folder, stops in ((tmp_path / "one", False), (tmp_path / "two", True)):
        config = config_of(folder, steps=6, budget_s=0.0)
        if stops:
            list(itertools.islice(train(config), 3))
        assert list(train(config))[-1].done == 1.0
    ours, theirs = (kinds()["scorer"].load(tmp_path / name / "best").members for name in ("one", "two"))
    assert np.array_equal(ours, theirs)


def test_learning_and_what_is_imitated_go_by_the_speeds_of_the_stretch():
    cluster, workload, _ = scattered(days=3.0, jobs=150)
    speeds = SiteSpeeds("site", (SpeedGroup("*", "*", 50, spread={"spine": SpeedCell(0.5, 0.4, 0.6, "measured", 50)}),))
    grouped = replace(workload, application=np.ones(len(workload), np.int32))
    flat, slow = (Arena(TraceWindow(cluster, grouped, SINCE, known), INCUMBENT, Objective())
                  for known in (FLAT_SPEEDS, speeds))
    assert slow.incumbent.jct_mean_s > 1.1 * flat.incumbent.jct_mean_s
    weights = blank(1e9)
    assert np.nanmean(slow.play(weights).end) > np.nanmean(flat.play(weights).end)
    asked = [sum(len(choice) for choice in imitation.choices(arena, INCUMBENT)) for arena in (flat, slow)]
    assert asked[1] > asked[0]  # there is more of a queue


def test_an_unfinished_training_with_other_speeds_is_not_gone_on_with(tmp_path, config_of):
    plain = config_of(tmp_path)
    speeds = SiteSpeeds("site", (SpeedGroup("*", "*", 50, spread={"spine": SpeedCell(0.5, 0.4, 0.6, "measured", 50)}),))
    other = replace(plain, select=[replace(window, speeds=speeds) for window in plain.select])
    assert EnsembleTraining(plain).plan != EnsembleTraining(other).plan
