import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste import WasteSettings, floors
from idlewatt.daemon.waste.floors import FULL, FloorBook
from idlewatt.storage.records import IdleFloor

UUID = "GPU-dgx-0-0"
MIB = 2**20


def taught(site, readings, book=None, *, allocated=False, **settings):
    book = book or FloorBook(WasteSettings(**settings))
    for watts in readings:
        book.learn(site.gpu(watts=watts), watts, allocated=allocated)
    return book


def test_the_floor_is_learned_then_configured_then_from_the_catalogue(site):
    models = {"A100": {"bare_watts": 48}}
    assert taught(site, []).bare(UUID, site.MODEL) == IdleFloor(51.0, "catalogue")
    assert taught(site, [], models=models).bare(UUID, site.MODEL) == IdleFloor(48.0, "configured")
    learned = taught(site, [55.0] * 20, models=models).bare(UUID, site.MODEL)
    assert (learned.watts, learned.source, learned.samples) == (55.0, "learned", 20)


def test_too_few_samples_prove_nothing(site):
    assert taught(site, [55.0] * 19).bare(UUID, site.MODEL).source == "catalogue"


def test_an_unknown_model_has_no_floor(site):
    assert taught(site, []).bare("GPU-x", "Tesla M60") is None
    assert taught(site, []).context("GPU-x", "Tesla M60") is None


def test_a_floor_that_is_not_learned_is_made_once_for_all_who_ask(site):
    book = taught(site, [])
    found = book.bare(UUID, site.MODEL)
    book.bare(UUID, "Tesla M60")
    assert book.bare("GPU-x", site.MODEL) is found


def test_context_is_forty_watts_above_bare_until_it_is_learned(site):
    assert taught(site, []).context(UUID, site.MODEL) == IdleFloor(91.0, "catalogue")
    book = taught(site, [])
    for _ in range(20):
        book.learn(site.gpu(memory_used_bytes=900.0 * MIB), 83.0, allocated=True)
    assert book.context(UUID, site.MODEL).watts == 83.0


@pytest.mark.parametrize("changes", [
    {"memory_used_bytes": 900.0 * MIB}, {"memory_used_bytes": None}, {"u": 0.01}, {"resident": 0.5}, {"u": None}])
def test_t48_the_bare_floor_is_not_learned_while_anything_may_be_on_the_gpu(site, changes):
    book = FloorBook(WasteSettings())
    for _ in range(50):
        book.learn(site.gpu(**changes), 300.0, allocated=False)
    assert book.bare(UUID, site.MODEL).source == "catalogue"


def test_t48_nor_while_a_job_holds_it(site):
    assert taught(site, [300.0] * 50, allocated=True).bare(UUID, site.MODEL).source == "catalogue"


def test_t48_the_floor_survives_a_restart(site):
    before = taught(site, [50.0, 51.0, 52.0, 53.0] * 20)
    after = FloorBook(WasteSettings())
    after.restore(before.learned())
    assert after.bare(UUID, site.MODEL) == before.bare(UUID, site.MODEL)
    assert json.dumps([floor.watts for floor in before.learned().values()])


def test_a_gpu_never_seen_idle_takes_the_floor_of_its_model(site):
    assert taught(site, [57.0] * 20).bare("GPU-always-busy", site.MODEL).watts == 57.0


@given(watts=st.lists(st.floats(20, 150), min_size=20, max_size=200))
def test_the_floor_is_a_low_quantile_within_a_watt(site, watts):
    watts = watts[:len(watts) // 20 * 20]
    found = taught(site, watts).bare(UUID, site.MODEL).watts
    assert sorted(round(value) for value in watts)[-(-len(watts) * 5 // 100) - 1] == found


def test_a_gpu_that_idles_for_weeks_takes_no_more_memory_and_follows_a_change(site):
    book = taught(site, [50.0] * FULL)
    taught(site, [80.0] * 10 * FULL, book)
    assert book.bare(UUID, site.MODEL).watts == 80.0
    assert book.bare(UUID, site.MODEL).samples <= FULL


def test_an_exporter_that_invents_models_takes_no_more_memory(site):
    book = FloorBook(WasteSettings())
    for number in range(3000):
        book.learn(site.gpu(model=f"model {number}", activity=1.0), 300.0, allocated=True)
        book.bare("GPU-x", f"model {number}")
    assert len(book._models) == 1000
    assert len(book._fallbacks) <= 1000


def test_an_exporter_that_invents_gpus_takes_no_more_memory_and_the_others_still_learn(site, monkeypatch):
    monkeypatch.setattr(floors, "MOST_KEYS", 10)
    book = FloorBook(WasteSettings())
    for number in range(20):
        book.learn(site.gpu(number % 15, model=""), 50.0, allocated=False)
    assert [floor.samples for floor in book.learned().values()] == [2] * 5 + [1] * 5
