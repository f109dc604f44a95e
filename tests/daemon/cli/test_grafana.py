import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main

ROOT = Path(__file__).parents[3]
PLACES = {"grafana/dashboards": "var/lib/grafana/dashboards/idlewatt", "grafana/rules": "etc/prometheus/rules/idlewatt",
          "grafana/provisioning/dashboards": "etc/grafana/provisioning/dashboards",
          "grafana/provisioning/datasources": "etc/grafana/provisioning/datasources"}


def install(folder: Path):
    return CliRunner().invoke(main, ["grafana", "install", f"--dir={folder}"])


def test_everything_lands_where_grafana_and_prometheus_look(tmp_path):
    assert install(tmp_path).exit_code == 0
    wanted = {f"{place}/{path.name}": path.read_text() for source, place in PLACES.items()
              for path in (ROOT / source).iterdir() if path.is_file()}
    found = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == wanted
    assert len(found) >= 8


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_prometheus_accepts_a_configuration_with_the_installed_rules(tmp_path):
    printed = install(tmp_path).output
    line = next(line for line in printed.splitlines() if line.strip().startswith("rule_files"))
    config = tmp_path / "prometheus.yml"
    config.write_text(line.replace("[/", f"[{tmp_path}/").strip())
    done = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout


def test_the_operators_data_source_is_kept_and_dashboards_are_renewed(tmp_path):
    install(tmp_path)
    source = tmp_path / "etc/grafana/provisioning/datasources/idlewatt.yaml"
    dashboard = tmp_path / "var/lib/grafana/dashboards/idlewatt/health.json"
    for path in (source, dashboard):
        path.write_text("mine")
    assert f"kept     {source}" in install(tmp_path).output
    assert source.read_text() == "mine"
    assert dashboard.read_text() != "mine"


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    done = install(tmp_path / "file")
    assert done.exit_code == 2
    assert "is a file" in done.output


def test_dashboards_link_to_the_sites_page_and_use_its_currency(tmp_path):
    done = CliRunner().invoke(main, ["grafana", "install", "--dir", str(tmp_path), "--page", "https://watts.site/idle/",
                                     "--currency", "EUR"])
    assert done.exit_code == 0, done.output
    dashboard = (tmp_path / "var/lib/grafana/dashboards/idlewatt/job.json").read_text()
    (page,) = [one for one in json.loads(dashboard)["templating"]["list"] if one["name"] == "page"]
    assert page["query"] == "https://watts.site/idle"
    assert "currencyEUR" in dashboard
    assert "currencyUSD" not in dashboard


@pytest.mark.parametrize("wrong", [["--currency", 'E"R'], ["--currency", "euro"], ["--page", "javascript:alert(1)"],
                                   ["--page", 'http://a"b']])
def test_options_that_would_break_the_dashboards_are_refused(tmp_path, wrong):
    done = CliRunner().invoke(main, ["grafana", "install", "--dir", str(tmp_path), *wrong])
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])


def test_the_alerts_lead_to_the_runbooks_of_the_site_where_it_says_so(tmp_path):
    args = ["grafana", "install", f"--dir={tmp_path}", "--runbook-url=https://wiki/idlewatt/"]
    assert CliRunner().invoke(main, args).exit_code == 0
    text = (tmp_path / "etc/prometheus/rules/idlewatt/alerts.yml").read_text()
    assert "runbook_url: https://wiki/idlewatt/GpuAllocatedIdle.md" in text
    assert "github.com" not in text
