"""Who sees what: administrators all, users own jobs, on page, API and metrics alike; nobody by a made-up header."""

import json
import re
import socket
from dataclasses import replace
from urllib.parse import urlsplit

import bcrypt
import pytest
from werkzeug.test import Client

from idlewatt.daemon.degraded import Degradation
from idlewatt.daemon.pseudonyms import pseudonymised
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.gate import WebConfigFile
from idlewatt.daemon.web.webconfig import WebConfigError, load
from idlewatt.exporters.metrics import METRICS, Published
from idlewatt.exporters.publish import page as metrics_page
from idlewatt.exporters.publish import registry

PROXY = {"REMOTE_ADDR": "10.1.2.3"}
ROLES = "idlewatt:\n  admins: [root]\n  user_header: X-Remote-User\n  trusted_proxies: [10.1.0.0/16, '::1']\n"


@pytest.fixture
def app(view, tmp_path):
    (tmp_path / "web.yml").write_text(ROLES)
    view.facts = Published(
        partitions=("a100",), user_wasted_power_watts={("alice", "a100"): 10.0, ("bob", "a100"): 20.0},
        reclaimable_since_timestamp_seconds={("a100", "4712", "bob", "2"): 1.0},
        advice_reason_info={("fifo", "4720", "start", "fits"): 1.0}, node_power_watts={("dgx01", "ipmi"): 2746.0})
    return WebApp(view, WebConfigFile(tmp_path / "web.yml"))


@pytest.fixture
def by(app):
    """Return a function that asks as a user whom the proxy names."""
    def ask(user: str, path: str, **environ):
        return Client(app).get(path, headers={"X-Remote-User": user}, environ_overrides=PROXY | environ)

    return ask


def rows(answer):
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text)["data"]


def test_lists_hold_a_users_own_jobs_only_and_an_administrators_hold_all(by):
    assert {row["user"] for row in rows(by("alice", "/api/v1/jobs"))} == {"alice"}
    assert len({row["user"] for row in rows(by("root", "/api/v1/jobs"))}) > 2
    assert {row["user"] for row in rows(by("alice", "/api/v1/jobs?since=7d"))} == {"alice"}
    assert [row["name"] for row in rows(by("alice", "/api/v1/users?since=7d"))] == ["alice"]
    assert rows(by("alice", "/api/v1/jobs?since=7d&user=bob")) == []
    assert rows(by("alice", "/api/v1/waste?since=7d&by=day&user=bob")) == []
    assert {row["job_id"] for row in rows(by("alice", "/api/v1/recommendations"))} <= {"4711", "4720"}
    assert rows(by("alice", "/api/v1/notices")) == rows(by("alice", "/api/v1/notices?user=bob")) == []
    assert len(rows(by("bob", "/api/v1/notices"))) == 1


def test_watts_still_add_up_without_the_names_of_others(by):
    own, every = rows(by("alice", "/api/v1/waste")), rows(by("root", "/api/v1/waste"))
    assert sum(row["power_watts"] or 0 for row in own) == sum(row["power_watts"] or 0 for row in every)
    assert {row["user"] for row in own} == {"", "alice"}
    assert "4712" not in json.dumps(own)


@pytest.mark.parametrize("path", ["/api/v1/jobs/4712", "/jobs/4712", "/users/bob", "/api/v1/waits/4721"])
def test_another_users_job_is_not_found_as_if_it_were_not_there(by, path):
    assert by("alice", path).status_code == 404
    assert by("alice", path).text.replace("4712", "9") == by("alice", path.replace("4712", "9")).text
    if "waits" not in path:
        assert by("root", path).status_code == 200


def test_a_user_sees_the_pages_of_own_jobs_and_nothing_of_others(by):
    assert by("alice", "/jobs/4711").status_code == by("alice", "/users/alice").status_code == 200
    for path in ("/", "/jobs", "/users", "/nodes/dgx01"):
        page = by("alice", path)
        assert page.status_code == 200
        assert not re.search(r"\b(bob|carol|dan|erin|4712|4713|4714|4721)\b", page.text), path


