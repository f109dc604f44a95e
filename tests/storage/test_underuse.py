"""Why GPUs were underused is kept by run and cause, and comes back as it was."""

from dataclasses import replace

from idlewatt.storage.underuse import Cause, CauseTally

TALLY = CauseTally("7", 1.0, 2.0, Cause.WAITING_FOR_DATA, 600.0, 1200.0, 0.8, {"engine": 0.41, "disk": 0.93})


def test_the_same_run_and_cause_replaces_and_others_stay(history):
    history.record_causes([TALLY, replace(TALLY, cause=Cause.NONE, gpu_seconds=300.0)])
    history.record_causes([replace(TALLY, gpu_seconds=1500.0, updated_s=900.0)])
    assert [(one.cause, one.gpu_seconds) for one in history.causes_of_run("7", 1.0, 2.0)] == [
        (Cause.WAITING_FOR_DATA, 1500.0), (Cause.NONE, 300.0)]
    assert history.causes_of_run("7", 1.0, 2.0)[0] == replace(TALLY, gpu_seconds=1500.0, updated_s=900.0)
    assert history.causes_of_run("7", 1.0, 3.0) == ()


def test_of_many_runs_what_is_recorded_is_found_at_once(history):
    others = [replace(TALLY, start_s=3.0), replace(TALLY, job_id="8", cause=Cause.NONE)]
    history.record_causes([TALLY, *others])
    assert history.causes_of({TALLY.run, others[1].run, ("9", 1.0, 2.0)}) == (TALLY, others[1])
    assert history.causes_of(set()) == ()


def test_numbers_that_are_none_are_left_out(history):
    history.record_causes([replace(TALLY, gpu_seconds=float("nan")),
                           replace(TALLY, start_s=3.0, evidence={"engine": float("inf"), "disk": 0.5})])
    assert history.causes_of_run("7", 1.0, 2.0) == ()
    (found,) = history.causes_of_run("7", 1.0, 3.0)
    assert found.evidence == {"disk": 0.5}
