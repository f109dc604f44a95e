"""slurmrestd on loopback: versions, tokens, bounds and what goes wrong on the way."""

import contextlib
import json
import operator
import os
import socketserver
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.exporters.slurm.rest import VERSIONS, SlurmRestConfig
from idlewatt.exporters.source import SourceError, kinds
from idlewatt.storage.records import JobState

LISTS = ("nodes", "jobs", "partitions", "reservations")


def serve(loopback, recorded, version: str = "v0.0.38") -> None:
    loopback.pages = {f"/slurm/{version}/{name}": recorded(f"slurm/rest_{name}.json") for name in (*LISTS, "ping")}
    loopback.pages[f"/slurmdb/{version}/jobs"] = recorded("slurm/rest_slurmdb_jobs.json")


@pytest.fixture
def slurmrestd(loopback, recorded, monkeypatch):
    """A slurmrestd 22.05 without authentication."""
    monkeypatch.delenv("SLURM_JWT", raising=False)
    serve(loopback, recorded)
    return loopback


@pytest.fixture
def source(slurmrestd, clock):
    source = SlurmRestConfig(url=slurmrestd.url("")).build(clock)
    yield source
    source.close()


def paths(loopback) -> list[str]:
    return [urlsplit(path).path for path, _ in loopback.requests]


def test_slurm_rest_is_a_kind_of_scheduler():
    assert kinds()["slurm_rest"] is SlurmRestConfig
    assert SlurmRestConfig.role == "scheduler"


def test_the_recorded_cluster_is_read(source):
    snapshot = source.read()

    assert (len(snapshot.nodes), len(snapshot.partitions), len(snapshot.jobs)) == (4, 2, 15)


def test_the_version_is_found_once(source, slurmrestd):
    source.read()
    source.read()

    tried = [path for path in paths(slurmrestd) if path.endswith("/ping")]
    assert tried == [f"/slurm/{version}/ping" for version in VERSIONS[:VERSIONS.index("v0.0.38") + 1]]


@pytest.mark.parametrize("settings", [{}, {"TopologyPlugin": "topology/none"}])
def test_jobs_and_nodes_that_are_told_as_before_stay_the_same_objects(slurmrestd, clock, settings):
    clock.now = 1_800_000_000.0
    with contextlib.closing(SlurmRestConfig(url=slurmrestd.url(""), settings=settings).build(clock)) as source:
        first, second = source.read(), source.read()

    assert all(map(operator.is_, first.jobs, second.jobs))
    assert all(map(operator.is_, first.nodes, second.nodes))


def test_after_an_upgrade_the_version_is_found_again(source, slurmrestd, recorded):
    source.read()
    serve(slurmrestd, recorded, "v0.0.41")

    with pytest.raises(SourceError):
        source.read()

    assert len(source.read().nodes) == 4
    assert "/slurm/v0.0.41/nodes" in paths(slurmrestd)


def test_a_configured_version_is_not_searched_for(slurmrestd, clock):
    SlurmRestConfig(url=slurmrestd.url(""), api_version="v0.0.38").build(clock).read()

    assert paths(slurmrestd)[:len(LISTS)] == [f"/slurm/v0.0.38/{name}" for name in LISTS]


def test_a_server_that_speaks_no_version_is_told_as_permanent(loopback, clock):
    with pytest.raises(SourceError, match=r"speaks none of v0.0.37 to v0.0.45") as failed:
        SlurmRestConfig(url=loopback.url("")).build(clock).read()

    assert failed.value.permanent