def test_what_a_mail_server_said_of_somebody_elses_address_is_for_administrators(by, view):
    why = "notices not delivered (mail: refused: 450 <bob@example.org> is unknown (4.1.1)) since 14:02"
    view.standing = replace(view.standing, degraded=(Degradation("notices_behind", "", f"3 {why}", 1.0),))
    for path in ("/", "/api/v1/status", "/jobs", "/jobs/9"):
        answer = by("alice", path, HTTP_ACCEPT="text/html")
        assert "bob@example.org" not in answer.text, path
        assert "3 notices not delivered since 14:02" in answer.text, path
    assert "bob@example.org" in by("root", "/api/v1/status").text


def test_what_administrators_are_told_of_a_users_job_is_not_shown_to_the_user(by, view):
    (first,) = view.notice_rows
    view.notice_rows = (first, replace(first, stage="admins", address="root@example.org"))
    assert [row["stage"] for row in rows(by("bob", "/api/v1/notices"))] == ["first"]
    assert len(rows(by("root", "/api/v1/notices"))) == 2


def test_nodes_do_not_tell_which_other_user_they_are_kept_for(by, view):
    first, *others = view.node_rows
    view.reserving = frozenset(("zoe",))
    for user, name in (("alice", "another user's"), ("zoe", "zoe_12"), ("root", "zoe_12")):
        node = replace(first.node, reservation="zoe_12", owner="zoe", reason="drained, asked for by zoe")
        view.node_rows = (replace(first, node=node), *others)
        shown = rows(by(user, "/api/v1/nodes"))[0]["node"]
        assert shown["reservation"] == name
        assert shown["owner"] == ("" if user == "alice" else "zoe")
        assert ("zoe" in json.dumps(shown)) is (user != "alice")


NAMING = ("starts by preempting 55 of bob (4 GPUs), 56 of ali (1 GPU) on a",
          "dgx03 is reserved (zoe_12, now), and alice's limit of account lab on user alice is 8 GPUs")
UNNAMED = ("starts by preempting 55 of another user (4 GPUs), 56 of another user (1 GPU) on a",
           "dgx03 is reserved (another user's, now), and alice's limit of account lab on user alice is 8 GPUs")


@pytest.fixture
def naming(view):
    """Return a view whose every sentence on a waiting job of alice names other users."""
    preempting, reserved = NAMING
    first = replace(view.advice[0], reason=preempting, reasons=(reserved,), alternatives=tuple(
        replace(other, reason=reserved) for other in view.advice[0].alternatives))
    (estimate,) = view.told
    estimate = replace(estimate, job_id=first.job_id, submit_s=first.submit_s, reason=reserved, shapes=tuple(
        replace(shape, reason=preempting) for shape in estimate.shapes))
    view.advice, view.told, view.reserving = (first,), (estimate,), frozenset(("zoe", "ali", "alice"))
    view.job_rows = tuple(replace(job, user="alice") if job.job_id == first.job_id else job for job in view.job_rows)
    return view


def test_advice_on_a_users_own_job_names_no_other_user(by, naming):
    (row,) = rows(by("alice", "/api/v1/recommendations"))
    assert [row["reason"], *row["reasons"]] == list(UNNAMED)
    assert {one["reason"] for one in row["alternatives"]} == {UNNAMED[1]}
    for path in ("/", f"/jobs/{row['job_id']}"):
        page = by("alice", path).text
        assert "of another user (4 GPUs)" in page, path
        assert not re.search(r"\bbob\b|\bali\b|zoe", page), path
    (whole,) = rows(by("root", "/api/v1/recommendations"))
    assert [whole["reason"], *whole["reasons"]] == list(NAMING)


def test_why_a_users_own_job_waits_names_no_other_user(by, naming):
    (estimate,) = rows(by("alice", f"/api/v1/waits/{naming.told[0].job_id}"))
    assert estimate["reason"] == UNNAMED[1]
    assert {shape["reason"] for shape in estimate["shapes"]} == {UNNAMED[0]}
    (whole,) = rows(by("root", f"/api/v1/waits/{naming.told[0].job_id}"))
    assert whole["reason"] == NAMING[1]


