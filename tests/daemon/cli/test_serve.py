"""What ``serve`` makes of its options; the running process is tested in tests/daemon/test_main.py."""

import json
import socket

import pytest
import requests
from click.testing import CliRunner

from idlewatt.daemon import logs, main
from idlewatt.daemon.cli import main as idlewatt
from idlewatt.daemon.main import CannotServe


@pytest.fixture
def asked(monkeypatch):
    """Return the options that the command hands to the daemon, which is not started."""
    seen = []
    monkeypatch.setattr(main, "serve", seen.append)
    monkeypatch.setattr(logs, "configure", lambda *style: seen.append(style))
    return seen


def run(*arguments):
    return CliRunner().invoke(idlewatt, ["serve", *arguments])


def test_by_default_only_this_machine_is_served(asked):
    assert run().exit_code == 0
    style, options = asked
    assert style == ("info", "logfmt")
    assert options.addresses == ("127.0.0.1:9723",)
    assert (str(options.config_file), options.lifecycle, options.speed) == ("/etc/idlewatt/config.yml", False, 1.0)


def test_every_option_reaches_the_daemon(asked):
    done = run("--config.file=a.yml", "--web.listen-address=:1", "--web.listen-address=:2", "--web.config.file=w.yml",
               "--web.telemetry-path=/m", "--web.enable-lifecycle", "--web.systemd-socket", "--log.level=debug",
               "--log.format=json")
    assert done.exit_code == 0
    style, options = asked
    assert style == ("debug", "json")
    assert (str(options.config_file), options.addresses, str(options.web_config)) == ("a.yml", (":1", ":2"), "w.yml")
    assert (options.telemetry_path, options.lifecycle, options.systemd_socket) == ("/m", True, True)


def test_an_error_at_the_start_is_one_line_and_exit_code_1(monkeypatch, asked):
    def refuse(options):
        raise CannotServe("cannot listen on :1")

    monkeypatch.setattr(main, "serve", refuse)
    done = run()
    assert (done.exit_code, done.stderr) == (1, "Error: cannot listen on :1\n")


@pytest.mark.parametrize("arguments", [("--log.level=loud",), ("--log.format=xml",), ("stray",), ("--clock.speed=0",)])
def test_wrong_usage_ends_with_2(arguments):
    assert run(*arguments).exit_code == 2


def test_sockets_of_systemd_that_are_not_there_are_missed(daemon, configured):
    refused = daemon(configured(), "--web.systemd-socket")
    assert refused.ended() == 1
    assert "systemd handed over no socket" in refused.log


def test_several_addresses_another_path_and_json_lines(daemon, configured):
    running = daemon(configured(), "--web.listen-address=127.0.0.1:0", "--web.listen-address=[::1]:0"
                     if socket.has_ipv6 else "--web.listen-address=127.0.0.2:0", "--web.telemetry-path=/watts",
                     "--log.format=json")
    said = json.loads(running.said('"listening"'))
    assert len(said["urls"].split()) == 2
    for url in said["urls"].split():
        assert "idlewatt_build_info" in requests.get(f"{url}watts", timeout=60).text
        assert requests.get(f"{url}metrics", timeout=60).status_code == 404
