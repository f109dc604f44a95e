"""Acting on real Slurm: whatever kills, stops, refuses or edits in between, no pin of ours is left behind."""

import itertools
import math
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from cost import overload

from idlewatt.daemon.cli import main
from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.follower import Follower
from idlewatt.daemon.follow.sight import Advised, BelievedAdvice
from idlewatt.daemon.follow.slurm import Slurm, SlurmError
from idlewatt.storage.follow_ledger import FollowLedger

# Whoever comes second waits until the other has done with the one chain of this machine.
pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(1800)]

FIRST, SECOND = "dgx-a100-01", "dgx-a100-02"
MOMENTS = 48
"""Before and after each step of a look that pins and one that takes back; more than there are."""
AROUND_COMMANDS = (13, 14, 15, 18, 20, 22, 24, 32, 34, 36)
LEFT = ("intended", "done", "pinned", "taking_back")


@pytest.fixture(scope="module")
def empty_ledger(tmp_path_factory):
    """The file of a ledger without a line: migrations take longer than all that is tried on it."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    FollowLedger.own(path).close()
    return path


class Site:
    """A Slurm whose A100 nodes are full, one job that waits, and a follower of whatever is advised."""

    def __init__(self, chain, folder, empty_ledger):
        self.chain, self.folder = chain, folder
        self.path = folder / "ledger.db"
        shutil.copy(empty_ledger, self.path)
        self.text = (f"dry_run: false\nledger: {self.path}\nkill_switch: {folder}/stop\nevery: 200ms\n"
                     f"start_within: 10m\nslurm: {{slurm_conf: {chain.slurm_conf}}}\n"
                     "allow: {partitions: [A100], users: [nobody], actions: [required_nodes]}\n"
                     "limits: {per_minute: 1000}\n")
        (folder / "follow.yml").write_text(self.text)
        self.rules = parse(self.text)
        self.slurm = Slurm(self.rules.slurm)
        self.advice = BelievedAdvice()

    def fill(self):
        """Keep both A100 nodes busy and return a job that waits for one of them."""
        holders = [self.chain.sbatch("--gres=gpu:8", f"--nodelist={node}", script="sleep 3600")
                   for node in (FIRST, SECOND)]
        for job in holders:
            self.chain.wait_for(lambda job=job: self.chain.run("squeue", "-h", "-j", job, "-t", "RUNNING"))
        return holders, self.chain.sbatch("--gres=gpu:2", script="sleep 3600")

    def advise(self, job, *nodes):
        found = self.slurm.jobs([job])[job]
        now_s = time.time()
        self.advice = BelievedAdvice((Advised(job, found.submit_s, "A100", tuple(nodes), "easy", now_s, now_s),))

    def follower(self, ledger, process="own", slurm=None, **rules):
        return Follower(self.rules.model_copy(update=rules), slurm or self.slurm, ledger, lambda now_s: self.advice,
                        process)

    def look(self, process="own", slurm=None, **rules):
        with FollowLedger.own(self.path) as ledger:
            follower = self.follower(ledger, process, slurm, **rules)
            follower.look()
            return follower.tally

    def pins(self, job):
        return self.chain.run("squeue", "-h", "-j", job, "-o", "%n").strip()

    def states(self):
        with FollowLedger.reader(self.path) as ledger:
            return [change.state for change in reversed(ledger.changes(0))]

    def last(self):
        with FollowLedger.reader(self.path) as ledger:
            return ledger.changes(0, limit=1)[0]


@pytest.fixture(scope="module")
def full(chain, tmp_path_factory, empty_ledger):
    """A full partition and the one job that waits; what is tried with it leaves it as it was."""
    chain.cancel_all()
    site = Site(chain, tmp_path_factory.mktemp("full"), empty_ledger)
    site.holders, site.job = site.fill()
    yield site
    chain.cancel_all()


@pytest.fixture
def site(full, tmp_path, empty_ledger):
    """The same with a ledger of the test's own; the job is nobody's at the end."""
    own = Site(full.chain, tmp_path, empty_ledger)
    own.holders, own.job = full.holders, full.job
    own.advise(own.job, SECOND)
    yield own
    full.chain.run("scontrol", "update", f"jobid={full.job}", "ReqNodeList=", "Nice=0")


class Deadly:
    """Something whose user dies before or after one of the calls, as by kill -9."""

    def __init__(self, real, moments, last):
        self._real, self._moments, self._last = real, moments, last

    def __getattr__(self, name):
        call = getattr(self._real, name)

        def deadly(*arguments):
            self._die()
            answer = call(*arguments)
            self._die()
            return answer
        return deadly

    def _die(self):
        if next(self._moments) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def killed(site, moment):
    """Let a child pin and take back until it is killed at a moment; return whether it came so far."""
    child = os.fork()
    if child == 0:
        try:
            moments = itertools.count()
            ledger = FollowLedger.own(site.path)
            follower = site.follower(Deadly(ledger, moments, moment), "child", Deadly(site.slurm, moments, moment))
            follower.look()
            site.advice = BelievedAdvice()
            follower.look()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def restarted(site):
    site.advice = BelievedAdvice()
    return site.look("next")


def released(site):
    with FollowLedger.guard(site.path) as ledger:
        site.follower(ledger, "guard").take_all_back("released")


def nothing_is_left(site):
    assert site.pins(site.job) == ""
    with FollowLedger.own(site.path) as ledger:
        left = [change for change in ledger.open_changes() if change.state != "intended"]
        assert left == []
        late = Follower(site.rules, site.slurm, ledger, lambda now_s: BelievedAdvice(), "late",
                        clock=lambda: time.time() + 3600)
        late.look()
        assert ledger.open_changes() == ()


@pytest.mark.parametrize("moment", AROUND_COMMANDS[::3])
def test_killed_between_two_steps_nothing_of_it_is_left(site, moment):
    assert killed(site, moment)
    (restarted if moment % 4 else released)(site)
    nothing_is_left(site)


@pytest.mark.long
@pytest.mark.parametrize("mend", [restarted, released], ids=["restarted", "released"])
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_killed_at_any_moment_nothing_is_left_each_of_ten_times(site, moment, mend):
    for _ in range(10):
        site.advise(site.job, SECOND)
        killed(site, moment)
        mend(site)
        nothing_is_left(site)


def test_the_moments_are_all_there_are(site):
    assert not killed(site, MOMENTS)
    assert site.states() == ["taken_back"]
    assert all(killed(site, moment) for moment in (0, AROUND_COMMANDS[-1]))


def test_a_command_on_its_way_dies_with_whoever_gave_it(site, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("squeue", "sinfo"):
        (folder / name).symlink_to(shutil.which(name))
    began, scontrol = tmp_path / "began", shutil.which("scontrol")
    (folder / "scontrol").write_text(f'#!/bin/bash\ntouch {began}\nread -t 2 < <(sleep 2)\nexec {scontrol} "$@"\n')
    (folder / "scontrol").chmod(0o755)
    child = os.fork()
    if child == 0:
        slow = Slurm(site.rules.slurm.model_copy(update={"bin_dir": folder}))
        with FollowLedger.own(site.path) as ledger:
            site.follower(ledger, "child", slow).look()
        os._exit(0)
    site.chain.wait_for(began.exists)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert site.states() == ["intended"]
    restarted(site)
    assert site.states() == ["intended"], "Slurm may have it still before it"
    # And if it had: what comes late is taken back when it is seen.
    site.chain.run("scontrol", "update", f"jobid={site.job}", f"ReqNodeList={SECOND}")
    restarted(site)
    assert (site.pins(site.job), site.states()) == ("", ["taken_back"])


def test_a_pin_is_made_kept_and_taken_back_when_the_advice_changes(site):
    site.look()
    site.look()
    assert (site.pins(site.job), site.states()) == (SECOND, ["pinned"])
    seen_elsewhere = site.chain.run("squeue", "--state=PENDING", "--Format=JobID,ReqNodes,Nice")
    assert [site.job, SECOND, "0"] in [line.split() for line in seen_elsewhere.splitlines()]
    site.advise(site.job, FIRST)
    site.look()
    assert site.states()[0] == "taken_back"
    assert (site.last().state, site.pins(site.job)) == ("pinned", FIRST)
    site.advice = BelievedAdvice(silence="the daemon does not answer")
    site.look()
    assert (site.pins(site.job), site.last().why) == ("", "no advice: the daemon does not answer")


def test_nice_is_given_back_as_it_was(site):
    site.chain.run("scontrol", "update", f"jobid={site.job}", "Nice=7")
    allow = site.rules.allow.model_copy(update={"actions": ("nice",)})
    site.look(allow=allow)
    assert site.chain.run("squeue", "-h", "-j", site.job, "-o", "%y").strip() == "-93"
    site.advice = BelievedAdvice()
    site.look(allow=allow)
    assert site.chain.run("squeue", "-h", "-j", site.job, "-o", "%y").strip() == "7"


def test_a_job_whose_owner_named_nodes_is_left_alone(site):
    site.chain.run("scontrol", "update", f"jobid={site.job}", f"ReqNodeList={FIRST}")
    assert site.look().passed_over == {"pinned": 1}
    assert (site.pins(site.job), site.states()) == (FIRST, [])


def test_the_next_task_of_an_array_is_pinned_and_given_back(site):
    array = site.chain.sbatch("--gres=gpu:2", "--array=2-4", script="sleep 3600")
    now_s = time.time()
    submit_s = site.slurm.jobs([array])[f"{array}_2"].submit_s
    site.advice = BelievedAdvice((Advised(array, submit_s, "A100", (SECOND,), "easy", now_s, now_s, task=True),))
    try:
        site.look()
        site.look()
        assert {job.job_id: job.nodes for job in site.slurm.jobs([array]).values()} == {
            f"{array}_2": (SECOND,), f"{array}_3": (), f"{array}_4": ()}
        assert (site.states(), site.last().job_id) == (["pinned"], f"{array}_2")
        site.advice = BelievedAdvice()
        site.look()
        assert {job.nodes for job in site.slurm.jobs([array, f"{array}_2"]).values()} == {()}
        assert site.states() == ["taken_back"]
    finally:
        site.chain.run("scancel", array)


@pytest.mark.parametrize("theirs", [FIRST, ""])
def test_what_its_owner_edits_meanwhile_is_the_owners(site, theirs):
    site.look()
    site.chain.run("scontrol", "update", f"jobid={site.job}", f"ReqNodeList={theirs}")
    site.advice = BelievedAdvice()
    site.look()
    assert (site.pins(site.job), site.states()) == (theirs, ["edited"])


class Busy(Slurm):
    """A Slurm on which the owner of a job edits it right before or after a command of ours."""

    def __init__(self, site, nodes, *, before=True, silent=False):
        super().__init__(site.rules.slurm)
        self._site, self._nodes, self._before, self._silent = site, nodes, before, silent
        self.edits = 1

    def change(self, job_id, attribute, value):
        if self._before:
            self._edit(job_id)
        stood = super().change(job_id, attribute, value)
        if not self._before:
            self._edit(job_id)
        return stood

    def _edit(self, job_id):
        if self.edits:
            self.edits -= 1
            self._site.chain.run("scontrol", "update", f"jobid={job_id}", f"ReqNodeList={self._nodes}")

    def jobs(self, job_ids):
        if self._silent and not self.edits:
            raise SlurmError("away")
        return super().jobs(job_ids)


@pytest.mark.parametrize(("look", "why", "states"), [(1, "pinned", []), (2, "changed", []), (3, "", ["edited"])])
def test_an_edit_between_the_look_and_the_pin_is_seen(site, look, why, states):
    looks = itertools.count(1)

    class Edited(Slurm):
        def jobs(self, job_ids):
            found = super().jobs(job_ids)
            if next(looks) == look:
                site.chain.run("scontrol", "update", f"jobid={site.job}", f"ReqNodeList={FIRST}")
            return found

    tally = site.look(slurm=Edited(site.rules.slurm))
    assert (site.pins(site.job), site.states(), list(tally.passed_over)) == (FIRST, states, [why] if why else [])


def test_an_edit_that_our_pin_overtakes_is_set_again(site):
    site.look(slurm=Busy(site, FIRST))
    assert (site.pins(site.job), site.states(), site.last().found) == (FIRST, ["edited"], FIRST)
    assert site.last().why == "its owner edited it at the same moment; what it overtook is set again"


@pytest.mark.parametrize("theirs", [FIRST, ""])
def test_an_edit_between_our_pin_and_its_reading_back_is_the_owners(site, theirs):
    site.look(slurm=Busy(site, theirs, before=False))
    assert (site.pins(site.job), site.states(), site.last().found) == (theirs, ["edited"], theirs)


def test_an_edit_that_our_taking_back_overtakes_is_set_again(site):
    site.look()
    site.advice = BelievedAdvice()
    site.look(slurm=Busy(site, FIRST))
    assert (site.pins(site.job), site.states(), site.last().found) == (FIRST, ["edited"], FIRST)


def test_an_edit_that_was_overtaken_is_set_again_by_whoever_comes_next(site):
    with pytest.raises(SlurmError):
        site.look(slurm=Busy(site, FIRST, silent=True))
    assert (site.pins(site.job), site.states(), site.last().found) == (SECOND, ["done"], FIRST)
    restarted(site)
    assert (site.pins(site.job), site.states()) == (FIRST, ["edited"])


def test_an_edit_within_the_one_command_is_lost_but_nothing_of_ours_is_left(site, tmp_path):
    """What Slurm without compare-and-set leaves open: two requests of one scontrol, milliseconds apart."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("squeue", "sinfo"):
        (folder / name).symlink_to(shutil.which(name))
    scontrol, once = shutil.which("scontrol"), tmp_path / "once"
    (folder / "scontrol").write_text(
        f'#!/bin/bash\nread -r show\nread -r update\necho "$show" | {scontrol}\n'
        f'[ -e {once} ] || {scontrol} update jobid={site.job} ReqNodeList={FIRST}\ntouch {once}\n'
        f'echo "$update" | {scontrol}\n')
    (folder / "scontrol").chmod(0o755)
    site.look(slurm=Slurm(site.rules.slurm.model_copy(update={"bin_dir": folder})))
    assert (site.pins(site.job), site.states()) == (SECOND, ["pinned"])
    site.advice = BelievedAdvice()
    site.look()
    assert (site.pins(site.job), site.states()) == ("", ["taken_back"])


