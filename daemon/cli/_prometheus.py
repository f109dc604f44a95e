"""A Prometheus for the demo: blocks of the simulated past, recording rules over them, and scrapes of the present."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import yaml

from . import _openmetrics as openmetrics
from ._output import Row
from ._parts import DemoError, answered, child
from ._progress import ProgressCallback

PROGRAMS = ("prometheus", "promtool")
RULES = ("recording.yml", "alerts.yml")
MOST_S = 600.0
"""Timeout of promtool, s: enough for two months of a few nodes, although it reads the file once for each block."""
MOST_POINTS = 10_000
"""Largest number of points in a query; Prometheus answers at most 11,000 points of a series."""
MARGIN_DAYS = 15
"""Retention beyond the length of the past, days; the value is Prometheus' default retention."""


def installed() -> bool:
    """Return whether Prometheus and promtool are installed."""
    return all(map(shutil.which, PROGRAMS))


def make_blocks(file: Path, data: Path) -> None:
    """Convert an OpenMetrics file to blocks below ``data``."""
    command = blocks_command(file, data)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S)  # noqa: S603 - promtool
    except subprocess.TimeoutExpired as expired:
        raise DemoError(f"promtool has not made blocks of {file} after {MOST_S:.0f} s") from expired
    if done.returncode:
        raise DemoError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-500:]}")


def blocks_command(file: Path, data: Path) -> tuple[str, ...]:
    """Return the promtool command that makes blocks of 20 days, because it reads the file once for each block."""
    return ("promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=500h", str(file), str(data))


def record(url: str, folder: Path, since_s: float, until_s: float, step_s: float,
           report: ProgressCallback = lambda done, total: None) -> None:
    """Evaluate the recording rules over the past; ``report`` receives the finished and the total number of queries.

    Prometheus finds the new blocks within a minute.

    ``promtool tsdb create-blocks-from rules`` does the same, but leaves a block for each rule and two hours: thousands.
    """
    groups = yaml.safe_load((folder / "rules" / RULES[0]).read_text("utf-8"))["groups"]
    file = folder / "rules.om"
    with file.open("w", encoding="utf-8") as out:
        rules = [rule for group in groups for rule in group["rules"]]
        queries = list(itertools.product(rules, _spans(since_s, until_s, step_s)))
        for done, (rule, (start_s, end_s)) in enumerate(queries):
            report(done, len(queries))
            for series in _range(url, rule["expr"], start_s, end_s, step_s):
                name = openmetrics.series(rule["record"], series["metric"].items())
                out.writelines(f"{name} {value} {time_s}\n" for time_s, value in series["values"])
        out.write(openmetrics.END)
    make_blocks(file, data_of(folder))
    file.unlink()


def _spans(since_s: float, until_s: float, step_s: float) -> Iterator[tuple[float, float]]:
    """Yield the first and the last step of each part of a time range that fits into one query."""
    while since_s <= until_s:
        yield since_s, min(until_s, since_s + (MOST_POINTS - 1) * step_s)
        since_s += MOST_POINTS * step_s


def _range(url: str, expression: str, start_s: float, end_s: float, step_s: float) -> list[Row]:
    import requests

    parameters = {"query": expression, "start": start_s, "end": end_s, "step": step_s}
    answer = requests.post(f"{url}/api/v1/query_range", data=parameters, timeout=MOST_S).json()
    if answer["status"] != "success":
        raise DemoError(f"Prometheus refuses {expression}: {answer['error']}")
    rows: list[Row] = answer["data"]["result"]
    return rows


def data_of(folder: Path) -> Path:
    """Return the folder of Prometheus' blocks."""
    return folder / "prometheus"


@contextmanager
def running(folder: Path, port: int, days: float, target: str, labels: Mapping[str, str],
            rules: Sequence[str] = RULES, every: str = "15s") -> Iterator[str]:
    """Run a Prometheus that keeps ``days`` and scrapes ``target``; yield its URL once it is ready."""
    url, log = f"http://127.0.0.1:{port}", folder / "prometheus.log"
    command = ("prometheus", f"--config.file={_configured(folder, target, labels, rules, every)}",
               f"--storage.tsdb.path={data_of(folder)}", f"--web.listen-address=127.0.0.1:{port}",
               f"--storage.tsdb.retention.time={int(days) + MARGIN_DAYS}d")
    with child("Prometheus", command, log) as server:
        yield answered("Prometheus", server, log, lambda: url if _ready(url) else "")


def _configured(folder: Path, target: str, labels: Mapping[str, str], rules: Sequence[str], every: str) -> Path:
    """Write Prometheus' configuration beside copies of our rules; return its path."""
    ours, copies = resources.files("idlewatt.grafana").joinpath("rules"), folder / "rules"
    copies.mkdir(exist_ok=True)
    for name in rules:
        (copies / name).write_text(ours.joinpath(name).read_text("utf-8"), "utf-8")
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump({
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "rule_files": [f"rules/{name}" for name in rules],
        "scrape_configs": [{"job_name": labels["job"], "static_configs": [
            {"targets": [target], "labels": {name: labels[name] for name in labels if name not in ("job", "instance")}},
        ]}]}, sort_keys=False), "utf-8")
    return path


def _ready(url: str) -> bool:
    import requests

    try:
        return requests.get(f"{url}/-/ready", timeout=5).ok
    except requests.RequestException:
        return False
