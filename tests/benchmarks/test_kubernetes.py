"""What reading Kubernetes costs: the first lists, each change, each look; the emulated server is another process."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.kubernetes.fields import Listing
from idlewatt.exporters.kubernetes.pods import parse_pod
from idlewatt.exporters.kubernetes.source import KubernetesSource

HERE = Path(__file__).parent
PATHS = [str(HERE.parent / "exporters" / "kubernetes")]
CHANGES, LOOKS, STARTS = 2000, 240, 7


def resident_megabytes() -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def watching(url: str) -> KubernetesSource:
    """Return a source that reads the emulated server."""
    source = KubernetesConfig(kind="kubernetes", url=url).build(time.time)
    assert isinstance(source, KubernetesSource)
    return source


def cpu_seconds(pid: int) -> float:
    """Return what a process has used of CPU time since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(params=[(5_000, 1_000), (10_000, 1_000)], ids=lambda size: f"{size[0]} pods")
def site(request):
    pods, nodes = request.param
    code = f"import sys; sys.path[:0] = {PATHS!r}; sys.argv[1:] = ['{pods}', '{nodes}']; " \
           f"exec(compile(open({str(HERE / 'kube_site.py')!r}).read(), 'kube_site.py', 'exec'))"
    process = subprocess.Popen((sys.executable, "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield pods, process.stdout.readline().strip(), process
    process.kill()
    process.communicate()


def test_a_fresh_process_has_the_first_picture_in_half_a_cpu_second(site, capsys):
    """Ten thousand pods; nothing is warm: neither caches nor what the first call of anything sets up."""
    pods, url, _ = site
    runs = [json.loads(subprocess.check_output((sys.executable, HERE / "kube_start.py", url))) for _ in range(STARTS)]
    assert {run["jobs"] for run in runs} == {pods // 2}
    firsts = sorted(run["user"] + run["system"] for run in runs)
    user, system, look, imports = (statistics.median(run[part] for run in runs)
                                   for part in ("user", "system", "look", "imports"))
    with capsys.disabled():
        print(f"\n{pods:,} pods, {STARTS} fresh processes at a load of {os.getloadavg()[0]:.1f}: first read "
              f"{firsts[0]:.2f} to {firsts[-1]:.2f} CPU-s, the median {statistics.median(firsts):.2f} ({user:.2f} its "
              f"own, {system:.2f} the system's), the next look {look:.2f}; imports before it {imports:.2f}")
    assert statistics.median(firsts) < 0.5


def test_a_cluster_is_read_once_and_then_followed_at_little_cost(site, capsys):
    pods, url, process = site
    source = watching(url)
    memory, began = resident_megabytes(), time.process_time()
    snapshot = source.read()
    first = time.process_time() - began
    assert len(snapshot.jobs) == pods // 2
    began = time.process_time()
    source.read()
    look = time.process_time() - began
    began = time.process_time()
    process.stdin.write(f"{CHANGES}\n")
    process.stdin.flush()
    version = int(process.stdout.readline())
    while any(int(known) < version for known in source.versions.values()):
        time.sleep(0.005)
    event = (time.process_time() - began) / CHANGES
    with capsys.disabled():
        print(f"\n{pods:,} pods, 1,000 nodes, {pods // 2:,} jobs: first read, imports warm, {first:.2f} CPU-s, "
              f"+{resident_megabytes() - memory:.0f} MB; a change {1000 * event:.2f} ms, a look {1000 * look:.0f} ms")
    source.close()
    assert event < 0.005


@pytest.mark.parametrize("site", [(5_000, 1_000)], ids=["5000 pods"], indirect=True)
def test_an_hour_of_twenty_changes_a_second_costs_less_than_a_tenth_of_a_core(site, capsys):
    """Accelerated: all changes between two looks, 15 seconds apart, come at once."""
    _, url, process = site
    source = watching(url)
    source.read()
    memory, began, lags, emulated = resident_megabytes(), time.process_time(), [], cpu_seconds(process.pid)
    for _ in range(LOOKS):
        process.stdin.write(f"{20 * 15}\n")
        process.stdin.flush()
        version, written = int(process.stdout.readline()), time.monotonic()
        while int(source.versions["pods"]) < version:
            time.sleep(0.001)
        lags.append(time.monotonic() - written)
        source.read()
    cpu, emulated = time.process_time() - began, cpu_seconds(process.pid) - emulated
    source.close()
    with capsys.disabled():
        print(f"\n{300 * LOOKS:,} changes and {LOOKS} looks, an hour's: {cpu:.1f} CPU-s (the emulator {emulated:.1f} "
              f"beside), {resident_megabytes() - memory:+.1f} MB, the last of 300 changes seen {1000 * max(lags):.0f} "
              f"ms after it was written at worst; a resident set of {resident_megabytes():.0f} MB")
    assert cpu < 360.0
    assert resident_megabytes() < 300.0


def test_a_list_of_5000_pods_is_parsed_in_half_a_cpu_second(capsys):
    sys.path[:0] = PATHS
    import kube_objects as make  # a helper of the tests of exporters
    import msgspec

    noise = [{"manager": "kubelet", "fieldsV1": {f"f:field{number}": {"f:part": {}} for number in range(110)}}]
    items = [make.pod(f"p{number}", make.owner("Job", f"j{number // 2}"), on=f"n{number % 100}")
             for number in range(5_000)]
    for item in items:
        item["metadata"]["managedFields"] = noise
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
    costs = []
    for _ in range(3):
        began = time.process_time()
        found = [parse_pod(bytes(raw)) for raw in msgspec.json.decode(body, type=Listing).items]
        costs.append(time.process_time() - began)
    assert len(found) == 5_000
    with capsys.disabled():
        print(f"\n5,000 pods, {len(body) / 1e6:.0f} MB: parsed in {min(costs):.2f} CPU-s")
    assert min(costs) < 0.5
