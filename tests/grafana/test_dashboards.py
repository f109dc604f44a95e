import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import promql_parser as promql
import pytest
import yaml

from idlewatt.exporters.dcgm import METRICS
from idlewatt.grafana.builders import __main__ as built
from idlewatt.grafana.builders import panels as made
from idlewatt.grafana.builders import partitions
from idlewatt.storage.power_classes import GPU_CODES, UNUSED_PART, PowerClass

ROOT = Path(__file__).parents[2]
OF_RULES = {'{cluster=~"$cluster"}', '{alertname=~"Gpu.*|WastedPowerHigh|EmptyNodesBurningPower|PowerSourcesDisagree|'
            'CollectorDown|ConfigReloadFailed|Idlewatt.*", cluster=~"$cluster"}'}
"""Selectors of what rules make: it is of a cluster, no longer of a daemon."""
DASHBOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
RECORDED = ROOT / "tests" / "recorded"
UNITS = {"watt", "kwatt", "megwatt", "watth", "kwatth", "joule", "percentunit", "celsius", "s", "bytes", "Bps", "hertz",
         "short", "locale", "dateTimeFromNow", "string", made.CURRENCY}
LETTERS = "ABCDEFGHIJK"
LEGACY = {"graph", "singlestat", "table-old"}
THIRD_PARTY = {"ALERTS", "process_resident_memory_bytes"}
"""Metrics of others that a dashboard may name: Prometheus' own, and the client library's."""
RESOURCES = "idlewatt-resources"
"""The one dashboard of the site's own series."""
OTHERS = (RESOURCES, "idlewatt-follow")
"""Dashboards of series that are scraped by other jobs than the daemon's."""
OF_SERVERS = {"node_uname_info", "node_cpu_seconds_total", "node_load1", "node_nfs_requests_total",
              *(f"node_memory_{name}_bytes" for name in ("MemAvailable", "MemTotal")),
              *(f"node_network_{way}_{what}_total" for way in ("receive", "transmit") for what in (
                  "bytes", "errs", "drop")),
              *(f"node_infiniband_port_data_{way}_bytes_total" for way in ("received", "transmitted")),
              *(f"node_disk_{way}_bytes_total" for way in ("read", "written")),
              *(f"node_filesystem_{what}_bytes" for what in ("avail", "size"))}
"""What node_exporter tells; test_live_resources.py asks a real one."""
RECORDED_BY_RULES = {"partition:idlewatt_wasted_power:ratio"}
"""The one that tells whether the rules are loaded; dashboards need no other."""
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$__interval_ms": "30000", "$__interval": "30s",
             "$job": ".+", "$cluster": ".*", "${partition:regex}": ".*", "${node:regex}": ".*",
             "${members:regex}": ".*", "${user:regex}": ".*", "${job_id:regex}": ".*"}


@pytest.fixture(params=DASHBOARDS, ids=lambda path: path.stem)
def dashboard(request) -> dict[str, Any]:
    return json.loads(request.param.read_text())


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    nested = [inner for panel in dashboard["panels"] for inner in panel.get("panels", [])]
    return [panel for panel in dashboard["panels"] + nested if panel["type"] != "row"]


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]


def filled(expression: str) -> str:
    """Return an expression with values in place of Grafana's variables."""
    for name, value in VARIABLES.items():
        expression = re.sub(re.escape(name) + r"(?!\w)", value, expression)
    return expression


def parsed(expression: str) -> Any:
    expression = filled(expression)
    assert "$" not in expression, f"unknown variable in {expression}"
    return promql.parse(expression)


@pytest.fixture
def selected(dashboard, selectors) -> list[tuple[Any, tuple[str, ...]]]:
    """Every vector selector of the dashboard with the functions that it is in."""
    return [found for expression in expressions(dashboard) for found in selectors(parsed(expression))]


def test_the_dashboards_are_what_the_code_builds_t19():
    built_now = {name: build() for name, build in built.DASHBOARDS.items()}
    assert {path.stem: path.read_text() for path in DASHBOARDS} == built_now


