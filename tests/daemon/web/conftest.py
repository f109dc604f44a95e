"""A small cluster to look at, without a daemon behind it."""

import dataclasses
import threading
from collections.abc import Callable, Iterator

import pytest
from energies import record
from werkzeug.test import Client

from idlewatt.daemon.advice.job_wait_estimate import Ahead, JobWaitEstimate
from idlewatt.daemon.advice.job_wait_worker import NotYet
from idlewatt.daemon.advice.smaller_shapes import SmallerRequest
from idlewatt.daemon.efficiency import EnergyBook
from idlewatt.daemon.efficiency.digest import Saved
from idlewatt.daemon.pricing import Costing
from idlewatt.daemon.waste.assessment import EnclosureVerdict, run_of
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.gate import WebConfigFile
from idlewatt.daemon.web.server import WebServer, listen
from idlewatt.daemon.web.view import (
    DecisionRow,
    ModelRow,
    NodeRow,
    ReloadError,
    SourceRow,
    Status,
    TargetGroup,
    View,
    WasteRow,
)
from idlewatt.exporters.metrics import Published
from idlewatt.exporters.source import TargetHealth
from idlewatt.storage.elastic import ElasticAdvice, ResizeEffect
from idlewatt.storage.gpu_slices import SmallerSlice
from idlewatt.storage.history import History
from idlewatt.storage.moves import Move, Relief
from idlewatt.storage.notices import Notice
from idlewatt.storage.power_caps import PowerCap
from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.power_down import PowerDown
from idlewatt.storage.reclaim import Reclaimable, Started
from idlewatt.storage.recommendations import Alternative, Instead, Placement, Recommendation
from idlewatt.storage.records import Allocation, Job, JobState, Node, NodeState, Request
from idlewatt.storage.shares import Giver, ShareAdvice
from idlewatt.storage.underuse import Cause, Underuse
from idlewatt.storage.waiting import WaitReason

NOW = 1_800_000_000.0


def gpu(node: str, gpu: int, power_class: PowerClass, watts: float | None, **more) -> WasteRow:
    return WasteRow("a100" if node < "dgx03" else "v100", node, power_class, watts, power_class in WASTED, gpu,
                    f"GPU-{node}-{gpu}", **more)


@dataclasses.dataclass
class ToyView(View):
    """A view whose every answer can be set by a test."""

    waste_rows: tuple[WasteRow, ...] = ()
    node_rows: tuple[NodeRow, ...] = ()
    job_rows: tuple[Job, ...] = ()
    advice: tuple[Recommendation, ...] = ()
    source_rows: tuple[SourceRow, ...] = ()
    groups: tuple[TargetGroup, ...] = ()
    facts: Published = Published()
    lacking: tuple[str, ...] = ()
    reload_fault: str = ""
    reloads: int = 0
    model_rows: tuple[ModelRow, ...] = ()
    decision_rows: tuple[DecisionRow, ...] = ()
    standing: Status = Status(NOW, True)
    by_subject: dict[str, tuple] = dataclasses.field(default_factory=dict)
    ledger: EnergyBook | None = None
    notice_rows: tuple[Notice, ...] = ()
    told: tuple[JobWaitEstimate, ...] = ()
    scores: dict[str, int] = dataclasses.field(default_factory=dict)
    estimates_take_s: float = 0.0
    rack_rows: tuple[EnclosureVerdict, ...] = ()
    saving: Saved | None = None
    reserving: frozenset[str] = frozenset()

    def published(self): return self.facts
    def recommendations(self): return self.advice
    def recommended(self, subject): return self.by_subject.get(subject, ())
    def waste(self): return self.waste_rows
    def nodes(self): return self.node_rows
    def racks(self): return self.rack_rows
    def jobs(self): return self.job_rows
    def users(self): return {job.user for job in self.job_rows} | self.reserving
    def book(self): return self.ledger
    def saved(self): return self.saving
    def flavours(self, since_s): return ()

    def wait_estimates(self, job_id, within_s=None):
        if within_s is not None and within_s < self.estimates_take_s:
            raise NotYet(job_id)
        return tuple(one for one in self.told if one.job_id == job_id)

    def models(self): return self.model_rows
    def decisions(self): return self.decision_rows
    def notices(self, since_s, user=""): return tuple(row for row in self.notice_rows if user in ("", row.user))
    def prioritize(self, question): return {name: self.scores[name] for name in question.nodes if name in self.scores}
    def sources(self): return self.source_rows
    def targets(self): return self.groups
    def now(self): return NOW
    def missing(self): return self.lacking
    def status(self): return dataclasses.replace(self.standing, missing=self.missing(), ready=not self.lacking)

    def reload(self):
        if self.reload_fault:
            raise ReloadError(self.reload_fault)
        self.reloads += 1


