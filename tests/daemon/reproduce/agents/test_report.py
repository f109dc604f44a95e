"""``idlewatt reproduce agents``: what it trains on, and what it says of what came of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import reproduce

from idlewatt.daemon.agents.histories import split
from idlewatt.daemon.agents.kinds import AgentKind, TraceWindow, TrainingError, figures
from idlewatt.daemon.learning.promotion import HEURISTICS
from idlewatt.daemon.learning.training import INCUMBENT
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.site_speeds import SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.agents import claims, run
from idlewatt.daemon.reproduce.agents.bound import jct_bound_s
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


def test_an_agent_that_cannot_serve_a_site_is_listed_with_its_reason_and_not_trained_again(tmp_path, monkeypatch):
    def refuses(config):
        raise TrainingError("no partition has the form")

    monkeypatch.setattr(run, "kind_of", lambda name: AgentKind(name, refuses, lambda folder: None))
    task = run.AgentTask(0, 0, "gist_mdrl", 1.0, TRACES, tmp_path)
    found = run.judged(task)
    assert (found.rows, found.reason) == ({}, "no partition has the form")
    assert run._kept(task) == found
    sections = list(claims.facts(["a site"], [found], FULL)["sections"])
    assert sections[0].paragraphs == ["Nothing could be judged: no partition has the form."]


def test_no_policy_beats_the_bound_even_with_resizing():
    history = HISTORIES[1]
    parts = split(material_of(history, TRACES, 0)).test
    bound_s, done = jct_bound_s(parts), figures(engine.run(
        parts[0].cluster, parts[0].workload, named("sjf-oracle+best-fit+easy"), speed=parts[0].speeds.table),
        parts[0].since_s)
    assert 0.5 * done.jct_mean_s < bound_s < done.jct_mean_s


def test_the_bound_runs_jobs_at_their_best_size_on_one_machine():
    cluster = Cluster.from_spec("1x4")
    speeds = SiteSpeeds("made up", (SpeedGroup("*", "*", 9, size={1: cell(1.0), 2: cell(1.6), 4: cell(2.0)}),))
    work = Workload.of([0.0, 0.0], [160.0, 100.0], [2, 1], minimum=[1, 1], maximum=[4, 1], application=[1, 1],
                       application_names=speeds.labels)
    # At best 128 s on four GPUs, or 256 GPU-seconds on one; the other job is rigid: 25 s of the machine, then 64 s.
    assert jct_bound_s([TraceWindow(cluster, work, 0.0, speeds)]) == pytest.approx((128.0 + 100.0) / 2)


def test_the_report_has_both_training_methods_and_a_row_for_the_bound():
    one = replace(judged(0, 800.0), bound_s=500.0, ways={"actor_critic": 0.7714, "evolution": 0.8107})
    (section,) = claims.facts(["a site"], [one], FULL)["sections"]
    assert "actor critic 0.7714, evolution 0.8107; the better one serves" in section.paragraphs[-1]
    assert section.tables[0].rows[-1][:2] == ("bound", "0.500")


def cell(factor):
    return SpeedCell(factor, factor, factor, "measured", 9)


def test_without_traces_the_error_names_the_required_files(monkeypatch):
    monkeypatch.delenv("IDLEWATT_TRACES", raising=False)
    result = reproduce("agents")
    assert result.exit_code == 2
    assert "--traces names their folder" in result.output


def judged(seed, jct_s):
    rows = {"scorer": (jct_s, 50.0, 7.2e6), INCUMBENT: (1000.0, 100.0, 7.2e6), HEURISTICS[0]: (900.0, 100.0, 7.2e6)}
    return Judged(0, seed, "scorer", "not yet", "shadow", 10.0, 321, rows, HEURISTICS[0], (0.7, 1.1))


def test_a_row_shows_the_mean_and_the_spread_over_seeds():
    judgements = [judged(0, 800.0), judged(1, 900.0), Judged(0, 0, "topdrl", "it is refused")]
    section, = claims.facts(["a site"], judgements, FULL)["sections"]
    rows = {row[0]: row for row in section.tables[0].rows}
    assert rows["scorer"] == ("scorer", "0.850 (0.800 to 0.900)", "0.500", "1.000",
                              "0.700 to 1.100; 0.700 to 1.100", "shadow")
    assert rows[HEURISTICS[0]][1] == "0.900"
    assert "Not judged: topdrl: it is refused." in section.paragraphs
