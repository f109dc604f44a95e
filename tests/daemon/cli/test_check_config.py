import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from click.testing import CliRunner

from idlewatt.daemon import config
from idlewatt.daemon.cli import main
from idlewatt.exporters.grid_file import GridFileSource


def check(*arguments):
    return CliRunner().invoke(main, ["check-config", *map(str, arguments)])


def test_a_right_file_is_said_to_be_right_and_what_it_asks_for(tmp_path):
    (tmp_path / "site.yml").write_text("cluster: north\nsources: [{kind: dcgm, targets: ['dgx:9400']}]\n")
    done = check(tmp_path / "site.yml")
    assert done.exit_code == 0
    assert done.stdout == (f"{tmp_path / 'site.yml'}: right. Cluster north, 1 sources, database sqlite.\n"
                           "The daemon trains no agents; idlewatt-train.timer may.\n")


def test_a_history_too_short_for_a_trial_is_said(tmp_path):
    (tmp_path / "site.yml").write_text("storage: {retention: {jobs: 30d}}\ntraining: {enabled: true}\n")
    done = check(tmp_path / "site.yml")
    assert done.exit_code == 0
    assert "The daemon trains nobody: storage.retention.jobs keeps jobs for 30 days, and a trial needs those of 77" in (
        done.stdout)


def test_the_check_names_the_part_that_trains_at_night(tmp_path):
    (tmp_path / "site.yml").write_text("training: {enabled: true, at: '04:30', budget: 5m}\n")
    assert ("The daemon trains scorer at 04:30 for 300 s; leave idlewatt-train.timer disabled."
            in check(tmp_path / "site.yml").stdout)


def test_every_fault_is_told_and_the_exit_code_is_2(tmp_path):
    (tmp_path / "site.yml").write_text("colour: blue\ncycles: {scrape: soon}\n")
    done = check(tmp_path / "site.yml")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert {line.split(": ")[1] for line in done.stderr.splitlines()} == {"cycles.scrape", "colour"}


@pytest.mark.parametrize("url", ["postgresql://u:hush@h:abc/x", "sqlite:////var/a.db?timeout=30s", "mysql://h/x"])
def test_a_database_url_that_the_daemon_would_refuse_is_told(tmp_path, url):
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}'}}\n")
    done = check(tmp_path / "site.yml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{tmp_path / 'site.yml'}: storage.url: " in done.stderr
    assert "hush" not in done.stderr


def test_the_sample_is_printed_and_refused_until_it_is_edited(tmp_path):
    done = check("--sample")
    assert (done.exit_code, done.stdout) == (0, config.sample())
    (tmp_path / "sample.yml").write_text(f"# mine\n{done.stdout}")
    untouched = check(tmp_path / "sample.yml")
    assert untouched.exit_code == 2
    assert "this is the sample as it came" in untouched.stderr
    (tmp_path / "sample.yml").write_text(done.stdout.replace('cluster: ""', "cluster: north"))
    assert check(tmp_path / "sample.yml").exit_code == 0


def test_a_probe_reads_every_source_once_and_shows_what_came(rig, tmp_path):
    (tmp_path / "site.yml").write_text(rig.text())
    done = check("--probe", tmp_path / "site.yml")
    assert done.exit_code == 0, done.output
    lines = [line.split(" in ")[0].strip() for line in done.stdout.splitlines() if line.startswith("  ok")]
    assert lines == ["ok      dcgm: 32 GPUs, 4 GPU servers", "ok      node: 4 servers", "ok      ipmi: 4 servers",
                     "ok      slurm_rest: 4 nodes with 32 GPUs, 11 jobs"]


@pytest.fixture
def priced(tmp_path):
    """Return the configuration of a site that reads prices and carbon from a file, and nothing else."""
    (tmp_path / "grid.csv").write_text("from,EUR/MWh,gCO2e/kWh\n2001-09-09T01:00Z,80,400\n2001-09-09T02:00Z,90,\n")
    (tmp_path / "site.yml").write_text(f"""costs: {{currency: EUR}}
sources: [{{kind: grid_file, file: '{tmp_path / "grid.csv"}', currency: EUR}}]\n""")
    return tmp_path / "site.yml"


def test_a_probe_counts_the_prices_and_carbon_intensities_of_the_grid(priced):
    done = check("--probe", priced)
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert "  ok      grid_file: 2 prices, 1 carbon intensity in " in done.stdout


def test_a_probe_that_has_no_words_for_an_answer_says_that_there_is_one(priced, monkeypatch):
    monkeypatch.setattr(GridFileSource, "read", lambda source: object())
    done = check("--probe", priced)
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert "  ok      grid_file: an answer in " in done.stdout


def test_a_probe_tells_flavours_that_no_partition_can_hold(rig, tmp_path):
    (tmp_path / "site.yml").write_text(rig.text() + "\nflavours: [{name: s, gpus: 2}, {name: huge, gpus: 64}]\n")
    done = check("--probe", tmp_path / "site.yml")
    assert done.exit_code == 2
    assert "  WRONG   flavours[1] (huge): no partition can hold it: it has 64 GPUs, and " in done.stdout


def test_a_probe_says_which_source_gave_nothing_and_why(rig, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    sources = (f"[{{kind: dcgm, http_sd_configs: [{{url: '{rig.server.url}/targets/dcgm'}}]}}, "
               f"{{kind: slurm_rest, url: 'http://127.0.0.1:{port}'}}]")
    (tmp_path / "site.yml").write_text(rig.text(sources=sources))
    done = check("--probe", tmp_path / "site.yml")
    assert done.exit_code == 3
    assert "  ok      dcgm: 32 GPUs" in done.stdout
    assert "  FAILED  slurm_rest: Slurm's nodes cannot be read: Connection refused" in done.stdout
    assert "nothing came from slurm_rest" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("a.yml", "b.yml"), ("--colour",)])
def test_wrong_usage_ends_with_2(arguments):
    assert check(*arguments).exit_code == 2


def test_a_password_in_the_database_address_is_not_shown(tmp_path):
    (tmp_path / "site.yml").write_text("storage: {url: 'postgresql://idlewatt:s3cret@db/idlewatt'}\n")
    done = check(tmp_path / "site.yml")
    assert done.exit_code == 0
    assert "s3cret" not in done.output


@pytest.fixture
def served():
    """Return the function that serves one page on loopback, and tells its address."""
    servers = []

    def serve(page):
        class Page(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_args):
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Page))
        Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"127.0.0.1:{servers[-1].server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_role_of_each_power_meter_is_listed_by_server(tmp_path, served):
    page = "".join(f'node_hwmon_power_average_watt{{chip="lnxsybus:00_acpi000d:0{number}",sensor="power1"}} {watts}\n'
                   for number, watts in enumerate((1500, 310, 280, 30)))
    address = served(page.encode())
    (tmp_path / "site.yml").write_text(
        f"sources: [{{kind: node, static_configs: [{{targets: ['{address}'], labels: {{node: tray-1}}}}]}}]\n")
    done = check("--meters", tmp_path / "site.yml")
    assert done.exit_code == 0
    assert "tray-1: 1500 W of its modules, which is not the wall" in done.stdout
    assert "  lnxsybus:00_acpi000d:01: 310 W, part (of four that add up like a Grace module's)" in done.stdout


def test_servers_whose_meters_cannot_be_read_are_listed(tmp_path):
    (tmp_path / "site.yml").write_text("sources: [{kind: node, targets: ['127.0.0.1:1']}]\n")
    done = check("--meters", tmp_path / "site.yml")
    assert done.exit_code == 0
    assert "127.0.0.1:1" in done.stderr
