"""``idlewatt reproduce agents``: what it trains on, and what it says of what came of it."""

from pathlib import Path

import numpy as np
import pytest
from command import reproduce

from idlewatt.daemon.learning.promotion import HEURISTICS
from idlewatt.daemon.learning.training import INCUMBENT
from idlewatt.daemon.reproduce.agents import claims
from idlewatt.daemon.reproduce.agents.claims import Judged
from idlewatt.daemon.reproduce.agents.setting import FULL
from idlewatt.daemon.reproduce.agents.sites import HISTORIES, material_of
from idlewatt.daemon.reproduce.scorer.sites import stretch_of

TRACES = Path(__file__).parents[3] / "traces"


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name)
def test_a_seed_draws_the_applications_and_nothing_else(history):
    one, again, other = (material_of(history, TRACES, seed) for seed in (1, 1, 2))
    assert (one.workload.application == again.workload.application).all()
    assert (one.workload.application != other.workload.application).any()
    assert (one.workload.submit == other.workload.submit).all()
    assert not one.speeds.flat


def test_a_job_of_several_nodes_takes_its_recorded_time_on_nodes_that_are_close():
    found, flat = material_of(HISTORIES[2], TRACES, 0), stretch_of(HISTORIES[2].site, TRACES).workload
    work = found.workload
    wide = np.flatnonzero(work.gpus > 8)
    close = np.array([group.spread["leaf"].factor for group in found.speeds.groups])[work.application[wide] - 1]
    assert close.mean() < 1 < len(set(close))
    assert work.run[wide] == pytest.approx(flat.run[wide] * close)


def test_an_agent_that_cannot_serve_a_site_is_told_with_its_reason_and_not_tried_again(tmp_path):
    first = reproduce("agents", "--traces", TRACES, "--out", tmp_path, "--quick", kinds="gist_mdrl", workers=1)
    assert first.exit_code == 0, first.output
    told = (tmp_path / "report.md").read_text()
    assert "Nothing could be judged: " in told
    assert reproduce("agents", "--traces", TRACES, "--out", tmp_path, "--quick", kinds="gist_mdrl").exit_code == 0
    assert (tmp_path / "report.md").read_text() == told


def test_without_traces_it_says_what_it_needs(monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce("agents")
    assert result.exit_code == 2
    assert "--traces names their folder" in result.output


def judged(seed, jct_s):
    rows = {"scorer": (jct_s, 50.0, 7.2e6), INCUMBENT: (1000.0, 100.0, 7.2e6), HEURISTICS[0]: (900.0, 100.0, 7.2e6)}
    return Judged(0, seed, "scorer", "not yet", "shadow", 10.0, 321, rows, HEURISTICS[0], (0.7, 1.1))


def test_a_row_shows_the_mean_over_seeds_and_how_far_they_are_apart():
    told = claims.facts(["a site"], [judged(0, 800.0), judged(1, 900.0), Judged(0, 0, "topdrl", "it is refused")], FULL)
    section, = told["sections"]
    rows = {row[0]: row for row in section.tables[0].rows}
    assert rows["scorer"] == ("scorer", "0.850 (0.800 to 0.900)", "0.500", "1.000",
                              "0.700 to 1.100; 0.700 to 1.100", "shadow")
    assert rows[HEURISTICS[0]][1] == "0.900"
    assert "Not judged: topdrl: it is refused." in section.paragraphs
