"""``idlewatt reproduce gist --real CONFIG``: runs episodes, saves each result at once, and writes the report."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from .....storage.follow_ledger import FollowLedger
from ....agents.gist_mdrl.environment import HOUR_S, sequences
from ....follow.slurm import SlurmError
from ...failures import ReproductionError
from ...progress import progress
from .cluster import RealSlurm
from .config import PolicyName, RealSettings, load
from .episode import Played, PlayedEpisode
from .policies import Delay, Players, chosen
from .report import PlayedAndPredicted, write

BEAT_S = 0.05
RESULTS = "real.jsonl"
Turn = tuple[PolicyName, int]


def run(config: Path, out: Path) -> Mapping[str, Path]:
    """Run the experiment and write its report; Ctrl-C cancels running jobs, and the same command continues later."""
    settings = load(config)
    out.mkdir(parents=True, exist_ok=True)
    settings.scratch.mkdir(parents=True, exist_ok=True)
    players = Players(settings, out / "runs")
    turns: list[Turn] = [(policy, number) for number in chosen(players.kind, settings.sequences)
                         for policy in settings.policies]
    results = done(settings, out)
    missing = [turn for turn in turns if turn not in results]
    try:
        with FollowLedger.own(out / "follow.db") as ledger:
            for result in _played(settings, players, ledger, missing):
                _keep(settings, out, result)
                results[result.policy, result.number] = result
    except SlurmError as error:
        raise ReproductionError(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"interrupted after {len(results)} of {len(turns)} episodes; the same command goes on", err=True)
    return write(settings, [results[turn] for turn in turns if turn in results], out)


def _played(settings: RealSettings, players: Players, ledger: FollowLedger,
            turns: list[Turn]) -> Iterator[PlayedAndPredicted]:
    """Yield results as they come; a partition's next episode starts as soon as it is free."""
    cluster = RealSlurm(settings, ledger)
    free = [(name, cluster.servers(name, players.kind)) for name in settings.partitions]
    waiting, playing, next_s = list(turns), dict[Turn, PlayedEpisode](), time.time()
    with progress() as bar, _cleared(cluster, playing):
        task = bar.add_task("playing", total=len(turns))
        while waiting or playing:
            now_s = time.time()
            if waiting and free and now_s >= next_s:
                turn, (partition, servers) = waiting.pop(0), free.pop(0)
                playing[turn] = _episode(settings, players, cluster, turn, partition, servers)
                next_s = now_s + settings.stagger
            cluster.follower.look()
            pinned = cluster.pinned()
            for turn, episode in list(playing.items()):
                if (played := episode.poll(time.time(), pinned)) is not None:
                    cluster.cancel(episode.jobs)
                    free.append((episode.partition, episode.servers))
                    del playing[turn]
                    bar.update(task, advance=1, description=f"{turn[0]} {turn[1]}: U {played.utilization:.3f}")
                    yield _result(players, turn, played)
            time.sleep(BEAT_S)


def _episode(settings: RealSettings, players: Players, cluster: RealSlurm, turn: Turn, partition: str,
             servers: tuple[str, ...]) -> PlayedEpisode:
    policy, number = turn
    # A name of its own for each try: notes of one that was interrupted are nobody's.
    name = f"gist-{policy}-{number}-{time.time_ns()}"
    return PlayedEpisode(cluster, players.kind, partition, servers, name, sequences(players.kind)[number],
                         players.player(policy, number), settings.hour, policy != "slurm", time.time())


def _result(players: Players, turn: Turn, played: Played) -> PlayedAndPredicted:
    policy, number = turn
    scale, plain = HOUR_S / players.hour_s, players.predicted(policy, number)
    late = players.predicted(policy, number, Delay(played.latency_s * scale, played.noticed_s * scale))
    return PlayedAndPredicted(policy, number, played.utilization, played.terminal_start_h, plain.utilization,
                              plain.terminal_h,
                              played.latency_s, played.strayed, len(played.decisions), late.utilization, played.slurm_s,
                              played.noticed_s, played.decisions == late.decisions)


@contextmanager
def _cleared(cluster: RealSlurm, playing: dict[Turn, PlayedEpisode]) -> Iterator[None]:
    """Cancel all jobs and take back all changes at the end of the experiment, in every case."""
    try:
        yield
    finally:
        cluster.cancel([job for episode in playing.values() for job in episode.jobs])
        cluster.follower.take_all_back("the experiment is over")


def key(settings: RealSettings) -> str:
    """Return the digest of everything that a result depends on except policy and sequence."""
    stored = settings.model_dump(mode="json", include={"kind", "hour", "seed", "user"})
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]


def done(settings: RealSettings, out: Path) -> dict[Turn, PlayedAndPredicted]:
    """Return the results of an earlier run of the same experiment; an incomplete line is ignored and repeated."""
    results: dict[Turn, PlayedAndPredicted] = {}
    try:
        lines = (out / RESULTS).read_text().splitlines()
    except FileNotFoundError:
        return results
    for line in lines:
        try:
            stored = json.loads(line)
            result = PlayedAndPredicted(**stored["result"])
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if stored.get("key") == key(settings):
            results[result.policy, result.number] = result
    return results


def _keep(settings: RealSettings, out: Path, result: PlayedAndPredicted) -> None:
    with (out / RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key(settings), "result": asdict(result)}) + "\n")
