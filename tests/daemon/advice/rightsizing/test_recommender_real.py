"""Recommendations on allocation beside a real Slurm: what jobs hold is what Slurm gave them."""

import re
import time

import pytest

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.rightsizing.recommender import ShareRecommender
from idlewatt.daemon.settings.recommenders import AllocationSettings
from idlewatt.exporters.slurm.rest import SlurmRestConfig
from idlewatt.storage.history import History
from idlewatt.storage.telemetry import GpuReading, JobReading, Telemetry

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(900)]

MINUTE_S = 60.0


@pytest.fixture
def jobs(chain):
    """Two jobs that are not alike on one node: one with many cores, one with few."""
    chain.cancel_all()
    started = [chain.sbatch("-p", "V100", "-w", "dgx-v100-01", "--gres=gpu:v100:4", "-n1", "-c", cpus, "-t60",
                            "-J", name, script="sleep 900") for name, cpus in (("train", "56"), ("decode", "24"))]
    for job in started:
        chain.wait_for(lambda job=job: chain.run("squeue", "-h", "-j", job, "-o", "%t").strip() == "R")
    yield started
    chain.cancel_all()


def test_what_a_real_job_does_not_use_of_what_slurm_gave_it_goes_to_its_neighbour(chain, jobs, tmp_path):
    idle, busy = jobs
    source = SlurmRestConfig(url=f"unix:{chain.rest_socket}").build(time.time)
    given = {job: int(re.search(r"NumCPUs=(\d+)", chain.run("scontrol", "show", "job", job))[1]) for job in jobs}
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        shares = ShareRecommender(AllocationSettings(window="10m"), history)
        snapshot, now_s = source.read(), time.time()
        held = {job.raw_id: job for job in snapshot.jobs if job.state.active}
        for minute in range(12):
            cores = {idle: 7.0, busy: float(given[busy])}
            readings = tuple(JobReading(job, "dgx-v100-01", now_s + minute * MINUTE_S, minute * MINUTE_S * used)
                             for job, used in cores.items())
            gpus = tuple(GpuReading(f"G{index}", "dgx-v100-01", index, now_s + minute * MINUTE_S, activity=0.5)
                           for index in range(8))
            said = shares.recommend(
                RecommenderContext(now_s + minute * MINUTE_S, snapshot, Telemetry(gpus, (), readings)))
        assert {use.job_id for use in history.uses()} == set(jobs)
    source.close()
    rows = {row.job_id: row for row in said.rows}
    assert {job: rows[job].cpus for job in jobs} == given == {str(raw): job.request.cpus for raw, job in held.items()}
    assert rows[busy].cpus_advised == 2 * given[busy]
    assert rows[busy].givers[0].job_id == idle
    assert sum(row.cpus_advised for row in rows.values()) <= 80
    assert rows[busy].reason.startswith(f"give job {busy} the {given[busy]} cores that job {idle} does not use;")
