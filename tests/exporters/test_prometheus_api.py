"""The fleet's facts from a Prometheus: one query per fact, true ages, and the envelope's faults told."""

import json
import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import responses
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.exporters.prometheus_api import PrometheusConfig, decode, queries
from idlewatt.exporters.source import SourceError
from idlewatt.storage.telemetry import JobReading

SERVER = "http://prometheus:9090"
NOW = 1_000_000.0


class Fleet:
    """Answers instant queries from series that the test wrote down, by the metric that a query names."""

    def __init__(self, **series):
        self.series = {"up": [({"job": "dcgm", "instance": "h1:9400"}, NOW - 5),
                              ({"job": "dcgm", "instance": "h2:9400"}, NOW - 5),
                              ({"job": "node", "instance": "h1:9100"}, NOW - 7)]} | series
        self.queries, self.headers = [], []

    def answer(self, request):
        query = parse_qs(urlsplit(request.url).query)["query"][0]
        self.queries.append(query)
        self.headers.append(request.headers)
        either = re.search(r'__name__=~"(.+?)"', query)
        names = either[1].split("|") if either else [re.search(r"(\w+)\{", query)[1]]
        names = ["busy"] if query.startswith("1 - ") else names
        by = re.search(r"\b(?:sum|max) by \((.+?)\)", query)
        result = [{"metric": {name: labels[name] for name in by[1].split(", ") if name in labels} if by else labels,
                   "value": [NOW, str(value)]}
                  for name in names for labels, value in self.series.get(name, [])]
        return 200, {}, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})

    def read(self, clock, **options):
        return self.fared(clock, **options)[0]

    def fared(self, clock, **options):
        """Return the facts, and how the server and its nodes fared."""
        clock.now = NOW
        with responses.RequestsMock() as mock:
            mock.add_callback(responses.GET, f"{SERVER}/api/v1/query", self.answer, content_type="application/json")
            source = PrometheusConfig(url=SERVER, **options).build(clock)
            return source.read(), source.health()


def gpu(instance="h1:9400", gpu="0", **labels):
    return {"job": "dcgm", "instance": instance, "gpu": gpu, "UUID": f"GPU-{instance}-{gpu}"} | labels


def test_one_query_per_fact_whatever_the_number_of_nodes(clock):
    few = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu(), 60)])
    many = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu(f"h{n}:9400"), 60) for n in range(500)],
                 up=[({"job": "dcgm", "instance": f"h{n}:9400"}, NOW) for n in range(500)])
    few.read(clock)
    assert len(many.read(clock).gpus) == 500
    assert len(few.queries) == len(many.queries) == len(queries(PrometheusConfig(url=SERVER)))


def test_gpus_of_every_vendor_are_read_and_one_that_two_exporters_show_counts_once(clock):
    amd = {"job": "amd", "instance": "h1:5000", "gpu_id": "0", "serial_number": "S", "card_model": "Instinct MI300X"}
    older = {"job": "amd", "instance": "h2:2021", "gpu_power_avg": "4"}
    gaudi = {"job": "gaudi", "instance": "h3:41611", "id": "1", "UUID": "G"}
    smi = {"job": "smi", "instance": "h1:9835", "uuid": "h1:9400-0"}
    targets = [{"job": "dcgm", "instance": "h1:9400"}, *({"job": labels["job"], "instance": labels["instance"]}
                                                         for labels in (amd, older, gaudi, smi))]
    fleet = Fleet(up=[(labels, NOW - 5) for labels in targets],
                  DCGM_FI_DEV_BOARD_POWER_WATTS=[(gpu(), 60)], amd_gpu_package_power=[(amd, 140)],
                  amd_gpu_power_avg=[(older, 45e6)], habanalabs_power_mW=[(gaudi, 88000)],
                  nvidia_smi_power_draw_watts=[(smi, 61)], nvidia_smi_gpu_info=[(smi | {"index": "0"}, 1)])
    assert {(gpu.uuid, gpu.node, gpu.power_watts) for gpu in fleet.read(clock).gpus} == {
        ("GPU-h1:9400-0", "h1", 60), ("AMD-S", "h1", 140), ("h2/amd/4", "h2", 45), ("G", "h3", 88)}