@pytest.mark.parametrize("subject", ["moves", "allocation", "elastic", "gpu_slices", "power_caps", "reclaim"])
def test_recommendations_that_name_somebody_elses_job_are_hidden(by, subject):
    found = json.dumps(rows(by("alice", f"/api/v1/{subject}")))
    assert not re.search(r'"(bob|ann|123|124|4712|4721)"', found)


def test_metrics_of_who_is_no_administrator_name_no_user_no_account_and_no_job(by):
    page, whole = by("alice", "/metrics").text, by("root", "/metrics").text
    assert not re.search(r'\b(user|account|job_id|for_job_id)="', page)
    assert 'user="bob"' in whole
    assert 'idlewatt_node_power_watts{node="dgx01",source="ipmi"} 2746.0' in page
    labels = {label for metric in METRICS for label in metric.labels}
    assert {one for one in labels if re.search("user|job|account|owner", one)} <= {
        "user", "account", "job_id", "for_job_id"}, "a new label of persons: hide it in own_view.PERSONAL"


@pytest.mark.parametrize("peer", ["10.2.0.1", "127.0.0.1", "192.0.2.1", "", "::2", "garbage"])
def test_a_header_from_anybody_but_the_proxy_is_not_believed(by, peer):
    for user in ("root", "alice"):
        assert by(user, "/api/v1/jobs", REMOTE_ADDR=peer).status_code == 403
        assert by(user, "/metrics", REMOTE_ADDR=peer).status_code == 403
    assert by("root", "/-/healthy", REMOTE_ADDR=peer).status_code == 200


@pytest.mark.parametrize("peer", ["::1", "::ffff:10.1.9.9", "10.1.255.255"])
def test_the_proxy_is_known_by_any_spelling_of_its_address(by, peer):
    assert by("root", "/api/v1/jobs", REMOTE_ADDR=peer).status_code == 200


@pytest.mark.parametrize("user", ["alice,root", "root ", "", " ", "a b", "-x", "x" * 200])
def test_a_header_that_is_no_name_names_nobody(by, user):
    answer = by(user, "/api/v1/jobs")
    assert answer.status_code == 403 or {row["user"] for row in rows(answer)} != {"alice"}


def test_a_user_by_password_sees_own_jobs_and_cannot_name_herself_another(view, tmp_path):
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    file = tmp_path / "web.yml"
    file.write_text(f"{ROLES}basic_auth_users:\n  alice: {hashed}\n  root: {hashed}\n")
    client = Client(WebApp(view, WebConfigFile(file)))
    header = {"X-Remote-User": "root"}
    assert {row["user"] for row in rows(client.get("/api/v1/jobs", auth=("alice", "secret"), headers=header))} == {
        "alice"}
    assert len(rows(client.get("/api/v1/jobs", auth=("root", "secret")))) > 2
    assert client.get("/api/v1/jobs", auth=("root", "guess"), headers=header).status_code == 401


def test_only_an_administrator_reloads(view, tmp_path):
    (tmp_path / "web.yml").write_text(ROLES)
    client = Client(WebApp(view, WebConfigFile(tmp_path / "web.yml"), lifecycle=True))
    for user, status in (("alice", 403), ("root", 200)):
        assert client.post("/-/reload", headers={"X-Remote-User": user},
                           environ_overrides=PROXY).status_code == status
    assert view.reloads == 1


@pytest.mark.parametrize(("headers", "status", "users"), [
    ("X-Remote-User: alice", 200, {"alice"}),
    ("X_Remote_User: root", 403, set()),
    ("X-Remote_User: root", 403, set()),
    ("X-Remote-User: alice\r\nX_Remote_User: root", 200, {"alice"}),
    ("X_Remote_User: root\r\nX-Remote-User: alice", 200, {"alice"}),
    ("X-Remote-User: alice\r\nX-Remote-User: root", 403, set()),
    ("x-remote-user: root\r\nX-REMOTE-USER: alice", 403, set()),
    ("X-Remote-User: alice\r\n root", 403, set()),
    ("X-Remote-User: alice\r\nX-Remote-User : root", 400, set()),
    ("X-Remote-User: alice\r\nAccept: text/html\r\nAccept: */*\r\nX-Forwarded-For: a\r\nX-Forwarded-For: b", 200,
     {"alice"})])
