"""The few kinds of panel that dashboards are made of, so that they look alike; each says only what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict, Unpack

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
    trend,
)
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    GridPos,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from .classes import KINDS, POWER_CLASSES, any_of

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
Panel = Any
"""A panel builder of the SDK; its kinds share no base class."""

Row = Sequence[tuple[int, Panel]]
"""Panels side by side with their widths in twenty-fourths."""

DAEMON = 'job=~"$job", cluster=~"$cluster"'
# Names that people give may hold quotes and backslashes, which Grafana's own escaping leaves in: hence raw strings.
PARTITION = f"{DAEMON}, partition=~`${{partition:regex}}`"
MEMBERS = f"{DAEMON}, node=~`${{members:regex}}`"
"""The nodes of the chosen partitions."""
NODE, USER, JOB = (f"{DAEMON}, {label}=~`${{{name}:regex}}`" for label, name in (
    ("node", "node"), ("user", "user"), ("job_id", "job_id")))
CURRENCY = "currencyUSD"
"""Unit of money; ``idlewatt grafana install --currency`` writes another."""
SITE = "cluster, job, instance"
"""What tells nodes, partitions, users and jobs of one name apart: their cluster, or else the daemon they are of."""
_SAME = f"on ({SITE}) group_left ()"


def _price(window: str) -> str:
    per_kwh = f'avg_over_time(idlewatt_electricity_price{{{DAEMON}, currency="USD"}}[{window}])'
    return f"({per_kwh} * {_SAME} idlewatt_pue_ratio{{{DAEMON}}} or {per_kwh})"


PRICE = _price("$__rate_interval")
"""What a kWh costs with the site's PUE, in the currency that is shown: a price in another one gives no amount."""


MEAN_PRICE = f"max by ({SITE}) ({_price('$__range')})"
"""The mean of it over the time range, by cluster: for what was replayed, of which no moment is known."""


def cost(watts: str, by: str = "") -> str:
    """Return what watts cost over the time range, each step at the price that the daemon published then."""
    return f"sum{by} (sum_over_time(({watts} * {_SAME} {PRICE})[$__range:$__interval])) * $__interval_ms / 3.6e9"


def cost_by_quarters(joules: str) -> str:
    """Return what a counter of joules cost, by quarters of an hour: over days a panel's own steps are too coarse."""
    watts = f"sum by (cluster, job, instance) (rate({joules}[15m]))"
    return f"sum(sum_over_time(({watts} * {_SAME} {_price('15m')})[$__range:15m])) / 4e3"


CHOSEN = "${datasource:queryparam}&${job:queryparam}&${cluster:queryparam}&from=${__from}&to=${__to}"
"""What a dashboard hands on to another."""
LINKS = {"Job": ("job", "job_id", "jobs"), "Node": ("node", "node", "nodes"), "User": ("user", "user", "users"),
         "Partition": ("partitions", "partition", ""), "Policy": ("learning", "", "")}
"""Where the cells of a column lead: to a dashboard with its variable, and to a page of idlewatt's own."""

LETTERS = "ABCDEFGHIJK"
NO_DATA = "no data: see Daemon health"


def quiet(nothing: str) -> str:
    """Return what an empty panel says that is empty when all is well, too: it cannot tell, so it says both."""
    return f"{nothing}; or {NO_DATA}"


def by_kind(label: str, metric: str, selector: str) -> tuple[tuple[str, str], ...]:
    """Return queries by class or state, in the order in which they are stacked: useful, wasted, apart."""
    return tuple((f'sum by ({label}) ({metric}{{{selector}, {label}=~"{kind}"}})', f"{{{{{label}}}}}")
                 for kind in (any_of(row for row in POWER_CLASSES.values() if row.kind == kind) for kind in KINDS))


UNKNOWN = (f'idlewatt_power_watts{{{PARTITION}, class="unmeasured"}}', f"idlewatt_unmeasured_gpus{{{PARTITION}}}",
           f"idlewatt_unmeasured_hosts{{{PARTITION}}}")
"""While any of these is above zero, waste is known in part only."""


def in_part(by: str = "") -> str:
    """Return an expression that is there while waste is known in part only."""
    return " or ".join(f"sum by ({by}) ({metric}) > 0" for metric in UNKNOWN)


def at_least(expr: str, by: str = "") -> str:
    """Return waste where something is known of it; nothing, and not zero, where nobody knows."""
    return f"({expr}) > 0 or (({expr}) unless on ({by}) ({in_part(by)}))"


