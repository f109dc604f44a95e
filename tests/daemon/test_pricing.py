"""Money and carbon: booked by the hour, shown where set, never as zero."""

from datetime import UTC, datetime, time

import pytest

from idlewatt.daemon.config import ConfigError, parse
from idlewatt.daemon.pricing import Cost, Costing, priced
from idlewatt.daemon.settings.costs import CostSettings, Tariff
from idlewatt.storage.energy_schema import SUMS
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.run_energy import EnergyShare

NIGHT = CostSettings(currency="EUR", per_kwh=0.3, tariffs=(Tariff(since=time(22), until=time(6), per_kwh=0.1),),
                     per_gpu_hour={"H100": 3.0, "A100": 1.5})


def sums(**known):
    return dict.fromkeys(SUMS, 0) | known


def at(hour, **more):
    start_s = datetime(2026, 10, 3, hour, tzinfo=UTC).timestamp()
    return EnergyShare(start_s, 300.0, "a", "gpu", {PowerClass.PRODUCTIVE: 3.6e6}, **more)


@pytest.mark.parametrize(("hour", "price"), [(21, 0.3), (22, 0.1), (3, 0.1), (6, 0.3)])
def test_the_price_is_that_of_the_hour(hour, price):
    (share,) = priced([at(hour, job_id="1", model="NVIDIA A100-SXM4-40GB")], NIGHT)
    assert (share.price_per_kwh, share.price_per_gpu_hour) == (price, 1.5)


def test_what_nobody_holds_costs_electricity_but_no_gpu_hours():
    (share,) = priced([at(12)], NIGHT)
    assert (share.price_per_kwh, share.price_per_gpu_hour) == (0.3, None)


def test_without_prices_nothing_is_booked():
    share = at(12, job_id="1")
    assert priced([share], CostSettings()) == [share]


def test_nothing_set_is_no_cost_at_all():
    assert Costing().of(sums(energy_mj=10**12)) is None


def test_booked_money_stays_whatever_the_price_is_now():
    found = Costing(CostSettings(currency="EUR", per_kwh=9.0)).of(
        sums(energy_mj=3_600_000_000, priced_mj=3_600_000_000, cost_micro=250_000, wasted_cost_micro=50_000))
    assert found == Cost("EUR", 0.25, 0.05, None, None)


def test_what_was_recorded_before_there_was_a_price_counts_at_todays():
    found = Costing(CostSettings(currency="EUR", per_kwh=0.5)).of(
        sums(energy_mj=7_200_000_000, wasted_mj=3_600_000_000, priced_mj=3_600_000_000, cost_micro=250_000,
             wasted_cost_micro=100_000))
    assert found.energy == pytest.approx(0.75)
    assert found.wasted == pytest.approx(0.1 + 0.25)


def test_the_site_s_overhead_multiplies_electricity_and_carbon_and_no_gpu_hours():
    costs = CostSettings(currency="EUR", per_kwh=0.5, per_gpu_hour={"A100": 1.0}, grams_per_kwh=400.0)
    found = Costing(costs, 1.5).of(sums(energy_mj=3_600_000_000, gpu_cost_micro=2_000_000))
    assert (found.energy, found.gpu_hours, found.carbon_grams) == (pytest.approx(0.75), 2.0, pytest.approx(600.0))


def test_carbon_alone_needs_no_currency():
    assert Costing(CostSettings(grams_per_kwh=0.0)).of(sums(energy_mj=3_600_000_000)) == Cost("", None, None, None, 0.0)


@pytest.mark.parametrize(("text", "fault"), [
    ("costs: {per_kwh: 0.3}", "a price needs its currency"), ("costs: {currency: EUR, per_kwh: -1}", "greater than"),
    ("costs: {currency: EUR, tariffs: [{since: 22:00, until: '06:00', per_kwh: 1}]}", "quotation marks"),
    ("costs: {currency: EUR, per_gpu_hour: {A100: .inf}}", "finite"), ("costs: {euro: 1}", "unknown key")])
def test_a_wrong_price_is_refused_in_words(text, fault):
    with pytest.raises(ConfigError, match=fault):
        parse(text)
