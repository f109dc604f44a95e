"""The configuration file: read strictly, once, into typed settings; every error at once, with its path and line."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from datetime import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, Union

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from ..exporters.source import SourceConfig, kinds
from ..storage.durations import Duration
from ..storage.history import BACKLOG_BYTES
from ..storage.retention import Retention
from .advice.advisor import AdviceSettings
from .advice.recommender import RecommenderSettings, subjects
from .agents.kinds import Objective
from .agents.kinds import names as agent_names
from .degraded import DegradedSettings
from .learning.promotion_criteria import ASSUMED, PromotionCriteria
from .policies.registry import parse as parse_policy
from .waste import WasteSettings

STATE = Path("/var/lib/idlewatt")
"""The daemon's own folder, as the systemd unit has it made."""


Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LowerBound = Annotated[float, Field(ge=1, allow_inf_nan=False)]
"""Of a ratio to the incumbent."""


def _time_of_day(value: object) -> object:
    """Refuse what YAML makes of 12:30 without quotation marks: 750."""
    if isinstance(value, str | time):
        return value
    raise ValueError('a time of day is written in quotation marks: "03:00"')


TimeOfDay = Annotated[time, BeforeValidator(_time_of_day)]


class ConfigError(Exception):
    """The configuration cannot be used; the message lists every fault, one a line."""