RACK = EnclosureVerdict("rack7", 120_000.0, {"trays": 112_000.0, "switches": 3_600.0, "loss": 4_400.0,
                                             "unmeasured": 0.0}, {"tray01": 120_000.0})


def waste_rows() -> tuple[WasteRow, ...]:
    klass = PowerClass
    rows = [gpu("dgx01", index, klass.PRODUCTIVE, 231.0 + index, user="alice", job_id="4711", activity=0.87)
            for index in range(4)]
    rows += [gpu("dgx01", index, klass.ALLOCATED_UNDERUSED, 41.5, user="alice", job_id="4711") for index in range(4)]
    rows += [gpu("dgx01", 4 + index, klass.ALLOCATED_IDLE, 88.0, user="bob", job_id="4712", activity=0.0)
             for index in range(2)]
    rows += [gpu("dgx01", 6 + index, klass.STRANDED, 52.0) for index in range(2)]
    rows += [WasteRow("a100", "dgx01", klass.HOST_ACTIVE, 1210.0, power_source="ipmi", unused_power_watts=302.5)]
    rows += [gpu("dgx02", index, klass.IDLE_UNALLOCATED, 51.0, idle_floor_watts=51.0, floor_source="learned")
             for index in range(8)]
    rows += [WasteRow("a100", "dgx02", klass.NODE_OVERHEAD_EMPTY, 830.0, wasted=True, power_source="ipmi")]
    rows += [gpu("dgx03", index, klass.PRODUCTIVE, 262.0, user="carol", job_id="4713", activity=0.99)
             for index in range(6)]
    rows += [gpu("dgx03", 6, klass.ALLOCATED_HUNG, 66.0, user="dan", job_id="4714", activity=1.0)]
    rows += [gpu("dgx03", 7, klass.UNMEASURED, None)]
    rows += [WasteRow("v100", "dgx03", klass.UNMEASURED, 720.0, power_source="ipmi"),
             WasteRow("v100", "dgx04", klass.UNAVAILABLE, 610.0, power_source="ipmi")]
    return tuple(rows)


def pending_job(job_id: str, gpus: int, waiting_s: float, partition: str = "a100", **more) -> Job:
    return Job(job_id, NOW - waiting_s, JobState.PENDING, partition, Request(gpus), **more)


def jobs() -> tuple[Job, ...]:
    return (
        Job("4711", NOW - 90000, JobState.RUNNING, "a100", Request(4), user="alice", name="train-vit",
            start_s=NOW - 7200, allocations=(Allocation("dgx01", 4, (0, 1, 2, 3)),)),
        pending_job("4720", 8, 5400, user="alice", name="pretrain-7b",
                    reason=WaitReason.RESOURCES, reason_text="Resources"),
        pending_job("4721", 2, 1500, user="erin", name="eval", reason=WaitReason.PRIORITY, reason_text="Priority"),
        pending_job("4722", 16, 600, user="bob", name="sweep", reason=WaitReason.RESOURCES, reason_text="Resources"),
        pending_job("4723", 1, 45, "v100", user="carol", name="notebook"),
    )


def advice() -> tuple[Recommendation, ...]:
    a100, now = "a100", NOW
    return (
        Recommendation("4720", now - 5400, a100, now, "easy", "wait", "start",
                       "dgx02 is empty and the only node with eight free GPUs on one NVSwitch.",
                       Placement(("dgx02",), (8,)), now,
                       (Alternative(Placement(("dgx01", "dgx02"), (2, 6)), "crosses two nodes", 2.4, 0.48),
                        Alternative(Placement(("dgx03",), (8,)), "opens an empty node", 1.6)),
                       communication_cost=1.65, gpu_indexes=(tuple(range(8)),)),
        Recommendation("4721", now - 1500, a100, now, "easy", "wait", "start",
                       "Fits beside job 4712 and leaves no stranded GPU on dgx01.", Placement(("dgx01",), (2,)), now),
        Recommendation("4722", now - 600, a100, now, "easy", "wait", "hold",
                       "Needs 16 GPUs; 10 are free once job 4711 ends.", Placement(("dgx01", "dgx02"), (8, 8)),
                       now + 7800, wait_change_s=-5400.0, interval_s=(-7200.0, 300.0),
                       reasons=("predicted run time 10 min (queue 3.0 h): earlier",),
                       instead=Instead("fifo", "start", Placement(("dgx03", "dgx04"), (8, 8)), now)),
        Recommendation("4721", now - 1500, a100, now, "scorer", "wait", "hold", "A shadow's view.", shadow=True),
    )


