"""Every kind of notice is found from what is recorded of a job, and told by a real mail server with the fix."""

from dataclasses import replace

import pytest

from idlewatt.daemon.efficiency.findings import KINDS
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, JobState
from idlewatt.storage.run_energy import EnergyShare
from idlewatt.storage.uses import Use

HOUR, GIB = 3600.0, 2**30


@pytest.fixture
def site(place):
    """Return the place with a job whose GPUs work well on the whole, and a way to say how it is instead."""
    place.gpus.clear()
    return Recorded(place)


class Recorded:
    """What is recorded of job 4711: 20 hours on 4 GPUs, 16 CPUs and 64 GiB of a node with 8 GPUs and 128 CPUs."""

    def __init__(self, place) -> None:
        self.place = place

    def job(self, **changes) -> None:
        """Change the job that the scheduler tells of."""
        self.place.jobs[:] = [replace(self.place.jobs[0], **changes)]

    def took(self, active=0.5, idle=(), fullest_gib=30.0, measured=1.0, seen=1.0, **joules) -> None:
        """Record what the run took: joules by class, the share of time that its GPUs worked, GPUs never used."""
        (job,) = self.place.jobs
        ran_s = seen * (self.place.now_s - job.start_s)
        gpu_s = 4 * ran_s
        spent = {PowerClass(name): value for name, value in joules.items()} or {PowerClass.PRODUCTIVE: 1e7}
        self.place.history.record_shares([EnergyShare(
            self.place.now_s - ran_s, ran_s, "dgx01", "a100", spent, job.job_id, job.submit_s, job.start_s, job.user,
            job.account, "NVIDIA A100-SXM4-40GB", 4.0, ran_s, gpu_s, gpu_s * measured, gpu_s * measured * active, 0.0,
            1500.0, fullest_gib * GIB, tuple(idle))])

    def used(self, cpus=12.0, memory_gib=60.0, mean=None, hours=20.0) -> None:
        """Record what the run used of its CPUs and memory, as far as it was measured."""
        (job,) = self.place.jobs
        self.place.history.record_uses([Use(job.job_id, job.submit_s, job.start_s, job.user, "train", 4, 16, 64 * GIB,
                                            self.place.now_s, hours * HOUR, "cgroup", cpus if mean is None else mean,
                                            cpus, 0.0, memory_gib * GIB)])


def suspicious(site):
    site.took(active=0.2, allocated_hung=6e6, productive=4e6)
    site.place.now(3, 2.0, PowerClass.ALLOCATED_HUNG)


def ended(site):
    (job,) = site.place.jobs
    site.job(state=JobState.COMPLETED, limit_s=10 * 24 * HOUR, end_s=job.start_s + 20 * HOUR)
    site.took()


def scattered(site):
    part = site.place.jobs[0].allocations[0]
    site.job(allocations=(replace(part, gpus=2, gpu_indexes=(0, 1)), replace(part, node="dgx02", gpus=2)))
    site.took()


def many_cores(site):
    site.job(allocations=(Allocation("dgx01", 1, (0,), 48, 64 * GIB),))
    site.took()
    site.used(cpus=3.0)


FOUND = {
    "idle_gpus": ("", lambda site: (site.place.now(4, 3.0), site.took()),
                  "All of its 4 GPUs have done nothing for 3h 0m. End it"),
    "hung_gpus": ("", suspicious, "3 of its 4 GPUs have been busy at the power of an idle one for 2h 0m: it may hang"),
    "low_activity": ("", lambda site: site.took(active=0.1), "Its GPUs worked 10 % of the time."),
    "unused_gpus": ("", lambda site: site.took(idle=["dgx01:2", "dgx01:3"]), "2 of 4 GPUs were never used. Ask for 2."),
    "unused_gpu_memory": ("", lambda site: site.took(fullest_gib=2.0), "Its fullest GPU held 2.0 of 40 GiB."),
    "wasted": ("class: allocated_underused", lambda site: site.took(allocated_underused=8e6, productive=2e6),
               f'80 % of its energy went into "{PowerClass.ALLOCATED_UNDERUSED.label}".'),
    "scattered": ("", scattered, "4 GPUs lie over 2 nodes. Ask for one node"),
    "unused_memory": ("", lambda site: (site.took(), site.used(memory_gib=4.0)), "It used 4.0 of 64.0 GiB of memory."),
    "unused_cpus": ("", lambda site: (site.took(), site.used(cpus=2.0)),
                    "2.0 of its 16 CPUs worked at once. Ask for 3."),
    "cores_per_gpu": ("", many_cores, "It holds 48 CPUs for each GPU, where the node has 16, and 3.0 of 48 worked"),
    "serial": ("", lambda site: (site.took(), site.used(cpus=1.0)), "It works on one core of 16. Ask for one core"),
    "time_limit": ("", ended, "It took 8.3 % of its time limit. Ask for 30 h: short jobs start sooner."),
}
"""Of each kind what a rule needs beside, how a job comes to it, and the words that its owner reads."""

