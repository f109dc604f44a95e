"""Members of a training on a Ray cluster: ``RAY_ADDRESS`` names it, else Ray starts on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...storage.whole_files import write
from ..agents.kinds import TrainingError
from .members import BEST, LOOK_S, Member, MemberQueue, News, carry_out, ended, note


def side_by_side(members: Sequence[Member]) -> Iterator[News | None]:
    """Train members as Ray tasks, one CPU each; one whose worker or machine is lost is trained again elsewhere."""
    try:
        import ray  # an extra
    except ImportError as error:
        raise TrainingError("--engine ray needs Ray: pip install 'idlewatt[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, include_dashboard=False)
    # Lost members are counted here, where each is named; Ray would try again without a word.
    task, queue = ray.remote(max_retries=0)(train_apart), MemberQueue(members)
    running: dict[object, Member] = {}
    try:
        while queue or running:
            while queue:
                member = queue.next()
                running[task.remote(member)] = member
            ready, _ = ray.wait(list(running), timeout=LOOK_S)
            for reference in ready:
                member = running.pop(reference)
                try:
                    yield _brought(member, *ray.get(reference))
                except ray.exceptions.RayTaskError as error:
                    raise TrainingError(f"seed {member.seed}: {error.cause}") from error
                except ray.exceptions.RayError as error:
                    queue.again(member, str(error).strip().splitlines()[0])
            yield None
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if started:
            ray.shutdown()


def train_apart(member: Member) -> tuple[float | None, Mapping[str, bytes]]:
    """Train on a machine that need share no folder with ours; return the score and the files of the model."""
    with tempfile.TemporaryDirectory() as folder:
        here = replace(member, config=replace(member.config, folder=Path(folder, "course")))
        score = None
        for news in carry_out(here):
            score = news.score
        return score, {path.name: path.read_bytes() for path in sorted((here.folder / BEST).iterdir())}


def _brought(member: Member, score: float | None, files: Mapping[str, bytes]) -> News | None:
    """Put a model where the member would have kept it here."""
    (member.folder / BEST).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write(member.folder / BEST / name, content)
    note(member, score)
    return ended(member)
