"""Two servers that show the same GPUs: the first keeps them; and servers that a target calls otherwise now."""

import json

import pytest
import responses

from idlewatt.exporters.dcgm import DcgmConfig
from idlewatt.exporters.page_checks import GpuOwners
from idlewatt.exporters.prometheus_api import PrometheusConfig
from idlewatt.storage.telemetry import GpuReading, Telemetry

ROW = 'DCGM_FI_DEV_POWER_USAGE{gpu="%d",UUID="%s",Hostname="%s"} %d\n'


def page(node, *uuids, watts=390):
    return "".join(ROW % (index, uuid, node, watts) for index, uuid in enumerate(uuids)).encode()


def shown(node, *uuids):
    return Telemetry(gpus=tuple(GpuReading(uuid, node, index, 1.0) for index, uuid in enumerate(uuids)))


def owned(owners, now_s, found, teller=""):
    """Return who has which GPU of an answer, and of whom something is wrong."""
    kept, wrong = owners.sift(found, now_s, teller)
    return [(gpu.node, gpu.uuid) for gpu in kept.gpus], set(wrong)


@pytest.fixture
def source(loopback, clock):
    """Return a source of two servers, of which the second answers once it has a page."""
    loopback.pages["/a"] = page("a", "GPU-0", "GPU-1")
    reader = DcgmConfig(targets=[loopback.url("/a"), loopback.url("/b")], timeout=1).build(clock)
    reader.read()
    yield reader
    reader.close()


def test_a_page_with_the_gpus_of_another_node_takes_none_of_them_and_its_target_says_whose_they_are(
        loopback, clock, source):
    loopback.pages["/b"] = page("b", "GPU-0", "GPU-1", "GPU-own", watts=60)
    for _ in range(3):
        clock.now += 15
        found = source.read()
        assert [(gpu.node, gpu.uuid, gpu.power_watts) for gpu in found.gpus] == [
            ("a", "GPU-0", 390), ("a", "GPU-1", 390), ("b", "GPU-own", 60)]
    first, second = source.health()
    assert first.up
    assert (second.up, second.error) == (False, (
        "shows 2 GPUs of node a (GPU-0, …), left out here: is this the right address, or is one server called by two "
        "names? The label `node` on its target names it"))


def test_a_gpu_that_was_moved_is_taken_once_its_old_node_shows_it_no_more(loopback, clock, source):
    loopback.pages |= {"/a": page("a", "GPU-1"), "/b": page("b", "GPU-0")}
    for _ in range(2):  # both are read at once: the new server may have been first
        clock.now += 15
        found = source.read()
    assert [(gpu.node, gpu.uuid) for gpu in found.gpus] == [("a", "GPU-1"), ("b", "GPU-0")]
    assert all(health.up for health in source.health())


def test_a_server_that_is_called_otherwise_now_keeps_its_gpus(loopback, clock, source):
    loopback.pages["/a"] = page("new", "GPU-0", "GPU-1")
    clock.now += 15
    assert {gpu.node for gpu in source.read().gpus} == {"new"}
    assert source.health()[0].up


def test_gpus_of_a_target_that_is_none_any_more_are_free_and_those_of_a_node_that_has_another_address_are_not():
    owners = GpuOwners()
    owned(owners, 0.0, shown("a", "GPU-0"), "http://10.0.0.1")
    owned(owners, 15.0, shown("a", "GPU-0"), "http://10.0.0.2")
    owners.forget(15.0, {"http://10.0.0.2", "http://b"})
    assert owned(owners, 30.0, shown("b", "GPU-0"), "http://b") == ([], {"b"})
    owners.forget(30.0, {"http://b"})
    assert owned(owners, 45.0, shown("b", "GPU-0"), "http://b") == ([("b", "GPU-0")], set())


def test_a_node_that_is_silent_keeps_its_gpus_for_as_long_as_its_last_readings_are_given_on():
    owners = GpuOwners()
    owned(owners, 0.0, shown("a", "GPU-0"))
    for now_s, expected in ((600.0, ([], {"b"})), (601.0, ([("b", "GPU-0")], set()))):
        owners.forget(now_s)
        assert owned(owners, now_s, shown("b", "GPU-0")) == expected


def test_of_two_servers_in_one_answer_the_owner_is_believed_wherever_it_stands():
    owners = GpuOwners()
    owned(owners, 0.0, shown("b", "GPU-0"))
    both = Telemetry(gpus=shown("a", "GPU-0").gpus + shown("b", "GPU-0").gpus)
    assert owned(owners, 15.0, both) == ([("b", "GPU-0")], {"a"})


def test_a_prometheus_names_the_servers_that_show_gpus_of_others(clock):
    rows = [{"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "UUID": "GPU-0", "instance": f"{node}:9400",
                        "job": "dcgm"}, "value": [clock.now, watts]} for node, watts in (("a", "390"), ("b", "60"))]

    def answer(request):
        result = rows if "DCGM_FI_DEV_POWER_USAGE" in request.params["query"] else []
        return 200, {}, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})

    with responses.RequestsMock() as mock:
        mock.add_callback(responses.GET, "http://prometheus/api/v1/query", answer, content_type="application/json")
        source = PrometheusConfig(url="http://prometheus").build(clock)
        found = source.read()
    assert [(gpu.node, gpu.power_watts) for gpu in found.gpus] == [("a", 390)]
    assert [(health.target, health.up) for health in source.health()] == [("http://prometheus", True), ("b", False)]


def test_two_targets_that_show_one_number_of_one_node_without_a_uuid_are_not_taken_for_one_gpu(loopback, clock):
    rows = {"/a": b'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 390\n', "/b": b'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 60\n'}
    loopback.pages |= rows
    reader = DcgmConfig(static_configs=[{"targets": [loopback.url("/a"), loopback.url("/b")],
                                         "labels": {"node": "n"}}]).build(clock)
    for _ in range(3):
        clock.now += 15
        (gpu,) = reader.read().gpus
        (fault,) = [one.error for one in reader.health() if not one.up]
        assert fault == ("shows GPU 0 of node n, as another target does, and tells neither a UUID nor a serial number: "
                         "left out here. Have the exporter tell UUIDs, or give the right target the label `node`")
        assert gpu.power_watts in (390, 60)
    reader.close()


def test_of_gpus_of_one_number_in_an_answer_those_that_nothing_tells_apart_are_left_out_and_told():
    def found(*uuids):
        return Telemetry(gpus=tuple(GpuReading(uuid, "n", 0, 1.0, vendor="nvidia") for uuid in uuids))

    kept, wrong = GpuOwners().sift(found("n/0", "n/0"), 1.0)
    assert (kept.gpus, set(wrong)) == ((), {"n"})
    kept, wrong = GpuOwners().sift(found("GPU-a", "n/0", "GPU-b"), 1.0)
    assert ([gpu.uuid for gpu in kept.gpus], set(wrong)) == (["GPU-a", "GPU-b"], {"n"})
    assert GpuOwners().sift(found("GPU-a", "GPU-b"), 1.0)[1] == {}
