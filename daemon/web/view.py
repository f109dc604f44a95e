"""What the web side may ask of the daemon, and the rows that it answers with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import Field

from ...exporters.metrics import Published
from ...exporters.source import TargetHealth
from ...storage.notices import Notice
from ...storage.power_classes import PowerClass
from ...storage.recommendations import Recommendation
from ...storage.records import Job, Node
from ..advice.job_wait_estimate import JobWaitEstimate
from ..advice.recommender import RecommendationRow
from ..degraded import Degradation
from ..efficiency import EnergyBook
from ..efficiency.digest import Saved
from ..flavour_rows import FlavourRow
from ..waste.assessment import EnclosureVerdict, HeldRun

if TYPE_CHECKING:
    from ...exporters.kubernetes.extender import PodQuestion


@dataclass(frozen=True, slots=True)
class WasteRow:
    """Watts of one class in one place. The rows add up to the power of all nodes."""

    partition: str
    """The partition in whose account the watts are."""
    node: str
    power_class: PowerClass
    power_watts: float | None
    """None for an unmeasured GPU, whose watts are in the row of its node, and for a node that nothing measures."""
    wasted: bool = False
    gpu: int | None = None
    """NVML index of the GPU; None for the rest of the node."""
    uuid: str = ""
    user: str = ""
    account: str = ""
    job_id: str = ""
    activity: float | None = None
    """Share of time the GPU worked, 0..1."""
    idle_floor_watts: float | None = None
    floor_source: str = ""
    power_source: str = ""
    """Of the rest of a node: where the node's power was read, ``estimated`` and ``gpus`` being no wall meter."""
    since_s: float | None = None
    """Since when the GPU has been busy although nobody holds it."""
    flavour: str = ""
    """Of the job that holds the GPU; '' where it is of none, or nobody holds it."""
    unused_power_watts: float | None = None
    """Of the rest of a node: its unused part, contained in power_watts: what a busy node draws for GPUs that nobody
    uses. None where that is not measured, and for a GPU."""
    run: Annotated[HeldRun | None, Field(exclude=True)] = None
    """The run that holds the GPU; in no answer."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the scheduler and the meters see it now."""

    node: Node
    power_watts: float | None = None
    """Of the whole node, as far as it is measured."""
    power_source: str = ""
    wasted_power_watts: float | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs by state."""
    power_down: str = ""
    """Why it is worth powering down now; '' when it is not."""
    power_down_command: str = ""
    """What keeps new work off it first, where its scheduler needs a command; nobody here runs it."""
    unknown_use: str = ""
    """Why nobody can say whether it is worth powering down, although no job needs it; '' for all others."""
    unused_power_watts: float | None = None
    """What it draws, while jobs run on it, for GPUs that nobody uses; None where that is not measured."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A candidate, a trained agent or a combination of heuristics, and how it stands."""

    model: str
    """``kind@version``; a heuristic's name has no @."""
    state: str
    """``active``, ``on trial``, ``candidate``, ``demoted`` or ``not a candidate``."""
    since_s: float | None
    """When that was decided; None where nothing was decided on it."""
    by: str
    """``nightly``, ``operator`` or ``daemon``; '' where nothing was decided."""
    reason: str
    trained_s: float | None = None
    """None for one that is not in use, or cannot be read."""
    source: str = ""
    """What it was trained on."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Held-out figures, with their intervals."""
    abstains: str = ""
    """Why it gives no advice now; '' when it does, or is not called."""
    cause: str = ""
    abstains_since_s: float | None = None
    drift: float | None = None
    """Share of waiting jobs that lie outside of what it was trained on."""
    regret: float | None = None
    """Of the last closed day against the incumbent; positive is worse."""
    bad_days: int | None = None
    """In a row."""
    jct_ratio: float | None = None
    """Mean completion time over the incumbent's when it was judged last; None where it never was."""
    jct_ratio_low: float | None = None
    """Bounds of its 95 % interval; None where there is none yet."""
    jct_ratio_high: float | None = None


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision on a trained agent."""

    time_s: float
    model: str
    decision: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceRow:
    """How a source fares."""

    name: str
    kind: str
    role: str
    up: bool
    last_success_s: float | None = None
    error: str = ""
    targets: tuple[TargetHealth, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """One entry of Prometheus' HTTP service discovery."""

    targets: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """``__meta_idlewatt_kind`` and ``__meta_idlewatt_node`` at least, for relabelling."""


