"""Many targets: each fails alone, and the source says how each fared."""

import json
import socket
import threading
import time

import pytest
import responses
from cost import widened
from requests.exceptions import ConnectTimeout, ReadTimeout

from idlewatt.exporters import deadline, scrape, targets
from idlewatt.exporters.amd import AmdConfig
from idlewatt.exporters.amd_smi import AmdSmiConfig
from idlewatt.exporters.dcgm import DcgmConfig
from idlewatt.exporters.deadline import Kept
from idlewatt.exporters.fetch import Displaced, TimedOut
from idlewatt.exporters.gaudi import GaudiConfig
from idlewatt.exporters.ipmi import IpmiConfig
from idlewatt.exporters.node import NodeConfig
from idlewatt.exporters.nvidia_smi import NvidiaSmiConfig
from idlewatt.exporters.source import SourceError, kinds

POWER = b'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-%d",Hostname="dgx-0%d"} 60\n'


def source(loopback, clock, *paths, **options):
    targets = [loopback.url(path) for path in paths]
    return DcgmConfig(**{"targets": targets, "timeout": 1} | options).build(clock)


def test_one_target_down_never_hides_the_others(loopback, clock):
    release = threading.Event()
    loopback.pages |= {
        "/good": POWER % (1, 1),
        "/html": b"<!DOCTYPE html><html><body>Login</body></html>\n",
        "/garbage": bytes(range(256)) + b"\n",
        "/cut": POWER[:-5] % (2, 2),
        "/duplicates": (POWER % (3, 3)) * 3,
        "/nan": POWER.replace(b"60", b"NaN") % (4, 4),
        "/slow": lambda _handler: release.wait(10),
        "/empty": b"",
    }
    reader = source(loopback, clock, *loopback.pages, "/missing")
    telemetry = reader.read()
    release.set()
    assert {gpu.uuid: gpu.power_watts for gpu in telemetry.gpus} == {"GPU-1": 60, "GPU-3": 60, "GPU-4": None}
    errors = {health.target.rpartition("/")[2]: health.error for health in reader.health() if not health.up}
    assert set(errors) == {"html", "garbage", "cut", "slow", "missing", "empty"}, errors
    assert "HTML" in errors["html"]
    assert "not Prometheus" in errors["garbage"]
    assert "cut off" in errors["cut"]
    assert "404" in errors["missing"]
    assert errors["empty"] == "no GPU on this page: it is empty"
    reader.close()


def test_all_targets_down_is_a_fault_of_the_source(loopback, clock):
    reader = source(loopback, clock, "/a", "/b")
    with pytest.raises(SourceError, match="none of 2 targets could be read"):
        reader.read()
    assert [health.up for health in reader.health()] == [False, False]


def test_no_target_at_all_is_no_fault(clock):
    assert DcgmConfig().build(clock).read().gpus == ()


def test_a_target_that_comes_back_is_read_at_once(loopback, clock):
    reader = source(loopback, clock, "/a", "/b")
    loopback.pages["/a"] = POWER % (1, 1)
    reader.read()
    loopback.pages["/b"] = POWER % (2, 2)
    clock.now += 15
    assert len(reader.read().gpus) == 2
    assert [health.last_success_s for health in reader.health()] == [clock.now, clock.now]


def test_the_last_success_of_a_target_is_remembered(loopback, clock):
    reader = source(loopback, clock, "/a", "/b")
    loopback.pages |= {"/a": POWER % (1, 1), "/b": POWER % (2, 2)}
    reader.read()
    del loopback.pages["/b"]
    clock.now += 15
    reader.read()
    assert [health.last_success_s for health in reader.health()] == [1_000_015, 1_000_000]


def test_a_gpu_that_two_targets_show_is_read_once(loopback, clock):
    loopback.pages |= {"/a": POWER % (1, 1), "/b": POWER % (1, 1)}
    assert len(source(loopback, clock, "/a", "/b").read().gpus) == 1


