"""Whom the desk tells what, and when it keeps silent."""

from dataclasses import replace

import pytest

from idlewatt.daemon.facts import Known
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.owners import OwnerKind
from idlewatt.storage.power_classes import PowerClass

HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def told(place, mail_server):
    """Return a function that makes a desk that mails, and the mails."""
    server = mail_server()

    def desk(rules: str = "[{kind: idle_gpus}]", **more):
        return place.desk(rules, mail=f"{{host: 127.0.0.1, port: {server.port}, sender: i@example.org}}", **more)

    desk.mails, desk.refuse = server.mails, server.box.refuse
    return desk


def test_by_default_nobody_is_told_and_no_cycle_runs(place):
    desk = place.desk(enabled="false")
    assert list(desk.cycles(lambda: Known())) == []


def test_a_dry_run_writes_the_whole_escalation_down_and_tells_nobody(place, told):
    desk = told(dry_run="true")
    place.look(desk)
    place.look(desk, 25 * HOUR)
    place.look(desk, 25 * HOUR)
    assert place.states() == [("4711", stage, "dry_run") for stage in ("first", "second", "admins")]
    assert told.mails == []


def test_what_was_only_tried_out_is_told_once_it_is_meant(place, told):
    place.look(told(dry_run="true"))
    place.look(told(), 60.0)
    assert place.states() == [("4711", "first", "sent")]


def test_what_was_tried_out_long_ago_and_is_refused_now_waits_on_after_a_restart(place, told):
    place.look(told(dry_run="true"))
    told.refuse["ada@example.org"] = "450 later"
    place.look(told(), 7 * DAY)
    assert place.states() == [("4711", "first", "waiting")]
    place.look(told(), 30.0)
    assert place.states() == [("4711", "first", "waiting")]


def test_who_goes_on_is_told_again_and_then_administrators_are(place, told):
    desk = told()
    for _ in range(3):
        place.look(desk, 25 * HOUR)
    assert [(to, mail["Subject"]) for to, mail, _ in told.mails] == [
        (("ada@example.org",), "Your job 4711 holds more than it uses on dgx"),
        (("ada@example.org",), "Second notice: Your job 4711 holds more than it uses on dgx"),
        (("root@example.org",), "1 job still wastes after its owner was told on dgx")]


def test_administrators_read_when_the_owner_was_told(place, told):
    desk = told()
    for _ in range(3):
        place.look(desk, 25 * HOUR)
    assert "Its owner was told 2026-11-21 13:00 UTC, by rule idle_gpus." in told.mails[2][1].get_content()


def test_of_an_owner_who_was_not_told_administrators_do_not_read_that_they_were(place, told, tmp_path):
    (tmp_path / "out").write_text("bob\n")
    told.refuse["ada@example.org"] = "550 no such user"
    place.other("4712", "bob")
    desk = told(escalation="{second_after: null}", opt_out_file=tmp_path / "out")
    place.look(desk)
    place.look(desk, 49 * HOUR)
    ((to, mail, _),) = told.mails
    assert (to, mail["Subject"]) == (("root@example.org",), "2 jobs still waste on dgx")
    text = mail.get_content()
    assert "Its owner was not told (refused: 550 no such user), by rule idle_gpus." in text
    assert "Its owner was not told (opted out), by rule idle_gpus." in text


def test_a_first_notice_beside_a_second_is_not_called_a_second(place, told):
    desk = told(quiet_hours="{since: '12:30', until: '13:30'}")
    place.look(desk)
    place.look(desk, 25 * HOUR)
    place.other("4712")
    place.look(desk, 600.0)
    place.look(desk, 1800.0)
    text = told.mails[1][1].get_content()
    assert told.mails[1][1]["Subject"] == "2 of your jobs hold more than they use on dgx"
    assert "You were told of each before" not in text
    assert text.count("You were told of this one before, and it goes on.") == 1
    assert text.index("Job 4711") < text.index("You were told of this one before") < text.index("Job 4712")


def test_a_restart_tells_nobody_twice(place, told):
    place.look(told())
    place.look(told(), 60.0)
    assert len(told.mails) == 1


def test_what_was_said_months_ago_of_jobs_that_are_gone_is_not_kept_in_memory(place, told):
    desk = told()
    place.look(desk)
    place.jobs.clear()
    place.look(desk, 59 * DAY)
    assert len(desk._known()) == 1
    place.look(desk, 2 * DAY)
    assert (desk._known(), len(place.states())) == ({}, 1)


@pytest.mark.parametrize("restarted", [False, True])
def test_the_owner_of_a_job_that_idles_for_months_is_not_told_anew(place, told, restarted):
    once = {"escalation": "{second_after: null, admins_after: null}"}
    desk = told(**once)
    place.look(desk)
    place.look(desk, 61 * DAY)
    place.look(told(**once) if restarted else desk, 60.0)
    assert (len(told.mails), place.states()) == (1, [("4711", "first", "sent")])


def test_what_is_counted_is_of_the_last_60_days(place, told):
    desk = told(escalation="{second_after: null, admins_after: null}")
    place.look(desk)
    assert desk.counts() == {("idle_gpus", "first", "sent"): 1.0}
    place.look(desk, 61 * DAY)
    assert desk.counts() == {}


def test_several_jobs_of_a_user_are_one_mail_and_another_comes_a_day_later(place, told):
    place.other("4712")
    desk = told()
    place.look(desk)
    place.other("4713")
    place.look(desk, 2 * HOUR)
    assert [mail["Subject"] for _, mail, _ in told.mails] == ["2 of your jobs hold more than they use on dgx"]
    assert place.reasons().count("one mail a day") == 1
    place.look(desk, 23 * HOUR)
    assert "4713" in told.mails[1][1].get_content()


