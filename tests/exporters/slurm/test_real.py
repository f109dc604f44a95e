"""Real Slurm 22.05, read through each transport: what sbatch submitted is what idlewatt sees."""

import os
import time

import pytest
import requests

from idlewatt.exporters.fabric import SlurmTopologyConfig
from idlewatt.exporters.slurm.cli import SlurmCliConfig
from idlewatt.exporters.slurm.rest import SlurmRestConfig
from idlewatt.exporters.slurm.source import SlurmSource
from idlewatt.exporters.source import SourceError
from idlewatt.storage.records import Job, JobState, NodeState

# Whoever comes second waits until the other has done with the one chain of this machine.
pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(900)]

TRANSPORTS = ("socket", "tcp", "commands")


@pytest.fixture(scope="module", params=TRANSPORTS)
def source(request, chain, tmp_path_factory):
    """The same cluster over slurmrestd's socket, over TCP with a token, and by commands."""
    token = tmp_path_factory.mktemp("slurm") / "token"
    token.write_text(chain.token())
    configs = {
        "socket": SlurmRestConfig(url=f"unix:{chain.rest_socket}"),
        "tcp": SlurmRestConfig(url=chain.rest_url, user="root", token_file=token),
        "commands": SlurmCliConfig(slurm_conf=chain.slurm_conf),
    }
    source = configs[request.param].build(time.time)
    yield source
    source.close()


@pytest.fixture
def cluster(chain):
    """The chain with an empty queue, before and after."""
    chain.cancel_all()
    yield chain
    chain.cancel_all()


def jobs_named(source: SlurmSource, name: str, state: JobState = JobState.RUNNING) -> list[Job]:
    return [job for job in source.read().jobs if job.name == name and job.state is state]


def test_the_four_nodes_are_seen_with_their_gpus_features_and_partitions(source, cluster):
    snapshot = source.read()

    assert [(node.name, node.gpus, node.gpu_model, node.cpus, node.partitions, node.state)
            for node in snapshot.nodes] == [
        ("dgx-a100-01", 8, "a100", 256, ("A100",), NodeState.UP),
        ("dgx-a100-02", 8, "a100", 256, ("A100",), NodeState.UP),
        ("dgx-v100-01", 8, "v100", 80, ("V100",), NodeState.UP),
        ("dgx-v100-02", 8, "v100", 80, ("V100",), NodeState.UP)]
    assert [(partition.name, partition.nodes, partition.max_time_s, partition.default)
            for partition in snapshot.partitions] == [
        ("A100", ("dgx-a100-01", "dgx-a100-02"), 172800, True),
        ("V100", ("dgx-v100-01", "dgx-v100-02"), 172800, False)]
    assert all(health.up and not health.error for health in source.health())


def test_two_running_jobs_hold_disjoint_gpu_indexes_that_their_node_reports_as_used(source, cluster):
    for _ in range(2):
        cluster.sbatch("-p", "A100", "-w", "dgx-a100-02", "--gres=gpu:a100:3", "-c4", "-J", "indexed")
    first, second = cluster.wait_for(lambda: len(found := jobs_named(source, "indexed")) == 2 and found)

    allocations = [*first.allocations, *second.allocations]
    assert {allocation.node for allocation in allocations} == {"dgx-a100-02"}
    indexes = sorted(index for allocation in allocations for index in allocation.gpu_indexes)
    assert len(set(indexes)) == 6
    node = next(node for node in source.read().nodes if node.name == "dgx-a100-02")
    assert (node.gpus_allocated, node.gpu_indexes_allocated) == (6, tuple(indexes))
    assert (first.request.gpus, first.request.gpu_model, first.user) == (3, "a100", "nobody")


def test_a_job_over_two_nodes_has_the_indexes_of_each(source, cluster):
    cluster.sbatch("-p", "A100", "-w", "dgx-a100-01", "--gres=gpu:a100:2", "-J", "neighbour")
    cluster.wait_for(lambda: jobs_named(source, "neighbour"))
    cluster.sbatch("-p", "A100", "-N2", "--gres=gpu:a100:4", "-J", "wide")
    (job,) = cluster.wait_for(lambda: jobs_named(source, "wide"))

    (neighbour,) = jobs_named(source, "neighbour")
    here, there = job.allocations
    assert (here.node, there.node) == ("dgx-a100-01", "dgx-a100-02")
    assert (len(here.gpu_indexes), len(there.gpu_indexes)) == (4, 4)
    assert not set(here.gpu_indexes) & set(neighbour.allocations[0].gpu_indexes)
    assert (job.request.gpus, job.request.nodes, job.request.gpus_per_node) == (8, 2, 4)