class Strict(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RetentionSettings(Strict):
    """How long what is recorded is kept; energy sums stay exact when windows are merged."""

    rollups: Duration = 14 * 86400.0
    """Five-minute windows of each GPU, before they become hourly."""
    hourly_rollups: Duration = 400 * 86400.0
    waste: Duration = 35 * 86400.0
    """Five-minute energy by class, before it becomes hourly."""
    hourly_waste: Duration = 5 * 365 * 86400.0
    jobs: Duration = 5 * 365 * 86400.0
    recommendations: Duration = 400 * 86400.0
    speeds: Duration = 400 * 86400.0
    """How fast runs were, for elastic counsel."""
    uses: Duration = 400 * 86400.0
    """What runs used of their CPUs and memory, for counsel on allocation."""

    def keep(self) -> Retention:
        """Return what the history is told."""
        return Retention(self.rollups, self.hourly_rollups, self.waste, self.hourly_waste, self.jobs,
                         self.recommendations, self.speeds, self.uses)


class StorageSettings(Strict):
    """Where jobs, rollups and recommendations are kept, and for how long."""

    url: str = "sqlite:////var/lib/idlewatt/idlewatt.db"
    """SQLAlchemy URL: SQLite or PostgreSQL."""
    models: Path | None = None
    """Folder of trained models; beside an SQLite database when it is not named."""
    state: Path | None = None
    """Folder in which facts wait while the database is away; beside an SQLite database when it is not named."""
    backlog_bytes: Annotated[int, Field(ge=1 << 20)] = BACKLOG_BYTES
    """Of the disk, for facts that wait; what comes when they are used up is lost, and counted."""
    retention: RetentionSettings = RetentionSettings()

    @property
    def models_folder(self) -> Path:
        """Return where trained models are."""
        return self.models or (self._file.parent if self._file else STATE) / "models"

    @property
    def spool_folder(self) -> Path:
        """Return where facts wait while the database is away: a folder for each database."""
        if self._file is not None:
            return (self.state or self._file.parent) / f"{self._file.name}.spool"
        own = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
        # Not the URL itself: it may hold a password, which may change.
        place = hashlib.sha256(self.url.rpartition("@")[2].encode()).hexdigest()[:8]
        return (self.state or Path(own or STATE)) / f"{place}.spool"

    @property
    def _file(self) -> Path | None:
        """Return the SQLite file; None for a server."""
        driver, _, path = self.url.rpartition(":///")
        file = path.partition("?")[0] if "://" not in self.url or driver.startswith("sqlite") else ""
        return Path(file) if file else None


class Cycles(Strict):
    """How often each cycle runs."""

    scrape: Duration = 15.0
    jobs: Duration = 15.0
    assess: Duration = 15.0
    advise: Duration = 30.0
    record: Duration = 60.0
    retention: Duration = 3600.0
    counterfactual: Duration = 3600.0
    """How often the time since is replayed under the incumbent and the policy in charge."""


class CounterfactualSettings(Strict):
    """What the energy of the policy in charge is compared with."""

    incumbent: str = "fifo+first-fit+easy"
    """What the scheduler itself does, in our words; its simulated energy is compared with what was measured."""

    @field_validator("incumbent")
    @classmethod
    def _known(cls, name: str) -> str:
        parse_policy(name)
        return name


class ObjectiveSettings(Strict):
    """What the operator is after: weights of figures relative to the incumbent's; only their proportions matter."""

    jct_mean: Weight = 0.7
    """Mean time from submission to end."""
    slowdown_mean: Weight = 0.2
    """Mean of that time over the run time: short jobs count as much as long ones."""
    wait_p99: Weight = 0.1
    energy_wasted: Weight = 0.0
    longest_wait: Duration = 7 * 86400.0
    """No weight: whoever has waited for longer goes before all younger ones, whatever an agent makes of them."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.jct_mean + self.slowdown_mean + self.wait_p99 + self.energy_wasted:
            raise ValueError("at least one weight must be more than 0")
        return self

    def known(self) -> Objective:
        """Return the objective as agents know it."""
        return Objective(self.jct_mean, self.slowdown_mean, self.wait_p99, self.energy_wasted, self.longest_wait)


class TermsSettings(Strict):
    """What must be true of an agent before it is put in charge."""

    days: Annotated[int, Field(ge=2)] = ASSUMED.days
    """Held-out days; drawn from fewer an interval means nothing."""
    jobs: Annotated[int, Field(ge=2)] = ASSUMED.jobs
    """Held-out jobs."""
    group: LowerBound = ASSUMED.group
    """Mean JCT of a partition or class of users over that under the incumbent, at most."""
    tail: LowerBound = ASSUMED.tail
    """p99 wait over that under the incumbent, at most."""
    start_error: Duration = ASSUMED.start_error_s
    """The incumbent's replay starts half of the jobs that close to when they really started, and"""
    missed: Annotated[float, Field(ge=0, le=1)] = ASSUMED.missed
    """misses at most this share of those that did."""

    def known(self) -> PromotionCriteria:
        """Return the terms as promotion knows them."""
        return PromotionCriteria(days=self.days, jobs=self.jobs, group=self.group, tail=self.tail,
                                 start_error_s=self.start_error,
                     missed=self.missed)


class TrainingSettings(Strict):
    """How agents are trained on this site's history, night by night."""

    enabled: bool = False
    """The daemon trains, in a process of its own; leave it off where idlewatt-train.timer does it."""
    agent: str = "scorer"
    at: TimeOfDay = time(3)
    """Local time at which it begins."""
    budget: Duration = 600.0
    history: Duration = 90 * 86400.0
    """How far back it learns from."""
    promote: bool = True
    """What has earned it is put in charge at once; else an operator decides."""
    keep: Annotated[int, Field(ge=1)] = 10
    """Models of each kind that are kept, beside those in charge and in shadow."""
    objective: ObjectiveSettings = ObjectiveSettings()
    terms: TermsSettings = TermsSettings()

    @field_validator("agent")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in agent_names():
            raise ValueError(f"there is no agent {name!r}; there are {', '.join(sorted(agent_names()))}")
        return name


def _source(value: object) -> object:
    """Name the missing or unknown kind; pydantic's own message would list every key of every kind."""
    if isinstance(value, Mapping) and value.get("kind") not in kinds():
        raise ValueError(f"kind {value.get('kind')!r} is none of {', '.join(sorted(kinds()))}")
    return value


if TYPE_CHECKING:
    AnySource = SourceConfig
else:
    # Which kinds there are is known when the folder has been read, not when this file is.
    AnySource = Annotated[Annotated[Union[tuple(kinds().values())], Field(discriminator="kind")],  # noqa: UP007
                          BeforeValidator(_source)]


class EachSubject(Strict):
    """What is set of counsel beyond starts: a section for each subject."""

    def of(self, subject: str) -> RecommenderSettings:
        """Return the settings of a subject."""
        settings: RecommenderSettings = getattr(self, subject)
        return settings


if TYPE_CHECKING:
    CounselSettings = EachSubject
else:
    CounselSettings = create_model("CounselSettings", __base__=EachSubject, **{
        name: (subject.settings, subject.settings()) for name, subject in subjects().items()})


class Settings(Strict):
    """Everything that the configuration file says."""

    cluster: str = ""
    """Name shown to people; Prometheus adds its own label."""
    storage: StorageSettings = StorageSettings()
    cycles: Cycles = Cycles()
    waste: WasteSettings = WasteSettings()
    advice: AdviceSettings = AdviceSettings()
    counsel: CounselSettings = CounselSettings()
    degraded: DegradedSettings = DegradedSettings()
    counterfactual: CounterfactualSettings = CounterfactualSettings()
    training: TrainingSettings = TrainingSettings()
    sources: tuple[AnySource, ...] = ()

    @field_validator("sources")
    @classmethod
    def _names_differ(cls, sources: tuple[SourceConfig, ...]) -> tuple[SourceConfig, ...]:
        names = [source.name or source.kind for source in sources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two sources are called {name!r}: give each its own name")
        return sources


#LIBYAML's parser, where PyYAML has it, is ten times as fast: a start with 3,000 targets waited a second for the other.
_DEEPEST = 100
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc]
    """YAML in which a repeated key is an error: the second would silently win."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            problem = f"the key {key!r} stands here twice"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        seen.add(key)
    found: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(path: Path) -> Settings:
    """Read the configuration file; raise ``ConfigError`` that lists every fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, where: str = "configuration") -> Settings:
    """Return the settings that a YAML text describes; raise ``ConfigError`` that lists every fault."""
    try:
        _check_depth(text, where)
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not YAML: {error}") from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: a mapping is expected at the top, not {type(document).__name__}")
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise ConfigError("\n".join(_faults(error, yaml.compose(text, _Safe), where))) from error