def test_dashboard_is_what_grafanas_own_schema_says(dashboard):
    schema = json.loads((RECORDED / "grafana" / "dashboard.schema.json").read_text())
    for mark in dashboard["annotations"]["list"]:  # which knows, by its own TODO, only annotations of Grafana itself
        for own in ("expr", "step", "titleFormat", "textFormat"):
            del mark[own]
    faults = [f"{'/'.join(map(str, fault.absolute_path))}: {fault.message[:200]}"
              for fault in jsonschema.validators.validator_for(schema)(schema).iter_errors(dashboard)]
    assert faults == []


def test_dashboard_is_one_of_ours_t20(dashboard):
    names = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert names["datasource"]["type"] == "datasource"
    assert names["datasource"]["label"] == "Data Source"
    assert {"cluster", "job"} <= set(names)
    assert names["job"]["multi"]
    assert names["job"]["allValue"] == ".+"
    assert all(variable["refresh"] == 2 for variable in names.values() if variable["type"] == "query")
    assert re.fullmatch(r"idlewatt-[a-z-]{1,31}", dashboard["uid"])
    assert "idlewatt" in dashboard["tags"]
    assert dashboard["editable"] is False


def test_uids_are_unique_t20():
    uids = [json.loads(path.read_text())["uid"] for path in DASHBOARDS]
    assert len(uids) == len(set(uids))


