"""Jobs: every order in which the scheduler and accounting can tell of them gives the same rows."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import text

from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, NodeState, Request, SchedulerSnapshot

HELD = Allocation("a", 2, (0, 1), 8, 1 << 30)


def see(history: History, time_s: float, *jobs: Job) -> None:
    history.record_snapshot(SchedulerSnapshot(time_s, jobs=jobs))


def runs(history: History, job_id: str = "1") -> list[tuple[float, float | None, str]]:
    return [(run.start_s, run.end_s, run.state.value) for run in history.job(job_id).runs]


def changes(history: History) -> list[tuple[float, str]]:
    return [(change.time_s, change.state.value) for change in history.job("1").changes]


def test_every_state_change_is_recorded_at_its_own_time(history, make):
    see(history, 110.0, make.job())
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 150.0, make.running(125.0, HELD))
    see(history, 170.0, make.ended(125.0, 160.0))
    assert changes(history) == [(100.0, "pending"), (125.0, "running"), (160.0, "completed")]
    assert runs(history) == [(125.0, 160.0, "completed")]


def test_nothing_is_written_while_nothing_changes(history, make, monkeypatch):
    see(history, 110.0, make.job(priority=1.0))
    monkeypatch.setattr(history, "_write", lambda work: pytest.fail("wrote"))
    see(history, 120.0, make.job(priority=2.0, expected_start_s=500.0, scheduled_nodes=("a",)))


def test_gpu_indexes_once_seen_stay_when_the_job_has_ended(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 135.0, make.running(125.0, replace(HELD, gpu_indexes=None)))
    see(history, 170.0, replace(make.ended(125.0, 160.0), allocations=(Allocation("a", 2),)))
    history.record_finished([replace(make.ended(125.0, 160.0), allocations=(Allocation("a", 2),))])
    assert history.job("1").job.allocations == (HELD,)


def test_lists_are_stored_without_spaces(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    with history._reading() as connection:
        stored = connection.execute(text("SELECT CAST(gpu_indexes AS TEXT) FROM allocations")).scalar_one()
    assert stored == "[0,1]"


def test_a_requeued_job_keeps_its_id_and_has_two_runs(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 150.0, make.job(restarts=1))
    see(history, 170.0, make.running(165.0, replace(HELD, node="b"), restarts=1))
    assert runs(history) == [(125.0, 150.0, "unknown"), (165.0, None, "running")]
    history.record_finished([make.ended(125.0, 140.0, JobState.NODE_FAILED), make.ended(165.0, 180.0)])
    assert runs(history) == [(125.0, 140.0, "node_failed"), (165.0, 180.0, "completed")]
    assert [part.node for part in history.job("1").job.allocations] == ["b"]


def test_the_end_of_a_run_does_not_finish_the_job_that_was_requeued_after_it(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 150.0, make.job(restarts=1, start_s=125.0))
    history.record_finished([make.ended(125.0, 140.0, JobState.PREEMPTED)])
    assert history.job("1").job.state == JobState.PENDING
    assert runs(history) == [(125.0, 140.0, "preempted")]


def test_the_end_of_a_run_that_nobody_saw_does_not_finish_the_job_either(history, make):
    see(history, 150.0, make.job(restarts=1))
    history.record_finished([make.ended(125.0, 140.0, JobState.PREEMPTED)])
    assert history.job("1").job.state == JobState.PENDING
    assert runs(history) == [(125.0, 140.0, "preempted")]


def test_a_daemon_whose_clock_is_ahead_still_learns_how_a_job_ended(history, make):
    see(history, 900.0, make.job())
    history.record_finished([make.ended(125.0, 140.0)])
    assert history.job("1").job.state == JobState.COMPLETED


def test_a_requeue_between_two_scrapes_is_two_runs(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 150.0, make.running(145.0, HELD, restarts=1))
    assert runs(history) == [(125.0, 145.0, "unknown"), (145.0, None, "running")]


@pytest.mark.parametrize("seen", [True, False], ids=["its former run was seen", "it is seen first when it completes"])
def test_a_job_that_is_put_back_begins_no_run_while_its_former_one_completes(history, make, seen):
    """Slurm shows the moment of the requeue as a start, and submits the job anew: a run that never was never ended."""
    if seen:
        see(history, 130.0, make.running(125.0, HELD))
    see(history, 140.5, make.job(state=JobState.COMPLETING, start_s=140.0, restarts=1, allocations=(HELD,)))
    see(history, 145.0, make.job(submit_s=140.0, restarts=1))
    history.record_finished([make.ended(125.0, 140.0, JobState.PREEMPTED)])
    former = history.job("1", 100.0)
    assert [(run.start_s, run.end_s, run.state) for run in former.runs] == [(125.0, 140.0, JobState.PREEMPTED)]
    assert former.job.state is JobState.PREEMPTED


def test_a_start_set_anew_after_the_nodes_powered_up_is_the_same_run(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 500.0, make.running(480.0, HELD))
    assert runs(history) == [(480.0, None, "running")]


def test_an_id_that_is_used_again_is_another_job(history, make):
    history.record_finished([make.ended(125.0, 160.0)])
    see(history, 1010.0, make.job(submit_s=1000.0))
    assert [(job.submit_s, job.state) for job in history.jobs(0, 1e9)] == [
        (1000.0, JobState.PENDING), (100.0, JobState.COMPLETED)]


def test_a_job_shorter_than_a_scrape_comes_from_accounting(history, make):
    history.record_finished([replace(make.ended(125.0, 127.0), allocations=(Allocation("a", 2),))])
    assert changes(history) == [(100.0, "pending"), (125.0, "running"), (127.0, "completed")]
    assert history.job("1").job.allocations == (Allocation("a", 2),)


def test_a_job_cancelled_while_it_waited_has_no_run(history, make):
    see(history, 110.0, make.job())
    history.record_finished([make.ended(None, 120.0, JobState.CANCELLED)])
    assert changes(history) == [(100.0, "pending"), (120.0, "cancelled")]
    assert runs(history) == []


def test_a_restarted_daemon_doubles_nothing(url, make):
    for time_s in (130.0, 140.0):
        with History.open(url) as history:
            see(history, time_s, make.running(125.0, HELD))
    with History.open(url) as history:
        assert runs(history) == [(125.0, None, "running")]
        assert changes(history) == [(100.0, "pending"), (125.0, "running")]


def test_a_vanished_job_stays_open_until_accounting_says_how_it_ended(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    assert history.open_jobs() == ()
    see(history, 150.0)
    assert [job.job_id for job in history.open_jobs()] == ["1"]
    history.record_finished([make.ended(125.0, 140.0, JobState.FAILED, exit_code=1)])
    assert history.open_jobs() == ()
    assert history.job("1").job.exit_code == 1


def test_a_late_snapshot_moves_no_job_backwards(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 120.0, make.job(), make.job("2"))
    assert history.job("1").job.state == JobState.RUNNING
    assert history.job("2").job.state == JobState.PENDING
    assert runs(history) == [(125.0, None, "running")]


def test_a_page_that_is_older_than_the_accounting_does_not_revive_the_job(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    history.record_finished([make.ended(125.0, 140.0)])
    see(history, 145.0, make.running(125.0, HELD, reason_text="late"))
    assert history.job("1").job.state == JobState.COMPLETED
    assert runs(history) == [(125.0, 140.0, "completed")]


def test_the_rest_of_an_array_is_no_job_but_its_tasks_are(history, make):
    see(history, 110.0, make.job("7", tasks=2))
    see(history, 120.0, make.job("7_0", array="7"), make.job("7", tasks=1))
    see(history, 130.0, make.job("7_0", array="7"), make.job("7_1", array="7"))
    assert sorted(job.job_id for job in history.jobs(0, 1e9)) == ["7_0", "7_1"]


def test_parts_of_a_heterogeneous_job_are_kept_apart(history, make):
    see(history, 110.0, make.job("9+0"), make.job("9+1"))
    assert sorted(job.job_id for job in history.jobs(0, 1e9)) == ["9+0", "9+1"]


def test_the_same_job_twice_on_one_page_is_one_job(history, make):
    see(history, 110.0, make.job(), make.job())
    assert len(history.jobs(0, 1e9)) == 1


def test_an_end_before_the_start_is_not_believed(history, make):
    see(history, 170.0, make.ended(125.0, 5.0))
    assert history.job("1").job.end_s is None


@pytest.mark.parametrize("seen", [True, False])
def test_a_run_that_is_over_without_a_believable_end_does_not_run_on(history, make, seen):
    """As one whose end is before its start, after the scheduler's clock was set back: it held its GPUs for ever."""
    see(history, 130.0, make.running(125.0, HELD))
    if seen:
        see(history, 170.0, make.ended(125.0, 5.0, JobState.FAILED))
    else:
        history.record_finished([make.ended(125.0, 5.0, JobState.FAILED)])
    assert runs(history) == [(125.0, 170.0 if seen else 130.0, "failed")]
    history.record_finished([make.ended(125.0, 150.0, JobState.FAILED)])
    assert runs(history) == [(125.0, 150.0, "failed")]


