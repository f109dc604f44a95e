"""The numbers are those of ``sprio -l`` of a Slurm 22.05 on four nodes of 32 CPUs and four GPUs."""

from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.replay.priority.booking import add_up
from idlewatt.daemon.replay.priority.factors import Claims, Machine, age, job_size, priority, weighted
from idlewatt.daemon.settings.priority import PrioritySettings

MACHINE = Machine(4, 128)
SETTINGS = PrioritySettings(
    age=100000, fair_share=50000, job_size=20000, partition=8000, qos=30000, max_age_s=600,
    resources={"cpu": 3000, "mem": 500, "gres/gpu": 7000})


def columns(*values):
    return np.array(values, float)


CLAIMS = Claims(
    since=columns(0, 0), fair_share=columns(0, 0), nodes=columns(1, 1), cpus=columns(3, 3), limit_s=columns(300, 300),
    partition=columns(0.25, 1), qos=columns(0, 0), association=columns(0, 0),
    resources={"cpu": (columns(3, 3), columns(128, 128)), "mem": (columns(300, 300), columns(512000, 512000)),
               "gres/gpu": (columns(4, 4), columns(16, 16))}, nice=columns(3, 5))


def test_weighted_factors_and_the_priority_are_those_of_sprio():
    parts = weighted(SETTINGS, CLAIMS, MACHINE, 0.0)

    assert parts["JOBSIZE"] == pytest.approx([2734.375, 2734.375])
    assert parts["PARTITION"].tolist() == [2000, 8000]
    assert parts["TRES"] == pytest.approx([70.3125 + 0.29296875 + 1750] * 2)
    assert priority(parts).tolist() == [6551, 12549]


def test_age_grows_up_to_its_most():
    assert weighted(SETTINGS, CLAIMS, MACHINE, 300.0)["AGE"].tolist() == [50000, 50000]
    assert weighted(SETTINGS, CLAIMS, MACHINE, 3000.0)["AGE"].tolist() == [100000, 100000]


def test_favor_small_turns_the_size_around_and_relative_sizes_count_the_limit():
    small = replace(SETTINGS, favor_small=True)
    assert job_size(small, CLAIMS, MACHINE) == pytest.approx(1 - job_size(SETTINGS, CLAIMS, MACHINE))
    relative = replace(SETTINGS, flags=frozenset({"SMALL_RELATIVE_TO_TIME"}))
    assert job_size(relative, CLAIMS, MACHINE) == pytest.approx([32 / 5 / 128] * 2)


def test_a_priority_is_never_that_of_a_held_job():
    low = weighted(PrioritySettings(), replace(CLAIMS, nice=columns(50, 50)), MACHINE, 0.0)
    assert priority(low).tolist() == [1, 1]


@pytest.mark.parametrize(("weight", "share_weight", "oldest"), [(1000.0, 300.0, 600.0), (70.0, 0.0, 0.0)])
def test_what_a_clerk_adds_up_is_what_columns_of_factors_tell_to_the_bit(weight, share_weight, oldest):
    random = np.random.default_rng(2)
    rows, seats = np.flatnonzero(random.random(50) < 0.6), random.integers(0, 7, 50)
    fixed, since, shares = 1e4 * random.random(50), 1200.0 * random.random(rows.size), random.random(7)
    total = np.zeros(rows.size)
    add_up(rows, (weight, share_weight, oldest), 1000.0, fixed, since, shares, seats, total)

    settings = PrioritySettings(age=weight, fair_share=share_weight, max_age_s=oldest)
    wanted = fixed[rows] + weight * age(settings, since, 1000.0)
    assert total.tolist() == (wanted + share_weight * shares[seats[rows]]).tolist()
