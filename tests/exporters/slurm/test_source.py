"""The source above its transports: what one failing part means for the rest."""

from dataclasses import replace

import pytest

from idlewatt.exporters.slurm.fields import BadRecord
from idlewatt.exporters.slurm.parse_json import Parsed
from idlewatt.exporters.slurm.source import SlurmSource
from idlewatt.exporters.source import SourceError
from idlewatt.storage.records import Job, JobState, Node, Partition, Request
from idlewatt.storage.rules import Association, Ceilings, CountedUsage, Qos, Reservation


def job(job_id: str, state: JobState = JobState.RUNNING, end_s: float | None = None) -> Job:
    return Job(job_id, 1.0, state, "A100", Request(gpus=1), end_s=end_s)


class Scripted:
    """A transport whose answers a test lays out; an exception is raised."""

    def __init__(self) -> None:
        self.answers = {
            "nodes": Parsed((Node("a1", ("A100",), 8), Node("a2", ("A100", "debug"), 8))),
            "jobs": Parsed((job("1"),)),
            "partitions": Parsed((Partition("A100", ("a1", "a2"), 3600.0),)),
            "reservations": Parsed(),
            "finished": Parsed(),
            "licenses": Parsed(),
            "qos": Parsed(),
            "associations": Parsed(),
            "settings": {},
            "switches": None,
        }
        self.closed = False

    def __getattr__(self, name: str):
        def ask(*_arguments: object):
            answer = self.answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def transport():
    return Scripted()


@pytest.fixture
def source(transport, clock):
    return SlurmSource("slurm", transport, clock)


def health(source: SlurmSource) -> dict[str, tuple[bool, str]]:
    return {target.target: (target.up, target.error) for target in source.health()}


def test_a_snapshot_holds_nodes_jobs_and_partitions_at_the_clocks_time(source, clock):
    snapshot = source.read()

    assert snapshot.time_s == clock.now
    assert [node.name for node in snapshot.nodes] == ["a1", "a2"]
    assert [job.job_id for job in snapshot.jobs] == ["1"]
    assert snapshot.partitions[0].max_time_s == 3600
    assert health(source) == dict.fromkeys(
        ("nodes", "jobs", "partitions", "reservations", "qos", "associations", "licenses"), (True, ""))


@pytest.mark.parametrize("part", ["nodes", "jobs"])
def test_without_nodes_or_jobs_there_is_no_snapshot(source, transport, part):
    transport.answers[part] = SourceError("gone", permanent=True)

    with pytest.raises(SourceError, match=f"Slurm's {part} cannot be read: gone") as failed:
        source.read()

    assert failed.value.permanent
    assert health(source)[part] == (False, "gone")


def test_an_answer_that_cannot_be_understood_is_a_failure_of_the_source(source, transport):
    transport.answers["jobs"] = BadRecord("no JSON: cut off")

    with pytest.raises(SourceError, match="no JSON: cut off"):
        source.read()


def test_partitions_that_cannot_be_read_stay_as_they_were(source, transport):
    before = source.read().partitions
    transport.answers["partitions"] = SourceError("gone")

    assert source.read().partitions == before
    assert health(source)["partitions"] == (False, "gone")


def test_partitions_never_read_are_those_that_the_nodes_name(source, transport):
    transport.answers["partitions"] = SourceError("gone")

    assert source.read().partitions == (Partition("A100", ("a1", "a2")), Partition("debug", ("a2",)))


def unknown(source: SlurmSource) -> tuple[str, ...]:
    (job,) = source.read().jobs
    return job.request.details.unknown


@pytest.mark.parametrize("part", ["partitions", "reservations"])
def test_without_partitions_or_reservations_no_start_is_known_to_be_possible(source, transport, clock, part):
    transport.answers[part] = SourceError("gone")
    assert unknown(source) == (f"Slurm's {part}",)
    transport.answers[part] = Parsed()
    assert unknown(source) == ()
    transport.answers[part] = SourceError("gone")
    clock.now += 600
    assert unknown(source) == ()
    clock.now += 1
    assert unknown(source) == (f"Slurm's {part}",)