def test_no_data_source_is_hard_coded_t21(dashboard):
    def sources(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            yield from ([value["datasource"]] if "datasource" in value else [])
            for inner in value.values():
                yield from sources(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from sources(inner)

    found = [source for source in sources(dashboard) if source != "datasource"]
    assert found
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in found)


def test_every_panel_explains_itself_t22(dashboard):
    for panel in panels(dashboard):
        assert panel["title"]
        assert len(panel["description"]) > 30, panel["title"]
        own = [prop["value"] for override in panel["fieldConfig"]["overrides"] for prop in override["properties"]
               if prop["id"] == "unit"]
        assert {panel["fieldConfig"]["defaults"]["unit"], *own} <= UNITS, panel["title"]
        assert panel["targets"], panel["title"]
        assert [target["refId"] for target in panel["targets"]] == list(LETTERS)[:len(panel["targets"])]


def test_no_legacy_panels_t23(dashboard):
    assert not {panel["type"] for panel in panels(dashboard)} & LEGACY


def test_panels_do_not_overlap_and_fill_whole_rows(dashboard):
    cells = [(grid["x"] + x, grid["y"] + y) for grid in (panel["gridPos"] for panel in dashboard["panels"])
             for x in range(grid["w"]) for y in range(grid["h"])]
    assert len(cells) == len(set(cells))
    assert len(cells) == 24 * (1 + max(y for _, y in cells)), "holes"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_ranges_follow_the_dashboard_t24(dashboard):
    for expression in expressions(dashboard):
        assert "irate" not in expression
        ranges = set(re.findall(r"\[(.*?)\]", re.sub("`[^`]*`", "", expression)))
        # Prices are of quarters of an hour, whatever the width of a panel.
        quarters = {"15m", "$__range:15m"} if "electricity_price" in expression else set()
        assert ranges <= {"$__rate_interval", "$__range", "$__range:$__interval"} | quarters


def test_counters_are_read_as_rates_t24(selected):
    for selector, above in selected:
        counted = bool({"rate", "increase"} & set(above))
        # What a policy is may pick among counters within a subquery.
        assert selector.name.endswith("_total") == counted or selector.name == "idlewatt_policy_info", selector.name


def test_every_expression_parses_t25(dashboard, selectors):
    for expression in expressions(dashboard):
        assert list(selectors(parsed(expression))), "an expression without a metric shows nothing"


def test_every_metric_is_really_exposed_t17(dashboard, selected, exposed):
    theirs = set(METRICS) | OF_SERVERS if dashboard["uid"] == RESOURCES else set()
    assert {selector.name for selector, _ in selected} - exposed - THIRD_PARTY - RECORDED_BY_RULES - theirs == set()
    variables = dashboard["templating"]["list"]
    queries = [variable["query"]["query"] for variable in variables if variable["type"] == "query"]
    assert {re.search(r"label_values\((\w+)", query)[1] for query in queries} - exposed == set()


def test_every_selector_is_of_the_chosen_daemon_and_cluster(dashboard):
    for expression in expressions(dashboard):
        for inside in re.findall(r"\{(.*?)\}", expression):
            assert 'cluster=~"$cluster"' in inside
            assert 'job=~"$job"' in inside or f"{{{inside}}}" in OF_RULES or dashboard["uid"] in OTHERS


CHOOSING = {"partition", "node", "user", "job_id"}
"""Variables by which people choose what is shown."""


def shown_variables(dashboard: dict[str, Any]) -> set[str]:
    return {one["name"] for one in dashboard["templating"]["list"] if one.get("hide", 0) == 0}


def obeyed(expression: str) -> set[str]:
    """Return the variables that an expression goes by; the nodes of partitions are those of the chosen ones."""
    used = set(re.findall(r"\$\{?(\w+)", expression))
    return used | ({"partition"} if "members" in used else set())


def test_every_variable_that_a_dashboard_shows_is_obeyed_by_each_query_of_each_panel_or_it_is_not_there(dashboard):
    names = {one["name"] for one in dashboard["templating"]["list"]}
    for panel in panels(dashboard):
        for target in panel["targets"]:
            assert shown_variables(dashboard) & CHOOSING <= obeyed(target["expr"]), panel["title"]
            assert obeyed(target["expr"]) <= names | {"__range", "__interval", "__interval_ms", "__rate_interval"}
    assert "price" not in names, "prices are those that the daemon publishes"


def test_the_hidden_nodes_of_partitions_are_those_of_the_chosen_partitions(dashboard):
    (members,) = [one for one in dashboard["templating"]["list"] if one["name"] == "members"] or [None]
    if members is not None:
        assert members["hide"] == 2
        assert not members.get("allValue")
        assert "partition=~`${partition:regex}`" in members["query"]["query"]


def test_cells_that_name_a_job_a_user_or_a_node_lead_to_its_dashboard_and_to_its_page(dashboard):
    uids = {json.loads(path.read_text())["uid"] for path in DASHBOARDS}
    (page,) = [one for one in dashboard["templating"]["list"] if one["name"] == "page"]
    assert (page["type"], page["hide"]) == ("constant", 2)
    for panel in (panel for panel in panels(dashboard) if panel["type"] == "table"):
        links = {one["matcher"]["options"]: prop["value"] for one in panel["fieldConfig"]["overrides"]
                 for prop in one["properties"] if prop["id"] == "links"}
        headings = next(step["options"]["renameByName"] for step in panel["transformations"]
                        if step["id"] == "organize").values()
        assert set(headings) & set(made.LINKS) == set(links), panel["title"]
        for heading, some in links.items():
            assert re.match(r"/d/([\w-]+)\?", some[0]["url"])[1] in uids
            assert len(some) == {"Job": 2, "User": 2, "Node": 3}.get(heading, 1)
            assert len(some) == 1 or some[-1]["url"].startswith("${page}/")
            assert heading != "Node" or some[1]["url"].startswith("/d/idlewatt-resources?var-node=")


ACTED_ON = ("Recommended placements", "Nodes that could be powered down", "Jobs that are held, and until when",
            "Errors of the node's GPUs", "In use outside the scheduler on the node", "In use outside the scheduler",
            "Chosen nodes that could be powered down")


@pytest.mark.parametrize("title", ACTED_ON)
def test_a_table_that_is_acted_on_says_of_which_cluster_a_job_or_node_is(title):
    """Clusters call their nodes and number their jobs alike."""
    (panel,) = [one for path in DASHBOARDS for one in panels(json.loads(path.read_text())) if one["title"] == title]
    headings = next(step["options"]["renameByName"] for step in panel["transformations"] if step["id"] == "organize")
    assert headings["cluster"] == "Cluster"
    assert all("by (cluster, " in target["expr"] for target in panel["targets"])


def test_what_happened_is_marked_on_the_time_axis(dashboard, selectors, exposed):
    marks = dashboard["annotations"]["list"]
    assert [mark["name"] for mark in marks] == ["Advice followed", "Agents promoted or demoted", "Faults"]
    assert {selector.name for mark in marks for selector, _ in selectors(parsed(mark["expr"]))} <= exposed
    assert all('cluster=~"$cluster"' in mark["expr"] for mark in marks)


def test_gpus_and_dashboards_are_called_so_and_never_boards(dashboard):
    assert not re.search(r"(?i)\bboards?\b", json.dumps(dashboard))


def test_titles_stand_alone(dashboard):
    """A panel that is shared or alerted on has no neighbours to explain it."""
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert len(set(titles)) == len(titles)
    for title in titles:
        assert len(title.split()) > 1, title
        assert not re.match(r"(It|Its|Their|This|The same)\b", title), title


def test_the_dashboard_of_advice_is_divided_by_headings():
    advice = json.loads((ROOT / "grafana" / "dashboards" / "advice.json").read_text())
    headings = [panel["title"] for panel in advice["panels"] if panel["type"] == "row"]
    assert headings == ["What to do now", "What the advice is worth", "Whether the advice is followed",
                        "Closeness of placements", "Beyond starts: moves, sizes, CPUs and memory"]


NAMED = {"node", "node_gpu", "partition", "user", "job_id", "enclosure", "flavour", "policy", "Hostname", "nodename"}
"""Labels whose values are the same at many sites."""


def test_what_has_one_name_on_two_clusters_is_not_taken_for_one(dashboard):
    """Where no label ``cluster`` tells two sites apart their daemons do; other exporters have only that label."""
    apart = {"cluster"} if dashboard["uid"] == RESOURCES else set(made.SITE.split(", "))
    for expression in expressions(dashboard):
        for found in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            labels = set(found.split(", "))
            assert apart <= labels or not labels & NAMED or "alertname" in labels, expression


def test_models_of_one_name_on_two_clusters_are_not_joined(dashboard):
    for expression in expressions(dashboard):
        for found in re.findall(r"on \(([^)]*policy[^)]*)\)", expression):
            assert set(made.SITE.split(", ")) <= set(found.split(", ")), expression


def test_users_of_one_name_at_two_daemons_without_a_label_cluster_are_not_added_up(tmp_path, promtool):
    waste = json.loads((ROOT / "grafana" / "dashboards" / "cluster-waste.json").read_text())
    ((target,),) = [panel["targets"] for panel in panels(waste) if panel["title"] == "Wasted now, by user"]
    of = 'job="idlewatt", user="ada"'
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [
            {"series": f'idlewatt_user_wasted_power_watts{{instance="h:{daemon}", {of}, partition="p"}}',
             "values": f"{daemon}00x5"}
            for daemon in (1, 2)],
        "promql_expr_test": [{"expr": filled(target["expr"]), "eval_time": "5m", "exp_samples": [
            {"labels": f'{{instance="h:{daemon}", {of}}}', "value": 100 * daemon} for daemon in (1, 2)]}]}]}))
    promtool("test", "rules", tmp_path / "test.yml")