def test_accounting_without_details_erases_none(history, make):
    request = Request(gpus=2, cpus=8, memory_bytes=1 << 30, gpu_model="a100", required_nodes=("a", "b"))
    see(history, 130.0, replace(make.running(125.0, HELD), request=request, user="ada", limit_s=3600.0))
    history.record_finished([replace(make.ended(125.0, 160.0), request=Request(gpus=0))])
    job = history.job("1").job
    assert (job.request, job.user, job.limit_s) == (request, "ada", 3600.0)


def test_windows_are_by_submission_or_by_overlap(history, make):
    history.record_finished([make.ended(125.0, 160.0), make.ended(300.0, 400.0, job_id="2", submit_s=200.0)])
    see(history, 500.0, make.running(450.0, HELD, job_id="3"))

    def found(*window: float, **how) -> list[str]:
        return sorted(job.job_id for job in history.jobs(*window, **how))

    assert found(150.0, 250.0) == ["2"]
    assert found(150.0, 250.0, overlap=True) == ["1"]
    assert found(390.0, 1000.0, overlap=True) == ["2", "3"]
    assert history.load_columns(150.0, 250.0).job_id.tolist() == ["2"]


def test_columns_hold_what_the_jobs_say(history, make):
    history.record_finished([replace(make.ended(125.0, 160.0, job_id="b", submit_s=110.0), user="ada"),
                             replace(make.ended(None, 130.0, JobState.CANCELLED), user="bob", limit_s=60.0)])
    columns = history.load_columns()
    assert columns.submit_s.tolist() == [100.0, 110.0]
    assert columns.start_s[1] == 125.0
    assert columns.start_s[0] != columns.start_s[0], "unmeasured is NaN"
    assert [columns.vocabularies["user"][code] for code in columns.user] == ["bob", "ada"]
    assert len(history.load_columns(1e9)) == 0


