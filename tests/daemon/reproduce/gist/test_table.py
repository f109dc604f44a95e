"""Another table of flavours, other N and M, rates and networks: what comes of them, and what is refused."""

import itertools

import numpy as np
import pytest
from command import reproduce

from idlewatt.daemon.agents.gist_mdrl.agent import IMPROVED, LITERAL
from idlewatt.daemon.agents.gist_mdrl.environment import PARTITIONS, sequences
from idlewatt.daemon.agents.gist_mdrl.train import PartitionTraining
from idlewatt.daemon.reproduce.failures import SettingError
from idlewatt.daemon.reproduce.gist import sensitivity
from idlewatt.daemon.reproduce.gist.setting import Setting
from idlewatt.daemon.reproduce.gist.table import partitions_of
from idlewatt.daemon.reproduce.gist.trial import Trial, TrialResult

TABLE = """
servers: {H100: 4, A40: 2}
flavours:
  - {name: one, partition: H100, gpus: 1, hours: 24}
  - {name: half, partition: H100, gpus: 4, hours: 48, rate: 0.2}
  - {name: all, partition: H100, gpus: 32, hours: 96}
  - {name: small, partition: A40, gpus: 1, hours: 6}
  - {name: every, partition: A40, gpus: 4, hours: 12}
"""


@pytest.fixture
def write(tmp_path):
    def written(text):
        (tmp_path / "table.yml").write_text(text)
        return str(tmp_path / "table.yml")

    return written


def test_without_a_file_the_table_is_the_papers():
    assert partitions_of("") is PARTITIONS
    assert len(sequences(PARTITIONS["A100"])) == 81


@pytest.mark.parametrize("options", [LITERAL, IMPROVED])
def test_an_agent_is_trained_on_a_table_without_cpus_and_memory(write, options):
    training = PartitionTraining(partitions_of(write(TABLE))["H100"], options)
    for episode in itertools.islice(training.run(), 12):
        assert np.isfinite(episode.reward)
    assert all(np.isfinite(array).all() for array in training.agent.weights.values())


def test_another_table_has_its_own_n_m_and_rates(write):
    found = partitions_of(write(TABLE))
    assert {name: (one.servers, one.server, one.jobs) for name, one in found.items()} == {
        "H100": (4, (8, 0, 0), 8), "A40": (2, (2, 0, 0), 4)}
    assert [(one.name, one.rate) for one in (*found["H100"].flavors, found["H100"].terminal)] == [
        ("one", 1 / 32), ("half", 0.2), ("all", 1.0)]
    assert len(sequences(found["H100"])) == 243
    assert len(sequences(found["A40"])) == 1


@pytest.mark.parametrize(("old", "new", "fault"), [
    ("name: half", "name: one", "flavours.1: flavours.0 is called 'one' already"),
    ("gpus: 4, hours: 48", "gpus: 9, hours: 48", "half: no server of H100 can hold it: each has 8 GPUs"),
    ("gpus: 32", "gpus: 33", "all: the largest flavour of H100 takes all its 4 servers, and 33 GPUs cannot be shared"),
    ("rate: 0.2", "rate: 2", "flavours.1.rate: Input should be less than or equal to 1"),
    ("hours: 6", "days: 6", "flavours.3.hours: Field required"),
    ("  - {name: small, partition: A40, gpus: 1, hours: 6}\n", "", "partition A40 has one flavour")])
def test_an_invalid_table_is_refused_with_place_and_remedy(write, old, new, fault):
    with pytest.raises(SettingError) as refused:
        partitions_of(write(TABLE.replace(old, new)))
    assert fault in str(refused.value)


def test_a_missing_table_is_refused():
    with pytest.raises(SettingError, match="cannot be read"):
        partitions_of("nowhere.yml")


@pytest.mark.long
def test_the_command_takes_another_table_and_network(tmp_path, write):
    done = reproduce("gist", "--dir", tmp_path / "report", seeds=1, episodes=3, tests=2, hidden="8", discount="0.9",
                     sensitivity=0, table=write(TABLE))
    assert done.exit_code == 0, done.output
    text = (tmp_path / "report" / "report.md").read_text()
    assert "N = 6 servers in M = 2 partitions" in text
    assert "Partition H100: 4 servers, 243 sequences of jobs" in text
    assert "with all options (1 seeds)" in text


def test_other_hyper_parameters_are_those_of_the_setting():
    values = Setting(discount=0.9, learning_rate=0.01, hidden=(8,)).values
    assert (values.discount, values.learning_rate, values.hidden) == (0.9, (0.01, 0.0002), (8,))


def test_sensitivity_is_a_difference_paired_by_seed():
    trials = sensitivity.trials(Trial("A100", "literal", 7), range(2))
    assert len(trials) == 2 * (1 + len(sensitivity.CHANGES))
    assert len({trial.name for trial in trials}) == len(trials)
    worth = {trial: 0.7 + 0.01 * trial.seed - 0.1 * ("discount_09-" in f"{trial.label}-") for trial in trials}
    section = sensitivity.section({trial: TrialResult("", (), (), {"utilization": value}, 1.0)
                                   for trial, value in worth.items()})
    rows = {row[0]: row for row in section.tables[0].rows}
    assert rows["as used here"][3] == "–"
    assert rows["discount 0.9"][3].startswith("-0.100")
    assert sensitivity.section({}) is None
