"""Real parts that hang: nothing is claimed of what is not known, in the same words on page, command line, in metrics.

A slurmrestd that hangs: no advice on old data. GPU pages or meters that hang: no waste of 0 W.
"""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
import requests
from chain import NODES, targets
from click.testing import CliRunner
from served import Daemon

from idlewatt.daemon.cli import main

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(1800)]

GPUS = 32
HOSTS_WATTS = 6000
"""What the four servers draw beside their GPUs."""
NO_WASTE, AT_LEAST, UNMEASURED = r"\b0 W wasted", r"at least \S+ k?W wasted", r"\d\.\d\d kW not measured"


@contextmanager
def frozen(chain, name):
    """Stop a part of the chain where it stands: it still accepts connections and answers none."""
    process = int((chain.root / f"{name}.pid").read_text())
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.fixture(scope="module")
def daemon(chain, tmp_path_factory):
    """A daemon that is impatient with all its sources; the chain's Prometheus scrapes it."""
    folder = tmp_path_factory.mktemp("degraded")
    soon_again = {"timeout": "3s", "connect_timeout": "1s"}
    made = Daemon(folder, {
        "cycles": {"scrape": "1s", "jobs": "1s", "assess": "1s", "advise": "1s", "record": "2s"},
        "waste": {"scheduler_max_age": "5s", "wall_max_age": "4s"},
        "storage": {"url": f"sqlite:///{folder}/idlewatt.db"},
        "sources": [
            {"kind": "dcgm", "static_configs": targets(9400)} | soon_again,
            {"kind": "ipmi", "exporter": "127.0.0.1:19290", "module": "default",
             "static_configs": targets(6230)} | soon_again,
            {"kind": "slurm_rest", "url": f"unix:{chain.rest_socket}"}]}, chain.daemon_address)
    made.start()
    yield made
    made.close()


def command(daemon, *arguments):
    return subprocess.run((sys.executable, "-m", "idlewatt.daemon.cli", *arguments), capture_output=True, text=True,
                          timeout=900, env=os.environ | {"IDLEWATT_URL": daemon.url})


def ready(daemon):
    return requests.get(f"{daemon.url}/-/ready", timeout=60)


def test_while_slurm_hangs_nothing_is_advised_and_everybody_says_since_when(chain, daemon):
    chain.cancel_all()
    job = chain.sbatch("--hold", "-p", "A100", "--gres=gpu:a100:1", "-J", "waits")
    chain.run("scontrol", "release", job)
    chain.wait_for(lambda: daemon.samples("idlewatt_advice_timestamp_seconds"))
    assert ready(daemon).status_code == 200
    with frozen(chain, "slurm/run/restd-socket"):
        chain.wait_for(lambda: ready(daemon).status_code == 503)
        said = re.fullmatch(r"idlewatt is not ready: (Slurm not read since \d\d:\d\d)\.\n", ready(daemon).text)[1]
        assert said in requests.get(f"{daemon.url}/", timeout=60).text
        assert f"degraded: {said}\n" in command(daemon, "jobs").stderr
        assert command(daemon, "advise").stdout == f"no advice: {said}\n"
        assert daemon.value("idlewatt_degraded", cause="scheduler_unread") == 1
        assert daemon.samples("idlewatt_advice_info") == daemon.samples("idlewatt_advice_reason_info") == []
        assert daemon.samples("idlewatt_advice_snapshot_timestamp_seconds")
    chain.wait_for(lambda: ready(daemon).status_code == 200)
    chain.wait_for(lambda: daemon.rows("status")[0]["no_advice"] == "")
    assert daemon.value("idlewatt_degraded", cause="scheduler_unread") == 0
    chain.cancel_all()


@pytest.fixture(scope="module")
def measured(chain, daemon):
    """The daemon while everything is measured, at the wall too, and a job holds one GPU."""
    chain.cancel_all()
    chain.sbatch("-p", "A100", "--gres=gpu:a100:1", "-w", "dgx-a100-01", script="sleep 900")
    chain.wait_for(lambda: daemon.rows("waste", node="dgx-a100-01", user="nobody"))
    chain.wait_for(lambda: whole(daemon))
    yield daemon
    chain.cancel_all()


