"""Groups of like jobs and the table that the engine is given."""

import pickle

import numpy as np
import pytest

from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS, SOURCES, SiteSpeeds, SpeedCell, SpeedGroup, escaped, moved
from idlewatt.daemon.replay.speed import FLAT, SpeedError


def cell(factor, source="measured"):
    return SpeedCell(factor, factor * 0.9, factor * 1.1, source, 5)


TRAIN = SpeedGroup("ann", "train_#", 12, spread={"leaf": cell(0.8), "spine": cell(0.6, "prior")},
                   size={4: cell(1.0), 16: cell(3.0)}, company={"*/*bert*": cell(0.5)})
BERT = SpeedGroup("*", "*bert*", 0, "bert", spread={"leaf": cell(0.6, "prior")})
SPEEDS = SiteSpeeds("site", (TRAIN, BERT))


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_speed_is_refused(factor):
    with pytest.raises(SpeedError, match="positive number"):
        SpeedCell(factor, 0.5, 1.5, "measured")


def test_a_speed_lies_within_its_interval():
    with pytest.raises(SpeedError, match="outside of its interval"):
        SpeedCell(2.0, 0.5, 1.5, "measured")


@pytest.mark.parametrize("group", [
    lambda: SpeedGroup("a", "b", spread={"rack": cell(1.0)}), lambda: SpeedGroup("a", "b", size={0: cell(1.0)}),
    lambda: SpeedGroup("a", "b", cpus={-1.0: cell(1.0)})])
def test_a_group_knows_levels_and_sizes(group):
    with pytest.raises(SpeedError, match="a/b"):
        group()


def test_groups_have_names_of_their_own_and_neighbours_that_there_are():
    with pytest.raises(SpeedError, match="two groups are ann/train_#"):
        SiteSpeeds("site", (TRAIN, TRAIN, BERT))
    with pytest.raises(SpeedError, match="no group"):
        SiteSpeeds("site", (TRAIN,))


def test_a_job_belongs_to_the_first_group_that_fits_its_user_and_name():
    assert SPEEDS.row("ann", "train_17") == SPEEDS.row("Ann", "TRAIN_3") == 1
    assert SPEEDS.row("bob", "train_17") == 0
    assert SPEEDS.row("ann", "bert_17") == SPEEDS.row("bob", "my-BERT") == 2
    users, names = ("ann", "bob"), ("train_1", "x-bert", "")
    rows = SPEEDS.rows(np.array([0, 1, 1, -1, 0]), users, np.array([0, 1, 2, -1, -1]), names)
    assert rows.tolist() == [1, 2, 0, 0, 0]


def test_names_that_look_like_patterns_are_taken_literally():
    wild = SiteSpeeds("site", (SpeedGroup(escaped("a*"), escaped("x[1]?_#"), 3, spread={"leaf": cell(0.5)}),))
    assert wild.row("a*", "x[1]?_7") == 0  # what varies is left out of the name before it is compared
    odd = SiteSpeeds("site", (SpeedGroup(escaped("a*"), escaped("x[a]?_#"), 3, spread={"leaf": cell(0.5)}),))
    assert odd.row("a*", "x[a]?_7") == 1
    assert odd.row("ab", "x[a]?_7") == odd.row("a*", "xa!_7") == 0


def test_the_table_has_a_row_for_jobs_of_no_group_and_carries_the_furthest_known_level_on():
    table = SPEEDS.table
    assert table.spread.tolist() == [[1, 1, 1, 1, 1], [1, 1, 0.8, 0.6, 0.6], [1, 1, 0.6, 0.6, 0.6]]
    assert table.size[1, [4, 10, 16]].tolist() == [1.0, 2.0, 3.0]
    assert table.company.tolist() == [[1, 1, 1], [1, 1, 0.5], [1, 1, 1]]


