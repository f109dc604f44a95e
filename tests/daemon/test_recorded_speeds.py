"""The site's speeds from its records, and everybody who replays by them."""

import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scattered import INCUMBENT, NODES, SINCE, TRUTH, USERS, write

from idlewatt.daemon import counterfactual, simulator_error
from idlewatt.daemon.agents.histories import DAY_S, recorded, split
from idlewatt.daemon.cli import main
from idlewatt.daemon.counterfactual import WindowRequest
from idlewatt.daemon.policies import named
from idlewatt.daemon.recorded_speeds import site_speeds
from idlewatt.daemon.recorded_window import past
from idlewatt.daemon.replay.engine import run as replayed
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS
from idlewatt.daemon.replay.speed_file import read
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.history import History
from idlewatt.storage.records import SchedulerSnapshot
from idlewatt.storage.speeds import RunSpeed

UNTIL = SINCE + 12 * DAY_S


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """The database of a site, and what its jobs truly were."""
    url = f"sqlite:///{tmp_path_factory.mktemp('lived')}/idlewatt.db"
    return url, *write(url)


@pytest.fixture
def history(lived):
    with History.read_only(lived[0]) as reader:
        yield reader


def found_of(url, **options):
    with History.read_only(url) as reader:
        return site_speeds(reader, **options)


def test_like_jobs_that_ran_close_and_scattered_tell_what_that_costs(history):
    speeds = site_speeds(history)
    assert [group.label for group in sorted(speeds.groups, key=lambda group: group.user)] == [
        f"{user}/ddp_#" for user in USERS]
    for group in speeds.groups:
        spine = group.spread["spine"]
        assert spine.source == "measured"
        assert spine.low <= 0.5 <= spine.high
        assert spine.factor == pytest.approx(0.5, abs=0.05)
        assert group.size[8].factor / group.size[1].factor == pytest.approx(8**0.9, rel=0.1)
    assert speeds.topology["n3"] == ("leaf1", "")


def test_run_times_become_the_work_that_they_were(lived, history):
    _, _, truth, run = lived
    speeds = site_speeds(history)
    window = past(history, SINCE - 10, UNTIL + 9 * DAY_S, speeds)
    ran = run.end - run.start
    slow = ran > 1.5 * truth.run
    assert slow.sum() > 50
    np.testing.assert_allclose(window.workload.run, truth.run, rtol=0.12)
    np.testing.assert_allclose(past(history, SINCE - 10, UNTIL + 9 * DAY_S).workload.run, ran)
    assert window.unplaced == 0


def test_the_replay_of_what_happened_is_nearer_with_the_sites_speeds_where_another_policy_decides(lived, history):
    # The truth of another placement is the site lived by it; flat speeds take the old placement's run times with them.
    _, cluster, truth, _ = lived
    other = "fifo+nearest+easy"
    really = replayed(cluster, truth, named(other), speed=TRUTH)
    means = []
    for speeds in (FLAT_SPEEDS, site_speeds(history)):
        window = past(history, SINCE - 10, UNTIL + 9 * DAY_S, speeds)
        done = replayed(window.cluster, window.workload, named(other), speed=window.table)
        means.append(np.nanmean(done.end - window.workload.submit))
    expected = np.nanmean(really.end - truth.submit)
    assert abs(means[1] - expected) < 0.4 * abs(means[0] - expected)  # queues are chaotic


def test_the_check_reacts_to_the_table_and_says_what_it_rests_on(history):
    speeds = site_speeds(history)
    flat, told = (simulator_error.check(history, SINCE, UNTIL, "fifo+nearest+easy", some)
                  for some in (FLAT_SPEEDS, speeds))
    assert flat.start_error_abs_mean_s != told.start_error_abs_mean_s
    assert told.speeds.shares["measured"] == pytest.approx(1.0)
    assert flat.speeds.shares["unknown"] == 1.0
    assert "100% measured" in str(told.speeds)
    assert told.row()["gpu_time_measured_ratio"] == pytest.approx(1.0)
    again = simulator_error.check(history, SINCE, UNTIL, INCUMBENT, speeds)
    assert again.start_error_abs_mean_s < 600


def test_the_counterfactual_reacts_to_the_table(lived, tmp_path):
    request = WindowRequest(lived[0], UNTIL - 2 * DAY_S, UNTIL - DAY_S, (INCUMBENT, "fifo+nearest+easy"))
    with_speeds = counterfactual.replayed(request)
    assert "measured" in with_speeds.speeds
    unwatched = f"sqlite:///{tmp_path}/unwatched.db"
    write(unwatched, watched=False)
    without = counterfactual.replayed(replace(request, url=unwatched))
    assert "nothing is known" in without.speeds
    assert with_speeds.system_s["fifo+nearest+easy"] < 0.95 * without.system_s["fifo+nearest+easy"]


def test_training_and_judging_are_given_the_same_speeds(history):
    speeds = site_speeds(history)
    parts = split(recorded(history, SINCE, UNTIL, "the history", speeds))
    for window in (parts.fit(0), *parts.select, *parts.test):
        assert window.speeds is speeds
        assert set(window.workload.application.tolist()) == {1, 2, 3}


