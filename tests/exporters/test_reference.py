"""The reference of the metrics is what the declarations say, and what the page carries."""

import re
from pathlib import Path

import pytest

from idlewatt.exporters.metrics import METRICS
from idlewatt.exporters.reference import CLASSES_FILE, FILE, UNITS, power_classes, reference, unit

GOLDEN = Path(__file__).parent.parent / "recorded" / "golden.prom"


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
