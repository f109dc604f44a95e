"""The same replay gives the same digest of its event log on every machine, in every process and Python version."""

import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.workload import Workload

DIGESTS = {
    "fifo": "983bbe16eed8bdf0",
    "sjf-oracle+best-fit+easy": "3c33e39fff6c42c9",
    "ljf+first-fit+conservative": "97f4f533423c57c0",
    "srtf": "a7df678fd2a23c0a",
    "las": "21e34f487227492c",
    "drf": "d8a7d0def0ab50b6",
    "wfp3+nearest": "478e59b813ef4754",
    "qssf+fragmentation": "487f1bceb0067b27",
    "limit-aged+best-fit+easy": "18157c815d85611b",
    "random-feasible": "11d4e7f8c48e9098",
}
"""Recorded with Python 3.11 and 3.13. One that changes says that a policy decides otherwise, or that the log does;
``python tests/daemon/replay/test_determinism.py`` prints them anew."""


def digest(policy):
    """Replay 500 jobs that no library's random numbers have a part in."""
    state, drawn = 1, []
    for _ in range(4 * 500):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        drawn.append(state >> 33)
    cluster = Cluster.from_spec("3x8,2x4").with_events(
        [NodeEvent(2000.0, "node0001", "down"), NodeEvent(9000.0, "node0001", "up")])
    submit = [sum(draw % 97 for draw in drawn[:row]) for row in range(500)]
    run = [1 + draw % 2003 for draw in drawn[500:1000]]
    gpus = [1 + draw % 11 for draw in drawn[1000:1500]]
    work = Workload.of(submit, run, gpus, limit=[2 * seconds for seconds in run], user=[
        f"user{draw % 7}" for draw in drawn[1500:]], prediction=[seconds * 1.25 for seconds in run])
    return engine.run(cluster, work, named(policy), seed=7, preemption_s=30.0).digest


@pytest.mark.parametrize("policy", DIGESTS)
def test_the_digest_is_the_one_on_record(policy):
    assert digest(policy) == DIGESTS[policy]


if __name__ == "__main__":
    print("\n".join(f'    "{policy}": "{digest(policy)}",' for policy in DIGESTS))
