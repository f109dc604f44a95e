"""A real Prometheus that scrapes the golden page: it says when the page is gone, and answers what needs an agent."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import requests
import yaml
from one_page import one_page
from questions import GRAFANA, NO_AGENT, NO_RACK, NO_WEEK, Prometheus, free_port, of_alerts, of_dashboards

from idlewatt.daemon.cli import _parts, _prometheus

pytestmark = pytest.mark.skipif(not _prometheus.installed(), reason="Prometheus is not installed")

WITHIN_S = 180.0
NOT_GOLDEN = {"GpuAdviceAgentAbstains: idlewatt_abstaining", "GpuAdviceAgentDemoted: idlewatt_policy_info",
              "learning: Active agent abstains A", "learning: Age of the active agent A",
              "learning: Best agent on held-out history B", "learning: Policies on held-out history I"}
"""The alert on abstaining waits for an hour of it. On the golden page a heuristic is active, nobody has been demoted,
the best agent is better for sure, and prices are in another currency."""


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Run a Prometheus with our rules, whose alerts fire at once instead of after minutes."""
    for path in (GRAFANA / "rules").glob("*.yml"):
        (folder / path.name).write_text(re.sub(r"for: \d+\w", "for: 0s", path.read_text()))
    scrape = {"job_name": "idlewatt", "static_configs": [{"targets": [target], "labels": {"cluster": "gist"}}]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml", "recording.yml"], "scrape_configs": [scrape]}))
    url = f"http://127.0.0.1:{free_port()}"
    command = ("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address={url.removeprefix('http://')}")
    with _parts.child("Prometheus", command, folder / "log") as server:
        _parts.answered("Prometheus", server, folder / "log", lambda: ready(url))
        yield url


def ready(url: str) -> str:
    with suppress(requests.RequestException):
        return "yes" if requests.get(f"{url}/-/ready", timeout=60).ok else ""
    return ""


def firing(url: str, name: str = "IdlewattDown") -> list[dict[str, str]]:
    """Return the labels of the alerts of a name that fire."""
    alerts = requests.get(f"{url}/api/v1/alerts", timeout=60).json()["data"]["alerts"]
    return [alert["labels"] for alert in alerts if alert["labels"]["alertname"] == name and alert["state"] == "firing"]


def asked(url: str, expression: str) -> list[dict[str, str]]:
    found = requests.get(f"{url}/api/v1/query", params={"query": expression}, timeout=60).json()["data"]["result"]
    return [series["metric"] for series in found]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.2)


def test_a_daemon_that_has_gone_is_missed_by_name_and_its_return_noticed(tmp_path, golden):
    port = free_port()
    down = {"alertname": "IdlewattDown", "cluster": "gist", "instance": f"127.0.0.1:{port}", "job": "idlewatt",
            "severity": "warning"}
    with prometheus(tmp_path, f"127.0.0.1:{port}") as url:
        with one_page(golden, port):
            wait_until(lambda: asked(url, "partition:idlewatt_wasted_power:ratio"))
            wait_until(lambda: not firing(url))
        wait_until(lambda: firing(url) == [down])
        assert asked(url, "idlewatt_power_watts") == []
        with one_page(golden, port):
            wait_until(lambda: not firing(url))


def test_a_daemon_that_was_never_seen_is_missed_too(tmp_path):
    with prometheus(tmp_path, f"127.0.0.1:{free_port()}") as url:
        wait_until(lambda: firing(url) == [{"alertname": "IdlewattDown", "severity": "warning"}])


def test_what_is_empty_without_an_agent_racks_or_a_week_is_answered_by_a_page_that_tells_of_them(tmp_path, golden):
    places = NO_AGENT | NO_RACK | NO_WEEK
    port, asked_of = free_port(), {question for question in of_dashboards() + of_alerts() if question.where in places}
    with one_page(golden, port), prometheus(tmp_path, f"127.0.0.1:{port}") as url:
        unanswered: set[str] = set()

        def looked() -> bool:
            unanswered.clear()
            unanswered.update(found.where for found in Prometheus(url, time.time).unanswered(asked_of, 60.0))
            return unanswered <= NOT_GOLDEN

        wait_until(looked)
        assert unanswered == NOT_GOLDEN
