"""What a scheduler's rules say about order: priorities of associations over the largest, where all are told."""

import pytest

from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.storage.rules import Association, SchedulerRules, SchedulerSettings


def scheduling(*priorities, flags=""):
    lines = (("PriorityWeightAssoc", "10"), ("PriorityFlags", flags))
    accounts = tuple(Association(f"account-{number}", "ann", priority=one) for number, one in enumerate(priorities))
    return Scheduling.of(SchedulerRules(associations=accounts, site=SchedulerSettings(priority=lines)))


@pytest.mark.parametrize(("priorities", "flags", "found"), [
    ((40.0, 100.0, 0.0), "", [0.4, 1.0, 0.0]), ((40.0, 100.0, 0.0), "NO_NORMAL_ASSOC", [40.0, 100.0, 0.0]),
    ((0.0, 0.0), "", [0.0, 0.0])])
def test_priorities_of_associations_are_relative_to_the_largest_unless_settings_say_otherwise(priorities, flags, found):
    scaled = scheduling(*priorities, flags=flags)
    assert [scaled.associations[f"account-{number}", "ann"] for number in range(len(priorities))] == found
    assert scaled.priority.unfollowed == ()


@pytest.mark.parametrize("priorities", [(None, None), (40.0, None), ()])
def test_where_not_all_are_known_they_weigh_nothing_and_that_is_reported(priorities):
    scaled = scheduling(*priorities)
    assert scaled.associations == {}
    assert scaled.priority.unfollowed == ("PriorityWeightAssoc",)
