"""One round: fill a cluster, ask Slurm about each job alone, take advice on all of them, release it, and look."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from idlewatt.daemon.advice.advisor import Advisor
from idlewatt.daemon.advice.warm_up import warm_up
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.daemon.topology import AttachTopology
from idlewatt.exporters.fabric import SlurmTopologyConfig
from idlewatt.exporters.hostlist import expand
from idlewatt.exporters.slurm.cli import SlurmCliConfig
from idlewatt.exporters.slurm.rest import SlurmRestConfig
from idlewatt.storage.recommendations import Recommendation
from idlewatt.storage.records import SchedulerSnapshot

from .clusters import Cluster
from .jobs import Scene, Wish, background, random_wish
from .slurm import ACTING, FROZEN, HEEDLESS, Forecast, Rejected, Slurm, wait_for

PLANNING, HEEDLESS_POLICY = "priority+best-fit+whole-nodes", "priority+best-fit+greedy"
"""Slurm's own order, with a plan for every job as Slurm's backfill has one, or with none."""
MOST_PLAYS = 3
DEPENDENCIES_S = 3.0
"""Slurm finds out within a second or two whether a new job's dependencies are fulfilled; nobody scrapes sooner."""
MOST_AGE_S = 20.0
"""How old advice may be that is followed."""


@dataclass
class Case:
    """One job: what was asked, what Slurm said of it alone, what was advised, and what came of it."""

    wish: Wish
    number: str
    forecast: Forecast | None
    parts: tuple[Recommendation, ...] = ()
    """Advice on it; on each component where it is heterogeneous."""
    state: str = ""
    reason: str = ""
    description: str = ""
    """Slurm's sentence beside the reason, where there is one."""
    nodes: tuple[str, ...] = ()
    alone: str = ""
    """What became of it alone in the queue, where that had to be tried."""

    @property
    def started(self) -> bool:
        """Tell whether Slurm started it, or some task of it."""
        return self.state == "RUNNING"

    @property
    def advised(self) -> bool:
        """Tell whether it was advised to start, as a whole."""
        return bool(self.parts) and all(said.action == "start" for said in self.parts)

    @property
    def advice(self) -> Recommendation | None:
        """Return what was advised, of several components that which holds them."""
        held = sorted((said for said in self.parts if said.action != "start"), key=lambda said: said.cause == "group")
        return next(iter((*held, *self.parts)), None)


@dataclass
class Round:
    """All cases of a round, and what the cluster was like."""

    cluster: Cluster
    seed: int
    scenery: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    """Jobs about which the two sources give different advice."""
    fault: str = ""
    """Why there is no advice at all."""
    taken_s: float = float("inf")
    """When Slurm was read for the advice."""
    late: bool = False
    """Whether the advice was old by the time that it was followed: plans begin at whole minutes, jobs end meanwhile."""


def play(slurm: Slurm, cluster: Cluster, seed: int, jobs: int) -> Round:
    """Play one round of so many submissions, and again where advice was old or time has changed what runs.

    So it has where a node launched nothing, or a job came to its limit before the queue had settled.
    """
    for _ in range(MOST_PLAYS):
        played = _play(slurm, cluster, seed, jobs)
        if not played.late and not any(map(_changed_by_time, played.cases)):
            break
    return played


def _changed_by_time(case: Case) -> bool:
    return case.state == "TIMEOUT" or case.description.startswith("launch failed")


def _play(slurm: Slurm, cluster: Cluster, seed: int, jobs: int) -> Round:
    # Compiled for the first advice, a policy would take so long that the advice is old, and the round played in vain.
    warm_up((policy_of(cluster),))
    chance = random.Random(seed)
    played = Round(cluster, seed)
    slurm.schedule(ACTING)
    slurm.empty()
    running = _fill(slurm, cluster, chance)
    slurm.schedule(FROZEN)
    reservations = list(_furnish(slurm, cluster, chance, played.scenery))
    scene = Scene(cluster, running, reservations)
    _submit(slurm, chance, scene, jobs, played)
    submitted_s = time.time()
    wait_for(lambda: time.time() > submitted_s + DEPENDENCIES_S)
    _advise(slurm, played)
    _pin(slurm, played)
    slurm.lasting = running
    played.late = time.time() - played.taken_s > MOST_AGE_S
    parameters = ACTING if cluster.planning else HEEDLESS
    slurm.release(parameters)
    slurm.settle()
    _look(slurm, played)
    slurm.schedule(parameters)
    return played


