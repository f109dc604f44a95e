"""What the documentation names is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from idlewatt.daemon import config
from idlewatt.daemon.web.openapi import document
from idlewatt.exporters.metrics import METRICS
from idlewatt.exporters.source import kinds

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ROOMS = ("daemon", "exporters", "storage", "grafana", "systemd", "tests", "docs")
NEW = {"daemon/policies/narrow_first.py", "exporters/watts_file.py"}
"""Files that a reader of CONTRIBUTING.md writes."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    text = page.read_text()
    for name in set(re.findall(rf"`((?:{'|'.join(ROOMS)})/[\w./-]+)`", text)) - NEW:
        assert (ROOT / name).exists(), name
    names = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    for name in re.findall(r"`(\w+\.py)`", text):
        assert name in names, name


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/exporters.md").read_text(), re.DOTALL))
def test_what_is_shown_of_an_exporter_is_a_configuration(block, tmp_path):
    for password in set(re.findall(r"/etc/idlewatt/[\w.-]+", block)):
        (tmp_path / Path(password).name).write_text("secret")
    known = block.replace("/etc/idlewatt/", f"{tmp_path}/")
    assert config.parse(known).sources


def test_every_kind_of_source_has_its_place_in_the_how_to_pages():
    pages = "".join((ROOT / "docs" / name).read_text()
                    for name in ("exporters.md", "slurm.md", "kubernetes.md", "prometheus.md", "hardware.md"))
    assert {kind for kind in kinds() if f"`{kind}`" not in pages and f"kind: {kind}" not in pages} == set()


def test_the_readme_is_read_in_a_few_minutes():
    assert len((ROOT / "README.md").read_text().split()) <= 900


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_metrics_that_are_named_are_published(page):
    known = {metric.name for metric in METRICS} | {f"{metric.name}_{part}" for metric in METRICS
                                                   for part in ("bucket", "sum", "count")}
    known |= set(re.findall(r"^# TYPE (\w+)", (ROOT / "tests/recorded/follow.prom").read_text(), re.MULTILINE))
    text = re.sub(r"<!--.*?```\n", "", page.read_text(), flags=re.DOTALL)
    assert {name for name in re.findall(r"`(idlewatt_[a-z_]+)", text) if not name.endswith("_")} - known == set()


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table of a page that begins with a heading."""
    table = (ROOT / "docs" / page).read_text().partition(heading)[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_table_of_the_api_is_what_openapi_describes():
    described = [[f"`{path}`", how["summary"], ", ".join(
        f"`{one['name']}`" for one in how.get("parameters", ()) if one["in"] == "query") or "none"]
        for path, item in document()["paths"].items() for how in item.values()]
    # Recommenders come in the order in which they were imported, by whichever test was first.
    assert sorted(rows("api.md", "| path | what it answers | parameters |")) == sorted(described)


def test_the_table_of_the_alerts_is_what_the_rules_say():
    groups = yaml.safe_load((ROOT / "grafana/rules/alerts.yml").read_text())["groups"]
    told = [[f"[{rule['alert']}]({rule['annotations']['runbook_url']})", rule["labels"]["severity"], rule["for"]]
            for group in groups for rule in group["rules"]]
    table = rows("alerts.md", "| alert | severity | for | fires when |")
    assert [row[:3] for row in table] == told
    assert all((ROOT / f"grafana/runbooks/{rule['alert']}.md").exists() for group in groups for rule in group["rules"])


def test_the_site_builds_without_a_warning(tmp_path):
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--site-dir={tmp_path / 'site'}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"} <= {
        path.parent.name for path in (tmp_path / "site").rglob("index.html")}