def test_two_exporters_of_one_node_do_not_make_one_gpu_of_two(clock):
    rows = [(gpu(f"h1:940{number}", node="h1"), watts) for number, watts in ((0, 60), (1, 390))]
    up = [({"job": "dcgm", "instance": f"h1:940{number}"}, NOW - 5) for number in (0, 1)]
    assert sorted(one.power_watts for one in Fleet(up=up, DCGM_FI_DEV_POWER_USAGE=rows).read(clock).gpus) == [60, 390]
    nameless = [(labels | {"UUID": ""}, watts) for labels, watts in rows]
    other = gpu("h2:9400")
    fleet = Fleet(up=[*up, ({"job": "dcgm", "instance": "h2:9400"}, NOW - 5)],
                  DCGM_FI_DEV_POWER_USAGE=[*nameless, (other, 70)])
    found, fares = fleet.fared(clock)
    assert [(one.node, one.power_watts) for one in found.gpus] == [("h2", 70)]
    assert [(one.target, one.error[:22]) for one in fares if not one.up] == [("h1", "shows GPU 0 of node h1")]


def test_rows_of_an_exporter_that_is_silent_are_not_laid_over_those_of_one_that_tells(clock):
    name = {"node": "h1", "UUID": "GPU-a"}
    fleet = Fleet(up=[({"job": "dcgm", "instance": "new"}, NOW - 5), ({"job": "dcgm", "instance": "old"}, NOW - 200)],
                  DCGM_FI_DEV_POWER_USAGE=[(gpu("new", **name), 60), (gpu("old", **name), 390)])
    assert [one.power_watts for one in fleet.read(clock).gpus] == [60]


def test_a_reading_bears_the_time_of_its_scrape(clock):
    fleet = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu(), 61.5)], DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION=[(gpu(), 5000)])
    reading, = fleet.read(clock).gpus
    assert (reading.node, reading.power_watts, reading.energy_joules, reading.time_s) == ("h1", 61.5, 5, NOW - 5)


def test_jobs_get_what_their_cgroups_use(clock):
    labels = {"job": "dcgm", "instance": "h1:9400", "cgroup": "/system.slice/slurmstepd.scope/job_7"}
    job, = Fleet(cgroup_cpu_total_seconds=[(labels, 50)], cgroup_memory_used_bytes=[(labels, 2e9)]).read(clock).jobs
    assert job == JobReading("7", "h1", NOW - 5, 50, 2e9)


def test_samples_older_than_max_age_are_no_reading(clock):
    fleet = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu(), 60), (gpu("h2:9400"), 60)],
                  up=[({"job": "dcgm", "instance": "h1:9400"}, NOW - 200),
                      ({"job": "dcgm", "instance": "h2:9400"}, NOW - 20)])
    assert [gpu.node for gpu in fleet.read(clock, max_age="2m").gpus] == ["h2"]


def test_a_target_that_up_does_not_know_is_no_reading_unless_up_is_unknown(clock):
    fleet = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu("h9:9400"), 60), (gpu("h1:9400"), 60)])
    assert [gpu.node for gpu in fleet.read(clock).gpus] == ["h1"]
    fleet.series["up"] = []
    assert [gpu.time_s for gpu in fleet.read(clock).gpus] == [NOW, NOW]


def test_a_server_that_knows_no_gpu_and_no_meter_is_a_fault_told_with_what_it_scrapes(clock):
    for fleet, words in ((Fleet(), "it scrapes 3 targets (dcgm, node)"),
                         (Fleet(up=[]), "it scrapes nothing: do the matchers fit?")):
        with pytest.raises(SourceError, match="no GPU, server or meter") as caught:
            fleet.read(clock)
        assert words in str(caught.value)


def test_a_node_that_cannot_be_is_a_fault_and_costs_only_itself(clock):
    many = [(gpu("h2:9400", str(index)), 60) for index in range(65)]
    fleet = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu(), 60), (gpu(gpu="1", Hostname="localhost"), 60), *many])
    kept, (server, *strange) = fleet.fared(clock)
    assert server.up
    assert [gpu.node for gpu in kept.gpus] == ["h1"]
    assert [(health.target, health.up, health.error) for health in strange] == [
        ("h2", False, "shows 65 GPUs, more than 64 (gpu_limit)"),
        ("localhost", False, "the label `node` or the host's own name must name the server")]


def test_a_target_that_speaks_for_more_servers_than_one_may_is_a_fault_and_costs_only_itself(clock):
    host, liar = {"job": "ipmi", "instance": "bmc1:9290"}, {"job": "ipmi", "instance": "bmc2:9290"}
    fleet = Fleet(up=[(host, NOW - 5), (liar, NOW - 5)], ipmi_dcmi_power_consumption_watts=[
        (host | {"node": "n1"}, 900), *((liar | {"node": f"n{number}"}, 45_000) for number in range(1, 5))])
    kept, (server, strange) = fleet.fared(clock, server_limit=3)
    assert [(node.node, node.power_watts) for node in kept.nodes] == [("n1", 900)]
    assert (server.up, strange.target, strange.up) == (True, "bmc2:9290", False)
    assert strange.error == "speaks for 4 servers, more than 3 (server_limit)"
    assert len(fleet.fared(clock)[0].nodes) == 4, "one exporter may ask many servers"


