"""Empty nodes: until when nobody needs them, and what powering them down would save."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from idlewatt.daemon.advice.advisor import Advice
from idlewatt.daemon.advice.node_demand import HORIZON, STEP_S, NodeDemand
from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.power_down import PowerDownRecommender, idle_text
from idlewatt.daemon.settings.recommenders import PowerDownSettings
from idlewatt.daemon.waste import Assessment, NodeVerdict
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import Telemetry

DAY, HOUR = 86400.0, 3600.0
NOW = 20_000 * DAY + 12 * HOUR
NODES = tuple(Node(f"n{number}", ("p",), 8, gpus_allocated=0 if number else 8) for number in range(3))
WORTH = {"n1": "no known job needs it", "n2": "no known job needs it"}


@pytest.fixture
def history(tmp_path):
    """A past of three weeks: one node in use all day, a second from 15:00 to 18:00, the third never."""
    with History.open(f"sqlite:///{tmp_path}/idlewatt.db") as past:
        for day in range(1, 22):
            midnight = NOW - 12 * HOUR - day * DAY
            past.record_finished([run(f"{day}a", "n0", midnight, midnight + DAY),
                                  run(f"{day}b", "n1", midnight + 15 * HOUR, midnight + 18 * HOUR)])
        past.record_finished([run("today", "n0", NOW - 12 * HOUR, NOW)])
        yield past


def run(job_id, node, start_s, end_s):
    return Job(job_id, start_s - 60, JobState.COMPLETED, "p", Request(8), start_s=start_s, end_s=end_s,
               allocations=(Allocation(node, 8),))


def verdict(node, watts=900.0, host=PowerClass.NODE_OVERHEAD_EMPTY):
    return NodeVerdict(node, "p", None, watts, "ipmi", host, watts, 0.0, {})


def considered(history, *verdicts, needed=None, rounds=5, age_s=0.0, **advice):
    return recommendations(history, *verdicts, needed=needed, rounds=rounds, age_s=age_s, **advice).rows


def recommendations(history, *verdicts, needed=None, rounds=5, age_s=0.0, **advice):
    recommender = PowerDownRecommender(PowerDownSettings(), history)
    for _ in range(rounds):
        found = recommender.recommend(scene(*verdicts, needed=needed, age_s=age_s, **advice))
    return found


def scene(*verdicts, nodes=NODES, needed=None, age_s=0.0, **advice):
    return RecommenderContext(
        NOW, SchedulerSnapshot(NOW, nodes, (Partition("p", tuple(node.name for node in nodes)),)), Telemetry(),
        Advice(NOW, power_down=WORTH, needed_s=needed or {}, **advice),
        assessment=Assessment(NOW - age_s, nodes=verdicts or (verdict("n1"), verdict("n2"))))


def test_each_node_is_told_until_when_it_is_not_needed_and_what_that_saves(history):
    never, second = considered(history)
    assert (never.nodes, second.nodes) == (("n1",), ("n2",))  # whichever is taken first: they are alike
    assert never.needed_from_s is never.needed_until_s is None  # three at once were never in use
    assert never.saved_mid_joules == pytest.approx((2 * DAY - 600) * 880, rel=0.01)
    assert second.needed_from_s == pytest.approx(NOW + HOUR, abs=600)
    assert second.needed_mid_s == pytest.approx(NOW + 3 * HOUR, abs=600)
    low, high = second.saved_joules
    assert 0 < low < second.saved_mid_joules < high
    assert second.saved_mid_joules == pytest.approx((3 * HOUR - 600) * 880, rel=0.1)
    assert second.days >= 14


def test_a_known_job_comes_before_what_the_past_says(history):
    rows = considered(history, needed={"n1": NOW + 2 * HOUR})
    n1 = next(row for row in rows if row.nodes == ("n1",))
    assert n1.needed_from_s == n1.needed_until_s == NOW + 2 * HOUR
    assert n1.saved_joules == pytest.approx(((2 * HOUR - 600) * 880,) * 2)


def test_without_enough_past_a_node_is_listed_with_its_watts_and_no_promise(tmp_path):
    with History.open(f"sqlite:///{tmp_path}/idlewatt.db") as empty:
        empty.record_finished([run("1", "n0", NOW - DAY, NOW)])
        recommender_rows = considered(empty, rounds=1)
    assert [(row.watts, row.saved_joules, row.needed_from_s) for row in recommender_rows] == [(900.0, None, None)] * 2


@pytest.mark.parametrize("change", [{"age_s": 3600.0}, {"withdrawn": True}])
def test_nothing_is_said_of_an_old_look_or_of_advice_that_was_taken_back(history, change):
    assert considered(history, rounds=1, **change) == ()


def test_a_node_that_is_not_measured_or_at_work_is_never_listed(history):
    dark = NodeVerdict("n1", "p", None, None, "", PowerClass.UNMEASURED, 0.0, 0.0, {})
    busy = verdict("n2", host=PowerClass.HOST_ACTIVE)
    assert considered(history, dark, busy, rounds=1) == ()


def test_a_row_is_json_and_a_line_of_the_table(history):
    subject = subjects()["power_down"]
    rows = [TypeAdapter(subject.row).dump_python(row, mode="json") for row in considered(history)]
    lines = [subject.cells(row) for row in rows]
    assert lines[0]["again"] == "over 2d 0h"
    assert lines[1]["again"] == "1h 0m to 5h 0m"
    assert lines[1]["saves"].startswith("2.5 kWh (0.7 to ")
    assert subject.cells(rows[0] | {"days": 0, "saved_mid_joules": None, "saved_joules": None})["saves"] is None


def test_the_past_is_read_in_parts_and_kept(history, monkeypatch):
    read = []
    load = type(history).load_placements
    monkeypatch.setattr(type(history), "load_placements", lambda self, *of: read.append(of) or load(self, *of))
    considered(history, rounds=1)
    assert len(read) == 7
    read.clear()
    considered(history, rounds=8)
    assert len({since for since, _ in read}) == 28
    assert max(np.unique([since for since, _ in read[-4:]], return_counts=True)[1]) == 2  # today and yesterday anew


def test_four_weeks_of_a_thousand_nodes_are_kept_in_a_megabyte(history):
    recommender = PowerDownRecommender(PowerDownSettings(), history)
    for _ in range(6):
        recommender.recommend(scene(nodes=tuple(Node(f"n{number}", ("p",), 8) for number in range(1000))))
    assert len(recommender._used) == 28
    assert sum(used.nbytes for used in recommender._used.values()) <= 1.05e6


def test_figures_say_by_what_they_were_measured_and_are_metrics_where_they_are_known(history, tmp_path):
    found = recommendations(history)
    assert {row.power_source for row in found.rows} == {"ipmi"}
    saved = found.metrics["power_down_saving_joules"]
    never, second = found.rows
    assert (saved["n2", "low"], saved["n2", "high"]) == second.saved_joules
    assert saved["n1", "estimate"] == never.saved_mid_joules
    needed = found.metrics["power_down_needed_timestamp_seconds"]
    assert needed == {("n2", "low"): second.needed_from_s, ("n2", "estimate"): second.needed_mid_s,
                      ("n2", "high"): second.needed_until_s}
    with History.open(f"sqlite:///{tmp_path}/empty.db") as empty:
        assert not any(recommendations(empty, rounds=1).metrics.values())


def test_until_when_is_said_in_words_and_unknown_where_the_past_is_too_short(history, tmp_path):
    never, second = considered(history)
    assert idle_text(never).startswith("needed again in over 2d 0h, until then it saves over 42.1 kWh, by ")
    assert "(0.7 to over 42.1)" in idle_text(replace(never, needed_from_s=NOW + HOUR, saved_joules=(2.5e6, 151.5e6)))
    assert idle_text(second).startswith("needed again in 1h 0m to 5h 0m, until then it saves 2.5 kWh (0.7 to ")
    assert idle_text(second).endswith(f"by {second.days} days of the past")
    with History.open(f"sqlite:///{tmp_path}/empty.db") as empty:
        words = idle_text(considered(empty, rounds=1)[0])
    assert words == "until when is not known, as too little of the past is recorded"
    assert not any(letter.isdigit() for letter in words)


@given(watts=st.floats(0, 1e5), standby=st.floats(0, 1e3), wake=st.floats(1e-3, 1e5),
       by_job_s=st.floats(-1e6, math.inf), after_s=st.tuples(*[st.floats(0, math.inf)] * 3).map(sorted))
def test_never_more_is_saved_than_the_node_draws_until_it_is_needed(watts, standby, wake, by_job_s, after_s):
    recommender = PowerDownRecommender(PowerDownSettings(wake=wake, standby=standby), None)
    demand = NodeDemand(tuple(after_s), 9)
    row = recommender._row(Node("n1", ("p",), 8), watts, demand, by_job_s, "why", NOW)
    until_s = [min(one, by_job_s, HORIZON * STEP_S) for one in after_s]
    low, high = row.saved_joules
    assert 0 <= low <= row.saved_mid_joules <= high <= watts * max(0.0, until_s[2]) * (1 + 1e-12)
    assert low <= watts * max(0.0, until_s[0]) * (1 + 1e-12)
    unknown = recommender._row(Node("n1", ("p",), 8), watts, None, by_job_s, "why", NOW)
    assert unknown.saved_joules is unknown.saved_mid_joules is unknown.needed_until_s is None