def test_in_quiet_hours_mail_waits(place, told):
    desk = told(quiet_hours="{since: '11:00', until: '13:00'}", timezone="UTC")
    place.look(desk)
    assert (told.mails, place.reasons()) == ([], ["quiet hours"])
    place.look(desk, 1.5 * HOUR)
    assert len(told.mails) == 1


def test_quiet_hours_are_of_the_place_where_people_live(place, told):
    place.look(told(quiet_hours="{since: '20:00', until: '22:00'}", timezone="Asia/Seoul"))  # it is 21:00 there
    assert place.reasons() == ["quiet hours"]


def test_who_opted_out_hears_nothing_and_administrators_hear_of_the_job(place, told):
    with Ledger.open(str(place.history._engine.url)) as ledger:
        ledger.opt_out("ada", place.now_s)
    desk = told()
    place.look(desk)
    place.look(desk, 49 * HOUR)
    assert place.states() == [("4711", "first", "left_out"), ("4711", "admins", "sent")]
    assert [to for to, _, _ in told.mails] == [("root@example.org",)]


def test_a_file_may_say_who_opted_out(place, told, tmp_path):
    (tmp_path / "out").write_text("ada\n\nbob\n")
    place.look(told(opt_out_file=tmp_path / "out"))
    assert (told.mails, place.reasons()) == ([], ["opted out"])


@pytest.mark.parametrize("rules", [
    "[{kind: idle_gpus, partitions: ['v100*']}]", "[{kind: idle_gpus, exclude: {users: ['a*']}}]",
    "[{kind: idle_gpus, exclude: {accounts: [lab]}}]", "[{kind: idle_gpus, exclude: {partitions: [a100]}}]",
    "[{kind: idle_gpus, window: 4h}]", "[{kind: idle_gpus, min_gpu_hours: 1}]", "[{kind: hung_gpus}]",
    "[{kind: low_activity}]", "[{kind: unused_gpus}]", "[{kind: wasted, class: allocated_idle}]",
    "[{kind: unused_cpus}]", "[{kind: unused_memory}]", "[{kind: serial}]", "[{kind: cores_per_gpu}]",
    "[{kind: time_limit}]", "[]"])
def test_what_is_excluded_too_short_or_not_known_is_said_to_nobody(place, told, rules):
    place.look(told(rules))
    assert (told.mails, place.states()) == ([], [])


def test_people_who_sit_before_their_job_are_left_alone(place, told):
    place.jobs[:] = [replace(place.jobs[0], owner_kind=OwnerKind.INTERACTIVE)]
    place.look(told())
    assert told.mails == []


def test_a_job_that_works_again_before_its_mail_could_be_sent_is_not_told(place, told):
    desk = told(quiet_hours="{since: '11:00', until: '13:00'}")
    place.look(desk)
    place.gpus.clear()
    place.look(desk, 2 * HOUR)
    assert told.mails == []
    place.jobs.clear()
    place.look(desk, 60.0)
    assert place.states() == [("4711", "first", "lapsed")]


def test_a_notice_about_a_job_whose_scheduler_is_not_read_waits_until_it_is(place, told):
    desk = told(quiet_hours="{since: '11:00', until: '13:00'}")
    place.look(desk)
    jobs, place.jobs, place.whole = place.jobs, [], False
    place.look(desk, 2 * HOUR)
    assert (place.states(), told.mails) == ([("4711", "first", "waiting")], [])
    place.jobs, place.whole = jobs, True
    place.look(desk, 60.0)
    assert place.states() == [("4711", "first", "sent")]


def test_a_notice_that_nobody_took_is_given_up_whichever_schedulers_are_read(place, told):
    desk = told()
    told.refuse["ada@example.org"] = "451 try again later"
    place.look(desk)
    place.jobs, place.whole = [], False
    place.look(desk, 73 * HOUR)
    assert place.states() == [("4711", "first", "failed")]


def test_an_old_assessment_or_snapshot_accuses_nobody(place, told):
    desk = told()
    known = place.known()
    place.now_s += HOUR
    desk.look(known)
    desk.look(replace(place.known(), old=True))
    desk.look(Known())
    assert place.states() == []


def test_nobody_is_told_of_another_clusters_job_of_the_same_number(place, told):
    place.other("4711", "bob", submit_s=place.now_s - 40 * HOUR)
    place.gpus[:] = [gpu for gpu in place.gpus if gpu.node == "dgx01"]
    place.look(told())
    assert [to for to, _, _ in told.mails] == [("ada@example.org",)]


def test_a_job_that_was_requeued_is_not_said_to_idle_since_its_former_run(place, told):
    place.jobs[:] = [replace(place.jobs[0], start_s=place.now_s - 2.5 * HOUR)]  # its GPUs idled for half an hour before
    place.look(told())
    assert told.mails == []


def test_some_idle_gpus_are_told_only_where_the_rule_says_so(place, told):
    place.gpus[:] = place.gpus[:2]
    place.look(told())
    assert place.states() == []
    place.look(told("[{kind: idle_gpus, threshold: 0.5}]"))
    assert "2 of its 4 GPUs have done nothing" in told.mails[0][1].get_content()


def test_a_gpu_that_is_not_measured_is_no_idle_one(place, told):
    place.gpus[:] = [replace(gpu, state=PowerClass.UNMEASURED) for gpu in place.gpus]
    place.look(told())
    assert place.states() == []
