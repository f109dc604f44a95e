"""Every job of the published Tiresias and Optimus runs in Pollux's arena, and its rules by hand."""

import numpy as np
import pytest

from idlewatt.daemon.reproduce.published.pollux import (
    LOADS,
    POLICIES,
    Artifact,
    OptimusOracle,
    PolluxJob,
    Tiresias,
    place_emptiest,
    replay,
    shape,
)
from idlewatt.daemon.reproduce.published.pollux_speed import Application, BatchSplit, canonical


@pytest.fixture(scope="module")
def artifact(traces):
    return Artifact(traces)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_ends_at_the_published_second(artifact, policy, load):
    for workload in range(1, 5):
        ours = replay(artifact.jobs(load, workload), POLICIES[policy]())
        assert ours == artifact.published(policy, load, workload)


@pytest.mark.parametrize(("policy", "means"), [
    ("tiresias", (2473.65, 5144.9625, 3876.25625, 3280.2625)),
    ("optimus", (4087.0625, 6913.875, 3944.00625, 5967.75)),
])
def test_published_means_at_normal_load_are_those_of_the_paper(artifact, policy, means):
    published = [artifact.published(policy, "1.0", workload) for workload in range(1, 5)]
    assert tuple(sum(jcts.values()) / len(jcts) for jcts in published) == means


def application(name="imagenet", epochs=90, seconds_a_step=1.0):
    """Return tables in which a step takes the same time everywhere and each epoch is 100 steps of gain 1."""
    column = 100.0 * np.arange(1, epochs + 1)
    validation = {"progress": column, "iteration": column, "grad_sqr": np.ones(epochs), "grad_var": np.zeros(epochs)}
    placements = [(placement, local, seconds_a_step, 0.0) for placement in ("1", "2", "3", "4", "11", "22", "44")
                  for local in (1, 200)]
    return Application(name, placements, [(6, 6, 1, 1.0, 0.0)], {200: validation, 400: validation})


@pytest.mark.parametrize(("placement", "name"), [((4, 2), "24"), ((2, 0, 4), "24"), ((1, 2, 1), "112"), ((4,), "4")])
def test_a_placement_is_named_by_its_smallest_rotation(placement, name):
    assert canonical(placement) == name


def test_a_batch_is_split_over_gpus_and_accumulation():
    assert application().split(200, 2) == BatchSplit(100, 0)
    assert application().split(400, 2) == BatchSplit(200, 0)


def test_a_lone_gpu_accumulates_above_the_smallest_batch():
    assert application().split(200, 1) == BatchSplit(200, 0)
    assert application().split(400, 1) == BatchSplit(200, 1)
    assert application().split(200, 1, lone_accumulates=True) == BatchSplit(100, 1)


def test_a_batch_outside_the_measured_range_is_an_error():
    with pytest.raises(ValueError, match="never measured"):
        application().times((2,), 500)


def test_the_first_start_costs_a_restart_and_epochs_end_on_whole_seconds():
    job = PolluxJob("a", 0, application(), 2, 200)
    job.place([0, 0])
    job.advance(60)  # 30 s of restart, 30 s of work
    assert (job.progress, job.epoch, job.restarts) == (30.0, 0, 1)
    job.advance(120)
    job.advance(180)
    assert (job.progress, job.epoch) == (150.0, 1)


def test_a_job_without_gpus_stands_still_and_keeps_its_progress():
    job = PolluxJob("a", 0, application(), 2, 200)
    job.place([0, 0])
    job.advance(60)
    job.place([])
    job.advance(120)
    assert job.progress == 30.0


def test_the_emptiest_node_is_filled_first_and_the_lowest_index_wins_a_tie():
    free = [4, 2, 4]
    assert place_emptiest(6, free) == [0, 0, 0, 0, 2, 2]
    assert free == [0, 2, 2]
    with pytest.raises(ValueError, match="not free"):
        place_emptiest(5, free)


def test_the_shape_of_an_allocation_keeps_its_order():
    assert shape([3, 3, 1]) == (2, 1)


def test_tiresias_skips_a_job_that_does_not_fit_and_demotes_by_gpu_time():
    jobs = [PolluxJob("large", 0, application(), 60, 200), PolluxJob("mid", 0, application(), 8, 200),
            PolluxJob("small", 0, application(), 4, 200)]
    policy = Tiresias()
    first = policy.decide(60, jobs, {})
    assert {name: len(nodes) for name, nodes in first.items()} == {"large": 60, "mid": 0, "small": 4}
    later = policy.decide(60 + 960, jobs, {name: nodes for name, nodes in first.items() if nodes})
    # 960 s on 60 GPUs are 16 GPU-hours: the large job falls behind the others.
    assert {name: len(nodes) for name, nodes in later.items()} == {"large": 0, "mid": 8, "small": 4}
    assert later["small"] == first["small"]


def test_optimus_gives_gpus_while_they_save_seconds():
    slow_alone = application()
    slow_alone.placements[:] = [(placement, local, 4.0 / len(placement) / int(placement[0]), 0.0)
                                for placement, local, _, _ in slow_alone.placements]
    jobs = [PolluxJob("a", 0, slow_alone, 1, 200), PolluxJob("ncf", 0, application("ncf", 10), 1, 200)]
    sizes = {name: len(nodes) for name, nodes in OptimusOracle().decide(60, jobs, {}).items()}
    assert sizes["ncf"] == 1
    assert sizes["a"] >= 4
