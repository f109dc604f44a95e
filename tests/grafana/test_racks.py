"""Figures of NVLink domains, from the page that the daemon publishes: each domain counts once."""

import json
import re

import pytest
import yaml
from prometheus_client import CollectorRegistry

from idlewatt.daemon.facts import Known, Process, published
from idlewatt.exporters.publish import PublishedCollector, page
from idlewatt.grafana.builders import racks
from idlewatt.storage.records import Node, SchedulerSnapshot


@pytest.fixture
def lines():
    """What a daemon publishes of one domain that serves two partitions, two of whose 32 GPUs are held."""
    nodes = tuple(Node(f"n{number}", ("batch", "interactive"), 4, domain="rack-1", gpus_allocated=2 * (number == 0))
                  for number in range(8))
    registry = CollectorRegistry()
    known = Known(snapshot=SchedulerSnapshot(1000.0, nodes))
    registry.register(PublishedCollector(lambda: published(known, Process())))
    return re.findall(r"^(\w*nvlink\w+?)(?:{(.*)})? (\S+)$", page(registry)[0].decode(), re.MULTILINE)


def asked(title):
    """Return the queries of a panel, for any daemon."""
    (panel,) = [panel for panel in json.loads(racks.build())["panels"] if panel.get("title") == title]
    return [target["expr"].replace("$job", ".+").replace("$cluster", ".*") for target in panel["targets"]]


@pytest.mark.parametrize(("title", "figures"), [
    ("Broken domains", [1]), ("Free GPUs in broken domains", [30]), ("NVLink domains by state", [0, 1, 0, 0])])
def test_a_domain_of_two_partitions_is_one_domain_with_its_free_gpus(lines, tmp_path, promtool, title, figures):
    series = [{"series": f'{name}{{job="idlewatt"{labels and f", {labels}"}}}', "values": value}
              for name, labels, value in lines]
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": series, "promql_expr_test": [
            {"expr": query, "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": figure}]}
            for query, figure in zip(asked(title), figures, strict=True)]}]}))
    promtool("test", "rules", tmp_path / "test.yml")
