"""Record what NVML and Linux tell of the programs on a machine with one GPU: `record.py FOLDER SECONDS NAME...`.

Needs PyTorch with CUDA, nvidia-ml-py, and a GPU whose driver has GPM (Hopper or later). Writes ``samples.jsonl``, a
line each second, and ``marks.jsonl``, when each program was ready and over. :mod:`pages` makes pages of them.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

FIELDS = ("MEMORY_TEMP", "TOTAL_ENERGY_CONSUMPTION", "POWER_AVERAGE", "POWER_INSTANT", "POWER_DEFAULT_LIMIT",
          "POWER_MIN_LIMIT", "POWER_CURRENT_LIMIT", "PERF_POLICY_POWER", "PERF_POLICY_THERMAL",
          "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
          "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN")
GPM = ("GRAPHICS_UTIL", "SM_UTIL", "SM_OCCUPANCY", "INTEGER_UTIL", "ANY_TENSOR_UTIL", "HMMA_TENSOR_UTIL",
       "DMMA_TENSOR_UTIL", "DRAM_BW_UTIL", "FP64_UTIL", "FP32_UTIL", "FP16_UTIL", "PCIE_TX_PER_SEC", "PCIE_RX_PER_SEC",
       "NVLINK_TOTAL_RX_PER_SEC", "NVLINK_TOTAL_TX_PER_SEC")
NOTHING = "no_context"
"""The GPU while nothing is on it."""
FILES = ("/proc/diskstats", "/proc/pressure/io", "/proc/pressure/cpu")


class Nvml:
    """One GPU through NVML and its GPM metrics."""

    def __init__(self) -> None:
        import pynvml
        self.nvml = pynvml
        pynvml.nvmlInit()
        self.gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.fields = {name: getattr(pynvml, f"NVML_FI_DEV_{name}") for name in FIELDS
                       if hasattr(pynvml, f"NVML_FI_DEV_{name}")}
        self.gpm = {name: getattr(pynvml, f"NVML_GPM_METRIC_{name}") for name in GPM
                    if hasattr(pynvml, f"NVML_GPM_METRIC_{name}")}
        self.samples = None
        if self.told("support", lambda: pynvml.nvmlGpmQueryDeviceSupport(self.gpu).isSupportedDevice):
            self.samples = [pynvml.nvmlGpmSampleGet(self.gpu, pynvml.nvmlGpmSampleAlloc()) for _ in range(2)]

    def told(self, name, ask):
        """Return an answer, None where the driver has none."""
        try:
            return ask()
        except (self.nvml.NVMLError, AttributeError) as error:
            print(name, error, file=sys.stderr)
            return None

    def what(self):
        n, gpu = self.nvml, self.gpu
        return {"model": n.nvmlDeviceGetName(gpu), "driver": n.nvmlSystemGetDriverVersion(),
                "most_sm_mhz": self.told("max", lambda: n.nvmlDeviceGetMaxClockInfo(gpu, n.NVML_CLOCK_SM)),
                "link": self.told("link", lambda: [n.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
                                                   n.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
                                                   n.nvmlDeviceGetCurrPcieLinkWidth(gpu)]),
                "nvlink": self.told("nvlink", lambda: n.nvmlDeviceGetNvLinkState(gpu, 0)),
                "persistence": self.told("persistence", lambda: n.nvmlDeviceGetPersistenceMode(gpu)),
                "gpm": self.samples is not None}

    def read(self):
        n, gpu = self.nvml, self.gpu
        memory = self.told("memory", lambda: n.nvmlDeviceGetMemoryInfo(gpu))
        use = self.told("use", lambda: n.nvmlDeviceGetUtilizationRates(gpu))
        return {"power": self.told("power", lambda: n.nvmlDeviceGetPowerUsage(gpu)),
                "energy": self.told("energy", lambda: n.nvmlDeviceGetTotalEnergyConsumption(gpu)),
                "limit": self.told("limit", lambda: n.nvmlDeviceGetEnforcedPowerLimit(gpu)),
                "temperature": self.told("temperature", lambda: n.nvmlDeviceGetTemperature(gpu, 0)),
                "sm_clock": self.told("clock", lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM)),
                "memory_clock": self.told("clock", lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_MEM)),
                "reasons": self.told("reasons", lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
                "gpu_util": use and use.gpu, "memory_util": use and use.memory,
                "memory_used": memory and memory.used, "memory_total": memory and memory.total,
                "fields": self.told("fields", self._fields), "gpm": self.told("gpm", self._gpm)}

    def _fields(self):
        found = self.nvml.nvmlDeviceGetFieldValues(self.gpu, list(self.fields.values()))
        kinds = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
        return {name: getattr(one.value, kinds[one.valueType]) for name, one in zip(self.fields, found, strict=True)
                if one.nvmlReturn == 0}

    def _gpm(self):
        """Return the metrics of the time since the last call."""
        if self.samples is None:
            return None
        old, new = self.samples
        self.nvml.nvmlGpmSampleGet(self.gpu, new)
        asked = self.nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = 1, len(self.gpm)
        asked.sample1, asked.sample2 = old, new
        for place, number in enumerate(self.gpm.values()):
            asked.metrics[place].metricId = number
        self.nvml.nvmlGpmMetricsGet(asked)
        self.samples = [new, old]
        return {name: asked.metrics[place].value for place, name in enumerate(self.gpm)
                if asked.metrics[place].nvmlReturn == 0}


def cpu_seconds(group: int) -> float:
    """Return the CPU time of all processes of a group, as a cgroup counts it while they live."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == group:
            ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def linux(group: int) -> dict:
    """Return the counters of the machine and of the program."""
    found = {name: Path(name).read_text() for name in FILES if Path(name).exists()}
    with open("/proc/stat") as stat:
        found["cpu"] = stat.readline()
    with open("/proc/meminfo") as memory:
        found["memory"] = "".join(line for line in memory if line.startswith(("MemTotal", "MemAvailable")))
    return found | {"job_cpu": cpu_seconds(group) if group else None}


