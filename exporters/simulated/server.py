"""The far end of the wire: one loopback HTTP server that stands for every exporter of the cluster and its slurmrestd.

=====================================  ==================================================
``/NODE/dcgm``, ``/NODE/node``,        the pages of a node's exporters
``/NODE/ipmi``, ``/NODE/cgroup``
``/slurm/v0.0.38/...``,                slurmrestd: ping, jobs, nodes, partitions, reservations, and finished jobs
``/slurmdb/v0.0.38/jobs``
``/api/v1/query``                      a Prometheus that knows ``job_throughput``, and nothing else
``/targets/dcgm`` (node, ipmi, cgroup) the pages as Prometheus HTTP service discovery, with ``node`` labels
``/NODE/dcgm_pods``,                   dcgm-exporter's page as it is under Kubernetes, with pods in place of jobs, and
``/NODE/cgroup_pods``                  the cAdvisor of a kubelet
``/NODE/amd``, ``/NODE/gaudi``         the pages of other vendors' GPUs, where a node has them
``/NODE/redfish/v1/...``,              the BMC of a Grace tray, and the controller of its rack's shelves; as targets
``/RACK/redfish/v1/...``               they are called ``redfish`` and ``shelves``
``/kubernetes/...``                    the API server of the same cluster under Kubernetes: a kubeconfig's server
``POST /steer``                        ``{"job_id": 9, "nodes": ["dgx-v100-02"]}``, as ``scontrol update ReqNodeList=``
=====================================  ==================================================
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from . import accelerators, kubernetes, redfish, slurm, throughput
from .api_server import Api
from .api_store import Store
from .cluster import SimulatedCluster
from .pages import CONTENT_TYPE, Pages

JSON = "application/json"
_OF_GPUS = ("dcgm", "dcgm_pods", "amd", "gaudi")
LARGEST_BODY = 65_536
REFRESH_S = 0.2
"""How often the objects of Kubernetes are rebuilt, at most."""
_TIME = re.compile(r"(?:uts)?(\d+(?:\.\d+)?)$")


class _Refused(Exception):
    """A request that cannot be served, with the HTTP status that says so."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class SimulatedSite:
    """Answers paths; moves the cluster to the clock's time before each answer."""

    def __init__(self, cluster: SimulatedCluster, clock: Callable[[], float], mig: bool = False) -> None:
        self._cluster, self._clock, self._lock = cluster, clock, threading.Lock()
        self._number = {server.name: number for number, server in enumerate(cluster.servers)}
        pages, of_pods = Pages(cluster, mig), Pages(cluster, mig, kubernetes.pod_labels)
        self._pages: Mapping[str, Callable[[int], str]] = {
            "amd": partial(accelerators.amd, cluster), "gaudi": partial(accelerators.gaudi, cluster),
            "dcgm": pages.dcgm, "dcgm_pods": of_pods.dcgm, "node": pages.node, "ipmi": pages.ipmi,
            "cgroup": pages.cgroup, "cgroup_pods": of_pods.cgroup_pods}
        self.kubernetes = Api(Store(), root="/kubernetes", bookmark_s=1.0, before=self._refresh)
        self._refreshed = float("-inf")
        self._slurm: Mapping[str, Callable[[SimulatedCluster], slurm.Answer]] = {
            f"/slurm/v0.0.38/{name}": answer for name, answer in (
                ("ping", slurm.ping), ("jobs", slurm.jobs), ("nodes", slurm.nodes),
                ("partitions", slurm.partitions), ("reservations", slurm.reservations))}

    def get(self, target: str, base_url: str) -> tuple[str, str]:
        """Return content type and body of a path with its query; raise ``_Refused`` where there is nothing."""
        url = urlsplit(target)
        with self._lock:
            self._cluster.advance(self._clock())
            if url.path in self._slurm:
                return JSON, json.dumps(self._slurm[url.path](self._cluster))
            if url.path == "/api/v1/query":
                return JSON, json.dumps(throughput.answer(self._cluster, parse_qs(url.query).get("query", [""])[0]))
            if url.path == "/slurmdb/v0.0.38/jobs":
                return JSON, json.dumps(slurm.accounted(self._cluster, _since(url.query)))
            return self._page(url.path.strip("/").split("/"), base_url)

    def _refresh(self) -> None:
        """Let the API server tell of the present; every watch asks for that, and the least of them is enough."""
        with self._lock:
            if time.monotonic() - self._refreshed >= REFRESH_S:
                self.refresh()

    def refresh(self) -> None:
        """Move the cluster to the clock's time, and the objects of its API server with it."""
        self._cluster.advance(self._clock())
        kubernetes.sync(self._cluster, self.kubernetes.store)
        self._refreshed = time.monotonic()

    def _page(self, steps: list[str], base_url: str) -> tuple[str, str]:
        if steps[1:3] == ["redfish", "v1"]:
            return JSON, json.dumps(self._redfish(steps[0], "".join(f"/{step}" for step in steps[3:])))
        if len(steps) == 2 and steps[0] == "targets":
            return JSON, json.dumps(self._targets(steps[1], base_url))
        number = self._number.get(steps[0]) if len(steps) == 2 else None
        if number is None or not self._has(number, steps[1]):
            raise _Refused(HTTPStatus.NOT_FOUND, "no such page")
        if steps[1] in _OF_GPUS and not self._cluster.exporter_answers(number):
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the hostengine is gone")
        return CONTENT_TYPE, self._pages[steps[1]](number)

    def _has(self, number: int, kind: str) -> bool:
        """Tell whether a server has such an exporter."""
        model = self._cluster.servers[number].model
        if kind in _OF_GPUS:
            return kind.partition("_")[0] == model.exporter
        return kind in self._pages and not (kind == "ipmi" and model.grace)

    def _targets(self, kind: str, base_url: str) -> list[dict[str, object]]:
        if kind == "shelves":
            return [{"targets": [f"{base_url}/{rack}"], "labels": {"enclosure": rack}}
                    for rack in redfish.racks(self._cluster)]
        if kind == "redfish":
            return [{"targets": [f"{base_url}/{server.name}"], "labels": {"node": server.name}}
                    for server in self._cluster.servers if server.model.grace]
        if kind not in self._pages:
            raise _Refused(HTTPStatus.NOT_FOUND, "no such page")
        return [{"targets": [f"{base_url}/{name}/{kind}"], "labels": {"node": name}}
                for name, number in self._number.items() if self._has(number, kind)]

    def _redfish(self, name: str, path: str) -> object:
        number = self._number.get(name)
        if number is not None and not self._cluster.meter_answers(number):
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the BMC restarts")
        if number is not None and self._cluster.servers[number].model.grace:
            tree = redfish.tray(self._cluster, number)
        else:
            tree = redfish.shelves(self._cluster, name) if name in redfish.racks(self._cluster) else {}
        if path not in tree:
            raise _Refused(HTTPStatus.NOT_FOUND, "no such resource")
        return tree[path]

    def steer(self, body: bytes) -> str:
        """Require nodes for a pending job and return a line for a person."""
        try:
            wish: dict[str, Any] = json.loads(body)
            job_id, nodes = int(wish["job_id"]), tuple(str(node) for node in wish["nodes"])
        except (ValueError, KeyError, TypeError) as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, 'expected {"job_id": number, "nodes": [names]}') from error
        with self._lock:
            self._cluster.advance(self._clock())
            try:
                self._cluster.steer(job_id, nodes)
            except KeyError as error:
                raise _Refused(HTTPStatus.NOT_FOUND, str(error.args[0])) from error
            except ValueError as error:
                raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        return f"job {job_id} requires {', '.join(nodes) or 'no node'}\n"


