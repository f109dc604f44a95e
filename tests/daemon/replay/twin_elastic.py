"""The twin's elastic part: sizes that change, speeds that depend on place and neighbours, GPUs of a node by island."""

from __future__ import annotations

import math
from dataclasses import replace

from twin import Twin


class ElasticTwin(Twin):
    def __init__(self, *args, table, islands, resize_s=0.0, **options):
        self.table, self.islands, self.resize_s = table, islands, resize_s
        self.on = [[None] * len(slots) for slots in islands]
        super().__init__(*args, **options)

    # speed ---------------------------------------------------------------------------------------------------------
    def start(self, job, held, pause=0.0):
        for node, gpus in held:
            for _ in range(gpus):
                self.on[node][self.next_slot(node, job, gpus)] = job
        super().start(job, held, pause)

    def release(self, job):
        super().release(job)
        self.on = [[None if other is job else other for other in slots] for slots in self.on]

    def next_slot(self, node, job, gpus):
        """Return the slot that a job gets next: on the tightest island for what it still lacks, else the emptiest."""
        wanted = gpus - self.on[node].count(job)
        free = [slot for slot, island in enumerate(self.islands[node])
                if island is not None and self.on[node][slot] is None]
        started = [self.islands[node][slot] for slot in range(len(self.on[node])) if self.on[node][slot] is job]
        room = {island: sum(self.islands[node][slot] == island for slot in free) for island in self.islands[node]}
        if started and room.get(self.last_island, 0):
            return next(slot for slot in free if self.islands[node][slot] == self.last_island)
        enough = [(left, island) for island, left in room.items() if island is not None and left >= wanted]
        emptiest = [(-left, island) for island, left in room.items() if island is not None and left]
        self.last_island = min(enough or emptiest)[1]
        return next(slot for slot in free if self.islands[node][slot] == self.last_island)

    def level(self, job):
        nodes = [node for node, _ in job.held]
        if len(nodes) == 1:
            return int(len({self.islands[nodes[0]][slot] for slot, other in enumerate(self.on[nodes[0]])
                            if other is job}) > 1)
        if len({self.switches[node][1] for node in nodes}) > 1:
            return 4
        return 3 if len({self.switches[node][0] for node in nodes}) > 1 else 2

    def speed(self, job, gpus, level):
        size = self.table.size[job.application].tolist()
        wanted = size[min(job.gpus, len(size) - 1)]
        return size[min(gpus, len(size) - 1)] / wanted * self.table.spread[job.application].tolist()[level]

    def rate(self, job):
        return self.speed(job, sum(gpus for _, gpus in job.held), self.level(job))

    def company(self, job):
        least = 1.0
        for node, _ in job.held:
            left = 1.0
            for row in dict.fromkeys(other.row for other in self.on[node] if other is not None and other is not job):
                left *= self.table.company.tolist()[job.application][self.jobs[row].application]
            least = min(least, left)
        return least

    def keep_pace(self):
        for job in self.running() if self.table.coupled else []:
            rate = self.rate(job) * max(1e-3, self.company(job))
            if rate != job.rate:
                job.remaining = max(0.0, job.remaining - (self.now - job.as_of) * job.rate)
                job.as_of, job.rate = self.now, rate
                job.end = self.now + job.remaining / rate

    # sizes ---------------------------------------------------------------------------------------------------------
    def sized(self, job, gpus):
        """Return a job as if it had asked for so many GPUs."""
        if gpus == job.gpus:
            return job
        chunk = min(gpus, job.widest)
        cpus, memory = job.needs(chunk)[1:]
        return replace(job, chunk=chunk, chunks=gpus // chunk, rest=gpus % chunk, rests=int(gpus % chunk > 0),
                       cpus=cpus, memory=memory)

    def start_within(self, job, most):
        for gpus in range(most, job.minimum - 1, -1):
            held = self.place(self.free, self.sized(job, gpus))
            if held:
                self.start(job, held)
                return True
        return False

    def resize(self, job, held):
        self.release(job)
        self.start(job, held, self.resize_s)

    def decide(self):
        if self.backfill == "moldable":
            self.decide_once()
        elif self.backfill in ("equal-share", "relative-gain"):
            self.think_over()
        else:
            super().decide()

    def decide_once(self):
        blocked = set()
        for job in self.waiting():
            if job.partition not in blocked and not self.start_within(job, job.maximum):
                blocked.add(job.partition)

    def settled(self, job):
        return job.state == "running" and (job.since >= self.now or job.minimum == job.maximum)

    def think_over(self):
        everybody = sorted(self.running() + self.waiting(), key=self.key)
        size = {job.row: sum(gpus for _, gpus in job.held) for job in everybody}
        left = sum(free[0] for free, up in zip(self.free, self.open, strict=True) if up)
        get = {}
        for job in everybody:
            if job.state == "running":
                get[job.row] = size[job.row] if self.settled(job) else job.minimum
                left += size[job.row] - get[job.row]
        for job in everybody:
            if job.state == "waiting":
                get[job.row] = job.minimum if job.minimum <= left else 0
                left -= get[job.row]
        self.grant(everybody, get, left)
        for job in everybody:
            if job.state == "running" and get[job.row] < size[job.row]:
                self.shrink(job, size[job.row] - get[job.row])
        for job in everybody:
            if job.state == "waiting" and (get[job.row] or not job.gpus):
                self.start_within(job, get[job.row])
        for job in everybody:
            if job.state == "running" and get[job.row] > sum(g for _, g in job.held) and not self.settled(job):
                self.grow(job, get[job.row])

    def grant(self, everybody, get, left):
        while left:
            offers = [(self.gain(job, get[job.row], more), -place, -more) for place, job in enumerate(everybody)
                      for more in (1, 2, 4, 8) if get[job.row] and not self.settled(job)
                      and more <= left and get[job.row] + more <= job.maximum]
            if not offers or max(offers)[0] <= 0:
                return
            _, place, more = max(offers)
            get[everybody[-place].row] -= more
            left += more

    def gain(self, job, gpus, more):
        if self.backfill == "equal-share":
            return 1.0 / gpus if more == 1 else 0.0

        def speed(number):
            return self.speed(job, number, 0 if number <= job.widest else 2)

        return math.log(speed(gpus + more) / speed(gpus)) / more

    def shrink(self, job, surplus):
        held = list(job.held)
        while surplus:
            least = min((gpus, -place) for place, (_, gpus) in enumerate(held) if gpus)[1]
            node, gpus = held[-least]
            held[-least] = (node, gpus - min(surplus, gpus))
            surplus -= min(surplus, gpus)
        self.resize(job, [(node, gpus) for node, gpus in held if gpus])

    def grow(self, job, most):
        free = [list(amounts) for amounts in self.free]
        self.take(free, job, job.held, -1)
        for gpus in range(most, sum(g for _, g in job.held), -1):
            held = self.place(free, self.sized(job, gpus))
            if held:
                self.resize(job, held)
                return
