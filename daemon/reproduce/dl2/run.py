"""``idlewatt reproduce dl2``: trains DL2's agent and compares it with its baselines and our rule in its simulation."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import Progress

from ..progress import progress, resumable
from ..report import write_report
from . import claims, speeds
from .arena import cluster
from .kernel import ArenaCluster
from .setting import Setting
from .trial import contest

if TYPE_CHECKING:
    from .literal import AblationStudy


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Replay with each limit of workers, train for the first limit, and write the report and the agents."""
    if setting.updates:
        importlib.import_module("torch")
    with resumable(), progress() as bar:
        sites = {limit: cluster(limit, None if setting.speeds is None else speeds.measured(setting.speeds, limit))
                 for limit in setting.most}
        facts = claims.facts([contest(site, measured=setting.speeds is not None, plans=setting.plans)
                              for site in bar.track(sites.values(), description="replays")])
        facts["own"] = _own_agent(out, sites[setting.most[0]], setting, bar) if setting.updates else None
    return write_report(out, "dl2/report.md.j2", facts)


def _own_agent(out: Path, site: ArenaCluster, setting: Setting, bar: Progress) -> AblationStudy:
    from . import literal  # torch

    task = bar.add_task("DL2's own agent", total=1.0)
    return literal.carry_out(site, setting.updates, setting.seed, out / "literal",
                             lambda message, done: bar.update(task, completed=done, description=message))
