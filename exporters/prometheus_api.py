"""The same facts for the whole fleet from a Prometheus that scrapes it already: one query per fact, never one per node.

Thanos, Mimir and VictoriaMetrics answer the same query API. A reading bears the time of its scrape, which
``timestamp(up)`` tells: an instant query alone would date a five minutes old sample to now.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field

from ..storage.durations import Duration
from ..storage.telemetry import GpuReading, NodeReading, Telemetry
from . import amd, amd_smi, cgroup, dcgm, gaudi, ipmi, node, nvidia_smi, pdu
from .deadline import all_of
from .exposition import Samples, Series
from .facts import NAME_LABELS, NodeOf, TimeOf, is_nobody, measured, ratio, reported_name
from .fetch import Client
from .http_options import HttpOptions
from .node import MeterBook, MeterRole
from .page_checks import GpuOwners, too_many_servers
from .source import Clock, Role, Source, SourceConfig, SourceError, TargetHealth, register
from .text import clean, described, quoted, without_login
from .text import decode as decode_text

log = logging.getLogger(__name__)

_BUSY = "idlewatt:cpu_busy"
_TIME = "idlewatt:scraped"
_DISK, _WAITING, _FABRIC = "idlewatt:disk_busy", "idlewatt:io_waiting", "idlewatt:fabric"
_RATIOS = (_BUSY, _DISK, _WAITING, _FABRIC)
_BY = ", ".join(("job", "instance", *NAME_LABELS))
_TOGETHER = 8
_GPU_FACTS: dict[str, tuple[str, ...]] = (dcgm.FACTS | nvidia_smi.FACTS | amd.FACTS | amd_smi.FACTS
                                          | gaudi.FACTS)
"""What is queried of GPUs: each fact under all the names that exporters give it."""


@register("prometheus")
class PrometheusConfig(SourceConfig, HttpOptions):
    """A Prometheus (Thanos, Mimir, VictoriaMetrics) that scrapes exporters of GPUs, node, ipmi and cgroup already."""

    kind: Literal["prometheus"] = "prometheus"
    url: str = Field(description="Base URL, e.g. http://prometheus:9090 or http://mimir/prometheus.")
    matchers: str = Field(default="", description="Label matchers added to every query, e.g. cluster=\"dgx\": needed "
                                                  "where one server holds several clusters.")
    max_age: Duration = Field(default=120.0,
                              description="Samples older than this are no reading: that exporter is gone.")
    gpu_limit: int = Field(default=64, gt=0, description="GPUs of one server; of one that shows more, none is taken.")
    server_limit: int = Field(default=1000, gt=0, description="Servers that one scraped target may speak for; of one "
                                                              "that names more, nothing is taken.")
    power_meters: dict[str, MeterRole] = Field(default_factory=dict, description="As for the source `node`.")
    cpu_window: Duration = Field(default=120.0, description="Window over which the CPUs' busy share is averaged; at "
                                                            "least four scrape intervals.")

    def build(self, clock: Clock) -> Source:
        """Return the source that asks this server."""
        return PrometheusSource(self, clock)


def queries(config: PrometheusConfig) -> dict[str, str]:
    """Return the PromQL of each fact, by the metric that it yields."""
    plain = [*ipmi.METRICS, *pdu.KNOWN, *cgroup.METRICS, node.MEMORY_TOTAL, node.MEMORY_AVAILABLE, node.POWER,
             node.METER_INFO, node.NAME]
    facts = {name: f"{name}{{{config.matchers}}}" for name in plain}
    matchers = f"{config.matchers}, " if config.matchers else ""
    # Of pods as a whole: with their containers there would be three times as many series.
    facts |= {name: f'{name}{{{matchers}pod!="", container=""}}' for name in cgroup.OF_PODS}
    # Every sensor of every server has a label: only those of Grace's meters are queried.
    facts[node.SENSOR_LABEL] = f'{node.SENSOR_LABEL}{{{matchers}label=~"(?i).*power socket.*"}}'
    for name, names in _GPU_FACTS.items():
        facts[name] = (f"{name}{{{config.matchers}}}" if len(names) == 1 else
                       f'{{{matchers}__name__=~"{"|".join(names)}"}}')

    def cpu(mode: str) -> str:
        return f"sum by ({_BY}) (rate({node.CPU}{{{matchers}{mode}}}[{config.cpu_window:g}s]))"

    waiting, total = cpu('mode=~"idle|iowait"'), cpu('mode!~"guest.*"')
    facts[_BUSY] = f"1 - {waiting} / {total}"
    facts |= _io_queries(matchers, f"{config.cpu_window:g}s")
    facts[_TIME] = f"timestamp(up{{{config.matchers}}})"
    return facts


def _io_queries(matchers: str, window: str) -> dict[str, str]:
    """Return the PromQL of the shares of time and of capacity in which servers moved data."""
    def rate(name: str) -> str:
        return f"rate({name}{{{matchers}}}[{window}])"

    moved = " + ".join(f"sum by ({_BY}) ({rate(name)})" for name in node.FABRIC)
    return {_DISK: f"max by ({_BY}) ({rate(node.DISK)})", _WAITING: rate(node.WAITING),
            _FABRIC: f"({moved}) / (2 * sum by ({_BY}) ({node.FABRIC_RATE}{{{matchers}}}))"}


class PrometheusSource:
    """Reads the fleet's facts through the query API."""

    role: Role = "telemetry"

    def __init__(self, config: PrometheusConfig, clock: Clock, timer: Callable[[], float] = time.monotonic) -> None:
        self.name = config.name or config.kind
        self._config, self._clock, self._timer = config, clock, timer
        self._client = Client(config, accept="application/json")
        self._shown = without_login(config.url)
        self._queries = queries(config)
        self._meters = MeterBook(config.power_meters)
        self._health: tuple[TargetHealth, ...] = ()
        self._strange: tuple[TargetHealth, ...] = ()
        self._owners = GpuOwners()
        self._last_success_s: float | None = None

    def read(self) -> Telemetry:
        """Ask every fact once; raise ``SourceError`` where one cannot be had: half a fleet's facts mislead."""
        started, now = self._timer(), self._clock()
        try:
            answers = all_of(self.name, [partial(self._query, query) for query in self._queries.values()], _TOGETHER)
            samples = {name: [(Series(name, labels), value) for labels, value in answer]
                       for name, answer in zip(self._queries, answers, strict=True)}
        except SourceError as error:
            self._note(started, str(error))
            raise
        samples, crowds = thinned(samples, self._config.server_limit)
        facts = telemetry(samples, now, self._config.max_age, self._meters)
        if not (facts.gpus or facts.nodes or facts.jobs or facts.enclosures):
            self._note(started, fault := _found_instead(samples, self._config.max_age))
            raise SourceError(f"{self._shown}: {fault}")
        sound, strange = sifted(facts, self._config.gpu_limit)
        self._owners.forget(started)
        sound, wrong = self._owners.sift(sound, started)
        claims = (TargetHealth(name, False, 0.0, why) for name, why in sorted(wrong.items()))
        self._strange = (*crowds, *strange, *claims)
        self._last_success_s = now
        self._note(started, "")
        return sound

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how the server fared at the last read, and what it reported of nodes that cannot be true."""
        return self._health + self._strange

    def close(self) -> None:
        """End what is under way, release connections."""
        self._client.close()

    def _note(self, started: float, error: str) -> None:
        self._health = (TargetHealth(self._shown, not error, self._timer() - started, error,
                                     self._last_success_s),)

    def _query(self, query: str) -> list[tuple[dict[str, str], float]]:
        url = f"{self._config.url.rstrip('/')}/api/v1/query"
        try:
            return decode(self._client.get(url, {"query": query}))
        except ValueError as error:
            raise SourceError(f"{self._shown}: {error} (query {query})") from error


def decode(body: bytes) -> list[tuple[dict[str, str], float]]:
    """Return labels and value of each series in an answer of ``/api/v1/query``; raise ``ValueError`` otherwise."""
    series = list(_vector(envelope_of(body)))
    # Without an escape and beyond ASCII nothing can hide in a label: that spares a look at each of them.
    if b"\\" not in body and b"\x7f" not in body and body.isascii():
        return series
    return [({name: clean(value) for name, value in labels.items()}, value) for labels, value in series]


def envelope_of(body: bytes) -> object:
    """Return the data of an answer of the query API; raise ``ValueError`` for what is none, with its complaint."""
    try:
        envelope = json.loads(decode_text(body))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the answer is not JSON; is this a Prometheus? {quoted(body)}") from error
    if not isinstance(envelope, dict) or envelope.get("status") != "success":
        raise ValueError(f"the server says {_complaint(envelope) or quoted(body)}")
    warnings = envelope.get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        log.warning("the server warns, results may be partial: %s", clean(str(warning)[:300]))
    return envelope.get("data")


def _complaint(envelope: object) -> str:
    """Return the kind and words of an error of the query API; '' where there are none."""
    parts = [envelope.get(name) for name in ("errorType", "error")] if isinstance(envelope, dict) else []
    return clean(": ".join(part[:300] for part in parts if isinstance(part, str)))


def _vector(data: Any) -> Iterator[tuple[dict[str, str], float]]:
    kind = data.get("resultType") if isinstance(data, dict) else None
    if kind != "vector":
        raise ValueError(f"a vector was expected, not {described(kind)}")
    try:
        for series in data["result"]:
            labels = series["metric"]
            if not all(isinstance(value, str) for value in labels.values()):
                raise ValueError("a label that is no text")
            yield labels, float(series["value"][1])
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError("a series without labels or value") from error


def telemetry(samples: Mapping[str, Samples], now: float, max_age: float, book: MeterBook) -> Telemetry:
    """Return the records that the answers hold, without those older than ``max_age`` seconds."""
    scraped = {_target(series.labels): value for series, value in samples[_TIME]}
    names = {_target(series.labels): series.labels.get("nodename", "") for series, _ in samples[node.NAME]}

    def time_of(labels: Mapping[str, str]) -> float | None:
        # A server that drops `up` leaves nothing but the time of the question.
        time_s = scraped.get(_target(labels), now if not scraped else None)
        return time_s if time_s is not None and now - time_s <= max_age else None

    def node_of(labels: Mapping[str, str]) -> str:
        return reported_name(labels, names.get(_target(labels), ""))

    gpus = _gpus(samples, node_of, time_of)
    meters = ipmi.servers([s for name in ipmi.METRICS for s in samples[name]], node_of, time_of)
    hosts = _hosts(samples, node_of, time_of, book)
    jobs = cgroup.jobs([s for name in cgroup.METRICS for s in samples[name]], node_of, time_of)
    return Telemetry(gpus, tuple(_merged(meters, hosts)), jobs, pdu.racks(samples, time_of))


def _gpus(samples: Mapping[str, Samples], node_of: NodeOf, time_of: TimeOf) -> tuple[GpuReading, ...]:
    """Return the GPUs of all vendors; of one that exporters of two kinds show, what DCGM tells."""
    def of(facts: Iterable[str]) -> Samples:
        return [sample for name in facts for sample in samples[name]]

    gpus: list[GpuReading] = []
    shown = set[tuple[str, str]]()
    for kind in (dcgm.gpus(of(dcgm.FACTS), node_of, time_of), nvidia_smi.gpus(of(nvidia_smi.FACTS), node_of, time_of),
                 amd.gpus(of(amd.FACTS), node_of, time_of), amd_smi.gpus(of(amd_smi.FACTS), node_of, time_of),
                 gaudi.gpus(of(gaudi.FACTS), node_of, time_of)):
        gpus += [gpu for gpu in kind if (gpu.uuid, gpu.node) not in shown]
        shown.update((gpu.uuid, gpu.node) for gpu in kind)
    return tuple(gpus)


def thinned(samples: dict[str, Samples], server_limit: int) -> tuple[dict[str, Samples], tuple[TargetHealth, ...]]:
    """Return the samples without those of targets that speak for too many servers, and each of these as down."""
    named: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for name, rows in samples.items():
        for series, _ in rows if name != _TIME else ():
            named[_target(series.labels)].add(reported_name(series.labels))
    # What bears no instance, as sums do, is of no single target.
    crowded = {target: len(names) for target, names in named.items() if len(names) > server_limit and target[1]}
    if not crowded:
        return samples, ()
    within_limit = {name: [sample for sample in rows if _target(sample[0].labels) not in crowded]
                    for name, rows in samples.items()}
    return within_limit, tuple(TargetHealth(instance, False, 0.0, too_many_servers(count, server_limit))
                               for (_, instance), count in sorted(crowded.items()))


def sifted(telemetry: Telemetry, gpu_limit: int) -> tuple[Telemetry, tuple[TargetHealth, ...]]:
    """Return the facts without those of nodes that cannot be, and each of these nodes as a target that is down."""
    counts = Counter(gpu.node for gpu in telemetry.gpus)
    servers = counts.keys() | {node.node for node in telemetry.nodes} | {job.node for job in telemetry.jobs}
    strange = {name: "the label `node` or the host's own name must name the server"
               for name in servers if is_nobody(name)}
    strange |= {name: f"shows {count} GPUs, more than {gpu_limit} (gpu_limit)"
                for name, count in counts.items() if count > gpu_limit}
    if not strange:
        return telemetry, ()
    sound = Telemetry(tuple(gpu for gpu in telemetry.gpus if gpu.node not in strange),
                      tuple(server for server in telemetry.nodes if server.node not in strange),
                      tuple(job for job in telemetry.jobs if job.node not in strange), telemetry.enclosures)
    return sound, tuple(TargetHealth(name, False, 0.0, why) for name, why in sorted(strange.items()))


def _found_instead(samples: Mapping[str, Samples], max_age: float) -> str:
    """Return what a server holds that tells nothing of GPUs, servers or jobs."""
    scraped = samples[_TIME]
    jobs = sorted({series.labels.get("job", "") for series, _ in scraped})
    shown = ", ".join(jobs[:5]) + (", …" if len(jobs) > 5 else "")
    instead = f"it scrapes {len(scraped)} targets ({shown})" if scraped else "it scrapes nothing: do the matchers fit?"
    return f"no GPU, server or meter whose samples are younger than {max_age:g} s; {instead}"


def _target(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _hosts(samples: Mapping[str, Samples], node_of: NodeOf, time_of: TimeOf, book: MeterBook) -> list[NodeReading]:
    """Return what node_exporter says of each server."""
    values: dict[str, dict[str, float | None]] = {}
    power: dict[str, dict[str, float]] = {}
    called: dict[str, dict[str, str]] = {}
    times: dict[str, float] = {}
    for name in (*_RATIOS, node.MEMORY_TOTAL, node.MEMORY_AVAILABLE, node.POWER, *node.POWER_LABELS):
        for series, number in samples[name]:
            labels = series.labels
            server, time_s = node_of(labels), time_of(labels)
            if time_s is None:
                continue
            if name in node.POWER_LABELS:
                called.setdefault(server, {})[node.meter_of(labels)] = labels.get("label") or labels.get("oem_info", "")
                continue
            times[server] = time_s
            if name == node.POWER:
                power.setdefault(server, {})[node.meter_of(labels)] = number
            else:
                values.setdefault(server, {})[name] = ratio(number) if name in _RATIOS else measured(number)
    readings = []
    for server, time_s in times.items():
        server_values, drawn = values.get(server, {}), power.get(server, {})
        meters = book.judge(server, drawn, node.named(drawn, called.get(server, {})), time_s)
        readings.append(node.reading(server, time_s, busy=server_values.get(_BUSY),
                                     total=server_values.get(node.MEMORY_TOTAL),
                                     available=server_values.get(node.MEMORY_AVAILABLE), meters=meters,
                                     io=node.IoShares(*(server_values.get(name)
                                                        for name in (_DISK, _WAITING, _FABRIC)))))
    return readings


def _merged(meters: tuple[NodeReading, ...], hosts: list[NodeReading]) -> Iterator[NodeReading]:
    """Yield one reading per server and meter: the consumer chooses between meters by their source."""
    yield from (meter for meter in meters if meter.power_watts is not None)
    yield from hosts
