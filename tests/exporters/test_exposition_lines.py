"""Lines of our page: the same bytes as the client library writes, in a fraction of its steps."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from idlewatt.exporters.metrics import Published
from idlewatt.exporters.metrics.declared import BUCKETS_S, Distribution
from idlewatt.exporters.publish import PublishedCollector, page, registry

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


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_a_large_page_takes_few_steps_so_that_it_is_not_kept_waiting_beside_busy_threads(accept):
    gpus = {(f"dgx-{node:04d}", str(gpu)): 8.0 for node in range(1000) for gpu in range(8)}
    own, calls = registry(lambda: Published(gpu_state=gpus)), 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        body, _ = page(own, accept)
    finally:
        sys.setprofile(None)
    assert body.count(b"\nidlewatt_gpu_state{") == len(gpus)
    assert calls < len(gpus)
