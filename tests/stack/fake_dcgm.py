"""Stand-in for dcgm-exporter on a machine without GPUs: its text format, driven by Slurm's real job-mapping files.

usage: fake_dcgm.py JOBMAP_ROOT WATTS_DIRECTORY

One listener per node on 127.0.1.N:9400. Each second every node's GPUs are stepped and the box's own watts (GPUs
plus 1500 W) are written to WATTS_DIRECTORY/NODE for fake_bmc.py. A file JOBMAP_ROOT/NODE/load, when a test writes
one, sets the load of its busy GPUs (0..1), and with a file `hung` they are busy at idle power. Idle and loaded watts
are of the order of public dcgm-exporter output.
"""

import hashlib
import http.server
import os
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

OVERHEAD_WATTS = 1500
GAUGES = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "Total energy consumption since boot (in mJ).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "Memory utilization (in %).",
    "DCGM_FI_DEV_XID_ERRORS": "Value of the last XID error encountered.",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "Ratio of time the graphics engine is active.",
}


@dataclass
class Model:
    name: str
    idle_watts: float
    loaded_watts: float
    memory_mib: int


A100 = Model("NVIDIA A100-SXM4-40GB", 60, 372, 40960)
V100 = Model("Tesla V100-SXM2-32GB", 55, 279, 32768)
NODES = {"dgx-a100-01": A100, "dgx-a100-02": A100, "dgx-v100-01": V100, "dgx-v100-02": V100}


@dataclass
class Node:
    name: str
    model: Model
    jobmap: Path
    watts_file: Path
    millijoules: list[float] = field(default_factory=lambda: [0.0] * 8)
    page: bytes = b""

    def jobs(self, gpu: int) -> list[str]:
        try:
            return (self.jobmap / str(gpu)).read_text().split()
        except OSError:
            return []

    def load(self, jobs: list[str]) -> float:
        """Return what a test asked for, else a level of the job's own between 35 and 94 %."""
        if not jobs:
            return 0.0
        try:
            return float((self.jobmap / "load").read_text())
        except (OSError, ValueError):
            return 0.35 + int(hashlib.sha256(jobs[0].encode()).hexdigest(), 16) % 60 / 100

    def labels(self, gpu: int) -> str:
        identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}/{gpu}")
        return (f'gpu="{gpu}",UUID="GPU-{identity}",pci_bus_id="00000000:{7 + 8 * gpu:02X}:00.0",device="nvidia{gpu}",'
                f'modelName="{self.model.name}",Hostname="{self.name}",DCGM_FI_DRIVER_VERSION="535.129.03"')

    def values(self, gpu: int, load: float, watts: float) -> list[float | int | str]:
        used = int(self.model.memory_mib * (0.2 + 0.7 * load)) if load else 4
        return [1410 if load else 210, int(30 + watts / 10), f"{watts:.6f}", int(self.millijoules[gpu]),
                round(100 * load), round(50 * load), 0, self.model.memory_mib - used, used, f"{load:.6f}"]

    def step(self, seconds: float) -> None:
        """Advance the energy counters, then draw the page and the watts of the box."""
        rows: dict[str, list[str]] = {name: [] for name in GAUGES}
        total = float(OVERHEAD_WATTS)
        for gpu in range(8):
            jobs = self.jobs(gpu)
            load = self.load(jobs)
            drawn = 0.0 if (self.jobmap / "hung").exists() else load
            watts = self.model.idle_watts + (self.model.loaded_watts - self.model.idle_watts) * drawn
            total += watts
            self.millijoules[gpu] += watts * seconds * 1000
            suffixes = [f',hpc_job="{job}"' for job in jobs] or [""]  # dcgm-exporter repeats a shared GPU per job
            for name, value in zip(GAUGES, self.values(gpu, load, watts), strict=True):
                rows[name] += [f"{name}{{{self.labels(gpu)}{suffix}}} {value}" for suffix in suffixes]
        self.page = "".join(f"# HELP {name} {GAUGES[name]}\n# TYPE {name} {kind(name)}\n" + "\n".join(lines) + "\n"
                            for name, lines in rows.items()).encode()
        replace(self.watts_file, f"{total:.0f}")


def kind(name: str) -> str:
    return "counter" if name.endswith("CONSUMPTION") else "gauge"


def replace(path: Path, text: str) -> None:
    partial = path.with_suffix(".new")
    partial.write_text(text)
    os.replace(partial, path)


def serve(node: Node, address: str) -> None:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(node.page)))
            self.end_headers()
            self.wfile.write(node.page)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http.server.ThreadingHTTPServer((address, 9400), Page).serve_forever()


def main(jobmap_root: Path, watts_directory: Path) -> None:
    nodes = [Node(name, model, jobmap_root / name, watts_directory / name) for name, model in NODES.items()]
    for number, node in enumerate(nodes, start=1):
        node.step(0)
        threading.Thread(target=serve, args=(node, f"127.0.1.{number}"), daemon=True).start()
    last = time.monotonic()
    while True:
        time.sleep(0.5)
        now = time.monotonic()
        for node in nodes:
            node.step(now - last)
        last = now


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
