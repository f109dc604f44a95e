"""Lines of our page: the same bytes as the client library writes, in a fraction of its steps."""

import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from idlewatt.exporters.metrics import METRICS, Published
from idlewatt.exporters.metrics.declared import BUCKETS_S, Distribution
from idlewatt.exporters.publish import PublishedCollector, page, prepare, registry
from idlewatt.storage.power_classes import NODE_STATES

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
PROMETHEUS_3 = ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                "text/plain;version=0.0.4;q=0.2,*/*;q=0.1")
VALUES = st.floats() | st.integers(-10**12, 10**12)
WAITS = st.builds(Distribution, st.integers(0, 10**9).map(lambda count: (count,) * (len(BUCKETS_S) + 1)), VALUES)


def series(labels, values=VALUES):
    return st.dictionaries(st.tuples(*[st.text(max_size=5)] * labels), values, max_size=3)


def of_the_library(published: Published, accept: str) -> list[bytes]:
    own = CollectorRegistry()
    own.register(PublishedCollector(lambda: published))
    return choose_encoder(accept)[0](own).rstrip(b"\n").split(b"\n")


def ours(published: Published, accept: str) -> list[bytes]:
    """Return the page without what the process and its Python say of themselves."""
    lines = page(registry(lambda: published), accept)[0].split(b"\n")
    return [line for line in lines if b"idlewatt_" in line or line == b"# EOF"]


@pytest.mark.parametrize("accept", ["", OPEN_METRICS, PROMETHEUS_3])
@settings(max_examples=40, deadline=None)
@given(node_power=series(2), energy=series(2), pue=VALUES | st.none(), waits=series(3, WAITS))
def test_every_line_is_as_the_client_library_writes_it(accept, node_power, energy, pue, waits):
    published = Published(node_power_watts=node_power, energy_joules_total=energy, pue_ratio=pue,
                          job_wait_seconds=waits)
    assert ours(published, accept) == of_the_library(published, accept)


def test_names_that_a_scraper_wants_written_otherwise_are_left_to_the_library():
    published, accept = Published(pue_ratio=1.5), "application/openmetrics-text;version=1.0.0;escaping=dots"
    body, content_type = page(registry(lambda: published), accept)
    assert content_type.endswith("escaping=dots")
    assert b"\nidlewatt__pue__ratio 1.5\n" in body


def steps(work) -> int:
    """Return how many functions are called meanwhile, those of C left out."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


GPUS = {(f"dgx-{node:04d}", str(gpu)): 8.0 for node in range(1000) for gpu in range(8)}


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_a_large_page_takes_few_steps_so_that_it_is_not_kept_waiting_beside_busy_threads(accept):
    own = registry(lambda: Published(gpu_state=GPUS))
    assert page(own, accept)[0].count(b"\nidlewatt_gpu_state{") == len(GPUS)
    assert steps(lambda: page(own, accept)) < len(GPUS)


def test_lines_of_a_large_metric_are_kept_until_its_value_is_another():
    present = [Published(gpu_state=GPUS)]
    own = registry(lambda: present[-1])
    before, _ = page(own)
    assert page(own, OPEN_METRICS)[0].count(b"\nidlewatt_gpu_state{") == len(GPUS)
    assert own.own._lines(*of_gpus(GPUS)) is own.own._lines(*of_gpus(GPUS))
    present.append(Published(gpu_state=GPUS | {("dgx-0000", "0"): 1.0}))
    after, _ = page(own)
    changed = set(after.split(b"\n")) - set(before.split(b"\n"))
    assert b'idlewatt_gpu_state{gpu="0",node="dgx-0000"} 1.0' in changed
    assert sum(line.startswith(b"idlewatt_gpu_state") for line in changed) == 1
    present.append(Published())
    assert b"idlewatt_gpu_state" not in page(own)[0]


def test_series_above_the_cap_are_counted_also_where_the_lines_were_kept():
    many = {(str(number), "a100"): 1.0 for number in range(210)}
    advice = {("easy", "wait", str(number), "dgx01", "1"): 1.0 for number in range(600)}
    own = registry(lambda: published)
    published = Published(advice_info=advice, user_wasted_power_watts=many)
    for _ in range(2):
        assert b'idlewatt_capped_series{metric="idlewatt_advice_info"} 550.0' in page(own)[0]


def of_gpus(value):
    return next(metric for metric in METRICS if metric.name == "idlewatt_gpu_state"), value, ()


def test_a_page_that_was_prepared_is_only_put_together():
    own = registry(lambda: published)
    published = Published(gpu_state=GPUS, node_gpus={(node, state): 1.0 for node, _ in GPUS for state in NODE_STATES})
    unprepared = steps(lambda: page(own))
    published = Published(gpu_state=dict(GPUS), node_gpus=dict(published.node_gpus))
    prepare(own)
    assert 3 * steps(lambda: page(own)) < unprepared


def test_a_page_that_was_prepared_takes_no_more_memory_than_its_bytes():
    own = registry(lambda: published)
    published = Published(gpu_state=GPUS)
    prepare(own)
    tracemalloc.start()
    try:
        body, _ = page(own)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * len(body)