def test_labels_are_cleaned(clock):
    fleet = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu(hpc_job="a\nb\ud83d", Hostname="h\x7f1"), 60)])
    reading, = fleet.read(clock).gpus
    assert (reading.node, reading.jobs) == ("h\ufffd1", ("a\ufffdb\ufffd",))


def test_servers_get_cpu_memory_and_power(clock):
    host = {"job": "node", "instance": "h1:9100"}
    fleet = Fleet(busy=[(host, 0.25)], node_memory_MemTotal_bytes=[(host, 100)],
                  node_memory_MemAvailable_bytes=[(host, 30)],
                  node_hwmon_power_average_watt=[(host | {"chip": "a"}, 700)],
                  node_uname_info=[(host | {"nodename": "dgx-01"}, 1)])
    node, = fleet.read(clock).nodes
    assert (node.node, node.cpu_busy_ratio) == ("dgx-01", 0.25)
    assert (node.memory_used_bytes, node.memory_total_bytes) == (70, 100)
    assert (node.power_watts, node.power_source, node.time_s) == (700, "hwmon", NOW - 7)


@pytest.mark.parametrize("label", ["node", "node_name", "Hostname", "hostname"])
def test_what_is_reckoned_over_a_server_is_told_of_it_by_the_label_that_names_it(clock, label):
    host = {"job": "node", "instance": "10.0.0.1:9100", label: "dgx-01"}
    fleet = Fleet(up=[({"job": "node", "instance": host["instance"]}, NOW - 7)], busy=[(host | {"cpu": "0"}, 0.25)],
                  node_memory_MemTotal_bytes=[(host, 100)],
                  node_disk_io_time_seconds_total=[(host | {"device": "sda"}, 0.5)],
                  node_infiniband_port_data_transmitted_bytes_total=[(host | {"device": "mlx5_0"}, 0.75)],
                  node_uname_info=[(host | {"nodename": "dgx-01.example.org"}, 1)])
    (node,) = fleet.read(clock).nodes
    assert (node.node, node.cpu_busy_ratio, node.memory_total_bytes) == ("dgx-01", 0.25, 100)
    assert (node.disk_busy_ratio, node.fabric_ratio) == (0.5, 0.75)


def test_a_prometheus_that_scrapes_nothing_but_pdus_tells_racks(clock):
    one = {"instance": "pdu1", "enclosure": "rack7"}
    rows = [({"job": "snmp", "rPDU2DeviceStatusIndex": str(watts)} | one, watts) for watts in (600, 587)]
    again = [(rows[0][0] | {"job": "snmp-again"}, 600)]
    fleet = Fleet(up=[({"job": job, "instance": "pdu1"}, NOW - 5) for job in ("snmp", "snmp-again")],
                  rPDU2DeviceStatusPower=rows + again)
    (rack,) = fleet.read(clock).enclosures
    assert (rack.enclosure, rack.power_watts, rack.meters, rack.meter) == ("rack7", 11_870.0, 2, "pdu1")


def test_a_grace_tray_is_the_sum_of_its_modules_and_no_wall(clock):
    meters = {"lnxsybus:00_acpi000d:00": 1500, "lnxsybus:00_acpi000d:01": 1480}
    host = {"job": "node", "instance": "h1:9100"}
    fleet = Fleet(node_hwmon_power_average_watt=[(host | {"chip": chip}, watts) for chip, watts in meters.items()])
    (node,) = fleet.read(clock).nodes
    assert (node.power_watts, node.power_source) == (2980, "modules")
    (node,) = fleet.read(clock, power_meters={"*:00": "wall"}).nodes
    assert (node.power_watts, node.power_source) == (1500, "hwmon")


def test_the_wall_meter_and_the_host_are_told_apart_by_their_source(clock):
    fleet = Fleet(up=[], node_memory_MemTotal_bytes=[({"node": "n1"}, 100)],
                  ipmi_dcmi_power_consumption_watts=[({"node": "n1"}, 2400)])
    assert [(node.node, node.power_watts, node.power_source) for node in fleet.read(clock).nodes] == [
        ("n1", 2400, "ipmi"), ("n1", None, "")]


