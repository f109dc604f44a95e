"""Notices through a real Alertmanager, which routes them to the owner by the label ``user``."""

import json
import socket
import subprocess
import time
from dataclasses import replace

import pytest
import requests
from cost import patient

HOUR = 3600.0
CONFIGURATION = {
    "global": {"smtp_from": "alertmanager@example.org", "smtp_require_tls": False, "smtp_hello": "localhost"},
    "route": {"receiver": "owner", "group_by": ["user", "job_id"], "group_wait": "0s", "group_interval": "1s"},
    "receivers": [{"name": "owner", "email_configs": [{
        "to": "{{ .GroupLabels.user }}@example.org",
        "headers": {"Subject": "job {{ .GroupLabels.job_id }} {{ .Status }}"},
        "text": "{{ range .Alerts }}{{ .Annotations.summary }} {{ .Annotations.description }}{{ end }}",
        "html": "", "send_resolved": True}]}],
}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture
def alertmanager(mail_server, tmp_path):
    """Return the address of a real Alertmanager, and the mail server that it writes to."""
    server, port = mail_server(), free_port()
    CONFIGURATION["global"]["smtp_smarthost"] = f"127.0.0.1:{server.port}"
    (tmp_path / "alertmanager.yml").write_text(json.dumps(CONFIGURATION))
    process = subprocess.Popen(["prometheus-alertmanager", f"--config.file={tmp_path}/alertmanager.yml",
                                f"--storage.path={tmp_path}", f"--web.listen-address=127.0.0.1:{port}",
                                "--cluster.listen-address=", "--log.level=error"])
    url = f"http://127.0.0.1:{port}"
    wait_for(lambda: ready(url))
    yield url, server
    process.terminate()
    process.wait(20)


def ready(url):
    try:
        return requests.get(f"{url}/-/ready", timeout=60).ok
    except requests.ConnectionError:
        return False


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + patient(seconds)
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.05)


def test_a_real_alertmanager_takes_a_notice_tells_the_owner_and_that_it_is_over(place, alertmanager):
    url, server = alertmanager
    place.now_s = time.time()  # it has no other clock
    place.jobs[:] = [replace(place.jobs[0], submit_s=place.now_s - 30 * HOUR, start_s=place.now_s - 20 * HOUR)]
    place.now(4, 3.0)
    desk = place.desk("[{kind: idle_gpus, channels: [alertmanager]}]", every="1s",
                      alertmanager=f"{{url: '{url}', labels: {{cluster: dgx}}}}", page_url="https://x.org")
    place.look(desk)
    (alert,) = requests.get(f"{url}/api/v2/alerts", timeout=60).json()
    assert alert["labels"] == {"cluster": "dgx", "alertname": "IdlewattNotice", "rule": "idle_gpus",
                               "kind": "idle_gpus", "stage": "first", "job_id": "4711", "user": "ada",
                               "account": "lab", "partition": "a100"}
    assert alert["generatorURL"] == "https://x.org/jobs/4711"
    wait_for(lambda: server.mails)
    ((to, mail, _),) = server.mails
    assert (to, mail["Subject"]) == (("ada@example.org",), "job 4711 firing")
    assert "All of its 4 GPUs have done nothing for 3h 0m." in mail.get_body(("plain",)).get_content()
    place.gpus.clear()  # nobody posts it again: it ends by itself
    wait_for(lambda: len(server.mails) > 1)
    assert server.mails[1][1]["Subject"] == "job 4711 resolved"


def test_a_real_alertmanager_that_is_away_is_no_fault_of_the_notice(place):
    desk = place.desk("[{kind: idle_gpus, channels: [alertmanager]}]",
                      alertmanager=f"{{url: 'http://127.0.0.1:{free_port()}'}}")
    place.look(desk)
    ((_, _, state),) = place.states()
    assert state == "waiting"
    assert desk.undelivered.notices == 1
