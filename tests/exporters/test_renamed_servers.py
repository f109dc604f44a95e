"""A server that is called otherwise now is not counted twice, and a target that goes on so is refused."""

import pytest

from idlewatt.exporters.dcgm import DcgmConfig
from idlewatt.exporters.page_checks import PageError, ServerNames
from idlewatt.storage.telemetry import NodeReading, Telemetry

MOST = 4


def told(*names):
    return Telemetry(nodes=tuple(NodeReading(name, 0.0) for name in names))


@pytest.fixture
def names():
    return ServerNames()


@pytest.mark.parametrize(("answers", "left"), [
    (["ab", "cd"], ("a", "b")), (["a", "", "b"], ("a",)), (["a", "b", "c"], ("a", "b")),
    (["abc", "abd"], ("c",)), (["a", "b", "a"], ()),
    # Silent, as far as anybody can tell: nobody knows who of them is called otherwise.
    (["ab", "a"], ()), (["abc", "d"], ()), (["abc", "ab", "abc"], ()), (["ab", "a", "b"], ())])
def test_who_is_missing_while_as_many_are_new_is_called_otherwise(names, answers, left):
    for moment, answer in enumerate(answers):
        names.take(told(*answer), 15.0 * moment, MOST)
    assert names.left() == left


def test_a_target_that_gives_ever_other_names_is_refused_until_it_keeps_to_some(names):
    for moment in range(MOST + 1):
        names.take(told(f"n{moment}"), 15.0 * moment, MOST)
    with pytest.raises(PageError, match=r"ever other names: 6 within an hour, 1 of them now \(server_limit is 4\)"):
        names.take(told("more"), 100.0, MOST)
    for moment in range(1000):
        with pytest.raises(PageError):
            names.take(told(f"m{moment}"), 100.0 + moment, MOST)
    assert len(names._absent) <= 2 * MOST
    names.take(told("m999"), 100.0 + 2 * 3600.0, MOST)
    assert names.left() == ()


def test_the_operator_is_told_of_a_page_that_renames_its_servers_at_each_look(loopback, clock):
    reader = DcgmConfig(targets=(loopback.url("/a"), loopback.url("/b")), timeout=1, gpu_limit=200).build(clock)
    loopback.pages["/b"] = b'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-b",Hostname="sane"} 60\n'
    for round_ in range(4):
        loopback.pages["/a"] = b"".join(
            b'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-%d",Hostname="node-%d-%d"} 60\n' % (number, round_, number)
            for number in range(64))
        facts = reader.read()
        clock.now += 15
        assert len({gpu.node for gpu in facts.gpus}) == 65
        assert len(facts.left) <= 64 * 2
    errors = {health.target.rpartition("/")[2]: health.error for health in reader.health()}
    assert errors["b"] == ""
    assert errors["a"].startswith("gives its servers ever other names: ")
    reader.close()
