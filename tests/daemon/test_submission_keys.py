"""Jobs of two schedulers that share id and submission are two, whichever of them is away and whoever is restarted."""

import random
from dataclasses import replace

import pytest

from idlewatt.daemon import opening
from idlewatt.daemon.merged_schedulers import merged
from idlewatt.daemon.submission_keys import FEDERATED, STEP_S, SubmissionKeys
from idlewatt.exporters.source import SourceError, Watched
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot

NOW = 1_795_219_200.0
BOTH = ("north", "south")


def job(job_id="7", submit_s=NOW, state=JobState.PENDING, **more):
    return Job(job_id, submit_s, state, "gpu", Request(2), user="ada", **more)


def listing(*jobs):
    return SchedulerSnapshot(NOW + 60.0, jobs=jobs)


def submissions(keys, source, *jobs):
    """Return the submissions of jobs as they are known, from the true one on."""
    return [one.submit_s - told.submit_s for one, told in zip(keys.snapshot(source, listing(*jobs)).jobs, jobs,
                                                              strict=True)]


@pytest.fixture
def history(tmp_path):
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        yield history


@pytest.fixture
def keys(history):
    return SubmissionKeys(BOTH, history.sources_of)


def record(history, keys, source, *jobs):
    history.record_snapshot(keys.snapshot(source, listing(*jobs)))


def test_a_scheduler_that_is_alone_is_told_as_it_tells():
    told = listing(job())
    keys = SubmissionKeys(("slurm",), lambda ids: pytest.fail("nothing is to be looked up"))
    assert keys.snapshot("slurm", told) is told
    assert keys.jobs("slurm", told.jobs) is told.jobs


def test_the_job_that_is_known_later_is_moved_and_both_keep_their_places(keys):
    assert submissions(keys, "south", job()) == [0.0]
    assert submissions(keys, "north", job()) == [STEP_S]
    assert submissions(keys, "south", job(), job("8")) == [0.0, 0.0]
    assert [one.submit_s for one in keys.jobs("north", (job(state=JobState.COMPLETED),))] == [NOW + STEP_S]


def test_a_job_that_is_told_as_before_is_the_same_object(keys):
    told = listing(job(), job("8"))
    first, second = (keys.snapshot("north", told).jobs for _ in range(2))
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_two_entries_of_one_job_in_a_snapshot_both_stay(keys):
    entries = (job(tasks=3), job(state=JobState.RUNNING, start_s=NOW))
    assert [one.tasks for one in keys.snapshot("north", listing(*entries)).jobs] == [3, 1]


def test_after_a_restart_with_the_first_away_the_other_is_still_another(history, keys):
    record(history, keys, "north", job())
    anew = SubmissionKeys(BOTH, history.sources_of)
    assert submissions(anew, "south", job()) == [STEP_S]
    record(history, anew, "south", job())
    again = SubmissionKeys(BOTH, history.sources_of)
    assert submissions(again, "south", job()) == [STEP_S]
    assert submissions(again, "north", job()) == [0.0]
    assert sorted(one.submit_s for one in history.jobs(0, 1e10)) == [NOW, NOW + STEP_S]


def test_a_number_that_comes_again_after_a_wrap_is_its_own(history, keys):
    record(history, keys, "north", job())
    record(history, keys, "south", job())
    later = job(submit_s=NOW + 86400.0)
    assert submissions(keys, "south", later) == [0.0]
    assert submissions(keys, "north", later) == [STEP_S]


def test_a_source_that_has_got_another_name_goes_on_with_its_jobs(history, keys):
    record(history, keys, "north", job())
    record(history, keys, "south", job())
    renamed = SubmissionKeys(("east", "north"), history.sources_of)
    assert submissions(renamed, "east", job()) == [STEP_S]
    reloaded = keys.renewed(("east", "north"))
    assert submissions(reloaded, "east", job()) == [STEP_S]
    assert submissions(reloaded, "north", job()) == [0.0]


def test_jobs_recorded_before_there_were_two_schedulers_stay_what_they_are(history):
    history.record_snapshot(listing(job()))
    keys = SubmissionKeys(BOTH, history.sources_of)
    assert submissions(keys, "north", job()) == [0.0]
    assert submissions(keys, "south", job()) == [STEP_S]


def test_what_waits_of_an_array_is_gone_once_it_goes_by_its_task_though_that_alone_is_moved(history, keys):
    task = job("7_1", array="7")
    record(history, keys, "south", job("7", array="7"))
    record(history, keys, "north", task)
    assert submissions(keys, "south", task) == [STEP_S]
    record(history, keys, "south", task)
    assert {(one.job_id, one.source) for one in history.jobs(0, 1e10)} == {("7_1", "north"), ("7_1", "south")}


def test_one_job_of_a_federation_that_two_clusters_list_stays_one(keys):
    sibling = job(str(FEDERATED + 7))
    assert [keys.snapshot(source, listing(sibling)).jobs for source in BOTH] == [(sibling,)] * 2