def test_labels_of_selectors_exist_on_their_metric(selected, golden):
    for selector in (selector for selector, _ in selected if selector.name.startswith("idlewatt_")):
        carried = set(re.findall(r"(\w+)=", re.search(rf"^{selector.name}(\{{.*?\}})? ", golden, re.M)[1] or ""))
        asked = {matcher.name for matcher in selector.matchers.matchers} - {"job", "cluster"}
        assert asked <= carried, selector.name


def shown(panel: dict[str, Any], letter: str) -> tuple[str, str]:
    """Return under which heading a query is seen, and in which unit."""
    heading = panel["title"].split(",")[0]
    if panel["type"] == "table":
        headings = next(step["options"]["renameByName"] for step in panel["transformations"]
                        if step["id"] == "organize")
        heading = headings.get(f"Value #{letter}", headings.get("Value", ""))
    units = {override["matcher"]["options"]: prop["value"] for override in panel["fieldConfig"]["overrides"]
             for prop in override["properties"] if prop["id"] == "unit"}
    return heading, units.get(heading, panel["fieldConfig"]["defaults"]["unit"])


def test_power_and_energy_are_shown_to_scale_t26(dashboard):
    for panel in panels(dashboard):
        for target in panel["targets"]:
            heading, unit = shown(panel, target["refId"])
            expression = target["expr"].split(f" and on ({made.SITE}, node) topk(")[0]  # which nodes, not what of them
            if "_joules" in expression or "sum_over_time" in expression:
                scale = "3.6e6" if "_joules" in expression else "$__interval_ms / 3.6e9"
                priced = "idlewatt_electricity_price" in expression
                scales = ("$__interval_ms / 3.6e9", "[$__range:15m])) / 4e3", f"3.6e6 * on ({made.SITE})")
                assert any(one in expression for one in (scales if priced else (scale,))), expression
                assert unit == (made.CURRENCY if priced else "kwatth")
                assert heading.startswith("Cost") == priced
            elif "_watts" in expression and "/" not in expression:
                assert unit == "watt", expression