def test_a_waiting_job_for_one_of_several_types_of_gpus_of_a_node_is_not_judged(source, transport):
    nodes = (Node("a1", ("A100",), 32, "a100", gpu_models=("a100", "1g.5gb")),)
    waiting = replace(job("1", JobState.PENDING), request=Request(1, gpu_model="1g.5gb"))
    transport.answers |= {"nodes": Parsed(nodes), "jobs": Parsed((waiting,))}
    assert unknown(source) == ("how many 1g.5gb are free on a1, which has GPUs of several types",)


def test_reservations_are_read_where_partitions_cannot_be(source, transport, clock):
    exam = Reservation("exam", ("a2",), clock.now + 3600, clock.now + 7200, True)
    transport.answers |= {"partitions": SourceError("gone"), "reservations": Parsed((exam,))}
    assert source.read().rules.reservations == (exam,)


def test_a_reservation_that_is_not_understood_may_be_in_the_way_of_every_start(source, transport):
    transport.answers["reservations"] = Parsed((), ("maint: it has no end",))
    assert unknown(source) == ("Slurm's reservations",)


@pytest.mark.parametrize("part", ["nodes", "jobs"])
def test_a_long_list_of_which_nothing_is_understood_is_no_answer(source, transport, part):
    transport.answers[part] = Parsed((), ("17: submit_time is no number",) * 500)
    with pytest.raises(SourceError, match=f"none of Slurm's 500 {part} can be understood: .* submit_time is no number"):
        source.read()
    assert not health(source)[part][0]


@pytest.mark.parametrize(("skipped", "up"), [(9, True), (10, True), (11, False)])
def test_a_list_of_which_more_than_a_small_part_is_not_understood_counts_as_down(source, transport, skipped, up):
    whole = tuple(job(str(number)) for number in range(100 - skipped))
    transport.answers["jobs"] = Parsed(whole, ("17: submit_time is no number",) * skipped)
    assert len(source.read().jobs) == 100 - skipped
    assert health(source)["jobs"][0] is up


@pytest.mark.parametrize(("start", "end", "covers"), [(-10, 10, True), (-10, 0, False), (1, 10, False),
                                                      (-10, float("inf"), True)])
def test_only_an_active_reservation_covers_its_nodes(source, transport, clock, start, end, covers):
    transport.answers["reservations"] = Parsed((Reservation("exam", ("a2", "other"), clock.now + start,
                                                            clock.now + end),))

    assert [node.reservation for node in source.read().nodes] == ["", "exam" if covers else ""]


def test_skipped_jobs_are_counted_in_the_health_of_a_target_that_is_up(source, transport):
    transport.answers["jobs"] = Parsed((job("1"),), ("7: it has no submit time", "8: it has no job_id"))

    assert [job.job_id for job in source.read().jobs] == ["1"]
    assert health(source)["jobs"] == (True, "2 skipped, first 7: it has no submit time")


def test_finished_jobs_are_those_that_ended_since(source, transport):
    transport.answers["finished"] = Parsed((
        job("1", JobState.COMPLETED, 99.0), job("2", JobState.COMPLETED, 100.0), job("3", JobState.FAILED, 101.0),
        job("4", JobState.RUNNING), job("5", JobState.CANCELLED)))

    assert [job.job_id for job in source.completed(100.0)] == ["2", "3"]


def test_a_site_without_accounts_is_told_so(source, transport):
    transport.answers["finished"] = SourceError("Slurm accounting storage is disabled")

    with pytest.raises(SourceError, match="accounting cannot be read: Slurm accounting storage is disabled"):
        source.completed(0.0)


def test_the_last_success_of_a_target_outlives_its_failure(source, transport, clock):
    source.read()
    read_at, clock.now = clock.now, clock.now + 60
    transport.answers["partitions"] = SourceError("gone")
    source.read()

    assert {target.target: target.last_success_s for target in source.health()}["partitions"] == read_at


def test_what_is_read_seldom_tells_its_own_beat_however_long_slurm_was_away(source, clock):
    source.read()
    clock.now += 7200
    source.read()
    beats = {target.target: target.beat_s for target in source.health()}
    assert (beats["nodes"], beats["qos"], beats["associations"]) == (0.0, 60.0, 60.0)


ON_THE_PAST = Ceilings(group=(("gpu seconds used", 6000.0),))


@pytest.mark.parametrize("rules", [{"qos": Parsed((Qos("two", ON_THE_PAST),))},
                                   {"associations": Parsed((Association("physics", ceilings=ON_THE_PAST),))}])
