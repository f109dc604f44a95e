"""A busy site in accelerated time: a thousand DGX nodes, two jobs that wait for each, twenty that start a minute.

As records, and as slurmrestd's answers: ``python site_in_time.py PORT NODES START_S`` serves them, and every
``/step?s=N`` lets N seconds pass there.
"""

import json
import random
import sys
from collections import deque
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from idlewatt.exporters.simulated.slurm_shapes import JOB, META, NODE, PARTITION
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.waiting import WaitReason

PENDING_PER_NODE, STARTS_A_MINUTE = 2, 20
SHAPES = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 1), (16, 2))
"""GPUs and nodes that jobs ask for."""
PARTITIONS = 4


def name_of(node: int) -> str:
    return f"dgx-{node:04d}"


class BusySite:
    """Nodes, jobs and time; nearly all nodes are taken, each by one job."""

    def __init__(self, nodes: int, now_s: float, seed: int = 1) -> None:
        self.nodes, self.now_s = nodes, now_s
        self._draw = random.Random(seed)
        self._number, self._due = 0, 0.0
        self._free = set(range(nodes))
        self.running: deque[Job] = deque()
        self.pending: list[Job] = []
        self.ended: list[Job] = []
        """Those that ended since the last step."""
        while len(self._free) > nodes // 20:
            self._start(self._submit())
        self.pending += [self._submit() for _ in range(PENDING_PER_NODE * nodes)]

    def step(self, seconds: float) -> None:
        """Let time pass: as many jobs end, start and are submitted as the rate says."""
        self.now_s += seconds
        self.ended = []
        self._due += seconds * STARTS_A_MINUTE / 60
        while self._due >= 1:
            self._due -= 1
            self._end()
            self._start(self.pending.pop(self._draw.randrange(len(self.pending))))
            self.pending.append(self._submit())

    def snapshot(self) -> SchedulerSnapshot:
        held: dict[str, int] = {}
        for job in self.running:
            for part in job.allocations:
                held[part.node] = held.get(part.node, 0) + part.gpus
        known = tuple(Node(name, (f"p{number % PARTITIONS}",), 8, "a100", 256, 1 << 40,
                           gpus_allocated=held.get(name, 0), cpus_allocated=16 * held.get(name, 0),
                           memory_allocated_bytes=held.get(name, 0) << 36)
                      for number in range(self.nodes) for name in (name_of(number),))
        return SchedulerSnapshot(self.now_s, known, self._partitions(),
                                 (*self.running, *self.pending, *self.ended))

    def _partitions(self) -> tuple[Partition, ...]:
        return tuple(Partition(f"p{part}", tuple(map(name_of, range(part, self.nodes, PARTITIONS))))
                     for part in range(PARTITIONS))

    def _submit(self) -> Job:
        self._number += 1
        gpus, nodes = self._draw.choice(SHAPES)
        return Job(str(self._number), float(int(self.now_s)), JobState.PENDING, f"p{self._draw.randrange(PARTITIONS)}",
                   Request(gpus, nodes, gpus_per_node=gpus // nodes, cpus=16 * gpus, memory_bytes=gpus << 36),
                   user=f"user{self._draw.randrange(300)}", account=f"account{self._draw.randrange(40)}",
                   name=f"train-{self._draw.randrange(5000)}", qos="normal", eligible_s=float(int(self.now_s)),
                   limit_s=3600.0 * self._draw.choice((2, 4, 8, 24)),
                   reason=self._draw.choice((WaitReason.PRIORITY, WaitReason.RESOURCES)), raw_id=self._number)

    def _start(self, job: Job) -> None:
        part = int(job.partition[1:])
        while len(fitting := [node for node in self._free if node % PARTITIONS == part]) < job.request.nodes:
            self._end()
        each = job.request.gpus // job.request.nodes
        taken = self._draw.sample(sorted(fitting), job.request.nodes)
        self._free -= set(taken)
        parts = tuple(Allocation(name_of(node), each, tuple(range(each)), 16 * each, each << 36) for node in taken)
        self.running.append(replace(job, state=JobState.RUNNING, start_s=float(int(self.now_s)),
                                    reason=WaitReason.NONE, allocations=parts))

    def _end(self) -> None:
        job = self.running.popleft()
        self._free |= {int(part.node[-4:]) for part in job.allocations}
        self.ended.append(replace(job, state=JobState.COMPLETED, end_s=float(int(self.now_s)), exit_code=0,
                                  allocations=tuple(replace(part, gpu_indexes=None) for part in job.allocations)))


def answer(**body: object) -> bytes:
    plugin = {"type": "openapi/v0.0.38", "name": ""}
    return json.dumps({"meta": {"plugin": plugin, **META}, "errors": [], **body}).encode()


def job_page(job: Job) -> dict[str, object]:
    request, names = job.request, [part.node for part in job.allocations]
    asked = (f"cpu={request.cpus},mem={request.memory_bytes >> 30}G,node={request.nodes},billing=1,"
             f"gres/gpu={request.gpus}")
    return JOB | {
        "account": job.account, "eligible_time": int(job.submit_s), "job_id": int(job.job_id), "name": job.name,
        "end_time": int(job.end_s or (job.start_s + job.limit_s if job.start_s else 0)), "qos": "normal",
        "gres_detail": [f"gpu:a100:{part.gpus}(IDX:0-{part.gpus - 1})" for part in job.allocations],
        "job_state": job.state.value, "nodes": ",".join(names), "cpus": request.cpus, "node_count": request.nodes,
        "tasks": request.nodes, "partition": job.partition, "start_time": int(job.start_s or 0),
        "memory_per_node": (request.memory_bytes >> 20) // request.nodes, "state_reason": job.reason_text or "None",
        "submit_time": int(job.submit_s), "time_limit": int(job.limit_s // 60), "user_name": job.user,
        "tres_per_node": f"gres:gpu:{request.gpus_per_node}", "tres_req_str": asked,
        "tres_alloc_str": asked if names else ""}


def node_page(node: Node) -> dict[str, object]:
    return NODE | {
        "name": node.name, "hostname": node.name, "address": node.name, "partitions": list(node.partitions),
        "cpus": 256, "real_memory": 1 << 20, "gres": "gpu:a100:8", "gres_used": f"gpu:a100:{node.gpus_allocated}",
        "state": "mixed" if node.gpus_allocated else "idle", "alloc_cpus": node.cpus_allocated,
        "alloc_memory": node.memory_allocated_bytes >> 20,
        "tres": "cpu=256,mem=1048576M,billing=256,gres/gpu=8", "sockets": 2, "cores": 64}


class Slurmrestd(BaseHTTPRequestHandler):
    site: BusySite
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        body = self._step(url.query) if url.path == "/step" else self._answer(url.path.rpartition("/")[2], url.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _step(self, query: str) -> bytes:
        self.site.step(float(parse_qs(query)["s"][0]))
        return b"{}"

    def _answer(self, what: str, path: str) -> bytes:
        found = self.site.snapshot()
        if path.startswith("/slurmdb"):
            return answer(jobs=[])
        pages = {"jobs": lambda: [job_page(job) for job in found.jobs],
                 "nodes": lambda: [node_page(node) for node in found.nodes], "reservations": list,
                 "licenses": list,
                 "partitions": lambda: [PARTITION | {"name": part.name, "nodes": ",".join(part.nodes)}
                                        for part in found.partitions], "ping": list}
        return answer(**{"pings" if what == "ping" else what: pages[what]()})

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    Slurmrestd.site = BusySite(int(sys.argv[2]), float(sys.argv[3]))
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Slurmrestd)
    print("ready", flush=True)
    server.serve_forever()
