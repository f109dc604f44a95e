"""The daemon on real Slurm, Prometheus and exporters: what an operator sees of the jobs that users submit."""

import csv
import math
import operator
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections import Counter

import pytest
import requests
from chain import NODES, targets
from click.testing import CliRunner
from judge.slurm import FROZEN, Slurm
from served import Daemon

from idlewatt.daemon.cli import main
from idlewatt.daemon.follow.advice import Adviser
from idlewatt.daemon.follow.config import parse as follow_rules
from idlewatt.daemon.follow.follower import Follower
from idlewatt.daemon.follow.slurm import Slurm as FollowedSlurm
from idlewatt.exporters.text import STAND_IN
from idlewatt.storage.follow_ledger import FollowLedger
from idlewatt.storage.records import JobState

# Whoever comes second waits until the other has done with the one chain of this machine.
pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(1800)]

ACTIVE = "limit-aged+best-fit+easy"
BEAT = {"scrape": "1s", "jobs": "1s", "assess": "1s", "advise": "1s", "record": "2s"}
# Nobody waits ten minutes in a test until an idle GPU is called idle.
IMPATIENT = {"window": "3s", "grace_batch": "1s", "outside_after": "4s"}
FORGED = ("two\n999|999|big|mallory|nlp|A100|normal|COMPLETED|0:0|2026-11-20T10:00:00|2026-11-20T10:00:00|"
          "2026-11-20T10:01:00|2026-11-20T11:01:00|90|1|gres/gpu=16|gres/gpu=16|dgx-a100-01|5|\nlines")
"""A job's name that looks like a line of accounting about another user's job."""

COMPILED_WITHIN_S = 180
"""A new machine compiles the policies before there is advice."""


@pytest.fixture(scope="module")
def daemon(chain, tmp_path_factory):
    """The daemon that the chain's Prometheus scrapes: pages read directly, slurmrestd on its socket, SQLite."""
    folder = tmp_path_factory.mktemp("daemon")
    daemon = Daemon(folder, {
        "cluster": "dgx", "cycles": BEAT, "waste": IMPATIENT, "advice": {"policy": ACTIVE},
        "storage": {"url": f"sqlite:///{folder}/idlewatt.db"},
        "sources": [
            {"kind": "dcgm", "static_configs": targets(9400)},
            {"kind": "ipmi", "exporter": "127.0.0.1:19290", "module": "default", "static_configs": targets(6230)},
            {"kind": "node", "targets": ["127.0.0.1:19100"]},
            {"kind": "slurm_rest", "url": f"unix:{chain.rest_socket}",
             "qos_grp_tres_mins": {"normal": ""}}]}, chain.daemon_address)  # as idlewatt slurm-settings prints it
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def distant(chain, postgres, tmp_path_factory):
    """A second daemon that reads the same cluster the other way: Prometheus, Slurm's commands, PostgreSQL."""
    return Daemon(tmp_path_factory.mktemp("distant"), {
        "cycles": BEAT | {"scrape": "2s", "jobs": "10m"}, "waste": IMPATIENT, "advice": {"policy": ACTIVE},
        "storage": {"url": postgres},
        "sources": [{"kind": "prometheus", "url": chain.prometheus_url},
                    {"kind": "slurm_cli", "slurm_conf": str(chain.slurm_conf)}]}, "127.0.0.1:19098")


@pytest.fixture
def cluster(chain, daemon):
    """The chain with an empty queue, before and after."""
    chain.cancel_all()
    chain.wait_for(lambda: not daemon.rows("jobs", state="running") and not daemon.rows("jobs", state="pending"))
    yield chain
    chain.cancel_all()


def held(chain, job):
    """Node -> GPU indexes, as `scontrol show job -d` tells."""
    found = {}
    for nodes, indexes in re.findall(r"Nodes=(\S+) .*GRES=gpu:\w+:\d+\(IDX:([\d,-]+)\)",
                                     chain.run("scontrol", "show", "job", "-d", job)):
        spans = [span.partition("-") for span in indexes.split(",")]
        numbers = tuple(number for first, _, last in spans for number in range(int(first), int(last or first) + 1))
        found |= dict.fromkeys(chain.run("scontrol", "show", "hostnames", nodes).split(), numbers)
    return found