def test_a_running_job_gives_up_whole_nodes_its_last_ones_and_never_grows(source, cluster):
    # What recommendations on scaling says that Slurm can do.
    job_id = cluster.sbatch("-p", "A100", "-N2", "--gres=gpu:a100:2", "-J", "shrinking")
    cluster.wait_for(lambda: jobs_named(source, "shrinking"))
    cluster.run("scontrol", "update", f"jobid={job_id}", "numnodes=1")
    (job,) = cluster.wait_for(lambda: [job for job in jobs_named(source, "shrinking") if len(job.allocations) == 1])
    assert [(part.node, part.gpus) for part in job.allocations] == [("dgx-a100-01", 2)]
    for more in ("numnodes=2", "trespernode=gres:gpu:a100:4"):
        with pytest.raises(AssertionError):
            cluster.run("scontrol", "update", f"jobid={job_id}", more)


def test_tasks_of_an_array_run_under_their_own_names_and_the_rest_stands_for_many(source, cluster):
    array = cluster.sbatch("-p", "V100", "--gres=gpu:v100:1", "--array=0-9%2", "-J", "array")
    running = cluster.wait_for(lambda: len(found := jobs_named(source, "array")) == 2 and found)

    assert [job.job_id for job in running] == [f"{array}_0", f"{array}_1"]
    (rest,) = jobs_named(source, "array", JobState.PENDING)
    assert (rest.job_id, rest.tasks, rest.reason_text) == (array, 8, "JobArrayTaskLimit")


def test_a_pending_job_tells_why_it_waits_and_never_a_start(source, cluster):
    cluster.sbatch("-p", "V100", "-N2", "--gres=gpu:v100:8", "-t5", "-J", "full")
    cluster.wait_for(lambda: jobs_named(source, "full"))
    cluster.sbatch("-p", "V100", "--gpus=9", "-t1", "-J", "waits", "-x", "dgx-a100-01")

    job = cluster.wait_for(lambda: next((job for job in jobs_named(source, "waits", JobState.PENDING)
                                         if job.reason_text == "Resources" and job.expected_start_s), None))

    assert job.start_s is None
    assert job.end_s is None
    assert job.limit_s == 60
    assert job.expected_start_s > time.time()
    assert (job.request.gpus, job.request.gpus_per_node, job.request.excluded_nodes) == (9, None, ("dgx-a100-01",))


def test_a_drained_node_and_a_reserved_one_take_no_jobs(source, cluster):
    cluster.run("scontrol", "update", "nodename=dgx-v100-02", "state=drain", "reason=bad NVLink")
    cluster.run("scontrol", "create", "reservation", "reservationname=maint", "starttime=now", "duration=60",
                "nodes=dgx-v100-01", "users=root", "flags=maint")
    try:
        def nodes():
            found = {node.name: node for node in source.read().nodes}
            return found["dgx-v100-01"].state is NodeState.MAINTENANCE and found

        seen = cluster.wait_for(nodes)
        assert (seen["dgx-v100-02"].state, seen["dgx-v100-02"].reason) == (NodeState.DRAINED, "bad NVLink")
        assert seen["dgx-v100-01"].reservation == "maint"
    finally:
        cluster.run("scontrol", "delete", "reservationname=maint")
        cluster.run("scontrol", "update", "nodename=dgx-v100-02", "state=resume")


def test_each_run_of_a_requeued_job_is_completed_from_the_accounts(source, cluster):
    began = time.time() - 1
    job = cluster.sbatch("-p", "A100", "--gres=gpu:a100:2", "-J", "again")
    cluster.wait_for(lambda: jobs_named(source, "again"))
    cluster.requeue(job)
    cluster.wait_for(lambda: jobs_named(source, "again"))
    cluster.run("scancel", job)

    runs = cluster.wait_for(lambda: len(found := [run for run in source.completed(began) if run.job_id == job]) == 2
                            and found)

    first, second = sorted(runs, key=lambda run: run.start_s)
    assert (first.state, second.state) == (JobState.PREEMPTED, JobState.CANCELLED)
    assert first.end_s <= second.start_s
    assert [(run.request.gpus, run.allocations[0].gpus, run.allocations[0].gpu_indexes) for run in runs] \
        == [(2, 2, None)] * 2


def test_a_job_that_is_resized_is_one_run_in_the_accounts_submitted_as_the_controller_shows(source, cluster):
    began = time.time() - 1
    job = cluster.sbatch("-p", "A100", "-N2", "--gres=gpu:a100:2", "-J", "shrinks")
    (seen,) = cluster.wait_for(lambda: [seen for seen in jobs_named(source, "shrinks") if len(seen.allocations) == 2])
    # Accounts know whole seconds: a resize in the second of the start looks like a submission.
    cluster.wait_for(lambda: time.time() >= seen.start_s + 2)
    cluster.run("scontrol", "update", f"jobid={job}", "NumNodes=1")
    cluster.wait_for(lambda: len(jobs_named(source, "shrinks")[0].allocations) == 1)
    cluster.run("scancel", job)

    (run,) = cluster.wait_for(lambda: [run for run in source.completed(began) if run.job_id == job])

    assert (run.submit_s, run.start_s, run.state) == (seen.submit_s, seen.start_s, JobState.CANCELLED)
    assert [part.gpus for part in run.allocations] == [2]


