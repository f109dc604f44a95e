"""Every dashboard over a day of a thousand nodes, in a real Prometheus: how long people wait for a panel."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from questions import LABELS, Prometheus, Question, free_port, of_dashboards

from idlewatt.daemon.cli import _openmetrics, _past, _prometheus
from idlewatt.daemon.view import DaemonView
from idlewatt.exporters.publish import registry

NODES, DAY_S, STEP_S = 1000, 86400, 240
"""A sample every four minutes: what a scrape every quarter of a minute leaves would be gigabytes to write first."""
NOW_S = 1_795_219_200.0
SLOWEST_S = 5.0
"""Nobody waits longer for a panel; Grafana itself gives up after 30 s."""


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Iterator[Prometheus]:
    """A Prometheus on a day of a cluster of a thousand nodes."""
    folder = tmp_path_factory.mktemp("large")
    write(folder, folder / "day.om")
    _prometheus.make_blocks(folder / "day.om", _prometheus.data_of(folder))
    with _prometheus.running(folder, free_port(), 2, "127.0.0.1:1", LABELS, rules=()) as url:
        yield Prometheus(url, lambda: NOW_S)


def write(folder: Path, file: Path) -> None:
    """Write the page of a thousand nodes again and again: counters grow by its figures, gauges waver about them."""
    series, draw = page(folder), random.Random(1)
    print(f"\n{len(series)} series of {NODES} nodes")
    with file.open("w") as out:
        for step in range(DAY_S // STEP_S + 1):
            time_s = NOW_S - DAY_S + step * STEP_S
            wave = [1 + 0.05 * draw.random() for _ in range(97)]
            out.writelines(f"{name} {value * step if counter else value * wave[number % 97] if waves else value:.6g} "
                           f"{time_s:.0f}\n" for number, (name, value, counter, waves) in enumerate(series))
        out.write(_openmetrics.END)


def page(folder: Path) -> list[tuple[str, float, bool, bool]]:
    """Return name, value, and whether it is a counter or a gauge of watts, of every sample of the page."""
    cluster = _past.simulated(1.0, NODES, 1, NOW_S)
    with _past.serving(cluster, _past.Time(cluster), folder) as service:
        for _ in _past.lived(service, cluster, 3 * _past.STEP_S):
            pass
        families = list(registry(DaemonView(service, lambda: service.settings).published).collect())
    return [(_openmetrics.series(sample.name, (*sample.labels.items(), *LABELS.items())), sample.value,
             sample.name.endswith("_total"), sample.name.endswith("_watts"))
            for family in families for sample in family.samples]


def timed(prometheus: Prometheus, question: Question) -> float:
    """Return the CPU seconds that an answer takes, the better of two: on a quiet machine that is how long one waits."""
    spent = []
    for _ in range(2):
        began = used(prometheus)
        prometheus.answer(question)
        spent.append(used(prometheus) - began)
    return min(spent)


def used(prometheus: Prometheus) -> float:
    """Return the CPU seconds that Prometheus says it has used."""
    page = requests.get(f"{prometheus.url}/metrics", timeout=30).text
    return float(re.search(r"^process_cpu_seconds_total (\S+)", page, re.M)[1])


@pytest.mark.timeout(1200)
def test_no_panel_of_a_thousand_nodes_keeps_people_waiting(large):
    spent = sorted(((timed(large, question), question) for question in of_dashboards()), key=lambda row: -row[0])
    for seconds, question in spent[:8]:
        print(f"{seconds:6.2f} s  {question.where}")
    print(f"{sum(seconds for seconds, _ in spent):6.2f} s  all {len(spent)} queries; "
          f"half of them take less than {spent[len(spent) // 2][0] * 1e3:.0f} ms")
    assert spent[0][0] < SLOWEST_S
