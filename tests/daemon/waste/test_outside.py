"""A GPU that works and that nobody holds: a finding after minutes, and no alarm around a job's start or end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.records import NodeState

OUTSIDE, PLANNED, IDLE = PowerClass.OUTSIDE_SCHEDULER, PowerClass.PLANNED, PowerClass.IDLE_UNALLOCATED


class Race:
    """One GPU, read and asked about at times of their own."""

    def __init__(self, site, **more):
        self._site, self._accountant = site, site.accountant(**more)
        self.asked_s = self.read_s = 0.0
        self.held, self.reading = False, {}

    def ask(self, time_s, *, held):
        """Let the scheduler answer at ``time_s``."""
        self.asked_s, self.held = time_s, held
        return self

    def read(self, time_s, u, **more):
        """Let the exporter answer at ``time_s``."""
        self.read_s, self.reading = time_s, {"u": u, "watts": 690.0 if u else 51.0} | more
        return self

    def judge(self, now_s, state=NodeState.UP, guessed=False):
        jobs = [self._site.running(indexes=None if guessed else [0], gpus=1)] if self.held else []
        node = self._site.node(gpus=1, gpus_allocated=int(self.held), state=state)
        gpus = (self._site.gpu(time_s=self.read_s, memory_used_bytes=70e9, **self.reading),)
        found = self._accountant.assess(self._site.snapshot([node], jobs, time_s=self.asked_s),
                                        self._site.telemetry(gpus, (self._site.wall(1200.0, time_s=now_s),)), now_s)
        return found.gpu_verdicts[0], found


def states(race, times, u=1.0, held=False, **more):
    """Return the states when GPU and scheduler are read together at each time."""
    return [race.ask(now, held=held).read(now, u).judge(now, **more)[0].state for now in times]


def test_a_busy_gpu_that_nobody_holds_is_outside_the_scheduler_after_two_minutes_and_not_waste(site):
    race = Race(site)
    seen = states(race, range(1000, 1135, 15))
    assert seen == [PLANNED] * 8 + [OUTSIDE]
    gpu, found = race.judge(1120.0)
    assert (gpu.node, gpu.index, gpu.since_s, gpu.wasted_watts) == ("dgx-0", 0, 1000.0, 0.0)
    assert found.totals["gpu"][OUTSIDE] == 690.0
    assert found.node_gpus["dgx-0"]["outside_scheduler"] == 1
    assert found.wasted_watts == 0.0, "nor is the host that works for it"
    assert found.totals["gpu"][PowerClass.HOST_ACTIVE] == 510.0


def test_a_job_that_starts_before_the_scheduler_tells_is_no_alarm(site):
    """The GPU is read every 15 s, the scheduler only minutes later."""
    race = Race(site).ask(990.0, held=False)
    seen = [race.read(now, 1.0).judge(now)[0].state for now in range(1000, 1300, 15)]
    assert set(seen) == {PLANNED}
    assert race.ask(1300.0, held=True).read(1300.0, 1.0).judge(1300.0)[0].state is PowerClass.PRODUCTIVE


def test_a_job_that_the_scheduler_has_ended_before_the_gpu_is_read_again_is_no_alarm(site):
    race = Race(site)
    race.ask(1000.0, held=True).read(1000.0, 1.0).judge(1000.0)
    after_the_end = race.ask(1001.0, held=False).judge(1002.0)[0].state
    winding_down = race.read(1015.0, 0.3).ask(1016.0, held=False).judge(1016.0)[0].state
    at_rest = race.read(1030.0, 0.0).judge(1031.0)[0].state
    assert (after_the_end, winding_down) == (PLANNED, PLANNED)
    assert at_rest in (PLANNED, IDLE)
    assert states(race, range(1160, 1400, 15), u=0.0) == [IDLE] * 16


@given(st.lists(st.tuples(st.floats(1, 60), st.booleans()), min_size=1, max_size=30), st.floats(0, 100),
       st.floats(0, 100))
@settings(max_examples=150, deadline=None)
def test_no_race_of_two_readers_around_a_job_raises_an_alarm(site, steps, start_lag, end_lag):
    """A job of ten minutes; each step reads the GPU or asks the scheduler, which tells of it up to 100 s late."""
    race, now = Race(site), 1000.0
    race.ask(now, held=False).read(now, 0.0)
    for step, asks in steps:
        now += step
        if asks:
            race.ask(now, held=1100.0 + start_lag <= now < 1700.0 + end_lag)
        else:
            race.read(now, float(1100.0 <= now < 1700.0))
        assert race.judge(now)[0].state is not OUTSIDE


@given(st.floats(0, 100))
@settings(max_examples=40, deadline=None)
def test_no_gpu_that_is_let_go_late_raises_an_alarm(site, late):
    """The scheduler ends the job at once; its processes take up to 100 s to leave the GPU."""
    race = Race(site)
    for now in range(1000, 1400, 10):
        gpu, found = race.ask(now, held=now < 1100).read(now, float(now < 1100 + late)).judge(now)
        assert gpu.state is not OUTSIDE
        assert sum(found.totals["gpu"].values()) == pytest.approx(1200.0)


def test_work_in_bursts_is_found_too_and_rest_ends_it(site):
    race = Race(site)
    bursts = [race.ask(now, held=False).read(now, float(now % 60 == 0)).judge(now)[0].state
              for now in range(960, 1200, 15)]
    assert bursts[-1] is OUTSIDE
    assert states(race, range(1200, 1500, 15), u=0.0)[-1] is IDLE


def test_gpus_that_are_read_seldom_are_found_too(site):
    accountant, node = site.accountant(270.0), site.node(gpus=1)
    for now in (1000.0, 1270.0):
        found = accountant.assess(site.snapshot([node], time_s=now),
                                  site.telemetry((site.gpu(time_s=now, u=1.0),), ()), now)
    assert found.gpu_verdicts[0].state is OUTSIDE


def test_whoever_comes_to_hold_it_ends_it_at_once(site):
    race = Race(site)
    assert states(race, range(1000, 1150, 15))[-1] is OUTSIDE
    assert states(race, [1150]) == [OUTSIDE]
    assert states(race, [1165], held=True) == [PowerClass.PRODUCTIVE]
    assert states(race, [1180]) == [PLANNED]


def test_without_activity_watts_far_above_idle_tell_it(site):
    race = Race(site, models={"A100": {"bare_watts": 51, "context_watts": 90, "limit_watts": 400}})
    seen = [race.ask(now, held=False).read(now, None, watts=350.0, resident=None).judge(now)[0].state
            for now in range(1000, 1135, 15)]
    assert seen[-1] is OUTSIDE


def test_a_loaded_model_that_nobody_asks_is_no_work(site):
    race = Race(site)
    assert {race.ask(now, held=False).read(now, 0.0, watts=114.0).judge(now)[0].state
            for now in range(1000, 1300, 15)} == {IDLE}


def test_on_a_node_out_of_service_nobody_is_outside(site):
    assert set(states(Race(site), range(1000, 1300, 15), state=NodeState.DRAINED)) == {PowerClass.UNAVAILABLE}


def test_a_job_whose_gpu_was_guessed_wrongly_is_not_accused(site):
    """The scheduler tells that a job holds one of two GPUs and not which; the first, quiet one is taken for it."""
    accountant = site.accountant()
    node = site.node(gpus=2, gpus_allocated=1)
    for now in range(1000, 1300, 15):
        job = site.running(indexes=None, gpus=1)
        gpus = (site.gpu(0, time_s=now, jobs=("1",)), site.gpu(1, time_s=now, watts=690.0, u=1.0))
        found = accountant.assess(site.snapshot([node], [job], time_s=now), site.telemetry(gpus, ()), float(now))
    assert [gpu.state for gpu in found.gpu_verdicts] == [PowerClass.ALLOCATED_IDLE, PLANNED]


def test_a_gpu_of_a_node_that_the_scheduler_does_not_know_is_unmeasured_not_outside(site):
    accountant = site.accountant()
    for now in range(1000, 1300, 15):
        found = accountant.assess(site.snapshot([], time_s=now),
                                  site.telemetry((site.gpu(time_s=now, u=1.0),), ()), float(now))
    assert found.gpu_verdicts[0].state is PowerClass.UNMEASURED


def test_outside_is_not_wasted():
    assert OUTSIDE not in WASTED
