"""``idlewatt reproduce dl2``: agents are trained for DL2's simulation and tried beside its baselines."""

from __future__ import annotations

import importlib
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import Progress

from ..evolution import card_of, followed
from ..failures import ReproductionError
from ..progress import progress, resumable
from ..published.pollux import Artifact
from ..report import write_report
from . import claims, pollux_trial, speeds
from .arena import cluster
from .kernel import ArenaCluster
from .setting import Setting
from .sizefree.agent import SizeFree
from .sizefree.train import POOL, ElasticBench, course
from .trial import Contest, contest

if TYPE_CHECKING:
    from .literal import AblationStudy


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Train for each limit of workers, replay and write the report, with the agents beside it."""
    artifact = None if traces is None else _artifact(traces)  # what is missing should come up before training
    if setting.updates:
        importlib.import_module("torch")
    with resumable(), progress() as bar:
        sites = {limit: cluster(limit, None if setting.speeds is None else speeds.measured(setting.speeds, limit))
                 for limit in setting.most}
        facts = claims.facts([_contest(out, site, setting, bar) for site in sites.values()])
        facts["own"] = _own_agent(out, sites[setting.most[0]], setting, bar) if setting.updates else None
        facts["pollux"] = None if artifact is None else _arena(artifact, bar)
    return write_report(out, "dl2/report.md.j2", facts)


def _artifact(traces: Path) -> Artifact:
    try:
        return Artifact(traces)
    except (tarfile.TarError, EOFError) as error:
        raise ReproductionError(f"{traces}: the archive of Pollux's artifact cannot be read: {error}") from error


def _arena(artifact: Artifact, bar: Progress) -> pollux_trial.PolluxResult:
    task = bar.add_task("Pollux's arena", total=pollux_trial.REPLAYS)
    return pollux_trial.carry_out(artifact, lambda done, total: bar.update(task, completed=done, total=total))


def _contest(out: Path, site: ArenaCluster, setting: Setting, bar: Progress) -> Contest:
    config, folder = course(setting.seed, setting.rounds), out / "models" / f"workers-{site.most}"
    step = followed(f"at most {site.most} workers", config, ElasticBench(site, setting.seed), folder, bar)
    source = f"{POOL} traces of DL2's generator, seed {setting.seed}"
    SizeFree(step.best).save(folder, card_of("dl2", config, step, "jct_slots", source))
    return contest(site, step, measured=setting.speeds is not None, plans=setting.plans)


def _own_agent(out: Path, site: ArenaCluster, setting: Setting, bar: Progress) -> AblationStudy:
    from . import literal  # torch

    task = bar.add_task("DL2's own agent", total=1.0)
    return literal.carry_out(site, setting.updates, setting.seed, out / "literal",
                             lambda told, done: bar.update(task, completed=done, description=told))