def test_a_database_that_cannot_be_read_costs_no_job(caplog):
    def away(ids):
        raise StoreUnavailable("away")

    keys = SubmissionKeys(BOTH, away)
    assert submissions(keys, "north", job()) == [0.0]
    assert submissions(keys, "south", job()) == [STEP_S]
    assert "cannot be compared" in caplog.text


def test_what_is_forgotten_is_looked_up_again(history, keys, monkeypatch):
    monkeypatch.setattr("idlewatt.daemon.submission_keys.MOST_UNLISTED", 0)
    record(history, keys, "north", job())
    record(history, keys, "south", job())
    keys.snapshot("north", listing())
    keys.snapshot("south", listing(job("9")))
    assert [one.submit_s for one in keys.jobs("south", (job(state=JobState.COMPLETED),))] == [NOW + STEP_S]


def test_records_and_runs_of_both_are_apart(history, keys):
    """As the merged snapshot has them: two records, each with its own end."""
    both = [keys.snapshot(source, listing(job(state=JobState.RUNNING, start_s=NOW + 5.0))).jobs[0] for source in BOTH]
    history.record_snapshot(listing(*both))
    ended = [keys.jobs(source, (job(state=state, start_s=NOW + 5.0, end_s=NOW + 90.0),))[0]
             for source, state in zip(BOTH, (JobState.COMPLETED, JobState.FAILED), strict=True)]
    history.record_finished(ended)
    found = {one.source: (one.submit_s, one.state) for one in history.jobs(0, 1e10)}
    assert found == {"north": (NOW, JobState.COMPLETED), "south": (NOW + STEP_S, JobState.FAILED)}


def test_a_third_scheduler_is_another_again_over_a_restart(history):
    three = (*BOTH, "west")
    keys = SubmissionKeys(three, history.sources_of)
    for source in three:
        record(history, keys, source, job())
    again = SubmissionKeys(three, history.sources_of)
    assert [submissions(again, source, job()) for source in reversed(three)] == [[2 * STEP_S], [STEP_S], [0.0]]


def test_after_a_restart_what_waited_for_the_database_is_known_too(tmp_path, monkeypatch):
    def away(*given):
        raise StoreUnavailable("away")

    url = f"sqlite:///{tmp_path}/history.db"
    with History.open(url) as history, monkeypatch.context() as patched:
        patched.setattr(History, "_write", away)
        keys = SubmissionKeys(BOTH, history.sources_of)
        with pytest.raises(StoreUnavailable):
            record(history, keys, "north", job())
        history.close()
    with History.open(url) as history:
        assert submissions(SubmissionKeys(BOTH, history.sources_of), "south", job()) == [STEP_S]


def test_a_database_that_can_only_be_read_tells_who_is_recorded(history, keys, monkeypatch):
    def full(*given):
        raise StoreUnavailable("the disk is full")

    record(history, keys, "north", job())
    monkeypatch.setattr(History, "_write", full)
    with pytest.raises(StoreUnavailable):
        record(history, keys, "north", job("8"))
    assert submissions(SubmissionKeys(BOTH, history.sources_of), "south", job()) == [STEP_S]


class Clusters:
    """Clusters that number alike: jobs of few ids come, run and end, and schedulers go away and come back."""

    def __init__(self, chance):
        self._chance, self.now_s = chance, NOW
        self.jobs = {source: {} for source in (*BOTH, "west")}
        self.told, self.here = {}, dict.fromkeys(self.jobs, True)

    def go_on(self):
        self.now_s += self._chance.choice((30.0, 3600.0))
        number, task = str(self._chance.randint(1, 3)), self._chance.random() < 0.2
        for source, jobs in self.jobs.items():
            self.here[source] ^= self._chance.random() < 0.25
            active = [one for one in jobs.values() if not one.state.finished]
            for one in active:
                jobs[one.job_id, one.submit_s] = self._later(source, one)
            if self._chance.random() < 0.6 and number not in {one.array or one.job_id for one in active}:
                come = job(f"{number}_1" if task else number, self.now_s - 5.0, array=number if task else "")
                jobs[come.key] = come

    def _later(self, source, one):
        if one.state is JobState.PENDING and self._chance.random() < 0.5:
            return replace(one, state=JobState.RUNNING, start_s=self._chance.choice((one.submit_s, self.now_s - 4.0)),
                           allocations=(Allocation(f"{source}1", 1, (0,)),))
        if one.state is JobState.RUNNING and self._chance.random() < 0.4:
            return replace(one, state=JobState.COMPLETED, end_s=self.now_s - 1.0)
        return one

    def record(self, history, keys):
        for source, jobs in self.jobs.items():
            if self.here[source]:
                listed = tuple(one for one in jobs.values() if not one.state.finished)
                self.told[source] = SchedulerSnapshot(self.now_s, jobs=listed)
        snapshot = merged([keys.snapshot(*told) for told in self.told.items()], self.now_s, 600.0)
        if snapshot is not None:
            history.record_snapshot(snapshot, self.now_s)
        for source, jobs in self.jobs.items():
            if self.here[source]:
                history.record_finished(keys.jobs(source, [one for one in jobs.values() if one.state.finished]))