@responses.activate
def test_a_machine_that_is_off_is_asked_ever_more_rarely(clock):
    asked = responses.get("http://off:9400/metrics", body=ConnectTimeout("x"))
    responses.get("http://on:9400/metrics", body=POWER % (1, 1), auto_calculate_content_length=True)
    reader = DcgmConfig(targets=("off:9400", "on:9400"), concurrency=1).build(clock)
    now = [0.0]
    reader._timer = lambda: now[0]
    for _ in range(40):
        assert len(reader.read().gpus) == 1
        now[0] += 15
    assert 4 <= asked.call_count <= 8
    assert "no connection" in reader.health()[0].error


@pytest.fixture
def silent():
    """The port of a target that takes connections and never answers, and how often it was asked."""
    asked = []
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        def accept():
            while True:
                try:
                    asked.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], asked
        listener.shutdown(socket.SHUT_RDWR)
        for connection in asked:
            connection.close()


def test_many_targets_that_hang_do_not_hold_up_those_that_answer(loopback, clock, silent):
    port, _ = silent
    loopback.pages |= {f"/{number}": POWER % (number, number) for number in range(20)}
    hung = [f"127.0.0.1:{port}/{number}" for number in range(60)]
    reader = DcgmConfig(targets=(*(f"http://{target}" for target in hung),
                                 *(loopback.url(path) for path in loopback.pages)), concurrency=4).build(clock)
    began = time.monotonic()
    assert len(reader.read().gpus) == 20
    assert time.monotonic() - began < widened(5), "each would cost its ten seconds, four at a time"
    began = time.monotonic()
    clock.now += 15
    assert {gpu.time_s for gpu in reader.read().gpus} == {clock.now}
    assert time.monotonic() - began < widened(5)
    reader.close()


@responses.activate
def test_a_target_that_hangs_is_asked_ever_more_rarely_too(clock):
    asked = responses.get("http://hung:9400/metrics", body=ReadTimeout("x"))
    responses.get("http://on:9400/metrics", body=POWER % (1, 1), auto_calculate_content_length=True)
    reader = DcgmConfig(targets=("hung:9400", "on:9400"), concurrency=1).build(clock)
    now = [0.0]
    reader._timer = lambda: now[0]
    for _ in range(40):
        assert len(reader.read().gpus) == 1
        now[0] += 15
    assert 4 <= asked.call_count <= 8
    assert [(health.up, health.error) for health in reader.health()] == [(False, "took too long to answer"), (True, "")]


def test_those_that_hang_together_are_tried_again_apart(clock):
    reader = DcgmConfig(targets=tuple(f"n{number}:9400" for number in range(100))).build(clock)
    reader._renew(reader._discovery.targets())
    for record in reader._records.values():
        reader._pause(record, TimedOut("took too long"))
    pauses = sorted(record.retry_at - reader._timer() for record in reader._records.values())
    assert 3 < pauses[0] < 5.5 < 6.5 < pauses[-1] < 9


def test_who_had_to_make_room_has_its_next_turn_at_once_unless_it_was_silent_before(clock):
    reader = DcgmConfig(targets=("n1:9400", "n2:9400")).build(clock)
    reader._renew(reader._discovery.targets())
    well, silent = reader._records.values()
    reader._pause(silent, TimedOut("took too long"))
    silent.retry_at = 0.0
    for record in (well, silent):
        reader._pause(record, Displaced("cut"))
    assert (well.silent, well.retry_at) == (0, 0.0)
    assert (silent.silent, silent.retry_at > reader._timer()) == (1, True)


def test_what_a_target_told_last_stays_for_a_while_with_its_own_age(loopback, clock):
    loopback.pages |= {"/a": POWER % (1, 1), "/b": POWER % (2, 2)}
    reader = source(loopback, clock, "/a", "/b")
    reader.read()
    del loopback.pages["/b"]
    clock.now += 300
    assert {gpu.uuid: clock.now - gpu.time_s for gpu in reader.read().gpus} == {"GPU-1": 0, "GPU-2": 300}
    clock.now += 301
    assert [gpu.uuid for gpu in reader.read().gpus] == ["GPU-1"]