def recorded(daemon, job):
    """Node -> GPU indexes of the job's last run, as the database tells."""
    with daemon.history() as history:
        detail = history.job(job)
    return {part.node: part.gpu_indexes for part in detail.runs[-1].allocations} if detail and detail.runs else {}


def verdict(daemon, job):
    """Whether the job's last run followed the active policy; None until that is decided."""
    with daemon.history() as history:
        detail = history.job(job)
    return detail.runs[-1].verdicts.get(ACTIVE) if detail and detail.runs else None


def advice(daemon, job):
    return next((row for row in daemon.rows("recommendations", policy=ACTIVE) if row["job_id"] == job), None)


def running(chain, *jobs):
    """Wait until Slurm runs all of them."""
    for job in jobs:
        chain.wait_for(lambda job=job: chain.run("squeue", "-h", "-j", job, "-t", "RUNNING"))
    return jobs


def by_class(daemon, **filters):
    """Return watts by power class."""
    watts = {}
    for row in daemon.rows("waste", **filters):
        watts[row["power_class"]] = watts.get(row["power_class"], 0.0) + (row["power_watts"] or 0.0)
    return watts


def wall(chain, number):
    """Return the watts of a node's meter on ipmi_exporter's own page."""
    page = requests.get(chain.ipmi_url, params={"target": f"127.0.1.{number}:6230", "module": "default"}, timeout=60)
    return float(re.search(r"^ipmi_dcmi_power_consumption_watts (\S+)", page.text, re.MULTILINE)[1])


def test_every_source_answers_and_promtool_finds_no_fault_in_the_page(daemon, cluster):
    cluster.wait_for(lambda: daemon.samples("idlewatt_advice_timestamp_seconds") or not daemon.rows("recommendations"))

    sources = daemon.rows("sources")
    checked = subprocess.run(["promtool", "check", "metrics"], input=daemon.page(), text=True, capture_output=True,
                             timeout=60)

    assert [(source["kind"], source["up"], {target["up"] for target in source["targets"]}) for source in sources] == [
        ("dcgm", True, {True}), ("ipmi", True, {True}), ("node", True, {True}), ("slurm_rest", True, {True})]
    assert (checked.returncode, checked.stderr) == (0, "")
    assert cluster.wait_for(lambda: cluster.asked('up{job="idlewatt"} == 1'))


def test_what_users_submit_is_recorded_with_its_nodes_and_gpu_indexes(daemon, cluster):
    one = cluster.sbatch("-p", "A100", "--gres=gpu:a100:1", "-w", "dgx-a100-02", "-J", "one")
    three = cluster.sbatch("-p", "A100", "--gres=gpu:a100:3", "-w", "dgx-a100-02", "-c8", "-J", "three")
    running(cluster, one, three)
    wide = cluster.sbatch("-p", "A100", "-N2", "--gres=gpu:a100:4", "-J", "wide")
    array = cluster.sbatch("-p", "V100", "--gres=gpu:v100:2", "--array=0-3", "-J", "sweep")
    jobs = running(cluster, one, three, wide, *(f"{array}_{task}" for task in range(4)))

    for job in jobs:
        expected = held(cluster, job)
        assert expected
        cluster.wait_for(lambda job=job, expected=expected: recorded(daemon, job) == expected)
    assert list(held(cluster, wide)) == ["dgx-a100-01", "dgx-a100-02"]

    cluster.cancel_all()
    for job in jobs:
        cluster.wait_for(lambda job=job: ended(daemon, job) is JobState.CANCELLED)