def wait_estimate() -> JobWaitEstimate:
    """Return what is told of a job that waits."""
    return JobWaitEstimate(
        "4722", NOW - 600, NOW, NOW - 9, "fifo+first-fit+easy", "waits", "needs 16 GPUs, 10 are free in a100",
        Placement(("dgx01", "dgx02"), (8, 8)), NOW + 86400, NOW + 5400, (NOW + 1800, NOW + 7200), 20, 1,
        (Ahead("4711", JobState.RUNNING, "a100", 4, NOW + 3600), Ahead("4721", JobState.PENDING, "a100", 2, None)),
        (SmallerRequest("8 of its 16 GPUs", "--nodes=1 --gpus-per-node=8", "starts", "", Placement(("dgx02",), (8,))),
         SmallerRequest("a limit of 30 min", "--time=30", "waits", "nothing of that size is free either"),
         SmallerRequest("half its CPUs and memory", "--mem=64M", "unknown", "whether that is enforced is not known")))


def node_rows() -> tuple[NodeRow, ...]:
    def row(name: str, partition: str, watts: float | None, down: str = "", state: NodeState = NodeState.UP) -> NodeRow:
        return NodeRow(Node(name, (partition,), 8, partition, 256, 1 << 40, state), watts, "ipmi", 100.0,
                       {"allocated": 6, "free": 2}, down)

    return (row("dgx01", "a100", 2746.0), row("dgx02", "a100", 1238.0, "empty for 3 h, no pending job needs it"),
            row("dgx03", "v100", 2398.0), row("dgx04", "v100", 610.0, state=NodeState.DRAINED))


def sources() -> tuple[SourceRow, ...]:
    good = tuple(TargetHealth(f"http://dgx0{n}:9400/metrics", True, 0.02, "", NOW - 4) for n in (1, 2, 3))
    bad = TargetHealth("http://dgx04:9400/metrics", False, 10.0, "timed out after 10 s", NOW - 4000)
    return (
        SourceRow("slurm", "slurm", "scheduler", True, NOW - 9, "", (TargetHealth("slurmrestd", True, 0.1),)),
        SourceRow("dcgm", "dcgm", "telemetry", True, NOW - 4, "", (*good, bad)),
        SourceRow("ipmi", "ipmi", "telemetry", False, NOW - 3700, "connection refused: is ipmi_exporter running?",
                  (TargetHealth("http://mgmt:9290/ipmi", False, 0.0, "connection refused"),)),
    )


def models() -> tuple[ModelRow, ...]:
    return (ModelRow("scorer@7", "active", NOW - 86400, "nightly", "mean JCT is 0.9 of that under fifo",
                     NOW - 90000, "history", {"jct_over_incumbent": 0.9}, drift=0.1, regret=-0.02, bad_days=0),
            ModelRow("scorer@6", "on trial", NOW - 86400, "nightly", "replaced by scorer@7",
                     abstains="64 nodes are open", cause="doubt", abstains_since_s=NOW - 600),
            ModelRow("scorer@5", "not a candidate", NOW - 9e5, "operator", "its replay failed"),
            ModelRow("sjf-limit+best-fit+easy", "not a candidate", None, "",
                     "52% of the jobs have no time limit: sjf-limit is first come, first served here"))


def decisions() -> tuple[DecisionRow, ...]:
    return (DecisionRow(NOW - 86400, "scorer@7", "promote", "nightly", "mean JCT is 0.9 of that under fifo"),
            DecisionRow(NOW - 9e5, "scorer@5", "refuse", "operator", "its replay failed"))