def largest(count: int) -> str:
    """Return the ``count`` largest of the chosen partitions, to be joined on the partition."""
    return f"topk({count}, sum by ({SITE}, partition) (idlewatt_gpus{{{PARTITION}}} @ end()))"


def top(count: int, by: str, metric: str, selector: str) -> str:
    """Return an expression of the ``count`` largest over the time range, the same ones all along it."""
    return (f"sum by ({SITE}, {by}) ({metric}{{{selector}}}) and "
            f"topk({count}, sum by ({SITE}, {by}) (avg_over_time({metric}{{{selector}}}[$__range] @ end())))")


class Figure(TypedDict, total=False):
    """How a large figure is shown."""

    steps: Sequence[tuple[float | None, str]]
    past: str
    text: dict[str, tuple[str, str]]
    decimals: int
    empty: str
    legend: str
    tall: bool
    beside: Sequence[tuple[str, str]]
    plain: str


def number(title: str, description: str, expr: str, unit: str, **shown: Unpack[Figure]) -> Panel:
    """Return one large figure; ``past`` fixes its time range, ``text`` shows words and colours for values.

    ``tall`` keeps it as large as others where its panel is as high as a table beside it. ``beside`` are (expression,
    name) of further figures, each shown with its name while it is there; the first then has the name ``legend``.
    The figure named ``plain`` is shown without colour, whatever its value.
    """
    legend, beside, text = shown.get("legend", ""), shown.get("beside", ()), shown.get("text")
    panel = _described(stat.Panel(), title, description, unit).no_value(shown.get("empty", "no data"))
    panel.thresholds(_thresholds(shown.get("steps") or ((None, "text"),)))
    panel.color_scheme(_color(FieldColorModeId.THRESHOLDS))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    panel.color_mode(common_model.BigValueColorMode.VALUE).graph_mode(common_model.BigValueGraphMode.NONE)
    panel.text_mode(common_model.BigValueTextMode.NAME if legend else common_model.BigValueTextMode.VALUE)
    panel.with_target(_query("A", expr, legend, instant=True))
    for letter, (other, name) in zip(LETTERS[1:], beside, strict=False):
        panel.with_target(_query(letter, other, name, instant=True))
    if beside:
        panel.text_mode(common_model.BigValueTextMode.VALUE_AND_NAME)
    elif legend:
        panel.text(common.VizTextDisplayOptions().value_size(20))  # a name that would else break in two
    if plain := shown.get("plain"):
        _override(panel, plain, color={"mode": "fixed", "fixedColor": "text"})
    if shown.get("tall"):
        panel.text(common.VizTextDisplayOptions().value_size(56))
    if past := shown.get("past"):
        panel.time_from(past).hide_time_override(True)
    if text:
        panel.mappings([_words(text)])
    if (decimals := shown.get("decimals")) is not None:
        panel.decimals(decimals)
    return panel


class Curves(TypedDict, total=False):
    """How curves are drawn."""

    stacked: bool
    signed: bool
    most: float
    names: dict[str, tuple[str, str]]
    empty: str
    over: str
    """The one that is drawn as a line over a stack."""


def lines(title: str, description: str, queries: Iterable[tuple[str, str]], unit: str,
          **drawn: Unpack[Curves]) -> Panel:
    """Return curves of (expression, legend)."""
    panel = _drawn(_described(timeseries.Panel(), title, description, unit), drawn.get("empty", NO_DATA))
    stacked = drawn.get("stacked", False)
    panel.fill_opacity(70 if stacked else 8).show_points(common_model.VisibilityMode.NEVER)
    panel.stacking(common.StackingConfig().mode(
        common_model.StackingMode.NORMAL if stacked else common_model.StackingMode.NONE).group("A"))
    for letter, (expr, legend) in zip(LETTERS, queries, strict=False):
        panel.with_target(_query(letter, expr, legend))
    if not drawn.get("signed"):
        panel.min(0.0)
    if (most := drawn.get("most")) is not None:
        panel.max(most)
    elif unit in ("short", "watt"):
        panel.axis_soft_max(1.0)  # else all zeros are drawn on a scale to 100
    _name(panel, drawn.get("names", {}))
    if over := drawn.get("over"):
        _override(panel, over, **{"color": {"mode": "fixed", "fixedColor": "text"}, "custom.fillOpacity": 0,
                                  "custom.stacking": {"mode": "none", "group": "B"}, "custom.lineWidth": 2})
    return panel


