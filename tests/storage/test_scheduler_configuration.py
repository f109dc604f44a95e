"""What the scheduler was configured to decide by is there for every moment of the past, also after outages."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from idlewatt.storage import schema
from idlewatt.storage.history import History
from idlewatt.storage.records import Partition, SchedulerSnapshot
from idlewatt.storage.rules import Association, Ceilings, Qos, SchedulerRules, SchedulerSettings

RULES = SchedulerRules(
    qos=(Qos("high", Ceilings(wall_s=60.0), 100.0, ("normal",), ("REQUEUE",), exempt_s=30.0, usage_factor=2.0),),
    associations=(Association("physics", "größe", parent="science", ceilings=Ceilings((("gpu", 4.0),)), shares=None),),
    site=SchedulerSettings("qos", ("REQUEUE",), parameters=("bf_interval=10",), priority=(("PriorityWeightAge", "7"),)))
PARTITIONS = (Partition("gpu", ("a",), priority_tier=2, priority_factor=5,
                        billing_weights=(("gpu", 2.0), ("mem", 2.0**-30))),)


def told(history, time_s, rules=RULES, partitions=PARTITIONS):
    history.record_snapshot(SchedulerSnapshot(time_s, partitions=partitions, rules=rules))


def weighing(weight):
    return replace(RULES, site=replace(RULES.site, priority=(("PriorityWeightAge", weight),)))


def rows(history):
    with history._reading() as connection:
        return connection.execute(schema.scheduler_configurations.select()).all()


def test_what_decides_about_order_and_preemption_reads_back_without_limits_and_nodes(history):
    told(history, 100.0)

    found = history.scheduler_configuration(150.0)
    assert found.rules.site == RULES.site
    assert found.rules.qos == (replace(RULES.qos[0], ceilings=Ceilings()),)
    assert found.rules.associations == (replace(RULES.associations[0], ceilings=Ceilings()),)
    assert found.partitions == (replace(PARTITIONS[0], nodes=()),)


def test_each_moment_has_the_configuration_of_then_and_what_came_before_the_first_has_the_first(history):
    assert history.scheduler_configuration() is None
    told(history, 100.0)
    told(history, 200.0, weighing("9"))

    weights = [dict(history.scheduler_configuration(at_s).rules.site.priority)["PriorityWeightAge"]
               for at_s in (50.0, 100.0, 199.0, 200.0, None)]
    assert weights == ["7", "7", "7", "9", "9"]


def test_the_changes_of_a_part_of_the_past_are_in_order_and_without_the_one_that_is_damaged(history):
    for time_s, weight in ((100.0, "7"), (200.0, "8"), (300.0, "9"), (400.0, "10")):
        told(history, time_s, weighing(weight))
    with history._engine.begin() as connection:
        table = schema.scheduler_configurations
        connection.execute(update(table).where(table.c.time_s == 200.0).values(packed=b"torn"))

    changes = history.scheduler_changes(100.0, 400.0)
    assert [(time_s, dict(changed.rules.site.priority)["PriorityWeightAge"]) for time_s, changed in changes] == [
        (100.0, "7"), (300.0, "9")]


def test_what_stays_the_same_is_one_row_and_a_source_that_tells_nothing_changes_nothing(history):
    for time_s in (100.0, 110.0, 120.0):
        told(history, time_s)
    told(history, 130.0, SchedulerRules())
    told(history, 140.0)
    told(history, 90.0, weighing("9"))  # a snapshot that comes late

    assert [row.time_s for row in rows(history)] == [100.0]


def test_a_restart_does_not_record_again_what_is_known(url):
    for time_s in (100.0, 200.0):
        with History.open(url) as history:
            told(history, time_s)
            assert len(rows(history)) == 1


@pytest.mark.parametrize("packed", [b"", b"nonsense", b"x\x9c"])
def test_a_damaged_row_is_said_and_costs_no_more_than_itself(history, packed, caplog):
    told(history, 100.0)
    with history._writing() as connection:
        connection.execute(update(schema.scheduler_configurations).values(packed=packed))

    assert history.scheduler_configuration() is None
    assert "damaged" in caplog.text
    told(history, 200.0, weighing("9"))
    assert dict(history.scheduler_configuration().rules.site.priority) == {"PriorityWeightAge": "9"}
