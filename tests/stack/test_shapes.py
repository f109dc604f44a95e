"""Smaller requests as they are printed, on a real Slurm: it takes them, and they start."""

import pytest
from judge.clusters import random_cluster
from judge.rounds import play
from judge.shapes import in_place, try_shapes
from judge.slurm import running

SEED, ROUND = 1501, 1501001
"""A round after which jobs wait that would start as smaller ones."""


@pytest.mark.parametrize(("asked", "told", "options"), [
    ("-p all -t30 --gres=gpu:a100:4 -c8", "--nodes=1 --gpus-per-node=2 --cpus-per-task=4",
     "-p all -t30 --nodes=1 --gpus-per-node=2 --cpus-per-task=4"),
    ("-N1 --gpus=8 --mem=0 -t60", "--cpus-per-task=2 --mem=100M", "-N1 --gpus=8 -t60 --cpus-per-task=2 --mem=100M"),
    ("--gpus=8 -t60", "--time=30", "--gpus=8 --time=30")])
def test_options_that_are_told_stand_in_place_of_a_jobs_own(asked, told, options):
    assert in_place(asked.split(), told) == tuple(options.split())


@pytest.mark.long
@pytest.mark.stack
@pytest.mark.xdist_group("judges")
@pytest.mark.timeout(1800)
def test_smaller_requests_that_are_told_to_start_do_so_on_a_real_slurm(capsys):
    cluster = random_cluster(SEED)
    with running(cluster) as slurm:
        tried = try_shapes(slurm, play(slurm, cluster, ROUND, 40), 2)

    with capsys.disabled():
        print("", *tried, sep="\n")
    assert tried
    assert {one.state for one in tried} == {"RUNNING"}