def test_what_every_job_rests_on_is_the_worst_of_its_size_and_its_spread():
    def found(row, level, held, wanted):
        number = SPEEDS.sources(*(np.array([value]) for value in (level, held, wanted, row)))[0]
        return SOURCES[number]

    assert found(1, 0, 4, 4) == found(1, 2, 4, 4) == "measured"
    assert found(1, 3, 4, 4) == "prior"
    assert found(1, 4, 4, 4) == "unknown"
    assert found(1, 0, 8, 4) == "fitted"
    assert found(1, 0, 16, 4) == "measured"
    assert found(1, 0, 64, 4) == "unknown"
    assert found(2, 0, 1, 1) == "prior"
    assert found(0, 0, 1, 1) == "unknown"
    few = SiteSpeeds("site", (SpeedGroup("a", "b", 2, spread={"leaf": cell(0.5)}),))
    zero, one = np.zeros(1, int), np.ones(1, int)
    assert few.sources(zero, one, one, one).tolist() == [SOURCES.index("unknown")]


def test_speeds_that_say_nothing_are_flat_and_cost_nothing():
    nothing = SiteSpeeds("site", (SpeedGroup("a", "b", 9, spread={"leaf": SpeedCell(1.0, 0.9, 1.1, "measured")}),))
    assert nothing.table is FLAT
    assert FLAT_SPEEDS.table is FLAT
    assert nothing.digest == FLAT_SPEEDS.identity == ""
    assert "nothing is known" in SiteSpeeds("site").summary


def test_speeds_stay_the_same_on_their_way_to_another_process():
    there = pickle.loads(pickle.dumps(FLAT_SPEEDS))
    assert there.flat
    assert pickle.loads(pickle.dumps(SPEEDS)).identity == SPEEDS.identity


def test_cpus_and_memory_are_given_to_policies_that_grant_them_only():
    known = SiteSpeeds("site", (SpeedGroup("a", "b", 3, cpus={4.0: cell(1.0)}, memory={8e9: cell(1.0)}),))
    assert not known.table.coupled
    assert known.fungible.coupled
    assert known.fungible.grants[1, :, -1].tolist() == [0, 0.25, 0.5, 0.75, 1.0]
    assert (known.fungible.grants[0] == 1).all()


def test_nodes_that_hang_together_with_others_have_moved_whatever_switches_are_called():
    before = {"a": ("l0", ""), "b": ("l0", ""), "c": ("l1", ""), "d": ("l1", "")}
    assert moved(before, {name: (leaf + "x", spine) for name, (leaf, spine) in before.items()}) == []
    assert moved(before, before | {"e": ("l0", "")}) == []
    assert set(moved(before, before | {"b": ("l1", "")})) == {"a", "b", "c", "d"}
    assert moved({}, before) == []


def test_a_group_that_is_faster_further_apart_says_so_and_keeps_both():
    odd = SpeedGroup("a", "b", 9, spread={"leaf": cell(0.8), "spine": cell(1.5)})
    assert "a/b was faster on GPUs further apart (spine: 1.50, 1.35 to 1.65) than on closer ones (0.80)" in \
        odd.contradictions()[0]
    assert SiteSpeeds("site", (odd,)).table.spread[1].tolist() == [1, 1, 0.8, 1.5, 1.5]
    assert TRAIN.contradictions() == []


def test_a_group_can_use_the_sizes_that_it_really_came_with():
    def cells(**sources):
        return {int(size[1:]): SpeedCell(float(size[1:]), 0.1, 99.0, source, 5) for size, source in sources.items()}

    known = SiteSpeeds("site", (SpeedGroup("*", "several", 9, size=cells(g2="measured", g8="measured", g16="prior")),
                                SpeedGroup("*", "one", 9, size=cells(g4="measured", g8="prior"))))
    least, most = known.sizes(np.array([0, 1, 1, 2, 1]), np.array([4, 4, 16, 4, 0]))
    assert least.tolist() == [4, 2, 2, 4, 0]
    assert most.tolist() == [4, 8, 16, 4, 0]
