"""Make pages of what :mod:`record` wrote: `python tests/stack/gpu/pages.py FOLDER`, into tests/recorded/h100_programs.

One file for each program, gzip, a page for each second from when the program was ready until it was over. A page holds
what three exporters would show: dcgm-exporter's names for NVML's figures (README.md beside the pages says which is
which), node_exporter's for the kernel's, and cgroup_exporter's for the program's CPU time.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

RECORDED = Path(__file__).parents[2] / "recorded/h100_programs"
SETTLED_S = 1.5
"""After a program is ready: the second before is still in the means."""
GPU = 'gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000000",device="nvidia0",modelName="{}",Hostname="n0"'
MEBIBYTE = 1 << 20

DEVICE = {"DCGM_FI_DEV_POWER_USAGE": ("power", 1e-3), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy", 1),
          "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("limit", 1e-3), "DCGM_FI_DEV_GPU_TEMP": ("temperature", 1),
          "DCGM_FI_DEV_SM_CLOCK": ("sm_clock", 1), "DCGM_FI_DEV_MEM_CLOCK": ("memory_clock", 1),
          "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("reasons", 1), "DCGM_FI_DEV_GPU_UTIL": ("gpu_util", 1),
          "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_util", 1), "DCGM_FI_DEV_FB_USED": ("memory_used", 1 / MEBIBYTE)}
FIELDS = {"DCGM_FI_DEV_MEMORY_TEMP": ("MEMORY_TEMP", 1),
          "DCGM_FI_DEV_POWER_USAGE_INSTANT": ("POWER_INSTANT", 1e-3),
          "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF": ("POWER_DEFAULT_LIMIT", 1e-3),
          "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN": ("POWER_MIN_LIMIT", 1e-3),
          "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS": ("PERF_POLICY_POWER", 1),
          "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS": ("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", 1),
          "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS": ("CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", 1),
          "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": (
              "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", 1)}
GPM = {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("GRAPHICS_UTIL", 1e-2), "DCGM_FI_PROF_SM_ACTIVE": ("SM_UTIL", 1e-2),
       "DCGM_FI_PROF_SM_OCCUPANCY": ("SM_OCCUPANCY", 1e-2),
       "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("ANY_TENSOR_UTIL", 1e-2),
       "DCGM_FI_PROF_DRAM_ACTIVE": ("DRAM_BW_UTIL", 1e-2), "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("FP64_UTIL", 1e-2),
       "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("FP32_UTIL", 1e-2), "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("FP16_UTIL", 1e-2),
       "DCGM_FI_PROF_PIPE_INT_ACTIVE": ("INTEGER_UTIL", 1e-2),
       "DCGM_FI_PROF_PCIE_TX_BYTES": ("PCIE_TX_PER_SEC", MEBIBYTE),
       "DCGM_FI_PROF_PCIE_RX_BYTES": ("PCIE_RX_PER_SEC", MEBIBYTE)}
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
TICKS = 100


def main(folder: Path) -> None:
    """Write the pages of every program that came to its end."""
    samples = list(_lines(folder / "samples.jsonl"))
    model = json.loads((folder / "what.json").read_text())["model"]
    RECORDED.mkdir(exist_ok=True)
    for mark in _lines(folder / "marks.jsonl"):
        if "ready" not in mark or mark["name"].startswith("duty"):
            continue
        begin, end = mark["ready"] + SETTLED_S, mark.get("done", mark["over"])
        text = "".join(page(one, model) for one in samples if begin <= one["time"] <= end)
        (RECORDED / f"{mark['name']}.prom.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def page(sample: dict, model: str) -> str:
    """Return one second as a page, with a comment that says when."""
    return "\n".join((f"# page {sample['time']:.3f}", *_gpu(sample, model), *_linux(sample), "", ""))


def _gpu(sample: dict, model: str) -> Iterator[str]:
    labels = GPU.format(model)
    for names, values in ((DEVICE, sample), (FIELDS, sample["fields"]), (GPM, sample["gpm"])):
        for name, (key, factor) in names.items():
            if values.get(key) is not None:
                yield f"{name}{{{labels}}} {_short(values[key] * factor)}"
    free = (sample["memory_total"] - sample["memory_used"]) / MEBIBYTE
    yield f"DCGM_FI_DEV_FB_FREE{{{labels}}} {_short(free)}"


def _linux(sample: dict) -> Iterator[str]:
    for mode, ticks in zip(MODES, sample["cpu"].split()[1:], strict=False):
        yield f'node_cpu_seconds_total{{cpu="0",mode="{mode}"}} {int(ticks) / TICKS}'
    for line in sample["/proc/diskstats"].splitlines():
        words = line.split()
        if words[2].startswith(("vd", "nvme", "sd")):
            yield f'node_disk_io_time_seconds_total{{device="{words[2]}"}} {int(words[12]) / 1000}'
    waiting = sample["/proc/pressure/io"].partition("total=")[2].split()[0]
    yield f"node_pressure_io_waiting_seconds_total {int(waiting) / 1e6}"
    for line in sample["memory"].splitlines():
        name, kibibytes, _ = line.split()
        yield f"node_memory_{name.rstrip(':')}_bytes {int(kibibytes) * 1024}"
    if sample["job_cpu"] is not None:
        yield f'cgroup_cpu_total_seconds{{jobid="1",cgroup="/slurm/uid_1000/job_1"}} {sample["job_cpu"]:.2f}'


def _short(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or abs(value) >= 1e5 else f"{value:.6g}"


def _lines(path: Path) -> Iterator[dict]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
