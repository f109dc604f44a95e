"""Many rounds on several Slurms side by side.

By hand, in tests/stack: ``python -m judge.trial SEEDS ROUNDS JOBS`` prints figures and differences.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from .clusters import random_cluster
from .rounds import Round, play, try_alone
from .slurm import running
from .verdict import Verdict, disputed

ABREAST = 6
"""Slurms at a time; most of their time is waiting for schedulers to look again."""


def played_on(seed: int, rounds: int, jobs: int) -> Iterator[Round | AssertionError]:
    """Yield the rounds of one cluster; one that breaks off, as where Slurm looks no more in time, is the last."""
    cluster, place = random_cluster(seed), f"{seed}, as its Slurm starts"
    try:
        with running(cluster) as slurm:
            for number in range(rounds):
                place = str(seed * 1000 + number)
                played = play(slurm, cluster, seed * 1000 + number, jobs)
                try_alone(slurm, [case for case in played.cases if disputed(case)])
                _tell(played)
                yield played
    except AssertionError as error:
        yield AssertionError(f"{place}: {error}")


def trial(seeds: Iterable[int], rounds: int, jobs: int) -> Verdict:
    """Return the verdict over all rounds of the clusters of these seeds."""
    verdict = Verdict()
    with ThreadPoolExecutor(ABREAST) as pool:
        for found in pool.map(lambda seed: list(played_on(seed, rounds, jobs)), seeds):
            for played in found:
                if isinstance(played, Round):
                    verdict.judge(played)
                else:
                    verdict.break_off(played)
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
