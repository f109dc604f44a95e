"""Owners on a real Slurm: jobs that hold idle, hang, underuse, share a node; their joules, pages, mails, report."""

import json
import re
import sqlite3
import time
from contextlib import closing, contextmanager

import pytest
import requests
from click.testing import CliRunner
from cost import widened
from letters import mail_server
from served import Daemon

from idlewatt.daemon.cli import main

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(1800)]

NODES = ("dgx-a100-01", "dgx-a100-02", "dgx-v100-01", "dgx-v100-02")
ADDRESS = "127.0.0.1:19097"
LOOKED_AT_S = 15


@pytest.fixture(scope="module")
def post():
    """Return what takes mails, and the port of its server."""
    with mail_server() as (box, port):
        yield box, port


def configuration(chain, folder, port):
    targets = [{"targets": [f"127.0.1.{number}:9400"], "labels": {"node": node}}
               for number, node in enumerate(NODES, start=1)]
    walls = [{"targets": [f"127.0.1.{number}:6230"], "labels": {"node": node}}
             for number, node in enumerate(NODES, start=1)]
    rule = {"window": "2s", "activity_below": 1.0}
    return {"cluster": "dgx", "storage": {"url": f"sqlite:///{folder}/idlewatt.db"},
            "cycles": {"scrape": "1s", "jobs": "1s", "assess": "1s", "advise": "10m", "record": "2s"},
            "waste": {"window": "3s", "grace_batch": "1s"}, "costs": {"currency": "EUR", "per_kwh": 0.25},
            "notices": {"enabled": True, "dry_run": False, "every": "1s", "per_user": "1s",
                        "rules": [{"kind": "idle_gpus", **rule}, {"kind": "hung_gpus", **rule},
                                  {"kind": "low_activity", **rule}],
                        "addresses": {"template": "{user}@example.org"}, "admins": ["root@example.org"],
                        "mail": {"host": "127.0.0.1", "port": port, "sender": "idlewatt@example.org"}},
            "sources": [{"kind": "dcgm", "static_configs": targets},
                        {"kind": "ipmi", "exporter": "127.0.0.1:19290", "module": "default", "static_configs": walls},
                        {"kind": "slurm_rest", "url": f"unix:{chain.rest_socket}"}]}


@contextmanager
def loads(chain, **files):
    """Let the GPUs of nodes work as the files in their folders say, and no longer."""
    made = []
    try:
        for node, (name, text) in files.items():
            folder = chain.root / "slurm/jobmap" / node.replace("_", "-")
            folder.mkdir(exist_ok=True)
            made.append(folder / name)
            made[-1].write_text(text)
        yield
    finally:
        for file in made:
            file.unlink()


@pytest.fixture(scope="module")
def jobs(chain, tmp_path_factory):
    """Return jobs by what they do, each running."""
    chain.cancel_all()
    submit = {"idle": ("A100", "dgx-a100-01", 4), "underuse": ("A100", "dgx-a100-02", 8),
              "hang": ("V100", "dgx-v100-01", 8), "share-2": ("V100", "dgx-v100-02", 2),
              "share-4": ("V100", "dgx-v100-02", 4)}
    with loads(chain, dgx_a100_01=("load", "0"), dgx_a100_02=("load", "0.1"), dgx_v100_01=("load", "1")), \
            loads(chain, dgx_v100_01=("hung", "")):
        made = {name: chain.sbatch("-p", partition, f"--gres=gpu:{gpus}", "-w", node, "-J", name, "-t60",
                                   script="sleep 900")
                for name, (partition, node, gpus) in submit.items()}
        for job in made.values():
            chain.wait_for(lambda job=job: chain.run("squeue", "-h", "-j", job, "-t", "RUNNING"))
        yield made
        chain.cancel_all()


@pytest.fixture(scope="module")
def daemon(chain, jobs, post, tmp_path_factory):
    """Return a daemon that has looked twice at jobs that draw the same all the time, and was restarted in between."""
    folder = tmp_path_factory.mktemp("owners")
    daemon = Daemon(folder, configuration(chain, folder, post[1]), ADDRESS)
    daemon.start()
    looked(daemon)
    assert daemon.end() == 0
    daemon.start()
    looked(daemon)
    chain.wait_for(lambda: {"idle_gpus", "hung_gpus", "low_activity"} <= {
        one["kind"] for one in daemon.rows("notices", since="1d") if one["state"] == "sent"})
    yield daemon
    daemon.close()


def looked(daemon):
    """Wait until the daemon has seen idle, hung and working GPUs for a while."""
    began = time.monotonic()
    wanted = {"allocated_idle", "allocated_hung"}
    while time.monotonic() - began < LOOKED_AT_S or not wanted <= {row["power_class"] for row in daemon.rows("waste")}:
        assert time.monotonic() - began < widened(120)
        time.sleep(0.2)