def test_matchers_and_tenant_travel_with_every_query(clock):
    fleet = Fleet(DCGM_FI_DEV_POWER_USAGE=[(gpu(), 60)])
    fleet.read(clock, matchers='cluster="dgx"', headers={"X-Scope-OrgID": "gpu"})
    assert all('{cluster="dgx"' in query for query in fleet.queries)
    assert all(headers["X-Scope-OrgID"] == "gpu" for headers in fleet.headers)


def test_recorded_answers_are_decoded(recorded):
    rows = decode(recorded("prometheus_query_vector_power.json"))
    assert len(rows) == 32
    assert all(value > 0 and labels["UUID"].startswith("GPU-") for labels, value in rows)


def test_a_recorded_answer_with_nan_and_inf_measures_nothing(recorded, clock):
    rows = decode(recorded("prometheus_query_vector_nan_inf.json"))
    gpus = Fleet(up=[], DCGM_FI_DEV_POWER_USAGE=rows).read(clock).gpus
    assert len(gpus) == len(rows)
    assert {gpu.power_watts for gpu in gpus} == {None}


def test_a_recorded_kubernetes_answer_names_no_exporter_as_workload(recorded, clock):
    rows = decode(recorded("prometheus_query_power_h100_k8s.json"))
    gpus = Fleet(up=[], DCGM_FI_DEV_POWER_USAGE=rows).read(clock).gpus
    assert {gpu.node for gpu in gpus} >= {"gpu-node-1"}
    assert not any("dcgm-exporter" in job for gpu in gpus for job in gpu.jobs)


@pytest.mark.parametrize(("body", "word"), [
    (b"<html>", "not JSON"), (b'{"status":"succ', "not JSON"), (b"[]", "the server says"), (b"null", "the server says"),
    (b'{"status":"success"}', "a vector was expected"),
    (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "a vector was expected"),
    (b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}', "without labels or value"),
    (b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":1},"value":[1,"1"]}]}}', "without"),
    (b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}', "without")])
def test_what_is_no_answer_is_told(body, word):
    with pytest.raises(ValueError, match=word):
        decode(body)


def test_recorded_faults_of_the_server_are_told_in_its_words(recorded):
    with pytest.raises(ValueError, match="bad_data: invalid parameter"):
        decode(recorded("prometheus_query_error_bad_data.json"))
    with pytest.raises(ValueError, match="a vector was expected, not 'scalar'"):
        decode(recorded("prometheus_query_scalar.json"))


def test_warnings_of_the_envelope_are_logged(caplog):
    decode(b'{"status":"success","warnings":["partial response"],"data":{"resultType":"vector","result":[]}}')
    assert "partial response" in caplog.text


@settings(max_examples=100, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["status", "data", "result", "resultType", "metric", "value"]), inner),
                    max_leaves=12))
def test_any_json_is_decoded_or_a_value_error(document):
    for body in (document, {"status": "success", "data": {"resultType": "vector", "result": document}}):
        try:
            decode(json.dumps(body).encode())
        except ValueError:
            continue


def test_a_server_that_is_gone_is_a_fault_with_its_health(clock):
    source = PrometheusConfig(url="http://127.0.0.1:9").build(clock)
    with pytest.raises(SourceError, match="Connection refused"):
        source.read()
    assert [health.up for health in source.health()] == [False]


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.1)
    return result


@pytest.mark.stack
def test_a_real_prometheus_tells_the_same_as_its_pages(loopback, server, recorded):
    loopback.pages["/metrics"] = (recorded("dcgm_h100_8gpu_k8s.prom") + recorded("node_exporter.prom")
                                  + recorded("ipmi_exporter_1.6.1.prom"))
    source = PrometheusConfig(url=server).build(time.time)

    def read():
        try:
            telemetry = source.read()
        except (SourceError, requests.RequestException):
            return None
        # Each figure is a query of its own: the first scrape may end between two of them.
        known = [any(gpu.power_watts for gpu in telemetry.gpus), any(node.power_watts for node in telemetry.nodes),
                 any(node.memory_total_bytes for node in telemetry.nodes)]
        return telemetry if all(known) else None

    telemetry = until(read)
    assert {gpu.node for gpu in telemetry.gpus} == {"gpu-node-1"}
    assert len(telemetry.gpus) == 8
    assert max(gpu.power_watts for gpu in telemetry.gpus) == 113.611
    assert all(abs(time.time() - gpu.time_s) < 10 for gpu in telemetry.gpus)
    assert (2431, "ipmi") in [(node.power_watts, node.power_source) for node in telemetry.nodes]
    assert any(node.memory_total_bytes for node in telemetry.nodes)
    source.close()
