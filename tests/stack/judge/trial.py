"""Many rounds on several Slurms side by side.

By hand, in tests/stack: ``python -m judge.trial SEEDS ROUNDS JOBS`` prints figures and differences.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from .clusters import random_cluster
from .rounds import Round, play, try_alone
from .slurm import running
from .verdict import Verdict, disputed

ABREAST = 6
"""Slurms at a time; most of their time is waiting for schedulers to look again."""


def played_on(seed: int, rounds: int, jobs: int) -> list[Round]:
    """Return the rounds of one cluster."""
    cluster, found = random_cluster(seed), []
    with running(cluster) as slurm:
        for number in range(rounds):
            played = play(slurm, cluster, seed * 1000 + number, jobs)
            try_alone(slurm, [case for case in played.cases if disputed(case)])
            _tell(played)
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


def _tell(played: Round) -> None:
    """Say on stderr how a round went, for whoever waits."""
    alone = Verdict()
    alone.judge(played)
    sys.stderr.write(f"{played.seed}: {dict(alone.counts)} {'with plans' if played.cluster.planning else ''}\n")


def main() -> None:
    """Print the figures of the seeds, rounds and jobs on the command line."""
    seeds, rounds, jobs = [int(seed) for seed in sys.argv[1].split(",")], int(sys.argv[2]), int(sys.argv[3])
    verdict = trial(seeds, rounds, jobs)
    sys.stdout.write(f"{verdict}\n{verdict.listed()}\n")


if __name__ == "__main__":
    main()
