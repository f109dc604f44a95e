import json
import math
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.exporters.prometheus_api import decode
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.throughput import QUERY, answer, rates
from idlewatt.exporters.source import SourceError
from idlewatt.exporters.throughput import ThroughputConfig, parse
from idlewatt.storage.speeds import JobRate

NOW = 1.8e9


@pytest.fixture
def ask(loopback):
    """Return a function that reads a source from a server that answers with this text, and says what it was asked."""
    def read(text, **options):
        loopback.pages["/prom/api/v1/query"] = text.encode()
        source = ThroughputConfig(url=loopback.url("/prom/"), **options).build(lambda: NOW)
        try:
            found = source.read()
        finally:
            source.close()
        return found, parse_qs(urlsplit(loopback.requests[-1][0]).query)["query"], source.health()

    return read


def vector(*series):
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": [
        {"metric": labels, "value": [NOW, value]} for labels, value in series]}})


def test_each_series_is_the_rate_of_a_job(ask):
    found, asked, health = ask(vector(({"job_id": "7"}, "812.5"), ({"job_id": "8_3"}, "0")))
    assert (found.time_s, found.rates) == (NOW, (JobRate("7", 812.5), JobRate("8_3", 0.0)))
    assert asked == ["job_throughput"]
    assert health[0].up


def test_query_and_label_are_the_sites_own(ask):
    found, asked, _ = ask(vector(({"slurm": "7"}, "3")), query="sum by (slurm) (rate(steps_total[5m]))", label="slurm")
    assert found.rates == (JobRate("7", 3.0),)
    assert asked == ["sum by (slurm) (rate(steps_total[5m]))"]


def test_what_is_no_rate_is_left_out(ask):
    found, _, _ = ask(vector(({"job_id": "1"}, "NaN"), ({"job_id": "2"}, "+Inf"), ({"job_id": "3"}, "-4"),
                             ({"job_id": ""}, "4"), ({"pod": "x"}, "4"), ({"job_id": "5"}, "5")))
    assert found.rates == (JobRate("5", 5.0),)


def test_a_job_with_several_series_has_no_rate_and_it_is_said(ask, caplog):
    found, _, _ = ask(vector(({"job_id": "1", "rank": "0"}, "5"), ({"job_id": "1", "rank": "1"}, "5"),
                             ({"job_id": "2"}, "6")))
    assert found.rates == (JobRate("2", 6.0),)
    assert "several series for each of 1 jobs" in caplog.text


@pytest.mark.parametrize("text", ["<html>", '{"status": "error", "errorType": "bad_data", "error": "parse error"}',
                                  '{"status": "success", "data": {"resultType": "matrix", "result": []}}'])
def test_an_answer_that_is_none_says_what_was_asked(ask, text):
    with pytest.raises(SourceError, match="job_throughput"):
        ask(text)


def test_what_a_real_prometheus_answers_is_read(recorded):
    series = decode(recorded("prometheus_query_vector_nan_inf.json"))
    assert {str(value) for _, value in series} >= {"nan"}
    found, ambiguous = parse(series, "UUID")
    assert {rate.job_id: rate.rate for rate in found} == {
        labels["UUID"]: value for labels, value in series if math.isfinite(value)}
    assert ambiguous == ()
    assert parse(series, "job") == ((), ("dcgm",))


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from(["job_id", "rank"]), st.text(max_size=2)), st.floats())))
def test_every_rate_can_be_and_every_job_comes_once(series):
    found, ambiguous = parse(series, "job_id")
    jobs = [rate.job_id for rate in found]
    assert len(jobs) == len(set(jobs))
    assert set(jobs).isdisjoint(ambiguous)
    assert all(math.isfinite(rate.rate) and rate.rate >= 0 for rate in found)


def test_simulated_jobs_that_train_have_a_rate_and_others_none():
    cluster = SimulatedCluster(ClusterShape())
    cluster.advance(cluster.now_s + 7200)
    found = rates(cluster)
    assert found
    assert set(found) <= set(map(str, cluster.running))
    assert answer(cluster, QUERY)["data"]["result"][0]["metric"]["job_id"] in found
    assert answer(cluster, "up")["data"]["result"] == []
