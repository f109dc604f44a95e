"""When Slurm tries again for whom it finds no nodes: as its ``node_space`` is cut and joined."""

import numpy as np

from idlewatt.daemon.replay.admission.node_space import NodeSpace
from idlewatt.daemon.settings.priority import BackfillSettings

ALL = np.ones(2, bool)


def kept(*plans, **settings):
    space = NodeSpace(2, 0.0, BackfillSettings(**settings))
    for begin_s, end_s, nodes in plans:
        space.add(begin_s, end_s, np.array(nodes, bool))
    return space


def test_nodes_are_kept_from_one_moment_to_another():
    space = kept((60.0, 120.0, [1, 0]), (120.0, 180.0, [0, 1]))
    assert space.kept(0.0, 59.0).tolist() == [False, False]
    assert space.kept(0.0, 60.0).tolist() == [True, False]
    assert space.kept(90.0, 130.0).tolist() == [True, True]
    assert space.kept(180.0, 900.0).tolist() == [False, False]


def test_what_is_planned_may_end_in_the_very_minute_in_which_another_plan_begins():
    space = kept((60.0, 120.0, [1, 0]))
    assert space.kept(0.0, 60.0).tolist() == [True, False]
    assert space.overlapped(0.0, 60.0).tolist() == [False, False]
    assert space.overlapped(0.0, 61.0).tolist() == space.overlapped(60.0, 60.5).tolist() == [True, False]


def test_slurm_tries_again_when_a_node_comes_free_that_was_not():
    space = kept((0.0, 600.0, [1, 0]), (600.0, 1200.0, [0, 1]))
    assert space.later(ALL, 0.0, 300.0) == 600.0
    assert space.later(np.array([False, True]), 600.0, 900.0) == 1200.0


def test_slurm_looks_no_further_than_the_part_behind_the_job():
    """What comes free later is not seen, and a job that cannot start until then is not planned."""
    space = kept((0.0, 600.0, [1, 1]), (600.0, 1200.0, [1, 0]), (1200.0, 1800.0, [1, 0]), (600.0, 1800.0, [0, 1]))
    assert space.later(ALL, 0.0, 60.0) == 1800.0  # the parts are alike, and one by then
    assert kept((0.0, 600.0, [1, 1])).later(np.array([False, False]), 0.0, 60.0) is None


def test_what_lasts_beyond_the_window_ends_never():
    space = kept((60.0, 90_000.0, [1, 1]))
    assert space.later(ALL, 0.0, 300.0) is None
    assert space.kept(86_000.0, 86_000.0).all()


def test_plans_begin_and_end_at_multiples_of_the_resolution_and_nothing_is_kept_for_less():
    assert kept().whole(310.0, 400.0) == (300.0, 660.0)
    assert kept(resolution_s=300.0).whole(310.0, 400.0) == (300.0, 600.0)
    space = kept((300.0, 300.0, [1, 0]), resolution_s=300.0)
    assert space.kept(599.0, 599.0).tolist() == [True, False]
    assert space.kept(600.0, 600.0).tolist() == [False, False]


def test_a_plan_ends_within_a_longer_window():
    assert kept((60.0, 90_000.0, [1, 1]), window_s=172_800.0).later(ALL, 0.0, 300.0) == 90_000.0