def try_alone(slurm: Slurm, cases: list[Case]) -> None:
    """Submit each job again when nothing but what ran before the round is there, and note what becomes of it."""
    for case in cases:
        slurm.cancel(*slurm.others())
        try:
            number = slurm.submit(case.wish.options)
        except Rejected as refusal:
            case.alone = str(refusal)
            continue
        states = slurm.settle()
        found = [state for job, state in states.items() if job.split("_")[0].split("+")[0] == number]
        case.alone = "RUNNING" if any(state == "RUNNING" for state, _ in found) else found[0][1] if found else "gone"


def _fill(slurm: Slurm, cluster: Cluster, chance: random.Random) -> list[str]:
    """Start some jobs and cancel those that find no room; return what runs."""
    scene = Scene(cluster, (), ())
    for _ in range(chance.randint(2, 9)):
        slurm.submit(background(chance, scene).options, seconds=3000)
    slurm.settle(backfill=False)
    slurm.cancel("--state=PENDING")
    return [number for number, (state, _) in slurm.states().items() if state == "RUNNING"]


def _furnish(slurm: Slurm, cluster: Cluster, chance: random.Random, scenery: list[str]) -> Iterator[str]:
    """Drain nodes and reserve others, now and later; yield the reservations' names.

    Later is a few minutes after some time limits, so that a slow machine changes nobody's fate.
    """
    names = [server.name for server in cluster.servers]
    for node in chance.sample(names, chance.choice((0, 0, 1, 1, 2))):
        slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=NVLink")
        scenery.append(f"drain {node}")
    for name, start in (("now", "now"), ("later", f"now+{chance.choice((22, 45))}minutes")):
        if chance.random() < 0.5:
            nodes = ",".join(chance.sample(names, chance.choice((1, 1, 2))))
            flags = chance.choice(("ignore_jobs", "maint,ignore_jobs", "flex,ignore_jobs"))
            words = (f"reservationname={name}", f"starttime={start}", "duration=120", f"nodes={nodes}",
                     f"flags={flags}", chance.choice(("users=games", "accounts=physics", "users=games,man")))
            try:
                slurm.run("scontrol", "create", "reservation", *words)
            except Rejected as refusal:
                scenery.append(f"refused {' '.join(words)}: {refusal}")
                continue
            scenery.append(" ".join(words))
            yield name


def _submit(slurm: Slurm, chance: random.Random, scene: Scene, jobs: int, played: Round) -> None:
    """Ask about each job while none is pending, then submit those that Slurm takes."""
    wishes = [random_wish(chance, scene) for _ in range(jobs)]
    asked = [None if wish.heterogeneous else slurm.forecast(wish.options) for wish in wishes]
    for wish, forecast in zip(wishes, asked, strict=True):
        try:
            played.cases.append(Case(wish, slurm.submit(wish.options), forecast))
        except Rejected:
            continue  # what Slurm does not take is nobody's advice


