"""Every expression of every dashboard, rule and alert asked of the Prometheus beside a real Slurm."""

import shutil
import time
from collections.abc import Iterator

import pytest
import requests
from questions import (
    BY_CHANCE,
    GRAFANA,
    NO_AGENT,
    NO_FOLLOWER,
    NO_HOUR,
    NO_LIKE,
    NO_RACK,
    NO_WEEK,
    NO_WINDOW,
    Prometheus,
    Question,
    of_alerts,
    of_dashboards,
    of_rules,
)
from served import Daemon

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(900)]

NODES = ("dgx-a100-01", "dgx-a100-02", "dgx-v100-01", "dgx-v100-02")
BEAT = {"scrape": "1s", "jobs": "1s", "assess": "1s", "advise": "1s", "record": "2s"}
WASTE = {"window": "3s", "grace_batch": "1s", "rated_node_watts": {"dgx-a100-*": 6500, "dgx-v100-*": 3500}}
RANGE_S, WITHIN_S, COMPILED_WITHIN_S = 60.0, 180.0, 180.0
ISSUED = "sum(idlewatt_advice_issued_total) >= {}"


def targets(port):
    return [{"targets": [f"127.0.1.{number}:{port}"], "labels": {"node": node}}
            for number, node in enumerate(NODES, start=1)]


@pytest.fixture(scope="module")
def daemon(chain, tmp_path_factory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("daemon")
    daemon = Daemon(folder, {
        "cluster": "dgx", "cycles": BEAT, "waste": WASTE, "costs": {"currency": "USD", "per_kwh": 0.15},
        "advice": {"policy": "limit-aged+best-fit+easy", "spare_nodes": 0},
        "storage": {"url": f"sqlite:///{folder}/idlewatt.db"},
        "sources": [
            {"kind": "dcgm", "static_configs": targets(9400)},
            {"kind": "ipmi", "exporter": "127.0.0.1:19290", "module": "default", "static_configs": targets(6230)},
            {"kind": "slurm_rest", "url": f"unix:{chain.rest_socket}",
             "qos_grp_tres_mins": {"normal": ""}}]}, chain.daemon_address)  # as idlewatt slurm-settings prints it
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture
def prometheus(chain, daemon) -> Iterator[Prometheus]:
    """The chain's Prometheus with our rules in it."""
    laid = [shutil.copy(path, chain.root / "rules") for path in (GRAFANA / "rules").glob("*.yml")]
    requests.post(f"{chain.prometheus_url}/-/reload", timeout=60).raise_for_status()
    yield Prometheus(chain.prometheus_url, time.time)
    for path in laid:
        (chain.root / "rules" / path).unlink()
    requests.post(f"{chain.prometheus_url}/-/reload", timeout=60).raise_for_status()


@pytest.fixture
def small(chain) -> Iterator[list[str]]:
    """Jobs that work, sleep and wait; a wide one keeps Slurm from starting the small ones behind it."""
    chain.cancel_all()
    chain.set_load("dgx-a100-02", 0.0)
    chain.sbatch("-p", "A100", "--gres=gpu:a100:4", "-w", "dgx-a100-01", "-t60", script="sleep 900")
    chain.sbatch("-p", "A100", "--gres=gpu:a100:6", "-w", "dgx-a100-02", "-t60", script="sleep 900")
    running(chain, 2)
    chain.sbatch("-p", "A100", "-N2", "--gres=gpu:a100:8", "-t", "2-0", "-J", "wide")
    yield [chain.sbatch("-p", "A100", "--gres=gpu:a100:1", "-t", "120", "-J", "small") for _ in range(4)]
    chain.cancel_all()
    (chain.root / "slurm/jobmap/dgx-a100-02/load").unlink()


def running(chain, count: int) -> None:
    chain.wait_for(lambda: chain.run("squeue", "-h", "-t", "R", "-o", "%i").count("\n") == count)


def follow(chain, daemon, job: str) -> None:
    """Do as an operator does who takes an advice: name the node, and put the job first."""
    def advised() -> list[str]:
        return [row["placement"]["nodes"][0] for row in daemon.rows("recommendations")
                if row["job_id"] == job and row["action"] == "start" and not row["shadow"]]

    (node,) = chain.wait_for(advised, COMPILED_WITHIN_S)
    chain.run("scontrol", "update", f"jobid={job}", f"reqnodelist={node}", "priority=4000000000")
    chain.wait_for(lambda: chain.run("squeue", "-h", "-j", job, "-o", "%t").strip() == "R")


@pytest.mark.long
def test_a_daemon_beside_a_real_slurm_answers_everything_in_time(chain, daemon, prometheus, small):
    for number, job in enumerate(small[:2], start=1):
        follow(chain, daemon, job)
        # A counter that begins above zero has not increased yet, as far as Prometheus can tell.
        chain.wait_for(lambda number=number: prometheus.answer(Question("issued", ISSUED.format(number))),
                       COMPILED_WITHIN_S)
    left, deadline = set(of_dashboards() + of_rules() + of_alerts()), time.monotonic() + WITHIN_S
    empty = (NO_AGENT | NO_WINDOW | NO_LIKE | NO_FOLLOWER | NO_RACK | NO_HOUR | NO_WEEK) - BY_CHANCE
    while {question.where for question in left} - empty - BY_CHANCE and time.monotonic() < deadline:
        left = prometheus.unanswered(left, RANGE_S)
        time.sleep(1)
    assert {question.where for question in left} - BY_CHANCE == empty