@pytest.mark.parametrize(("error", "shown"), [(0.05, (0, 2)), (0.2, (1,))])
def test_a_policy_that_came_later_has_not_saved_what_was_spent_before_it_came(tmp_path, promtool, error, shown):
    """And what is less than the simulator is off by is called so, with by how much, and is no saving."""
    advice = json.loads((ROOT / "grafana" / "dashboards" / "advice.json").read_text())
    targets = [target for title in ("Energy saved, if followed", "Cost saved, if followed")
               for panel in panels(advice) if panel["title"] == title for target in panel["targets"]]
    energy, role = "idlewatt_simulated_energy_joules_total", "idlewatt_policy_info"
    of = 'cluster="c", job="idlewatt", instance="i"'
    inputs = {f'{energy}{{{of}, policy="theirs"}}': "0+360000000x60",  # 100 kWh a minute for an hour
              f'{energy}{{{of}, policy="agent"}}': "_x29 288000000+288000000x31",  # 80, from half past
              f'idlewatt_electricity_price{{{of}, currency="USD"}}': "0.1x30 0.3x30",
              f'idlewatt_simulation_energy_error_ratio{{{of}}}': f"{-error}x60",  # of 6,000 kWh
              f'{role}{{{of}, policy="theirs", role="incumbent"}}': "1x60",
              f'{role}{{{of}, policy="agent", role="active"}}': "1x60"}
    said = [600, 1200, 600 * 0.2]
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": values} for series, values in inputs.items()],
        "promql_expr_test": [{"expr": f"round({filled(target['expr'])}, {(100, 100, 10)[which]})", "eval_time": "60m",
                              "exp_samples": [{"labels": "{}", "value": said[which]}] if which in shown else []}
                             for which, target in enumerate(targets)]}]}))
    promtool("test", "rules", tmp_path / "test.yml")


def after_an_hour(folder, inputs, shown, step):
    """Return a file for promtool: what targets show after an hour of series, rounded to a step; None is nothing."""
    (folder / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": values} for series, values in inputs.items()],
        "promql_expr_test": [{"expr": f"round({filled(target['expr'])}, {step})", "eval_time": "60m",
                              "exp_samples": [] if value is None else [{"labels": "{}", "value": value}]}
                             for target, value in shown]}]}))
    return folder / "test.yml"


@pytest.mark.parametrize(("errors", "shown", "largest"), [
    ((-0.3, 0.02), (None, 1920), -0.3), ((0.05, 0.02), (1200, None), 0.05), ((0.05, None), (600, None), 0.05)])
def test_of_several_clusters_each_is_off_by_its_own_error_whichever_way(tmp_path, promtool, errors, shown, largest):
    """6,000 kWh each, of which following saves a tenth; one whose error nobody knows saves nothing."""
    advice = json.loads((ROOT / "grafana" / "dashboards" / "advice.json").read_text())
    targets = [target for title in ("Energy saved, if followed", "Error of the simulated energy")
               for panel in panels(advice) if panel["title"] == title for target in panel["targets"]]
    inputs = {}
    for cluster, error in zip("ab", errors, strict=True):
        of = f'cluster="{cluster}", job="idlewatt", instance="{cluster}"'
        for policy, role, joules in (("theirs", "incumbent", 360_000_000), ("agent", "active", 324_000_000)):
            inputs[f'idlewatt_simulated_energy_joules_total{{{of}, policy="{policy}"}}'] = f"0+{joules}x60"
            inputs[f'idlewatt_policy_info{{{of}, policy="{policy}", role="{role}"}}'] = "1x60"
        if error is not None:
            inputs[f"idlewatt_simulation_energy_error_ratio{{{of}}}"] = f"{error}x60"
    promtool("test", "rules", after_an_hour(tmp_path, inputs, zip(targets, (*shown, largest), strict=True), 0.01))


