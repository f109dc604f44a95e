"""Intel's Gaudi metric exporter: milliwatts, millijoules, per cent, and pods under labels of their own."""

from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.gaudi import METRICS, GaudiConfig, parse
from idlewatt.exporters.targets import Target
from idlewatt.storage.telemetry import GpuDetail

TARGET = Target("http://gaudi-01:41611/metrics", "gaudi-01:41611")


def test_a_page_gives_each_card_with_its_units(recorded):
    page = recorded("gaudi2_hand_written.prom")
    first, second = parse(Exposition(METRICS).samples(page), TARGET, 100.0, "HL-225").gpus
    assert (first.index, first.node, first.model) == (0, "gaudi-01", "HL-225")
    assert first.uuid == "01P0-HL2080A0-15-TNPS34-10-00"
    assert (first.power_watts, first.power_limit_watts, first.energy_joules) == (525, 600, 7.2e6)
    assert (first.activity, first.activity_source, first.jobs) == (0.88, "power_derived", ("ml/train-0",))
    assert (first.memory_used_bytes, first.memory_total_bytes) == (94963 * 2**20, 98304 * 2**20)
    assert first.detail == GpuDetail(sm_clock_hertz=1.65e9, default_limit_watts=600)
    assert (second.power_watts, second.activity, second.jobs) == (88, 0, ())


def test_two_cards_under_one_number_are_two():
    page = b'habanalabs_power_mW{id="0",UUID="x"} 90000\nhabanalabs_power_mW{id="0",UUID="y"} 400000\n'
    found = parse(Exposition(METRICS).samples(page), TARGET, 100.0).gpus
    assert [(gpu.uuid, gpu.power_watts) for gpu in found] == [("x", 90), ("y", 400)]


def test_0_watts_and_0_degrees_are_unmeasured():
    page = (b'habanalabs_power_mW{id="0",UUID="x"} 0\nhabanalabs_temperature_onchip{id="0",UUID="x"} 0\n'
            b'habanalabs_utilization{id="0",UUID="x"} 93\n')
    (card,) = parse(Exposition(METRICS).samples(page), TARGET, 100.0).gpus
    assert (card.power_watts, card.temperature_celsius, card.activity) == (None, None, 0.93)


def test_a_row_without_a_number_of_its_card_is_no_card():
    page = b'habanalabs_power_mW{UUID="x"} 90000\nhabanalabs_power_mW{id="all"} 90000\n'
    assert parse(Exposition(METRICS).samples(page), TARGET, 100.0).gpus == ()


def test_the_model_is_configured_since_no_page_tells_it(loopback, clock, recorded):
    loopback.pages["/metrics"] = recorded("gaudi2_hand_written.prom")
    gpus = GaudiConfig(static_configs=[{"targets": [loopback.address], "labels": {"node": "g1"}}], model="HL-225")
    assert {(gpu.node, gpu.model) for gpu in gpus.build(clock).read().gpus} == {("g1", "HL-225")}
