import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.headline import HeadlineRow, balance, scope
from idlewatt.storage.power_classes import PowerClass

IDLE, WORK, DARK = PowerClass.IDLE_UNALLOCATED, PowerClass.PRODUCTIVE, PowerClass.UNMEASURED
BUSY_HOST, EMPTY_HOST = PowerClass.HOST_ACTIVE, PowerClass.NODE_OVERHEAD_EMPTY


def gpu(power_class, watts, node="a"):
    return HeadlineRow(node, power_class, watts, is_gpu=True)


def host(power_class, watts, source="ipmi", node="a", unused=0.0):
    return HeadlineRow(node, power_class, watts, is_gpu=False, source=source, unused=unused)


@pytest.mark.parametrize(("parts", "sentence"), [
    ([], "no watts measured yet"),
    ([gpu(IDLE, 1200.0), host(BUSY_HOST, 800.0)], "2.00 kW at the wall, 1.20 kW wasted (60 %)"),
    ([gpu(WORK, 700.0), host(BUSY_HOST, 300.0)], "1.00 kW at the wall, 0 W wasted (0 %)"),
    ([gpu(IDLE, 1200.0), host(DARK, 3100.0)], "4.30 kW at the wall, at least 1.20 kW wasted, 3.10 kW not measured"),
    ([gpu(DARK, None), host(DARK, 3100.0)], "3.10 kW at the wall, waste unknown, 3.10 kW not measured"),
    ([gpu(DARK, 300.0), host(BUSY_HOST, 100.0)], "400 W at the wall, waste unknown, 300 W not measured"),
    ([gpu(DARK, None), gpu(DARK, None), host(DARK, None, "")], "waste unknown, 2 GPUs not measured"),
    ([gpu(IDLE, 60.0), gpu(DARK, None, "b"), host(BUSY_HOST, 40.0), host(DARK, None, "", "b")],
     "100 W by wall meters of 1 of 2 nodes, GPUs and estimated hosts of the others, at least 60 W wasted, "
     "1 GPU not measured"),
    ([gpu(WORK, 700.0), host(BUSY_HOST, 300.0, "estimated")],
     "1.00 kW of GPUs and estimated hosts, 0 W wasted (0 %)"),
    ([gpu(WORK, 700.0), host(BUSY_HOST, None, "gpus")], "700 W of GPUs, without their hosts, 0 W wasted (0 %)"),
    ([gpu(IDLE, 1200.0), host(BUSY_HOST, 800.0, unused=400.0)],
     "2.00 kW at the wall, 1.60 kW wasted or unused (80 %: 1.20 kW wasted, 400 W unused part of busy nodes)"),
    ([gpu(WORK, 600.0), host(BUSY_HOST, 400.0, unused=300.0)],
     "1.00 kW at the wall, 300 W wasted or unused (30 %: 0 W wasted, 300 W unused part of busy nodes)"),
    ([gpu(DARK, 500.0), host(BUSY_HOST, 500.0, unused=100.0)],
     "1.00 kW at the wall, at least 100 W wasted or unused (waste unknown, 100 W unused part of busy nodes), "
     "500 W not measured"),
    ([gpu(IDLE, 100.0), gpu(WORK, 300.0), host(BUSY_HOST, None, "gpus", unused=None)],
     "400 W of GPUs, without their hosts, at least 100 W wasted or unused, unused part of 1 busy node not measured"),
    ([gpu(WORK, 300.0), host(BUSY_HOST, None, "gpus", unused=None), host(BUSY_HOST, 100.0, node="b", unused=50.0)],
     "400 W by wall meters of 1 of 2 nodes, GPUs and estimated hosts of the others, at least 50 W wasted or unused "
     "(0 W wasted, at least 50 W unused part of busy nodes), unused part of 1 busy node not measured"),
    ([gpu(WORK, 300.0), host(BUSY_HOST, None, "gpus", unused=None)],
     "300 W of GPUs, without their hosts, waste unknown, unused part of 1 busy node not measured"),
    ([gpu(IDLE, 50.0), host(EMPTY_HOST, None, "gpus")],
     "50 W of GPUs, without their hosts, at least 50 W wasted, 1 empty node measured at the GPUs only"),
])
def test_the_sentence_says_what_is_known_and_no_more(parts, sentence):
    assert balance(parts).sentence == sentence


def test_a_server_without_gpus_and_without_a_meter_casts_no_doubt():
    parts = [gpu(IDLE, 50.0), host(BUSY_HOST, 50.0), host(EMPTY_HOST, None, "", "login")]
    assert balance(parts).sentence == "100 W at the wall, 50 W wasted (50 %)"


def test_a_part_is_judged_within_the_whole():
    parts = [gpu(DARK, None), gpu(DARK, None, "b"), host(DARK, 500.0), host(DARK, None, "", "b")]
    own = [part for part in parts if part.is_gpu]
    assert balance(own, scope(parts)).dark_gpus == 1


rows = st.builds(HeadlineRow, st.sampled_from("abc"), st.sampled_from(PowerClass), st.none() | st.floats(0, 5000),
                 st.booleans(), st.sampled_from(["", "gpus", "estimated", "ipmi"]), st.none() | st.floats(0, 5000))


@given(st.lists(rows))
def test_nothing_is_said_to_be_zero_while_anything_is_unmeasured(parts):
    found = balance(parts)
    assert found.complete == (not found.missing)
    if DARK in {part.power_class for part in parts if part.is_gpu or (part.watts or 0.0) >= 0.5}:
        assert not found.waste.startswith("0 W")
    assert ("at the wall" in found.sentence) <= all(
        part.metered for part in parts if not part.is_gpu and part.watts is not None)


def test_the_unused_part_is_contained_in_its_class_and_added_to_no_sum():
    found = balance([gpu(WORK, 600.0), host(BUSY_HOST, 400.0, unused=300.0)])
    assert (found.total, sum(found.watts.values()), found.watts[BUSY_HOST]) == (1000.0, 1000.0, 400.0)
    assert (found.wasted, found.unused, found.reported) == (0.0, 300.0, 300.0)
    empty = balance([host(EMPTY_HOST, 400.0, unused=400.0)])
    assert (empty.wasted, empty.unused) == (400.0, 0.0), "what is wholly wasted is not told twice"


def test_a_daemon_that_is_too_old_to_tell_the_unused_part_leaves_it_unknown():
    row = {"node": "a", "power_class": "host_active", "power_watts": 400.0, "gpu": None, "power_source": "ipmi"}
    found = balance([HeadlineRow.of_json(row)])
    assert (found.unused_text, found.complete) == ("not measured", False)
