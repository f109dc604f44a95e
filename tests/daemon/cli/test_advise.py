import re

import pytest

from idlewatt.daemon.advice.advisor import Advice
from idlewatt.daemon.advice.recommender import Recommendations
from idlewatt.daemon.advice.recommenders.elastic import ElasticRecommender
from idlewatt.daemon.cli import advise
from idlewatt.daemon.cli._job_wait import wait_lines
from idlewatt.daemon.settings.recommenders import ElasticSettings
from idlewatt.storage.moves import Move, Relief
from idlewatt.storage.recommendations import Alternative, Placement, Recommendation
from idlewatt.storage.records import JobState


@pytest.fixture
def shell(shell, rig):
    shell.service.advise()
    return shell


def test_every_pending_job_gets_a_line(shell):
    pending = {job.job_id for job in shell.service.known.snapshot.jobs if job.state is JobState.PENDING}
    found = shell.csv("advise")
    assert {row["job_id"] for row in found} == pending != set()
    assert {row["action"] for row in found} <= {"start", "hold"}
    assert all(row["reason"] and row["policy"] == "limit-aged+best-fit+easy" for row in found)


def test_what_starts_says_where_and_now(shell):
    started = shell.csv("advise", "--state", "start")
    assert started
    assert all(row["starts_in"] == "now" for row in started)
    assert all(":" in row["placement"] for row in started)


def test_what_is_held_says_how_long_and_why(shell):
    for row in shell.csv("advise", "--state", "hold"):
        assert row["starts_in"] != "now"
        assert row["reason"]


def test_shadows_are_shown_only_when_asked_for(shell):
    assert {row["policy"] for row in shell.json("advise")} == {"limit-aged+best-fit+easy"}
    assert {row["policy"] for row in shell.json("advise", "--policy", "fifo+first-fit")} == {"fifo+first-fit"}


def test_json_tells_the_alternatives_too(shell):
    assert all("alternatives" in row for row in shell.json("advise"))


def test_the_table_fits_80_columns_and_one_job_is_told_line_by_line(shell):
    table = shell.run("advise", env={"COLUMNS": "80"}).stdout
    assert max(map(len, table.splitlines())) <= 80
    assert table.splitlines()[0].split() == ["job", "advice", "where", "(node:GPUs)", "starts", "in", "why"]
    (first, *_) = shell.json("advise")
    told = shell.text("advise", "--job", first["job_id"])
    assert told.splitlines()[0].split() == ["job", first["job_id"]]
    assert first["policy"] in told


def test_a_held_job_is_told_when_it_starts_and_what_smaller_would_start_now(shell):
    (held, *_) = shell.json("advise", "--state", "hold")
    told = shell.run("advise", "--job", held["job_id"], env={"COLUMNS": "80"}).stdout
    assert re.search(r"^starts  +(in|not known)", told, re.M), told
    (row,) = shell.json("advise", "--job", held["job_id"])
    assert row["outlook"]["policy"] == shell.service.settings.live_incumbent
    assert len(re.findall("^smaller ", told, re.M)) == len(row["outlook"]["shapes"])


def test_wait_estimates_are_shown_in_words_of_a_terminal():
    found = {"verdict": "waits", "issued_s": 0.0, "interval_s": [600.0, None], "latest_s": None, "futures": 20,
             "position": 3, "ahead": [{"job_id": "1\x1b[2J", "state": "running", "gpus": 8, "free_s": 3600.0},
                                      {"job_id": "2", "state": "pending", "gpus": 8, "free_s": None}] * 5,
             "shapes": [{"change": "4 of its 8 GPUs", "options": "--gpus=4", "verdict": "unknown", "placement": None,
                         "reason": "why " * 40}]}
    lines = list(wait_lines(found))
    assert lines[0] == "starts             in 10m to more than 30d (95 % of 20 futures)"
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    assert list(wait_lines(None)) == []
    single = {"job_id": "3", "state": "running", "gpus": 1, "free_s": 3600.0}
    lines = list(wait_lines(found | {"interval_s": [600.0, 610.0], "ahead": [single]}))
    assert lines[0] == "starts             in about 10m", "an interval with equal ends is none"
    assert "3 running, 1 GPU, ends in 1h 0m at the latest" in "".join(lines)