def test_what_a_client_adds_to_the_header_of_its_proxy_is_not_believed(view, tmp_path, serve, headers, status, users):
    (tmp_path / "web.yml").write_text(ROLES.replace("10.1.0.0/16", "127.0.0.1"))
    server = serve(WebApp(view, WebConfigFile(tmp_path / "web.yml")))
    with socket.create_connection(("127.0.0.1", urlsplit(server.urls[0]).port), timeout=10) as client:
        client.sendall(f"GET /api/v1/jobs HTTP/1.1\r\nHost: idlewatt\r\nConnection: close\r\n{headers}\r\n\r\n"
                       .encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert int(answer.split(b" ", 2)[1]) == status, answer[:300]
    found = json.loads(answer.split(b"\r\n\r\n", 1)[1])["data"] if users else []
    assert {row["user"] for row in found} == users


@pytest.mark.parametrize(("text", "words"), [
    ("idlewatt: {admins: [root]}", "needs basic_auth_users"),
    ("idlewatt: {user_header: X-Remote-User}", "belong together"),
    ("idlewatt: {user_header: X-Remote-User, trusted_proxies: [proxy.example.org]}", "does not appear to be"),
    ("idlewatt: {user_header: 'X Y', trusted_proxies: [10.0.0.1]}", "user_header"),
    ("idlewatt: {nothing: 1}", "nothing")])
def test_roles_that_cannot_be_meant_are_refused(tmp_path, text, words):
    (tmp_path / "web.yml").write_text(text)
    with pytest.raises(WebConfigError, match=words):
        load(tmp_path / "web.yml")


def test_users_go_by_pseudonyms_in_metrics_that_only_the_key_connects(tmp_path):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef")
    facts = Published(user_wasted_power_watts={("alice", "a100"): 1.0, ("bob", "a100"): 2.0},
                      reclaimable_since_timestamp_seconds={("a100", "1", "bob", "2"): 3.0})

    def page(of):
        return metrics_page(registry(lambda: pseudonymised(of, key, ())))[0].decode()

    first = page(facts)
    assert not re.search("alice|bob", first)
    names = re.findall(r'user="(u-[0-9a-f]{12})"', first)
    assert len(set(names)) == 2
    assert len(names) == 3
    assert page(facts) == first or set(re.findall(r'user="(.*?)"', page(facts))) == set(names)
    key.write_text("another key of 16")
    assert set(re.findall(r'user="(.*?)"', page(facts))).isdisjoint(names)
    key.write_text("short")
    assert "user=" not in page(facts)
    key.unlink()
    assert "user=" not in page(facts)


@pytest.mark.parametrize(("reason", "shown"), [
    ("limit of account physics on user ann: 8 GPUs", "limit of account physics on user U: 8 GPUs"),
    ("9 of ann (8 GPUs), 10 of ann-marie (4 GPUs)", "9 of U (8 GPUs), 10 of U (4 GPUs)"),
    ("is reserved (ann_12, now)", "is reserved (U_12, now)"),
    ("annual maintenance of ann2 behind ann/train-1", "annual maintenance of ann2 behind ann/train-1"),
    ("ann", "ann")])
def test_of_a_reason_only_the_words_that_are_users_become_pseudonyms(tmp_path, reason, shown):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef")
    facts = Published(advice_reason_info={("easy", "1", "hold", reason): 1.0})
    (labels,) = pseudonymised(facts, key, {"ann", "ann-marie"}).advice_reason_info
    assert re.sub("u-[0-9a-f]{12}", "U", labels[3]) == shown
