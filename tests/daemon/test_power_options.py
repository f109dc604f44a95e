import numpy as np
import pytest

from idlewatt.daemon.power_options import PowerError, described
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.power import Occupation, PowerModel, joules

MIXED = Cluster.from_spec("1x8:a100,1x8:v100")


@pytest.fixture
def file(tmp_path):
    def write(text):
        (tmp_path / "watts.yaml").write_text(text)
        return str(tmp_path / "watts.yaml")

    return write


def hour(gpu_hours):
    """Return two nodes that were busy for an hour and held so many GPU-hours."""
    zeros = np.zeros(2)
    return Occupation(3600.0, zeros + 3600, zeros, zeros, 3600 * np.array(gpu_hours, float), zeros, float("inf"))


def test_a_gpu_model_is_found_by_a_part_of_its_name():
    assert described("v100", MIXED) == PowerModel(idle=55.0, context=95.0, limit=300.0)
    assert described("a100-sxm4-80gb", MIXED).idle == 60.0


def test_each_node_draws_what_its_own_model_does():
    model = described("by-model", MIXED)
    first, second = (joules(hour(held), MIXED.gpus, model).productive for held in ([8, 0], [0, 8]))
    assert first / second == pytest.approx((91 + 0.9 * 309 - 9.1) / (95 + 0.9 * 205 - 9.5))
    assert joules(hour([0, 0]), MIXED.gpus, model).idle_unallocated == 3600 * 8 * (51 + 55)


def test_a_file_tells_everything(file):
    model = described(file("{idle: 40, context: 60, limit: 260, host: 500, standby: 9, load: 0.5,"
                           " curve: [[0, 0], [0.5, 0.8], [1, 1]], models: {v100: {host: 300}}}"), MIXED)
    assert model.at_load(0.5) == 60 + 0.8 * 200
    assert model.at_load(0.25) == 60 + 0.4 * 200
    spent = joules(hour([8, 8]), MIXED.gpus, model)
    assert spent.host_active == 3600 * (500 + 300)
    assert spent.productive + spent.allocated_underused == 3600 * 16 * (60 + 0.8 * 200)


def test_watts_of_nodes_are_part_of_what_an_outcome_depends_on(file):
    one, other = (described(file(f"models: {{v100: {{host: {host}}}}}"), MIXED) for host in (300, 301))
    assert one.as_numbers != other.as_numbers
    assert one.as_numbers == described(file("models: {V100: {host: 300}}"), MIXED).as_numbers


@pytest.mark.parametrize(("text", "says"), [
    ("idle: -1", "idle must be a number of at least 0, not -1"),
    ("idle: .nan", "idle must be a number"),
    ("idle: [55]", "idle must be a number of at least 0, not a list"),
    ("watts: 3", "the file has unknown keys: watts; known are context, curve, "),
    ("load: 2", "load lies between"),
    ("curve: [[0, 0]]", "two points or more"),
    ("curve: [[1, 0], [0, 1]]", "rising load"),
    ("curve: 7", "list of"),
    ("models: {h100: {idle: 1}}", "no node has GPUs of 'h100'; there are [a-z0-9]+(, [a-z0-9]+)*$"),
    ("models: {v100: {load: 1}}", "models.v100 has unknown keys: load"),
    ("[1]", "keys with values"),
    ("idle: [", "not YAML"),
    ("[" * 200_000, "nest"),
])
def test_watts_that_make_no_sense_say_where(file, text, says):
    with pytest.raises(PowerError, match=says):
        described(file(text), MIXED)


@pytest.mark.parametrize(("text", "says"), [("mi300", "'mi300' are not known; known are A100"), ("p100", "not known"),
                                            ("", "not known"),
                                            ("missing.yaml", "missing.yaml: cannot be read: No such file")])
def test_an_unknown_model_names_the_known_ones(text, says):
    with pytest.raises(PowerError, match=says):
        described(text, MIXED)


def test_nodes_without_a_model_have_no_watts_of_their_own():
    with pytest.raises(PowerError, match="nodes without a GPU model are not known"):
        described("by-model", Cluster.from_spec("1x8"))
