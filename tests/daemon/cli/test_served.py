"""What a daemon really serves: no metric is declared, documented and drawn, and then never on the page."""

import re
from importlib.resources import files

import pytest
import requests

from idlewatt.exporters.metrics import METRICS
from idlewatt.exporters.metrics.declared import PREFIX

FILLED_BY_THE_PAGE = ("build_info", "capped_series")
ALWAYS = re.compile(r"idlewatt_(up|collector_|last_success_|unreadable_|cycle_|recorder_|config_|build_|degraded$"
                    r"|power_watts|wasted_power|energy_|wasted_energy|node_|gpus$|gpu_(?!error_)|stranded_|fragmentation_"
                    r"|utilization_|unmeasured_(gpus|hosts)|pending_|policy_info|promotions_|training_running"
                    r"|unaccounted_|user_wasted|advice_interval|power_source_|paper_)")
"""What a daemon serves that has looked once; the rest needs advice, learning, or something to go wrong."""


def _sources(folder) -> str:
    parts = [part for part in folder.iterdir() if part.name != "__pycache__"]
    return "".join(_sources(part) if part.is_dir() else part.read_text() for part in parts
                   if part.is_dir() or part.name.endswith(".py"))


@pytest.fixture(scope="module")
def daemon() -> str:
    """Return the source of the daemon, whose keys are names of metrics."""
    return _sources(files("idlewatt.daemon"))


def test_a_daemon_that_has_looked_once_serves_all_that_needs_no_more(shell):
    for name in ("jobs", "scrape", "assess"):
        shell.service.beat.run(name)
    page = requests.get(f"{shell.url}/metrics", timeout=60).text
    served = set(re.findall(r"^(idlewatt_\w+?)(?:\{| )", page, re.M))
    assert [metric.name for metric in METRICS if ALWAYS.match(metric.name) and metric.name not in served] == []


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_declared_metric_is_filled_by_the_daemon(metric, daemon):
    name = metric.name.removeprefix(PREFIX)
    assert name in FILLED_BY_THE_PAGE or f'"{name}"' in daemon


def test_a_cycles_last_run_is_told_by_the_daemons_clock(shell):
    shell.service.beat.run("scrape")
    page = requests.get(f"{shell.url}/metrics", timeout=60).text
    (told,) = re.findall(r'^idlewatt_cycle_last_run_timestamp_seconds\{cycle="scrape"\} (\S+)', page, re.M)
    assert abs(float(told) - shell.service._clock()) < 60