def snapshots(slurm: Slurm, cluster: Cluster) -> dict[str, SchedulerSnapshot]:
    """Return what both ways to read Slurm tell, completed by the switches as the daemon does it."""
    # As the sample configuration says: what slurmrestd does not tell is printed by a command and put into the file.
    printed = slurm.run("scontrol", "show", "config")
    settings = {name: value for name, value in re.findall(r"^(\w+) *= *(.*)$", printed, re.MULTILINE)
                if re.match(r"Preempt|SelectType|Topology|AccountingStorageEnforce|SchedulerPar", name)}
    printed = slurm.run("sacctmgr", "-rnP", "show", "qos", "format=Name,GrpTRESMins")
    limits = dict(line.split("|") for line in printed.splitlines())
    known = [SlurmTopologyConfig(slurm_conf=slurm.conf).build(time.time).read()] if cluster.tree else []
    found: dict[str, SchedulerSnapshot] = {}
    for config in (SlurmCliConfig(slurm_conf=slurm.conf),
                   SlurmRestConfig(url=f"unix:{slurm.socket}", settings=settings, qos_grp_tres_mins=limits)):
        source = config.build(time.time)
        try:
            found[config.kind] = AttachTopology().hang(source.read(), known)
        finally:
            source.close()
    return found


def policy_of(cluster: Cluster) -> str:
    """Return the policy that decides as the scheduler of a cluster does."""
    return PLANNING if cluster.planning else HEEDLESS_POLICY


def advice_of(snapshot: SchedulerSnapshot, now_s: float, policy: str) -> dict[str, Recommendation]:
    """Return the advice on each job of a snapshot."""
    settings = AdviceSettings(policy=policy, shadow=(), draws=0)
    return {said.job_id: said for said in Advisor(settings).advise(snapshot, now_s).recommendations}


def _advise(slurm: Slurm, played: Round) -> None:
    """Take advice from what the commands tell; note where slurmrestd's answer leads to another."""
    policy = policy_of(played.cluster)
    try:
        read = snapshots(slurm, played.cluster)
        played.taken_s = read["slurm_cli"].time_s
        told, rest = (advice_of(read[kind], read[kind].time_s, policy) for kind in ("slurm_cli", "slurm_rest"))
    except ValueError as error:
        played.fault = str(error)  # a difference like others: the judge goes on and tells of it
        return
    played.differing = sorted(f"{job}: {_gist(told.get(job))} by slurm_cli, {_gist(rest.get(job))} by slurm_rest"
                              for job in told.keys() | rest.keys() if _gist(told.get(job)) != _gist(rest.get(job)))
    for case in played.cases:
        case.parts = _parts(case, told)


def _parts(case: Case, told: Mapping[str, Recommendation]) -> tuple[Recommendation, ...]:
    """Return the advice on a job, of a heterogeneous one that on each component."""
    found = [told.get(case.number), *(told.get(f"{case.number}+{part}") for part in range(2))]
    return tuple(said for said in found if said is not None)


def _gist(said: Recommendation | None) -> str:
    if said is None:
        return "nothing"
    return f"start {said.placement}" if said.action == "start" else said.reason if said.action == "unknown" else "hold"


def _pin(slurm: Slurm, played: Round) -> None:
    """Follow the advice on each job that is to start by the command that it comes with, of an array on one task."""
    for case in (case for case in played.cases if case.advised):
        for said in case.parts:
            nodes = ",".join(said.placement.nodes) if said.placement else ""
            command = said.command or f"scontrol update jobid={case.number}_0 ReqNodeList={nodes}"
            try:
                slurm.run(*command.split())
            except Rejected as refusal:
                case.alone = f"cannot be pinned: {refusal}"


def _look(slurm: Slurm, played: Round) -> None:
    """Take note of where each job is and what Slurm says of it."""
    queue = list(slurm.queue().values())
    for case in played.cases:
        number = int(case.number)
        mine = [job for job in queue
                if number in (job["job_id"], job.get("array_job_id"), job.get("het_job_id"))]
        ran = [job for job in mine if job["job_state"] in ("RUNNING", "COMPLETED", "COMPLETING")]
        first = (ran or mine or [{"job_state": "GONE", "state_reason": "", "nodes": ""}])[0]
        case.state = "RUNNING" if ran else first["job_state"]
        case.reason, case.description = first["state_reason"], first.get("state_description") or ""
        case.nodes = tuple(node for job in ran for node in expand(job["nodes"] or ""))