def recommended() -> dict[str, tuple]:
    """Return a recommendation on each subject."""
    to_dgx02 = Move("4711", "alice", 2, "dgx01", "dgx02", 7200.0)
    more = ResizeEffect(4, 0.7, (0.5, 0.9), -0.41, (-0.47, -0.33), 0.18, "resubmit it", 1200.0)
    share = ShareAdvice("124", NOW - 90000, "a100", NOW, "running", ("dgx01",), 2, 24, 48, 2**36, 2**36, "measured",
                        "give job 124 the 24 cores that job 123 does not use; both finish sooner",
                        "--cpus-per-gpu=24", "synergy-tune", 23.5, None, 0.4, (0.0, 0.5), None,
                        (Giver("123", NOW - 95000, 24, 0, 0.1, (0.05, 0.2)),))
    return {"allocation": (share,),
            "causes": (Underuse("4711", NOW - 90000, "a100", "alice", NOW, ("dgx01",), 4,
                                Cause.WAITING_FOR_DATA, 0.62, 0.9, ("kernels ran 41 % of the time",),
                                "Try more data loader workers.", 3600.0, 0.38),),
            "elastic": (ElasticAdvice("4711", NOW - 90000, "a100", NOW, "running", "alice", ("dgx01",), 4, "throughput",
                                      5, (2, 4, 8), 0.03, "41 % sooner with 4 more GPUs", more),),
            "gpu_slices": (SmallerSlice("4712", NOW - 9000, "a100", "bob", NOW, ("dgx01",), 1, "nvidia.com/gpu",
                                        "nvidia.com/mig-1g.10gb", 0.08, 6e9, 3600.0, 14, 10, "it never used more",
                                        "kubectl patch"),),
            "power_caps": (PowerCap("4711", NOW - 1500, "a100", "ann", NOW, ("dgx01",), 2, 400.0, 300.0, 0.12,
                                    (0.08, 0.16), 0.02, (0.01, 0.03), (3, 4), 0.5,
                                    ("ssh dgx01 nvidia-smi -i 0,1 -pl 300",)),),
            "power_down": (PowerDown("", 0.0, "a100", NOW, ("dgx02",), 8, 900.0, NOW + 3600, NOW + 7200, None,
                                     (2.6e6, 1.5e8), 5.8e6, 21, "no known job needs it"),),
            "reclaim": (Reclaimable("4712", NOW - 9000, NOW - 8000, "a100", "bob", "lab", "sweep", NOW, NOW - 4000, 2,
                                    2, True, "batch", 176.0, ("dgx01",), 16, 2**36, (Started("4721", "erin", 2),)),),
            "moves": (Relief("4721", NOW - 1500, "a100", "bob", NOW, Placement(("dgx01",), (8,)), (to_dgx02,), 2),)}


def groups() -> tuple[TargetGroup, ...]:
    return tuple(TargetGroup((f"dgx0{n}:9400",), {"__meta_idlewatt_kind": "dcgm", "__meta_idlewatt_node": f"dgx0{n}"})
                 for n in (1, 2))


@pytest.fixture(scope="session")
def energies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Return a small recorded past, which no test adds to."""
    with History.open(f"sqlite:///{tmp_path_factory.mktemp('energies')}/history.db") as history:
        record(history)
        yield history


@pytest.fixture
def view(energies: History) -> ToyView:
    facts = Published(partitions=("a100", "v100"), unmeasured_gpus={"a100": 0.0, "v100": 1.0},
                      up={"slurm": 1.0, "ipmi": 0.0}, node_power_watts={("dgx01", "ipmi"): 2746.0})
    runs = {job.job_id: run_of(job) for job in jobs()}
    wasted = tuple(dataclasses.replace(row, run=runs.get(row.job_id)) for row in waste_rows())
    return ToyView(wasted, node_rows(), jobs(), advice(), sources(), groups(), facts,
                   model_rows=models(), decision_rows=decisions(), by_subject=recommended(),
                   notice_rows=(Notice("idle_gpus", "first", "mail", "4712", 0.0, 0.0, "idle_gpus", "bob", "", "a100",
                                       "sent", NOW, NOW),),
                   ledger=EnergyBook(energies, Costing(), lambda: NOW), told=(wait_estimate(),), rack_rows=(RACK,))


@pytest.fixture
def client(view: ToyView) -> Client:
    return Client(WebApp(view))


@pytest.fixture
def serve() -> Iterator[Callable[..., WebServer]]:
    """Return a function that serves a WSGI application on an ephemeral port of the loopback."""
    servers: list[WebServer] = []

    def start(app, gate: WebConfigFile | None = None, address: str = "127.0.0.1:0") -> WebServer:
        servers.append(WebServer(app, [listen(address)], gate or WebConfigFile(None)))
        servers[-1].start()
        return servers[-1]

    yield start
    stopping = [threading.Thread(target=server.stop) for server in servers]
    for thread in stopping:
        thread.start()
    for thread in stopping:
        thread.join()