def test_the_memory_of_a_gpu_in_parts_is_that_of_all_its_instances(tmp_path, promtool):
    """One of seven is full and the others are empty; of a whole GPU that two pods share both rows are the same."""
    resources = json.loads((ROOT / "grafana" / "dashboards" / "resources.json").read_text())
    panel, = (panel for panel in panels(resources) if panel["title"] == "Memory use of GPUs")
    parts = {f'Hostname="n1", gpu="0", GPU_I_ID="{number}", pod="{pod}"': (9000, 1000) if number == 0 else (0, 10000)
             for number in range(7) for pod in "ab"}
    whole = {f'Hostname="n1", gpu="1", pod="{pod}"': (20000, 60000) for pod in "ab"}
    inputs = {f"DCGM_FI_DEV_FB_{what}{{{labels}}}": f"{mib[place]}x1" for labels, mib in (parts | whole).items()
              for place, what in enumerate(("USED", "FREE"))}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": values} for series, values in inputs.items()],
        "promql_expr_test": [{"expr": f"round({filled(panel['targets'][0]['expr'])} * 70)", "eval_time": "1m",
                              "exp_samples": [{"labels": '{Hostname="n1", gpu="0", node="n1"}', "value": 9},
                                              {"labels": '{Hostname="n1", gpu="1", node="n1"}', "value": 18}]}]}]}))
    promtool("test", "rules", tmp_path / "test.yml")


def test_watts_that_two_daemons_miss_in_opposite_ways_do_not_cancel_out(tmp_path, promtool):
    health = json.loads((ROOT / "grafana" / "dashboards" / "health.json").read_text())
    panel, = (panel for panel in panels(health) if panel["title"] == "Watts that do not add up")
    missed = {f'idlewatt_unaccounted_power_watts{{job="idlewatt", instance="{name}"}}': f"{watts}x1"
              for name, watts in (("a", 500), ("b", -500))}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": values} for series, values in missed.items()],
        "promql_expr_test": [{"expr": filled(panel["targets"][0]["expr"]), "eval_time": "1m",
                              "exp_samples": [{"labels": "{}", "value": 1000}]}]}]}))
    promtool("test", "rules", tmp_path / "test.yml")


def test_the_longest_makespan_of_groups_of_jobs_is_not_called_that_of_all_of_them():
    """What ran one after the other in two groups took longer than either."""
    jobs = json.loads((ROOT / "grafana" / "dashboards" / "jobs.json").read_text())
    longest = [panel for panel in panels(jobs) if panel["type"] != "table"
               and any("job_makespan" in target["expr"] for target in panel["targets"])]
    assert [panel["title"] for panel in longest] == ["Longest makespan of a day", "Longest makespan by flavour"]
    assert all("longest of a partition and flavour" in panel["description"] for panel in longest)


def test_nodes_of_one_name_in_two_clusters_are_each_what_they_are(tmp_path, promtool):
    """A full one and an empty one are not two that are partly used."""
    of = 'job="idlewatt", instance="i", node="n1"'
    inputs = {f'idlewatt_node_gpus{{cluster="a", {of}, state="allocated"}}': "8x5",
              f'idlewatt_node_gpus{{cluster="b", {of}, state="allocated"}}': "0x5",
              f'idlewatt_node_gpus{{cluster="b", {of}, state="idle"}}': "8x5"}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": values} for series, values in inputs.items()],
        "promql_expr_test": [{"expr": filled(partitions.NODE_STATE), "eval_time": "5m", "exp_samples": [
            {"labels": f'{{cluster="a", {of}}}', "value": 2},
            {"labels": f'{{cluster="b", {of}}}', "value": 0}]}]}]}))
    promtool("test", "rules", tmp_path / "test.yml")


@pytest.mark.parametrize(("error", "saved", "unsure"), [(0.25, 50, None), (0.6, None, 60), (None, None, None)])
def test_waiting_within_the_error_of_the_replay_or_without_a_known_one_is_no_saving(
        tmp_path, promtool, error, saved, unsure):
    advice = json.loads((ROOT / "grafana" / "dashboards" / "advice.json").read_text())
    panel, = (panel for panel in panels(advice) if panel["title"] == "Waiting hours saved, if followed")
    wait, role, of = "idlewatt_simulated_wait_seconds_total", "idlewatt_policy_info", 'cluster="c", instance="i"'
    of = f'{of}, job="idlewatt"'
    inputs = {f'{wait}{{{of}, policy="theirs"}}': "0+6000x60", f'{wait}{{{of}, policy="agent"}}': "0+3000x60",
              f'{role}{{{of}, policy="theirs", role="incumbent"}}': "1x60",
              f'{role}{{{of}, policy="agent", role="active"}}': "1x60"}
    if error is not None:
        inputs[f"idlewatt_simulation_wait_error_ratio{{{of}}}"] = f"{error}x60"
    promtool("test", "rules", after_an_hour(tmp_path, inputs, zip(panel["targets"], (saved, unsure), strict=True), 5))
    assert "green" not in {step["color"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]}