def bars(title: str, description: str, expr: str, label: str, unit: str, *, color: str = "#ef6c00",
         names: dict[str, tuple[str, str]] | None = None, empty: str = NO_DATA) -> Panel:
    """Return one bar for each value of a label, now, the largest first."""
    panel = _described(bargauge.Panel(), title, description, unit).min(0.0).no_value(empty)
    panel.orientation(common_model.VizOrientation.HORIZONTAL).display_mode(common_model.BarGaugeDisplayMode.BASIC)
    panel.value_mode(common_model.BarGaugeValueMode.TEXT).name_placement(common_model.BarGaugeNamePlacement.LEFT)
    panel.show_unfilled(True).min_viz_height(14).max_viz_height(34)
    # One size of writing on all of them; Grafana's own grows with the bar until names are cut off.
    panel.text(common.VizTextDisplayOptions().title_size(12).value_size(14))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    panel.color_scheme(_color(FieldColorModeId.FIXED, color))
    _name(panel, names or {})
    return panel.with_target(_query("A", f"sort_desc({expr})", f"{{{{{label}}}}}", instant=True))


def curves(title: str, description: str, expr: str, label: str, along: str, unit: str, *,
           empty: str = NO_DATA) -> Panel:
    """Return curves over a share that is a label of the series, ``along``, one for each value of ``label``."""
    panel = _drawn(_described(trend.Panel(), title, description, unit), empty).x_field(along)
    # Each curve has points of its own, so that all have gaps where others have points.
    panel.fill_opacity(0).show_points(common_model.VisibilityMode.ALWAYS).point_size(4).span_nulls(True)
    panel.with_target(_query("A", expr, "", instant=True).format(PromQueryFormat.TABLE))
    matrix = f"{along}\\{label}"  # what the transformation calls its first column
    _override(panel, along, unit="percentunit")
    return (panel.with_transformation(_step("groupingToMatrix", columnField=label, rowField=along, valueField="Value",
                                            emptyValue="null"))
            .with_transformation(_step("convertFieldType", fields={}, conversions=[
                {"targetField": matrix, "destinationType": "number"}]))
            .with_transformation(_step("sortBy", fields={}, sort=[{"field": matrix}]))
            .with_transformation(_step("organize", renameByName={matrix: along})))


def timeline(title: str, description: str, expr: str, legend: str, words: dict[str, tuple[str, str]], *,
             page: int = 20, empty: str = NO_DATA) -> Panel:
    """Return a row of coloured states for each series, ``page`` of them at a time."""
    panel = _described(statetimeline.Panel(), title, description, "short").no_value(empty)
    panel.mappings([_words(words)]).show_value(common_model.VisibilityMode.NEVER).merge_values(True).row_height(0.85)
    panel.fill_opacity(85).line_width(0).per_page(float(page)).color_scheme(_color(FieldColorModeId.THRESHOLDS))
    panel.legend(_legend())
    return panel.with_target(_query("A", expr, legend))


def by_gpu(states: str) -> str:
    """Return an expression with one label for each GPU, so that Prometheus sorts by node: it would by gpu, else."""
    return f'max by ({SITE}, node_gpu) (label_join({states}, "node_gpu", " GPU ", "node", "gpu"))'


def column(unit: str = "", *, width: int = 0, decimals: int | None = None,
           text: dict[str, tuple[str, str]] | None = None) -> dict[str, object]:
    """Return how a column of a table is shown where it differs from the others; ``width`` in pixels."""
    wanted = {"unit": unit, "custom.width": width, "mappings": text and [_words(text)]}
    return {name: value for name, value in wanted.items() if value} | (
        {} if decimals is None else {"decimals": decimals})


