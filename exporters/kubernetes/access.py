"""How the API server is reached: from within the cluster by a token that is renewed, from outside by a kubeconfig."""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from ..causes import innermost
from ..commands import Commands
from ..secret_file import SecretFile
from ..source import SourceError
from ..text import quoted, without_login
from .fields import seconds

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token and the authority of its cluster."""
_EXEC_WITHIN_S = 30.0
_MOST_OUTPUT = 2**20
_EARLY_S = 60.0
"""How long before its end a token is renewed."""

Token = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is, which authority it is trusted by, and how we identify ourselves."""

    url: str
    token: Token | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False
    forget: Callable[[], None] = lambda: None
    """Called when the server refuses the token."""
    close: Callable[[], None] = lambda: None


def reach(url: str, kubeconfig: Path | None, context: str = "") -> Access:
    """Return the access by a bare URL, by a kubeconfig, or by the account of the pod that we run in."""
    if url:
        return Access(url.rstrip("/"))
    return from_kubeconfig(kubeconfig, context) if kubeconfig else in_cluster()


def in_cluster(mount: Path = MOUNT) -> Access:
    """Return the access of a pod to its own cluster.

    Raises:
        SourceError: this is no pod of a cluster.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (mount / "token").exists():
        raise SourceError("not in a cluster (no KUBERNETES_SERVICE_HOST, or no token): give kubeconfig", permanent=True)
    host = f"[{host}]" if ":" in host else host
    ca_file = mount / "ca.crt"
    # The file is looked at for each request: the kubelet puts a new token there about every hour.
    return Access(f"https://{host}:{port}", SecretFile(mount / "token").read, ca_file if ca_file.exists() else None)


def from_kubeconfig(path: Path, context: str = "") -> Access:
    """Return the access that a kubeconfig describes, of its current context or of another.

    Raises:
        SourceError: it cannot be read, or describes what is not supported.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise SourceError(f"{path} cannot be read: {_unreadable(error)}", permanent=True) from error
    if not isinstance(document, dict):
        raise SourceError(f"{path} is no kubeconfig", permanent=True)
    named = context or str(document.get("current-context") or "")
    chosen = _named(document, "contexts", named, "context", path)
    cluster = _named(document, "clusters", str(chosen.get("cluster")), "cluster", path)
    user = _named(document, "users", str(chosen.get("user")), "user", path) if chosen.get("user") else {}
    return _Kubeconfig(path.parent).access(cluster, user)


def _unreadable(error: Exception) -> str:
    """Return why a kubeconfig cannot be read."""
    if isinstance(error, OSError):
        return innermost(error)
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    return "it nests too deeply" if isinstance(error, RecursionError) else f"not YAML: {str(error).splitlines()[0]}"


def _named(document: Mapping[str, object], part: str, name: str, inner: str, path: Path) -> Mapping[str, object]:
    rows = document.get(part)
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("name") == name and isinstance(row.get(inner), dict):
            value: Mapping[str, object] = row[inner]
            return value
    raise SourceError(f"{path} has no {inner} {quoted(name)}", permanent=True)


def _nothing() -> None:
    """Do nothing."""


class _Kubeconfig:
    """The files that a kubeconfig names, or holds itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: tempfile.TemporaryDirectory[str] | None = None

    def access(self, cluster: Mapping[str, object], user: Mapping[str, object]) -> Access:
        """Return the access of a user to a cluster."""
        program = user.get("exec")
        plugin = ExecPlugin(program, self._folder) if isinstance(program, dict) else None
        token = plugin.token if plugin else self._token(user)
        url = str(cluster.get("server") or "")
        if not url.startswith(("https://", "http://")):
            raise SourceError(f"{quoted(without_login(url))} is no server of a kubeconfig", permanent=True)
        def end() -> None:
            if plugin:
                plugin.close()
            self._clear()

        return Access(url.rstrip("/"), token, self._file(cluster, "certificate-authority"),
                      self._file(user, "client-certificate"), self._file(user, "client-key"),
                      bool(cluster.get("insecure-skip-tls-verify")), plugin.forget if plugin else _nothing, end)

    def _token(self, user: Mapping[str, object]) -> Token | None:
        if file := user.get("tokenFile"):
            return SecretFile(self._folder / str(file)).read
        given = user.get("token")
        return (lambda: str(given).strip()) if given else None  # YAML's | leaves the end of the line

    def _file(self, part: Mapping[str, object], name: str) -> Path | None:
        """Return a file that is named, or one with what stands in the kubeconfig itself: TLS libraries want files."""
        data = part.get(f"{name}-data")
        if not data:
            return self._folder / str(part[name]) if part.get(name) else None
        try:
            content = base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError) as error:
            raise SourceError(f"{name}-data is no base64", permanent=True) from error
        if self._own is None:
            self._own = tempfile.TemporaryDirectory(prefix="idlewatt-kube-")  # for us alone: mode 0700
        path = Path(self._own.name) / name
        path.write_bytes(content)
        return path

    def _clear(self) -> None:
        if self._own is not None:
            self._own.cleanup()


class ExecPlugin:
    """The program that a kubeconfig names for tokens; a token is kept until shortly before its end."""

    def __init__(self, config: Mapping[str, object], folder: Path) -> None:
        command, arguments, env = config.get("command"), config.get("args") or [], config.get("env") or []
        if not isinstance(command, str) or not isinstance(arguments, list) or not isinstance(env, list):
            raise SourceError("the exec plugin of the kubeconfig cannot be understood", permanent=True)
        # A path is taken from where the kubeconfig lies, a bare name from PATH, as kubectl does it.
        program = str(folder / command) if os.sep in command else command
        self._command = [program, *map(str, arguments)]
        self._env = {str(row["name"]): str(row["value"]) for row in env if isinstance(row, dict) and len(row) == 2}
        self._version = str(config.get("apiVersion") or "client.authentication.k8s.io/v1")
        self._programs, self._lock = Commands(), threading.Lock()
        self._token, self._until_s = "", float("-inf")

    def token(self) -> str:
        """Return a token, a new one where the last is about to end; raise ``SourceError`` where none is to be had."""
        with self._lock:
            if time.time() >= self._until_s:
                self._token, self._until_s = self._ask()
            return self._token

    def forget(self) -> None:
        """Ask for a new token next time."""
        self._until_s = float("-inf")

    def close(self) -> None:
        """End the program, if it runs."""
        self._programs.close()

    def _ask(self) -> tuple[str, float]:
        exec_info = json.dumps({"apiVersion": self._version, "kind": "ExecCredential", "spec": {"interactive": False}})
        env = {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": exec_info}
        with tempfile.TemporaryFile() as out:
            try:
                ran = self._programs.run(self._command, env=env, stdout=out, timeout=_EXEC_WITHIN_S)
            except (OSError, subprocess.TimeoutExpired) as error:
                why = innermost(error) if isinstance(error, OSError) else f"not done within {_EXEC_WITHIN_S:g} s"
                raise SourceError(f"the exec plugin {self._command[0]} failed: {why}", permanent=True) from error
            out.seek(0)
            text = out.read(_MOST_OUTPUT)
        if ran.returncode:
            raise SourceError(f"the exec plugin {self._command[0]} ended with {ran.returncode}: "
                              f"{quoted(ran.stderr, 200)}")
        try:
            status = json.loads(text)["status"]
            token, until_s = str(status["token"]), seconds(status.get("expirationTimestamp"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise SourceError(f"the exec plugin {self._command[0]} gives no token (certificates of plugins are not "
                              "supported)", permanent=True) from error
        return token, float("inf") if until_s is None else until_s - _EARLY_S
