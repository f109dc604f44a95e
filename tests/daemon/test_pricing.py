"""Money and carbon: booked by the hour, shown where set, never as zero."""

from dataclasses import asdict
from datetime import UTC, datetime, time

import pytest

from idlewatt.daemon.amounts import amount, carbon, total
from idlewatt.daemon.cli._costs import StatedPrice
from idlewatt.daemon.config import ConfigError, parse
from idlewatt.daemon.pricing import Cost, Costing, priced
from idlewatt.daemon.settings.costs import CostSettings, Tariff
from idlewatt.storage.energy_prices import GridReading, GridSample
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
    assert found == Cost("EUR", 0.25, 0.05, None, None, 1.0, 0.0)


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
    assert Costing(CostSettings(grams_per_kwh=0.0)).of(sums(energy_mj=3_600_000_000)) == Cost(
        "", None, None, None, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(("text", "fault"), [
    ("costs: {per_kwh: 0.3}", "a price needs its currency"), ("costs: {currency: EUR, per_kwh: -1}", "greater than"),
    ("costs: {currency: EUR, tariffs: [{since: 22:00, until: '06:00', per_kwh: 1}]}", "quotation marks"),
    ("costs: {currency: EUR, tariffs: [{since: '22:00Z', until: '06:00', per_kwh: 1}]}",
     "a time of day is UTC here, written without an offset"),
    ("costs: {currency: EUR, tariffs: [{since: '22:00', until: '06:00+02:00', per_kwh: 1}]}",
     r"tariffs\[0\].until: .*without an offset"),
    ("costs: {currency: EUR, per_gpu_hour: {A100: .inf}}", "finite"), ("costs: {euro: 1}", "unknown key")])
def test_a_wrong_price_is_refused_in_words(text, fault):
    with pytest.raises(ConfigError, match=fault):
        parse(text)


HOUR = datetime(2026, 10, 3, 12, tzinfo=UTC).timestamp()


def told(*prices, carbon=(), currency="EUR"):
    return GridReading(HOUR, tuple(prices), tuple(carbon), currency)


def test_what_a_metric_tells_counts_before_what_is_set():
    reading = told(GridSample(0.5, HOUR - 60, HOUR + 7140), carbon=[GridSample(300.0, HOUR - 60, HOUR + 60)])
    (share,) = priced([at(12)], NIGHT.model_copy(update={"grams_per_kwh": 400.0}), [reading])
    assert (share.price_per_kwh, share.grams_per_kwh, share.currency) == (0.5, 300.0, "EUR")


def test_the_past_is_priced_at_what_held_then():
    reading = told(GridSample(0.2, HOUR - 3600, HOUR), GridSample(0.4, HOUR, HOUR + 3600))
    found = [share.price_per_kwh for share in priced([at(11), at(12), at(13), at(14)], CostSettings(currency="EUR"),
                                                     [reading])]
    assert found == [0.2, 0.4, None, None]


def test_a_metric_that_fell_silent_leaves_what_is_set_and_without_that_nothing():
    silent = told(GridSample(0.5, HOUR - 7200, HOUR))
    assert priced([at(12)], NIGHT, [silent])[0].price_per_kwh == 0.3
    assert priced([at(12)], CostSettings(currency="EUR"), [silent])[0].price_per_kwh is None


def test_the_first_window_of_a_daemon_that_just_heard_of_a_price_is_priced():
    assert priced([at(12)], CostSettings(currency="EUR"), [told(GridSample(0.5, HOUR + 20, HOUR + 7200))])[0] \
        .price_per_kwh == 0.5


def test_the_first_source_that_knows_counts_and_another_currency_does_not():
    dollars, euros = told(GridSample(0.9, HOUR, HOUR + 60), currency="USD"), told(GridSample(0.4, HOUR, HOUR + 60))
    assert priced([at(12)], CostSettings(currency="EUR"), [dollars, told(), euros])[0].price_per_kwh == 0.4


def test_energy_whose_price_nobody_knew_is_in_no_sum_and_its_share_is_told():
    found = Costing(CostSettings(currency="EUR")).of(sums(
        energy_mj=7_200_000_000, wasted_mj=3_600_000_000, priced_mj=5_400_000_000, cost_micro=300_000,
        wasted_cost_micro=150_000, intensity_mj=7_200_000_000, carbon_mg=800_000))
    assert (found.energy, found.wasted, found.priced_ratio) == (0.3, 0.15, 0.75)
    assert (found.carbon_grams, found.carbon_ratio) == (800.0, 1.0)
    told_of = asdict(found)
    assert amount(told_of) == "0.30 EUR for 75 %"
    assert carbon(told_of) == "0.8 kg CO2e"


@pytest.mark.parametrize(("value", "words"), [(0.0, "0.00 EUR"), (0.004, "< 0.01 EUR"), (0.006, "0.01 EUR"),
                                               (1234.5, "1,234.50 EUR")])
def test_a_little_money_is_not_shown_as_none(value, words):
    assert amount({"currency": "EUR", "energy": value, "priced_ratio": 1.0}) == words


def test_a_price_below_zero_is_money_earned():
    found = Costing(CostSettings(currency="EUR")).of(sums(
        energy_mj=3_600_000_000, priced_mj=3_600_000_000, cost_micro=-120_000, wasted_cost_micro=-20_000))
    assert (found.energy, amount(asdict(found), "wasted")) == (-0.12, "-0.02 EUR")


def test_booked_carbon_stays_whatever_the_grid_is_now():
    found = Costing(CostSettings(grams_per_kwh=900.0)).of(sums(
        energy_mj=7_200_000_000, intensity_mj=3_600_000_000, carbon_mg=100_000))
    assert found.carbon_grams == pytest.approx(100.0 + 900.0)


def test_rows_together_are_of_as_much_as_is_known():
    rows = [{"energy_joules": 3.0, "cost": {"currency": "EUR", "energy": 2.0, "wasted": None, "gpu_hours": None,
                                            "carbon_grams": 5.0, "priced_ratio": 1.0, "carbon_ratio": 0.5}},
            {"energy_joules": 1.0, "cost": None}]
    assert total(rows) == {"currency": "EUR", "energy": 2.0, "wasted": None, "gpu_hours": None, "carbon_grams": 5.0,
                           "priced_ratio": 0.75, "carbon_ratio": 0.375}
    assert total([rows[1]]) is None


def test_money_by_class_is_what_was_booked_with_the_site_s_overhead():
    told = sums(energy_mj=7_200_000_000, productive_mj=3_600_000_000, allocated_idle_mj=3_600_000_000,
                priced_mj=7_200_000_000, cost_micro=500_000, productive_cost_micro=100_000,
                allocated_idle_cost_micro=400_000)
    assert Costing(CostSettings(currency="EUR", per_kwh=9.0), 1.5).of_classes(told) == {
        PowerClass.PRODUCTIVE: pytest.approx(0.15), PowerClass.ALLOCATED_IDLE: pytest.approx(0.6)}
    assert Costing().of_classes(sums(energy_mj=5, productive_mj=5)) == {}


@pytest.mark.parametrize(("said", "price", "words"), [
    ("{currency: EUR, per_kwh: 0.25}", 0.25, "energy is priced at 0.25 EUR a kWh"),
    ("{currency: EUR, per_kwh: 0.3, tariffs: [{since: '22:00', until: '06:00', per_kwh: 0.15}]}", 0.25,
     "energy is priced at 0.25 EUR a kWh, the mean of the tariffs over a day"),
    ("{currency: EUR, tariffs: [{since: '22:00', until: '06:00', per_kwh: 0.15}]}", None, ""), ("{}", None, "")])
def test_the_price_of_a_replay_is_the_one_that_the_configuration_states(said, price, words):
    found = StatedPrice.of(parse(f"sources: []\ncosts: {said}\n"))
    assert (found.money(3.6e6), found.words) == (price if price is None else pytest.approx(price), words)
    assert found.said(None) == ""