def test_setup_finds_the_slurm_that_is_there_and_writes_what_reads_it(chain, tmp_path):
    made = tmp_path / "config.yml"
    done = CliRunner().invoke(main, ["setup", f"--slurm-rest=unix:{chain.rest_socket}", "--port=dcgm=9",
                                     f"--output={made}"])
    assert done.exit_code == 0, done.output
    probed = CliRunner().invoke(main, ["check-config", "--probe", str(made)])
    assert probed.exit_code == 0, probed.output
    assert re.search(r"ok +slurm_rest: 4 nodes with 32 GPUs", probed.stdout)


def ended(daemon, job):
    """Return how the job ended, None while no end of its only run is known."""
    with daemon.history() as history:
        detail = history.job(job)
    (run,) = detail.runs
    return detail.job.state if run.end_s is not None else None


def test_the_classes_add_up_to_the_wall_meters(daemon, cluster):
    running(cluster, cluster.sbatch("-p", "A100", "--gres=gpu:a100:5", "-w", "dgx-a100-01"),
            cluster.sbatch("-p", "V100", "--gres=gpu:v100:8", "-w", "dgx-v100-02"))

    cluster.wait_for(lambda: [wall(cluster, number) > 2000 for number in (1, 2, 3, 4)] == [True, False, False, True])

    def agree():
        classes = [sum(by_class(daemon, node=node).values()) for node in NODES]
        return classes == pytest.approx([wall(cluster, number) for number in (1, 2, 3, 4)], abs=0.01)

    cluster.wait_for(agree)
    total = sum(wall(cluster, number) for number in (1, 2, 3, 4))
    assert sum(value for _, value in daemon.samples("idlewatt_power_watts")) == pytest.approx(total, abs=0.01)
    assert daemon.value("idlewatt_unaccounted_power_watts") == pytest.approx(0, abs=0.01)
    cluster.wait_for(lambda: cluster.asked("sum(idlewatt_power_watts)") == pytest.approx([total], abs=0.01))
    # The energy counter grows by what the meters show.
    cluster.wait_for(lambda: cluster.asked("sum(rate(idlewatt_energy_joules_total[20s]))")
                     == pytest.approx(cluster.asked("sum(avg_over_time(ipmi_dcmi_power_consumption_watts[20s]))"),
                                      rel=0.03))


def test_gpus_are_called_by_what_they_do(daemon, cluster):
    cluster.set_load("dgx-a100-02", 0.0)
    try:
        # Slurm plans the waiting job where GPUs are free first, and a planned node's GPUs are not stranded: the job
        # on the other node must end first, also where both start in the same second.
        running(cluster, cluster.sbatch("-p", "A100", "--gres=gpu:a100:8", "-w", "dgx-a100-02", "-J", "asleep", "-t30",
                                        script="sleep 900"),
                cluster.sbatch("-p", "A100", "--gres=gpu:a100:3", "-w", "dgx-a100-01", "-J", "awake", "-t120",
                               script="sleep 900"))
        cluster.sbatch("-p", "A100", "--gres=gpu:a100:8", "-J", "too-big")

        def states(node):
            (row,) = daemon.rows("nodes", node=node)
            return {state: count for state, count in row["gpus"].items() if count}

        cluster.wait_for(lambda: by_class(daemon, node="dgx-a100-02").keys() == {"allocated_idle", "host_active"})
        # While jobs of before wind down, their GPUs are reserved for a moment.
        cluster.wait_for(lambda: by_class(daemon, node="dgx-a100-01").keys() - {"allocated_underused"}
                         == {"productive", "stranded", "host_active"})
        assert states("dgx-a100-01") == {"allocated": 3, "stranded": 5}
        cluster.wait_for(lambda: by_class(daemon, node="dgx-v100-01").keys() == {"idle_unallocated",
                                                                                 "node_overhead_empty"})
        assert daemon.value("idlewatt_stranded_gpus", partition="A100", cause="insufficient") == 5
        assert {row["user"] for row in daemon.rows("waste", node="dgx-a100-02") if row["job_id"]} == {"nobody"}
    finally:
        (cluster.root / "slurm/jobmap/dgx-a100-02/load").unlink()