def test_what_slurm_refuses_is_noted_and_nothing_is_left(site, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("squeue", "sinfo", "scontrol"):
        (folder / name).write_text(f'#!/bin/sh\nexec setpriv --reuid games --clear-groups {shutil.which(name)} "$@"\n')
        (folder / name).chmod(0o755)
    stranger = Slurm(site.rules.slurm.model_copy(update={"bin_dir": folder}))
    site.look(slurm=stranger)
    assert site.states() == ["refused"]
    assert "Invalid user id" in site.last().why
    assert site.look().passed_over == {"refused": 1}, "the very same is not tried again at once"
    site.advise(site.job, FIRST)
    site.look()
    site.advice = BelievedAdvice()
    tally = site.look(slurm=stranger)
    assert (tally.errors["taking_back"], site.last().state) == (1, "taking_back")
    site.look()
    assert (site.pins(site.job), site.last().state) == ("", "taken_back")


def test_the_kill_switch_takes_everything_back(site):
    site.look()
    Path(site.rules.kill_switch).touch()
    assert site.look().stopped
    assert (site.pins(site.job), site.last().why) == ("", "the kill switch is thrown")
    site.look()
    assert site.states() == ["taken_back"]


def test_a_dry_run_keeps_the_same_ledger_and_changes_nothing(site):
    from idlewatt.daemon.follow.dry import DryScheduler

    dry = DryScheduler(site.slurm)
    site.look(slurm=dry, dry_run=True)
    assert (site.pins(site.job), site.states()) == ("", ["pinned"])
    site.advice = BelievedAdvice()
    site.look(slurm=dry, dry_run=True)
    assert (site.pins(site.job), site.states()) == ("", ["taken_back"])
    assert site.last().dry_run


def test_a_guard_takes_back_what_a_process_that_hangs_is_late_with(site):
    with FollowLedger.own(site.path) as hanging:
        site.follower(hanging).look()
        with FollowLedger.guard(site.path) as ledger:
            guard = Follower(site.rules, site.slurm, ledger, lambda now_s: BelievedAdvice(), "guard")
            assert (guard.take_back_overdue(1.0), site.pins(site.job)) == (0, SECOND)
            guard._clock = lambda: time.time() + 3600
            assert (guard.take_back_overdue(1.0), site.pins(site.job)) == (0, "")
        # It wakes up: what is over stays so.
        site.advice = BelievedAdvice()
        site.follower(hanging).look()
    assert site.states() == ["taken_back"]


def test_after_a_death_the_timer_takes_back_what_was_left(site):
    assert killed(site, AROUND_COMMANDS[4])
    assert site.pins(site.job) == SECOND
    done = CliRunner().invoke(main, ["follow", "--config.file", f"{site.folder}/follow.yml", "--release-stale"])
    assert (done.exit_code, done.output.strip().splitlines()[-1]) == (0, "1 taken back, 0 may be left")
    assert site.pins(site.job) == ""
    done = CliRunner().invoke(main, ["follow", "--config.file", f"{site.folder}/follow.yml", "--ledger"],
                              env={"COLUMNS": "200"})
    assert f"required_nodes - -> {SECOND}" in done.output


def test_a_partition_that_slurm_does_not_have_is_refused_with_its_line(site):
    faulty = site.folder / "faulty.yml"
    faulty.write_text("allow:\n  users: ['*']\n  partitions:\n    - A100\n    - A1000\n")
    faulty.write_text(faulty.read_text() + f"slurm: {{slurm_conf: {site.chain.slurm_conf}}}\n")
    for mode in ("--check", "--dry-run"):
        done = CliRunner().invoke(main, ["follow", "--config.file", str(faulty), mode])
        assert done.exit_code == 2
        assert f"{faulty}:5: allow.partitions[1]: Slurm has no partition 'A1000'; it has A100, V100" in done.output


def come_back(chain):
    """Start slurmctld again, whose predecessor may still have its port, and wait until it answers."""
    environment = os.environ | {"SLURM_CONF": str(chain.slurm_conf)}
    started = []

    def answers():
        if not started or started[-1].poll() is not None:
            with (chain.root / "slurm/log/slurmctld.out").open("ab") as out:
                started.append(subprocess.Popen(("slurmctld", "-D"), env=environment, stdout=out, stderr=out,
                                                stdin=subprocess.DEVNULL, start_new_session=True))
        ping = subprocess.run(("scontrol", "ping"), env=environment, capture_output=True, text=True, check=False)
        return started[-1].poll() is None and "is UP" in ping.stdout
    chain.wait_for(answers)
    (chain.root / "slurm/run/slurmctld.pid").write_text(str(started[-1].pid))


def test_slurm_that_is_away_and_comes_back_has_its_pin_taken_back(site):
    chain = site.chain
    site.look()
    chain.run("scontrol", "shutdown", "slurmctld")
    quick = Slurm(site.rules.slurm.model_copy(update={"timeout": 0.5}))
    site.advice = BelievedAdvice()
    with pytest.raises(SlurmError):
        site.look(slurm=quick)
    come_back(chain)
    site.look()
    assert (site.pins(site.job), site.states()) == ("", ["taken_back"])


def test_no_job_waits_longer_than_the_stated_time_and_one_that_is_requeued_is_free(chain, tmp_path, empty_ledger):
    chain.cancel_all()
    site = Site(chain, tmp_path, empty_ledger)
    (first, second), job = site.fill()
    site.advise(job, FIRST)
    stated_s = 8.0 * overload()
    within = {"start_within": stated_s, "every": stated_s / 4}  # a busy machine takes a second for a look
    with FollowLedger.own(site.path) as ledger:
        follower = site.follower(ledger, **within)
        follower.look()
        chain.run("scancel", second)
        chain.wait_for(lambda: not chain.run("squeue", "-h", "-j", second, "-t", "RUNNING,COMPLETING"))

        def looked():
            follower.look()
            return site.last() if not site.last().open else None
        over = chain.wait_for(looked)
        assert (over.state, over.why) == ("taken_back", "the job has not started in time")
        assert over.ended_s - over.intended_s <= stated_s
        chain.wait_for(lambda: chain.run("squeue", "-h", "-j", job, "-t", "RUNNING"))
        assert chain.run("squeue", "-h", "-j", job, "-o", "%N").strip() == SECOND
    chain.run("scancel", first, job)
    third = chain.sbatch("--gres=gpu:8", "--requeue", "--hold")
    chain.run("scontrol", "release", third)
    followed = site.chain.wait_for(lambda: _pinned_while_it_waits(site, third))
    chain.wait_for(lambda: chain.run("squeue", "-h", "-j", followed, "-t", "RUNNING"))
    site.look()
    assert site.last().state == "started"
    chain.wait_for(lambda: list(chain.root.glob(f"slurm/spool/*/*_{followed}.*")))
    chain.run("scontrol", "requeue", followed)
    chain.wait_for(lambda: "PENDING" in chain.run("squeue", "-h", "-j", followed, "-o", "%T"))
    site.look()
    assert (site.pins(followed), site.last().why) == ("", "the job was requeued")
    chain.cancel_all()


def _pinned_while_it_waits(site, first):
    """Return a job that was pinned before it started: one that begins in a moment."""
    job = site.chain.sbatch("--gres=gpu:8", "--requeue", f"--begin=now+{math.ceil(3 * overload())}")
    site.advise(job, SECOND)
    site.chain.run("scancel", first)
    site.look()
    return job if site.last().job_id == job and site.last().open else None
