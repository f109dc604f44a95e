"""What the daemon meets on the wire."""

import threading
from collections.abc import Iterator

import pytest
import requests

from idlewatt.exporters.simulated.clock import SimulatedClock
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer


@pytest.fixture
def clock() -> list[float]:
    """A clock that the test winds by hand."""
    return [ClusterShape().start_s]


@pytest.fixture
def server(clock) -> Iterator[SimulationServer]:
    site = SimulatedSite(SimulatedCluster(), lambda: clock[0])
    with SimulationServer(site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_every_discovered_page_answers_with_its_node(server):
    for kind in ("dcgm", "node", "ipmi"):
        groups = requests.get(f"{server.url}/targets/{kind}", timeout=60).json()
        assert [group["labels"]["node"] for group in groups] == [
            "dgx-a100-01", "dgx-a100-02", "dgx-v100-01", "dgx-v100-02"]
        for group in groups:
            page = requests.get(group["targets"][0], timeout=60)
            assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert kind != "dcgm" or f'Hostname="{group["labels"]["node"]}"' in page.text


def test_time_moves_with_the_clock(server, clock):
    before = requests.get(f"{server.url}/dgx-a100-01/node", timeout=60).text
    assert requests.get(f"{server.url}/dgx-a100-01/node", timeout=60).text == before
    clock[0] += 60
    assert requests.get(f"{server.url}/dgx-a100-01/node", timeout=60).text != before


@pytest.mark.parametrize("name", ["ping", "jobs", "nodes", "partitions", "reservations"])
def test_slurmrestd_answers_without_errors(server, name):
    answer = requests.get(f"{server.url}/slurm/v0.0.38/{name}", timeout=60).json()
    assert answer["errors"] == []
    assert answer["meta"]["Slurm"]["release"] == "22.05.8"


def test_accounting_takes_the_window_as_slurmdbd_does(server, clock):
    clock[0] += 12 * 3600
    url = f"{server.url}/slurmdb/v0.0.38/jobs"
    assert requests.get(url, timeout=60).json()["jobs"]
    assert not requests.get(url, params={"start_time": f"uts{int(clock[0]) + 60}"}, timeout=60).json()["jobs"]
    assert requests.get(url, params={"start_time": "soon"}, timeout=60).status_code == 400


def test_a_job_can_be_steered(server):
    wish = {"job_id": 11, "nodes": ["dgx-v100-02"]}
    assert requests.post(f"{server.url}/steer", json=wish, timeout=60).status_code == 200
    jobs = requests.get(f"{server.url}/slurm/v0.0.38/jobs", timeout=60).json()["jobs"]
    assert {job["job_id"]: job["nodes"] for job in jobs}[11] == "dgx-v100-02"


@pytest.mark.parametrize(("wish", "status"), [
    (b"{", 400), (b"[]", 400), (b'{"job_id": 11}', 400), (b'{"job_id": 999, "nodes": []}', 404),
    (b'{"job_id": 11, "nodes": ["dgx-a100-01"]}', 400), (b"0" * 70_000, 413)])
def test_nonsense_is_refused_with_a_reason(server, wish, status):
    answer = requests.post(f"{server.url}/steer", data=wish, timeout=60)
    assert (answer.status_code, bool(answer.text)) == (status, True)


@pytest.mark.parametrize("path", ["/", "/dgx-a100-01", "/dgx-a100-99/dcgm", "/dgx-a100-01/secrets", "/%2e%2e/etc"])
def test_an_unknown_page_is_not_found(server, path):
    assert requests.get(server.url + path, timeout=60).status_code == 404


def test_an_exporter_that_falls_over_does_not_take_the_others_along(server, clock):
    clock[0] += 7100
    status = [requests.get(f"{server.url}/{node}/dcgm", timeout=60).status_code
              for node in ("dgx-a100-01", "dgx-a100-02", "dgx-v100-01", "dgx-v100-02")]
    assert status == [200, 200, 200, 503]


def test_two_clocks_told_the_same_start_agree():
    wall = [1000.0]
    ours, theirs = (SimulatedClock(60, 1000.0, lambda: wall[0]) for _ in range(2))
    wall[0] += 2.5
    assert ours() == theirs() == 1150.0
    with pytest.raises(ValueError, match="above 0"):
        SimulatedClock(0, 0)
