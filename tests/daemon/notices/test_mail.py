"""Mails to owners, with a real mail server: what they say, and what becomes of those that nobody takes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from idlewatt.daemon.notices import delivery
from idlewatt.daemon.notices.addresses import address_of
from idlewatt.daemon.notices.mail import Mail, message
from idlewatt.daemon.settings.notices import MailSettings
from idlewatt.storage.errors import StoreError

HOUR, DAY = 3600.0, 86400.0


def by(server, **more) -> str:
    keys = {"host": "127.0.0.1", "port": server.port, "sender": "idlewatt@example.org", "timeout": "5s"} | more
    return "{" + ", ".join(f"{key}: {value}" for key, value in keys.items()) + "}"


def test_the_owner_of_a_job_that_idles_is_told_once_with_its_figures_and_what_to_do(place, mail_server):
    server = mail_server()
    desk = place.desk(mail=by(server), page_url="'https://idlewatt.example.org'")
    place.look(desk)
    place.look(desk, 300.0)
    ((to, mail, _),) = server.mails
    assert to == ("ada@example.org",)
    assert mail["Subject"] == "Your job 4711 holds more than it uses on dgx"
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail.get_content()
    assert "All of its 4 GPUs have done nothing for 3h 0m." in text
    assert "https://idlewatt.example.org/jobs/4711" in text
    assert place.states() == [("4711", "first", "sent")]


@pytest.mark.parametrize("kind", ["tls", "starttls"])
def test_mail_goes_over_tls_to_a_server_that_is_trusted_with_a_password_from_a_file(place, mail_server, authority,
                                                                                  tmp_path, kind):
    server = mail_server(kind, authority)
    (tmp_path / "password").write_text("secret\n")
    login = {"username": "idlewatt", "password_file": tmp_path / "password"} if kind == "starttls" else {}
    place.look(place.desk(mail=by(server, tls=kind, ca_file=server.ca_file, **login)))
    assert [secure for _, _, secure in server.mails] == [True]


def test_a_server_that_nobody_vouches_for_is_told_nothing(place, mail_server, authority):
    server = mail_server("tls", authority)
    place.look(place.desk(mail=by(server, tls="tls")))
    assert server.mails == []
    assert "certificate verify failed" in place.reasons()[0]


def test_a_wrong_password_is_kept_for_later_and_stands_in_no_message(place, mail_server, authority, tmp_path):
    server = mail_server("starttls", authority)
    (tmp_path / "password").write_text("wrong-one")
    place.look(place.desk(mail=by(server, tls="starttls", ca_file=server.ca_file, username="idlewatt",
                                  password_file=tmp_path / "password")))
    assert place.states() == [("4711", "first", "waiting")]
    assert "535" in place.reasons()[0]
    assert "wrong-one" not in place.reasons()[0]


def test_while_the_server_is_down_mail_is_kept_told_as_degraded_tried_again_and_sent_at_last(place, mail_server):
    server = mail_server()
    gone = replace(server, port=1)
    desk = place.desk(mail=by(gone))
    place.look(desk)
    waits = desk.undelivered
    assert (waits.notices, waits.since_s) == (1, place.now_s)
    assert "127.0.0.1:1" in waits.why
    place.look(desk, 30.0)
    assert place.history.notices(0.0)[0].tries == 1  # not before its pause is over
    place.look(desk, 31.0)
    assert place.history.notices(0.0)[0].tries == 2
    again = place.desk(mail=by(server))  # a daemon that was started anew knows what waits
    place.look(again, 60.0)
    assert server.mails == []
    place.look(again, 61.0)
    assert len(server.mails) == 1
    assert again.undelivered is None


@pytest.mark.parametrize("keys", [{"enabled": "false"}, {"dry_run": "true"}])
def test_who_is_to_be_told_nothing_any_more_is_not_behind_with_notices(place, keys):
    desk = place.desk()
    place.look(desk)
    assert desk.undelivered is not None
    assert desk.renewed(place.desk(**keys)._all).undelivered is None


def test_what_cannot_be_delivered_for_days_is_given_up(place):
    desk = place.desk(give_up="1d")
    place.look(desk)
    place.look(desk, DAY + 1)
    assert place.states()[0] == ("4711", "first", "failed")
    assert place.reasons()[0].startswith("given up: mail:")


def test_what_waits_for_its_turn_for_longer_than_is_tried_again_is_not_given_up(place, mail_server):
    server = mail_server()
    desk = place.desk(mail=by(server), per_user="7d", give_up="3d",
                      escalation="{second_after: null, admins_after: null}")
    place.look(desk)
    place.other("4712")
    place.look(desk, HOUR)
    place.look(desk, 4 * DAY)
    assert place.states()[1] == ("4712", "first", "waiting")
    place.look(desk, 3 * DAY)
    assert (len(server.mails), place.states()[1]) == (2, ("4712", "first", "sent"))


def test_an_address_that_the_server_refuses_for_good_has_failed_and_the_others_are_told(place, mail_server):
    server = mail_server()
    place.other("4712", "bob")
    server.box.refuse["ada@example.org"] = "550 no such user"
    place.look(place.desk(mail=by(server)))
    assert place.states() == [("4711", "first", "failed"), ("4712", "first", "sent")]
    assert "refused: 550 no such user" in place.reasons()


def test_an_address_that_is_refused_for_now_is_tried_again(place, mail_server):
    server = mail_server()
    server.box.refuse["ada@example.org"] = "450 greylisted"
    desk = place.desk(mail=by(server))
    place.look(desk)
    assert place.states() == [("4711", "first", "waiting")]
    server.box.refuse.clear()
    place.look(desk, 61.0)
    assert place.states() == [("4711", "first", "sent")]


def test_a_full_mailbox_keeps_nobody_elses_mail_back(place, mail_server):
    server = mail_server()
    place.other("4712", "bob")
    server.box.refuse["ada@example.org"] = "452 mailbox full"
    desk = place.desk(mail=by(server))
    place.look(desk)
    assert place.states() == [("4711", "first", "waiting"), ("4712", "first", "sent")]
    assert [to for to, _, _ in server.mails] == [("bob@example.org",)]
    assert "mail: refused: 452 mailbox full" in place.reasons()


@pytest.mark.parametrize(("admins", "reached"), [
    ("[root@example.org, jörg@example.org]", ("root@example.org",)), ("[jörg@example.org]", ()),
    ("['Jörg <joerg@example.org>']", ("joerg@example.org",))])
def test_an_administrators_address_that_the_server_cannot_take_costs_only_itself(place, mail_server, admins, reached):
    server = mail_server("ascii")
    desk = place.desk(mail=by(server), admins=admins, escalation="{second_after: null, admins_after: 1h}")
    place.look(desk)
    place.other("4712", "bob")
    place.look(desk, 2 * HOUR)
    assert [to for to, _, _ in server.mails] == [("ada@example.org",), *([reached] if reached else []),
                                                 ("bob@example.org",)]
    assert place.states()[:2] == [("4711", "first", "sent"), ("4711", "admins", "sent" if reached else "failed")]


def test_an_address_that_is_not_ascii_is_reached_where_the_server_offers_that(place, mail_server):
    server = mail_server()
    desk = place.desk(mail=by(server), admins="[root@example.org, jörg@example.org]", escalation="{admins_after: 1h}")
    place.look(desk)
    place.look(desk, 2 * HOUR)
    assert [to for to, _, _ in server.mails][1:] == [("root@example.org", "jörg@example.org")]


def test_mails_leave_although_each_address_takes_long_to_find(place, mail_server, monkeypatch):
    server, spent = mail_server(), [0.0]

    def slowly(user, settings):
        spent[0] += 20.0
        return address_of(user, settings)

    monkeypatch.setattr(delivery, "time", SimpleNamespace(monotonic=lambda: spent[0]))
    monkeypatch.setattr(delivery, "address_of", slowly)
    for number in range(4):
        place.other(str(5000 + number), f"user{number}")
    desk = place.desk(mail=by(server))
    place.look(desk)
    assert len(server.mails) == 2
    place.look(desk, 300.0)
    place.look(desk, 300.0)
    assert len(server.mails) == 5


def test_a_server_that_closes_is_asked_for_nothing_more(place, mail_server):
    server = mail_server()
    place.other("4712", "bob")
    server.box.refuse["ada@example.org"] = "421 closing"
    place.look(place.desk(mail=by(server)))
    assert {state for _, _, state in place.states()} == {"waiting"}


@pytest.mark.parametrize("user", ["ada\r\nBcc: all@example.org", "ada, all@example.org", "a*)(uid=*", "-oops", "",
                                  "x" * 300, "ada@elsewhere.org", "<script>", "ä\u202eda"])
def test_a_user_whose_name_is_an_attack_gets_no_mail_and_nobody_else_one(place, mail_server, user):
    server = mail_server()
    place.jobs[:] = [replace(place.jobs[0], user=user)]
    place.look(place.desk(mail=by(server)))
    assert server.mails == []
    assert {state for _, _, state in place.states()} <= {"left_out"}


def test_a_job_whose_name_is_an_attack_adds_no_header_and_no_escape_to_a_mail(place, mail_server):
    server = mail_server()
    place.jobs[:] = [replace(place.jobs[0], name="x\r\nBcc: all@example.org\r\n\r\n\x1b[31m<b>", job_id="4711")]
    place.look(place.desk(mail=by(server)))
    ((to, mail, _),) = server.mails
    assert to == ("ada@example.org",)
    assert mail["Bcc"] is None
    assert "\x1b" not in mail.get_content()


def test_a_subject_stays_one_line_whatever_a_template_puts_into_it():
    settings = MailSettings(host="x", sender="idlewatt <idlewatt@example.org>")
    made = message(Mail(("a@example.org",), "one\r\nBcc: x@y\n" + "ü" * 500, "text"), settings, 0.0)
    assert made["Bcc"] is None
    assert "\n" not in str(made["Subject"])
    assert made["Message-ID"].endswith("@example.org>")


def test_nobody_is_told_while_it_is_not_known_who_opted_out(place, mail_server, tmp_path):
    server = mail_server()
    desk = place.desk(mail=by(server), opt_out_file=tmp_path / "gone")
    with pytest.raises(OSError, match="gone"):
        place.look(desk)
    assert server.mails == []


def test_nobody_is_told_while_the_ledger_cannot_be_read(place, mail_server, monkeypatch):
    server = mail_server()

    def away(*_):
        raise StoreError("away")

    monkeypatch.setattr(place.history, "notices", away)
    with pytest.raises(StoreError):
        place.look(place.desk(mail=by(server)))
    assert server.mails == []