def test_what_a_slow_target_tells_is_known_as_soon_as_it_comes(loopback, clock, answer, monkeypatch):
    monkeypatch.setattr(scrape, "_LINGER_S", 0.0)
    gate = threading.Event()
    loopback.pages |= {"/a": POWER % (1, 1), "/b": lambda handler: (gate.wait(20), answer(handler, POWER % (2, 2)))}
    reader = source(loopback, clock, "/a", "/b", timeout=20)
    assert [gpu.uuid for gpu in reader.read().gpus] == ["GPU-1"]
    assert reader.health()[1].error == "has not answered yet"
    gate.set()
    pause, deadline = threading.Event(), time.monotonic() + 60
    while len(reader.facts().gpus) < 2:
        assert time.monotonic() < deadline
        pause.wait(0.005)
    assert reader.health()[1].up


def test_the_newest_reading_of_a_gpu_that_two_targets_show_is_taken(loopback, clock):
    loopback.pages |= {"/a": POWER % (1, 1), "/b": POWER % (1, 1)}
    reader = source(loopback, clock, "/a", "/b")
    reader.read()
    del loopback.pages["/a"]
    clock.now += 15
    assert [gpu.time_s for gpu in reader.read().gpus] == [clock.now]


def test_a_fault_of_ours_in_one_page_costs_one_target(loopback, clock, caplog):
    loopback.pages |= {"/a": POWER % (1, 1), "/b": POWER % (2, 2)}
    reader = source(loopback, clock, "/a", "/b")
    parse = reader._parse
    reader._parse = lambda samples, target, time_s: parse(samples, target, time_s) if "/a" in target.url else {}["x"]
    assert [gpu.uuid for gpu in reader.read().gpus] == ["GPU-1"]
    assert "a fault in idlewatt itself" in caplog.text


def test_a_target_that_is_gone_from_the_list_keeps_no_connection(loopback, clock, tmp_path, monkeypatch):
    kept = Kept(100)
    monkeypatch.setattr(deadline, "KEPT", kept)
    loopback.pages["/a"] = POWER % (1, 1)
    listed = tmp_path / "targets.json"
    listed.write_text(json.dumps([{"targets": [loopback.url("/a")]}]))
    reader = DcgmConfig(file_sd_configs=[{"files": [str(listed)]}]).build(clock)
    reader.read()
    assert kept._count == 1
    listed.write_text("[]")
    reader.read()
    assert kept._count == 0


def test_a_discovery_that_hangs_costs_nothing_but_new_targets(loopback, clock, silent, monkeypatch):
    monkeypatch.setattr(targets, "_PATIENCE_S", 0.05)
    port, _ = silent
    loopback.pages["/a"] = POWER % (1, 1)
    reader = source(loopback, clock, "/a", http_sd_configs=[{"url": f"http://127.0.0.1:{port}"}])
    assert len(reader.read().gpus) == 1
    assert reader.health()[0].error == "targets cannot be discovered: no answer yet"
    reader.close()


def test_a_broken_discovery_shows_in_the_health(loopback, clock, tmp_path):
    loopback.pages["/a"] = POWER % (1, 1)
    reader = source(loopback, clock, "/a", file_sd_configs=[{"files": [str(tmp_path / "none.json")]}])
    assert len(reader.read().gpus) == 1
    assert [health.up for health in reader.health()] == [False, True]


def test_pages_that_wait_for_each_other_are_read_by_the_end_of_their_round(loopback, clock):
    for count in (1, 3, scrape._TOGETHER, scrape._TOGETHER + 1, 3 * scrape._TOGETHER + 2):
        paths = [f"/{number}" for number in range(count)]
        loopback.pages = {path: POWER % (number, number) for number, path in enumerate(paths)}
        reader = source(loopback, clock, *paths)
        for _ in range(3):
            assert len(reader.read().gpus) == count
            assert not [record for record in reader._records.values() if record.under_way]
        reader.close()