def listing(title: str, description: str, queries: Sequence[str], columns: dict[str, str], *, unit: str = "short",
            special: dict[str, dict[str, object]] | None = None, order: str = "", empty: str = NO_DATA) -> Panel:
    """Return a table of the given columns (label or ``Value #A`` -> heading), in that order.

    ``special`` are the ``column`` that differ, by heading; ``order`` is the heading to sort by, the least first, or
    the largest with a minus before it.
    """
    panel = _described(table.Panel(), title, description, unit).no_value(empty).show_header(True).min_width(50.0)
    for letter, expr in zip(LETTERS, queries, strict=False):
        panel.with_target(_query(letter, expr, "", instant=True).format(PromQueryFormat.TABLE))
    if len(queries) > 1:
        panel.with_transformation(_step("merge"))
    panel.with_transformation(_step("filterFieldsByName", include={"names": list(columns)}))
    panel.with_transformation(_step("organize", renameByName=columns,
                                    indexByName={name: place for place, name in enumerate(columns)}))
    if order:
        panel.sort_by([common.TableSortByFieldState().display_name(order.lstrip("-")).desc(order.startswith("-"))])
    for name, heading in columns.items():
        # An empty cell would repeat the text of an empty table; and job 12345 is not 12.3 K.
        usual = {"noValue": "-", "unit": unit if name.startswith("Value") else "string"}
        linked = {"links": _links(heading)} if heading in LINKS else {}
        _override(panel, heading, **{**usual, **linked, **(special or {}).get(heading, {})})
    return panel


def _links(heading: str) -> list[dict[str, object]]:
    """Return where the cells of a column lead."""
    uid, variable, page = LINKS[heading]
    named = f"var-{variable}=${{__value.raw:percentencode}}&" if variable else ""
    links: list[dict[str, object]] = [{"title": f"Dashboard {uid.capitalize()}",
                                       "url": f"/d/idlewatt-{uid}?{named}{CHOSEN}"}]
    links += [{"title": "Dashboard Resources", "url": f"/d/idlewatt-resources?{named}{CHOSEN}"}] * (heading == "Node")
    return links + ([{"title": "Page of idlewatt", "url": f"${{page}}/{page}/${{__value.raw:percentencode}}",
                      "targetBlank": True}] if page else [])


def laid_out(rows: Iterable[tuple[int, Row] | str]) -> list[Panel]:
    """Number panels and put them in place: rows of a height, panels of a width in twenty-fourths; text is a heading."""
    panels: list[Panel] = []
    y = 0
    for item in rows:
        if isinstance(item, str):
            heading = dashboard.Row(item).collapsed(False).id(len(panels) + 1)
            panels.append(heading.grid_pos(GridPos(x=0, y=y, w=24, h=1)))
            y += 1
            continue
        height, row = item
        x = 0
        for width, panel in row:
            panels.append(panel.id(len(panels) + 1).grid_pos(GridPos(x=x, y=y, w=width, h=height)))
            x += width
        y += height
    return panels


def _described(panel: Panel, title: str, description: str, unit: str) -> Panel:
    return panel.title(title).description(description).unit(unit).datasource(DATA_SOURCE)


def _drawn(panel: Panel, empty: str) -> Panel:
    """Dress a panel of curves."""
    panel.no_value(empty).line_width(1).color_scheme(_color(FieldColorModeId.PALETTE_CLASSIC)).legend(_legend())
    return panel.tooltip(common.VizTooltipOptions().mode(
        common_model.TooltipDisplayMode.MULTI).sort(common_model.SortOrder.DESCENDING))


def _legend() -> common.VizLegendOptions:
    return common.VizLegendOptions().display_mode(
        common_model.LegendDisplayMode.LIST).placement(common_model.LegendPlacement.BOTTOM).show_legend(True).calcs([])


def _step(name: str, **options: object) -> DataTransformerConfig:
    return DataTransformerConfig(id_val=name, options=options)


def _query(letter: str, expr: str, legend: str, instant: bool = False) -> prometheus.Dataquery:
    query = prometheus.Dataquery().ref_id(letter).expr(expr).legend_format(legend).datasource(DATA_SOURCE)
    return query.instant() if instant else query.range()


def _color(mode: FieldColorModeId, fixed: str = "") -> FieldColor:
    color = FieldColor().mode(mode)
    return color.fixed_color(fixed) if fixed else color


def _thresholds(steps: Sequence[tuple[float | None, str]]) -> ThresholdsConfig:
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(
        [Threshold(value=value, color=color) for value, color in steps])


def _words(words: dict[str, tuple[str, str]]) -> ValueMap:
    return ValueMap(options={value: ValueMappingResult(text=text, color=color, index=place)
                             for place, (value, (text, color)) in enumerate(words.items())})


def _name(panel: Panel, names: dict[str, tuple[str, str]]) -> None:
    """Give values of a label the words that people read, and their colour."""
    for value, (name, color) in names.items():
        _override(panel, value, displayName=name, color={"mode": "fixed", "fixedColor": color})


def _override(panel: Panel, name: str, **properties: object) -> None:
    panel.override_by_name(name, [DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()])
