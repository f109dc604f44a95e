"""Templates of the site's own, and what of a configuration is refused before anybody is told anything."""

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from idlewatt.daemon import config
from idlewatt.daemon.cli import main
from idlewatt.daemon.notices.texts import _SAMPLE, ADMINS, MOST_CHARACTERS, OWNER, Texts

MAIL = "mail: {host: x, sender: i@example.org}, addresses: {template: '{user}@example.org'}"


def wasting(count, **figures):
    """Return notices of so many jobs, the last of which wasted most."""
    return [replace(_SAMPLE, job_id=f"job{number}", figures={**_SAMPLE.figures, "wasted_kwh": float(number), **figures})
            for number in range(count)]


@pytest.mark.parametrize(("name", "stage", "subject"), [
    (ADMINS, "admins", "3000 jobs still waste"), (OWNER, "first", "3000 of your jobs hold more than they use")])
def test_a_mail_shows_the_jobs_that_wasted_most_and_says_how_many_are_left_out(name, stage, subject):
    said, text = Texts().render(name, wasting(3000), stage)
    assert said == subject
    shown = re.findall(r"^Job (job[0-9]+) ", text, re.MULTILINE)
    assert shown == [f"job{number}" for number in range(2950, 3000)], "in the order in which they were found"
    assert "2950 more jobs are not shown in this mail: they wasted less, or that is not measured." in text
    assert "not shown" not in Texts().render(name, wasting(50), stage)[1]


SECOND_RULE = {"rule": "low", "kind": "low_activity", "words": "Its GPUs worked 3 % of the time.", "fix": "Try MIG."}


@pytest.mark.parametrize(("name", "stage", "subject"), [
    (ADMINS, "admins", "1 job still wastes"), (OWNER, "first", "Your job 4711 holds more than it uses")])
def test_a_job_that_several_rules_find_is_one_job_whose_energy_stands_once(name, stage, subject):
    said, text = Texts().render(name, [_SAMPLE, replace(_SAMPLE, **SECOND_RULE)], stage)
    assert said == subject
    assert text.count("Job 4711 (train)") == text.count("So far 12 kWh") == text.count("(1.00 EUR)") == 1
    assert _SAMPLE.words in text
    assert SECOND_RULE["words"] in text
    both = [replace(notice, **more) for notice in wasting(60) for more in ({}, SECOND_RULE)]
    text = Texts().render(name, both, stage)[1]
    assert len(re.findall(r"^Job job", text, re.MULTILINE)) == 50
    assert "10 more jobs are not shown in this mail" in text


def test_a_sites_own_template_that_knows_no_findings_still_says_all_of_them(tmp_path):
    (tmp_path / "notice.txt").write_text(
        "{{ total }}\n{% for item in items %}{{ item.words }} {{ item.fix }} ({{ item.rule }})\n{% endfor %}")
    assert Texts(tmp_path).render(OWNER, [_SAMPLE, replace(_SAMPLE, **SECOND_RULE)], "first") == ("1", (
        f"{_SAMPLE.words} Its GPUs worked 3 % of the time. End it. Try MIG. (idle_gpus, low)"))


def test_administrators_read_of_each_rule_whether_the_owner_was_told():
    other = replace(_SAMPLE, **SECOND_RULE)
    firsts = {_SAMPLE.key: replace(_SAMPLE, sent_s=1e9), other.key: replace(other, why="opted out")}
    text = Texts().render(ADMINS, [_SAMPLE, other], "admins", firsts)[1]
    assert "Its owner was told 2001-09-09 01:46 UTC, by rule idle_gpus." in text
    assert "Its owner was not told (opted out), by rule low." in text


def test_what_is_said_of_all_jobs_is_so_of_those_that_are_not_shown():
    untold, *others = wasting(60)
    firsts = {notice.key: replace(notice, sent_s=1e9) for notice in others}
    assert Texts().render(ADMINS, others, "admins", firsts)[0] == "59 jobs still waste after their owners were told"
    assert Texts().render(ADMINS, [untold, *others], "admins", firsts)[0] == "60 jobs still waste"
    limits = [replace(notice, kind="time_limit") for notice in others]
    assert "asked for much more time" in Texts().render(OWNER, limits, "first")[0]
    assert "hold more than they use" in Texts().render(OWNER, [untold, *limits], "first")[0]


def test_what_was_not_measured_is_left_out_before_what_was():
    unknown = [replace(notice, job_id=f"unknown{place}") for place, notice in enumerate(wasting(9, wasted_kwh=None))]
    text = Texts().render(ADMINS, [*unknown, *wasting(50)], "admins")[1]
    assert "unknown" not in text
    assert "9 more jobs are not shown" in text


def test_a_mail_of_jobs_with_long_names_is_no_longer_than_others():
    text = Texts().render(ADMINS, wasting(50, name="x" * 20_000), "admins")[1]
    assert len(text) <= MOST_CHARACTERS
    assert text.count("Job job") == 6
    assert "44 more jobs are not shown in this mail" in text
    (cut,) = (Texts().render(ADMINS, wasting(count, name="x" * 10**6), "admins")[1] for count in (1,))
    assert len(cut) <= MOST_CHARACTERS
    assert cut.endswith("The rest of this mail was too long.")


