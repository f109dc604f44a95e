"""One training by several seeds: each is a member; members are trained somewhere, and the best of them serves.

Where that is changes nothing in what comes of it: an engine is a function ``(members) -> news as it comes``, and a
member learns by its own seed in a folder of its own. The one that does best on later history serves; of equals the
lowest seed.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shutil
import signal
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from ...storage.whole_files import write
from ..agents.checkpoint import CARD, CheckpointError, read_card, write_card
from ..agents.kinds import Progress, TrainingConfig, TrainingError, kinds
from ..agents.training_loop import WAY

BEST = "best"
ENDED = "ended.json"
"""Stands in the folder of a member that is through: its score, or why there is none."""
LOOK_S = 0.5
"""Seconds after which a wait for workers reports that it goes on, and hears of Ctrl-C."""
TRIES = 3
"""A member whose worker dies is trained again, so often in all."""


@dataclass(frozen=True)
class Member:
    """A training by one seed."""

    agent: str
    config: TrainingConfig
    """The config of the training, with a seed and a folder of the member's own."""

    @property
    def seed(self) -> int:
        """Return what tells it from the others."""
        return self.config.seed

    @property
    def folder(self) -> Path:
        """Return where it keeps itself."""
        return self.config.folder


@dataclass(frozen=True)
class News:
    """The news of a member."""

    seed: int
    done: float
    """0..1."""
    score: float | None
    """The score of the best model that the member has saved; None before it has saved one."""
    ended: bool = False


Engine = Callable[[Sequence[Member]], Iterator[News | None]]
"""Yields None where there is no news."""


class MemberQueue:
    """Members that are still to be trained; one whose worker died comes again, and none is dropped."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._left, self._lost = deque(members), Counter[int]()

    def __len__(self) -> int:
        """Return how many are left."""
        return len(self._left)

    def next(self) -> Member:
        """Return the next member, which leaves the queue."""
        return self._left.popleft()

    def again(self, member: Member, why: str) -> None:
        """Put back a member whose worker died; ``TrainingError`` when that has happened too often."""
        self._lost[member.seed] += 1
        if self._lost[member.seed] >= TRIES:
            raise TrainingError(f"{member.agent} with seed {member.seed} is not trained: its worker died {TRIES} times "
                                f"({why}), perhaps for want of memory")
        self._left.appendleft(member)


def train(members: Sequence[Member], engine: Engine, folder: Path) -> Iterator[Progress]:
    """Train members and yield how far they have come together; ``folder / "best"`` holds the best of them.

    A member that ended before an interruption is not trained again. ``TrainingError`` is raised where the kind's own
    training raises it.
    """
    done, scores = dict.fromkeys((member.seed for member in members), 0.0), dict[int, float]()
    with closing(_news(members, engine)) as news:
        for report in news:
            saved = False
            if report is not None:
                done[report.seed] = report.done
                saved = _better(report, scores)
            if saved:
                _adopt(members, scores, folder)
            yield Progress(sum(done.values()) / len(done), min(scores.values(), default=None), saved)


def of_seeds(agent: str, config_of: Callable[[int], TrainingConfig], seeds: Sequence[int]) -> list[Member]:
    """Return a member for each seed; its folder is below that of its config."""
    configs = [config_of(seed) for seed in seeds]
    return [Member(agent, replace(config, folder=config.folder / f"seed-{config.seed}")) for config in configs]


def _news(members: Sequence[Member], engine: Engine) -> Generator[News | None, None, None]:
    """Yield the news of members, first of those that were through already."""
    left = []
    for member in members:
        final_news = ended(member)
        if final_news is None:
            left.append(member)
        else:
            yield final_news
    if left:
        yield from engine(left)


def _better(news: News, scores: dict[int, float]) -> bool:
    """Take a member's score; tell whether another model serves now, or there is more to report of all."""
    if news.score is None:
        return False
    before, changed = _first(scores), scores.get(news.seed) != news.score
    scores[news.seed] = news.score
    return news.ended or _first(scores) != before or (changed and before == news.seed)


def _first(scores: Mapping[int, float]) -> int | None:
    """Return the seed that does best, the lowest of equals; None while there is none."""
    return min(scores, key=lambda seed: (scores[seed], seed), default=None)


def _adopt(members: Sequence[Member], scores: Mapping[int, float], folder: Path) -> None:
    """Make the best member's model that of all, whole or not at all, with every seed's score on its card."""
    first = _first(scores)
    source = next(member.folder for member in members if member.seed == first) / BEST
    draft = folder / f".{BEST}.{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft)
    card = read_card(draft / CARD)
    metrics = {f"{WAY}seed_{seed}": score for seed, score in sorted(scores.items()) if math.isfinite(score)}
    write_card(draft, replace(card, metrics={**card.metrics, **metrics}))
    shutil.rmtree(folder / BEST, ignore_errors=True)
    draft.replace(folder / BEST)


def carry_out(member: Member) -> Generator[News, None, None]:
    """Train a member, and note in its folder that it is through; what it left there is gone on with."""
    score = None
    for progress in kinds()[member.agent].train(member.config):
        score = progress.score
        yield News(member.seed, progress.done, score)
    note(member, score)
    final_news = ended(member)
    assert final_news is not None
    yield final_news


def note(member: Member, score: float | None) -> None:
    """Note that a member is through; one that was killed before it could tell has its score on its card."""
    if score is None and (member.folder / BEST / CARD).exists():
        score = read_card(member.folder / BEST / CARD).metrics.get("objective_select")
    write(member.folder / ENDED, json.dumps({"score": score}).encode())


def ended(member: Member) -> News | None:
    """Return the last news of a member that is through, None of another; ``TrainingError`` tells why it failed."""
    try:
        result = json.loads((member.folder / ENDED).read_bytes())
        failed, score = result.get("failed"), result.get("score")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise TrainingError(f"{member.folder / ENDED}: damaged: {error}; remove it to train that seed again") from error
    if failed is not None:
        (member.folder / ENDED).unlink()  # to be tried again another time
        raise TrainingError(failed)
    return News(member.seed, 1.0, score, ended=True)


def alone(members: Sequence[Member]) -> Iterator[News | None]:
    """Train one member after the other in this process."""
    for member in members:
        with closing(carry_out(member)) as news:
            yield from news


def processes(members: Sequence[Member], workers: int | None = None) -> Iterator[News | None]:
    """Train members in processes of this machine, so many at a time; one whose process dies goes on in another."""
    queue, running = MemberQueue(members), dict[int, tuple[Member, SpawnProcess]]()
    try:
        while queue or running:
            while queue and len(running) < (workers or os.cpu_count() or 1):
                member, process = _started(queue.next())
                running[process.sentinel] = member, process
            wait(list(running), LOOK_S)
            for sentinel, (member, process) in list(running.items()):
                if process.is_alive():
                    continue
                del running[sentinel]
                news = ended(member)
                if news is None:
                    queue.again(member, f"status {process.exitcode}")
                yield news
            yield None
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _started(member: Member) -> tuple[Member, SpawnProcess]:
    process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(member,), daemon=True)
    process.start()
    return member, process


def _in_a_process(member: Member) -> None:
    """Train a member in a process of its own; why it cannot be is left in its folder."""
    # Ctrl-C reaches all that run in a terminal: the process that started this one hears of it, and ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for _ in carry_out(member):
            pass
    except (TrainingError, CheckpointError, ArithmeticError) as error:
        member.folder.mkdir(parents=True, exist_ok=True)
        write(member.folder / ENDED, json.dumps({"failed": str(error)}).encode())