@pytest.mark.parametrize(("judged", "sure", "unsure"), [
    ({"a@1": (0.9, 0.8, 0.97), "b@1": (0.8, 0.5, 1.1)}, 0.9, None),  # b may be as bad as the scheduler
    ({"a@1": (0.9, 0.8, 1.0), "b@1": (0.95, 0.7, 1.2)}, None, 0.9),
    ({"a@1": (1.0, 0.9, 1.1), "b@1": (1.3, 1.2, 1.4)}, None, 1.0),
    ({"a@1": (1.2, 1.1, 1.3), "b@1": (1.3, 1.2, 1.4)}, 1.2, None),  # each is worse for sure
    ({"a@1": (0.7, None, None)}, None, 0.7),  # too little was judged for an interval
    ({"fifo": (0.7, 0.6, 0.8)}, None, None),
])
def test_an_agent_whose_interval_includes_the_schedulers_own_time_is_not_shown_in_green(
        tmp_path, promtool, judged, sure, unsure):
    learning = json.loads((ROOT / "grafana" / "dashboards" / "learning.json").read_text())
    panel, = (panel for panel in panels(learning) if panel["title"] == "Best agent on held-out history")
    of = 'cluster="c", job="idlewatt"'
    inputs = {f'idlewatt_heldout_jct_ratio{{{of}, policy="{policy}", bound="{bound}"}}': f"{at}x1"
              for policy, bounds in judged.items()
              for bound, at in zip(("estimate", "low", "high"), bounds, strict=True) if at is not None}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": values} for series, values in inputs.items()],
        "promql_expr_test": [{"expr": filled(target["expr"]), "eval_time": "1m",
                              "exp_samples": [] if value is None else [{"labels": "{}", "value": value}]}
                             for target, value in zip(panel["targets"], (sure, unsure), strict=True)]}]}))
    promtool("test", "rules", tmp_path / "test.yml")
    plain, = panel["fieldConfig"]["overrides"]
    assert plain["matcher"]["options"] == panel["targets"][1]["legendFormat"]
    assert plain["properties"] == [{"id": "color", "value": {"mode": "fixed", "fixedColor": "text"}}]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["color"] == "green"


def test_every_panel_says_what_is_missing_when_there_is_nothing_to_show(dashboard):
    for panel in panels(dashboard):
        said, width = panel["fieldConfig"]["defaults"]["noValue"], panel["gridPos"]["w"]
        if panel["type"] == "stat":  # written as large as fits: a sentence could not be read
            assert 3 <= len(said) <= 5 * width, panel["title"]
        elif panel["type"] == "bargauge":  # written beside an empty bar
            assert 3 <= len(said) <= 30, panel["title"]
        else:
            assert len(said.split()) >= 3, panel["title"]


def test_an_empty_panel_does_not_say_that_there_is_nothing_where_nobody_knows(dashboard):
    """Of a daemon that is down, or not scraped, there is nothing either."""
    told = [panel["fieldConfig"]["defaults"]["noValue"] for panel in panels(dashboard)]
    assert [said for said in told if re.match("no job|none|nobody|nothing", said) and " or " not in said] == []


NAMES = ['a"b\\c', "x.y", "(none)", "a|b", "gpu/h100", "[a]{2}$", "it's"]


def chosen(expression: str, *names: str) -> str:
    """Return an expression as Grafana sends it when a person has chosen these partitions and nodes."""
    escaped = [re.sub(r"[\\^$*+?.()|[\]{}/]", r"\\\g<0>", name) for name in names]  # escapeRegex of @grafana/data
    value = escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
    return filled(re.sub(r"\$\{(?:partition|node|members|user|job_id):regex\}", lambda _: value, expression))