class Recording(RuleBasedStateMachine):
    """A small cluster whose true history is known, seen through glances, restarts and accounting in any order."""

    url: str

    @initialize()
    def start(self) -> None:
        self.now = 1000.0
        self.history = History.open(self.url)
        with self.history._writing() as connection:
            for table in ("verdicts", "allocations", "runs", "job_changes", "jobs"):
                connection.execute(text(f"DELETE FROM {table}"))
        self.jobs: dict[tuple[str, float], Job] = {}
        self.glanced: dict[tuple[str, float], Job] = {}
        self.ended: list[Job] = []
        self.known: set[tuple[str, float]] = set()
        self.known_runs: set[tuple[str, float, float]] = set()

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.history.close()

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    # One rule for all that can befall a job: the next step of every life is then always a real one.
    @rule(steps=st.lists(st.tuples(st.sampled_from(["1", "3_1", "4+0"]), st.integers(0, 3), st.booleans()),
                         min_size=3, max_size=8))
    def live(self, steps: list[tuple[str, int, bool]]) -> None:
        for step in steps:
            self.live_on(*step)

    def live_on(self, name: str, fate: int, seen: bool) -> None:
        job = next((job for job in self.jobs.values() if job.job_id == name), None)
        if job is None:
            job = Job(name, self.tick(), JobState.PENDING, "gpu", Request(gpus=1))
        elif job.state is JobState.PENDING:
            job = self.cancel(job) if fate == 0 else self.begin(job)
        elif job.state is JobState.RUNNING:
            job = self.end(job, JobState.COMPLETED) if fate == 0 else self.requeue(job, fate)
        else:
            del self.jobs[job.key]  # and its id may be used again
            return
        self.jobs[job.key] = job
        if seen:
            self.glance()

    def begin(self, job: Job) -> Job:
        held = Allocation("a", 1, (len(self.ended) % 8,))
        return replace(job, state=JobState.RUNNING, start_s=self.tick(), end_s=None, allocations=(held,))

    def cancel(self, job: Job) -> Job:
        return self.end(replace(job, start_s=None), JobState.CANCELLED)

    def end(self, job: Job, state: JobState) -> Job:
        job = replace(job, state=state, end_s=self.tick())
        self.ended.append(job)
        return job

    def requeue(self, job: Job, fate: int) -> Job:
        """Put it back, its last start still shown or not, or start it again before anybody looks."""
        self.end(job, JobState.PREEMPTED)
        waiting = replace(job, state=JobState.PENDING, restarts=job.restarts + 1, allocations=())
        return {1: waiting, 2: replace(waiting, start_s=None), 3: self.begin(waiting)}[fate]

    @rule()
    def glance(self) -> None:
        self.history.record_snapshot(SchedulerSnapshot(self.tick(), jobs=tuple(self.jobs.values())))
        self._learn(self.jobs.values())
        self.glanced = dict(self.jobs)

    @rule(delay=st.integers(1, 20))
    def late_glance(self, delay: int) -> None:
        """An old page arrives again: nothing that is on it moves back."""
        page_s = self.history._seen.time_s - delay
        old = [replace(job, state=JobState.PENDING, start_s=None, end_s=None, allocations=())
               for job in self.jobs.values() if job.key in self.known and self._changed(job) > page_s]
        before = self._states()
        if old and page_s > 0:
            self.history.record_snapshot(SchedulerSnapshot(page_s, jobs=tuple(old)))
            assert self._states() == before

    @rule(count=st.integers(1, 20))
    def account(self, count: int) -> None:
        rows = [replace(job, allocations=(Allocation("a", 1),) if job.start_s else (), restarts=0)
                for job in self.ended[-count:]]
        # Of a requeue that no glance has shown yet, nobody can know.
        unfinished = {key for key, job in self.jobs.items() if self.glanced.get(key) == job and not job.state.finished}
        self.history.record_finished(rows)
        self._learn(rows)
        with_end = {key for key, state in self._states().items() if state.finished}
        assert not with_end & unfinished, "an old run's end has finished a job that was put back"

    @rule()
    def restart(self) -> None:
        self.history.close()
        self.history = History.open(self.url)

    @precondition(lambda self: self.ended)
    @rule()
    def settle(self) -> None:
        """Once accounting has told all, everything is known as it truly was."""
        self.account(len(self.ended))
        self.glance()
        for job in self.ended:
            detail = self.history.job(*job.key)
            if job.start_s is not None:
                assert (job.start_s, job.end_s) in [(run.start_s, run.end_s) for run in detail.runs]
        for key, job in self.jobs.items():
            assert self.history.job(*key).job.state == job.state

    def _learn(self, jobs) -> None:
        self.known |= {job.key for job in jobs}
        self.known_runs |= {(*job.key, job.start_s) for job in jobs if job.start_s is not None}

    def _states(self) -> dict[tuple[str, float], JobState]:
        return {job.key: job.state for job in self.history.jobs(0, 1e9)}

    def _changed(self, job: Job) -> float:
        with self.history._reading() as connection:
            return connection.execute(text("SELECT changed_s FROM jobs WHERE job_id = :id AND submit_s = :at"),
                                      {"id": job.job_id, "at": job.submit_s}).scalar_one()

    @invariant()
    def no_job_and_no_run_is_lost_or_doubled(self) -> None:
        if not hasattr(self, "history"):
            return
        with self.history._reading() as connection:
            jobs = connection.execute(text("SELECT job_id, submit_s FROM jobs")).all()
            found = connection.execute(text(
                "SELECT job_id, submit_s, runs.start_s FROM runs JOIN jobs ON jobs.id = runs.job")).all()
        assert sorted(map(tuple, jobs)) == sorted(self.known)
        assert sorted(map(tuple, found)) == sorted(self.known_runs)