def test_a_busy_gpu_that_nobody_holds_is_outside_the_scheduler_and_not_wasted(daemon, cluster):
    node, gpu = "dgx-v100-02", "5"
    cluster.wait_for(lambda: by_class(daemon, node=node).keys() == {"idle_unallocated", "node_overhead_empty"})
    folder = cluster.root / "slurm/jobmap" / node
    cluster.set_load(node, 1.0)
    (folder / gpu).write_text("whoever\n")
    try:
        cluster.wait_for(lambda: daemon.value("idlewatt_outside_scheduler_since_timestamp_seconds", node=node, gpu=gpu))
        cluster.wait_for(lambda: by_class(daemon, node=node) == pytest.approx(
            {"outside_scheduler": 279, "idle_unallocated": 7 * 55, "host_active": 1500}, rel=0.2))
        assert daemon.value("idlewatt_power_watts", partition="V100", **{"class": "outside_scheduler"}) > 0
        cluster.wait_for(lambda: daemon.value("idlewatt_node_wasted_power_watts", node=node)
                         == pytest.approx(7 * 55, rel=0.2))
        assert "outside_scheduler" not in {labels["reason"] for labels, _ in daemon.samples(
            "idlewatt_wasted_power_watts")}
        page = requests.get(f"{daemon.url}/", timeout=60).text
        assert f"<code>{node}</code> GPU {gpu}:" in page.partition('id="outside"')[2]
        assert cluster.wait_for(lambda: cluster.asked('sum(idlewatt_power_watts{class="outside_scheduler"}) > 0'))
    finally:
        (folder / gpu).unlink()
        (folder / "load").unlink()
    cluster.wait_for(lambda: by_class(daemon, node=node).keys() == {"idle_unallocated", "node_overhead_empty"})
    assert daemon.samples("idlewatt_outside_scheduler_since_timestamp_seconds") == []


def test_names_that_no_terminal_should_see_blind_nobody_and_are_shown_cleaned(daemon, cluster):
    hostile = {b"Gr\xf6\xdfe": f"Gr{STAND_IN}{STAND_IN}e",
               b"two\n7|7|big|mallory\x1b[2J": f"two{STAND_IN}7|7|big|mallory{STAND_IN}[2J"}
    began = time.time()
    for name in hostile:
        cluster.sbatch("--hold", "-p", "A100", "--gres=gpu:a100:1", "-J", os.fsdecode(name))

    cluster.wait_for(lambda: {job["name"] for job in daemon.rows("jobs", state="pending")} == set(hostile.values()))
    (slurm,) = (row for row in daemon.rows("sources") if row["kind"] == "slurm_rest")
    assert slurm["up"]
    assert slurm["last_success_s"] > began
    cluster.wait_for(lambda: not sum(value for _, value in daemon.samples("idlewatt_unmeasured_gpus")))
    page = requests.get(f"{daemon.url}/", timeout=60)
    assert page.status_code == 200
    assert [name for name in hostile.values() if name not in page.text] == []
    listed = CliRunner().invoke(main, ["jobs", "--state=pending", "--format=csv", f"--url={daemon.url}"])
    assert (listed.exit_code, listed.exception) == (0, None)
    assert listed.stdout.replace("\n", "").isprintable()
    assert {row["name"] for row in csv.DictReader(listed.stdout.splitlines())} == set(hostile.values())
    assert {row["user"] for row in csv.DictReader(listed.stdout.splitlines())} == {"nobody"}