def test_a_history_without_speeds_has_flat_ones_and_says_so(tmp_path):
    url = f"sqlite:///{tmp_path}/h.db"
    write(url, watched=False, jobs=60, days=3.0)
    speeds = found_of(url)
    assert speeds.flat
    assert speeds.summary == ("site: 0 groups of like jobs from 0 runs, where nothing is known, so they are as flat "
                              "ones")
    assert not found_of(url, applications={"ddp*": "bert"}).flat


@pytest.mark.parametrize("rate", [0.0, -3.0])
def test_speeds_that_are_none_are_left_out_and_said(tmp_path, rate):
    url = f"sqlite:///{tmp_path}/h.db"
    write(url, rate=rate, jobs=60, days=3.0)
    speeds = found_of(url)
    assert speeds.flat
    assert speeds.notes == ("60 runs are left out, as their speed is no positive number",)


def test_an_application_seen_once_is_unknown_and_said(tmp_path):
    url = f"sqlite:///{tmp_path}/h.db"
    write(url, jobs=60, days=3.0)
    once = RunSpeed("9999", SINCE, SINCE + 5, "dan", "rare", "", 8, 2, "throughput", 5.0, 20, SINCE + 600)
    with closing(History.open(url)) as opened:
        opened.record_speeds([once])
    speeds = found_of(url)
    assert speeds.row("dan", "rare") == 0
    assert any("1 application was seen once, which shows nothing of their speeds: dan/rare" in note
               for note in speeds.notes)
    assert any("1 runs are left out, as where they ran is not recorded" in note for note in speeds.notes)
    followed = found_of(url, applications={"rare": "bert"})
    assert followed.groups[followed.row("dan", "rare") - 1].spread["leaf"].source == "prior"


def test_runs_count_by_where_their_nodes_hung_then(tmp_path):
    url = f"sqlite:///{tmp_path}/h.db"
    _, _, lived = write(url)
    before = found_of(url)
    last = float(np.nanmax(lived.end))
    crossed = tuple(replace(node, leaf=f"leaf{number % 4}") for number, node in enumerate(NODES))
    with closing(History.open(url)) as opened:
        opened.record_snapshot(SchedulerSnapshot(last + 100, crossed))
        now = site_speeds(opened, last + 200)
    assert [group.spread["spine"].factor for group in now.groups] == pytest.approx(
        [group.spread["spine"].factor for group in before.groups])
    assert any("hang on other switches now" in note for note in now.notes)
    assert now.topology["n1"] == ("leaf1", "")


def replay(lived, tmp_path, *words):
    arguments = ["replay", lived[0], "--policy", "fifo+nearest+easy", "--format", "json", "--state-dir",
                 str(tmp_path / "state"), "--workers", "1", *words]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)[0], result.stderr


def test_the_command_line_chooses_the_speeds_and_says_what_they_rest_on(lived, tmp_path):
    out = tmp_path / "site.yaml"
    site, said = replay(lived, tmp_path, "--speeds-out", str(out))
    assert ("speeds are site: 3 groups of like jobs from 700 runs, 4 by what others measured; GPU time by what they "
            "rest on: 100% measured\n") in said
    assert site["gpu_time_measured_ratio"] == pytest.approx(1.0)
    flat, said = replay(lived, tmp_path, "--speeds", "flat")
    assert "speeds are flat" in said
    assert site["jct_mean_s"] < 0.95 * flat["jct_mean_s"]
    assert read(out).identity == found_of(lived[0], applications=AdviceSettings().applications).identity


@pytest.mark.parametrize(("speeds", "said"), [("fast", "site, flat or a YAML file"), ("none.yaml", "cannot be read")])
def test_speeds_that_are_none_are_refused_on_the_command_line(lived, speeds, said):
    result = CliRunner().invoke(main, ["replay", lived[0], "--speeds", speeds])
    assert result.exit_code != 0
    assert said in result.output


def test_a_trace_has_no_speeds_of_its_own_but_may_be_given_some(tmp_path):
    trace, speeds = tmp_path / "t.csv", tmp_path / "s.yaml"
    trace.write_text("job,submit_s,run_s,gpus,user,name\n1,0,100,16,ann,bert\n2,5,100,16,ann,other\n")
    cluster = tmp_path / "c.yaml"
    cluster.write_text("nodes:\n- {name: a, gpus: 8, leaf: l0}\n- {name: b, gpus: 8, leaf: l1}\n")
    speeds.write_text("groups:\n- {name: bert, spread: {leaf: 0.8, spine: 0.5}}\n")
    words = ["replay", str(trace), "--cluster", str(cluster), "--state-dir", str(tmp_path / "state"), "--workers", "1",
             "--format", "json"]
    result = CliRunner().invoke(main, [*words, "--speeds", "site"])
    assert "a trace records no speeds" in result.output
    result = CliRunner().invoke(main, [*words, "--speeds", str(speeds)])
    assert result.exit_code == 0, result.output
    row = json.loads(result.stdout)[0]
    assert row["jct_mean_s"] == (200 + 295) / 2  # the first at half its speed, the second behind it
    assert (row["gpu_time_prior_ratio"], row["jobs_unplaced"]) == (pytest.approx(2 / 3), 2)
    assert "2 jobs keep their run times, as where they ran is not recorded" in result.stderr
