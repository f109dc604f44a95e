"""The reference of the metrics is what the declarations say, and what the page carries."""

import re
from pathlib import Path

import pytest

from idlewatt.exporters.metrics import METRICS
from idlewatt.exporters.reference import CLASSES_FILE, FILE, UNITS, power_classes, reference, unit

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "recorded" / "golden.prom"
SITES_OWN = {
    "idlewatt_allocation_memory_bytes", "idlewatt_allocation_starts_sooner_seconds",  # one job's row of `advise`
    "idlewatt_power_cap_saving_ratio", "idlewatt_power_down_needed_timestamp_seconds",  # likewise
    "idlewatt_unused_memory_bytes",  # beside unused_cpus, which a dashboard shows
    "idlewatt_carbon_intensity",  # for a site's own sums of CO2
    "idlewatt_heldout_energy_ratio",  # a dashboard shows the joules
    "idlewatt_recommendation_rows", "idlewatt_recommendation_timestamp_seconds",  # of any recommender, also a new one
    "idlewatt_cycle_last_run_timestamp_seconds", "idlewatt_config_last_reload_success_timestamp_seconds",
    "idlewatt_recorder_backlog_bytes", "idlewatt_recorder_dropped_records_total",  # alerts go by `degraded`
}
"""What no dashboard, rule or page reads: published for rules that a site writes itself, and why."""


def test_the_reference_is_current():
    assert FILE.read_text() == reference(), "write it anew with make docs-reference"


def test_the_classes_that_the_dashboards_show_are_current():
    assert CLASSES_FILE.read_text() == power_classes(), "write them anew with make dashboards"


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_on_the_page_with_the_labels_that_its_declaration_names(metric):
    name = f"{metric.name}_sum" if metric.kind == "histogram" else metric.name
    series = re.search(rf"^{name}(\{{.*?\}})? ", GOLDEN.read_text(), re.M)
    assert sorted(re.findall(r'(\w+)="', series[1] or "")) == sorted(metric.labels)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_unit_is_told_where_the_name_says_one(metric):
    assert bool(unit(metric)) == any(f"_{one}" in metric.name for one in UNITS)


def test_helps_are_in_words_of_the_field():
    private = re.compile(r"\b(tells?|told|heard|beats?|the incumbent(?:'s)?|considered)\b", re.I)
    assert {metric.name: private.findall(metric.help) for metric in METRICS if private.search(metric.help)} == {}


def test_every_metric_has_a_reader_or_is_published_for_rules_of_a_sites_own():
    pages = [*ROOT.glob("grafana/dashboards/*.json"), *ROOT.glob("grafana/rules/*.yml"),
             *(page for page in ROOT.glob("docs/*.md") if page != FILE)]
    named = {re.sub(r"_(bucket|sum|count)$", "", name)
             for page in pages for name in re.findall(r"idlewatt_[a-z_]+[a-z]", page.read_text())}
    assert {metric.name for metric in METRICS} - named <= SITES_OWN
    assert {metric.name for metric in METRICS} >= SITES_OWN, "what is gone needs no exception"
