"""Parts of GPUs as Kubernetes and dcgm-exporter tell of them: what pods hold and what nobody holds make the GPU."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from idlewatt.daemon.held_parts import with_parts
from idlewatt.exporters.dcgm import FACTS, parse
from idlewatt.exporters.exposition import Exposition, Look
from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import NODES, PODS, Store
from idlewatt.exporters.targets import Target

sys.path.append(str(Path(__file__).parents[2] / "exporters/kubernetes"))
import kube_objects as make  # noqa: E402 - a helper of the tests of exporters

UUID = "GPU-11111111-2222-3333-4444-555555555555"
WATTS, ROUNDS = 300.0, 26
COUNT, REPLICAS, STRATEGY = "nvidia.com/gpu.count", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
PRODUCT = "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-80GB"


def rows(*holders: str) -> str:
    """Return a page with one GPU, a row for each that is named on it."""
    head = f'gpu="0",UUID="{UUID}",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="n1"'
    return "".join(f"{name}{{{head}{holder}}} {value}\n" for name, value in (
        ("DCGM_FI_DEV_POWER_USAGE", WATTS), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.6),
        ("DCGM_FI_DEV_FB_USED", 20_000)) for holder in holders)


def named(pod: str, namespace: str = "team", more: str = "") -> str:
    return f',container="main",namespace="{namespace}",pod="{pod}"{more}'


def pods(resource: str, **more):
    return [make.pod(name, on="n1", **more) | {"spec": {"nodeName": "n1", "containers": [
        make.container(1, resource=resource)]}} for name in ("a", "b")]


def turns(product: str = f"{A100}-SHARED", **labels: str):
    return {PRODUCT: product, COUNT: "1", REPLICAS: "4"} | labels


TURNS = rows(named("a", more=',vgpu="0"'), named("b", more=',vgpu="1"'))
"""As dcgm-exporter names pods that take turns."""


def mig_rows(*instances: tuple[str, str, str]) -> str:
    return rows(*(f',GPU_I_PROFILE="{profile}",GPU_I_ID="{number}"{holder}' for profile, number, holder in instances))


HALVES = mig_rows(("3g.40gb", "1", named("a")), ("3g.40gb", "2", named("b")))


def by_note(notes: dict[str, dict[str, str]], resource: str = "", **labels: str):
    return [make.pod(name, on="n1", gpus=0, annotations=note, labels=labels) | (
        {"spec": {"nodeName": "n1", "containers": [make.container(1, resource=resource)]}} if resource else {})
        for name, note in notes.items()]


KAI = "kai-resource-reservation"
WAYS = {
    "MIG, mixed": (make.node("n1", 0, {PRODUCT: A100, COUNT: "1"}, **{"nvidia.com/mig-3g.40gb": "2"}),
                   pods("nvidia.com/mig-3g.40gb"), HALVES, 0.0),
    "MIG, mixed, one instance free": (
        make.node("n1", 0, {PRODUCT: A100, COUNT: "1"}, **{"nvidia.com/mig-3g.40gb": "2"}),
        pods("nvidia.com/mig-3g.40gb")[:1], mig_rows(("3g.40gb", "1", named("a")), ("3g.40gb", "2", "")), 4 / 7),
    "MIG, single": (make.node("n1", 2, {PRODUCT: f"{A100}-MIG-3g.40gb", COUNT: "2"}), pods("nvidia.com/gpu"),
                    HALVES, 0.0),
    "time slicing": (make.node("n1", 4, turns()), pods("nvidia.com/gpu"), TURNS, 0.0),
    "time slicing, renamed": (make.node("n1", 0, turns(A100), **{"nvidia.com/gpu.shared": "4"}),
                              pods("nvidia.com/gpu.shared"), TURNS, 0.0),
    "MPS": (make.node("n1", 4, turns(**{STRATEGY: "mps"})), pods("nvidia.com/gpu"), TURNS, 0.0),
    "KAI, named on the GPU": (
        make.node("n1", 1, {PRODUCT: A100, COUNT: "1"}),
        by_note({"a": {"gpu-fraction": "0.25"}, "b": {"gpu-fraction": "0.5"}}), rows(named("a"), named("b")), 0.25),
    "KAI, by its reservation": (
        make.node("n1", 1, {PRODUCT: A100, COUNT: "1"}),
        [*by_note({"a": {"gpu-fraction": "0.25"}, "b": {"gpu-fraction": "0.5"}}, **{"runai-gpu-group": "g7"}),
         make.pod("gpu-reservation-n1-x", on="n1", namespace=KAI, labels={"runai-gpu-group": "g7"})],
        rows(named("gpu-reservation-n1-x", KAI)), 0.25),
    "HAMi": (make.node("n1", 1, {PRODUCT: A100, COUNT: "1"}),
             by_note({"a": {"hami.io/vgpu-devices-allocated": f"{UUID},NVIDIA,20000,25:;"},
                      "b": {"hami.io/vgpu-devices-allocated": f"{UUID},NVIDIA,40000,50:;"}}, "nvidia.com/gpu"),
             rows(named("a"), named("b")), 0.25),
}
"""Node, pods, page of dcgm-exporter, and how much of the GPU nobody holds: of instances, of those that there are."""


@pytest.fixture
def cluster():
    """Return the function that serves objects and reads them as the daemon does."""
    served = []

    def read(node, found):
        store = Store()
        store.put(NODES, node)
        for one in found:
            store.put(PODS, one)
        server = ApiServer(Api(store, bookmark_s=0.1)).begin()
        source = KubernetesConfig(kind="kubernetes", url=server.url).build(time.time)
        served.append((server, source))
        return source.read()

    yield read
    for server, source in served:
        source.close()
        server.api.drop_watches()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("way", WAYS)
def test_what_pods_hold_of_a_gpu_and_what_nobody_holds_make_the_gpu(way, cluster, site):
    node, found, page, left = WAYS[way]
    snapshot = cluster(node, found)
    accountant, start_s = site.accountant(), make.START_S + 60.0
    for step in range(ROUNDS):
        now = start_s + 15 * step
        telemetry = parse(Exposition(FACTS).samples(page.encode(), Look(now)), Target("u", "n1", {"node": "n1"}), now)
        told = with_parts(replace(snapshot, time_s=now), telemetry.gpus)
        accountant.assess(told, telemetry, now)
    shares = accountant.drain_all().shares
    joules = {name: sum(sum(one.joules.values()) for one in shares if one.job_id == name)
              for name in {share.job_id for share in shares}}
    whole = WATTS * 15 * (ROUNDS - 1)
    assert sum(joules.values()) == pytest.approx(whole, rel=1e-6)
    holders = {f"team/{one['metadata']['name']}" for one in found if one["metadata"]["namespace"] == "team"}
    assert {name for name, amount in joules.items() if name and amount} == holders
    nobody = joules.get("", 0.0)
    # Of what is held nobody pays for the work: only idle watts are left over.
    assert nobody == pytest.approx(0.0, abs=1e-6) if not left else 0.0 < nobody < left * whole
