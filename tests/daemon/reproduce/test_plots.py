"""Plots of reports: what is drawn, in the colours of the page and with nothing from outside."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from idlewatt.daemon.replay.outcome import Interval
from idlewatt.daemon.reproduce import plots

SPANS = {"server 1": (0, 8), "server 2": (8, 16)}
DRAWN = {
    "lines": plots.lines("A < B & C", "rounds", {"ours": ([0, 1, 2], [3.0, 2.0, 1.0])}, {"paper": 0.5}),
    "forest": plots.forest("Gain", "less by", [("Philly 16", {"JCT": Interval(0.1, 0.05, 0.15)})]),
    "bars": plots.bars("Energy", "partition", "MWh", {"A100": {"a": 1.0, "b": 2.0}, "V100": {"b": 1.0}}),
    "schedule": plots.schedule("Case 1", "days", SPANS, [("s", np.array([0.0, 2.0]), np.array([0.0, 4.0])),
                                                         ("s", np.array([1.0, 2.0]), np.array([8.0, 12.0]))], ["s"]),
}


@pytest.mark.parametrize("plot", DRAWN.values(), ids=list(DRAWN))
def test_a_plot_is_one_self_contained_element_in_the_colours_of_the_page(plot):
    drawn = ET.fromstring(plot.svg.replace("xlink:", ""))
    assert drawn.tag == "svg"
    assert drawn.get("class") == "plot"
    assert drawn.get("aria-label") == plot.title
    assert not re.search(r"https?://|<script|<style|#0[0-9a-f]0", plot.svg)
    assert "var(--h0)" in plot.svg
    assert "var(--soft)" in plot.svg
    assert plot.svg == plot.svg  # equal figures, equal reports


def test_lines_are_named_and_what_a_paper_states_is_dashed():
    axes = DRAWN["lines"].axes
    assert [(line.get_label(), line.get_linestyle()) for line in axes.lines] == [("ours", "-"), ("paper", "--")]
    assert axes.lines[0].get_ydata().tolist() == [3.0, 2.0, 1.0]
    assert axes.get_ylim()[0] == 0.0


def test_an_interval_reaches_from_its_low_to_its_high_end():
    segments = DRAWN["forest"].axes.containers[0][2][0].get_segments()
    assert [segment[:, 0].tolist() for segment in segments] == [[pytest.approx(0.05), pytest.approx(0.15)]]


def test_a_name_stands_once_in_the_legend_of_a_schedule():
    assert [text.get_text() for text in DRAWN["schedule"].axes.get_legend().get_texts()] == ["s"]
    assert [text.get_text() for text in DRAWN["schedule"].axes.get_yticklabels()] == ["server 1", "server 2"]
