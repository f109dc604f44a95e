"""What closeness is worth, from measured tables."""

import pytest

from idlewatt.daemon.advice.topology_cost import application_of, relative_speed
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.recommendations import Placement


def on(*gpus):
    return Placement(tuple(f"n{number}" for number in range(len(gpus))), gpus)


@pytest.mark.parametrize(("name", "application"), [
    ("BERT-large-ft", "bert"), ("train_yolov5", "yolov3"), ("resnet50", "imagenet"), ("interactive", ""), ("", "")])
def test_a_job_is_known_by_its_name_and_else_stays_unknown(name, application):
    assert application_of(name, AdviceSettings().applications) == application


def test_the_first_pattern_that_fits_decides():
    assert application_of("bert-on-cifar", {"*cifar*": "cifar10", "*bert*": "bert"}) == "cifar10"


def test_bert_runs_at_half_speed_on_two_nodes_and_resnet_hardly_minds():
    assert relative_speed("bert", on(2, 2), on(4)) == pytest.approx(22.7 / 50.2, rel=0.08)
    assert relative_speed("yolov3", on(2, 2), on(4)) == pytest.approx(45.6 / 84.2, rel=0.08)
    assert relative_speed("imagenet", on(2, 2), on(4)) == pytest.approx(1.0, abs=0.05)


def test_what_is_the_same_is_as_fast_and_more_than_was_measured_counts_as_the_most_that_was():
    assert relative_speed("bert", on(4, 4), on(4, 4)) == 1.0
    assert relative_speed("bert", on(8), on(4)) == 1.0
    assert relative_speed("bert", on(*[1] * 8), on(8)) == relative_speed("bert", on(*[1] * 4), on(4))


def test_a_node_counts_with_one_gpu_on_it_and_not_without():
    assert relative_speed("bert", on(2, 1), on(3)) == pytest.approx(1.03 / 2.17)
    assert relative_speed("bert", on(1, 1), on(2)) == pytest.approx(1.00 / 1.61)
    assert relative_speed("bert", on(4, 0), on(4)) == 1.0
