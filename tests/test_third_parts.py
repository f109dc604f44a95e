"""Parts of libraries that their makers do not promise to keep: each is used in one file, and known to be there."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from cheroot import wsgi
from cheroot.server import HTTPConnection, HTTPRequest
from numba.core.errors import NumbaError
from properties import LEAST, SHARE, is_property, with_fewer_examples
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool

from idlewatt.daemon.replay.compiled import compiled, compiled_with_arrays

ROOT = Path(__file__).parents[1]
HOMES = {"numba.core": "daemon/replay/compiled.py", "_nrt": "daemon/replay/compiled.py",
         "cheroot": "daemon/web/server.py", "_get_conn": "exporters/deadline.py", "_put_conn": "exporters/deadline.py",
         "pool_classes_by_scheme": "exporters/fetch.py"}


def words(path):
    """Return the modules, names, attributes and keywords that a file's code mentions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(name)) | ast.FunctionDef(name=name) | ast.keyword(arg=str(name)) \
                    | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                found.add(name)
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
    return found | {name.partition(".")[0] for name in found if name.startswith("cheroot.")}


def test_each_private_part_is_used_in_one_file():
    used = {part: set() for part in HOMES}
    for room in ("daemon", "exporters", "storage"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            named = {part for part in HOMES if part.rpartition(".")[2] in text}
            for part in named & words(path) if named else ():
                used[part].add(str(path.relative_to(ROOT)))
    assert used == {part: {home} for part, home in HOMES.items()}


def test_numba_still_refuses_arrays_where_it_is_told_not_to_count_them():
    def makes_an_array(count):
        return np.zeros(count)

    with pytest.raises(NumbaError, match="Only accept returning of array passed into the function"):
        compiled(makes_an_array)(3)


def test_numba_still_compiles_what_borrows_arrays_without_counting_them():
    def adds_up(given):
        return given[0] + given[1]

    assert compiled(adds_up)(np.ones(2)) == 2.0
    assert compiled_with_arrays(lambda count: np.zeros(count))(3).shape == (3,)


def test_numba_still_takes_no_for_an_answer_where_it_looks_for_scipy():
    script = ("import sys, numpy as np; from idlewatt.daemon.replay.compiled import compiled_with_arrays; "
              "compiled_with_arrays(lambda a: np.sort(a)[0])(np.ones(2)); "
              "print(sorted(name for name in sys.modules if name.startswith('scipy.linalg')))")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_serving_needs_nothing_of_scipy():
    script = ("import sys; from idlewatt.daemon import main; from idlewatt.daemon.advice.recommenders import subjects; "
              "subjects(); print(sorted(name for name in sys.modules if name.startswith('scipy.') and name[6] != '_' "
              "and name != 'scipy.version'))")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def arguments(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_cheroot_still_hands_over_sockets_requests_and_answers_where_we_take_them():
    assert arguments(HTTPConnection.__init__)[:3] == ["server", "sock", "makefile"]
    assert arguments(HTTPRequest.read_request_headers) == []
    assert arguments(HTTPRequest.simple_response)[:2] == ["status", "msg"]
    assert arguments(wsgi.Server.bind)[:2] == ["family", "type"]
    assert arguments(wsgi.Server.bind_unix_socket) == ["bind_addr"]
    assert arguments(wsgi.Server.error_log) == ["msg", "level", "traceback"]
    assert HTTPConnection.RequestHandlerClass is HTTPRequest
    server = wsgi.Server(("127.0.0.1", 0), lambda environ, start: [])
    assert callable(server.requests.put)
    assert hasattr(server, "max_request_header_size")
    request = HTTPRequest(server, HTTPConnection)
    assert (request.chunked_read, request.inheaders) == (False, {})


def test_pools_of_connections_still_take_and_give_them_back_where_we_count_them():
    for pool in (HTTPConnectionPool, HTTPSConnectionPool):
        assert arguments(pool._get_conn) == ["timeout"]
        assert arguments(pool._put_conn) == ["conn"]
        assert pool("localhost").pool.queue is not None
    adapter = HTTPAdapter()
    assert set(adapter.poolmanager.pool_classes_by_scheme) == {"http", "https"}
    assert arguments(adapter.get_connection_with_tls_context)[0] == "request"
    assert arguments(adapter.request_url) == ["request", "proxies"]
    assert arguments(adapter.build_response) == ["req", "resp"]


def test_hypothesis_still_takes_fewer_examples_than_a_property_asks_for():
    seen = []

    @hypothesis.settings(max_examples=100, database=None)
    @hypothesis.given(hypothesis.strategies.integers())
    def tried(number):
        seen.append(number)

    assert is_property(tried)
    with_fewer_examples(tried)
    tried()
    assert LEAST <= len(seen) <= SHARE * 100


def test_no_property_fails_because_the_machine_is_busy(request):
    """Unless a property says so itself, however it is run: in CI, at a desk, with a share of its examples or all."""
    assert hypothesis.settings.default.deadline is None
    properties = {item.obj for item in request.session.items if is_property(getattr(item, "obj", None))}
    assert [test.__name__ for test in properties if test._hypothesis_internal_use_settings.deadline is not None] == []
