"""What is there is found and read; what is not there is said."""

import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from idlewatt.daemon import config
from idlewatt.daemon.cli import main

RECORDED = Path(__file__).parents[2] / "recorded"
DEAD = "http://127.0.0.1:9"


@pytest.fixture
def exporter() -> Iterator[int]:
    """A recorded page of dcgm-exporter at every address of the loopback, each with GPUs of its own, and the port."""
    page = (RECORDED / "dcgm_v100_simulated_with_hpc_job.prom").read_bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = self.connection.getsockname()[0]
            body = re.sub(rb"GPU-[0-9a-f]", b"GPU-" + address.rpartition(".")[2].encode(), page)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def setup(*arguments: str, code: int = 0):
    done = CliRunner().invoke(main, ["setup", *arguments])
    assert done.exit_code == code, done.output
    return done


def closed(*but: str) -> list[str]:
    """Return options that look for exporters where nobody listens, but for these."""
    return [f"--exporter-port={kind}=9" for kind in ("dcgm", "node", "ipmi", "cgroup") if kind not in but]


def test_slurm_and_the_exporters_of_the_named_servers_are_found(rig, exporter):
    done = setup("--cluster-name=north", f"--slurm-rest={rig.server.url}", "--nodelist=127.0.1.[1-2]",
                 f"--exporter-port=dcgm={exporter}", *closed("dcgm"))
    settings = config.parse(done.stdout)
    assert [source.kind for source in settings.sources] == ["slurm_rest", "dcgm"]
    assert settings.cluster == "north"
    dcgm = yaml.safe_load(done.stdout)["sources"][1]
    assert [group["labels"]["node"] for group in dcgm["static_configs"]] == ["127.0.1.1", "127.0.1.2"]
    assert "not found: ipmi: no server answers at port 9 (wall power)" in done.stderr


def test_missing_sources_are_listed_once_and_not_logged(rig, caplog):
    done = setup(f"--slurm-rest={rig.server.url}", "--nodelist=127.0.1.1", *closed())
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" dcgm", " node", " ipmi", " cgroup"]
    assert caplog.records == []
    assert "#   ipmi: no server answers at port 9 (wall power)" in done.stdout


def test_a_page_of_another_exporter_is_not_taken_for_the_one_that_is_looked_for(rig, exporter):
    done = setup(f"--slurm-rest={rig.server.url}", "--nodelist=127.0.1.1", f"--exporter-port=ipmi={exporter}",
                 *closed("ipmi"))
    assert [source.kind for source in config.parse(done.stdout).sources] == ["slurm_rest"]
    assert "not found: ipmi: no server answers" in done.stderr


def test_where_nothing_is_found_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    done = setup(f"--slurm-rest={DEAD}", f"--output={tmp_path / 'new.yml'}", code=1)
    assert "not found: slurm_rest http://127.0.0.1:9: " in done.stderr
    assert "there is no sinfo on the PATH" in done.stderr
    assert "name some with --nodelist" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_prometheus_is_reported(rig):
    done = setup(f"--slurm-rest={rig.server.url}", f"--prometheus={DEAD}")
    assert [source.kind for source in config.parse(done.stdout).sources] == ["slurm_rest"]
    assert f"not found: prometheus {DEAD}: " in done.stderr


def test_a_file_that_exists_is_left_alone(rig, tmp_path):
    (tmp_path / "config.yml").write_text("cluster: mine\n")
    done = setup(f"--slurm-rest={rig.server.url}", f"--output={tmp_path / 'config.yml'}", code=2)
    assert "exists and is left alone" in done.stderr
    assert (tmp_path / "config.yml").read_text() == "cluster: mine\n"


def test_the_untouched_sample_that_a_package_installs_is_written_over(rig, tmp_path):
    output = tmp_path / "config.yml"
    output.write_text(config.sample())
    output.chmod(0o640)
    setup(f"--slurm-rest={rig.server.url}", f"--output={output}")
    assert "kind: slurm_rest" in output.read_text()
    assert output.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("port", "said"), [("dcgm=x", "'x' is not a port"), ("smoke=1", "'smoke' is none of dcgm"),
                                            ("dcgm=70000", "'70000' is not a port")])
def test_a_port_that_cannot_be_is_wrong_usage(port, said):
    assert said in setup(f"--exporter-port={port}", code=2).stderr


def test_a_hostlist_that_cannot_be_is_wrong_usage(rig):
    assert "--nodelist" in setup(f"--slurm-rest={rig.server.url}", "--nodelist=dgx-[1-", code=2).stderr
