"""Many rounds on several Slurms side by side: `python -m judge.trial SEEDS ROUNDS JOBS` prints figures and differences."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from .clusters import random_cluster
from .rounds import Round, play, try_alone
from .slurm import running
from .verdict import Verdict, disputed

ABREAST = 3
"""Slurms at a time; most of their time is waiting for schedulers to look again."""


def played_on(seed: int, rounds: int, jobs: int) -> list[Round]:
    """Return the rounds of one cluster."""
    cluster, found = random_cluster(seed), []
    with running(cluster) as slurm:
        for number in range(rounds):
            played = play(slurm, cluster, seed * 1000 + number, jobs)
            try_alone(slurm, [case for case in played.cases if disputed(case)])
            found.append(played)
    return found


def trial(seeds: Iterable[int], rounds: int, jobs: int) -> Verdict:
    """Return the verdict over all rounds of the clusters of these seeds."""
    verdict = Verdict()
    with ThreadPoolExecutor(ABREAST) as pool:
        for found in pool.map(lambda seed: played_on(seed, rounds, jobs), seeds):
            for played in found:
                verdict.judge(played)
    return verdict


def main() -> None:
    """Print the figures of the seeds, rounds and jobs on the command line."""
    seeds, rounds, jobs = sys.argv[1:4]
    verdict = trial(map(int, seeds.split(",")), int(rounds), int(jobs))
    sys.stdout.write(f"{verdict}\n{verdict.listed()}\n")


if __name__ == "__main__":
    main()