def _check_depth(text: str, where: str) -> None:
    """Raise ``ConfigError`` where a text nests so deeply that libyaml would end the process for want of stack."""
    depth = 0
    for event in yaml.parse(text, _Safe):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = f":{event.start_mark.line + 1}" if event.start_mark else ""
            raise ConfigError(f"{where}{line}: nested more than {_DEEPEST} deep")


def _faults(error: ValidationError, tree: yaml.Node | None, where: str) -> list[str]:
    lines = []
    for fault in error.errors(include_url=False):
        path, node = _locate(tree, fault["loc"])
        line = f":{node.start_mark.line + 1}" if node is not None else ""
        message = "unknown key" if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        lines.append(f"{where}{line}: {path or 'top'}: {message}")
    return lines


def _locate(tree: yaml.Node | None, location: tuple[int | str, ...]) -> tuple[str, yaml.Node | None]:
    """Return the dotted path of a fault and the YAML node nearest to it; union tags are no step of the path."""
    node, path = tree, ""
    for step in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node, path = node.value[step], f"{path}[{step}]"
        elif isinstance(node, yaml.MappingNode):
            child = next((value for key, value in node.value if key.value == str(step)), None)
            if child is not None:
                node = child
            elif step in kinds():
                continue
            path = f"{path}.{step}" if path else str(step)
    return path, node


def sample() -> str:
    """Return the documented sample configuration: every key with its default and when one would change it."""
    return resources.files(__package__).joinpath("config.sample.yml").read_text(encoding="utf-8")
