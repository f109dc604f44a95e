"""What GPUs did over some time, from a real Prometheus with a past, and from servers that are none."""

import json
import shutil
import subprocess
import time

import pytest
from cost import widened
from hypothesis import given
from hypothesis import strategies as st
from questions import free_port

from idlewatt.exporters.gpu_ranges import RangeClient, activity_query, parse, power_query, step_of
from idlewatt.exporters.prometheus_api import PrometheusConfig
from idlewatt.exporters.source import SourceError

START = (time.time() - 6 * 3600) // 3600 * 3600
"""Of a past of four hours, which ended at least two hours ago."""
ENDED = START + 4 * 3600


def exposition():
    """Yield a past as OpenMetrics: GPU-a by DCGM, GPU-b with a hole of an hour, and GPU-c by nvidia_gpu_exporter."""
    def rows(name, labels, value, hole=(0.0, 0.0)):
        yield f"# TYPE {name} gauge\n"
        for step in range(0, int(ENDED - START), 30):
            if not hole[0] <= step < hole[1]:
                yield f"{name}{{{labels}}} {value(step)} {START + step:.0f}\n"

    dcgm = 'gpu="{}",UUID="{}",Hostname="n1"'
    for number, (uuid, hole) in enumerate([("GPU-a", (0, 0)), ("GPU-b", (3600, 7200))]):
        yield from rows(f"DCGM_FI_DEV_POWER_USAGE{number}", dcgm.format(number, uuid), lambda step: 100 + step // 3600,
                        hole)
        yield from rows(f"DCGM_FI_DEV_GPU_UTIL{number}", dcgm.format(number, uuid), lambda step: 50, hole)
    yield from rows("nvidia_smi_power_draw_watts", 'uuid="c"', lambda step: 80)
    yield from rows("nvidia_smi_utilization_gpu_ratio", 'uuid="c"', lambda step: 0.25)
    yield "# EOF\n"


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """A real Prometheus over that past."""
    folder = tmp_path_factory.mktemp("past")
    # One family for both GPUs: in the text above each had its own, as OpenMetrics wants a family in one piece.
    families: dict[str, list[str]] = {}
    for line in "".join(exposition()).splitlines():
        if not line.startswith("#"):
            name = line.partition("{")[0].rstrip("01")
            families.setdefault(name, []).append(name + line[line.index("{"):])
    text = "".join(f"# TYPE {name} gauge\n" + "\n".join(some) + "\n" for name, some in families.items()) + "# EOF\n"
    (folder / "past.om").write_text(text)
    (folder / "prometheus.yml").write_text("{}")
    subprocess.run([shutil.which("promtool"), "tsdb", "create-blocks-from", "openmetrics", folder / "past.om",
                    folder / "data"], check=True, capture_output=True, timeout=60)
    port = free_port()
    process = subprocess.Popen([shutil.which("prometheus"), f"--config.file={folder}/prometheus.yml",
                                f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
                                "--storage.tsdb.retention.time=30d", "--log.level=error"])
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


@pytest.fixture
def ask(past, until):
    client = RangeClient(PrometheusConfig(url=past))

    def up():
        try:
            return client.read(["GPU-a"], START, START + 3600, 96)
        except SourceError:
            return None

    until(up)
    yield client.read
    client.close()


@pytest.mark.stack
def test_a_real_prometheus_tells_watts_and_activity_in_round_steps(ask):
    found = ask(["GPU-a", "GPU-c"], START, ENDED, 96)
    assert (found.step_s, found.steps) == (300.0, 48)
    assert found.gpus["GPU-a"].watts[0] == 100
    assert found.gpus["GPU-a"].watts[-1] == pytest.approx(103, abs=0.2)
    assert found.gpus["GPU-a"].activity == (0.5,) * 48
    assert (found.gpus["GPU-c"].watts[5], found.gpus["GPU-c"].activity[5]) == (80.0, 0.25)
    assert (found.gpus["GPU-a"].measured, found.gpus["GPU-c"].measured) == (1.0, 1.0)


