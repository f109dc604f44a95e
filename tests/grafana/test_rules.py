"""The rules are right: Prometheus' own tools accept them, and each alert fires when it must and not a minute before."""

import re
from pathlib import Path

import promql_parser as promql
import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "grafana" / "rules"
FILES = sorted(RULES.glob("*.yml"))
TESTS = sorted((RULES / "tests").glob("*.yml"))
GROUPS = [group for path in FILES for group in yaml.safe_load(path.read_text())["groups"]]
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
RECORDS = [rule for group in GROUPS for rule in group["rules"] if "record" in rule]
DAYS = re.compile(r"'eval_time': '\d{4,}m'")
"""A moment later than sixteen hours."""
WANTED = {"GpuAllocatedIdle", "GpuBusyButDrawingIdlePower", "GpuError", "GpuJobWastesPower", "GpuOutsideScheduler",
          "GpusStranded",
          "WastedPowerHigh", "EmptyNodesBurningPower", "GpuTelemetryMissing", "PowerSourcesDisagree", "GpuAdviceStale",
          "GpuAdviceModelDrift", "GpuAdviceAgentDemoted", "GpuAdviceAgentAbstains", "GpuAdviceTrainingFailing",
          "CollectorDown", "ConfigReloadFailed", "IdlewattDegraded", "IdlewattDown", "IdlewattFollowDown",
          "IdlewattFollowOverdue", "IdlewattFollowStopped"}


def named(rule):
    return rule.get("alert") or rule["record"]


def test_prometheus_accepts_the_rules_t15(promtool):
    promtool("check", "rules", *FILES)


@pytest.mark.long
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_rules_do_what_they_say_beside_all_others_t16(path, promtool):
    promtool("test", "rules", path)


def asked(case):
    return [check["expr"] for check in case.get("promql_expr_test", [])]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_rules_do_what_they_say_t16(path, promtool, tmp_path):
    """An alert that takes days to fire is evaluated alone: all rules at every minute of them take half a minute."""
    whole = yaml.safe_load(path.read_text())
    whole["rule_files"] = [str((path.parent / name).resolve()) for name in whole["rule_files"]]
    days = [case for case in whole["tests"] if DAYS.search(str(case))]
    assert len(days) == (2 if path.stem == "alerts" else 0)
    short = whole | {"tests": [case for case in whole["tests"] if case not in days]}
    (tmp_path / "short.yml").write_text(yaml.safe_dump(short))
    for number, case in enumerate(days):
        alone = [rule for rule in ALERTS if all(rule["alert"] in expr for expr in asked(case))]
        assert len(alone) == 1
        (tmp_path / f"rule{number}.yml").write_text(
            yaml.safe_dump({"groups": [{"name": "idlewatt.alerts", "rules": alone}]}))
        (tmp_path / f"case{number}.yml").write_text(yaml.safe_dump(
            whole | {"rule_files": [f"rule{number}.yml"], "group_eval_order": ["idlewatt.alerts"], "tests": [case]}))
    promtool("test", "rules", tmp_path / "short.yml", *sorted(tmp_path.glob("case*.yml")))


def test_every_alert_is_tested_to_fire_and_to_be_quiet_the_minute_before_t16():
    cases = [case for path in TESTS for case in yaml.safe_load(path.read_text())["tests"]]
    minutes: dict[str, dict[bool, int]] = {}
    for check in (check for case in cases for check in case.get("promql_expr_test", [])):
        if found := re.match(r'ALERTS\{alertname="(\w+)", alertstate="firing"\}', check["expr"]):
            fires = bool(check["exp_samples"])
            minutes.setdefault(found[1], {})[fires] = int(check["eval_time"].removesuffix("m"))
    assert {name: when.get(True, 0) - when.get(False, -9) for name, when in minutes.items()} == dict.fromkeys(WANTED, 1)


def test_the_promised_alerts_are_there():
    assert {rule["alert"] for rule in ALERTS} == WANTED


@pytest.mark.parametrize("rule", ALERTS, ids=named)
def test_an_alert_says_what_is_wrong_and_where_to_read_on_t18(rule):
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["for"]
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    runbook = ROOT / rule["annotations"]["runbook_url"].split("/main/")[1]
    text = runbook.read_text()
    assert text.startswith(f"# {rule['alert']}\n")
    assert "**Means:**" in text
    assert "**Find out" in text


def test_on_kubernetes_a_daemon_in_another_pod_is_not_missed_under_its_former_address():
    """IdlewattDown goes by the instance, which is a pod's address unless it is written anew."""
    monitor = yaml.safe_load((ROOT / "systemd/kubernetes/monitoring/servicemonitor.yaml").read_text())
    (endpoint,) = monitor["spec"]["endpoints"]
    (found,) = [one for one in endpoint.get("relabelings", ()) if one["targetLabel"] == "instance"]
    assert found["sourceLabels"] == ["__meta_kubernetes_namespace", "__meta_kubernetes_service_name"]


def test_every_threshold_is_explained_where_it_is_set():
    lines = (RULES / "alerts.yml").read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line.lstrip().startswith("- alert:")]
    assert len(starts) == len(ALERTS)
    assert all(lines[number - 1].lstrip().startswith("#") for number in starts)


def test_no_runbook_is_left_without_its_alert():
    assert {path.stem for path in (ROOT / "grafana/runbooks").glob("*.md")} == {rule["alert"] for rule in ALERTS}


def test_links_between_runbooks_lead_somewhere():
    for path in (ROOT / "grafana/runbooks").glob("*.md"):
        for link in re.findall(r"\]\((.+?)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


@pytest.mark.parametrize("rule", RECORDS, ids=named)
def test_recorded_names_are_level_metric_operations(rule):
    level, metric, operations = rule["record"].split(":")
    by = re.findall(r"by \(([\w, ]+)\)", rule["expr"])
    assert metric.startswith("idlewatt_")
    assert operations
    assert by
    for labels in by:  # a node is the descheduler's instance, and is counted by cluster
        assert set(level.split("_")) <= {part.strip() for part in labels.split(",")} | {"instance"}


@pytest.mark.parametrize("rule", ALERTS + RECORDS, ids=named)
def test_every_metric_of_a_rule_is_exposed_or_recorded_t17(rule, selectors, exposed):
    recorded = {record["record"] for record in RECORDS}
    assert {selector.name for selector, _ in selectors(promql.parse(rule["expr"]))} <= exposed | recorded


@pytest.mark.parametrize("rule", ALERTS + RECORDS, ids=named)
def test_label_values_that_a_rule_asks_for_exist(rule, selectors, golden):
    for selector, _ in selectors(promql.parse(rule["expr"])):
        for matcher in selector.matchers.matchers:
            known = set(re.findall(rf'^{selector.name}\{{.*?{matcher.name}="(.*?)"', golden, re.M))
            assert {value for value in known if re.fullmatch(matcher.value, value)}, f"{selector.name} {matcher}"


@pytest.mark.parametrize("rule", ALERTS + RECORDS, ids=named)
def test_counters_are_read_as_rates_in_rules_t24(rule, selectors):
    for selector, above in selectors(promql.parse(rule["expr"])):
        assert selector.name.endswith("_total") == bool({"rate", "increase"} & set(above)), selector.name