class Sampler(threading.Thread):
    """Writes a line each second until it is stopped."""

    def __init__(self, nvml: Nvml, path: Path) -> None:
        super().__init__(daemon=True)
        self.nvml, self.path, self.group, self.over = nvml, path, 0, threading.Event()

    def run(self) -> None:
        with self.path.open("w") as out:
            due = time.monotonic()
            while not self.over.is_set():
                try:
                    line = {"time": time.time()} | self.nvml.read() | linux(self.group)
                    print(json.dumps(line), file=out, flush=True)
                except (OSError, ValueError, LookupError, TypeError, ArithmeticError):
                    traceback.print_exc()
                due += 1.0
                self.over.wait(max(0.0, due - time.monotonic()))


def serve() -> None:
    """Import once, then run each program that is asked for in a process of its own."""
    import programs
    import programs_apart  # noqa: F401 - adds its own
    for module in () if programs.SMALL else ("torchvision", "PIL.Image"):
        try:
            __import__(module)
        except ImportError as error:
            print(module, error, file=sys.stderr)
    print("imported", flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        process = os.fork()
        if not process:
            _work(programs, name, float(seconds))
        os.setpgid(process, process)
        print(f"began {process}", flush=True)
        _, status = os.waitpid(process, 0)
        print(f"over {status}", flush=True)


def _work(programs, name: str, seconds: float) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        signal.alarm(int(2 * seconds + 40))
        programs.PROGRAMS[name](programs.Run(seconds, lambda: print("ready 0", flush=True), _end))
        status = 0
    except Exception:  # noqa: BLE001 - the other programs go on
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _end() -> None:
    """End this program and all that it started, at once: loaders take long to stop."""
    print("done 0", flush=True)
    sys.stderr.flush()
    os.killpg(0, signal.SIGKILL)


def record(folder: Path, seconds: float, names: list[str]) -> None:
    """Record some programs one after the other."""
    nvml = Nvml()
    print(nvml.what(), flush=True)
    (folder / "what.json").write_text(json.dumps(nvml.what()))
    sampler = Sampler(nvml, folder / "samples.jsonl")
    marks = (folder / "marks.jsonl").open("w")
    sampler.start()
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdin=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE)
    server.stdout.readline()
    for name in names:
        mark = _one(server, sampler, name, seconds * (0.3 if name.startswith("duty") else 1))
        print(json.dumps(mark), file=marks, flush=True)
        print(mark, flush=True)
    sampler.over.set()
    sampler.join()
    server.stdin.close()


def _one(server, sampler: Sampler, name: str, seconds: float) -> dict:
    mark = {"name": name, "asked": time.time()}
    if name == NOTHING:
        time.sleep(seconds)
        return {"name": name, "ready": mark["asked"], "over": time.time()}
    server.stdin.write(f"{name} {seconds}\n")
    server.stdin.flush()
    for word, value in _words(server):
        if word == "began":
            sampler.group = value
        if word == "ready":
            mark["ready"] = time.time()
        if word == "done":
            mark["done"] = time.time()
        if word == "over":
            mark |= {"over": time.time(), "status": value}
            break
    sampler.group = 0
    return mark


def _words(server) -> Iterator[tuple[str, int]]:
    for line in server.stdout:
        word, _, value = line.partition(" ")
        if word in ("began", "ready", "done", "over"):
            yield word, int(value)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        record(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