@pytest.mark.stack
def test_a_hole_and_what_comes_late_are_not_told_and_never_zero(ask):
    hole = ask(["GPU-b"], START, ENDED, 96).gpus["GPU-b"]
    assert hole.watts[12:23] == (None,) * 11
    assert hole.measured == pytest.approx(0.75, abs=0.03)
    late = ask(["GPU-a"], START, ENDED + 3600, 96).gpus["GPU-a"]
    assert late.watts[-1] is None
    assert late.measured == pytest.approx(0.8, abs=0.03)


@pytest.mark.stack
def test_a_gpu_that_nobody_scrapes_is_wholly_unknown(ask):
    assert ask(["GPU-a", "GPU-none"], START, ENDED, 96).gpus["GPU-none"].measured == 0.0


@pytest.mark.stack
def test_a_range_of_years_has_as_few_points_as_any(ask):
    found = ask(["GPU-a"], START - 3 * 365 * 86400, ENDED, 96)
    assert (found.step_s, found.steps) == (12 * 86400.0, 91)
    assert found.gpus["GPU-a"].measured < 0.1


@pytest.mark.stack
def test_a_server_that_refuses_says_why(past, ask):
    client = RangeClient(PrometheusConfig(url=past, matchers="job="))
    with pytest.raises(SourceError, match="bad_data"):
        client.read(["GPU-a"], START, ENDED, 96)
    client.close()


@pytest.mark.parametrize(("body", "fault"), [
    (b"<html>", "not JSON"), (b'{"status":"success","data":{"resultType":"vector","result":[]}}', "matrix"),
    (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[]}]}}', "UUID"),
    (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"UUID":"x"},"values":[[1]]}]}}', "UUID"),
    (b'{"status":"error","errorType":"timeout","error":"query timed out"}', "timeout: query timed out"),
    (b" " * (5 * 2**20), "bytes")])
def test_an_answer_that_is_none_is_a_fault_in_words(loopback, body, fault):
    loopback.pages["/api/v1/query_range"] = body
    client = RangeClient(PrometheusConfig(url=loopback.url("")))
    with pytest.raises(SourceError, match=fault):
        client.read(["GPU-a"], 0.0, 3600.0, 96)
    client.close()


def test_a_server_that_hangs_is_left_after_its_time(loopback):
    loopback.pages["/api/v1/query_range"] = lambda handler: time.sleep(1.0)
    client = RangeClient(PrometheusConfig(url=loopback.url(""), timeout=0.2))
    began = time.monotonic()
    with pytest.raises(SourceError, match="did not end within 0.2 s|took too long"):
        client.read(["GPU-a"], 0.0, 3600.0, 96)
    assert time.monotonic() - began < widened(1)
    client.close()


def test_a_name_that_would_be_a_query_is_not_asked_for(loopback):
    client = RangeClient(PrometheusConfig(url=loopback.url("")))
    with pytest.raises(SourceError, match="without a name"):
        client.read(['GPU-a"} or up{x="'], 0.0, 3600.0, 96)
    with pytest.raises(SourceError, match="lasted less than 30 s"):
        client.read(["GPU-a"], 0.0, 20.0, 96)
    assert loopback.requests == []
    client.close()


@pytest.mark.parametrize(("span", "step"), [(60, 30), (3600, 60), (86400, 900), (86400 * 30, 28800),
                                            (86400 * 96, 86400), (86400 * 365, 86400 * 4)])
def test_steps_are_round_and_as_few_as_are_drawn(span, step):
    assert step_of(span, 30.0, 96) == step
    assert span / step <= 96


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_takes_the_queries(tmp_path):
    gpus = ('UUID=~"GPU-a|GPU-b\\\\.c", cluster="x"', 'uuid=~"(GPU-)?(a)", cluster="x"')
    rules = [{"record": f"r{number}", "expr": query(gpus, 300.0)}
             for number, query in enumerate((power_query, activity_query))]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr


@given(st.recursive(st.none() | st.floats() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.sampled_from(["metric", "values", "UUID"]), inner), max_leaves=10))
def test_any_matrix_is_read_or_a_value_error(document):
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": document}}).encode()
    try:
        for _, values in parse(body, 0.0, 30.0, 4):
            assert len(values) == 4
    except ValueError:
        pass