def test_a_waiting_job_is_held_then_given_a_node_and_what_becomes_of_it_is_recorded(daemon, cluster):
    """Both nodes are full; then room appears, but Slurm keeps it for an older job, and the operator decides."""
    before = followed(daemon)
    running(cluster, *(cluster.sbatch("-p", "A100", f"--gres=gpu:a100:{gpus}", "-w", node, "-t60", script="sleep 900")
                       for node, gpus in (("dgx-a100-01", 4), ("dgx-a100-02", 2))))
    full = running(cluster, *(cluster.sbatch("-p", "A100", f"--gres=gpu:a100:{gpus}", "-w", node, "-t90")
                              for node, gpus in (("dgx-a100-01", 4), ("dgx-a100-02", 6))))
    wide = cluster.sbatch("-p", "A100", "-N2", "--gres=gpu:a100:8", "-t", "2-0", "-J", "wide")
    obedient, astray, hasty = (cluster.sbatch("-p", "A100", "--gres=gpu:a100:2", "-t", limit, "-J", "small")
                               for limit in ("120", "130", "2-0"))

    hold = cluster.wait_for(lambda: advice(daemon, obedient), COMPILED_WITHIN_S)
    assert (hold["action"], hold["reason"]) == (
        "hold", "no node with GPUs of type a100 is free (2 of 2 busy)")
    assert hold["expected_start_s"] > time.time() + 1800
    assert not daemon.samples("idlewatt_advice_info")

    cluster.run("scancel", *full)
    start = cluster.wait_for(lambda: (row := advice(daemon, obedient))["action"] == "start" and row)
    assert (start["placement"], start["policy"]) == ({"nodes": ["dgx-a100-01"], "gpus": [2]}, ACTIVE)
    assert start["reason"] == "leaves 2 GPUs free beside running jobs"
    assert [other["placement"]["nodes"] for other in start["alternatives"]] == [["dgx-a100-02"]]
    assert cluster.run("squeue", "-h", "-j", obedient, "-o", "%t").strip() == "PD"
    labels = {"policy": ACTIVE, "objective": "wait", "job_id": obedient, "node": "dgx-a100-01", "gpus": "2"}
    cluster.wait_for(lambda: daemon.value("idlewatt_advice_info", **labels) == 1)
    selector = ",".join(f'{name}="{value}"' for name, value in labels.items())
    cluster.wait_for(lambda: cluster.asked(f"idlewatt_advice_info{{{selector}}}") == [1])
    cluster.wait_for(lambda: advice(daemon, astray)["placement"]["nodes"] == ["dgx-a100-01"])
    assert advice(daemon, hasty)["action"] == "hold"

    steer(cluster, obedient, "dgx-a100-01")
    cluster.wait_for(lambda: verdict(daemon, obedient) == "followed")
    with daemon.looking_away():
        steer(cluster, astray, "dgx-a100-02")
        steer(cluster, hasty, "dgx-a100-01")
    cluster.wait_for(lambda: verdict(daemon, astray) == "elsewhere")
    # Started hours before its time, where it was held for or elsewhere.
    cluster.wait_for(lambda: verdict(daemon, hasty) in ("earlier", "elsewhere"))
    # At least: Slurm may have let one of the first jobs wait for a second, in which there was advice on it.
    least = (before[0] + 3, before[1] + 1)
    cluster.wait_for(lambda: all(map(operator.ge, followed(daemon), least)))
    assert advice(daemon, wide)["action"] == "hold"


def steer(chain, job, node):
    """Do as an operator does who takes an advice: name the node, and put the job first."""
    chain.run("scontrol", "update", f"jobid={job}", f"reqnodelist={node}", "priority=4000000000")
    running(chain, job)
    assert list(held(chain, job)) == [node]


def followed(daemon):
    """Return how many runs the active policy advised on, and how many followed."""
    counts = (daemon.value(f"idlewatt_advice_{name}_total", policy=ACTIVE) for name in ("issued", "followed"))
    return tuple(count or 0 for count in counts)


