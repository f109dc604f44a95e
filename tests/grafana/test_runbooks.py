"""What a runbook sends its reader to is there: keys, dashboards, panels, other runbooks.

Its commands are run with those of the documentation: tests/daemon/cli/test_documented.py.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from idlewatt.daemon import config
from idlewatt.exporters.metrics import METRICS

GRAFANA = Path(__file__).parents[2] / "grafana"
RUNBOOKS = sorted((GRAFANA / "runbooks").glob("*.md"))
DASHBOARDS = [json.loads(path.read_text()) for path in (GRAFANA / "dashboards").glob("*.json")]
TITLES = {dashboard["title"] for dashboard in DASHBOARDS}
ROWS = [row for dashboard in DASHBOARDS for row in dashboard["panels"]]
PANELS = {panel["title"] for row in ROWS for panel in (row, *row.get("panels", ()))}
NO_PANEL = {"Xid NUMBER", "GpuJobWastesPower", "Slurm not read since …"}
"""Words in quotes that are no panel: what a command is given, the name of an alert, what an alert says."""
each = pytest.mark.parametrize("runbook", RUNBOOKS, ids=lambda path: path.stem)


def keys(tree: object, path: str = "") -> set[str]:
    """Return the dotted keys of a configuration."""
    if not isinstance(tree, dict):
        return set()
    return {f"{path}{key}" for key in tree}.union(*(keys(value, f"{path}{key}.") for key, value in tree.items()))


KEYS = keys(yaml.safe_load(config.sample())) | keys(config.parse("sources: []\n").model_dump())


def test_a_key_that_a_rule_says_to_set_exists():
    sections = "|".join(key for key in KEYS if "." not in key)
    named = {name for path in (GRAFANA / "rules").glob("*.yml")
             for name in re.findall(rf"\b(?:{sections})\.[a-z_]+\b", path.read_text())}
    assert {"advice.spare_nodes", "waste.job_series"} <= named <= KEYS


@each
def test_a_key_that_is_named_exists(runbook):
    sections = {key for key in KEYS if "." not in key}
    named = set(re.findall(r"`([a-z_]+\.[a-z_.]+)(?:: [^`]*)?`", runbook.read_text()))
    assert {key for key in named if key.partition(".")[0] in sections} - KEYS == set()


@each
def test_a_dashboard_and_a_panel_that_are_named_exist(runbook):
    text = runbook.read_text()
    dashboards = re.findall(r"dashboard\s+\*([^*]+)\*", text)
    assert set(dashboards) <= TITLES
    assert set(re.findall(r'"([A-Z][^"\n]+)"', text)) - NO_PANEL <= PANELS


@each
def test_a_metric_that_is_named_is_published(runbook, exposed):
    known = {metric.name for metric in METRICS} | {name for name in exposed if name.startswith("idlewatt_follow_")}
    assert set(re.findall(r"`(idlewatt_[a-z_]+)", runbook.read_text())) <= known


@each
def test_another_runbook_that_is_named_exists(runbook):
    for target in re.findall(r"\]\((\w+\.md)\)", runbook.read_text()):
        assert (GRAFANA / "runbooks" / target).exists()


def test_every_alert_has_a_runbook_and_every_runbook_an_alert():
    groups = yaml.safe_load((GRAFANA / "rules/alerts.yml").read_text())["groups"]
    alerts = {rule["alert"]: rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"]}
    assert set(alerts) == {path.stem for path in RUNBOOKS}
    assert {name for name, url in alerts.items() if not url.endswith(f"/{name}.md")} == set()