def test_what_is_used_is_asked_for_where_a_limit_is_on_it(source, transport, clock, rules):
    assert source.read().rules.usage is None
    used = CountedUsage(clock.now, qos="two")
    transport.answers |= rules | {"usage": Parsed((used,))}
    clock.now += 60
    assert source.read().rules.usage == (used,)
    transport.answers["usage"] = SourceError("slurmrestd does not tell")
    clock.now += 60
    assert source.read().rules.usage is None
    assert "usage" not in health(source), "what a version of Slurm does not tell is no fault"


@pytest.mark.parametrize(("state", "starts_in_s", "kept"), [
    (JobState.COMPLETING, 0.05, False), (JobState.COMPLETING, -1.0, True), (JobState.RUNNING, 0.05, True)])
def test_a_requeued_job_that_still_ends_has_not_started_again(source, transport, clock, state, starts_in_s, kept):
    transport.answers["jobs"] = Parsed((replace(job("1", state), start_s=clock.now + starts_in_s),))
    (told,) = source.read().jobs
    assert told.start_s == (clock.now + starts_in_s if kept else None)


def test_the_energy_of_a_run_that_ends_after_a_requeue_stays_with_that_run(source, transport, clock):
    ran = replace(job("1"), start_s=clock.now - 100)
    transport.answers["jobs"] = Parsed((ran,))
    source.read()
    transport.answers["jobs"] = Parsed((replace(ran, state=JobState.COMPLETING, start_s=clock.now, restarts=1),))
    assert source.read().jobs[0].start_s == ran.start_s


def test_a_run_whose_end_is_still_to_come_has_not_ended_and_is_named_until_then(source, transport, clock):
    runs = [job(number, JobState.COMPLETED, clock.now + ahead_s) for number, ahead_s in (("1", -5.0), ("2", 7200.0),
                                                                                        ("3", 60.0))]
    transport.answers["finished"] = Parsed(tuple(runs))
    assert [run.job_id for run in source.completed(0.0)] == ["1", "3"], "clocks may be some minutes apart"
    assert "1 skipped, first 2: it ended at" in health(source)["accounting"][1]
    clock.now += 7200.0
    assert [run.job_id for run in source.completed(0.0)] == ["1", "2", "3"]


@pytest.mark.parametrize(("began_s", "ended_s", "told_s"), [(-60.0, 7200.0, 0.0), (7000.0, 7200.0, None),
                                                           (-60.0, 30.0, 30.0)])
def test_a_job_that_is_shown_as_over_has_no_end_to_come(source, transport, clock, began_s, ended_s, told_s):
    over = replace(job("1", JobState.COMPLETED, clock.now + ended_s), start_s=clock.now + began_s)
    transport.answers["jobs"] = Parsed((over,))
    assert source.read().jobs[0].end_s == (None if told_s is None else clock.now + told_s)


@pytest.mark.parametrize("part", ["qos", "associations"])
def test_limits_that_bind_and_were_not_read_for_ten_minutes_are_no_advice(source, transport, clock, part):
    """A database that is away had no limits: jobs that break them were advised to start."""
    transport.answers |= {"settings": {"AccountingStorageEnforce": "limits"}, part: Parsed((Qos("day"),))}
    before = source.read().rules
    transport.answers[part] = SourceError("slurmdbd is away")
    clock.now += 600
    assert getattr(source.read().rules, part) == getattr(before, part)
    assert unknown(source) == ()
    clock.now += 60
    assert unknown(source) == (f"the limits of Slurm's {part.replace('qos', 'QOS')}",)


@pytest.mark.parametrize("settings", [{}, {"AccountingStorageEnforce": "associations"}])
def test_limits_that_cannot_be_read_are_none_where_nobody_says_that_they_bind(source, transport, settings):
    transport.answers |= {"settings": settings, "qos": SourceError("no accounts"),
                          "associations": SourceError("no accounts")}
    assert unknown(source) == ()


def test_closing_closes_the_transport(source, transport):
    source.close()

    assert transport.closed


def test_a_resized_job_is_completed_from_the_accounts_once(source, transport, clock):
    first = replace(job("1", end_s=5.0), start_s=2.0)
    last = replace(first, submit_s=5.0, end_s=9.0, state=JobState.COMPLETED)
    transport.answers["finished"] = Parsed((first, last))
    (run,) = source.completed(0.0)
    assert (run.submit_s, run.start_s, run.end_s) == (1.0, 2.0, 9.0)