@pytest.mark.parametrize("seed", range(4))
def test_whoever_is_away_or_restarted_each_job_has_its_own_record(tmp_path, seed):
    chance = random.Random(seed)
    clusters, url = Clusters(chance), f"sqlite:///{tmp_path}/history.db"
    for _ in range(6):
        with History.open(url) as history:
            keys = SubmissionKeys(clusters.jobs, history.sources_of)
            clusters.told = {}
            for _ in range(4):
                clusters.go_on()
                clusters.record(history, keys)
    with History.open(url) as history:
        clusters.here = dict.fromkeys(clusters.jobs, True)
        clusters.record(history, SubmissionKeys(clusters.jobs, history.sources_of))
        found = {(one.source, one.job_id, one.submit_s // 1): one for one in history.jobs(0, 1e10)}
        assert len(found) == len(history.jobs(0, 1e10))
    wanted = {(source, *key): one for source, jobs in clusters.jobs.items() for key, one in jobs.items()}
    assert {key: (one.state, one.start_s, one.end_s, one.allocations) for key, one in found.items()} == {
        key: (one.state, one.start_s, one.end_s, one.allocations) for key, one in wanted.items()}


class Controller:
    """One of two controllers that number alike: what it lists, what its accounts know, and whether it is there."""

    role = "scheduler"

    def __init__(self, rig, name):
        self.name, self._rig, self._node = name, rig, Node(f"{name}1", ("gpu",), 8, cpus=64)
        self.listed, self.ended, self.away = [], [], False

    def read(self):
        if self.away:
            raise SourceError(f"{self.name} is away")
        return SchedulerSnapshot(self._rig.now_s, (self._node,), (Partition("gpu", (self._node.name,)),),
                                 tuple(self.listed))

    def completed(self, since_s):
        if self.away:
            raise SourceError(f"{self.name} is away")
        return [one for one in self.ended if one.end_s >= since_s]

    def run(self, **more):
        """Let a job run on its own node, or end."""
        held = Allocation(self._node.name, 2, (0, 1), 8, 1 << 30)
        ran = job(start_s=NOW + 30.0, state=JobState.RUNNING, allocations=(held,))
        self.listed, self.ended = [] if more else [ran], [replace(ran, **more)] if more else []

    def health(self):
        return ()

    def close(self):
        pass


class Site:
    """Two controllers and the daemons that read them, one after the other."""

    def __init__(self, rig, monkeypatch):
        self.north, self.south = (Controller(rig, name) for name in BOTH)
        monkeypatch.setattr(opening, "sources", lambda settings, clock, kept: [
            Watched(one, clock) for one in (self.north, self.south)])
        self._rig, self.service = rig, rig.service()

    def restart(self):
        self.service.stop()
        self.service = self._rig.service()

    def look(self, seconds=60.0):
        self._rig.now_s += seconds
        self.service.jobs()
        self.service.record()

    def records(self):
        """Return the nodes and the end of each recorded job."""
        history = self.service.history
        return sorted((run.allocations[0].node, run.end_s, run.state) for one in history.jobs(0, 1e10)
                      for run in history.job(one.job_id, one.submit_s).runs)


@pytest.fixture
def site(rig, monkeypatch):
    return Site(rig, monkeypatch)


def test_two_controllers_that_number_alike_have_two_records(site):
    site.north.run()
    site.south.run()
    site.look()
    assert [one.job_id for one in site.service.known.snapshot.jobs] == ["7", "7"]
    site.north.run(state=JobState.COMPLETED, end_s=NOW + 90.0)
    site.south.run(state=JobState.FAILED, end_s=NOW + 100.0)
    site.look()
    assert site.records() == [("north1", NOW + 90.0, JobState.COMPLETED), ("south1", NOW + 100.0, JobState.FAILED)]


def test_one_that_is_away_for_an_hour_loses_no_job_and_takes_none_over_a_restart(site):
    site.south.away = True
    site.north.run()
    site.look()
    site.restart()
    site.north.away, site.south.away = True, False
    site.south.run()
    site.look(3600.0)
    assert site.records() == [("north1", None, JobState.RUNNING), ("south1", None, JobState.RUNNING)]
    site.restart()
    site.north.away = False
    site.north.run(state=JobState.COMPLETED, end_s=NOW + 90.0)
    site.look()
    assert site.records() == [("north1", NOW + 90.0, JobState.COMPLETED), ("south1", None, JobState.RUNNING)]


def test_advice_on_two_waiting_jobs_that_share_all_is_two(site):
    for controller in (site.north, site.south):
        controller.listed = [job()]
    site.look()
    site.service.advise()
    advised = {row.submit_s for row in site.service.known.advice.recommendations if not row.shadow}
    assert advised == {NOW, NOW + STEP_S}
    issued = site.service.history.recommendations(0, 1e10)
    assert {row.recommendation.submit_s for row in issued} == advised
