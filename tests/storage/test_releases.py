"""A run that shrinks gives nodes back: what they draw afterwards is another's."""

from dataclasses import replace

from idlewatt.storage.records import Allocation, JobState, SchedulerSnapshot

FIRST, SECOND = Allocation("a", 4, (0, 1, 2, 3), 16, 1 << 30), Allocation("b", 4, (0, 1, 2, 3), 16, 1 << 30)


def see(history, time_s, *jobs):
    history.record_snapshot(SchedulerSnapshot(time_s, jobs=jobs))


def shrunk(history, make):
    see(history, 130.0, make.running(125.0, FIRST, SECOND))
    see(history, 150.0, make.running(125.0, FIRST))


def nodes(allocations):
    return [part.node for part in allocations]


def test_a_run_that_goes_on_holds_what_it_has_not_given_back(history, make):
    shrunk(history, make)
    (job,), (run,) = history.jobs(0, 1e9), history.job("1").runs
    assert nodes(job.allocations) == nodes(history.job("1").job.allocations) == nodes(run.present) == ["a"]
    assert (nodes(run.allocations), run.released) == (["a", "b"], {"b": 150.0})


def test_a_run_that_has_ended_tells_all_that_it_held_and_until_when(history, make):
    shrunk(history, make)
    history.record_finished([replace(make.ended(125.0, 190.0), allocations=(FIRST,))])
    (run,) = history.job("1").runs
    assert (nodes(run.present), run.released, run.end_s) == (["a", "b"], {"b": 150.0}, 190.0)


def test_nodes_that_were_given_back_are_charged_and_occupied_until_then(history, make):
    shrunk(history, make)
    see(history, 190.0, make.ended(125.0, 190.0))
    assert sorted((one.end_s, one.cpus, one.gpus, one.nodes) for one in history.charges(0.0, 1e9)) == [
        (150.0, 16, 4, 1), (190.0, 16, 4, 1)]
    assert sum(one.gpus for one in history.charges(160.0, 1e9)) == 4
    placed = history.load_placements(0.0, 1e9)
    assert sorted(zip([placed.vocabularies["node"][code] for code in placed.node], placed.end_s, strict=True)) == [
        ("a", 190.0), ("b", 150.0)]


def test_a_node_that_a_run_takes_again_is_its_own(history, make):
    shrunk(history, make)
    see(history, 170.0, make.running(125.0, FIRST, SECOND))
    (run,) = history.job("1").runs
    assert (nodes(run.present), run.released) == (["a", "b"], {})


def test_a_run_that_completes_or_tells_no_node_gives_none_back(history, make):
    see(history, 130.0, make.running(125.0, FIRST, SECOND))
    see(history, 140.0, replace(make.running(125.0), priority=7.0))
    see(history, 150.0, replace(make.running(125.0, FIRST), state=JobState.COMPLETING))
    assert history.job("1").runs[0].released == {}


def test_an_older_look_gives_nothing_back(history, make):
    see(history, 150.0, make.running(125.0, FIRST, SECOND))
    see(history, 140.0, make.running(125.0, FIRST))
    assert history.job("1").runs[0].released == {}


def test_a_late_page_takes_nothing_back(history, make):
    shrunk(history, make)
    see(history, 140.0, make.running(125.0, FIRST, SECOND))
    assert history.job("1").runs[0].released == {"b": 150.0}
