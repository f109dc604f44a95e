"""Several seeds of one training: who is trained where, who serves, and what happens to whom a worker took along."""

import json
from dataclasses import replace

import numpy as np
import pytest
import resizable
from chooser import chooser, loaded  # noqa: F401
from sites import site

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.checkpoint import save
from idlewatt.daemon.agents.histories import split
from idlewatt.daemon.agents.kinds import TrainingConfig, TrainingError
from idlewatt.daemon.learning import members
from idlewatt.daemon.learning.members import MemberQueue, News, alone, of_seeds, train
from idlewatt.daemon.learning.members_ray import side_by_side
from idlewatt.daemon.learning.models import ModelStore
from idlewatt.daemon.learning.training import TrainingDirectory, TrainingJob, TrainingRun
from idlewatt.storage.records import ModelCard

INCUMBENT = "fifo+first-fit+easy"


def made(folder, seeds=(0, 1, 2)):
    parts = split(site(days=14, jobs=1200))
    return of_seeds("chooser", lambda seed: TrainingConfig(
        replace(parts.fit, seed=seed), parts.select, INCUMBENT, seed, 60.0, folder), seeds)


def told(scores, *, ended=True):
    """An engine that only tells scores and leaves a model, by seed, in this order."""
    def engine(some):
        for member in some:
            card = ModelCard("chooser", "", 0.0, member.seed, "", "", "")
            save(member.folder / "best", card, {"jct": np.ones(1, np.float32)}, {})
        for seed, score in scores:
            yield None
            yield News(seed, 1.0, score, ended)

    return engine


def serves(folder):
    return json.loads((folder / "best" / "card.json").read_text())


@pytest.mark.parametrize("order", [((0, 0.9), (1, 0.8), (2, 0.8)), ((2, 0.8), (1, 0.8), (0, 0.9))])
def test_the_best_serves_and_of_equals_the_lowest_seed_whoever_is_done_first(tmp_path, order):
    last = list(train(made(tmp_path), told(order), tmp_path))[-1]
    assert (last.done, last.score) == (1.0, 0.8)
    assert serves(tmp_path)["seed"] == 1
    assert serves(tmp_path)["metrics"] == {"objective_by_seed_0": 0.9, "objective_by_seed_1": 0.8,
                                           "objective_by_seed_2": 0.8}


def test_a_member_that_falls_behind_lets_the_next_best_serve(tmp_path):
    engine = told(((0, 0.7), (1, 0.8), (0, 0.9)), ended=False)
    saved = [progress.saved for progress in train(made(tmp_path), engine, tmp_path)]
    assert saved == [False, True, False, False, False, True]
    assert serves(tmp_path)["seed"] == 1


def test_seeds_come_out_as_they_do_by_themselves_and_whoever_is_through_is_not_trained_again(tmp_path, chooser):  # noqa: F811
    both = made(tmp_path / "both", (0, 1))
    assert list(train(both, alone, tmp_path / "both"))[-1].done == 1.0
    for member in made(tmp_path / "single", (0, 1)):
        by_itself = list(chooser.train(member.config))[-1]
        assert loaded(member.folder / "best").choice == loaded(both[member.seed].folder / "best").choice
        assert json.loads((both[member.seed].folder / "ended.json").read_text()) == {"score": by_itself.score}
    (both[1].folder / "ended.json").unlink()
    asked = []
    list(train(both, lambda some: iter(asked.append([member.seed for member in some]) or ()), tmp_path / "both"))
    assert asked == [[1]]


def test_a_member_whose_worker_died_is_trained_again_but_not_for_ever(tmp_path):
    queue = MemberQueue(made(tmp_path))
    first = queue.next()
    queue.again(first, "status -9")
    assert len(queue) == 3
    assert queue.next() is first
    queue.again(first, "status -9")
    with pytest.raises(TrainingError, match=r"chooser with seed 0 .* died 3 times \(status -9\)"):
        queue.again(queue.next(), "status -9")


@pytest.mark.parametrize("note", ["[", "[" * 200_000])
def test_a_damaged_note_of_a_member_is_named(tmp_path, note):
    member, = made(tmp_path, (3,))
    member.folder.mkdir(parents=True)
    (member.folder / "ended.json").write_text(note)
    with pytest.raises(TrainingError, match=r"seed-3/ended.json: damaged"):
        next(train([member], alone, tmp_path))


def test_without_ray_the_command_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(TrainingError, match=r"pip install 'idlewatt\[ray\]'"):
        next(side_by_side(made(tmp_path)))


def trained(folder, engine):
    """Train two seeds of a real kind somewhere; return the weights that serve and those of each seed."""
    material = resizable.material()
    order = TrainingJob("dl2", material.source, 60.0, incumbent=resizable.INCUMBENT, steps=1, seeds=2)
    directory = TrainingDirectory(ModelStore(folder), "dl2")
    directory.begin(order)
    lesson = TrainingRun(order, split(material), directory, engine=engine)
    assert [progress.done for progress in lesson][-1] == 1.0
    load = kinds.kinds()["dl2"].load
    return [load(place / "best").weights for place in (directory.unfinished, directory.unfinished / "seed-0",
                                                       directory.unfinished / "seed-1")]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("alone"), "alone")


@pytest.mark.long
def test_processes_give_the_same_though_one_of_them_is_killed(tmp_path, monkeypatch, here):
    start, killed = members._started, []

    def started(member):
        member, process = start(member)
        if not killed:
            process.kill()
            killed.append(member.seed)
        return member, process

    monkeypatch.setattr(members, "_started", started)
    assert all(map(np.array_equal, trained(tmp_path, "processes"), here))
    assert killed == [0]


@pytest.mark.long
def test_a_ray_cluster_of_two_nodes_gives_the_same_though_one_node_is_lost(tmp_path, monkeypatch, here):
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    again, lost = MemberQueue.again, []
    try:
        other = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert sum(node["Alive"] for node in ray.nodes()) == 2
        assert all(map(np.array_equal, trained(tmp_path / "whole", "ray"), here))

        def looked(queue, member, why):
            lost.append(member.seed)
            again(queue, member, why)

        def waited(references, timeout, wait=ray.wait):
            if not lost and other in cluster.worker_nodes and ray.available_resources().get("CPU", 0) == 0:
                cluster.remove_node(other)  # both have a member now
            return wait(references, timeout=timeout)

        monkeypatch.setattr(MemberQueue, "again", looked)
        monkeypatch.setattr(ray, "wait", waited)
        assert all(map(np.array_equal, trained(tmp_path / "half", "ray"), here))
        assert len(lost) == 1
    finally:
        ray.shutdown()
        cluster.shutdown()