def test_a_job_shorter_than_a_scrape_is_found_in_the_accounts(source, cluster):
    began = time.time() - 1
    job = cluster.sbatch("-p", "V100", "--gres=gpu:v100:1", "-J", "blink", script="exit 3")

    (run,) = cluster.wait_for(lambda: [run for run in source.completed(began) if run.job_id == job])

    assert run.state is JobState.FAILED
    assert run.exit_code in (3, None)  # slurmrestd 22.05 does not know
    assert began <= run.submit_s <= run.start_s <= run.end_s <= time.time() + 1
    assert run.allocations[0].node.startswith("dgx-v100")


FORGED = ("99|99|big|mallory|nlp|A100|normal|COMPLETED|0:0|2026-11-20T10:00:00|2026-11-20T10:00:00|2026-11-20T10:01:00|"
          "2026-11-20T11:01:00|90|1|cpu=8,mem=8G,node=1,gres/gpu=16|cpu=8,mem=8G,node=1,gres/gpu=16|dgx-a100-01|5|")
HOSTILE = {
    "no UTF-8": b"Gr\xf6\xdfe", "CESU surrogates": b"a\xed\xa0\xbd\xed\xb8\x80", "controls": b"c\x01\x1b[2J\x7f|",
    "a row of sacct": f"x\n{FORGED}\ny".encode(), "rows with an end": f"x\n{FORGED}|\n{FORGED}|\n".encode(),
    "JSON": b'"q\\', "all line ends": "a\r\n\u2028\x85b".encode()}


def test_a_job_name_blinds_nobody_and_forges_nothing(source, cluster):
    began = time.time() - 1
    jobs = {}
    for kind, name in HOSTILE.items():
        jobs[kind] = cluster.sbatch("-p", "V100", "-J", os.fsdecode(name), script="exit 0")
        cluster.sbatch("--hold", "-p", "V100", "-J", os.fsdecode(name))

    snapshot = source.read()
    assert {job.job_id for job in snapshot.jobs} >= set(jobs.values())
    assert all(job.name.isprintable() for job in snapshot.jobs)
    assert len(snapshot.nodes) == 4
    assert all(not health.error for health in source.health())
    own = cluster.wait_for(lambda: set(jobs.values()) <= set(found := {
        run.job_id: run for run in source.completed(began)}) and found)
    assert "99" not in own
    assert {own[job].user for job in jobs.values()} <= {"nobody", ""}  # slurmrestd 22.05 knows no user
    assert {own[job].request.gpus for job in jobs.values()} == {0}
    assert [kind for kind, job in jobs.items() if not own[job].name or not own[job].name.isprintable()] == []
    assert all(not health.error for health in source.health())


def test_no_token_is_refused_as_permanent(chain, monkeypatch):
    monkeypatch.delenv("SLURM_JWT", raising=False)

    with pytest.raises(SourceError, match="401") as refused:
        SlurmRestConfig(url=chain.rest_url, user="root").build(time.time).read()

    assert refused.value.permanent


def test_a_wrong_token_is_told_in_slurms_own_words(chain, monkeypatch):
    monkeypatch.setenv("SLURM_JWT", "no token")

    with pytest.raises(SourceError, match="slurmctld config is unable to load"):
        SlurmRestConfig(url=chain.rest_url, user="root").build(time.time).read()


def test_commands_without_a_controller_are_no_empty_cluster(chain, tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text(chain.slurm_conf.read_text().replace("SlurmctldPort=16817", "SlurmctldPort=16818")
                    + "MessageTimeout=2\n")

    with pytest.raises(SourceError, match="nodes cannot be read: no nodes in the answer: Unspecified error"):
        SlurmCliConfig(slurm_conf=conf, timeout=30).build(time.time).read()


def test_the_whole_chain_carries_a_job_from_sbatch_to_prometheus(cluster):
    job = cluster.sbatch("-p", "A100", "--gres=gpu:a100:3", "-J", "chained")
    query = f'sum(DCGM_FI_DEV_POWER_USAGE{{hpc_job="{job}"}})'

    def answer():
        found = requests.get(f"{cluster.prometheus_url}/api/v1/query", params={"query": query}, timeout=60).json()
        return found["data"]["result"]

    (sample,) = cluster.wait_for(answer)
    assert float(sample["value"][1]) > 3 * 60
    up = requests.get(f"{cluster.prometheus_url}/api/v1/query", params={"query": 'up{job!="idlewatt"} == 1'},
                      timeout=60)
    assert len(up.json()["data"]["result"]) == 9


def test_scontrol_tells_which_switch_each_node_hangs_on(chain):
    fabric = SlurmTopologyConfig(slurm_conf=chain.slurm_conf).build(time.time).read()

    assert {node: (leaf, fabric.spine(node)) for node, leaf in fabric.leaf.items()} == {
        "dgx-a100-01": ("leaf1", "spine1"), "dgx-a100-02": ("leaf1", "spine1"),
        "dgx-v100-01": ("leaf2", "spine1"), "dgx-v100-02": ("leaf2", "spine1")}