def test_a_sites_own_template_says_how_many_jobs_are_left_out_as_well(tmp_path):
    (tmp_path / "notice_admins.txt").write_text("{{ items | length }} of {{ total }}\n{{ items[0].job_id }}")
    assert Texts(tmp_path).render(ADMINS, wasting(51), "admins") == ("50 of 51", (
        "job1\n\n1 more job is not shown in this mail: it wasted less, or that is not measured. "
        "`idlewatt notices` lists all."))


def parse(keys: str):
    return config.parse(f"notices: {{{keys}}}\n")


def test_a_sites_own_template_is_taken(place, mail_server, tmp_path):
    server = mail_server()
    (tmp_path / "notice.txt").write_text("Hello {{ user }}\n{{ items[0].job_id }} {{ items[0].gpus }}")
    desk = place.desk(mail=f"{{host: 127.0.0.1, port: {server.port}, sender: i@example.org}}", templates=tmp_path)
    place.look(desk)
    ((_, mail, _),) = server.mails
    assert (mail["Subject"], mail.get_content().strip()) == ("Hello ada", "4711 4")


@pytest.mark.parametrize(("text", "words"), [
    ("{% for %}", "line 2"), ("{{ items[0].nothing }}", "nothing"), ("{{ 1 / 0 }}", "division by zero"),
    ("{{ ().__class__.__mro__ }}", "unsafe"), ("{{ items.append(1) }}", "unsafe"), ("{% include 'x' %}", "x")])
def test_a_template_with_an_error_is_refused(tmp_path, text, words):
    (tmp_path / "notice.txt").write_text(f"Subject\n{text}")
    with pytest.raises(config.ConfigError, match=words):
        parse(f"templates: {tmp_path}")


def test_check_config_refuses_a_template_with_an_error(tmp_path):
    (tmp_path / "notice_admins.txt").write_text("{{ nobody }}")
    file = tmp_path / "config.yml"
    file.write_text(f"notices: {{templates: {tmp_path}}}\n")
    result = CliRunner().invoke(main, ["check-config", str(file)])
    assert (result.exit_code, "notice_admins.txt: 'nobody' is undefined" in result.output) == (2, True), result.output


def test_a_template_with_an_error_is_refused_at_a_reload_and_the_old_configuration_goes_on(rig, tmp_path):
    service = rig.service(notices=f"{{enabled: true, templates: {tmp_path}}}")
    (tmp_path / "notice.txt").write_text("{{ nobody }}")
    with pytest.raises(config.ConfigError, match="nobody"):
        service.reload(lambda: config.parse(rig.text(notices=f"{{enabled: true, templates: {tmp_path}}}")))
    assert service.settings.notices.templates == tmp_path


@pytest.mark.parametrize(("keys", "words"), [
    ("rules: [{kind: nothing}]", "there is no kind 'nothing'"),
    ("rules: [{kind: wasted}]", "needs its class"), ("rules: [{kind: idle_gpus, class: stranded}]", "takes no class"),
    ("rules: [{kind: idle_gpus}, {kind: idle_gpus}]", "two rules are called 'idle_gpus'"),
    ("rules: [{kind: idle_gpus, channels: [webhook]}]", "webhook, which is not set"),
    ("enabled: true, dry_run: false, rules: [{kind: idle_gpus}]", "mail needs mail.host"),
    ("addresses: {template: example.org}", "an address with {user}"),
    ("timezone: Atlantis", "there is no 'Atlantis'"),
    ("quiet_hours: {since: 20:00, until: '07:00'}", "quotation marks"),
    ("quiet_hours: {since: '20:00Z', until: '07:00'}", "is local time in notices.timezone here, written without"),
    ("quiet_hours: {since: '20:00', until: '07:00-05:00'}", "quiet_hours.until: a time of day is local time"),
    ("digest: {at: '07:00+02:00'}", "digest.at: a time of day is local time"),
    ("mail: {host: x, sender: \"a\\nBcc: b@c\"}", "control characters"),
    ("admins: [\"a@b\\nBcc: b@c\"]", "control characters"),
    ("digest: {owners: {lab: \"a@b\\nBcc: b@c\"}}", "control characters"),
    ("mail: {host: x, sender: a@b, username: u, password_file: p}", "only sent over tls"),
    ("mail: {host: x, sender: a@b, username: u, tls: tls}", "belong together"),
    ("digest: {enabled: true}, enabled: true, dry_run: false", "a digest needs mail"),
    ("alertmanager: {url: 'http://x', labels: {my-cluster: dgx}}", "alertmanager.labels"),
    ("webhook: {url: 'file:///etc/passwd'}", "webhook.url"), ("templates: /nowhere", "no folder"), ("x: 1", "unknown")])
def test_what_cannot_be_meant_is_refused_with_its_place(keys, words):
    with pytest.raises(config.ConfigError, match=words.replace("{", r"\{")):
        parse(keys)