def wall(chain, number):
    """Return the watts of a node's meter on ipmi_exporter's own page."""
    page = requests.get(chain.ipmi_url, params={"target": f"127.0.1.{number}:6230", "module": "default"}, timeout=60)
    return float(re.search(r"^ipmi_dcmi_power_consumption_watts (\S+)", page.text, re.MULTILINE)[1])


def said(daemon, path):
    """Return the text of a page."""
    page = requests.get(f"{daemon.url}{path}", timeout=60)
    assert page.ok, page.text
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page.text))


def shell(*arguments):
    done = CliRunner().invoke(main, [*arguments, "--url", f"http://{ADDRESS}"], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_owners_are_told_by_mail_and_the_ledger_and_the_pages_say_the_same(daemon, jobs, post):
    sent = {one["kind"]: one for one in daemon.rows("notices", since="1d") if one["state"] == "sent"}
    assert (sent["idle_gpus"]["job_id"], sent["hung_gpus"]["job_id"]) == (jobs["idle"], jobs["hang"])
    told = {one["job_id"] for one in daemon.rows("notices", since="1d") if one["kind"] == "low_activity"}
    assert {jobs["idle"], jobs["underuse"]} <= told
    assert not told & {jobs["share-2"], jobs["share-4"]} - {jobs["hang"]}
    mails = "".join(text for to, text in post[0].taken if to == "nobody@example.org")
    assert re.search(f"Job {jobs['idle']} \\(idle\\).*?All of its 4 GPUs have done nothing", mails, re.DOTALL)
    assert re.search(f"Job {jobs['hang']} \\(hang\\).*?busy at the power of an idle one", mails, re.DOTALL)
    assert jobs["idle"] in shell("notices", "--since", "1d")
    assert "Allocated, idle" in said(daemon, f"/jobs/{jobs['idle']}")
    assert "Suspected hung" in said(daemon, f"/jobs/{jobs['hang']}")
    assert all(job in said(daemon, "/users/nobody") for job in jobs.values())
    assert jobs["share-2"] in said(daemon, "/nodes/dgx-v100-02")
    assert jobs["idle"] in shell("waste", "--by", "job")


def test_the_joules_of_jobs_and_of_what_nobody_holds_are_the_wall_meters(chain, daemon, jobs, capsys):
    """Nodes draw the same all the time, so that joules over the seconds that a job was seen are its meter's watts."""
    walls = {node: wall(chain, number) for number, node in enumerate(NODES, start=1)}
    assert daemon.end() == 0
    with closing(sqlite3.connect(daemon.database)) as database:
        runs = dict(database.execute("SELECT job_id, energy_mj / 1000.0 FROM run_energy"))
        seen = dict(database.execute("SELECT job_id, seen_ms / 1000.0 FROM run_energy"))
        nodes = dict(database.execute("SELECT node, SUM(energy_mj) / 1000.0 FROM node_days GROUP BY node"))
        nobody, = database.execute("SELECT SUM(energy_mj) / 1000.0 FROM energy_days WHERE user = ''").fetchone()
    assert sum(runs.values()) + nobody == pytest.approx(sum(nodes.values()), rel=1e-6)
    whole = {"dgx-a100-02": jobs["underuse"], "dgx-v100-01": jobs["hang"]}
    off = {node: runs[job] / (walls[node] * seen[job]) - 1 for node, job in whole.items()}
    with capsys.disabled():
        print(f"\n{sum(runs.values()):.0f} J of jobs and {nobody:.0f} J of nobody are the nodes' "
              f"{sum(nodes.values()):.0f} J; "
              "over a restart, jobs that hold a whole node are off its wall meter by "
              f"{', '.join(f'{100 * one:+.4f} % ({node})' for node, one in off.items())}")
    assert max(map(abs, off.values())) < 0.001
    assert runs[jobs["share-4"]] > runs[jobs["share-2"]] > 0
    daemon.start()


def test_the_months_report_adds_up_and_says_that_this_slurm_has_no_meter(chain, daemon, jobs, tmp_path):
    month = time.strftime("%Y-%m", time.gmtime())
    rows = json.loads(shell("report", "--month", month, "--by", "user", "--format", "json"))
    by_node = json.loads(shell("report", "--month", month, "--by", "node", "--format", "json"))
    assert {row["name"] for row in rows} == {"nobody", ""}
    assert sum(row["energy_joules"] for row in rows) == pytest.approx(sum(row["energy_joules"] for row in by_node))
    assert "EUR" in shell("report", "--month", month)
    chain.cancel_all()
    accounts = tmp_path / "sacct.json"
    accounts.write_text(chain.run("sacct", "--json", "--allusers", "--duplicates"))
    done = CliRunner().invoke(main, ["report", "--month", month, "--against", str(accounts), "--url", f"http://{ADDRESS}"])
    assert done.exit_code == 0, done.output
    assert "AcctGatherEnergyType is none" in done.stdout
