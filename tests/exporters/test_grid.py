"""What a kWh costs and means, from a Prometheus: one series, its unit, its age; and nothing where that is not told."""

import json
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from idlewatt.daemon.config import ConfigError, parse
from idlewatt.exporters.grid import GridConfig
from idlewatt.exporters.source import SourceError
from idlewatt.storage.energy_prices import GridSample

MAX_AGE = 7200.0


class Market:
    """Answers instant queries with what the test wrote down: by query, labels and value, and when it was sampled."""

    def __init__(self, loopback, clock):
        self.loopback, self.clock, self.series = loopback, clock, {}
        loopback.pages["/api/v1/query"] = self.answer

    def answer(self, handler):
        query = parse_qs(urlsplit(handler.path).query)["query"][0]
        dated = query.startswith("timestamp(")
        told = self.series.get(query[10:-1] if dated else query, [])
        rows = [{"metric": labels, "value": [self.clock(), str(sampled if dated else value)]}
                for labels, value, sampled in told]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def source(self, **options):
        known = {"price": "spot", "price_unit": "EUR/MWh", "every": 60.0} | options
        return GridConfig(url=self.loopback.url(""), **known).build(self.clock)


@pytest.fixture
def market(loopback, clock):
    return Market(loopback, clock)


def test_a_price_is_by_kwh_and_holds_from_its_sample_on(market, clock):
    market.series["spot"] = [({"zone": "DE"}, 82.5, clock.now - 30)]
    (told,) = market.source().read().prices
    assert told == GridSample(0.0825, clock.now - 30, clock.now - 30 + MAX_AGE)


def test_price_and_carbon_come_together_and_each_without_the_other(market, clock):
    market.series["intensity"] = [({}, 0.38, clock.now)]
    source = market.source(carbon="intensity", carbon_unit="kgCO2e/kWh")
    found = source.read()
    assert (found.prices, [one.value for one in found.carbon], found.currency) == ((), [380.0], "EUR")
    assert [(one.target, one.up) for one in source.health()] == [("price", False), ("carbon", True)]
    assert "0 series where one is needed: no source has it now (query spot)" in source.health()[0].error


def test_a_market_that_pays_for_being_relieved_has_a_price_below_zero(market, clock):
    market.series["spot"] = [({}, -120.0, clock.now)]
    assert market.source().read().prices[0].value == pytest.approx(-0.12)


@pytest.mark.parametrize(("told", "fault"), [
    ([({}, 82.5, 0)], "the newest sample is 1,000,000 s old"), ([({}, 82.5, 2e6)], "sample is -1,000,000 s old"),
    ([({}, "NaN", 1e6)], "no price"), ([({}, "+Inf", 1e6)], "no price"), ([({}, 82500.0, 1e6)], "more than 10 EUR"),
    ([({"zone": "DE"}, 1, 1e6), ({"zone": "FR"}, 2, 1e6)], "2 series where one is needed: name its zone by a label")])
def test_what_cannot_be_believed_is_no_price_and_says_why(market, told, fault):
    market.series["spot"] = told
    with pytest.raises(SourceError, match=fault):
        market.source().read()


def test_carbon_that_cannot_be_is_refused(market, clock):
    market.series["intensity"] = [({}, -3.0, clock.now)]
    with pytest.raises(SourceError, match="0 to 2000 g CO2e"):
        market.source(price="", price_unit=None, carbon="intensity", carbon_unit="gCO2e/kWh").read()


def test_what_was_told_before_stays_for_energy_that_is_written_late(market, clock):
    source = market.source()
    for step, price in enumerate([80.0, 80.0, 95.0]):
        clock.now = 1_000_000.0 + 900 * step
        market.series["spot"] = [({}, price, clock.now)]
        source.read()
    assert source.read().prices == (GridSample(0.08, 1e6, 1e6 + 900 + MAX_AGE),
                                    GridSample(0.095, 1e6 + 1800, 1e6 + 1800 + MAX_AGE))


def test_it_is_asked_no_oftener_than_it_is_told_to(market, clock, loopback):
    market.series["spot"] = [({}, 80.0, clock.now)]
    source = market.source()
    source.read(), source.read()
    assert len(loopback.requests) == 2  # the value and its time
    clock.now += 60
    source.read()
    assert len(loopback.requests) == 4


def test_a_server_that_is_gone_is_no_price(clock):
    source = GridConfig(url="http://127.0.0.1:9", price="spot", price_unit="EUR/MWh").build(clock)
    with pytest.raises(SourceError, match="Connection refused"):
        source.read()


@pytest.mark.parametrize(("options", "fault"), [
    ({}, "there is nothing to read"), ({"price": "spot"}, "a number without its unit says nothing"),
    ({"price": "spot", "price_unit": "ct/kWh"}, "pattern"), ({"carbon": "x", "carbon_unit": "lb/MWh"}, "gCO2e/kWh"),
    ({"price": "spot", "price_unit": "EUR/MWh", "price_most": 0}, "greater than 0")])
def test_a_number_without_its_unit_is_refused(options, fault):
    with pytest.raises(ValidationError, match=fault):
        GridConfig(url="http://prometheus:9090", **options)


def test_prices_are_in_the_currency_of_the_site():
    source = "sources: [{kind: grid, url: 'http://p:9090', price: spot, price_unit: USD/MWh}]"
    with pytest.raises(ConfigError, match=r"source grid has prices in USD, and costs.currency is EUR"):
        parse(f"costs: {{currency: EUR}}\n{source}")
    assert parse(f"costs: {{currency: USD}}\n{source}").sources[0].currency == "USD"


@pytest.mark.stack
def test_a_real_prometheus_tells_price_and_carbon_with_their_age(loopback, server, until):
    loopback.pages["/metrics"] = (b'spot_price{zone="DE"} 91.5\nspot_price{zone="FR"} 40\n'
                                  b'electricity_maps_carbon_intensity{zone="DE"} 412\n')
    source = GridConfig(url=server, price='spot_price{zone="DE"}', price_unit="EUR/MWh",
                        carbon='electricity_maps_carbon_intensity{zone="DE"}', carbon_unit="gCO2eq/kWh",
                        every=0.01).build(time.time)

    def told():
        try:
            found = source.read()
        except SourceError:
            return None
        return found if found.prices and found.carbon else None

    until(told)
    found = source.read()
    assert (found.prices[-1].value, found.carbon[-1].value) == (0.0915, 412.0)
    assert time.time() - 60 < found.prices[-1].since_s <= time.time()
    source.close()
    several = GridConfig(url=server, price="spot_price", price_unit="EUR/MWh").build(time.time)
    with pytest.raises(SourceError, match="2 series where one is needed"):
        several.read()
    several.close()