def _since(query: str) -> float:
    """Return the start of the window that is requested; slurmdbd's own default is far shorter than everything."""
    value = parse_qs(query).get("start_time", ["0"])[0]
    match = _TIME.match(value)
    if match is None:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"start_time {value!r} is not uts<seconds since the epoch>")
    return float(match[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet per answer: head and body apart would meet delayed acknowledgements, 40 ms each.
    wbufsize = -1
    server: SimulationServer

    def do_GET(self) -> None:
        if self.path.startswith(f"{self.server.site.kubernetes.root}/"):
            self.server.site.kubernetes.answer(self)
            return
        try:
            kind, body = self.server.site.get(self.path, self.server.url)
            self._send(HTTPStatus.OK, kind, body)
        except _Refused as refused:
            self._send(refused.status, "text/plain; charset=utf-8", f"{refused}\n")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        try:
            if self.path != "/steer":
                raise _Refused(HTTPStatus.NOT_FOUND, "no such page")
            if not length.isdecimal() or int(length) > LARGEST_BODY:
                raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too much")
            self._send(HTTPStatus.OK, "text/plain; charset=utf-8", self.server.site.steer(self.rfile.read(int(length))))
        except _Refused as refused:
            self.close_connection = True  # what was not read must not be taken for the next request
            self._send(refused.status, "text/plain; charset=utf-8", f"{refused}\n")

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the view."""


class SimulationServer(ThreadingHTTPServer):
    """Serves a site on 127.0.0.1; port 0 takes a free one."""

    daemon_threads = True
    # A thousand scrapers may knock at once.
    request_queue_size = 1024

    def __init__(self, site: SimulatedSite, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.site = site

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_port}"
