"""Slurm is the judge: random clusters and jobs on real Slurms, and what these do with what was advised."""

import random
import re
import time
from contextlib import nullcontext

import pytest
from judge import rounds
from judge import trial as trials
from judge.clusters import random_cluster
from judge.jobs import Scene, Wish, random_wish
from judge.rounds import Case, Round
from judge.slurm import HEAD_START_S, Forecast, Slurm
from judge.trial import trial
from judge.verdict import AHEAD, LIMIT, NEVER, NODES, ROOM, UNKNOWN, Verdict, disputed, ours, slurms

from idlewatt.storage.recommendations import Placement, Recommendation

SEEDS = (3,)
"""A cluster whose scheduler plans nothing, so that each job that fits starts: no plan hides who was advised wrongly."""
MOST_REFUSED = 2
"""The figures that are wanted stand in tests/benchmarks/test_judge.py; few jobs cannot show them."""


def advised(action="start", reason="", nodes=("a100-1",), cause=""):
    return Recommendation("7", 0.0, "all", 0.0, "priority", "wait", action, reason,
                          Placement(nodes, (1,) * len(nodes)) if action == "start" else None, cause=cause)


def case(said, *, state="PENDING", reason="", now=True, **facts):
    wish = Wish(("--gres=gpu:1",), ("gres",))
    return Case(wish, "7", Forecast(now, ""), (said,), state=state, reason=reason, **facts)


def judged(*cases):
    verdict = Verdict()
    verdict.judge(Round(random_cluster(1), 1, cases=list(cases)))
    return verdict


def test_the_same_seed_gives_the_same_cluster_and_jobs():
    def drawn():
        chance, cluster = random.Random(3), random_cluster(3)
        return cluster, [random_wish(chance, Scene(cluster, ("1",), ("now",))) for _ in range(50)]

    assert drawn() == drawn()


def test_a_start_that_slurm_refuses_and_one_that_it_makes_elsewhere_are_differences():
    verdict = judged(case(advised(), reason="Licenses"),
                     case(advised(), state="RUNNING", nodes=("a100-2",)),
                     case(advised(), state="RUNNING", nodes=("a100-1",)))

    assert [kind for kind, _ in verdict.differences] == ["refused: Licenses", "started on other nodes"]
    assert (verdict.counts["refused"], verdict.counts["elsewhere"]) == (1, 1)
    assert verdict.share("started as advised", "started") == 1


def test_a_hold_that_slurm_starts_is_missed_and_its_reason_unconfirmed():
    verdict = judged(case(advised("hold", "needs 4 GPUs, 1 are free in all"), state="RUNNING", nodes=("a100-1",)),
                     case(advised("hold", "needs 4 GPUs, 1 are free in all"), reason="Resources"))

    assert [kind for kind, _ in verdict.differences] == ["missed: held for room", "unconfirmed: held for room, "
                                                         "starts alone"]
    assert verdict.share("confirmed", "feasibility") == 0.5
    assert verdict.share("started as advised", "started") == 0


def test_a_limit_that_others_of_the_same_advice_reach_is_confirmed_by_slurms_own_word():
    limited = advised("hold", "the limit of account small is 5 GPUs in all: 4 in use, it needs 4")

    verdict = judged(case(limited, reason="AssocGrpGRES", alone="RUNNING"),
                     case(limited, reason="Resources", alone="RUNNING"))

    assert verdict.share("confirmed", "feasibility") == 0.5


def test_a_hold_is_tried_alone_where_slurm_forecasts_a_start_or_gives_another_reason():
    assert disputed(case(advised("hold", "needs 4 GPUs, 1 are free in all"), reason="Resources"))
    assert not disputed(case(advised("hold", "needs 4 GPUs, 1 are free in all"), reason="Resources", now=False))
    assert disputed(case(advised("hold", "jobs that come first take it"), reason="QOSGrpGRES", now=False))
    assert not disputed(case(advised("hold", "jobs that come first take it"), reason="Priority"))


@pytest.mark.parametrize(("reason", "alike"), [
    ("Priority", True), ("AssocGrpGRES", True), ("Licenses", False), ("ReqNodeNotAvail", False)])
def test_what_those_who_come_first_use_up_goes_by_either_name(reason, alike):
    words = "those who come first leave too little: the limit of account small is 5 GPUs in all: 4 in use, it needs 4"

    verdict = judged(case(advised("hold", words, cause="ahead"), reason=reason))

    assert verdict.counts["reasons alike"] == alike
    assert not verdict.counts["feasibility"]


def test_of_a_heterogeneous_job_the_component_counts_that_cannot_start():
    waits, room = advised("hold", "all start together", cause="group"), advised("hold", "no GPU is free", cause="room")
    assert Case(Wish(("--gres=gpu:1", ":", "--gres=gpu:2"), ()), "7", None, (waits, room)).advice is room


@pytest.mark.parametrize(("words", "kind"), [
    ("there is room now, but jobs that come first take it or would be delayed", AHEAD),
    ("needs 4 GPUs, 1 are free in all", ROOM),
    ("the only node that fits, a100-1, is draining (NVLink)", NODES),
    ("the limit of QOS capped is 6 GPUs in all: 4 in use, it needs 3", LIMIT),
    ("the scheduler would say Licenses: needs 2 of matlab, 1 free", "Licenses"),
    ("not eligible yet: the scheduler says Dependency", "Dependency"),
    ("can never run: no node of all can hold it", NEVER),
    ("unknown: which nodes share a switch is not known", UNKNOWN)])
