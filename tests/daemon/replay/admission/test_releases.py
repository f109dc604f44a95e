"""When waiting jobs would fit, by what running jobs give back; in steps as Slurm takes them."""

from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.replay.admission.node_resources import NodeResources
from idlewatt.daemon.replay.admission.releases import Releases
from idlewatt.storage.recommendations import Placement
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

NOW = 1_000_000.0


def runs(name, left_s, gpus=4):
    return Job(name + str(left_s), NOW - 900, JobState.RUNNING, "p", Request(gpus), start_s=NOW - 600,
               limit_s=600 + left_s, allocations=(Allocation(name, gpus, None, 2, 0),))


def first_fit(gpus, *jobs, usable=(True, True)):
    held = {name: sum(job.request.gpus for job in jobs if job.allocations[0].node == name) for name in "ab"}
    nodes = tuple(Node(name, partitions=("p",), gpus=8, cpus=64, gpus_allocated=held[name],
                       cpus_allocated=2 if held[name] else 0) for name in "ab")
    resources = NodeResources(SchedulerSnapshot(NOW, nodes, (), jobs))

    def sought(later):
        return next((Placement((name,), (gpus,)) for name in "ab" if later.free_gpus[later.row[name]] >= gpus
                     and usable["ab".index(name)]), None)

    found = Releases(resources, jobs, NOW).first_fit(resources, resources.mask(usable), sought)
    return found and (found[0] - NOW, str(found[1]))


@pytest.mark.parametrize(("gpus", "jobs", "found"), [
    (8, (runs("a", 600), runs("b", 1200)), (600, "a:8")),
    (8, (runs("a", 600), runs("a", 620), runs("b", 1200)), (620, "a:8")),
    (5, (runs("a", 600), runs("a", 620)), (0, "b:5")),
    (8, (runs("a", 600, 8), runs("b", 625, 8)), (625, "a:8")),
    (8, (runs("a", 600, 8), runs("b", 700, 8)), (600, "a:8")),
    (9, (runs("a", 600, 8), runs("b", 700, 8)), None),
])
def test_jobs_that_end_within_half_a_minute_of_the_first_are_looked_at_together(gpus, jobs, found):
    fit = first_fit(gpus, *jobs)
    assert fit == found or (found is not None and found[0] == 0)


def test_jobs_elsewhere_are_passed_over_and_take_the_next_one_along():
    """As Slurm does: it looks whether the next job ends too late only after one that matters."""
    jobs = runs("a", 600), runs("b", 610, 8), runs("a", 36_000)
    assert first_fit(8, *jobs, usable=(True, False)) == (36_000, "a:8")
    assert first_fit(6, *jobs, usable=(True, False)) is None or first_fit(6, *jobs, usable=(True, False))[0] == 36_000


def test_of_jobs_that_end_together_the_scheduler_takes_the_lower_number_first():
    """So that of b is passed over before that of a, which is the last that matters in its minute."""
    held = ("a", 600, 4, 1), ("a", 620, 2, 5), ("b", 620, 8, 3), ("a", 36_000, 2, 2)
    jobs = [replace(runs(name, left_s, gpus), raw_id=number) for name, left_s, gpus, number in held]
    assert first_fit(6, *jobs, usable=(True, False)) == (620, "a:6")
    assert first_fit(6, *(replace(job, raw_id=9 if job.job_id == "b620" else 1) for job in jobs),
                     usable=(True, False)) == (36_000, "a:6")


def test_who_starts_while_the_queue_is_walked_comes_by_its_number_too():
    resources = NodeResources(SchedulerSnapshot(NOW, tuple(Node(name, ("p",), 8, cpus=64) for name in "ab"), (), ()))
    found = Releases(resources, (), NOW)
    for name, number, left_s in (("a", 5, 600), ("b", 3, 600), ("a", 4, 36_000)):
        after = resources.copy()
        after.free_gpus[resources.row[name]] -= 2
        after.free_cpus[resources.row[name]] -= 2
        found.add(replace(runs(name, left_s), raw_id=number), NOW + left_s, resources, after)
    resources.free_gpus -= np.array([4, 2])
    resources.free_cpus -= np.array([4, 2])
    seen = []
    found.first_fit(resources, resources.mask((True, False)), lambda later: seen.append(later.free_gpus.tolist()))
    assert seen == [[6, 8], [8, 8]]


def test_who_is_past_its_limit_is_expected_to_end_soon():
    assert first_fit(8, runs("a", -300), runs("b", 600)) == (60, "a:8")
