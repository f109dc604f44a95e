"""Templates of the site's own, and what of a configuration is refused before anybody is told anything."""

import pytest
from click.testing import CliRunner

from idlewatt.daemon import config
from idlewatt.daemon.cli import main

MAIL = "mail: {host: x, sender: i@example.org}, addresses: {template: '{user}@example.org'}"


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