def headline(daemon):
    """Return what the page's title says of the waste."""
    return re.search(r"<title>(.*) – idlewatt</title>", requests.get(f"{daemon.url}/", timeout=60).text)[1]


def whole(daemon):
    """Tell whether all is measured, and so much waste that nobody could miss it."""
    classes = watts(daemon)
    return (re.fullmatch(r"\d\.\d\d kW wasted or unused \([^)]*\)", headline(daemon))
            and classes.keys() >= {"idle_unallocated", "node_overhead_empty", "host_active"}
            and "unmeasured" not in classes)


def watts(daemon):
    """Return the watts of each class that has some, as the metrics tell."""
    sums = {}
    for labels, value in daemon.samples("idlewatt_power_watts"):
        sums[labels["class"]] = sums.get(labels["class"], 0.0) + value
    return {name: value for name, value in sums.items() if value}


def told(daemon):
    """Return what the page says, and what `idlewatt waste` does by class and by node."""
    commands = [CliRunner().invoke(main, ["waste", f"--url={daemon.url}", *more]) for more in ((), ("--by=node",))]
    assert [done.exit_code for done in commands] == [0, 0]
    return [requests.get(f"{daemon.url}/", timeout=60).text, *(" ".join(done.stdout.split()) for done in commands)]


def test_while_gpu_pages_hang_the_waste_is_unknown_and_never_0(chain, measured):
    before = sum(watts(measured).values())
    with frozen(chain, "run/dcgm"):
        chain.wait_for(lambda: watts(measured).keys() == {"unmeasured"})
        said = chain.wait_for(lambda: re.fullmatch(f"waste unknown, ({UNMEASURED})", headline(measured)))[1]
        for text in told(measured):
            assert "waste unknown" in text
            assert said in text
            assert not re.search(NO_WASTE, text)
        assert sum(watts(measured).values()) == pytest.approx(before, rel=0.1), "the meters go on"
        assert sum(value for _, value in measured.samples("idlewatt_unmeasured_gpus")) == GPUS
        assert measured.samples("idlewatt_node_wasted_power_watts") == []
        assert measured.samples("idlewatt_user_wasted_power_watts") == []
        assert measured.value("idlewatt_degraded", cause="unmeasured") == 1
        chain.wait_for(lambda: chain.asked('sum(idlewatt_power_watts{class!="unmeasured"})') == [0])
        assert chain.asked("idlewatt_node_wasted_power_watts") == []
    chain.wait_for(lambda: whole(measured))
    assert measured.value("idlewatt_degraded", cause="unmeasured") == 0


def test_while_meters_hang_the_waste_is_at_least_that_of_gpus_and_nothing_is_at_the_wall(chain, measured):
    before = sum(watts(measured).values())
    assert "at the wall" in told(measured)[1]
    with frozen(chain, "run/ipmi"):
        chain.wait_for(lambda: {labels["source"] for labels, _ in measured.samples("idlewatt_node_power_watts")}
                       == {"estimated"})
        chain.wait_for(lambda: re.fullmatch(f"{AT_LEAST}, {UNMEASURED}", headline(measured)))
        for text in told(measured):
            assert re.search(AT_LEAST, text)
            assert re.search(UNMEASURED, text)
            assert not re.search(NO_WASTE, text)
            assert "at the wall" not in text
        classes = watts(measured)
        assert classes.keys().isdisjoint({"host_active", "node_overhead_empty"})
        # Energy counters that are read at different moments: between two reads they may have grown by half as much.
        assert classes["unmeasured"] == pytest.approx(HOSTS_WATTS, rel=0.2)
        assert sum(classes.values()) == pytest.approx(before, rel=0.25), "no meter that is silent makes power drop"
        assert {labels["node"] for labels, value in measured.samples("idlewatt_node_wasted_power_watts") if value
                } == set(NODES)
    chain.wait_for(lambda: whole(measured))
    assert "at the wall" in told(measured)[1]
