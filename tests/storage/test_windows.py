"""Packed windows: what goes in comes out, in a tenth of the room."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import true

from idlewatt.storage import phrases, schema, windows
from idlewatt.storage.packed import MISSING, Unreadable, pack, scaled, unpack, unscaled
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import GpuRollup, WasteReading

whole = st.integers(-2**63, 2**63 - 1)


@given(st.lists(st.tuples(whole, whole), max_size=20), st.lists(st.text(max_size=5), max_size=5))
def test_packed_numbers_and_words_come_back(rows, words):
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    found, (again,) = unpack(pack(columns, [words]))
    assert again == words
    assert found.T.tolist() == list(map(list, rows))


@given(st.lists(st.none() | st.floats(0, 1e6).map(lambda value: round(value, 3))))
def test_thousandths_come_back_and_what_is_missing_stays_so(values):
    assert unscaled(scaled(values, 1e3), 1e3) == values


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 1e300])
def test_what_is_no_number_is_missing(value):
    assert scaled([value], 1e3).tolist() == [MISSING]


@pytest.mark.parametrize("broken", [b"", b"\x02abc", b"\x01abc", pack(np.zeros((3, 4), np.int64))[:-5]])
def test_packed_numbers_that_are_damaged_or_newer_are_refused(broken):
    with pytest.raises(Unreadable):
        unpack(broken)


@given(st.text(alphabet=st.sampled_from("ab #,.0123"), max_size=30))
def test_a_sentence_that_was_taken_apart_comes_back(sentence):
    assert phrases.put_together(*phrases.taken_apart(sentence)) == sentence


def test_sentences_that_differ_in_figures_only_are_one_phrase():
    assert phrases.taken_apart("needs 16 GPUs, 3 are free in p#1") == ("needs # GPUs, # are free in p##", "16,3,#,1")


def rollup(start_s: float, gpu: int, seconds: float = 300.0, **more) -> GpuRollup:
    return GpuRollup(**{"start_s": start_s, "seconds": seconds, "node": f"n{gpu % 3}", "uuid": f"GPU-{gpu}",
                        "index": gpu, "measured_seconds": seconds, "energy_joules": 123.456 * seconds,
                        "activity_mean": 0.123456, "activity_max": 1.0, "power_mean_watts": 123.456,
                        "power_max_watts": 400.001, "allocated_seconds": 7.25} | more)


def test_windows_of_many_gpus_come_back_in_order_and_by_node(history):
    given_ = [rollup(start_s, gpu) for start_s in (0.0, 300.0) for gpu in range(20)]
    history.record_rollups(reversed(given_))
    assert history.rollups(0, 600) == tuple(sorted(given_, key=lambda one: (one.start_s, one.uuid)))
    assert [one.index for one in history.rollups(0, 300, node="n1")] == [1, 10, 13, 16, 19, 4, 7]


def test_a_window_that_a_restart_cut_short_stands_beside_its_other_half(history):
    halves = (rollup(0.0, 1, seconds=125.0), rollup(0.0, 1, seconds=300.0, measured_seconds=175.0))
    for half in halves:
        history.record_rollups([half])
    assert history.rollups(0, 300) == halves


def test_a_window_told_again_replaces_those_gpus_and_keeps_the_others(history):
    history.record_rollups([rollup(0.0, 1), rollup(0.0, 2)])
    history.record_rollups([rollup(0.0, 2, energy_joules=1.0, power_mean_watts=None), rollup(0.0, 3)])
    assert history.rollups(0, 300) == (rollup(0.0, 1), rollup(0.0, 2, energy_joules=1.0, power_mean_watts=None),
                                       rollup(0.0, 3))


def test_mean_power_that_is_not_energy_over_time_comes_back_too(history):
    odd = rollup(0.0, 1, power_mean_watts=99.125)
    unmeasured = rollup(0.0, 2, measured_seconds=0.0, energy_joules=None, power_mean_watts=50.5)
    history.record_rollups([odd, unmeasured])
    assert history.rollups(0, 300) == (odd, unmeasured)


def test_mean_power_comes_back_where_the_energy_of_measured_time_is_not_known(history):
    unknown = rollup(0.0, 1, energy_joules=None, power_mean_watts=50.501)
    history.record_rollups([unknown])
    assert history.rollups(0, 300) == (unknown,)


def test_mean_power_that_is_energy_over_time_comes_back_to_the_last_digit(history):
    third = rollup(0.0, 1, energy_joules=100.0, power_mean_watts=100.0 / 300.0)
    history.record_rollups([third])
    assert history.rollups(0, 300) == (third,)


def test_windows_made_one_add_up_and_energy_that_none_of_them_knows_is_not_known(history):
    measured = [rollup(start_s, 1, energy_joules=energy) for start_s, energy in ((0.0, 60.0), (300.0, None))]
    unmeasured = [rollup(start_s, 2, measured_seconds=0.0, energy_joules=None, power_mean_watts=None)
                  for start_s in (0.0, 300.0)]
    history.record_rollups(measured + unmeasured)
    with history._reading() as connection:
        joined = windows.Packed(0.0, 600.0, windows.merged(windows.gpu_windows(connection, true())))
        found = {one.index: one for one in windows.rollups_of(joined, windows.names_of(connection))}
    assert {index: (one.measured_seconds, one.energy_joules) for index, one in found.items()} == {
        1: (600.0, 60.0), 2: (0.0, None)}


def test_rows_of_the_schema_before_version_8_come_back_as_the_rollups_that_they_were():
    row = SimpleNamespace(board=7, energy_mj=30_000_250, measured_ms=300_000, allocated_ms=150_500, activity_mean=0.5,
                          activity_max=None, power_mean_watts=99.125, power_max_watts=400.5)
    unmeasured = SimpleNamespace(board=8, energy_mj=None, measured_ms=0, allocated_ms=0, activity_mean=None,
                                 activity_max=0.25, power_mean_watts=None, power_max_watts=None)
    window = windows.Packed(0.0, 300.0, windows.from_rows([row, unmeasured]))
    assert tuple(windows.rollups_of(window, {7: ("GPU-7", "a", 0), 8: ("GPU-8", "a", 1)})) == (
        GpuRollup(0.0, 300.0, "a", "GPU-7", 0, 300.0, 30_000.25, 0.5, None, 99.125, 400.5, 150.5),
        GpuRollup(0.0, 300.0, "a", "GPU-8", 1, 0.0, None, None, 0.25, None, None, 0.0))


def test_classes_of_nodes_told_again_replace(history):
    first = [WasteReading(0.0, 300.0, "gpu", PowerClass.STRANDED, energy, node)
             for node, energy in (("a", 1.5), ("b", 2.5))]
    again = WasteReading(0.0, 300.0, "gpu", PowerClass.STRANDED, 9.125, "b")
    history.record_waste(first)
    history.record_waste([again])
    assert history.waste(0, 300, per_node=True) == (first[0], again)


def test_a_window_of_a_large_site_takes_a_tenth_of_the_room(history):
    """As rows they took 72 bytes a GPU."""
    history.record_rollups([rollup(0.0, gpu, energy_joules=gpu * 12.345, activity_mean=gpu / 8000)
                            for gpu in range(4000)])
    with history._reading() as connection:
        size = connection.exec_driver_sql("SELECT max(length(packed)) FROM gpu_windows").scalar_one()
    assert size < 4000 * 12


@pytest.mark.parametrize("damage", [b"", b"\x07later", b"\x01torn"])
def test_a_window_that_is_damaged_costs_itself_only_and_is_written_anew(history, damage, caplog):
    one = GpuRollup(0.0, 300.0, "a", "GPU-1", 0, 300.0, 1.5)
    later = replace(one, start_s=300.0)
    readings = [WasteReading(start_s, 300.0, "gpu", PowerClass.STRANDED, 7.5, "a") for start_s in (0.0, 300.0)]
    history.record_rollups([one, later])
    history.record_waste(readings)
    with history._writing() as connection:
        for table in (schema.gpu_windows, schema.waste_windows):
            connection.execute(table.update().where(table.c.start_s == 0).values(packed=damage))
    assert history.rollups(0, 600) == (later,)
    assert history.waste(0, 600, per_node=True) == (readings[1],)
    assert "the window of 300 s that begins at 0 is left out" in caplog.text
    history.record_rollups([one])
    history.record_waste(readings[:1])
    assert (len(history.rollups(0, 600)), len(history.waste(0, 600, per_node=True))) == (2, 2)


def test_gpus_of_a_node_share_its_name_in_memory(history):
    history.record_rollups([rollup(300.0, gpu) for gpu in range(0, 24, 3)])
    assert len({id(node) for _, node, _ in history._gpu_numbers}) == 1
