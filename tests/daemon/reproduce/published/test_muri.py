"""The published digits of Muri's simulator, and cases that can be followed by hand."""

import csv

import numpy as np
import pytest

from idlewatt.daemon.reproduce.published.muri import (
    POLICIES,
    SLOWDOWN,
    MuriTrace,
    load,
    replay_shortest,
    replay_tiresias,
    startup,
)

EVENTS = {  # events, level jumps, preemptions
    ("trace1", "SRTF"): (2_980, 0, 2_548), ("trace1", "SRSF"): (2_980, 0, 2_643),
    ("trace1", "Tiresias-L"): (5_040, 2_060, 4_271), ("trace4", "SRTF"): (5_169, 0, 2_483),
    ("trace4", "SRSF"): (5_169, 0, 2_300), ("trace4", "Tiresias-L"): (7_918, 2_739, 4_158),
}
DIGITS = {  # mean completion time and makespan, s
    ("trace1", "SRTF"): ("1370603.197651", "26045465.532945"),
    ("trace1", "SRSF"): ("980140.569929", "26065759.044845"),
    ("trace1", "Tiresias-L"): ("3330371.306772", "23556410.217355"),
    ("trace4", "SRTF"): ("581982.900232", "14787990.592350"),
    ("trace4", "SRSF"): ("487167.168772", "14887908.866390"),
    ("trace4", "Tiresias-L"): ("1319382.936037", "13073838.618270"),
    ("trace1_pr", "SRTF"): ("2303543.816474", "24513543.937825"),
    ("trace1_pr", "SRSF"): ("1801859.995307", "24272529.593110"),
    ("trace1_pr", "Tiresias-L"): ("6921682.793319", "21990477.824095"),
    ("trace4_pr", "SRTF"): ("1430856.445713", "14272665.007687"),
    ("trace4_pr", "SRSF"): ("1218501.967745", "14426755.371188"),
    ("trace4_pr", "Tiresias-L"): ("2674022.635595", "12584603.563650"),
}


@pytest.fixture(scope="module")
def outcomes(traces):
    found = {}
    for name in ("trace1", "trace4"):
        jobs = load(traces / f"muri_sigcomm22/{name}.csv.gz")
        for policy, replay in POLICIES.items():
            found[name, policy] = replay(jobs)
            found[f"{name}_pr", policy] = replay(jobs.at_once())
    return found


@pytest.mark.parametrize(("trace", "policy"), DIGITS)
def test_every_digit_comes_out(outcomes, trace, policy):
    outcome = outcomes[trace, policy]
    assert (f"{outcome.jct_s.mean():.6f}", f"{outcome.makespan_s:.6f}") == DIGITS[trace, policy]


@pytest.mark.parametrize(("trace", "policy"), DIGITS)
def test_the_authors_file_agrees_to_its_last_digit(traces, outcomes, trace, policy):
    with (traces / "muri_sigcomm22/reference_sim_n8g8.csv").open() as lines:
        published = {(row["policy"], row["metric"]): row[trace] for row in csv.DictReader(lines)}
    outcome = outcomes[trace, policy]
    for metric, ours in (("jct_s", outcome.jct_s.mean()), ("makespan_s", outcome.makespan_s)):
        figure = published[policy, metric]
        decimals = len(figure.partition(".")[2])
        assert round(float(ours), decimals) == float(figure)


@pytest.mark.parametrize(("trace", "policy"), EVENTS)
def test_events_jumps_and_preemptions_are_the_originals(outcomes, trace, policy):
    outcome = outcomes[trace, policy]
    assert (outcome.events, outcome.jumps, outcome.preemptions) == EVENTS[trace, policy]


def two_jobs(first_iterations, second_iterations):
    return MuriTrace(np.array([0.0, 10.0]), np.array([8, 8]), np.array([first_iterations, second_iterations], float),
                     np.full(2, SLOWDOWN), np.array([7.0, 10.0]))


def test_srtf_on_one_node_follows_the_hand_calculation():
    outcome = replay_shortest(two_jobs(100, 20), service=False, nodes=1)
    assert outcome.jct_s + [0, 10] == pytest.approx([128.8, 30.3])
    assert (outcome.jct_s.mean(), outcome.events) == (pytest.approx(74.55), 4)


def test_tiresias_on_eight_gpus_follows_the_hand_calculation():
    outcome = replay_tiresias(two_jobs(1000, 100), nodes=1)
    assert outcome.jct_s + [0, 10] == pytest.approx([1137.5, 508.5])
    assert (outcome.jct_s.mean(), outcome.events, outcome.jumps) == (pytest.approx(818), 6, 2)


@pytest.mark.parametrize(("model", "gpus", "seconds"), [("vgg19", 16, 10), ("a2c", 8, 46), ("dqn", 3, 6),
                                                        ("gan", 1, 10)])
def test_start_up_costs_follow_the_table(model, gpus, seconds):
    assert startup(model, gpus) == seconds
