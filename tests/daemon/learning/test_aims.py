"""What a training is after: its command, the configuration, the kind; weights that make no sense are refused."""

import pytest

from idlewatt.daemon.agents.kinds import AgentKind, Objective
from idlewatt.daemon.config import ConfigError, parse
from idlewatt.daemon.learning.aims import AimError, aimed, parsed
from idlewatt.daemon.settings.training import TrainingSettings

KIND = AgentKind("x", None, None, objective=Objective(0.0, 0.0, 0.0, utilization=1.0))
DAY_S = 86400.0


@pytest.mark.parametrize(("told", "weights", "aim"), [
    ("utilization", {"utilization": 1.0}, "utilization"),
    ("utilisation=0.7, energy=0.3", {"utilization": 0.7, "energy": 0.3}, "utilization+energy"),
    ("jct=1,wait=2,makespan=1.5", {"jct_mean": 1.0, "wait_mean": 2.0, "makespan": 1.5}, "wait_mean+makespan+jct_mean"),
    ("wait-p99,slowdown", {"wait_p99": 1.0, "slowdown_mean": 1.0}, "slowdown_mean+wait_p99")])
def test_weights_are_those_that_are_named_and_no_others(told, weights, aim):
    found = Objective.of(parsed(told, DAY_S))
    assert {name: weight for name, weight in found.weights.items() if weight} == weights
    assert (found.aim, found.longest_wait_s) == (aim, DAY_S)


@pytest.mark.parametrize(("told", "fault"), [
    ("speed", "'speed': there is no weight 'speed'; there are jct_mean, slowdown_mean, wait_p99, wait_mean, "
              "utilization, makespan, energy, energy_wasted"),
    ("energy=much", "'energy=much': 'much' is no number"),
    ("jct,energy=-1", "energy: Input should be greater than or equal to 0"),
    ("jct=nan", "jct_mean: Input should be a finite number"),
    ("jct=0,wait=0", "all weights are 0, and at least one weight must be more than 0: jct_mean, "),
    ("", "'': there is no weight ''")])
def test_weights_that_make_no_sense_are_refused_with_what_is_possible(told, fault):
    with pytest.raises(AimError) as refused:
        parsed(told, DAY_S)
    assert fault in str(refused.value)


@pytest.mark.parametrize(("weights", "fault"), [
    ("{jct_mean: -1}", "site.yml:1: training.objective.jct_mean: Input should be greater than or equal to 0"),
    ("{jct_mean: 0, slowdown_mean: 0, wait_p99: 0}", "site.yml:1: training.objective: all weights are 0")])
def test_the_configuration_refuses_them_at_their_line(weights, fault):
    with pytest.raises(ConfigError) as refused:
        parse(f"training: {{objective: {weights}}}", "site.yml")
    assert fault in str(refused.value)


def test_the_command_goes_before_the_configuration_and_that_before_the_kind():
    silent, said = TrainingSettings(), TrainingSettings(objective={"makespan": 1, "jct_mean": 0})
    assert aimed(None, silent, KIND).aim == "utilization"
    assert aimed(None, said, KIND).weights["makespan"] == 1.0
    assert aimed("energy", said, KIND).aim == "energy"


def test_the_papers_agent_is_after_utilisation_by_itself():
    from idlewatt.daemon.agents.gist_mdrl.kind import KIND as GIST

    assert GIST.objective.aim == "utilization+jct_mean"
