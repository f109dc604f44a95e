"""How the server is reached: a pod's renewed token, and all that a kubeconfig may hold."""

import base64
import json
import ssl
import sys

import kube_objects as make
import pytest
import trustme
import yaml

from idlewatt.exporters.http_options import HttpOptions
from idlewatt.exporters.kubernetes.access import Access, from_kubeconfig, in_cluster
from idlewatt.exporters.kubernetes.api import ApiClient
from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import NODES
from idlewatt.exporters.source import SourceError

PATH = "/api/v1/nodes"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def secure(store, authority):
    """An emulated API server over TLS that wants a certificate of its own authority, or a token."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = ApiServer(Api(store), tls=context).begin()
    store.put(NODES, make.node("n1"))
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def ask():
    clients = []

    def ask(access: Access):
        clients.append(ApiClient(access, HttpOptions(timeout=5.0)))
        return clients[-1]

    yield ask
    for client in clients:
        client.close()


@pytest.fixture
def kubeconfig(tmp_path, authority):
    def write(server, user, **cluster):
        path = tmp_path / "config"
        ca = base64.b64encode(authority.cert_pem.bytes()).decode()
        document = {"apiVersion": "v1", "kind": "Config", "current-context": "here",
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority-data": ca}
                                  | cluster}],
                    "users": [{"name": "u", "user": user}]}
        path.write_text(yaml.safe_dump(document))
        return path

    return write


def test_a_pod_finds_its_cluster_and_takes_each_new_token(secure, authority, tmp_path, monkeypatch, ask):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(secure.server_port))
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("old\n")
    client = ask(in_cluster(tmp_path))
    secure.api.tokens = {"old"}
    assert b"n1" in client.read(PATH)
    secure.api.tokens = {"new"}
    with pytest.raises(SourceError, match="401"):
        client.read(PATH)
    (tmp_path / "token.new").write_text("new\n")
    (tmp_path / "token.new").rename(tmp_path / "token")
    assert b"n1" in client.read(PATH)


def test_a_token_in_a_block_of_yaml_has_no_end_of_line(secure, kubeconfig, ask):
    secure.api.tokens = {"secret"}
    assert b"n1" in ask(from_kubeconfig(kubeconfig(secure, {"token": "secret\n"}))).read(PATH)


def test_a_token_that_cannot_be_sent_is_told_without_it(secure, kubeconfig, ask):
    client = ask(from_kubeconfig(kubeconfig(secure, {"token": "geheim\u201c"})))
    for asked in (lambda: client.read(PATH), lambda: list(client.lines(PATH, {}, lasts_s=1.0, silent_s=1.0))):
        with pytest.raises(SourceError, match="'Authorization' cannot be sent") as caught:
            asked()
        assert "geheim" not in str(caught.value)


def test_outside_of_a_cluster_there_is_no_pods_account(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SourceError, match="give kubeconfig"):
        in_cluster(tmp_path)


def test_a_kubeconfig_may_hold_a_token(secure, kubeconfig, ask):
    secure.api.tokens = {"secret"}
    assert b"n1" in ask(from_kubeconfig(kubeconfig(secure, {"token": "secret"}))).read(PATH)


def test_a_kubeconfig_may_hold_a_certificate_which_lies_in_no_file_for_long(secure, authority, kubeconfig, ask):
    own = authority.issue_cert("ada@example.com")
    data = {"client-certificate-data": own.cert_chain_pems[0].bytes(), "client-key-data": own.private_key_pem.bytes()}
    found = from_kubeconfig(kubeconfig(secure, {name: base64.b64encode(pem).decode() for name, pem in data.items()}))
    assert b"n1" in ask(found).read(PATH)
    assert found.key_file.parent.stat().st_mode & 0o077 == 0
    found.close()
    assert not found.key_file.exists()


def test_a_server_that_nobody_vouches_for_is_not_believed(secure, ask):
    with pytest.raises(SourceError, match="TLS fails"):
        ask(Access(secure.url)).read(PATH)


def test_a_plugin_is_asked_once_until_its_token_ends_or_is_refused(secure, kubeconfig, tmp_path, ask):
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"""
import json, os, pathlib
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path({str(tmp_path / 'count')!r})
number = len(count.read_text()) + 1 if count.exists() else 1
count.write_text("x" * number)
print(json.dumps({{"kind": "ExecCredential", "apiVersion": asked["apiVersion"], "status": {{
    "token": os.environ["NAME"] + str(number), "expirationTimestamp": "2999-01-01T00:00:00Z"}}}}))
""")
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(plugin)],
                     "env": [{"name": "NAME", "value": "token"}], "interactiveMode": "Never"}}
    client = ask(from_kubeconfig(kubeconfig(secure, user)))
    secure.api.tokens = {"token1"}
    assert b"n1" in client.read(PATH)
    assert b"n1" in client.read(PATH)
    secure.api.tokens = {"token2"}
    with pytest.raises(SourceError, match="401"):
        client.read(PATH)
    assert b"n1" in client.read(PATH)
    assert (tmp_path / "count").read_text() == "xx"


@pytest.mark.parametrize(("program", "words"), [
    ("import sys; sys.exit('no network')", "ended with 1: .*no network"), ("print('{}')", "gives no token"),
    ("print('[]')", "gives no token"), ("pass", "gives no token"), ("print('[' * 200000)", "gives no token")])
def test_a_plugin_that_fails_is_told(secure, kubeconfig, ask, program, words):
    client = ask(from_kubeconfig(kubeconfig(secure, {"exec": {"command": sys.executable, "args": ["-c", program]}})))
    with pytest.raises(SourceError, match=words):
        client.read(PATH)


@pytest.mark.parametrize(("text", "words"), [
    ("", "no kubeconfig"), ("a: [", "cannot be read: not YAML: "),
    ("[" * 200_000, "cannot be read: it nests too deeply"), ("[]", "no kubeconfig"), ("contexts: 5", "has no context"),
    (json.dumps({"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}],
                 "clusters": [{"name": "c", "cluster": {"server": "file:///etc/passwd"}}]}), "is no server")])
def test_what_is_no_kubeconfig_is_told(tmp_path, text, words):
    (tmp_path / "config").write_text(text)
    with pytest.raises(SourceError, match=words):
        from_kubeconfig(tmp_path / "config")


def test_a_kubeconfig_that_is_not_there_is_told_in_words(tmp_path):
    with pytest.raises(SourceError, match="config cannot be read: No such file or directory$"):
        from_kubeconfig(tmp_path / "config")
