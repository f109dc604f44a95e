"""Many targets: each fails alone, and the source says how each fared."""

import threading
import time

import pytest
import responses
from requests.exceptions import ConnectTimeout

from idlewatt.exporters.dcgm import DcgmConfig
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
    assert set(errors) == {"html", "garbage", "cut", "slow", "missing"}, errors
    assert "HTML" in errors["html"]
    assert "not Prometheus" in errors["garbage"]
    assert "cut off" in errors["cut"]
    assert "404" in errors["missing"]
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


def test_a_board_that_two_targets_show_is_read_once(loopback, clock):
    loopback.pages |= {"/a": POWER % (1, 1), "/b": POWER % (1, 1)}
    assert len(source(loopback, clock, "/a", "/b").read().gpus) == 1


@responses.activate
def test_a_machine_that_is_off_is_asked_ever_more_rarely(clock):
    asked = responses.get("http://off:9400/metrics", body=ConnectTimeout("x"))
    responses.get("http://on:9400/metrics", body=POWER % (1, 1))
    reader = DcgmConfig(targets=("off:9400", "on:9400"), concurrency=1).build(clock)
    now = [0.0]
    reader._timer = lambda: now[0]
    for _ in range(40):
        assert len(reader.read().gpus) == 1
        now[0] += 15
    assert 4 <= asked.call_count <= 8
    assert "no connection" in reader.health()[0].error


def test_a_broken_discovery_shows_in_the_health(loopback, clock, tmp_path):
    loopback.pages["/a"] = POWER % (1, 1)
    reader = source(loopback, clock, "/a", file_sd_configs=[{"files": [str(tmp_path / "none.json")]}])
    assert len(reader.read().gpus) == 1
    assert [health.up for health in reader.health()] == [False, True]


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
    assert time.monotonic() - started < 5


def test_every_configuration_key_is_explained():
    for kind in ("dcgm", "node", "ipmi", "prometheus"):
        for name, field in kinds()[kind].model_fields.items():
            assert name == "kind" or field.description, f"{kind}.{name}"
