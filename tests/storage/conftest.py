"""Every test of the history runs on both databases: SQLite in a file, PostgreSQL of its own on a socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import database, migrated

from idlewatt.storage.history import History
from idlewatt.storage.recommendations import Placement, Recommendation
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database; a server makes one for the history as a copy of one with its schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.db?timeout=0.1"
    server = request.getfixturevalue("postgres")
    filled = "history" in request.fixturenames and "real_migrations" not in request.fixturenames
    return database(server, "history", migrated(server) if filled else "template1")


@pytest.fixture
def history(url: str) -> Iterator[History]:
    with History.open(url) as opened:
        yield opened


class Make:
    """Short spellings of records."""

    @staticmethod
    def job(job_id: str = "1", submit_s: float = 100.0, state: JobState = JobState.PENDING, **more) -> Job:
        return Job(job_id, submit_s, state, "gpu", Request(gpus=2), **more)

    @classmethod
    def running(cls, start_s: float, *parts: Allocation, **more) -> Job:
        return cls.job(state=JobState.RUNNING, start_s=start_s, allocations=parts, **more)

    @classmethod
    def ended(cls, start_s: float | None, end_s: float, state: JobState = JobState.COMPLETED, **more) -> Job:
        return cls.job(state=state, start_s=start_s, end_s=end_s, **more)

    @staticmethod
    def node(name: str = "a", **more) -> Node:
        return Node(name, ("gpu",), 8, **more)

    @staticmethod
    def advice(issued_s: float, *nodes: str, action: str = "start", policy: str = "easy", **more) -> Recommendation:
        placement = Placement(nodes, (2,) * len(nodes)) if nodes else None
        return Recommendation(**{"job_id": "1", "submit_s": 100.0, "partition": "gpu", "issued_s": issued_s,
                                 "policy": policy, "objective": "jct", "action": action, "reason": "best fit",
                                 "placement": placement} | more)


@pytest.fixture(scope="session")
def make() -> type[Make]:
    return Make
