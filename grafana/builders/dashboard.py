"""What every dashboard has: variables, links to the others, tags, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from .panels import DAEMON, DATA_SOURCE, SITE, Row, laid_out

PAGE = "http://localhost:9723"
ALL = VariableOption(selected=True, text="All", value="$__all")


ANNOTATIONS = (("Advice followed", "green",
                f"sum by ({SITE}, policy) (increase(idlewatt_advice_followed_total{{%s}}[$__interval])) > 0",
                "{{policy}}"),
               ("Agents promoted or demoted", "purple",
                "sum by (decision) (increase(idlewatt_promotions_total{%s}[$__interval])) > 0", "{{decision}}"),
               ("Faults", "red", "max by (cause) (idlewatt_degraded{%s}) > 0", "{{cause}}"))
"""What is marked on the time axis: name, colour, expression, and what is written there."""


def as_json(uid: str, title: str, description: str, rows: Iterable[tuple[int, Row] | str], *,
            shows: Sequence[str] = (), hours: int = 24, own: bool = True) -> str:
    """Return the JSON of a dashboard; ``shows`` are the variables to choose by, and every panel obeys each of them.

    Without ``own`` metrics the choice of the daemon is hidden: it is there for links and marks only.
    """
    build = dashboard.Dashboard(title).uid(f"idlewatt-{uid}").description(description)
    build.tags(["idlewatt", "gpu", "power"]).readonly().refresh("1m").time(f"now-{hours}h", "now").timezone("browser")
    build.tooltip(DashboardCursorSync.CROSSHAIR).version(1)
    build.link(dashboard.DashboardLink("idlewatt").type(DashboardLinkType.DASHBOARDS).tags(["idlewatt"])
               .as_dropdown(True).include_vars(True).keep_time(True).icon("external link"))
    build.link(dashboard.DashboardLink("Page of idlewatt").type(DashboardLinkType.LINK).url("${page}/")
               .target_blank(True).icon("external link"))
    for variable in (*_variables(shows, own), _page()):
        build.with_variable(variable)
    for panel in laid_out(rows):
        build.with_row(panel) if isinstance(panel, dashboard.Row) else build.with_panel(panel)
    return _written(build)


OWN = 'job=~"$job", cluster=~"$cluster"'
CHOICES = {
    "partition": ("Partition", f"label_values(idlewatt_power_watts{{{OWN}}}, partition)"),
    "node": ("Node", f"label_values(idlewatt_node_gpus{{{OWN}}}, node)"),
    "user": ("User", f"label_values(idlewatt_user_power_watts{{{OWN}}}, user)"),
    "job_id": ("Job", f"label_values(idlewatt_job_power_watts{{{OWN}}}, job_id)"),
}


def _variables(shows: Sequence[str], own: bool) -> Iterable[dashboard.QueryVariable | dashboard.DatasourceVariable]:
    yield dashboard.DatasourceVariable("datasource").label("Data Source").type("prometheus")
    daemon = _chosen("job", "Daemon", "label_values(idlewatt_build_info, job)", ".+")
    yield daemon if own else daemon.hide(VariableHide.HIDE_VARIABLE)
    yield _chosen("cluster", "Cluster", 'label_values(idlewatt_build_info{job=~"$job"}, cluster)', ".*")
    for name in shows:
        yield _chosen(name, *CHOICES[name], ".*")
    if "partition" in shows:
        # Not all values but those of the chosen partitions: so panels by node obey the partition as well.
        members = f"label_values(idlewatt_node_info{{{OWN}, partition=~`${{partition:regex}}`}}, node)"
        yield _chosen("members", "Nodes of the partitions", members, "").hide(VariableHide.HIDE_VARIABLE)


def _page() -> dashboard.ConstantVariable:
    """Return where idlewatt's own page is; ``idlewatt grafana install --page`` writes another."""
    return dashboard.ConstantVariable("page").value(PAGE)


def _chosen(name: str, label: str, query: str, every: str) -> dashboard.QueryVariable:
    variable = (dashboard.QueryVariable(name).label(label).datasource(DATA_SOURCE)
                .query({"query": query, "refId": name}).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
                .sort(VariableSort.ALPHABETICAL_ASC).multi(True).include_all(True).current(ALL)
                .hide(VariableHide.DONT_HIDE))
    return variable.all_value(every) if every else variable


def _written(build: dashboard.Dashboard) -> str:
    """Return the JSON without what the SDK writes into every variable but Grafana's schema knows only of intervals."""
    tree = json.loads(JSONEncoder(sort_keys=True).encode(build.build()))
    tree["annotations"] = {"list": [
        {"name": name, "datasource": {"type": "prometheus", "uid": "${datasource}"}, "enable": True, "hide": False,
         "iconColor": color, "expr": expr % DAEMON, "titleFormat": name, "textFormat": text, "step": "60s"}
        for name, color, expr, text in ANNOTATIONS]}
    for variable in tree["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):
            variable.pop(key, None)
    return json.dumps(tree, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
