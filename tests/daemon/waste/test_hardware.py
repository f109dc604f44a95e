"""What hardware draws: every published figure has a source, names are matched word by word, and floors are learned."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from idlewatt.daemon.power_options import described
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.waste import WasteSettings, hardware
from idlewatt.daemon.waste.hardware import FULL, FloorBook
from idlewatt.storage.records import IdleFloor, Node


def test_every_figure_says_where_it_is_from_and_can_be():
    known = hardware.catalogue()
    figures = [figure for gpu in known.gpus for figure in (gpu.idle, gpu.limit) if figure]
    figures += [server.rated for server in known.servers if server.rated]
    assert len(figures) > 50
    assert all(figure.watts > 0 and len(figure.source) > 5 for figure in figures)
    assert all(gpu.idle.watts < gpu.limit.watts for gpu in known.gpus if gpu.idle and gpu.limit)


def test_every_model_is_found_by_its_own_name_and_no_name_stands_twice():
    known = hardware.catalogue().gpus
    assert [hardware.gpu(gpu.name) for gpu in known] == list(known)
    assert len({gpu.name for gpu in known}) == len(known)


@pytest.mark.parametrize(("told", "meant"), [
    ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"), ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
    ("Tesla V100-SXM2-32GB", "V100-SXM2"), ("Tesla P100-SXM2-16GB", "P100"),
    ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"), ("NVIDIA H100 PCIe", "H100 PCIe"), ("NVIDIA H100 NVL", "H100 NVL"),
    ("NVIDIA H200", "H200"), ("NVIDIA H200 NVL", "H200 NVL"), ("NVIDIA GH200 480GB", "GH200 480GB"),
    ("NVIDIA B200", "B200"), ("NVIDIA GB200", "GB200"), ("NVIDIA B300 SXM6 AC", "B300 SXM6 AC"),
    ("NVIDIA GB300", "GB300"), ("NVIDIA GB10", "GB10"), ("NVIDIA L40S", "L40S"), ("NVIDIA A10", "A10"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server Edition"),
    ("AMD Instinct MI300X", "MI300X"), ("AMD Instinct MI300X OAM", "MI300X"), ("Instinct MI325X", "MI325X"),
    ("AMD_Instinct_MI355X_OAM", "MI355X"), ("HL-225", "HL-225"), ("HL-325L", "HL-325L")])
def test_what_the_vendors_tools_print_is_recognised(told, meant):
    assert hardware.gpu(told).name == meant


@pytest.mark.parametrize("told", ["", "NVIDIA", "NVIDIA H100 80GB HBM2e", "NVIDIA H100", "NVIDIA L40", "NVIDIA A10G",
                                  "NVIDIA A100", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                                  "NVIDIA H20-3e", "MI300A", "NVIDIA GB2000", "NVIDIA B200 of tomorrow"])
def test_what_nobody_has_published_stays_unknown(told):
    assert hardware.gpu(told) == hardware.UNKNOWN
    assert (hardware.gpu(told).idle_watts, hardware.gpu(told).limit_watts) == (None, None)


@pytest.mark.parametrize(("told", "watts"), [
    ("a100", 6500.0), ("nvidia_a100_80gb_pcie", None), ("a100_3g.20gb", None), ("tesla_v100-sxm2-32gb", 3500.0),
    ("NVIDIA-H100-80GB-HBM3", 10200.0), ("h100_nvl", None), ("h200", 10200.0), ("b200", 14300.0), ("gb200", 13334.0),
    ("mi300x", None), ("", None)])
def test_a_server_is_rated_by_its_gpus_exact_type(told, watts):
    assert hardware.rated_watts(Node("n", (), gpus=8, gpu_model=told), {}) == (watts and pytest.approx(watts))


def test_a_site_overrides_a_figure_by_whole_words_and_the_longest_name_wins():
    floors = FloorBook(WasteSettings(models={"B200": {"bare_watts": 120}, "H200": {"bare_watts": 70},
                                             "H200 NVL": {"bare_watts": 60}}))
    assert floors.bare("u", "NVIDIA B200") == IdleFloor(120, "configured")
    assert floors.bare("u", "NVIDIA GB200") == IdleFloor(166, "catalogue")
    assert floors.bare("u", "NVIDIA H200 NVL") == IdleFloor(60, "configured")
    assert floors.bare("u", "NVIDIA H200") == IdleFloor(70, "configured")


@pytest.mark.parametrize(("models", "words"), [
    ({"A100": {"bare_watts": 120, "context_watts": 95}}, "bare_watts of 120 is above context_watts of 95"),
    ({"A100": {"bare_watts": 500, "limit_watts": 400}}, "bare_watts of 500 is above limit_watts of 400"),
    ({"A100": {"bare_watts": -5}}, "greater than or equal to 0"), ({"A100": {"watts": 5}}, "Extra inputs"),
    ({"": {"bare_watts": 61}}, "names no GPU model"), ({"NVIDIA Tesla": {"bare_watts": 61}}, "names no GPU model")])
def test_what_a_site_overrides_must_name_a_model_and_be_possible(models, words):
    with pytest.raises(ValidationError, match=words):
        WasteSettings.model_validate({"models": models})


def test_what_only_looks_like_the_model_of_an_override_keeps_the_catalogues():
    floors = FloorBook(WasteSettings(models={"A100-SXM4-80GB": {"bare_watts": 99}, "H999X": {"bare_watts": 1}}))
    assert floors.bare("u", "NVIDIA A100-SXM4-80GB").source == "configured"
    for other in ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA A100X", "NVIDIA H999"):
        floor = floors.bare("u", other)
        assert floor is None or floor.source == "catalogue", other


def test_a_floor_is_still_learned_over_the_catalogue(site):
    floors = FloorBook(WasteSettings())
    for _ in range(20):
        floors.learn(site.gpu(watts=142.0, model="NVIDIA B200"), 142.0, allocated=False)
    assert floors.bare("GPU-dgx-0-0", "NVIDIA B200").source == "learned"
    assert floors.by_model()["NVIDIA B200"].watts == 142.0


def test_a_replay_takes_the_watts_of_the_exact_model():
    cluster = Cluster.from_spec("1x8:b200,1x4:gb200")
    assert (described("b200", cluster).limit, described("gb200", cluster).limit) == (1000.0, 1200.0)


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


@pytest.mark.parametrize(("samples", "kept"), [(0, False), (1, True)])
def test_t48_of_one_sample_as_well_and_of_none_nothing_is_taken_back(site, samples, kept):
    floors = {key: replace(floor, samples=samples) for key, floor in taught(site, [50.0] * 20).learned().items()}
    after = FloorBook(WasteSettings())
    after.restore(floors)
    assert floors
    assert (after.learned() == floors) is kept


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
    monkeypatch.setattr(hardware, "MOST_KEYS", 10)
    book = FloorBook(WasteSettings())
    for number in range(20):
        book.learn(site.gpu(number % 15, model=""), 50.0, allocated=False)
    assert [floor.samples for floor in book.learned().values()] == [2] * 5 + [1] * 5
