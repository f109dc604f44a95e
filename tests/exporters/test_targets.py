"""Discovery in Prometheus' formats: re-read on change, last good answer kept, faults shown."""

import contextlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.exporters.targets import Discovery, TargetOptions, host_of, page_url, parse_groups

GROUPS = [{"targets": ["dgx-01:9400", "dgx-02:9400"], "labels": {"node": "x", "__meta_rack": "1"}}]


def discovery(clock, **options):
    def locate(address, labels):
        return page_url(address, labels, "http", "/metrics", {})
    return Discovery(TargetOptions(**options), locate, clock)


def urls(found):
    return [target.url for target in found.targets()]


def test_static_targets_keep_their_order_and_labels(clock):
    targets = discovery(clock, targets=["a:1"], static_configs=GROUPS).targets()
    assert [target.instance for target in targets] == ["a:1", "dgx-01:9400", "dgx-02:9400"]
    assert [target.labels for target in targets] == [{}, {"node": "x"}, {"node": "x"}]


def test_a_target_listed_twice_is_read_once(clock):
    assert urls(discovery(clock, targets=["a:1", "a:1"])) == ["http://a:1/metrics"]


@pytest.mark.parametrize(("name", "text"), [
    ("t.json", json.dumps(GROUPS)), ("t.yml", "- targets: [dgx-01:9400, dgx-02:9400]\n  labels: {node: x}\n")])
def test_files_are_read_in_json_and_yaml(clock, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = discovery(clock, file_sd_configs=[{"files": [str(tmp_path / "t.*")]}])
    assert urls(found) == ["http://dgx-01:9400/metrics", "http://dgx-02:9400/metrics"]
    assert found.faults() == ()


def test_a_file_is_read_again_when_it_changes(clock, tmp_path):
    path = tmp_path / "t.json"
    found = discovery(clock, file_sd_configs=[{"files": [str(path)]}])
    for number, address in enumerate(("a:1", "b:1")):
        path.write_text(json.dumps([{"targets": [address]}]))
        os.utime(path, ns=(number, number))
        assert urls(found) == [f"http://{address}/metrics"]


@pytest.mark.parametrize("broken", ["[{", "{", "- targets: {a: b}", '[{"targets": [1]}]', "\x00", '"text"', "[" * 5000])
def test_a_broken_file_keeps_its_last_good_targets_and_shows(clock, tmp_path, broken):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"targets": ["a:1"]}]))
    found = discovery(clock, file_sd_configs=[{"files": [str(path)]}])
    assert len(urls(found)) == 1
    path.write_text(broken)
    os.utime(path, ns=(1, 1))
    assert urls(found) == ["http://a:1/metrics"]
    assert [fault.target for fault in found.faults()] == [str(path)]
    assert urls(found) == ["http://a:1/metrics"]
    assert len(found.faults()) == 1, "the fault shows until the file is mended"


def test_a_missing_file_shows_and_an_empty_pattern_does_not(clock, tmp_path):
    found = discovery(clock, file_sd_configs=[{"files": [str(tmp_path / "none.json"), str(tmp_path / "*.yml")]}])
    assert urls(found) == []
    assert len(found.faults()) == 1


def test_an_endpoint_is_asked_once_per_interval(clock, loopback):
    loopback.pages["/targets"] = json.dumps(GROUPS).encode()
    found = discovery(clock, http_sd_configs=[{"url": loopback.url("/targets"), "refresh_interval": "1m"}])
    for step in (0, 30, 31):
        clock.now += step
        assert len(urls(found)) == 2
    assert len(loopback.requests) == 2
    found.close()


def test_an_endpoint_that_fails_keeps_its_last_good_targets_and_shows(clock, loopback):
    loopback.pages["/targets"] = json.dumps(GROUPS).encode()
    found = discovery(clock, http_sd_configs=[{"url": loopback.url("/targets")}])
    urls(found)
    for broken in (b"- targets: [yaml:1]", b"<html>", None):
        loopback.pages["/targets"] = broken
        clock.now += 61
        assert len(urls(found)) == 2
        assert "cannot be discovered" in found.faults()[0].error


def test_an_endpoint_is_asked_again_after_the_clock_went_back(clock, loopback):
    loopback.pages["/targets"] = b"[]"
    found = discovery(clock, http_sd_configs=[{"url": loopback.url("/targets")}])
    urls(found)
    clock.now -= 3600
    urls(found)
    assert len(loopback.requests) == 2


@pytest.mark.parametrize(("address", "labels", "expected"), [
    ("a:1", {}, "http://a:1/m?x=1"),
    ("https://a/p", {}, "https://a/p?x=1"),
    ("a:1", {"__scheme__": "https", "__metrics_path__": "/n", "__param_x": "2&"}, "https://a:1/n?x=2%26")])
def test_the_url_of_a_target_follows_prometheus(address, labels, expected):
    assert page_url(address, labels, "http", "/m", {"x": "1"}) == expected


@pytest.mark.parametrize(("address", "host"), [
    ("dgx-01:9400", "dgx-01"), ("dgx-01", "dgx-01"), ("[::1]:9400", "::1"), ("http://dgx-01:9400/metrics", "dgx-01"),
    ("fe80::1", "fe80::1"), ("", "")])
def test_the_host_of_an_address(address, host):
    assert host_of(address) == host


@given(st.text(max_size=60))
def test_any_text_is_groups_or_a_value_error(text):
    with contextlib.suppress(ValueError):
        parse_groups(text)


def test_a_discovery_in_bytes_that_are_no_utf8_names_its_targets():
    (group,) = parse_groups(b'[{"targets": ["h:1"], "labels": {"node": "dgx\xff"}}]', yaml_too=False)
    assert group.labels == {"node": "dgx\N{REPLACEMENT CHARACTER}"}


def test_files_that_are_gone_are_forgotten(tmp_path, clock):
    discovery = Discovery(TargetOptions(file_sd_configs=[{"files": [str(tmp_path / "*.json")]}]),
                          lambda address, _labels: address, clock)
    for number in range(50):
        path = tmp_path / f"{number}.json"
        path.write_text(f'[{{"targets": ["h{number}:1"], "labels": {{"rack": "a\\u001bb"}}}}]')
        (target,) = discovery.targets()
        path.unlink()
        assert (target.url, target.labels) == (f"h{number}:1", {"rack": "a\N{REPLACEMENT CHARACTER}b"})
    assert len(discovery._files) == 1
