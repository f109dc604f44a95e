"""What is wrong with limits is found in every form, and honest ones are left alone."""

from pathlib import Path

import numpy as np
import pytest
from null_sites import site

from idlewatt.daemon.replay.time_limits import faults, leaking
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.replay.workload_builder import from_trace
from idlewatt.storage.traces import read_trace

RECORDED = Path(__file__).parents[2] / "recorded/traces"
RANDOM = np.random.default_rng(5)
RUN = np.round(RANDOM.lognormal(np.log(3600.0), 1.2, 600))
USER = RANDOM.integers(8, size=len(RUN))
REQUESTED = np.ceil(RUN * RANDOM.uniform(1.0, 10.0, len(RUN)) / 3600.0) * 3600.0
OF_USER = np.linspace(1.2, 4.0, 8)[USER]
SOME = RANDOM.permutation(len(RUN)) < 0.49 * len(RUN)

MADE = {
    "the run time": RUN, "twice": 2 * RUN, "three times": 3 * RUN, "a little more": 1.002 * RUN,
    "rounded up to the minute": np.ceil(RUN / 60) * 60, "to five minutes": np.ceil(RUN / 300) * 300,
    "twice, to the nearest minute": np.maximum(60, np.round(2 * RUN / 60) * 60),
    "to quarters of an hour": np.ceil(RUN / 900) * 900,
    "all but one": np.where(np.arange(len(RUN)) == 0, 2 * RUN, RUN), "49 %": np.where(SOME, RUN, REQUESTED),
    "ten minutes more": RUN + 600, "each user another multiple": OF_USER * RUN, "a power": RUN ** 1.1,
}
HONEST = {
    "asked for": REQUESTED, "one to three times": RUN * RANDOM.uniform(1, 3, len(RUN)),
    "to quarters of an hour": np.ceil(RUN * RANDOM.uniform(1, 3, len(RUN)) / 900) * 900,
    "a few that people choose": RANDOM.choice([3600.0, 14400.0, 86400.0], len(RUN)),
    "half larger at random": RUN * RANDOM.uniform(1, 1.5, len(RUN)),
}


@pytest.mark.parametrize("made", MADE)
def test_limits_that_were_made_of_run_times_are_found(made):
    assert leaking(MADE[made], RUN, USER) is not None


@pytest.mark.parametrize("honest", HONEST)
def test_limits_that_people_ask_for_are_not(honest):
    assert leaking(HONEST[honest], RUN, USER) is None


def test_what_gives_them_away_is_said():
    assert leaking(MADE["three times"], RUN).text.endswith("of 100% of the jobs are 3 times their very run times")
    assert leaking(MADE["49 %"], RUN).text == "the time limits of 49% of the jobs are their very run times"
    assert "run in the order of their time limits" in leaking(MADE["ten minutes more"], RUN).text


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_jobs_that_were_ended_at_their_limit_tell_nothing(share):
    ended_at_limit = REQUESTED + RANDOM.integers(30, size=len(RUN))
    run = np.where(RANDOM.random(len(RUN)) < share, ended_at_limit, np.minimum(RUN, REQUESTED))
    assert leaking(REQUESTED, run, USER) is None


def test_a_job_that_runs_again_and_again_is_one_job():
    """Thirty users ask for a limit of their own, and all of their jobs take the same share of it."""
    requested = 3600.0 * (1 + np.arange(30) % 19)[RANDOM.integers(30, size=3000)]
    assert leaking(requested, 0.4 * requested + RANDOM.integers(3, size=3000)) is None


def test_limits_are_missing_or_mostly_equal_by_share():
    def kinds(limit):
        work = Workload.of(np.arange(600.0), RUN, np.ones(600), limit=limit)
        return [(fault.kind, fault.grave) for fault in faults(work)]

    part = np.arange(600) / 600
    assert kinds(REQUESTED) == []
    assert kinds(np.where(part < 0.2, np.inf, REQUESTED)) == [("missing", False)]
    assert kinds(np.where(part < 0.6, np.inf, REQUESTED)) == [("missing", True)]
    assert kinds(np.where(part < 0.85, 86400.0, REQUESTED)) == [("alike", True)]
    assert kinds(np.where(part < 0.1, np.inf, RUN)) == [("leaking", True), ("missing", False)]


@pytest.mark.parametrize(("file", "expected"), [
    ("philly/philly_jobs.csv.gz", ["missing"]), ("helios_venus/helios_venus_2vc_sept.csv", ["missing"]),
    ("muri_sigcomm22/trace1.csv.gz", ["missing"]), ("alibaba_lingjun_2023/crux_jobs.csv", ["missing"]),
    ("alibaba_openb_2023/openb_pod_list_default.csv.gz", ["missing"])])
def test_the_published_traces_have_no_limits_that_anybody_asked_for(traces, file, expected):
    trace = read_trace(traces / file)
    limits = np.nan_to_num(np.asarray(trace.limit_s), nan=np.inf)
    leak = leaking(limits, np.asarray(trace.run_s), trace.user)
    assert (leak is not None and leak.exact) is file.startswith("helios")
    limit = limits if leak is None else np.full(len(limits), np.inf)
    found = Workload.of(trace.submit_s, trace.run_s, np.maximum(trace.gpus, 0), limit=limit)
    assert [fault.kind for fault in faults(found)] == expected


@pytest.mark.parametrize("file", ["sacct_steps.txt", "sacct_every_field.txt"])
def test_limits_that_slurm_recorded_are_honest(file):
    assert list(faults(from_trace(read_trace(RECORDED / file)).workload)) == []


@pytest.mark.parametrize("days", [3, 30])
def test_limits_of_made_up_sites_are_honest(days):
    assert list(faults(site(days)[1])) == []
