import pytest

from idlewatt.daemon.advice.spare import spare_nodes
from idlewatt.daemon.waste import NodeVerdict
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import NodeState

ADVISED = {"n": "no known job needs it"}


def verdict(host_class=PowerClass.NODE_OVERHEAD_EMPTY, watts=500.0, source="ipmi", unmeasured=0):
    return NodeVerdict("n", "gpu", NodeState.UP, watts, source, host_class, 500.0, 0.0, {}, unmeasured)


def test_an_empty_node_that_is_measured_is_worth_powering_down():
    assert spare_nodes(ADVISED, {"n": verdict()}).worth == ADVISED
    assert spare_nodes(ADVISED, {"n": verdict(source="gpus")}).worth == ADVISED


@pytest.mark.parametrize(("found", "doubt"), [
    ({}, "nothing of it is measured"),
    ({"n": verdict(watts=None, source="")}, "nothing of it is measured"),
    ({"n": verdict(unmeasured=1)}, "it is not wholly measured"),
    ({"n": verdict(PowerClass.UNMEASURED, source="estimated")}, "it is not wholly measured"),
    ({"n": verdict(PowerClass.HOST_ACTIVE)}, "a GPU of it is busy"),
])
def test_a_node_of_which_nobody_can_say_that_it_is_idle_is_not(found, doubt):
    spare = spare_nodes(ADVISED, found)
    assert (dict(spare.worth), dict(spare.unknown)) == ({}, {"n": doubt})
