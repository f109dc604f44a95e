"""What every board has: variables, links to the others, tags, and its JSON."""

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

from .panels import DATA_SOURCE, Row, laid_out

ALL = VariableOption(selected=True, text="All", value="$__all")


def board(uid: str, title: str, description: str, rows: Iterable[tuple[int, Row]], *,
          variables: Sequence[dashboard.TextBoxVariable] = (), hours: int = 24) -> str:
    """Return the JSON of a board."""
    build = dashboard.Dashboard(title).uid(f"idlewatt-{uid}").description(description)
    build.tags(["idlewatt", "gpu", "power"]).readonly().refresh("1m").time(f"now-{hours}h", "now").timezone("browser")
    build.tooltip(DashboardCursorSync.CROSSHAIR).version(1)
    build.link(dashboard.DashboardLink("idlewatt").type(DashboardLinkType.DASHBOARDS).tags(["idlewatt"])
               .as_dropdown(True).include_vars(True).keep_time(True).icon("external link"))
    for variable in (*_variables(), *variables):
        build.with_variable(variable)
    for panel in laid_out(rows):
        build.with_panel(panel)
    return _written(build)


def price() -> dashboard.TextBoxVariable:
    """Return the box in which people write what a kWh costs them."""
    return dashboard.TextBoxVariable("price").label("Price per kWh").default_value("0.15")


def _variables() -> Iterable[dashboard.QueryVariable | dashboard.DatasourceVariable]:
    yield dashboard.DatasourceVariable("datasource").label("Data Source").type("prometheus")
    yield _chosen("job", "Daemon", "label_values(idlewatt_build_info, job)", ".+")
    own = 'job=~"$job", cluster=~"$cluster"'
    yield _chosen("cluster", "Cluster", 'label_values(idlewatt_build_info{job=~"$job"}, cluster)', ".*")
    yield _chosen("partition", "Partition", f"label_values(idlewatt_power_watts{{{own}}}, partition)", ".*")
    yield _chosen("node", "Node", f"label_values(idlewatt_node_gpus{{{own}}}, node)", ".*")


def _chosen(name: str, label: str, query: str, every: str) -> dashboard.QueryVariable:
    return (dashboard.QueryVariable(name).label(label).datasource(DATA_SOURCE).query({"query": query, "refId": name})
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC).multi(True)
            .include_all(True).all_value(every).current(ALL).hide(VariableHide.DONT_HIDE))


def _written(build: dashboard.Dashboard) -> str:
    """Return the JSON without what the SDK writes into every variable but Grafana's schema knows only of intervals."""
    tree = json.loads(JSONEncoder(sort_keys=True).encode(build.build()))
    for variable in tree["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):
            variable.pop(key, None)
    return json.dumps(tree, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
