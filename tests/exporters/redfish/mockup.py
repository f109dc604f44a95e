"""BMCs and a rack's controller as trees of Redfish resources, served over HTTP or HTTPS with sessions.

Written by hand after the standard's schemas (Chassis, EnvironmentMetrics, PowerSupplyMetrics, Power, Sensor,
PowerDistributionMetrics): sushy-tools' emulator has no power resources, DMTF's mockup server is in no package index.
"""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Tree = dict[str, Any]
ROOT = "/redfish/v1"


def at(path: str) -> dict[str, str]:
    return {"@odata.id": ROOT + path}


def collection(*paths: str) -> dict[str, Any]:
    return {"Members": [at(path) for path in paths], "Members@odata.count": len(paths)}


def chassis(tree: Tree, name: str, kind: str, **parts: Any) -> Tree:
    """Add a chassis; parts are environment, supplies, control, average, sensor (all watts) and inside (another one)."""
    own = f"/Chassis/{name}"
    resource: dict[str, Any] = {"Id": name, "ChassisType": kind, **at(own)}
    if "inside" in parts:
        resource["Links"] = {"ContainedBy": at(f"/Chassis/{parts['inside']}")}
    if "environment" in parts:
        resource["EnvironmentMetrics"] = at(f"{own}/EnvironmentMetrics")
        tree[f"{own}/EnvironmentMetrics"] = {"PowerWatts": parts["environment"]}
    if "supplies" in parts:
        _supplies(tree, own, resource, parts["supplies"])
    if "control" in parts or "average" in parts:
        resource["Power"] = at(f"{own}/Power")
        tree[f"{own}/Power"] = {"PowerControl": [{"PowerConsumedWatts": parts.get("control"),
                                                  "PowerMetrics": {"AverageConsumedWatts": parts.get("average")}},
                                                 {"PowerConsumedWatts": 12.0}]}
    if "sensor" in parts:
        resource["Sensors"] = at(f"{own}/Sensors")
        tree[f"{own}/Sensors"] = collection(f"{own}/Sensors/TotalPower")
        tree[f"{own}/Sensors/TotalPower"] = {"Reading": parts["sensor"], "ReadingUnits": "W"}
    tree[own] = resource
    tree["/Chassis"]["Members"].append(at(own))
    return tree


def _supplies(tree: Tree, own: str, resource: dict[str, Any], watts: Mapping[str, Any]) -> None:
    resource["PowerSubsystem"] = at(f"{own}/PowerSubsystem")
    tree[f"{own}/PowerSubsystem"] = {"PowerSupplies": at(f"{own}/PowerSupplies")}
    tree[f"{own}/PowerSupplies"] = collection(*(f"{own}/PowerSupplies/{name}" for name in watts))
    for name, value in watts.items():
        path = f"{own}/PowerSupplies/{name}"
        absent = value == "absent"
        tree[path] = {"Status": {"State": "Absent" if absent else "Enabled"}, "Metrics": at(f"{path}/Metrics")}
        if not absent:
            tree[f"{path}/Metrics"] = {"InputPowerWatts": {"Reading": value}}


def empty() -> Tree:
    return {"": {"Chassis": at("/Chassis")}, "/Chassis": {"Members": []}}


def rack(shelves: Mapping[str, float], pdus: Mapping[str, float]) -> Tree:
    tree = empty()
    tree[""]["PowerEquipment"] = at("/PowerEquipment")
    tree["/PowerEquipment"] = {"PowerShelves": at("/PowerEquipment/PowerShelves"),
                               "RackPDUs": at("/PowerEquipment/RackPDUs")}
    for kind, found in (("PowerShelves", shelves), ("RackPDUs", pdus)):
        own = f"/PowerEquipment/{kind}"
        tree[own] = collection(*(f"{own}/{name}" for name in found))
        for name, watts in found.items():
            tree[f"{own}/{name}"] = {"Metrics": at(f"{own}/{name}/Metrics")}
            tree[f"{own}/{name}/Metrics"] = {"PowerWatts": {"Reading": watts}}
    return tree


class MockBmc:
    """A controller that serves a tree, counts what is in flight, and forgets sessions when told to."""

    def __init__(self, tree: Tree, *, login: tuple[str, str] | None = None, tls: ssl.SSLContext | None = None,
                 lag_s: float = 0.0) -> None:
        self.tree, self.login, self.lag_s = tree, login, lag_s
        self.tokens: set[str] = set()
        self.opened = self.in_flight = self.most_in_flight = 0
        self.asked: list[str] = []
        self.hold = threading.Event()
        self.hold.set()
        self.closing = threading.Event()
        self._change = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.hold.set()
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def allowed(self, headers: Message) -> bool:
        if self.login is None or headers.get("X-Auth-Token") in self.tokens:
            return True
        kind, _, given = headers.get("Authorization", "").partition(" ")
        return kind == "Basic" and b64decode(given).decode() == ":".join(self.login)

    def open(self, body: Mapping[str, str]) -> str:
        if self.login != (body.get("UserName"), body.get("Password")):
            return ""
        self.opened += 1
        self.tokens.add(token := f"token{self.opened}")
        return token

    def count(self, change: int) -> None:
        with self._change:
            self.in_flight += change
            self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        mock = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self, status: int, body: Any = None, **headers: str) -> None:
                raw = json.dumps(body if body is not None else {}).encode() if not isinstance(body, bytes) else body
                self.send_response(status)
                for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                with suppress(OSError):  # who asked may have left
                    self.wfile.write(raw)

            def do_GET(self) -> None:
                mock.count(1)
                mock.hold.wait(10)
                mock.closing.wait(mock.lag_s)
                path = self.path.removeprefix(ROOT).rstrip("/")
                mock.asked.append(path)
                mock.count(-1)
                if path and not mock.allowed(self.headers):
                    self.answer(401)
                elif path in mock.tree:
                    self.answer(200, mock.tree[path])
                else:
                    self.answer(404)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                token = mock.open(body)
                if token:
                    self.answer(201, None, X_Auth_Token=token, Location=f"{ROOT}/SessionService/Sessions/{token}")
                else:
                    self.answer(401)

            def do_DELETE(self) -> None:
                mock.tokens.discard(self.path.rpartition("/")[2])
                self.answer(204, b"")

        return Handler
