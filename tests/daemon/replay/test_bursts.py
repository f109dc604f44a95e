"""A burst is what is submitted without a pause; it is blind until one of it has ended."""

import numpy as np

from idlewatt.daemon.replay.bursts import BLIND, PAUSE_S, SEEING, Bursts, end_in_burst, submit_to_burst


def test_a_burst_is_blind_until_one_of_it_has_ended():
    bursts = Bursts.of(np.zeros(4, np.int64))
    assert [submit_to_burst(job, 10.0 * job, bursts) for job in range(3)] == [BLIND] * 3
    end_in_burst(1, bursts)
    assert submit_to_burst(3, 40.0, bursts) == SEEING
    assert bursts.place.tolist() == [0, 1, 2, 3]


def test_after_a_pause_a_burst_begins_of_which_earlier_ends_tell_nothing():
    bursts = Bursts.of(np.zeros(3, np.int64))
    submit_to_burst(0, 0.0, bursts)
    submit_to_burst(1, PAUSE_S + 1.0, bursts)
    end_in_burst(0, bursts)
    assert submit_to_burst(2, PAUSE_S + 2.0, bursts) == BLIND
    assert bursts.place.tolist() == [0, 0, 1]


def test_groups_have_bursts_of_their_own():
    bursts = Bursts.of(np.array([0, 1, 0, 1]))
    for job in range(2):
        submit_to_burst(job, 0.0, bursts)
    end_in_burst(0, bursts)
    assert [submit_to_burst(job, 1.0, bursts) for job in (2, 3)] == [SEEING, BLIND]
