"""Training the paper's agents on a site: which partitions fit, what is learned from, what is kept."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from idlewatt.daemon.agents.gist_mdrl import live
from idlewatt.daemon.agents.gist_mdrl import site_training as training
from idlewatt.daemon.agents.gist_mdrl.agent import GistAgent, Hyperparameters
from idlewatt.daemon.agents.gist_mdrl.live import SERVING
from idlewatt.daemon.agents.gist_mdrl.site import Episodes, flavors_of, gist_partitions, single_server
from idlewatt.daemon.agents.kinds import Figures, Objective, TraceWindow, TrainingConfig, TrainingError
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.settings.flavours import FlavourSettings

HOUR_S = 3600.0


def window(number=0, *, jobs=200, sizes=(1, 2, 4, 8), nodes=2, extra=(), **columns):
    random = np.random.default_rng(number)
    cluster = Cluster.from_mapping({"nodes": [
        {"name": "a", "count": nodes, "gpus": 8, "partitions": ["a"]}, *extra]})
    return TraceWindow(cluster, Workload.of(
        np.sort(random.uniform(0, 60 * HOUR_S, jobs)), random.uniform(HOUR_S, 8 * HOUR_S, jobs),
        random.choice(sizes, jobs), partition=["a"] * jobs, **columns), 10 * HOUR_S)


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "VALUES", Hyperparameters(batch=8, warm_up=8, discount=0.9))
    monkeypatch.setattr(training, "ROUND", 2)
    return TrainingConfig(window, [window(99, jobs=80)], "fifo+first-fit", 0, 1e9, tmp_path / "course")


def test_flavours_are_the_sizes_that_occur_with_the_limits_that_nearly_all_keep():
    limited = window(limit=np.where(np.arange(200) < 195, 9 * HOUR_S, 900 * HOUR_S))
    jobs = single_server(ClusterState.of(window().cluster, window().workload), "a")
    partition = gist_partitions(window(sizes=(1, 3, 8, 16)))[0]["a"]
    assert [(flavor.name, flavor.rate) for flavor in partition.flavors] == [
        ("1-gpu", 1 / 16), ("4-gpu", 4 / 16), ("8-gpu", 8 / 16)]
    assert partition.terminal.gpus == 16
    assert {flavor.limit_s for flavor in gist_partitions(limited)[0]["a"].flavors} == {9 * HOUR_S}
    nearly_all = np.quantile(jobs.run_s[jobs.gpus == 1], 0.95, method="higher")
    assert gist_partitions(window())[0]["a"].flavors[0].limit_s == pytest.approx(nearly_all), "where nobody has a limit"


TABLE = [FlavourSettings(name="large", gpus=8, limit=8 * HOUR_S),
         FlavourSettings(name="long", gpus=2, limit=9 * HOUR_S),
         FlavourSettings(name="short", gpus=2, limit=2 * HOUR_S),
         FlavourSettings(name="other", gpus=4, partition="b")]


def test_configured_flavours_are_the_agents_and_two_may_differ_in_their_limit_alone():
    partition = gist_partitions(window(), TABLE)[0]["a"]
    assert [(flavor.name, flavor.gpus, flavor.limit_s) for flavor in partition.flavors] == [
        ("short", 2, 2 * HOUR_S), ("long", 2, 9 * HOUR_S), ("large", 8, 8 * HOUR_S)]
    names = GistAgent(partition, SERVING).encoder.names
    assert {"queued short", "queued long", "queued large"} <= set(names)
    gpus, limit_s = np.array([1, 2, 2, 3, 9]), np.array([HOUR_S, 3 * HOUR_S, 99 * HOUR_S, 1.0, 1.0])
    assert flavors_of(partition, gpus, limit_s).tolist() == [0, 1, 1, 2, -1]


def test_a_flavour_that_no_partition_can_hold_is_refused_with_its_place(config):
    with pytest.raises(TrainingError, match=r"flavours\[1\] \(huge\): no partition can hold it"):
        next(training.train(replace(config, flavours=(TABLE[0], FlavourSettings(name="huge", gpus=17)))))


def test_too_few_configured_flavours_are_refused_with_what_to_do(config):
    with pytest.raises(TrainingError, match="fewer than two configured flavours are for single servers of a"):
        next(training.train(replace(config, flavours=(TABLE[0],))))


def test_jobs_of_no_flavour_are_told_with_the_reason(config, caplog):
    next(training.train(replace(config, flavours=tuple(TABLE[:3]))))
    assert re.search(r"\d+ of \d+ single-server jobs of partition a are of no flavour; of the first: it asks for no "
                     "time limit, and the longest flavour of its size", caplog.text)


def test_fine_tuning_goes_on_from_the_agents_of_partitions_that_are_there_alike(config, tmp_path, caplog):
    list(itertools.islice(training.train(config), 2))
    before = live.load(config.folder / "best").agents["a"].weights
    again = replace(config, folder=tmp_path / "again", start=config.folder / "best", steps=1)
    assert "anew" not in caplog.text
    list(training.train(again))
    ours = live.load(tmp_path / "again" / "best").agents["a"].weights
    assert max(float(np.abs(ours[layer] - before[layer]).max()) for layer in ours) < 0.05
    flavours = tuple(TABLE[:3])
    list(training.train(replace(again, folder=tmp_path / "other", flavours=flavours)))
    assert "partition a is learned anew: its flavours or servers are others now" in caplog.text


def test_a_partition_that_was_renamed_between_trainings_is_learned_anew_and_that_is_said(config, tmp_path, caplog):
    training._training(replace(config, start=tmp_path), gist_partitions(window())[0]["a"], 0, [window()], None)
    assert "partition a is learned anew: the model to go on from has no agent for it" in caplog.text


def test_the_names_of_flavours_are_kept_with_the_weights(config):
    next(training.train(replace(config, flavours=tuple(TABLE[:3]))))
    loaded = live.load(config.folder / "best").agents["a"]
    assert [flavor.name for flavor in loaded.partition.flavors] == ["short", "long", "large"]


@pytest.mark.parametrize(("changed", "why"), [
    ({"nodes": 1}, "fewer than 2 servers with GPUs"),
    ({"extra": [{"name": "z", "gpus": 8, "partitions": ["a", "other"]}]}, "shares nodes with other"),
    ({"jobs": 20}, "20 single-server jobs are too few"),
    ({"sizes": (4,)}, "want as many GPUs")])
def test_a_partition_of_another_form_is_refused_with_the_reason(config, changed, why):
    with pytest.raises(TrainingError, match=why):
        next(training.train(replace(config, fit=lambda number: window(number, **changed))))


def test_episodes_are_pieces_of_history_that_do_not_tell_how_long_jobs_run():
    whole = window()
    jobs = single_server(ClusterState.of(whole.cluster, whole.workload), "a")
    draw = Episodes(gist_partitions(whole)[0]["a"], {0: jobs})
    episode = draw(np.random.default_rng(3))
    assert len(episode) >= Episodes.FEWEST
    assert {arrival.run_s for arrival in episode} <= set(jobs.run_s.tolist())
    assert [arrival.submit_s for arrival in episode] == sorted(arrival.submit_s for arrival in episode)
    assert episode[-1].submit_s <= np.mean([arrival.run_s for arrival in episode]) + 1.0


def test_the_best_agents_are_kept_and_can_be_loaded(config):
    progress = list(itertools.islice(training.train(config), 3))
    assert progress[0].saved
    assert progress[0].score > 0
    loaded = live.load(config.folder / "best")
    assert list(loaded.agents) == ["a"]
    assert loaded.doubt(ClusterState.of(window().cluster, window().workload)) is None
    assert all(later.score <= earlier.score for earlier, later in itertools.pairwise(progress))


@pytest.mark.parametrize(("used", "mode"), [
    ({"listened": 0.6}, "listened"), ({"listened": 0.49, "abstains": 0.49}, "first_fit"),
    ({"listened": 0.49}, "abstains"), ({"listened": 0.5}, "abstains")])
def test_who_has_less_utilisation_than_first_fit_on_later_days_is_not_listened_to(config, monkeypatch, used, mode):
    def replayed(policy, window, config):
        # What is not listened to looks a little better than first fit, and whoever loses utilisation much faster.
        tried = getattr(policy, "mode", "first_fit")
        use = used.get(tried, 0.5 + 0.01 * (tried == "abstains"))
        return Figures(1.0 if use < 0.5 else 50.0, 1.0, 1.0, 1.0, None, use)

    monkeypatch.setattr(training, "_replayed", replayed)
    list(training.train(replace(config, steps=1, objective=Objective(1.0, 0.0, 0.0, utilization=9.0))))
    assert live.load(config.folder / "best").mode == mode


def test_an_interrupted_training_goes_on(config):
    first = list(itertools.islice(training.train(config), 2))[-1]
    state = training.train(config)
    second = next(state)
    assert second.score <= first.score
    assert second.done >= first.done
    with pytest.raises(TrainingError, match="cannot be gone on with"):
        next(training.train(replace(config, seed=1)))


def test_a_training_that_goes_on_with_fewer_steps_than_it_has_made_is_through(config):
    list(training.train(replace(config, steps=4)))
    assert [progress.done for progress in training.train(replace(config, steps=3))] == [1.0]


def test_partitions_without_an_agent_are_told(config, caplog):
    mixed = replace(config, fit=lambda number: window(number, extra=[
        {"name": "z", "gpus": 8, "partitions": ["lonely"]}]))
    next(training.train(mixed))
    assert "partition lonely gets no agent" in caplog.text


def test_a_training_ends_when_the_budget_is_spent(config):
    steps = list(training.train(replace(config, budget_s=1e-9)))
    assert [step.done for step in steps] == [1.0]
    assert steps[0].saved


def test_a_device_that_is_not_there_is_told(config):
    if torch.cuda.is_available():
        assert next(training.train(replace(config, device="auto"))).saved
        return
    with pytest.raises(TrainingError, match="no CUDA device here"):
        next(training.train(replace(config, device="cuda")))


@pytest.mark.long
def test_so_many_steps_give_the_same_weights_twice_interrupted_or_not(config, tmp_path):
    for name, stops in (("one", False), ("two", True)):
        counted = replace(config, folder=tmp_path / name, steps=5)
        if stops:
            list(itertools.islice(training.train(counted), 1))
        assert list(training.train(counted))[-1].done == 1.0
    ours, theirs = (live.load(tmp_path / name / "best").agents["a"].weights for name in ("one", "two"))
    assert all(np.array_equal(ours[layer], theirs[layer]) for layer in ours)
