"""A small farm of which some nodes hang: what is seen of the others is what would be seen without the fault."""

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cost import widened

from idlewatt.daemon import config

TESTS = Path(__file__).parents[1]
NODES, HUNG = 40, tuple(range(0, 40, 3))


@pytest.fixture
def farm(tmp_path):
    """The sources of a farm, a function that has nodes hang, and how long it takes them all to be known."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hung = tmp_path / "hung.json"
    hung.write_text(json.dumps(HUNG))
    command = (sys.executable, TESTS / "benchmarks/farm.py", str(port), str(NODES),
               TESTS / "recorded/node_exporter.prom", hung)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        groups = [json.dumps([{"targets": [f"127.1.{1 + node}.{1 + kind}:{port}"],
                               "labels": {"node": f"dgx-{node:04d}"}} for node in range(NODES)]) for kind in (0, 2)]
        yield "".join(f"{{kind: {kind}, concurrency: 4, static_configs: {group}}}, "
                      for kind, group in zip(("dcgm", "ipmi"), groups, strict=True))
        process.kill()


def test_nodes_that_hang_cost_the_others_nothing(rig, farm):
    service = rig.service(sources=f"[{farm}{{kind: slurm_rest, url: '{rig.server.url}'}}]")
    service.jobs()
    healthy = {f"dgx-{node:04d}" for node in range(NODES) if node not in HUNG}
    for _ in range(3):
        rig.now_s += 15
        began = time.monotonic()
        service.scrape()
        service.assess()
        assert time.monotonic() - began < widened(10)
        measured = {node.node: node for node in service.known.assessment.nodes if node.wall_watts is not None}
        assert measured.keys() == healthy
        ages = {gpu.node: rig.now_s - gpu.time_s for gpu in service.known.telemetry.gpus}
        assert ages == dict.fromkeys(healthy, 0)
    for watched in service.sources[:2]:
        assert watched.status.success
        assert sum(not health.up for health in watched.health()) == len(HUNG)


@pytest.fixture
def silent():
    """The URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def sources_with(rig, silent):
    text = rig.text()
    given = next(line for line in text.splitlines() if line.startswith("sources: ")).removeprefix("sources: ")
    return given.replace(f"kind: slurm_rest, url: '{rig.server.url}'", f"kind: slurm_rest, url: '{silent}'")


def test_a_scheduler_that_hangs_does_not_delay_telemetry(rig, silent):
    service = rig.service(sources=sources_with(rig, silent), cycles="{scrape: 15s, jobs: 1s}")
    began = time.monotonic()
    service.jobs()
    assert time.monotonic() - began < widened(5), "it is not waited for longer than its cycle allows"
    service.scrape()
    service.assess()
    assert service.known.snapshot is None
    assert sum(node.wall_watts or 0.0 for node in service.known.assessment.nodes) > 0


def test_telemetry_that_hangs_does_not_delay_the_scheduler(rig, silent):
    service = rig.service(sources=f"[{{kind: prometheus, url: '{silent}'}}, {{kind: slurm_rest, url: "
                                  f"'{rig.server.url}'}}]", cycles="{scrape: 1s, jobs: 1h}")
    scraping = threading.Thread(target=service.scrape)
    scraping.start()
    service.jobs()
    assert service.known.snapshot is not None
    scraping.join(20)
    assert not scraping.is_alive()


def test_a_reload_keeps_what_is_known_of_targets_where_a_source_has_not_changed(rig):
    service = rig.service()
    service.scrape()
    before = {watched.name: watched for watched in service.sources}
    text = rig.text().replace("kind: node, ", "kind: node, timeout: 7s, ")
    service.reload(lambda: config.parse(text))
    kept = {watched.name for watched in service.sources if watched is before[watched.name]}
    assert kept == {"dcgm", "ipmi", "slurm_rest"}
    service.scrape()
    assert all(watched.status.success for watched in service.sources if watched.role == "telemetry")
