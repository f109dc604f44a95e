"""Slurm through slurmrestd: over TCP with a JWT, or over its unix socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import quote

from pydantic import Field, field_validator
from requests.adapters import HTTPAdapter
from requests_unixsocket.adapters import UnixAdapter

from ...storage.records import Job, Node, Partition
from ...storage.rules import Association, CountedUsage, License, Qos, Reservation
from ..fetch import Client, Refused
from ..http_options import HttpOptions
from ..secret_file import SecretFile
from ..source import Clock, Role, SourceConfig, SourceError, register
from ..text import without_login
from .fields import BadRecord, Fields
from .parse_json import Parsed, Record, errors, load, load_list, parse_accounted, parse_job, parse_list
from .parse_node import parse_node
from .parse_rules import parse_association, parse_license, parse_partition, parse_qos, parse_reservation
from .parse_settings import past_ceilings
from .source import SlurmSource

VERSIONS = tuple(f"v0.0.{number}" for number in range(45, 36, -1))
"""Versions of the API whose shapes are known, newest first: Slurm 21.08 to 26.05."""


class SlurmRestOptions(HttpOptions):
    """Bounds and trust for slurmrestd, whose list of jobs is long: about 4 kB a job."""

    max_body_bytes: int = Field(default=512 * 2**20, gt=0, description="Largest answer taken; about 4 kB a job.")


@register("slurm_rest")
class SlurmRestConfig(SourceConfig):
    """Jobs, nodes and partitions from slurmrestd."""

    role: ClassVar[Role] = "scheduler"
    kind: Literal["slurm_rest"] = "slurm_rest"
    url: str = Field(description="http://host:6820, https://…, or unix:/run/slurmrestd/slurmrestd.socket.",
                     pattern=r"^(https?://[^/]|unix:/)")
    user: str = Field(default="", description="X-SLURM-USER-NAME; on the socket slurmrestd knows us by our uid.")
    token_file: Path | None = Field(
        default=None, description="File with the JWT, re-read on change; SLURM_JWT of the environment otherwise.")
    api_version: str = Field(
        default="", description="Version of the REST API, e.g. v0.0.40; found out when empty.",
        pattern=r"^(v0\.0\.\d{2})?$")
    settings: dict[str, str] = Field(
        default={}, description="Settings that slurmrestd does not report, as `scontrol show config` has them.")
    qos_grp_tres_mins: dict[str, str] = Field(
        default={}, description="GrpTRESMins by QOS, as `sacctmgr show qos` has them; slurmrestd tells them from "
        "v0.0.42 on.")
    http: SlurmRestOptions = Field(default=SlurmRestOptions(), description="Timeouts, TLS and bounds.")

    @field_validator("qos_grp_tres_mins")
    @classmethod
    def _understood(cls, limits: dict[str, str]) -> dict[str, str]:
        for name, text in limits.items():
            try:
                past_ceilings(text)
            except ValueError as error:
                raise ValueError(f"GrpTRESMins of QOS {name[:40]!r} is no list like gres/gpu=600,cpu=5000: "
                                 f"{text[:40]!r}") from error
        return limits

    def build(self, clock: Clock) -> SlurmSource:
        """Return the source that this configuration describes."""
        return SlurmSource(self.name or self.kind, SlurmRest(self), clock, self.settings)


class SlurmRest:
    """Asks slurmrestd; the version of its API is found once, and again after an upgrade took it away."""

    def __init__(self, config: SlurmRestConfig) -> None:
        self._config = config
        self._version = config.api_version
        self._token = SecretFile(config.token_file).read if config.token_file else _environment_token
        self._client: tuple[str, Client] | None = None  # one whose token is old goes with its last exchange
        self._closed = False
        self._jobs: dict[bytes, Job] = {}
        self._nodes: dict[bytes, Node] = {}
        self._clusters = set[str]()
        """Whose jobs slurmrestd has told."""
        socket = config.url.removeprefix("unix:")
        self._base = config.url.rstrip("/") if socket == config.url else f"http+unix://{quote(socket, safe='')}"
        self._unix = socket != config.url

    def nodes(self) -> Parsed[Node]:
        """Return all nodes."""
        return self._list("nodes", parse_node, self._nodes)

    def jobs(self) -> Parsed[Job]:
        """Return pending, running and just finished jobs."""
        return self._list("jobs", self._job, self._jobs)

    def _job(self, raw: Fields) -> Job:
        """Return a job, and note whose it is."""
        if raw.is_text("cluster"):
            self._clusters.add(raw.text("cluster").lower())
        return parse_job(raw)

    def partitions(self) -> Parsed[Partition]:
        """Return all partitions."""
        return self._list("partitions", parse_partition)

    def reservations(self) -> Parsed[Reservation]:
        """Return all reservations."""
        return self._list("reservations", parse_reservation)

    def licenses(self) -> Parsed[License]:
        """Return all licences."""
        return self._extra("slurm", "licenses", parse_license)

    def qos(self) -> Parsed[Qos]:
        """Return all qualities of service; slurmdbd knows them."""
        parsed = self._extra("slurmdb", "qos", parse_qos)
        return Parsed(tuple(map(self._completed, parsed.records)), parsed.skipped)

    def _completed(self, qos: Qos) -> Qos:
        """Return a quality of service with the limits that the configuration tells where slurmrestd does not."""
        configured, ceilings = self._config.qos_grp_tres_mins.get(qos.name), qos.ceilings
        if configured is None or not ceilings.unreported:
            return qos
        group = (*ceilings.group, *past_ceilings(configured))
        return replace(qos, ceilings=replace(ceilings, group=group, unreported=()))

    def associations(self) -> Parsed[Association]:
        """Return the accounts and users of this cluster; of all that slurmdbd knows where nothing tells which it is."""
        answer = self._answer("slurmdb", "associations")
        parsed = parse_list(answer, "associations", lambda raw: (raw.text("cluster").lower(), parse_association(raw)))
        own = self._cluster(answer)
        # A name that slurmdbd knows nothing of is not this cluster's: each has an association of root.
        told = own != "" and own in [cluster for cluster, _ in parsed.records]
        return Parsed(tuple(association for cluster, association in parsed.records
                            if not told or cluster in ("", own)), parsed.skipped)

    def _cluster(self, answer: Fields) -> str:
        """Return the name of this cluster in small letters, as slurmdbd has it; '' where nothing tells it."""
        try:
            told = answer.part("meta").part("slurm").text("cluster")  # from v0.0.40 on
        except BadRecord:
            told = ""
        own = self._config.settings.get("ClusterName", "") or told
        return own.strip().lower() or ("" if len(self._clusters) != 1 else next(iter(self._clusters)))

    def usage(self, now_s: float) -> Parsed[CountedUsage]:
        """Refuse: slurmrestd does not tell what has been used."""
        raise SourceError("slurmrestd does not report what is used of GrpTRESMins and GrpWall: read Slurm by slurm_cli")

    def settings(self) -> dict[str, str]:
        """Return nothing: slurmrestd does not tell the controller's settings."""
        return {}

    def topology(self) -> str:
        """Return nothing: slurmrestd does not tell switches."""
        return ""

    def switches(self) -> dict[int, tuple[int, float | None]] | None:
        """Return nothing beyond what the list of jobs tells."""
        return None

    def finished(self, since_s: float) -> Parsed[Job]:
        """Return the runs that slurmdbd knows since a time."""
        version = self._speak()
        # 22.05 refuses a bare number; without skip_steps the answer is many times as long.
        window = {"start_time": f"uts{since_s:.0f}", "skip_steps": "true"}
        if version >= "v0.0.40":  # the older ones know no such key, and always tell every run
            window["show_duplicates"] = "true"
        return parse_list(self._get(f"slurmdb/{version}/jobs", window, "jobs"), "jobs", parse_accounted)

    def close(self) -> None:
        """End what is under way, close the connections."""
        self._closed = True
        if self._client:
            self._client[1].close()

    def _list(self, name: str, parse: Callable[[Fields], Record],
              known: dict[bytes, Record] | None = None) -> Parsed[Record]:
        return parse_list(self._get(f"slurm/{self._speak()}/{name}", wanted=name), name, parse, known)

    def _extra(self, part: str, name: str, parse: Callable[[Fields], Record]) -> Parsed[Record]:
        answer = self._answer(part, name)
        return parse_list(answer, "QOS" if "QOS" in answer else name, parse)

    def _answer(self, part: str, name: str) -> Fields:
        """Return what a version of the API may not have, which then is no reason to look for another."""
        version = self._speak()
        try:
            return self._get(f"{part}/{version}/{name}")
        except Refused as refusal:
            if refusal.status == 404:
                self._version = version
            raise

    def _speak(self) -> str:
        """Return the newest version of the API that both sides know."""
        if not self._version:
            self._version = next(filter(self._answers, VERSIONS), "")
        if not self._version:
            raise SourceError(f"{without_login(self._config.url)}: slurmrestd speaks none of {VERSIONS[-1]} to "
                              f"{VERSIONS[0]}; is its openapi/slurmctld plugin loaded?", permanent=True)
        return self._version

    def _answers(self, version: str) -> bool:
        try:
            self._get(f"slurm/{version}/ping")
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return False
        return True

    def _get(self, path: str, params: dict[str, str] | None = None, wanted: str = "") -> Fields:
        try:
            body = self._connect().get(f"{self._base}/{path}", params)
            return load_list(body, wanted) if wanted else load(body)
        except Refused as refusal:
            if refusal.status == 404:
                self._version = self._config.api_version
            raise Refused(_explained(refusal), refusal.status) from refusal

    def _connect(self) -> Client:
        """Return a client that sends the present token."""
        token = self._token()
        if self._closed:
            raise SourceError("is not read any more")
        if self._client is None or self._client[0] != token:
            options = self._config.http.model_copy(update={"headers": self._config.http.headers | self._headers(token)})
            adapter: HTTPAdapter | None = UnixAdapter() if self._unix else None  # type: ignore[no-untyped-call]
            self._client = token, Client(options, accept="application/json", adapter=adapter)
        return self._client[1]

    def _headers(self, token: str) -> dict[str, str]:
        named = {"X-SLURM-USER-NAME": self._config.user, "X-SLURM-USER-TOKEN": token}
        return {name: value for name, value in named.items() if value}


def _explained(refusal: Refused) -> str:
    """Return Slurm's own words for a refusal, which stand at the end of a long answer."""
    try:
        return f"HTTP {refusal.status}: {errors(load(refusal.body))}"
    except BadRecord:
        return str(refusal)


def _environment_token() -> str:
    return os.environ.get("SLURM_JWT", "")
