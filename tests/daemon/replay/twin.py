"""A slow, plain twin of the compiled engine: lists, dictionaries and sorting, written from the rules' descriptions.

It is the oracle of the engine's tests: starts, ends and nodes must agree to the last digit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

INF = math.inf
MASK = 2**64 - 1


@dataclass
class TwinJob:
    row: int
    submit: float
    run: float
    limit: float
    prediction: float
    chunk: int
    chunks: int
    rest: int
    rests: int
    cpus: int
    memory: int
    eligible: list[bool]
    partition: int
    user: int
    parent: int
    preemptible: bool
    rejected: bool
    minimum: int = 0
    maximum: int = 0
    widest: int = 0
    application: int = 0
    remaining: float = 0.0
    start: float | None = None
    end: float | None = None
    since: float = 0.0
    as_of: float = 0.0
    rate: float = 1.0
    attained: float = 0.0
    held: list[tuple[int, int]] = field(default_factory=list)
    last: list[tuple[int, int]] = field(default_factory=list)
    state: str = "future"

    @property
    def gpus(self) -> int:
        return self.chunk * self.chunks + self.rest * self.rests

    def needs(self, gpus: int) -> tuple[int, int, int]:
        if gpus == self.chunk:
            return gpus, self.cpus, self.memory
        return gpus, math.ceil(self.cpus * gpus / self.chunk), math.ceil(self.memory * gpus / self.chunk)

    def estimate(self) -> float:
        return self.since + max(0.0, self.limit - self.attained / max(1, sum(g for _, g in self.held)))


class Twin:
    def __init__(self, nodes, jobs, order, placement, backfill, overhead=0.0, events=(), seed=0, switches=None,
                 slot_s=0):
        self.free = [list(node) for node in nodes]
        self.open = [True] * len(nodes)
        self.jobs, self.order, self.placement, self.backfill = jobs, order, placement, backfill
        self.overhead, self.events, self.now, self.random = overhead, list(events), -INF, seed
        self.total = [sum(float(node[kind]) for node in nodes) for kind in range(3)]
        self.usage = {job.user: [0.0, 0.0, 0.0] for job in jobs}
        self.switches = switches or [(0, 0)] * len(nodes)
        if backfill == "easy":
            self.join_lines()
        self.slot_s, self.slot = slot_s, None
        for job in jobs:
            job.remaining = job.run

    def join_lines(self):
        """Let jobs of partitions that share nodes stand in one line, named after the first of these partitions."""
        for one in self.jobs:
            for other in self.jobs:
                if any(a and b for a, b in zip(one.eligible, other.eligible, strict=True)):
                    lines = {one.partition, other.partition}
                    for job in self.jobs:
                        job.partition = min(lines) if job.partition in lines else job.partition

    # placement -----------------------------------------------------------------------------------------------------
    def fits(self, free, node, job, gpus):
        return (self.open[node] and job.eligible[node]
                and all(have >= need for have, need in zip(free[node], job.needs(gpus), strict=True)))

    def draw(self, below):
        self.random = (self.random + 0x9E3779B97F4A7C15) & MASK
        word = self.random
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
        return ((word ^ (word >> 31)) >> 11) % below

    def place(self, free, job):
        parts = [job.chunk] * job.chunks + [job.rest] * job.rests
        if self.placement == "naive-random":
            return self.place_blindly(free, job, parts)
        scores = {"best-fit": lambda node: free[node][0], "first-fit": lambda node: 0,
                  "nearest": self.distances(free, job, len(parts)),
                  "fragmentation": lambda node: (self.growth(free[node][0], job.chunk), free[node][0])}
        if self.placement == "random-fit":
            able = [[n for n in range(len(free)) if self.fits(free, n, job, gpus)] for gpus in (parts[0], parts[-1])]
            if len(able[0]) < job.chunks or len(able[1]) < len(parts):
                return []
            drawn = {node: self.draw(1 << 40) for node in able[1]}
            scores["random-fit"] = lambda node: drawn[node]
        chosen = []
        for gpus in parts:
            fit = [n for n in range(len(free)) if n not in chosen and self.fits(free, n, job, gpus)]
            if not fit:
                return []
            chosen.append(min(fit, key=lambda n: (scores[self.placement](n), n)))
        return list(zip(chosen, parts, strict=True))

    def distances(self, free, job, parts):
        """Rank nodes: those of the leaf that suffices most tightly, else of the spines on which the job costs least."""
        if parts == 1:
            return lambda node: free[node][0]
        room = {leaf: (0, 0) for leaf, _ in self.switches}
        for node, (leaf, _) in enumerate(self.switches):
            if self.fits(free, node, job, job.rest if job.rests else job.chunk):
                full, fit = room[leaf]
                room[leaf] = full + self.fits(free, node, job, job.chunk), fit + 1

        def total(leaves):
            return tuple(map(sum, zip(*(room[leaf] for leaf in leaves), strict=True))) if leaves else (0, 0)

        def suffices(leaves):
            full, fit = total(leaves)
            return full >= job.chunks and fit >= parts

        alone = [leaf for leaf in room if suffices([leaf])]
        if alone:
            leaf = min(alone, key=lambda leaf: (room[leaf], leaf))
            return lambda node: (self.switches[node][0] != leaf, free[node][0])

        def price(leaves, spines):
            first = sorted(leaves, key=lambda leaf: room[leaf], reverse=True)
            return 2 * spines + next(count for count in range(1, len(first) + 1) if suffices(first[:count]))

        spines = sorted({spine for _, spine in self.switches})
        sets = [some for number in range(1, 2 ** len(spines))
                if (some := [spine for place, spine in enumerate(spines) if number >> place & 1])]
        below = [({leaf for leaf, spine in self.switches if spine in some}, len(some))
                 for some in (sets if len(spines) <= 6 else [[spine] for spine in spines])]
        able = [(leaves, count) for leaves, count in below if suffices(leaves)]
        near = min(able, key=lambda one: (price(*one), total(one[0])))[0] if able else set(room)
        return lambda node: (self.switches[node][0] not in near,
                             tuple(-count for count in room[self.switches[node][0]]), self.switches[node][0],
                             free[node][0])

    def growth(self, free, gpus):
        """Return by how much the part of a node that the typical job cannot use grows; in millionths."""
        if free < gpus:
            return 0
        sizes = [job.chunk for job in self.jobs]

        def useless(left):
            return left * sum(sizes.count(size) / len(sizes) for size in sorted(set(sizes)) if size > left)

        return round(1e6 * (useless(free - gpus) - useless(free)))

    def place_blindly(self, free, job, parts):
        left = [n for n in range(len(free)) if self.open[n] and job.eligible[n]]
        chosen = []
        for gpus in parts:
            if not left:
                return []
            chosen.append((left.pop(self.draw(len(left))), gpus))
            if not self.fits(free, chosen[-1][0], job, gpus):
                return []
        return chosen

    def take(self, free, job, held, sign=1):
        for node, gpus in held:
            for kind, need in enumerate(job.needs(gpus)):
                free[node][kind] -= sign * need

    # what happens to jobs ------------------------------------------------------------------------------------------
    def rate(self, job):
        """Return how fast a job runs."""
        return 1.0

    def start(self, job, held, pause=0.0):
        self.take(self.free, job, held)
        job.held = job.last = held
        self.charge(job, 1)
        job.state, job.since, job.as_of = "running", self.now, self.now
        job.rate = self.rate(job)
        job.remaining += pause * job.rate
        job.start = self.now if job.start is None else job.start
        job.end = self.now + job.remaining / job.rate
        job.until = job.estimate()

    def release(self, job):
        self.take(self.free, job, job.held, -1)
        self.charge(job, -1)
        job.attained += (self.now - job.since) * sum(g for _, g in job.held)
        job.remaining = max(0.0, job.remaining - (self.now - job.as_of) * job.rate)
        job.held = []

    def charge(self, job, sign):
        """Book what a job holds on its user's account."""
        for _, gpus in job.held:
            for kind, amount in enumerate(job.needs(gpus)):
                self.usage[job.user][kind] += sign * amount

    def preempt(self, job):
        self.release(job)
        job.remaining += self.overhead * job.rate
        job.state = "waiting"

    def join(self, job):
        parent = self.jobs[job.parent] if job.parent >= 0 else None
        job.state = "waiting" if parent is None or parent.state == "ended" else "held"

    def key(self, job):
        left = job.remaining / job.rate - (self.now - job.as_of if job.state == "running" else 0.0)
        wait = (self.now - job.submit) / max(1.0, min(job.limit, 30 * 86400.0))
        length = job.limit if math.isnan(job.prediction) else job.prediction
        served = job.attained + (self.now - job.since) * sum(g for _, g in job.held)
        shares = [used / max(1.0, whole) for used, whole in zip(self.usage[job.user], self.total, strict=True)]
        keys = {"las": 1.0 if served >= 3600 - 1e-6 else 0.0, "drf": max(shares), "fifo": job.submit,
                "sjf-limit": job.limit, "sjf-oracle": job.run, "ljf": -job.gpus,
                "sjf-prediction": length, "qssf": length * max(1, job.gpus),
                "limit-aged": min(job.limit, 30 * 86400.0) + job.submit,
                "wfp3": -(wait * wait * wait) * max(1, job.gpus), "srtf": left, "srsf": left * max(1, job.gpus)}
        return (keys[self.order], job.row)

    def waiting(self):
        return sorted((job for job in self.jobs if job.state == "waiting"), key=self.key)

    def running(self):
        return [job for job in self.jobs if job.state == "running"]

    # decisions -----------------------------------------------------------------------------------------------------
    def decide(self):
        if self.backfill == "preempt":
            return self.decide_preempting()
        if self.backfill == "conservative":
            return self.decide_planning()
        if self.order == "drf":
            return self.decide_fairly()
        blocked = {}
        queue = self.waiting()
        for job in queue:
            if job.partition in blocked:
                continue
            held = self.place(self.free, job)
            if held:
                self.start(job, held)
            elif self.backfill != "greedy":
                blocked[job.partition] = job
        if self.backfill == "easy":
            for partition in sorted(blocked):
                self.pass_head(blocked[partition], [j for j in queue if j.partition == partition])
        return None

    def pass_head(self, head, queue, most=INF):
        behind = queue[queue.index(head) + 1:][:100]
        if not behind:
            return
        shadow, spare = self.reserve(head)
        for job in behind:
            short = self.now + job.limit <= shadow
            both = [[min(a, b) for a, b in zip(now, later, strict=True)]
                    for now, later in zip(self.free, spare, strict=True)]
            if job.chunk > max([f[0] for n, f in enumerate(self.free) if self.open[n]], default=0):
                continue
            held = self.place(self.free if short else both, job)
            if held:
                if not short:
                    self.take(spare, job, held)
                self.start(job, held)
                most -= 1
            if most == 0:
                return

    def reserve(self, head):
        spare = [list(amounts) for amounts in self.free]

        def able():
            return {n for n in range(len(spare)) if self.fits(spare, n, head, head.chunk)}

        before = able()
        for job in sorted(self.running(), key=lambda j: (j.until, j.row)):
            self.take(spare, job, job.held, -1)
            after = able()
            opened, before = after - before, after
            if len(after) < head.chunks or (not opened and not head.rests):
                continue
            held = self.place(spare, head)
            if held:
                self.take(spare, head, held)
                return max(self.now, job.until), spare
        return INF, spare

    def decide_fairly(self):
        """Start one job after the other; each start changes who comes next."""
        blocked = set()
        for job in self.waiting():
            held = [] if job.partition in blocked else self.place(self.free, job)
            if held:
                self.start(job, held)
                return self.decide_fairly()
            blocked |= {job.partition} if self.backfill != "greedy" else set()
        running = len(self.running())
        for partition in sorted(blocked) if self.backfill == "easy" else []:
            queue = [job for job in self.waiting() if job.partition == partition]
            self.pass_head(queue[0], queue, 1)
            if len(self.running()) > running:
                return self.decide_fairly()
        return None

    def decide_planning(self):
        """Keep a list of (begin, end, job, nodes), of running and planned jobs; plan each where none is in the way."""
        busy = [(-INF, max(job.until, self.now + 1.0), job, job.held) for job in self.running()]
        everything = [list(amounts) for amounts in self.free]
        for job in self.running():
            self.take(everything, job, job.held, -1)

        def free_at(time):
            free = [list(amounts) for amounts in everything]
            for begin, end, job, held in busy:
                if begin <= time < end:
                    self.take(free, job, held)
            return free

        for job in self.waiting()[:100]:
            lasts = max(0.0, job.limit - job.attained / max(1, job.gpus))
            moments = sorted({self.now} | {end for _, end, _, _ in busy if end < INF})
            for time in moments:
                window = [free_at(moment) for moment in moments if time <= moment < time + lasts or moment == time]
                least = [[min(kind) for kind in zip(*node, strict=True)] for node in zip(*window, strict=True)]
                held = self.place(least, job)
                if held:
                    busy.append((time, time + lasts, job, held))
                    if time == self.now:
                        self.start(job, held)
                    break

    def decide_preempting(self):
        while self.start_before_others() and self.order == "drf":
            pass  # each start changes who comes next

    def start_before_others(self):
        """Start jobs, if need be in place of others, under drf a single one; tell whether any did."""
        started = False
        everybody = sorted(self.running() + self.waiting(), key=self.key)
        keys = {job.row: self.key(job) for job in everybody}
        for job in everybody:
            if job.state != "waiting":
                continue
            held = self.place(self.free, job)
            if held:
                self.start(job, held)
            started |= bool(held) or self.displace(job, everybody, keys)
            if started and self.order == "drf":
                break
        return started

    def displace(self, job, everybody, keys):
        free, given_up, held = [list(amounts) for amounts in self.free], [], []
        for victim in reversed(everybody):
            if held or not keys[victim.row][0] > keys[job.row][0]:
                break
            if (victim.state != "running" or not victim.preemptible or victim.since >= self.now
                    or not any(job.eligible[node] for node, _ in victim.held)):
                continue
            self.charge(victim, -1)
            if not self.key(victim)[0] > keys[job.row][0]:
                self.charge(victim, 1)
                continue
            self.take(free, victim, victim.held, -1)
            given_up.append(victim)
            held = self.place(free, job)
        for other in given_up:
            self.charge(other, 1)
            if {node for node, _ in other.held} & {node for node, _ in held}:
                self.preempt(other)
        if held:
            self.start(job, held)
        return bool(held)

    # time ----------------------------------------------------------------------------------------------------------
    def happen(self, time):
        self.now = time
        while True:
            ended = [job for job in self.running() if job.end <= time]
            if not ended:
                break
            job = min(ended, key=lambda j: (j.end, j.row))
            self.release(job)
            job.state = "ended"
            for child in self.jobs:
                if child.parent == job.row and child.state == "held":
                    self.join(child)
        while self.events and self.events[0][0] <= time:
            _, node, kind = self.events.pop(0)
            self.open[node] = kind == "up"
            for job in self.running() if kind == "down" else []:
                if node in [n for n, _ in job.held]:
                    self.preempt(job)
                    job.remaining, job.attained = job.run, 0.0
        for job in self.jobs:
            if job.state == "future" and job.submit <= time and not job.rejected:
                self.join(job)

    def wakes(self):
        """Return when running jobs drop a level."""
        running = [(job, sum(g for _, g in job.held)) for job in self.running() if self.order == "las"]
        left = [(3600 - job.attained - (self.now - job.since) * gpus, gpus) for job, gpus in running if gpus]
        return [self.now + rest / gpus for rest, gpus in left if rest > 1e-6]

    def run(self):
        while True:
            times = [job.submit for job in self.jobs if job.state == "future" and not job.rejected]
            times += self.wakes() + [job.end for job in self.running()] + [event[0] for event in self.events]
            times += [self.slot] if self.slot else []
            if not times:
                return self
            self.happen(min(times))
            if self.is_due():
                self.decide()
                self.slot = self.now + self.slot_s if self.slot_s and self.running() else None
            self.keep_pace()

    def is_due(self):
        """Tell whether a decision may be taken now, and remember when the next may."""
        self.slot = None
        if not self.slot_s:
            return True
        if self.now % self.slot_s:
            self.slot = (self.now // self.slot_s + 1) * self.slot_s
        return not self.now % self.slot_s

    def keep_pace(self):
        """Nobody's speed changes while it runs."""
