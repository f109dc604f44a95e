"""What electricity costs now and what carbon it means, from a Prometheus that knows: a market's price, a grid's carbon.

Exporters of Electricity Maps, of day-ahead prices or of a site's own contract publish one series each. A value holds
from its sample until the next one, and no longer than ``max_age``: a price that nobody reported lately is not known.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..storage.durations import Duration
from ..storage.energy_prices import GridReading, GridSample
from .fetch import Client
from .grid_units import MOST_PER_KWH, CarbonUnit, PriceUnit, currency_of, grams_per_kwh, per_kwh
from .http_options import HttpOptions
from .prometheus_api import decode
from .source import Clock, Role, Source, SourceConfig, SourceError, TargetHealth, register
from .text import without_login

_KEPT = 1000
"""Changes of a value that are kept for windows of energy that are written late."""
_AHEAD_S = 300.0
"""How far the clocks of two servers may differ."""


@register("grid")
class GridConfig(SourceConfig, HttpOptions):
    """A Prometheus (Thanos, Mimir, VictoriaMetrics) that knows what electricity costs, or its carbon intensity."""

    role: ClassVar[Role] = "grid"
    kind: Literal["grid"] = "grid"
    url: str = Field(description="Base URL, e.g. http://prometheus:9090 or http://mimir/prometheus.")
    price: str = Field(default="", description="PromQL with one series: the price of electricity.")
    price_unit: PriceUnit | None = Field(default=None, description="What the price is in: EUR/MWh, USD/kWh.")
    price_most: float = Field(default=MOST_PER_KWH, gt=0, allow_inf_nan=False,
                              description="Per kWh: more, or less than minus this, is not believed. Raise it for "
                                          "currencies of small units.")
    carbon: str = Field(default="", description="PromQL with one series: the grid's carbon intensity.")
    carbon_unit: CarbonUnit | None = Field(default=None, description="What the intensity is in: gCO2e/kWh.")
    every: Duration = Field(default=60.0, description="How often it is read.")
    max_age: Duration = Field(default=7200.0, description="How long a sample holds when no newer one comes; then the "
                                                          "price is not known.")

    @model_validator(mode="after")
    def _units_stated(self) -> Self:
        if not (self.price or self.carbon):
            raise ValueError("a grid needs a price or carbon: there is nothing to read")
        for name in ("price", "carbon"):
            if bool(getattr(self, name)) != bool(getattr(self, f"{name}_unit")):
                raise ValueError(f"{name} and {name}_unit go together: a number without its unit says nothing")
        return self

    @property
    def currency(self) -> str:
        """Return what prices are in; '' without a price."""
        return currency_of(self.price_unit or "")

    def build(self, clock: Clock) -> Source:
        """Return the source that asks this server."""
        return GridSource(self, clock)


class GridSource:
    """Asks for price and carbon intensity; one that cannot be had does not hide the other."""

    role: Role = "grid"

    def __init__(self, config: GridConfig, clock: Clock) -> None:
        self.name = config.name or config.kind
        self._config, self._clock = config, clock
        self._client = Client(config, accept="application/json")
        self._health: dict[str, TargetHealth] = {}
        self._kept: dict[str, deque[GridSample]] = {name: deque(maxlen=_KEPT) for name in ("price", "carbon")}
        self._known: GridReading | None = None
        self._queries: dict[str, tuple[str, Callable[[float], float]]] = {}
        if config.price:
            unit, most = config.price_unit or "", config.price_most
            self._queries["price"] = config.price, lambda value: per_kwh(value, unit, most)
        if config.carbon:
            of_carbon = config.carbon_unit or ""
            self._queries["carbon"] = config.carbon, lambda value: grams_per_kwh(value, of_carbon)

    def read(self) -> GridReading:
        """Ask when it is time to, and return what was reported of the last days; ``SourceError`` when nothing was."""
        now_s = self._clock()
        if self._known is not None and 0 <= now_s - self._known.time_s < self._config.every:
            return self._known
        self._known = None
        if not any([self._ask(name) for name in self._queries]):
            raise SourceError("; ".join(health.error for health in self._health.values()))
        self._known = GridReading(now_s, tuple(self._kept["price"]), tuple(self._kept["carbon"]),
                                  self._config.currency)
        return self._known

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how price and carbon could be read."""
        return tuple(self._health.values())

    def close(self) -> None:
        """Release the connection."""
        self._client.close()

    def _ask(self, name: str) -> bool:
        """Keep what is reported now of price or carbon; tell whether anything was."""
        began, before = time.perf_counter(), self._health.get(name)
        query, believed = self._queries[name]
        error, last = "", before.last_success_s if before else None
        try:
            value, since_s = believed(self._one(query)), self._one(f"timestamp({query})")
            self._keep(self._kept[name], GridSample(value, since_s, since_s + self._config.max_age))
            last = self._clock()
        except (SourceError, ValueError) as fault:
            error = f"{without_login(self._config.url)}: {fault} (query {query})"
        self._health[name] = TargetHealth(name, not error, time.perf_counter() - began, error, last)
        return not error

    def _keep(self, samples: deque[GridSample], sample: GridSample) -> None:
        """Note a sample; ``ValueError`` for one from the future or one that is too old to hold."""
        now_s = self._clock()
        if not now_s - self._config.max_age < sample.since_s <= now_s + _AHEAD_S:
            raise ValueError(f"the newest sample is {now_s - sample.since_s:,.0f} s old (max_age)")
        last = samples[-1] if samples else None
        if last is not None and last.value == sample.value and last.since_s <= sample.since_s <= last.until_s:
            samples[-1] = GridSample(last.value, last.since_s, sample.until_s)
        elif last is None or sample.since_s > last.since_s:
            samples.append(sample)

    def _one(self, query: str) -> float:
        """Return the value of the one series of a query; ``ValueError`` where there are none or several."""
        answer = self._client.get(f"{self._config.url.rstrip('/')}/api/v1/query", {"query": query})
        series = decode(answer)
        if len(series) != 1:
            raise ValueError(f"{len(series)} series where one is needed"
                             + (": name its zone by a label" if series else ": no source has it now"))
        return series[0][1]