def test_the_token_is_sent_and_read_again_when_its_file_changes(slurmrestd, clock, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    source = SlurmRestConfig(url=slurmrestd.url(""), user="idlewatt", token_file=token).build(clock)
    source.read()
    token.write_text("second\n")
    os.utime(token, ns=(1, 1))
    source.read()

    sent = [(headers["X-SLURM-USER-NAME"], headers["X-SLURM-USER-TOKEN"]) for _, headers in slurmrestd.requests]
    assert sent[0] == ("idlewatt", "first")
    assert sent[-1] == ("idlewatt", "second")


def test_without_a_file_the_token_is_that_of_the_environment(source, slurmrestd, monkeypatch):
    monkeypatch.setenv("SLURM_JWT", "from the environment")
    source.read()

    assert slurmrestd.requests[-1][1]["X-SLURM-USER-TOKEN"] == "from the environment"
    assert "X-SLURM-USER-NAME" not in slurmrestd.requests[-1][1]


def test_a_refused_token_is_permanent(source, slurmrestd, answer):
    refuse = partial(answer, body=b"Authentication failure", status=401)
    slurmrestd.pages = {f"/slurm/{version}/ping": refuse for version in VERSIONS}

    with pytest.raises(SourceError, match="401") as failed:
        source.read()

    assert failed.value.permanent


def test_slurms_own_words_are_told(source, slurmrestd, answer):
    body = json.dumps({"meta": {"padding": "x" * 500}, "errors": [{"error": "Unable to contact slurm controller"}]})
    slurmrestd.pages["/slurm/v0.0.38/jobs"] = lambda handler: answer(handler, body.encode(), status=500)

    with pytest.raises(SourceError, match="HTTP 500: Unable to contact slurm controller"):
        source.read()


@pytest.mark.parametrize("body", [b"", b"<html>login</html>", b'{"jobs": [{"job_id"', b"\x00\xff", b"{}"])
def test_half_an_answer_is_a_clear_failure(source, slurmrestd, body):
    slurmrestd.pages["/slurm/v0.0.38/jobs"] = body

    with pytest.raises(SourceError, match="Slurm's jobs cannot be read: no "):
        source.read()


def test_an_answer_beyond_the_bound_is_refused(slurmrestd, clock):
    config = SlurmRestConfig.model_validate({"url": slurmrestd.url(""), "http": {"max_body_bytes": 10_000}})

    with pytest.raises(SourceError, match="more than 10000 bytes"):
        config.build(clock).read()


def test_a_redirect_is_not_followed_with_the_token(source, slurmrestd, answer):
    slurmrestd.pages["/slurm/v0.0.38/nodes"] = lambda handler: answer(
        handler, b"", status=302, Location="http://elsewhere.example")

    with pytest.raises(SourceError, match="redirects to"):
        source.read()


def test_the_accounts_are_asked_from_an_explicit_start(source, slurmrestd, clock):
    clock.now = 1_800_000_000.0
    finished = source.completed(1_700_000_000.4)

    assert {"1", "14", "15"} <= {job.job_id for job in finished}
    query = parse_qs(urlsplit(slurmrestd.requests[-1][0]).query)
    assert query == {"start_time": ["uts1700000000"], "skip_steps": ["true"]}


def test_newer_accounts_are_asked_for_every_run(slurmrestd, recorded, clock):
    serve(slurmrestd, recorded, "v0.0.41")
    SlurmRestConfig(url=slurmrestd.url("")).build(clock).completed(0.0)

    assert parse_qs(urlsplit(slurmrestd.requests[-1][0]).query)["show_duplicates"] == ["true"]


def test_a_unix_socket_is_asked_like_a_port(recorded, clock, tmp_path):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = recorded(f"slurm/rest_{self.path.rpartition('/')[2]}.json")
            self.send_response(200 if "v0.0.38" in self.path else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "socket"

        def log_message(self, *_args: object) -> None:
            pass

    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "sock"), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        source = SlurmRestConfig(url=f"unix:{tmp_path}/sock").build(clock)
        assert len(source.read().nodes) == 4
        source.close()
        server.shutdown()


def test_the_simulated_cluster_is_read_like_a_real_one():
    now = [ClusterShape().start_s]
    with SimulationServer(SimulatedSite(SimulatedCluster(), lambda: now[0])) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        source = SlurmRestConfig(url=server.url).build(lambda: now[0])
        source.read()
        now[0] += 4 * 3600
        snapshot = source.read()

        running = [job for job in snapshot.jobs if job.state is JobState.RUNNING]
        assert running
        assert all(held.gpu_indexes for job in running for held in job.allocations)
        assert sum(node.gpus_allocated for node in snapshot.nodes) == sum(job.request.gpus for job in running)
        assert source.completed(ClusterShape().start_s)
        assert not any(target.error for target in source.health())
        source.close()
        server.shutdown()


def test_a_socket_that_is_not_there_is_told(clock, tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        SlurmRestConfig(url=f"unix:{tmp_path}/sock").build(clock).read()


@pytest.mark.parametrize("wrong", [{"url": "ftp://host"}, {"url": "http://h", "api_version": "latest"},
                                   {"url": "http://h", "tokens": "x"}, {},
                                   {"url": "http://h", "qos_grp_tres_mins": {"day": "gres/gpu=many"}}])
def test_a_wrong_configuration_is_refused(wrong):
    with pytest.raises(ValidationError):
        SlurmRestConfig.model_validate(wrong)


@pytest.mark.parametrize(("lines", "told"), [
    ({"one": "gres/gpu=600"}, {"one": ((("gpu seconds used", 36_000.0),), ()), "two": ((), ("GrpTRESMins",))}),
    ({"one": "", "two": ""}, {"one": ((), ()), "two": ((), ())}),
    ({}, {"one": ((), ("GrpTRESMins",)), "two": ((), ("GrpTRESMins",))})])
def test_what_jobs_of_a_qos_may_use_in_all_is_told_by_the_configuration_or_not_known(slurmrestd, clock, lines, told):
    slurmrestd.pages["/slurmdb/v0.0.38/qos"] = json.dumps({"QOS": [{"name": "one"}, {"name": "two"}]}).encode()
    source = SlurmRestConfig(url=slurmrestd.url(""), qos_grp_tres_mins=lines).build(clock)
    found = {qos.name: (qos.ceilings.group, qos.ceilings.unreported) for qos in source.read().rules.qos}
    source.close()
    assert found == told


@pytest.fixture
def shared(slurmrestd, clock):
    """Return the function that tells GPUs by account of one slurmdbd of two clusters, as a source understands it."""
    def shared(settings=(), told=None, jobs=("dgx", "dgx")):
        rows = [{"cluster": cluster, "account": account, "user": "", "max": {"tres": {"total": [
            {"type": "gres", "name": "gpu", "count": count}]}}}
            for cluster, account, count in (("dgx", "lab", 4), ("other", "lab", 64), ("other", "guests", 2))]
        page = {"associations": rows, "meta": {"slurm": {"cluster": told} if told is not None else "of old"}}
        slurmrestd.pages["/slurmdb/v0.0.38/associations"] = json.dumps(page).encode()
        slurmrestd.pages["/slurm/v0.0.38/jobs"] = json.dumps({"jobs": [
            {"job_id": number, "cluster": cluster, "job_state": "PENDING", "submit_time": 1_700_000_000}
            for number, cluster in enumerate(jobs, 1)]}).encode()
        config = SlurmRestConfig(url=slurmrestd.url(""), settings=dict(settings))
        with contextlib.closing(config.build(clock)) as source:
            snapshot = source.read()
        assert len(snapshot.jobs) == len(jobs)
        return [(one.account, dict(one.ceilings.group)["gpu"]) for one in snapshot.rules.associations]

    return shared


@pytest.mark.parametrize("known", [
    {"settings": {"ClusterName": "DGX"}, "told": "other", "jobs": ("other",)}, {"told": "dgx", "jobs": ()}, {},
    {"told": 7}])
def test_of_a_slurmdbd_of_several_clusters_only_the_own_accounts_count(shared, known):
    assert shared(**known) == [("lab", 4)]


@pytest.mark.parametrize("unknown", [
    {"jobs": ()}, {"jobs": ("dgx", "other")}, {"jobs": (None,)}, {"settings": {"ClusterName": "misspelt"}}])
def test_where_nothing_tells_the_own_cluster_all_accounts_count(shared, unknown):
    assert shared(**unknown) == [("lab", 4), ("lab", 64), ("guests", 2)]