def test_read_through_prometheus_and_commands_the_cluster_looks_the_same(daemon, distant, cluster):
    # Longer than a slow machine takes to start the second daemon, which reads jobs once.
    running(cluster, cluster.sbatch("-p", "A100", "--gres=gpu:a100:4", "-J", "four", script="sleep 900"),
            cluster.sbatch("-p", "V100", "-N2", "--gres=gpu:v100:2", "-J", "two-each", script="sleep 900"))
    waiting = cluster.sbatch("-p", "V100", "--gres=gpu:v100:8", "-J", "waits")
    cluster.wait_for(lambda: {job["reason_text"] for job in daemon.rows("jobs", state="pending")} == {"Resources"})
    distant.start()
    try:
        for node in NODES:
            cluster.wait_for(lambda node=node: node_facts(distant, node) == node_facts(daemon, node))
            # Counters that are read at different moments; into which class they go depends on floors yet to be learned.
            cluster.wait_for(lambda node=node: gpu_watts(distant, node)
                             == pytest.approx(gpu_watts(daemon, node), rel=0.1))
        assert shapes(distant) == shapes(daemon)
        told = cluster.wait_for(lambda: advice(distant, waiting), COMPILED_WITHIN_S)
        assert told["reason"] == advice(daemon, waiting)["reason"]

        # It asks for jobs every ten minutes: only the accounts can tell of this one.
        blink = cluster.sbatch("-p", "A100", "--gres=gpu:a100:1", "-J", FORGED, script="exit 3")
        cluster.wait_for(lambda: recorded(distant, blink))
        assert ended(distant, blink) is JobState.FAILED
        assert job_names(distant, blink, "999") == [FORGED.replace("\n", STAND_IN), None]
        assert distant.end() == 0
    finally:
        distant.close()


def job_names(daemon, *jobs):
    """Return the names of jobs as recorded; None where there is no such job."""
    with daemon.history() as history:
        found = [history.job(job) for job in jobs]
    return [detail.job.name if detail is not None else None for detail in found]


def node_facts(daemon, node):
    (row,) = daemon.rows("nodes", node=node)
    return row["power_watts"], row["power_source"], row["gpus"]


def gpu_watts(daemon, node):
    """Return the watts of a node's GPUs, no number while one is not measured, as by a daemon that is late."""
    gpus = [row["power_watts"] for row in daemon.rows("waste", node=node) if row["gpu"] is not None]
    return sum(math.nan if watts is None else watts for watts in gpus)


def shapes(daemon):
    """Return what both ways of asking Slurm tell of the jobs alike."""
    return {job["job_id"]: (job["submit_s"], job["state"], job["partition"], job["user"], job["name"], job["limit_s"],
                            job["request"]["gpus"], job["request"]["nodes"],
                            [(part["node"], part["gpu_indexes"]) for part in job["allocations"]])
            for job in daemon.rows("jobs") if job["state"] in ("running", "pending")}


def test_advice_is_followed_on_slurm_and_every_change_is_noted(cluster, daemon, tmp_path):
    slurm = Slurm(cluster.root)
    usual = re.search(r"^SchedulerParameters=(.*)$", cluster.slurm_conf.read_text(), re.MULTILINE)[1]
    rules = follow_rules(f"dry_run: false\nledger: {tmp_path}/ledger.db\nkill_switch: {tmp_path}/stop\n"
                         f"daemon: {{url: '{daemon.url}'}}\nslurm: {{slurm_conf: {cluster.slurm_conf}}}\n"
                         "allow: {partitions: [A100], users: [nobody]}\n")
    slurm.schedule(FROZEN)
    try:
        job = cluster.sbatch("--gres=gpu:2", "--time=10")
        told = cluster.wait_for(lambda: (row := advice(daemon, job)) and row["action"] == "start" and row,
                                2 * COMPILED_WITHIN_S)
        with FollowLedger.own(rules.ledger) as ledger:
            follower = Follower(rules, FollowedSlurm(rules.slurm), ledger, Adviser(rules).advice, "test")
            cluster.wait_for(lambda: follower.look() or follower.tally.standing)
            (change,) = follower.tally.standing
            assert (change.state, change.after, change.policy) == ("pinned", told["placement"]["nodes"][0], ACTIVE)
            assert cluster.run("squeue", "-h", "-j", job, "-o", "%n").strip() == change.after
            # A daemon that says nothing any more is believed no more.
            with daemon.looking_away():
                hurried = Adviser(rules.model_copy(update={"daemon": rules.daemon.model_copy(update={"timeout": 0.5})}))
                Follower(rules, FollowedSlurm(rules.slurm), ledger, hurried.advice, "test").look()
            assert cluster.run("squeue", "-h", "-j", job, "-o", "%n").strip() == ""
            cluster.wait_for(lambda: follower.look() or follower.tally.standing)
            slurm.schedule(usual)
            running(cluster, job)
            follower.look()
            (change,) = follower.tally.standing
            assert change.state == "started"
            assert cluster.run("squeue", "-h", "-j", job, "-o", "%N").strip() == change.after
    finally:
        slurm.schedule(usual)