@dataclass(frozen=True, slots=True)
class Status:
    """Whether what the daemon says can be believed now."""

    now_s: float
    ready: bool
    """Whether every configured scheduler has been read lately."""
    missing: tuple[str, ...] = ()
    """What is missing for that."""
    no_advice: str = ""
    """Why there is no advice, in words; '' when there is."""
    degraded: tuple[Degradation, ...] = ()
    """What is wrong, the worst first; show the words of each."""
    snapshot_s: float | None = None
    """When the scheduler was last read, the oldest of several; None before the first time."""
    database: str = ""
    """A digest of what the daemon records into: the same for the same database, whichever user asks."""


class ReloadError(Exception):
    """The new configuration is not good; the old one goes on. The message says what is wrong where."""


class View(Protocol):
    """The daemon as the web side sees it. All answers come from memory, at once, from any thread.

    The one place that says what may be read: the daemon and the views of tests are classes of it.
    """

    def published(self) -> Published:
        """Return the facts of the metrics page."""

    def recommendations(self) -> Sequence[Recommendation]:
        """Return present advice, the active policy first, the most urgent job first."""

    def recommended(self, subject: str) -> Sequence[RecommendationRow]:
        """Return what there is to say on a subject beyond starts, what is worth most first."""

    def waste(self) -> Sequence[WasteRow]:
        """Return where every watt goes."""

    def nodes(self) -> Sequence[NodeRow]:
        """Return every node."""

    def racks(self) -> Sequence[EnclosureVerdict]:
        """Return the racks with a meter of their own, taken apart."""

    def jobs(self) -> Sequence[Job]:
        """Return pending, running and lately finished jobs."""

    def users(self) -> Collection[str]:
        """Return the users whom texts about the cluster may name: holders of jobs and of reservations."""

    def book(self) -> EnergyBook:
        """Return the book of what jobs, users and nodes took; unlike all else here, it reads the history."""

    def saved(self) -> Saved | None:
        """Return what advice would have saved; None where nothing was replayed."""

    def wait_estimates(self, job_id: str, within_s: float | None = None) -> Sequence[JobWaitEstimate]:
        """Return when a waiting job starts and what would start sooner; () when it does not wait, or nobody knows.

        Where several clusters have a waiting job of that id, there is an estimate for each. Like the book it is no
        answer from memory: it is worked out when somebody asks. NotYet is raised when that takes longer than
        ``within_s``, and goes on.
        """

    def models(self) -> Sequence[ModelRow]:
        """Return all candidates, agents and heuristics, the active one first."""

    def decisions(self) -> Sequence[DecisionRow]:
        """Return the decisions on trained agents, the newest first."""

    def notices(self, since_s: float, user: str = "") -> Sequence[Notice]:
        """Return the notices since a moment, the newest first; it reads the history."""

    def flavours(self, since_s: float) -> Sequence[FlavourRow]:
        """Return the flavours, with how many jobs requested each since a moment; it reads the history."""

    def sources(self) -> Sequence[SourceRow]:
        """Return how each source fares."""

    def targets(self) -> Sequence[TargetGroup]:
        """Return the exporters of the GPU nodes, in a stable order."""

    def now(self) -> float:
        """Return the daemon's time: its clock may be accelerated."""

    def status(self) -> Status:
        """Return whether what is shown can be believed."""

    def missing(self) -> Sequence[str]:
        """Return what is still missing before the daemon is ready; nothing when it is."""

    def prioritize(self, question: PodQuestion) -> Mapping[str, int]:
        """Return scores of nodes for a pod, 0 to 10; nothing where the cluster was not seen lately, or nobody knows."""

    def reload(self) -> None:
        """Read the configuration again and put it in force; raise ReloadError and keep the old one if it is bad."""
