"""Racks with a meter of their own, and NVLink domains across nodes: where a rack's watts go, and what is broken up."""

from __future__ import annotations

from .dashboard import as_json
from .panels import DAEMON, SITE, Row, lines, listing, number, quiet

NO_RACK = "no rack is metered"
NO_DOMAIN = "no domain of nodes"
PARTS = {"trays": ("trays", "#43a047"), "switches": ("NVLink switches", "#1e88e5"),
         "loss": ("conversion loss", "#fb8c00"), "unmeasured": ("unmeasured", "#9e9e9e")}
STATES = {"free": ("free", "#43a047"), "broken": ("broken", "#e53935"), "full": ("full", "#1e88e5"),
          "out": ("out of service", "#9e9e9e")}
"""What people read, and its colour."""


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("racks", "Racks", "Racks by their own meters (power shelves, PDUs) taken apart into trays, NVLink "
                   "switches and conversion loss; NVLink domains across nodes (NVL72) that are free, broken or full.",
                   ((4, _figures()), (9, _power()), (9, _domains()), (10, _tables())))


def _parts(part: str, by: str = "") -> str:
    return f'sum{by} (idlewatt_enclosure_power_watts{{{DAEMON}, part="{part}"}})'


def _states(state: str) -> str:
    return f'sum(idlewatt_cluster_nvlink_domains{{{DAEMON}, state="{state}"}})'


def _figures() -> Row:
    whole = f"sum(idlewatt_enclosure_power_watts{{{DAEMON}}})"
    return (
        (4, number("Power of all racks", "By the meters of racks, or the trays where these measure more.", whole,
                   "watt", empty=NO_RACK)),
        (4, number("NVLink switches", "What the switch trays draw, as configured; it belongs to no job.",
                   _parts("switches"), "watt", empty=NO_RACK)),
        (4, number("Conversion loss", "What is left of the meters beside trays and switches, as a share of them.",
                   f"{_parts('loss')} / {whole}", "percentunit", empty=NO_RACK, decimals=1)),
        (4, number("Unmeasured in racks", "Of racks with a tray that is not measured, what nobody accounts for.",
                   _parts("unmeasured"), "watt", empty=NO_RACK)),
        (4, number("Broken domains", "NVLink domains of which some GPUs are free and some are not: no job of a whole "
                   "domain fits, however many GPUs are free.", _states("broken"), "short", empty=NO_DOMAIN,
                   steps=((None, "green"), (1, "orange")))),
        (4, number("Free GPUs in broken domains", "They serve no job that needs a whole domain.",
                   f"sum(idlewatt_cluster_nvlink_domain_broken_gpus{{{DAEMON}}})", "short", empty=NO_DOMAIN)))


def _power() -> Row:
    return (
        (12, lines("Power of racks by part", "Trays by their own meters, switches as configured, the rest is loss; "
                   "together they are the meter.", tuple((_parts(part), part) for part in PARTS), "watt",
                   stacked=True, names=PARTS, empty=quiet(NO_RACK))),
        (12, lines("Power by rack", "What the meter of each rack tells.",
                   ((f"sum by ({SITE}, enclosure) (idlewatt_enclosure_power_watts{{{DAEMON}}})", "{{enclosure}}"),),
                   "watt", stacked=True, empty=quiet(NO_RACK))))


def _domains() -> Row:
    return (
        (12, lines("NVLink domains by state", "Free: all GPUs of all nodes; full: none; broken: some. Racks broken by "
                   "small jobs leave none for large ones.", tuple((_states(state), state) for state in STATES),
                   "short", stacked=True, names=STATES, empty=quiet(NO_DOMAIN))),
        (12, lines("Free GPUs of broken domains by partition", "A node of several partitions counts in each.",
                   ((f"sum by ({SITE}, partition) (idlewatt_nvlink_domain_broken_gpus{{{DAEMON}}})", "{{partition}}"),),
                   "short", empty=quiet(NO_DOMAIN))))


def _tables() -> Row:
    columns = {"cluster": "Cluster", "enclosure": "Rack", **{f"Value #{letter}": heading for letter, heading in zip(
        "ABCDE", ("Trays", "NVLink switches", "Conversion loss", "Unmeasured", "Trays above the meter"), strict=True)}}
    by = f" by ({SITE}, enclosure)"
    return (
        (14, listing("Racks now", "Shelf = trays + switches + loss. Where the trays tell more than the meter, one of "
                     "them is wrong.", (*(_parts(part, by) for part in PARTS),
                                        f"max{by} (idlewatt_enclosure_disagreement_watts{{{DAEMON}}})"),
                     columns, unit="watt", order="Rack", empty=quiet(NO_RACK))),
        (10, listing("Trays with their share of the rack", "The fifty that draw most: their own power and, by it, "
                     "their share of switches and loss.",
                     (f"topk(50, sum by ({SITE}, enclosure, node) (idlewatt_enclosure_node_power_watts{{{DAEMON}}}))",),
                     {"cluster": "Cluster", "node": "Node", "enclosure": "Rack", "Value": "Power"}, unit="watt",
                     order="-Power",
                     empty=quiet(NO_RACK))))