def test_a_page_does_not_wait_for_a_target_that_hangs(loopback, clock, silent, monkeypatch):
    monkeypatch.setattr(scrape, "_LINGER_S", 0.05)
    loopback.pages = {"/a": POWER % (1, 1), "/b": POWER % (2, 2)}
    reader = DcgmConfig(targets=[loopback.url("/a"), loopback.url("/b"), f"http://{silent}/metrics"],
                        timeout=20).build(clock)
    assert len(reader.read().gpus) == 2
    reader.close()


def test_the_time_that_a_page_waits_for_others_is_not_its_own(loopback, clock, answer, monkeypatch):
    late = threading.Event()
    monkeypatch.setattr(scrape, "_PATIENCE_S", 60.0)
    loopback.pages = {"/quick": POWER % (1, 1),
                      "/slow": lambda handler: (late.wait(0.7), answer(handler, POWER % (2, 2)))}
    reader = source(loopback, clock, "/quick", "/slow", timeout=0.9)
    assert len(reader.read().gpus) == 2
    took = {health.target.rpartition("/")[2]: health.duration_s for health in reader.health()}
    assert took["quick"] < 0.5 < took["slow"]
    reader.close()


def test_a_fault_in_one_of_the_pages_that_are_read_together_costs_that_one(loopback, clock):
    loopback.pages = {f"/{number}": POWER % (number, number) for number in range(6)} | {"/3": b"power\n\0"}
    reader = source(loopback, clock, *loopback.pages)
    assert {gpu.uuid for gpu in reader.read().gpus} == {f"GPU-{number}" for number in range(6) if number != 3}
    assert [health.target.rpartition("/")[2] for health in reader.health() if not health.up] == ["3"]
    reader.close()


def test_slow_targets_are_asked_at_once_not_one_by_one(loopback, clock, answer):
    gate = threading.Barrier(4)

    def meet(handler):
        gate.wait(5)  # passes only when four requests are here together
        answer(handler, POWER % (1, 1))

    loopback.pages |= {f"/{number}": meet for number in range(4)}
    reader = source(loopback, clock, *loopback.pages, timeout=10)
    started = time.monotonic()
    reader.read()
    assert all(health.up for health in reader.health())
    assert time.monotonic() - started < widened(5)


def test_every_configuration_key_is_explained():
    for kind in ("dcgm", "node", "ipmi", "prometheus"):
        for name, field in kinds()[kind].model_fields.items():
            assert name == "kind" or field.description, f"{kind}.{name}"


NAMED_POWER = b'DCGM_FI_DEV_POWER_USAGE{gpu="%d",UUID="GPU-%d",Hostname="%s"} 60\n'


def fault(config, loopback, clock, page, **options):
    loopback.pages["/metrics"] = page
    reader = config(targets=(loopback.address,), **options).build(clock)
    with pytest.raises(SourceError) as caught:
        reader.read()
    assert [health.up for health in reader.health()] == [False]
    return str(caught.value)


def test_another_exporters_page_is_told_apart(loopback, clock, recorded):
    said = fault(DcgmConfig, loopback, clock, recorded("node_exporter.prom"))
    assert "no GPU on this page: it shows node_" in said
    assert "(is this node_exporter?)" in said
    said = fault(NodeConfig, loopback, clock, recorded("dcgm_h100_8gpu_k8s.prom"))
    assert "no server on this page: it shows DCGM_FI_" in said
    assert "(is this dcgm-exporter?)" in said


def test_an_exporter_that_finds_no_gpu_is_a_fault(loopback, clock):
    page = b'DCGM_FI_DEV_POWER_USAGE{nvswitch="0"} 60\nother 1\n'
    assert "no GPU on this page: it shows DCGM_FI_DEV_POWER_USAGE, other" in fault(DcgmConfig, loopback, clock, page)