ALMOST = {
    "idle_gpus": lambda site: (site.place.now(3, 3.0), site.took()),
    "hung_gpus": lambda site: (site.place.now(1, 2.0, PowerClass.ALLOCATED_HUNG), site.took(active=0.3)),
    "low_activity": lambda site: site.took(active=0.26),
    "unused_gpus": lambda site: site.took(idle=[]),
    "unused_gpu_memory": lambda site: site.took(fullest_gib=4.1),
    "wasted": lambda site: site.took(allocated_underused=4.9e6, productive=5.1e6),
    "scattered": lambda site: site.took(),
    "unused_memory": lambda site: (site.took(), site.used(memory_gib=16.1)),
    "unused_cpus": lambda site: (site.took(), site.used(cpus=4.1)),
    "cores_per_gpu": lambda site: (site.took(), site.used(cpus=1.0)),  # 4 CPUs for each GPU are no more than its share
    "serial": lambda site: (site.took(), site.used(cpus=1.2)),
    "time_limit": lambda site: (ended(site), site.job(limit_s=79 * HOUR)),
}
"""How a job is that just escapes the rule at its default."""


def look(site, mail_server, kind, more=""):
    """Look once by one rule with its defaults; return what mails say, without line breaks."""
    server = mail_server()
    site.place.look(site.place.desk(f"[{{kind: {kind}, {more}}}]" if more else f"[{{kind: {kind}}}]",
                                    mail=f"{{host: 127.0.0.1, port: {server.port}, sender: i@example.org}}"))
    return [(to, " ".join([mail["Subject"], *mail.get_content().split()]).replace(" What to do:", ""))
            for to, mail, _ in server.mails]


@pytest.mark.parametrize("kind", KINDS)
def test_the_owner_of_a_job_is_told_of_each_kind_with_the_fix(site, mail_server, kind):
    more, make, words = FOUND[kind]
    make(site)
    ((to, text),) = look(site, mail_server, kind, more)
    assert to == ("ada@example.org",)
    assert words in text
    assert site.place.states() == [("4711", "first", "sent")]
    assert [one.kind for one in site.place.history.notices(0.0)] == [kind]


def test_a_job_that_has_ended_is_not_said_to_hold_anything(site, mail_server):
    ended(site)
    ((_, text),) = look(site, mail_server, "time_limit")
    assert text.startswith("Your job 4711 asked for much more time than it took on dgx Dear ada, ")
    assert "hold" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_is_told_of_a_job_that_just_escapes(site, mail_server, kind):
    ALMOST[kind](site)
    assert look(site, mail_server, kind, FOUND[kind][0]) == []


@pytest.mark.parametrize("kind", ["low_activity", "unused_gpus", "unused_gpu_memory", "wasted"])
def test_nobody_is_told_of_gpus_that_were_measured_for_half_of_the_time(site, mail_server, kind):
    site.took(active=0.1, idle=["dgx01:2", "dgx01:3"], fullest_gib=2.0, measured=0.5,
              allocated_underused=8e6, productive=2e6)
    assert look(site, mail_server, kind, FOUND[kind][0]) == []


@pytest.mark.parametrize("kind", ["low_activity", "unused_gpus", "unused_gpu_memory", "wasted"])
def test_nobody_is_told_of_a_job_that_was_looked_at_for_its_last_hours_only(site, mail_server, kind):
    """As on the day on which the daemon is installed, or after a night without it."""
    site.took(active=0.1, idle=["dgx01:2", "dgx01:3"], fullest_gib=2.0, seen=0.2,
              allocated_underused=8e6, productive=2e6)
    assert look(site, mail_server, kind, FOUND[kind][0]) == []


@pytest.mark.parametrize("kind", ["unused_cpus", "unused_memory", "serial", "cores_per_gpu"])
def test_nobody_is_told_of_cpus_and_memory_that_were_measured_for_minutes(site, mail_server, kind):
    if kind == "cores_per_gpu":
        site.job(allocations=(Allocation("dgx01", 1, (0,), 48, 64 * GIB),))
    site.took()
    site.used(cpus=1.0, memory_gib=1.0, hours=0.2)
    assert look(site, mail_server, kind) == []


@pytest.mark.parametrize("kind", ["unused_cpus", "serial"])
def test_cpus_that_work_at_times_all_at_once_are_not_said_to_be_unused(site, mail_server, kind):
    site.took()
    site.used(cpus=16.0, mean=1.0)
    assert look(site, mail_server, kind) == []


@pytest.mark.parametrize("kind", ["unused_gpus", "unused_gpu_memory", "wasted"])
def test_a_job_whose_gpus_work_well_on_the_whole_is_left_alone(site, mail_server, kind):
    """A job at 93 % activity has an underused share, too."""
    site.took(active=0.93, idle=["dgx01:2"], fullest_gib=2.0, allocated_underused=8e6, productive=2e6)
    assert look(site, mail_server, kind, FOUND[kind][0]) == []


def test_idle_gpus_that_two_exporters_or_two_drivers_count_alike_are_each_counted(place, mail_server):
    server = mail_server()
    place.gpus = [replace(gpu, index=gpu.index % 2) for gpu in place.gpus]
    place.look(place.desk(mail=f"{{host: 127.0.0.1, port: {server.port}, sender: i@example.org}}"))
    ((_, mail, _),) = server.mails
    assert "All of its 4 GPUs have done nothing for 3h 0m." in mail.get_content()
