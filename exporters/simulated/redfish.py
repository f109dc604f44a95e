"""The Redfish of a GB200 tray's BMC and of a rack's controller, as far as power goes.

A tray has a chassis that is the whole and two modules within it, which tell their power, too: adding them up would
count watts twice. A rack has eight power shelves.
"""

from __future__ import annotations

from .accelerators import modules
from .cluster import SimulatedCluster
from .hardware import SHELF_EFFICIENCY, SWITCH_WATTS

Tree = dict[str, object]
ROOT = "/redfish/v1"
SHELVES = 8


def racks(cluster: SimulatedCluster) -> tuple[str, ...]:
    """Return the racks that have a controller."""
    return tuple(dict.fromkeys(server.rack for server in cluster.servers if server.rack))


def rack_watts(cluster: SimulatedCluster, rack: str) -> float:
    """Return what the shelves of a rack draw: its trays, its switches, and what converting loses."""
    trays = sum(float(cluster.gpus.meter_watts[number]) for number, server in enumerate(cluster.servers)
                if server.rack == rack)
    return (trays + SWITCH_WATTS) / SHELF_EFFICIENCY


def tray(cluster: SimulatedCluster, server: int) -> Tree:
    """Return the resources of a tray's BMC by path."""
    chassis = {"Chassis_0": ("RackMount", float(cluster.gpus.meter_watts[server]))} | {
        f"HGX_ProcessorModule_{socket}": ("Module", watts[0]) for socket, watts in enumerate(modules(cluster, server))}
    tree: Tree = {"": {"Id": "RootService", "Chassis": _at("/Chassis")},
                  "/Chassis": _collection(*(f"/Chassis/{name}" for name in chassis))}
    for name, (kind, watts) in chassis.items():
        tree[f"/Chassis/{name}"] = _at(f"/Chassis/{name}") | {
            "Id": name, "ChassisType": kind, "EnvironmentMetrics": _at(f"/Chassis/{name}/EnvironmentMetrics"),
            "Links": {"ContainedBy": _at("/Chassis/Chassis_0")} if kind == "Module" else {}}
        tree[f"/Chassis/{name}/EnvironmentMetrics"] = {"Id": "EnvironmentMetrics",
                                                       "PowerWatts": {"Reading": round(watts, 1)}}
    return tree


def shelves(cluster: SimulatedCluster, rack: str) -> Tree:
    """Return the resources of a rack's controller by path."""
    each = round(rack_watts(cluster, rack) / SHELVES, 1)
    names = [f"/PowerEquipment/PowerShelves/{number}" for number in range(1, SHELVES + 1)]
    tree: Tree = {"": {"Id": "RootService", "PowerEquipment": _at("/PowerEquipment")},
                  "/PowerEquipment": {"PowerShelves": _at("/PowerEquipment/PowerShelves")},
                  "/PowerEquipment/PowerShelves": _collection(*names)}
    for name in names:
        tree[name] = _at(name) | {"EquipmentType": "PowerShelf", "Metrics": _at(f"{name}/Metrics")}
        tree[f"{name}/Metrics"] = {"Id": "Metrics", "PowerWatts": {"Reading": each}}
    return tree


def _at(path: str) -> dict[str, str]:
    return {"@odata.id": ROOT + path}


def _collection(*paths: str) -> Tree:
    return {"Members": [_at(path) for path in paths], "Members@odata.count": len(paths)}
