"""What recorded runs held, by whom: the ground of fair-share."""

from dataclasses import replace

from idlewatt.storage.charges import Charge
from idlewatt.storage.records import Allocation, Request, SchedulerSnapshot

GIB = 1 << 30


def test_a_run_tells_all_that_it_held_on_all_of_its_nodes(history, make):
    held = (Allocation("a", 4, None, 16, 8 * GIB), Allocation("b", 2, None, 8, 4 * GIB))
    wide = make.ended(110.0, 200.0, user="ann", account="lab", qos="high", allocations=held)
    history.record_finished([replace(wide, request=Request(6, 2, gpu_model="a100"))])
    assert history.charges(0.0, 1e9) == [
        Charge("lab", "ann", "high", 24, 110.0, 200.0, "gpu", 2, 6, "a100", 12 * GIB)]


def test_a_run_that_told_none_is_charged_for_nothing_and_others_are_not_mixed_with_it(history, make):
    history.record_finished([make.ended(110.0, 200.0), replace(
        make.ended(120.0, 210.0), job_id="2", allocations=(Allocation("a", 1, None, 3),))])
    assert sorted((one.start_s, one.cpus, one.nodes) for one in history.charges(0.0, 1e9)) == [
        (110.0, 0, 0), (120.0, 3, 1)]
    assert [one.cpus for one in history.charges(205.0, 300.0)] == [3]


def test_gpus_that_were_asked_for_by_no_model_are_of_the_one_of_all_nodes_that_they_were_on(history, make):
    known = {"a": "a100", "b": "v100", "c": "a100"}
    history.record_snapshot(SchedulerSnapshot(50.0, tuple(make.node(name, gpu_model=of) for name, of in known.items())))
    held = {"1": ("a",), "2": ("a", "c"), "3": ("a", "b"), "4": ("a", "gone")}
    history.record_finished([replace(make.ended(110.0, 200.0), job_id=number, user=number, allocations=tuple(
        Allocation(name, 2, None, 4) for name in names)) for number, names in held.items()])
    found = {one.user: (one.gpus, one.gpu_model) for one in history.charges(0.0, 1e9)}
    assert found == {"1": (2, "a100"), "2": (4, "a100"), "3": (4, ""), "4": (4, "")}


def test_a_model_is_one_however_nodes_write_it_or_have_written_it(history, make):
    for time_s, models in ((50.0, ("A100", "a100", "H100")), (60.0, ("A100", "A100", "a100"))):
        history.record_snapshot(SchedulerSnapshot(time_s, tuple(
            make.node(name, gpu_model=model) for name, model in zip("abc", models, strict=True))))
    history.record_finished([replace(make.ended(110.0, 200.0), job_id=number, user=number, allocations=tuple(
        Allocation(name, 2, None, 4) for name in names)) for number, names in (("1", "ab"), ("2", "b"), ("3", "c"))])
    assert {one.user: one.gpu_model for one in history.charges(0.0, 1e9)} == {"1": "a100", "2": "a100", "3": ""}
