"""The sources and racks of each kind of simulated hardware, as an operator would configure them for real ones.

The simulation is imported only where it is needed, so that ``--help`` is fast.
"""

from __future__ import annotations

from ._parts import ADVISES

SOURCES = {"shelves": "redfish"}
"""Kind of source of each kind of target whose name differs from it."""
# What a BMC is asked for each half a minute of theirs, it is asked for as often as we can.
_BMC: dict[str, object] = {"scheme": "http", "refresh": "1s"}
OPTIONS: dict[str, dict[str, object]] = {
    "gaudi": {"model": "HL-325L"}, "redfish": _BMC, "shelves": {"name": "redfish_racks", **_BMC}}
"""Further options of each kind of source."""
HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]
"""The GPUs of a DGX-1V by CPU: NVLink joins each of them to all others of its half, and to one of the other."""
RACK_RATED_WATTS = 140_000.0


def advises(hardware: str) -> str:
    """Return the policy that advises; for racks, the policy that fills an NVLink domain before it uses another."""
    return "limit-aged+nearest+easy" if hardware == "gb200-nvl72" else ADVISES


def usual_nodes(hardware: str) -> int:
    """Return the default number of servers of a demo."""
    from ...exporters.simulated.hardware import USUAL_NODES

    return USUAL_NODES[hardware]


def exporters(hardware: str, nodes: int) -> tuple[str, ...]:
    """Return the targets of the simulation: GPU exporters, node_exporter, cgroups and wall meters."""
    from ...exporters.simulated.hardware import servers

    models = [server.model for server in servers(nodes, hardware)]
    grace = {model.grace for model in models}
    walls = (*(("ipmi",) if False in grace else ()), *(("redfish", "shelves") if True in grace else ()))
    return (*dict.fromkeys(model.exporter for model in models), "node", "cgroup", *walls)


def _racks(hardware: str, nodes: int) -> dict[str, list[str]]:
    from ...exporters.simulated.hardware import servers

    racks: dict[str, list[str]] = {}
    for server in servers(nodes, hardware):
        if server.rack:
            racks.setdefault(server.rack, []).append(server.name)
    return racks


def enclosures(hardware: str, nodes: int) -> dict[str, dict[str, object]]:
    """Return the racks: their trays, the power of their switch trays, and the limit of their power shelves."""
    from ...exporters.simulated.hardware import SWITCH_WATTS

    return {rack: {"nodes": names, "switch_watts": SWITCH_WATTS, "rated_watts": RACK_RATED_WATTS}
            for rack, names in _racks(hardware, nodes).items()}


def links(hardware: str, nodes: int) -> list[dict[str, object]]:
    """Return the sources of the topology; DCGM itself reports the NVLink domains of racks."""
    if hardware == "dgx":
        return [{"kind": "gpu_links", "nodes": ["dgx-v100-*"], "islands": HALVES}]
    leaves = {f"leaf-{number}": ",".join(names) for number, names in enumerate(_racks(hardware, nodes).values(), 1)}
    if not leaves:
        return []
    return [{"kind": "topology", "leaves": leaves, "spines": {"spine-1": ",".join(leaves)}}]


def first_server(hardware: str) -> str:
    """Return the path of one server's page."""
    from ...exporters.simulated.hardware import servers

    server = servers(1, hardware)[0]
    return f"{server.name}/{server.model.exporter}"
