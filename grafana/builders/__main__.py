"""``python -m idlewatt.grafana.builders``: write every dashboard's JSON into ``grafana/dashboards``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import advice, cluster_waste, follow, health, job, jobs, learning, node, partitions, racks, resources, user

DASHBOARDS: dict[str, Callable[[], str]] = {
    "cluster-waste": cluster_waste.build,
    "partitions": partitions.build,
    "jobs": jobs.build,
    "job": job.build,
    "user": user.build,
    "node": node.build,
    "racks": racks.build,
    "resources": resources.build,
    "advice": advice.build,
    "follow": follow.build,
    "learning": learning.build,
    "health": health.build,
}
FOLDER = Path(__file__).parents[1] / "dashboards"


def write() -> None:
    """Write the dashboards."""
    for name, build in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    write()
