"""The metrics page and the API at 1,000 nodes x 8 GPUs."""

import dataclasses
import json
import time

import pytest
from werkzeug.test import Client

from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.view import NodeRow, Status, WasteRow
from idlewatt.exporters.metrics import Published
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.power_classes import GPU_CLASSES, NODE_STATES, PowerClass
from idlewatt.storage.records import Job, JobState, Node, Request

NODES = [f"dgx{number:04}" for number in range(1000)]
PARTITIONS = [f"partition{number}" for number in range(20)]


class Book:
    """A history that cannot be read: what the page takes from it is measured with the energy of jobs."""

    def wasters(self, *_):
        raise StoreUnavailable("no history here")


@dataclasses.dataclass
class Fleet:
    facts: Published
    waste_rows: tuple[WasteRow, ...]
    node_rows: tuple[NodeRow, ...]
    job_rows: tuple[Job, ...]

    def published(self): return self.facts
    def waste(self): return self.waste_rows
    def nodes(self): return self.node_rows
    def jobs(self): return self.job_rows
    def recommendations(self): return ()
    def sources(self): return ()
    def models(self): return ()
    def book(self): return Book()
    def status(self): return Status(self.now(), ready=True)
    def missing(self): return ()
    def now(self): return 1.8e9


@pytest.fixture(scope="module")
def client() -> Client:
    facts = Published(
        partitions=tuple(PARTITIONS),
        power_watts={(partition, power_class): 812.25 for partition in PARTITIONS for power_class in PowerClass},
        gpus={(partition, state): 40 for partition in PARTITIONS for state in GPU_CLASSES},
        node_power_watts={(node, "ipmi"): 2431.5 for node in NODES},
        node_wasted_power_watts=dict.fromkeys(NODES, 61.5),
        node_gpus={(node, state): 1 for node in NODES for state in NODE_STATES},
        gpu_state={(node, str(gpu)): 8.0 for node in NODES for gpu in range(8)},
        advice_info={("easy", "wait", str(job), "dgx0001", "8"): 1 for job in range(2000)})
    gpus = tuple(WasteRow(PARTITIONS[0], node, PowerClass.PRODUCTIVE, 301.5, False, gpu, f"GPU-{node}-{gpu}",
                            "alice", "physics", "4711", 0.9, 51.0, "learned") for node in NODES for gpu in range(8))
    nodes = tuple(NodeRow(Node(node, ("a100",), 8), 2431.5, "ipmi", 100.0, {state: 1 for state in NODE_STATES})
                  for node in NODES)
    jobs = tuple(Job(str(job), 1.8e9, JobState.PENDING, "a100", Request(8)) for job in range(2500))
    return Client(WebApp(Fleet(facts, gpus, nodes, jobs)))


@pytest.mark.parametrize(("path", "bound_s", "bound_bytes"), [
    ("/metrics", 0.3, 5e6), ("/", 0.3, 2e5), ("/api/v1/nodes", 0.2, 5e6), ("/api/v1/jobs", 0.2, 5e6),
    ("/api/v1/waste", 0.2, 5e6)])
def test_answers_for_1000_nodes_are_fast_and_small(client: Client, path: str, bound_s: float, bound_bytes: float):
    assert client.get(path).status_code == 200
    took = []
    for _ in range(5):
        began = time.process_time()
        body = client.get(path).get_data()
        took.append(time.process_time() - began)
    print(f"\n{path}: {1e3 * min(took):.0f} ms (bound {1e3 * bound_s:.0f} ms, x{min(took) / bound_s:.2f}), "
          f"{len(body) / 1e6:.2f} MB")
    assert min(took) < bound_s
    assert len(body) < bound_bytes
    assert not path.startswith("/api/") or len(json.loads(body)["data"]) >= 1000
