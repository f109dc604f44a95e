"""What is decided, for whatever may be seen: tried on random sights, changes and advice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.decision import PASSED_OVER, verdicts, wishes
from idlewatt.daemon.follow.sight import CALLED_OFF, HELD, Advised, BelievedAdvice, QueuedJob, Sight
from idlewatt.storage.follow import OPEN, FollowChange

NOW = 1_000_000.0
RULES = parse("allow: {partitions: [gpu, big], users: ['stud-*', ada], actions: [required_nodes, nice]}\n"
              "limits: {at_once: 3, per_minute: 4}\n")
STATES = ("PENDING", "RUNNING", "COMPLETED", "CANCELLED", "COMPLETING", "SUSPENDED", "SPECIAL_EXIT", "NEVER_HEARD_OF")
IDS = ("1", "2", "3", "4")
NODES = (("a",), ("b",), ("a", "b"))

moments = st.floats(NOW - 400, NOW)
queued = st.builds(QueuedJob, st.sampled_from(IDS), st.sampled_from(STATES),
                   st.sampled_from(["gpu", "big", "cpu", "gpu,big"]), st.sampled_from(["ada", "stud-1", "root"]),
                   st.sampled_from([(), *NODES]),
                   st.sampled_from([0, 50, -100]), st.sampled_from([NOW - 500, NOW - 900]), st.booleans())
advised = st.builds(Advised, st.sampled_from(IDS), st.sampled_from([NOW - 500, NOW - 900]),
                    st.sampled_from(["gpu", "big", "cpu"]), st.sampled_from(NODES),
                    st.sampled_from(["easy", "scorer@1"]), st.just(NOW), st.just(NOW), st.booleans())
values = {"required_nodes": st.sampled_from(["a", "b", "a,b"]), "nice": st.sampled_from(["-100", "-50", "50"])}


@st.composite
def changes(draw, number):
    attribute = draw(st.sampled_from(["required_nodes", "nice"]))
    intended_s = draw(moments)
    return FollowChange(draw(st.sampled_from(IDS)), draw(st.sampled_from([NOW - 500, NOW - 900])),
                        draw(st.sampled_from(["ada", "root"])), draw(st.sampled_from(["gpu", "cpu"])), attribute,
                        "" if attribute == "required_nodes" else "0",
                        draw(values[attribute]), "easy", intended_s, intended_s, intended_s, intended_s + 115.0,
                        draw(st.sampled_from(["own", "former"])), draw(st.booleans()), draw(st.sampled_from(OPEN)),
                        id=number)


@st.composite
def sights(draw):
    jobs = {job.job_id: job for job in draw(st.lists(queued, max_size=4))}
    standing = tuple(draw(changes(number)) for number in range(draw(st.integers(0, 4))))
    advice = BelievedAdvice(tuple(draw(st.lists(advised, max_size=5))), draw(st.sampled_from(["", "", "degraded"])))
    return Sight(NOW, jobs, advice, standing, standing, "own", draw(st.booleans()))


ARRAY = Advised("7", NOW - 500, "gpu", ("a",), "easy", NOW - 5, NOW - 5, task=True)
TASKS = {f"7_{task}": QueuedJob(f"7_{task}", "PENDING", "gpu", "ada", (), 0, NOW - 500, array="7")
         for task in (3, 10, 4)}
ONE_ACTION = parse("allow: {partitions: [gpu], users: ['*']}\n")
IN_EARNEST = ONE_ACTION.model_copy(update={"dry_run": False})


def pinned(task, snapshot_s):
    return FollowChange(task, NOW - 500, "ada", "gpu", "required_nodes", "", "a", "easy", NOW - 5, snapshot_s, NOW - 4,
                        NOW + 100, "own", state="pinned", id=1)


def test_of_an_array_the_next_task_is_pinned_and_one_alone():
    made, _ = wishes(Sight(NOW, TASKS, BelievedAdvice((ARRAY, ARRAY))), ONE_ACTION)
    assert [(wish.job.job_id, wish.after) for wish in made] == [("7_3", "a")]


def test_the_same_advice_on_an_array_is_not_followed_for_its_next_task_too():
    jobs = TASKS | {"7_3": replace(TASKS["7_3"], nodes=("a",))}
    made, passed = wishes(Sight(NOW, jobs, BelievedAdvice((ARRAY,)), (pinned("7_3", ARRAY.snapshot_s),)), ONE_ACTION)
    assert (made, passed) == ([], {"open": 1})
    later = replace(ARRAY, snapshot_s=NOW - 1, nodes=("b",))
    made, _ = wishes(Sight(NOW, jobs, BelievedAdvice((later,)), (pinned("7_3", ARRAY.snapshot_s),)), ONE_ACTION)
    assert [(wish.job.job_id, wish.after) for wish in made] == [("7_4", "b")]


@pytest.mark.parametrize(("advised", "fate"), [
    (ARRAY, "keep"), (replace(ARRAY, job_id="7_3", task=False), "keep"), (replace(ARRAY, nodes=("b",)), "take_back"),
    (replace(ARRAY, job_id="7_4"), "take_back")])
def test_a_task_is_pinned_as_long_as_it_or_its_array_is_advised_there(advised, fate):
    jobs = {"7_3": replace(TASKS["7_3"], nodes=("a",))}
    change = pinned("7_3", NOW - 5)
    (verdict,) = verdicts(Sight(NOW, jobs, BelievedAdvice((advised,)), (change,), process="own"), ONE_ACTION)
    assert verdict.fate == fate


@pytest.mark.parametrize(("job", "advised", "why"), [
    (replace(TASKS["7_3"], job_id="7", array=""), ARRAY, "command"),
    (replace(TASKS["7_3"], job_id="7", array=""), replace(ARRAY, task=False, plain=False), "command"),
    (replace(TASKS["7_3"], job_id="7", array="", plain=False), replace(ARRAY, task=False), "plain"),
    (replace(TASKS["7_3"], nodes=("c",)), ARRAY, "pinned")])
def test_why_a_job_is_left_alone_is_told(job, advised, why):
    assert wishes(Sight(NOW, {job.job_id: job}, BelievedAdvice((advised,), "", ("stale",))), ONE_ACTION) == (
        [], {why: 1, "stale": 1})


@given(sights())
def test_only_what_waits_and_is_our_own_is_ever_taken_back(sight):
    for verdict in verdicts(sight, RULES):
        if verdict.fate == "take_back":
            job = sight.jobs[verdict.change.job_id]
            assert job.state in ("PENDING", *HELD)
            assert job.value(verdict.change.attribute) == verdict.change.after
            assert not (verdict.change.dry_run and verdict.change.process != "own")
            assert verdict.why


@given(sights())
def test_what_stands_against_the_rules_is_always_taken_back(sight):
    for verdict in verdicts(sight, RULES):
        change, job = verdict.change, sight.jobs.get(verdict.change.job_id)
        stands = job is not None and job.pending and job.value(change.attribute) == change.after
        if not stands or change.dry_run and change.process != "own":
            continue
        wrong = (sight.stopped or sight.advice.silence or change.process != "own" or change.deadline_s <= NOW
                 or change.user == "root" or change.partition == "cpu" or not sight.advised(change)
                 or change.state in ("started", "taking_back"))
        assert (verdict.fate == "take_back") == bool(wrong)


@given(sights())
def test_every_change_of_a_job_that_is_gone_is_let_go_and_of_one_that_ran_none_that_may_come_back(sight):
    for verdict in verdicts(sight, RULES):
        job, change = sight.jobs.get(verdict.change.job_id), verdict.change
        if job is None or job.state in CALLED_OFF and change.state != "started":
            assert verdict.fate == "ended"
        elif not job.pending and not (change.dry_run and change.process != "own"):
            assert verdict.fate in ("keep", "started")


@pytest.mark.parametrize("state", HELD)
def test_what_was_changed_on_a_job_that_is_requeued_and_held_is_taken_back(state):
    change, held = replace(pinned("7", NOW - 5), state="started"), QueuedJob("7", state, "gpu", "ada", ("a",), 0,
                                                                          NOW - 500)
    advised = replace(ARRAY, job_id="7", task=False)
    (one,) = verdicts(Sight(NOW, {"7": held}, BelievedAdvice((advised,)), (change,), process="own"), ONE_ACTION)
    assert (one.fate, one.why) == ("take_back", "the job was requeued")
    assert wishes(Sight(NOW, {"7": replace(held, nodes=())}, BelievedAdvice((advised,))), ONE_ACTION) == (
        [], {"not_pending": 1})


def test_a_job_that_is_over_may_be_requeued_until_slurm_forgets_it():
    job, change = QueuedJob("7", "COMPLETED", "gpu", "ada", ("a",), 0, NOW - 500), pinned("7", NOW - 5)

    def fate(job, change):
        jobs = {"7": job} if job else {}
        return verdicts(Sight(NOW, jobs, BelievedAdvice(), (change,), process="own"), ONE_ACTION)[0].fate

    assert fate(job, change) == "started", "it started and ended between two looks"
    started = replace(change, state="started")
    assert [fate(one, started) for one in (job, replace(job, state="CANCELLED"), None)] == ["keep", "keep", "ended"]
    assert fate(replace(job, state="PENDING"), started) == "take_back"
    assert fate(replace(job, state="CANCELLED"), change) == "ended"


def test_what_slurm_has_refused_is_not_tried_again_at_once_and_holds_up_nobody_else():
    jobs = {name: QueuedJob(name, "PENDING", "gpu", "ada", (), 0, NOW - 500) for name in "12"}
    rows = tuple(replace(ARRAY, job_id=name, task=False) for name in "12")
    refused = replace(pinned("1", NOW - 70), state="refused", intended_s=NOW - 70, ended_s=NOW - 70)
    sight = Sight(NOW, jobs, BelievedAdvice(rows), (), (refused,), "own")
    made, passed = wishes(sight, IN_EARNEST)
    assert ([wish.job.job_id for wish in made], passed) == (["2"], {"refused": 1})
    made, _ = wishes(replace(sight, now_s=NOW - 70 + IN_EARNEST.start_within), IN_EARNEST)
    assert [wish.job.job_id for wish in made] == ["1", "2"]
    elsewhere = replace(sight, advice=BelievedAdvice((replace(rows[0], nodes=("b",)),)))
    assert [wish.after for wish in wishes(elsewhere, IN_EARNEST)[0]] == ["b"]


def test_the_time_that_a_dry_run_held_nobody_up_is_not_taken_off_that_of_a_job():
    dry = replace(pinned("1", NOW - 3600), dry_run=True, state="lapsed", intended_s=NOW - 3600, ended_s=NOW - 3485)
    sight = one(lately=(dry,))
    assert len(wishes(sight, IN_EARNEST)[0]) == 1
    assert wishes(sight, ONE_ACTION) == ([], {"waited": 1})


@given(sights())
def test_nothing_is_wished_for_beyond_what_is_allowed(sight):
    made, passed = wishes(sight, RULES)
    if sight.stopped or sight.advice.silence:
        assert (made, passed) == ([], {})
    assert set(passed) <= set(PASSED_OVER)
    for wish in made:
        job = wish.job
        assert (job.state, job.plain, job.partition in ("gpu", "big")) == ("PENDING", True, True)
        assert job.user != "root"
        assert job.partition == wish.advised.partition
        assert wish.attribute != "required_nodes" or job.nodes == ()
        assert job.submit_s == wish.advised.submit_s
        assert not any(change.job_id == job.job_id and change.attribute == wish.attribute for change in sight.open)
        assert wish.before == job.value(wish.attribute) != wish.after


@given(sights())
def test_no_more_is_wished_for_than_the_limits_allow(sight):
    made, _ = wishes(sight, RULES)
    waiting = sum(change.state != "started" for change in sight.open)
    minute = sum(NOW - change.intended_s < 60 and change.dry_run == RULES.dry_run for change in sight.lately)
    assert len(made) <= max(0, min(3 - waiting, 4 - minute))


@given(sights())
def test_no_job_waits_longer_under_all_its_changes_than_the_stated_time(sight):
    for wish in wishes(sight, RULES)[0]:
        waited = sum(change.waited_s(NOW) for change in sight.lately
                     if change.job_id == wish.job.job_id and change.dry_run == RULES.dry_run)
        assert waited + wish.deadline_s + RULES.every - NOW <= RULES.start_within + 1e-6


def one(**more):
    job = QueuedJob("1", "PENDING", "gpu", "ada", (), 0, NOW - 500)
    rows = (Advised("1", NOW - 500, "gpu", ("a",), "scorer@1", NOW, NOW),)
    return replace(Sight(NOW, {"1": job}, BelievedAdvice(rows), process="own"), **more)


def test_an_intent_that_is_not_seen_is_waited_for_until_its_time_is_up():
    change = FollowChange("1", NOW - 500, "ada", "gpu", "required_nodes", "", "a", "easy", NOW, NOW, NOW - 10, NOW + 10,
                          "former", id=1)
    sight = one(open=(change,))
    assert [verdict.fate for verdict in verdicts(sight, RULES)] == ["keep"]
    assert [verdict.fate for verdict in verdicts(replace(sight, now_s=NOW + 10), RULES)] == ["lapsed"]


@pytest.mark.parametrize(("policy", "followed"), [
    ("", 2), ("scorer", 2), ("scorer@1", 2), ("scorer@2", 0), ("easy", 0)])
def test_another_policy_than_the_one_that_is_named_is_not_followed(policy, followed):
    made, _ = wishes(one(), RULES.model_copy(update={"policy": policy}))
    assert len(made) == followed


def test_nice_is_reckoned_from_what_the_job_has():
    job = QueuedJob("1", "PENDING", "gpu", "ada", (), 30, NOW - 500)
    made, _ = wishes(one(jobs={"1": job}), RULES)
    assert [(wish.attribute, wish.before, wish.after) for wish in made] == [
        ("required_nodes", "", "a"), ("nice", "30", "-70")]


@pytest.mark.parametrize(("back_s", "fate"), [(1.0, "keep"), (3600.0, "take_back")])
def test_a_clock_that_is_set_back_by_an_hour_keeps_no_job_pinned_for_it(back_s, fate):
    change, now_s = pinned("7", NOW - 5), NOW - 4 - back_s
    job = QueuedJob("7", "PENDING", "gpu", "ada", ("a",), 0, NOW - 500)
    advice = BelievedAdvice((replace(ARRAY, task=False, issued_s=now_s, snapshot_s=now_s),))
    (one,) = verdicts(Sight(now_s, {"7": job}, advice, (change,), (change,), "own"), ONE_ACTION)
    assert one.fate == fate


def test_what_stands_on_a_job_that_is_not_understood_stays_and_nothing_else_is_changed_there():
    """As a job that is over it would keep what was changed for ever."""
    change, advised = pinned("7", NOW - 5), replace(ARRAY, job_id="7", task=False)
    sight = Sight(NOW, {"7": QueuedJob.unread("7")}, BelievedAdvice(silence="degraded"), (change,), (), "own")
    assert [one.fate for one in verdicts(sight, ONE_ACTION)] == ["keep"]
    made, passed = wishes(replace(sight, advice=BelievedAdvice((advised,)), open=()), ONE_ACTION)
    assert (made, passed) == ([], {"unreadable": 1})


@pytest.mark.parametrize("other", ["7_[5-9]", "7+0"])
def test_of_an_array_only_what_is_a_task_is_meant(other):
    job = replace(TASKS["7_3"], job_id=other, plain=False)
    sight = Sight(NOW, {**TASKS, other: job}, BelievedAdvice((ARRAY,)))
    assert sight.meant(ARRAY).job_id == "7_3"