def test_the_table_has_the_headings_people_know(shell):
    headings = shell.text("advise", "--wide").splitlines()[0].split()
    assert headings == ["job", "partition", "advice", "where", "(node:GPUs)", "starts", "in", "cost", "(else)", "speed",
                        "change", "in", "wait", "why", "policy"]


def test_no_pending_job_is_said_so(shell):
    assert shell.text("advise", "--user", "nobody") == "no job is pending\n"


def test_what_more_or_fewer_gpus_would_do_is_a_table_of_its_own(shell):
    shell.service.recommend("elastic")
    assert shell.text("advise", "--elastic") == "of no job is it known how fast it is with more or fewer GPUs\n"
    curve = {"name": "*", "speeds": {2: 100.0, 4: 180.0, 8: 300.0}}
    by_curve = ElasticRecommender(ElasticSettings(curves=(curve,)), shell.service._history)
    shell.service._recommenders["elastic"] = by_curve
    shell.service.recommend("elastic")
    jobs = {job.job_id: job for job in shell.service.known.snapshot.jobs}
    rows = shell.csv("advise", "--elastic")
    assert {row["job_id"] for row in rows} == {row["job_id"] for row in shell.json("advise", "--elastic")} != set()
    assert all(int(row["gpus"]) == jobs[row["job_id"]].request.gpus for row in rows)
    assert all("sooner (" in row["more"] for row in rows if row["more"])
    assert {row["job_id"] for row in shell.csv("advise", "--elastic", "--user", "alice")} == {
        row["job_id"] for row in rows if jobs[row["job_id"]].user == "alice"} != set()


@pytest.mark.parametrize(("interval_s", "said"), [
    ((-7200.0, 300.0), "9h 36m sooner (2h 0m sooner to 5m later)"), ((-34_590.0, -34_561.0), "9h 36m sooner"),
    (None, "9h 36m sooner")])
def test_an_interval_of_the_wait_whose_ends_read_alike_is_none(interval_s, said):
    assert advise._change({"wait_change_s": -34_570.0, "interval_s": interval_s}) == said


def test_the_next_best_placement_is_not_what_is_left_over_here_and_there(shell):
    placement = Placement(("n0",), (4,))
    scattered = Alternative(Placement(("n1", "n2"), (2, 2)), "scattered", 2.5, 0.5)
    other = Alternative(Placement(("n3",), (4,)), "opens an empty node", 1.5)

    def shown(*alternatives):
        row = Recommendation("9", 0.0, "A100", 100.0, "easy", "wait", "start", "", placement, 100.0, alternatives,
                             communication_cost=1.0)
        shell.service._learn(advice=Advice(100.0, (row,)))
        (found,) = shell.csv("advise")
        return found["cost"], found["speed"]

    assert shown(scattered) == ("1", "2 x scattered")
    assert shown(scattered, other) == ("1 (1.5)", "2 x scattered")


def test_moves_are_a_table_of_their_own(shell):
    shell.service.recommend("moves")
    assert shell.text("advise", "--moves") == "no move would let a waiting job start\n"
    move = Move("7", "eve", 2, "n0", "n1", 3600.0)
    row = Relief("9", 0.0, "A100", "bob", 100.0, Placement(("n0",), (8,)), (move,), 2)
    shell.service._learn(recommended={"moves": Recommendations(100.0, (row,))})
    (shown,) = shell.csv("advise", "--moves", "--node", "n1")
    assert (shown["moves"], shown["at_stake"], shown["otherwise"]) == ("7 (2 GPUs) n0 -> n1", "2.0", "nobody knows")
    assert shell.csv("advise", "--moves", "--node", "n2") == []


def test_a_filter_that_a_subject_does_not_know_is_said_so(shell):
    done = shell.run("advise", "--elastic", "--policy", "easy")
    assert done.exit_code == 2
    assert "unknown parameter 'policy'" in done.stderr


@pytest.mark.parametrize("arguments", [("--state", "run"), ("--limit", "-1"), ("stray",)])
def test_wrong_usage_ends_with_2(shell, arguments):
    assert shell.run("advise", *arguments).exit_code == 2