@pytest.mark.parametrize(("config", "page", "whose"), [
    (DcgmConfig, "amd_mi300x_spx_hand_written.prom", "AMD's device-metrics-exporter"),
    (AmdConfig, "amd_smi_mi250x_hand_written.prom", "an exporter of AMD GPUs"),
    (AmdSmiConfig, "gaudi2_hand_written.prom", "Intel's Gaudi metric exporter"),
    (GaudiConfig, "nvidia_smi/h100_idle.prom", "nvidia_gpu_exporter"),
    (NvidiaSmiConfig, "dcgm_h100_8gpu_k8s.prom", "dcgm-exporter")])
def test_the_page_of_another_vendors_exporter_is_a_fault_that_names_it(loopback, clock, recorded, config, page, whose):
    said = fault(config, loopback, clock, recorded(page))
    assert "no GPU on this page: it shows " in said
    assert f"(is this {whose}?)" in said


def test_a_controller_that_measures_nothing_is_a_fault(loopback, clock):
    page = b'ipmi_up{collector="dcmi"} 0\nipmi_chassis_power_state 1\n'
    said = fault(IpmiConfig, loopback, clock, page)
    assert "no power meter on this page: it shows ipmi_up, ipmi_chassis_power_state (is this ipmi_exporter?)" in said


def test_a_server_that_is_off_draws_nothing_and_is_no_fault(loopback, clock):
    loopback.pages["/metrics"] = b"ipmi_chassis_power_state 0\n"
    assert [node.power_watts for node in IpmiConfig(targets=(loopback.address,)).build(clock).read().nodes] == [0]


@pytest.mark.parametrize("name", [b"localhost", b"localhost.localdomain"])
def test_a_node_called_localhost_is_a_fault_not_a_node(loopback, clock, name):
    said = fault(DcgmConfig, loopback, clock, NAMED_POWER % (0, 0, name))
    assert f"the server is called {name.decode()}, which is no node's name: give this target the label `node`" in said
    page = b'node_uname_info{nodename="%s"} 1\nnode_memory_MemTotal_bytes 1e9\n' % name
    assert "is called localhost" in fault(NodeConfig, loopback, clock, page)


def test_a_name_that_the_operator_gives_is_taken(loopback, clock):
    loopback.pages["/metrics"] = NAMED_POWER % (0, 0, b"localhost")
    labelled = DcgmConfig(static_configs=[{"targets": [loopback.address], "labels": {"node": "dgx-01"}}])
    assert [gpu.node for gpu in labelled.build(clock).read().gpus] == ["dgx-01"]


def test_a_target_with_thousands_of_gpus_is_refused(loopback, clock):
    page = b"".join(NAMED_POWER % (gpu, gpu, b"dgx-01") for gpu in range(1000))
    assert "shows 1000 GPUs, more than 64 (gpu_limit)" in fault(DcgmConfig, loopback, clock, page)


def test_samples_that_say_they_are_old_are_no_reading(loopback, clock):
    stale = NAMED_POWER.replace(b"60\n", b"60 %d\n") % (0, 0, b"dgx-01", (clock.now - 3600) * 1000)
    said = fault(DcgmConfig, loopback, clock, stale)
    assert "no GPU on this page but 1 samples whose own timestamps are too old (max_age)" in said


def test_a_reading_is_as_old_as_its_oldest_sample(loopback, clock):
    loopback.pages["/metrics"] = NAMED_POWER.replace(b"60\n", b"60 %d\n") % (0, 0, b"dgx-01", (clock.now - 40) * 1000)
    assert [gpu.time_s for gpu in DcgmConfig(targets=(loopback.address,)).build(clock).read().gpus] == [clock.now - 40]


def test_reading_a_page_is_within_the_timeout(loopback, clock, answer):
    page = b"".join(b'DCGM_FI_DEV_POWER_USAGE{gpu="0",a="\\"%d"} 1 5\n' % number for number in range(19_000))
    loopback.pages["/metrics"] = page
    assert "timeout" in fault(DcgmConfig, loopback, clock, page, timeout=0.2)
