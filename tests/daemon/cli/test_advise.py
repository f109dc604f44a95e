import pytest

from idlewatt.storage.records import JobState


@pytest.fixture
def shell(shell, rig):
    rig.advise(shell.service)
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


def test_the_table_has_the_headings_people_know(shell):
    assert shell.text("advise").splitlines()[0].split() == ["job", "partition", "advice", "where", "(node:GPUs)",
                                                            "starts", "in", "cost", "(else)", "speed", "against",
                                                            "incumbent", "why", "policy"]


def test_no_pending_job_is_said_so(shell):
    assert shell.text("advise", "--user", "nobody") == "no job is pending\n"


@pytest.mark.parametrize("arguments", [("--state", "run"), ("--limit", "-1"), ("stray",)])
def test_wrong_usage_ends_with_2(shell, arguments):
    assert shell.run("advise", *arguments).exit_code == 2
