"""A real slurmrestd that hangs: no advice on old data, and the same words on page, command line and in metrics."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
import requests
from served import Daemon

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(900)]

ADDRESS = "127.0.0.1:19097"


@contextmanager
def frozen(chain, name):
    """Stop a part of Slurm where it stands: it still accepts connections and answers none."""
    process = int((chain.root / "slurm" / "run" / f"{name}.pid").read_text())
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.fixture
def daemon(chain, tmp_path):
    made = Daemon(tmp_path, {
        "cycles": {"scrape": "1s", "jobs": "1s", "assess": "1s", "advise": "1s", "record": "2s"},
        "waste": {"scheduler_max_age": "5s"}, "storage": {"url": f"sqlite:///{tmp_path}/idlewatt.db"},
        "sources": [{"kind": "slurm_rest", "url": f"unix:{chain.rest_socket}"}]}, ADDRESS)
    made.start()
    yield made
    made.close()


def command(*arguments):
    return subprocess.run((sys.executable, "-m", "idlewatt.daemon.cli", *arguments), capture_output=True, text=True,
                          timeout=60, env=os.environ | {"IDLEWATT_URL": f"http://{ADDRESS}"})


def ready(daemon):
    return requests.get(f"{daemon.url}/-/ready", timeout=10)


def test_while_slurm_hangs_nothing_is_advised_and_everybody_says_since_when(chain, daemon):
    chain.cancel_all()
    job = chain.sbatch("--hold", "-p", "A100", "--gres=gpu:a100:1", "-J", "waits")
    chain.run("scontrol", "release", job)
    chain.wait_for(lambda: daemon.samples("idlewatt_advice_timestamp_seconds"))
    assert ready(daemon).status_code == 200
    with frozen(chain, "restd-socket"):
        chain.wait_for(lambda: ready(daemon).status_code == 503)
        said = re.fullmatch(r"idlewatt is not ready: (Slurm not read since \d\d:\d\d)\.\n", ready(daemon).text)[1]
        assert said in requests.get(f"{daemon.url}/", timeout=10).text
        assert f"degraded: {said}\n" in command("jobs").stderr
        assert command("advise").stdout == f"no advice: {said}\n"
        assert daemon.value("idlewatt_degraded", cause="scheduler_unread") == 1
        assert daemon.samples("idlewatt_advice_info") == daemon.samples("idlewatt_advice_reason_info") == []
        assert daemon.samples("idlewatt_advice_snapshot_timestamp_seconds")
    chain.wait_for(lambda: ready(daemon).status_code == 200)
    chain.wait_for(lambda: daemon.rows("status")[0]["no_advice"] == "")
    assert daemon.value("idlewatt_degraded", cause="scheduler_unread") == 0
    chain.cancel_all()