@pytest.mark.long
def test_restarts_lose_nothing_and_double_nothing(daemon, cluster):
    submit = ("-p", "A100", "--gres=gpu:a100:1")
    across = cluster.sbatch(*submit, "-J", "across")
    cluster.wait_for(lambda: recorded(daemon, across))
    cluster.wait_for(lambda: any(joules for _, joules in daemon.samples("idlewatt_energy_joules_total")))
    assert daemon.end(signal.SIGTERM) == 0
    watched, measured = time.time() - daemon.seen_s, measured_s(daemon)
    assert watched / 2 - 5 < measured <= time.time() - daemon.started_s
    unseen = cluster.sbatch(*submit, "-J", "unseen", script="sleep 1")
    begun = running(cluster, cluster.sbatch(*submit, "-J", "begun"))[0]
    cluster.wait_for(lambda: not cluster.run("squeue", "-h", "-t", "all", "-o", "%i %T").count(f"{unseen} "))
    daemon.start()
    cluster.wait_for(lambda: recorded(daemon, begun) == held(cluster, begun))
    cluster.sbatch(*submit, "--array=0-9", "-J", "flock", script="sleep 2")

    assert daemon.end(signal.SIGKILL) == -signal.SIGKILL
    cluster.run("scancel", across)
    daemon.start()
    cluster.requeue(begun)
    running(cluster, begun)
    cluster.cancel_all()

    recorded_as_accounted(daemon, cluster)
    assert daemon.end(signal.SIGTERM) == 0
    assert measured < measured_s(daemon) <= time.time() - daemon.started_s
    with sqlite3.connect(daemon.database) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def recorded_as_accounted(daemon, cluster):
    """Wait until the database holds the very runs that accounting tells; else fail with both and what was logged."""
    def same():
        return runs_in_the_database(daemon) == runs_in_the_accounts(cluster, daemon.started_s)

    try:
        cluster.wait_for(same, 60)
    except AssertionError:
        assert runs_in_the_database(daemon) == runs_in_the_accounts(cluster, daemon.started_s), daemon.log()
        raise


def measured_s(daemon):
    """Return for how long the GPU was measured that was measured longest."""
    with daemon.history() as history:
        total = Counter()
        for rollup in history.rollups(0, math.inf):
            total[rollup.uuid] += rollup.measured_seconds
    return max(total.values())


def runs_in_the_database(daemon):
    """Return job, start and end of every run since the daemon was started first."""
    with sqlite3.connect(daemon.database) as database:
        return sorted(database.execute(
            "SELECT job_id, CAST(CAST(runs.start_s AS INTEGER) AS TEXT), CAST(CAST(runs.end_s AS INTEGER) AS TEXT) "
            "FROM runs JOIN jobs ON jobs.id = runs.job WHERE runs.start_s > ?", (daemon.started_s,)))


def runs_in_the_accounts(chain, since_s):
    """Return the same of sacct, each run of a requeued job on its own; jobs that ended while they waited had none."""
    lines = chain.run("env", "SLURM_TIME_FORMAT=%s", "sacct", "-anXDP", "-S", "now-1day", "-o",
                      "JobID,Start,End,NodeList").splitlines()
    runs = [tuple(line.split("|")[:3]) for line in lines if not line.endswith("|None assigned")]
    # Other tests had jobs before, some of them resized, which accounts tell as several.
    return sorted(run for run in runs if int(run[1]) > since_s)