def test_any_interleaving_loses_no_job_and_doubles_none(url):
    from hypothesis.stateful import run_state_machine_as_test

    machine = type("Recording", (Recording,), {"url": url})
    examples = 25 if url.startswith("sqlite") else 8
    run_state_machine_as_test(machine, settings=settings(
        max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)))


def test_the_inventory_remembers_every_change_and_the_day_a_node_was_carried_out(history, make):
    def glance(time_s: float, *nodes: Node) -> None:
        history.record_snapshot(SchedulerSnapshot(time_s, nodes=nodes))

    glance(10.0, make.node("a"), make.node("b"))
    glance(20.0, make.node("a", gpus_allocated=3), make.node("b"))
    glance(30.0, make.node("a", state=NodeState.DRAINED, reason="fan"), make.node("b"))
    glance(25.0, make.node("a"))
    glance(40.0, make.node("a", state=NodeState.DRAINED, reason="fan"))
    glance(50.0)
    assert [(change.time_s, change.node.name, change.present) for change in history.node_changes(0, 100)] == [
        (10.0, "a", True), (10.0, "b", True), (30.0, "a", True), (40.0, "b", False)]
    assert [node.name for node in history.nodes()] == ["a"]
    assert [node.state for node in history.nodes(29.0)] == [NodeState.UP, NodeState.UP]


def test_the_nice_value_is_recorded_and_not_erased_by_accounts_that_do_not_tell(history, make):
    job = make.ended(100.0, 200.0)
    see(history, 200.0, replace(job, nice=-50))
    history.record_finished([job])
    assert [known.nice for known in history.jobs(0.0, 1e9)] == [-50]
    see(history, 210.0, replace(job, nice=0))
    assert [known.nice for known in history.jobs(0.0, 1e9)] == [0]


def test_the_source_of_a_job_is_recorded_and_kept_where_another_fact_lacks_it(history, make):
    history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.job(source="north"), make.job("2"))))
    history.record_snapshot(SchedulerSnapshot(150.0, jobs=(make.job(reason_text="other"),)))
    assert history.sources_of(["1", "2", "3"]) == {("1", 100.0): "north"}