def test_reasons_of_ours_have_the_classes_of_slurms_own(words, kind):
    assert ours(words) == kind


@pytest.mark.parametrize(("reason", "kind"), [
    ("Priority", AHEAD), ("Resources", ROOM), ("None", ROOM), ("ReqNodeNotAvail", NODES),
    ("QOSMaxJobsPerUserLimit", LIMIT),
    ("AssocGrpGRES", LIMIT), ("Licenses", "Licenses"), ("PartitionTimeLimit", "PartitionTimeLimit")])
def test_slurms_reasons_are_grouped_by_what_binds(reason, kind):
    assert slurms(reason) == kind


class Scripted(Slurm):
    """A Slurm whose backfill ran a minute before it was stopped, and has run once more when asked again."""

    def __init__(self, root, told="Last cycle when: (%d)"):
        super().__init__(root)
        self.conf.parent.mkdir(parents=True)
        self.conf.write_text("SchedulerParameters=defer,bf_interval=3600\n")
        self.in_force, self._asked, self._told = [], 0, told

    def run(self, *argv):
        if argv[0] == "sdiag":
            self._asked += 1
            when = self._told % (time.time() - 60) if "%" in self._told else self._told
            return f"Total cycles: 7\nBackfilling stats\n\t{when}\n\tTotal cycles: {self._asked}\n"
        if argv[0] == "scontrol":
            self.in_force.append(re.search(r"bf_interval=(\d+)", self.conf.read_text())[1])
        return "7|PENDING|Priority\n" if argv[0] == "squeue" else ""


@pytest.mark.parametrize(("told", "longest"), [("Last cycle when: (%d)", 60), ("Last cycle when: N/A", 0)])
def test_the_main_scheduler_is_released_before_the_backfill(tmp_path, told, longest):
    slurm = Scripted(tmp_path, told)

    slurm.release("defer,bf_interval=1")

    interval, = (int(interval) for interval in slurm.in_force)  # read twice, Slurm would forget which nodes it prefers
    assert longest + HEAD_START_S <= interval <= longest + HEAD_START_S + 5
    assert slurm.asleep_s == interval
    slurm.schedule("defer,bf_interval=1")
    assert slurm.asleep_s == 1, "who waits for a job that the backfill never looks at would wait for an hour"


def test_two_more_rounds_of_the_backfill_are_waited_for_however_long_it_sleeps(tmp_path, monkeypatch):
    """It sleeps ten minutes between two, which is longer than a queue may take to settle."""
    clock, slurm = [0.0], Scripted(tmp_path)
    slurm.asleep_s = 600
    monkeypatch.setattr(slurm, "_cycles", lambda: (int(clock[0]), 1 + 2 * (clock[0] > slurm.asleep_s)))
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))

    slurm.settle()

    assert slurm.asleep_s < clock[0] < slurm.asleep_s + 1


@pytest.mark.parametrize("changed", [{"description": "launch failed requeued held"}, {"state": "TIMEOUT"}])
def test_a_round_in_which_a_node_launched_nothing_or_a_job_came_to_its_limit_is_played_again(monkeypatch, changed):
    fates = iter([changed, {"state": "RUNNING"}])
    monkeypatch.setattr(rounds, "_play", lambda *_: Round(random_cluster(1), 1, cases=[case(advised(), **next(fates))]))

    assert rounds.play(None, random_cluster(1), 1, 1).cases[0].state == "RUNNING"


def test_a_round_whose_advice_is_old_once_it_is_followed_is_played_again(monkeypatch):
    late = iter([True, False])
    monkeypatch.setattr(rounds, "_play", lambda *_: Round(random_cluster(1), 1, late=next(late)))

    assert not rounds.play(None, random_cluster(1), 1, 1).late


def test_a_round_that_breaks_off_is_counted_and_the_others_are_judged(monkeypatch):
    def play(slurm, cluster, seed, jobs):
        assert seed != 2000, "Slurm looks no more"
        return Round(cluster, seed, cases=[case(advised(), state="RUNNING", nodes=("a100-1",))])

    monkeypatch.setattr(trials, "running", nullcontext)
    monkeypatch.setattr(trials, "play", play)

    verdict = trial((1, 2, 3), rounds=2, jobs=1)

    assert (verdict.counts["rounds"], verdict.counts["broken off"]) == (4, 1)
    assert "round broken off: 1\n   2000: Slurm looks no more" in verdict.listed()


@pytest.mark.stack
@pytest.mark.xdist_group("judges")
@pytest.mark.timeout(1800)
def test_random_jobs_on_real_slurms_fare_as_they_were_advised(capsys):
    verdict = trial(SEEDS, rounds=1, jobs=40)

    with capsys.disabled():
        print(f"\n{verdict}\n{verdict.listed()}")
    assert verdict.counts["jobs"] >= 30
    assert verdict.counts["started"] >= 8
    assert not verdict.counts["broken off"]
    assert not verdict.counts["unadvised"]
    assert verdict.counts["refused"] <= MOST_REFUSED
    assert verdict.share("started as advised", "started") >= 0.8
    assert verdict.share("unknown", "jobs") <= 0.02
    assert verdict.share("confirmed", "feasibility") >= 0.9
    assert verdict.share("reasons alike", "reasons") >= 0.85