@pytest.mark.parametrize("names", [*([name] for name in NAMES), NAMES], ids=lambda names: " and ".join(names))
def test_a_dashboard_can_be_asked_for_a_partition_or_node_of_any_name(dashboard, names, tmp_path, promtool):
    rules = [{"record": f"asked:{place}:now", "expr": chosen(expression, *names)}
             for place, expression in enumerate(expressions(dashboard))]
    (tmp_path / "asked.yml").write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "asked.yml")


@pytest.mark.parametrize("names", [*([name] for name in NAMES), NAMES], ids=lambda names: " and ".join(names))
def test_a_name_selects_itself_and_nothing_else(names, tmp_path, promtool):
    def series(name: str) -> str:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'idlewatt_gpus{{cluster="c", job="idlewatt", partition="{quoted}"}}'

    asked = chosen(f"idlewatt_gpus{{{made.PARTITION}}}", *names)
    found = [{"labels": series(name), "value": 1} for name in names]
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "input_series": [{"series": series(name), "values": "1"} for name in (*NAMES, "gpu", "xxy", "a")],
        "promql_expr_test": [{"expr": asked, "eval_time": "0m", "exp_samples": found}]}]}))
    promtool("test", "rules", tmp_path / "test.yml")


def test_a_thousand_nodes_or_users_are_never_drawn_at_once(dashboard):
    """A series for each of them would hang the browser; pages of a table are fine."""
    for panel in (panel for panel in panels(dashboard) if panel["type"] != "table"):
        for target in panel["targets"]:
            by_each = re.match(r"(?:sort_desc\()?(?:sum|max|min|avg) by \((?=[^)]*\b(?:node|user|node_gpu)\b)",
                               target["expr"])
            each = re.search(r"\{\{(node|user|node_gpu)\b", target["legendFormat"])
            assert bool(each) or not by_each, panel["title"]
            assert not each or "topk(" in target["expr"], panel["title"]


def test_numbers_of_gpu_states_mean_what_the_daemon_says():
    rows = [PowerClass(state) for state in GPU_CODES]
    assert {str(row.code): (row.label, row.color) for row in rows} == partitions.GPU_WORDS


def test_provisioning_is_grafanas_own_format_and_holds_no_secret():
    folder = ROOT / "grafana" / "provisioning"
    source = yaml.safe_load((folder / "datasources" / "idlewatt.yaml").read_text())
    assert source["apiVersion"] == 1
    assert source["datasources"][0]["uid"] == "idlewatt-prometheus"
    assert all(re.fullmatch(r"\$\{\w+\}", secret) for secret in source["datasources"][0]["secureJsonData"].values())
    provider = yaml.safe_load((folder / "dashboards" / "idlewatt.yaml").read_text())["providers"][0]
    assert provider["type"] == "file"
    assert provider["options"]["foldersFromFilesStructure"] is True
    assert provider["allowUiUpdates"] is False


@pytest.mark.parametrize(("known", "dark", "shown"), [("700x1", "0x1", 700), ("0x1", "0x1", 0), ("700x1", "1x1", 700),
                                                      (None, "1x1", None), ("0x1", "1x1", None)])
def test_the_unused_part_of_busy_nodes_is_drawn_above_what_is_wasted_and_is_never_zero_where_it_is_unknown(
        tmp_path, promtool, known, dark, shown):
    waste = json.loads((ROOT / "grafana" / "dashboards" / "cluster-waste.json").read_text())
    panel, = (panel for panel in panels(waste) if panel["title"] == "Wasted or unused")
    assert [target["legendFormat"] for target in panel["targets"]] == ["Wasted", UNUSED_PART]
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    of = 'cluster="c", job="idlewatt", instance="i", partition="p"'
    inputs = {f"idlewatt_unmeasured_busy_hosts{{{of}}}": dark}
    if known is not None:
        inputs[f"idlewatt_host_unused_watts{{{of}}}"] = known
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [{
        "interval": "1m", "input_series": [{"series": series, "values": values} for series, values in inputs.items()],
        "promql_expr_test": [{"expr": chosen(panel["targets"][1]["expr"], "p"), "eval_time": "1m",
                              "exp_samples": [] if shown is None else [{"labels": "{}", "value": shown}]}]}]}))
    promtool("test", "rules", tmp_path / "test.yml")
