"""Jobs simulated step by step, for rules that were not tuned on them: input, copies, kernels, collectives, phases.

What is the matter with a job is not drawn but follows from where its steps spend their time. A step reads a batch
(storage), prepares it (workers on CPUs), copies it, launches kernels (one thread), runs them, and talks to other GPUs;
input runs ahead of the GPU as far as it can. Every so often it evaluates, writes a checkpoint, or does nothing. Sites
differ in what they measure, how often, and who else is on the server.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from labelled import Host, Labelled, Signals

from idlewatt.storage.underuse import Cause


@dataclass(frozen=True)
class Kernels:
    """What the units do while kernels of a kind run."""

    sm: float
    occupancy: float
    tensor: float
    dram: float
    fp32: float = 0.05
    fp64: float = 0.0


@dataclass(frozen=True)
class Step:
    """Seconds of each part of one step; parts before the bar run ahead of the GPU."""

    read: float
    prepare: float
    launch: float
    compute: float
    talk: float
    copied_bytes: float = 3e8
    link: str = "nvlink"
    rate: float = 0.5
    """Of the link, while it talks."""


def job(kind: str, seed: int) -> Labelled:
    """Return one job of a kind: a label of ``KINDS``."""
    draw = random.Random(f"loops/{kind}/{seed}")
    return _MAKERS[kind](draw)


def _kernels(draw: random.Random, kind: str) -> Kernels:
    u = draw.uniform
    return {"matrix": lambda: Kernels(u(0.82, 0.99), u(0.12, 0.45), u(0.3, 0.75), u(0.15, 0.5), u(0.02, 0.15)),
            "decode": lambda: Kernels(u(0.7, 0.97), u(0.3, 0.8), u(0.02, 0.22), u(0.66, 0.86), u(0.05, 0.2)),
            "plain": lambda: Kernels(u(0.8, 0.98), u(0.25, 0.6), 0.0, u(0.15, 0.5), u(0.3, 0.75)),
            "double": lambda: Kernels(u(0.8, 0.98), u(0.2, 0.5), u(0.0, 0.05), u(0.2, 0.5), u(0.0, 0.1), u(0.2, 0.6)),
            "tiny": lambda: Kernels(u(0.04, 0.42), u(0.01, 0.11), u(0.0, 0.1), u(0.01, 0.2)),
            }[kind]()


@dataclass(frozen=True)
class Shares:
    """Shares of one step's time."""

    total: float
    compute: float
    talk: float
    reading: float
    cores: float
    """In use, of one GPU's process and its workers."""


def _shares(step: Step, workers: int) -> Shares:
    """Return where the time of a step goes when input runs ahead and launches hide behind kernels."""
    feed = max(step.read, step.prepare / workers)
    gpu = max(step.launch, step.compute) + step.talk
    total = max(feed, gpu)
    busy = min(step.prepare / total, workers) + min(1.0, (step.launch + 0.15 * total) / total)
    return Shares(total, step.compute / total, step.talk / total, min(1.0, step.read / total), busy)


def _loop(draw: random.Random, label: Cause, step: Step, kernels: Kernels, *, name: str, gpus: int, workers: int,
          cpus: int, minutes: int = 45, **more: object) -> Labelled:
    """Return a job that repeats a step, with evaluations and checkpoints in between."""
    interval_s = draw.choice((15.0, 30.0, 60.0))
    profiled = draw.random() < 0.9
    pause_every, pause_s = draw.uniform(400, 1500), draw.uniform(5, 60)
    wander, frames = 1.0, []
    for number in range(round(minutes * 60 / interval_s)):
        wander = min(1.25, max(0.8, wander + draw.gauss(0, 0.02)))
        now = replace(step, read=step.read * wander, prepare=step.prepare * draw.uniform(0.95, 1.05))
        shares = _shares(now, workers)
        within = number * interval_s % pause_every
        active = 1.0 - min(1.0, max(0.0, pause_s - within) / interval_s)  # a checkpoint is written, kernels pause
        frames.append((_host(draw, step, shares, gpus, cpus, active),
                       tuple(_gpu(draw, step, shares, kernels, active, profiled) for _ in range(gpus))))
    return Labelled(label, name, gpus, cpus, interval_s, tuple(frames), **more)  # type: ignore[arg-type]


def _host(draw: random.Random, step: Step, shares: Shares, gpus: int, cpus: int, active: float) -> Host:
    cores = min(cpus, gpus * shares.cores * active * draw.uniform(0.95, 1.05))
    fabric = shares.talk * step.rate * active if step.link == "fabric" else draw.uniform(0, 0.01)
    return Host(cores, min(1.0, shares.reading * active * draw.uniform(0.9, 1.1) + draw.uniform(0, 0.05)),
                min(1.0, 0.8 * shares.reading * active * draw.uniform(0.7, 1.1) + draw.uniform(0, 0.03)), fabric)


def _gpu(draw: random.Random, step: Step, shares: Shares, kernels: Kernels, active: float, profiled: bool) -> Signals:
    noisy = draw.uniform(0.93, 1.07) * active
    compute, talk = shares.compute * noisy, shares.talk * noisy
    engine = min(1.0, compute + talk)
    if not profiled:
        return Signals(engine, None)
    capped = kernels.tensor > 0.3 and draw.random() < 0.6
    return Signals(
        round(engine, 4), round(min(1.0, compute * kernels.sm + talk * 0.12), 4),
        compute * kernels.occupancy + talk * 0.05, compute * kernels.tensor,
        compute * kernels.dram + talk * 0.15, compute * kernels.fp32, compute * kernels.fp64,
        talk * step.rate if step.link == "nvlink" else draw.uniform(0, 0.01),
        min(1.0, step.copied_bytes / shares.total / 128e9 * active)
        + (talk * step.rate if step.link == "pcie" else 0.0),
        clock=draw.uniform(1400e6, 1800e6) if capped else 1980e6, flags=("power",) if capped else ())


def _clean(draw: random.Random) -> Labelled:
    compute = draw.uniform(0.08, 0.6)
    kind, name = draw.choice((("matrix", "pretrain-30b"), ("matrix", "finetune"), ("double", "cfd"), ("plain", "md"),
                              ("matrix", "serve")))
    step = Step(compute * draw.uniform(0.05, 0.5), compute * draw.uniform(0.5, 3), compute * draw.uniform(0.05, 0.6),
                compute, compute * draw.uniform(0, 0.15), link=draw.choice(("nvlink", "fabric")))
    return _loop(draw, Cause.NONE, step, _kernels(draw, kind), name=name, gpus=draw.choice((1, 2, 4, 8)), workers=8,
                 cpus=96, alone=draw.random() < 0.6)


def _reading(draw: random.Random) -> Labelled:
    compute = draw.uniform(0.05, 0.3)
    step = Step(compute * draw.uniform(1.6, 6), compute * draw.uniform(0.2, 2), compute * 0.3, compute, compute * 0.05)
    return _loop(draw, Cause.WAITING_FOR_DATA, step, _kernels(draw, "matrix"), name="train",
                 gpus=draw.choice((1, 4, 8)), workers=6, cpus=96, alone=draw.random() < 0.8)


def _preparing(draw: random.Random) -> Labelled:
    compute, gpus, each = draw.uniform(0.05, 0.3), draw.choice((1, 2, 4, 8)), draw.choice((3, 4, 8))
    step = Step(compute * 0.2, compute * each * draw.uniform(1.7, 6), compute * 0.3, compute, compute * 0.05)
    return _loop(draw, Cause.WAITING_FOR_DATA, step, _kernels(draw, "matrix"), name="train-imagenet", gpus=gpus,
                 workers=each, cpus=gpus * each, alone=draw.random() < 0.6)


def _launching(draw: random.Random) -> Labelled:
    compute, gpus = draw.uniform(0.02, 0.1), draw.choice((1, 2, 4))
    step = Step(compute * 0.1, compute * 0.2, compute * draw.uniform(1.6, 8), compute, 0.0, copied_bytes=1e6)
    return _loop(draw, Cause.CPU_BOUND, step, _kernels(draw, draw.choice(("tiny", "matrix"))), name="rl-agent",
                 gpus=gpus, workers=2, cpus=gpus * draw.choice((4, 8, 12)), alone=draw.random() < 0.6)


def _tiny(draw: random.Random) -> Labelled:
    compute = draw.uniform(0.02, 0.1)
    step = Step(compute * 0.1, compute * 0.5, compute * draw.uniform(0.2, 0.8), compute, 0.0, copied_bytes=1e6)
    return _loop(draw, Cause.SMALL_BATCH, step, _kernels(draw, "tiny"), name="train-small", gpus=draw.choice((1, 2, 4)),
                 workers=4, cpus=32)


def _decoding(draw: random.Random) -> Labelled:
    compute = draw.uniform(0.02, 0.1)
    step = Step(0.0, compute * 0.1, compute * draw.uniform(0.1, 0.7), compute, compute * draw.uniform(0, 0.1),
                copied_bytes=1e5)
    return _loop(draw, Cause.MEMORY_BOUND, step, _kernels(draw, "decode"), name="vllm", gpus=draw.choice((1, 2, 4)),
                 workers=2, cpus=32)


def _talking(draw: random.Random) -> Labelled:
    compute, link = draw.uniform(0.05, 0.4), draw.choice(("nvlink", "fabric", "pcie"))
    step = Step(compute * 0.2, compute * 0.5, compute * 0.3, compute, compute * draw.uniform(1.5, 6), link=link,
                rate=draw.uniform(0.35, 0.8))
    return _loop(draw, Cause.COMMUNICATION, step, _kernels(draw, "matrix"), name="pretrain", gpus=8, workers=8, cpus=96)


def _plain(draw: random.Random) -> Labelled:
    compute = draw.uniform(0.1, 0.5)
    step = Step(compute * 0.1, compute, compute * 0.3, compute, compute * draw.uniform(0, 0.1))
    return _loop(draw, Cause.PRECISION, step, _kernels(draw, "plain"),
                 name=draw.choice(("train-unet", "finetune-det", "my_model")), gpus=draw.choice((1, 4)),
                 workers=8, cpus=64)


def _some(draw: random.Random) -> Labelled:
    found = _clean(draw)
    gpus = draw.choice((2, 4, 8))
    works = draw.randint(1, gpus - 1)
    idle = Signals(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, clock=345e6, flags=())
    # Only the first ones are ever touched; the name of the program does not matter.
    frames = tuple((host, tuple(one[index % len(one)] if index < works else idle for index in range(gpus)))
                   for host, one in found.frames)
    return replace(found, label=Cause.ONE_OF_SEVERAL, gpus=gpus, frames=frames)


def _slowed(draw: random.Random, cause: Cause) -> Labelled:
    found, level = replace(_clean(draw), label=cause), draw.uniform(0.35, 0.85)
    flag, limit = ("heat", 700.0) if cause is Cause.HEAT else draw.choice((("power_brake", 700.0), ("power", 400.0)))

    def slow(one: Signals) -> Signals:
        on = draw.random() < 0.8  # the clocks swing
        return replace(one, clock=1980e6 * level if on else 1800e6, flags=(flag,) if on else (), limit=limit)

    return replace(found, frames=tuple((host, tuple(map(slow, gpus))) for host, gpus in found.frames))


def _notebook(draw: random.Random) -> Labelled:
    """Work for a minute, think for ten: nobody's cause."""
    found = _clean(draw)
    frames, works = [], True
    for host, gpus in found.frames:
        if draw.random() < 0.2:
            works = draw.random() < 0.35
        rest = Signals(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, flags=())
        frames.append((host, gpus) if works else (Host(0.1), (rest,) * len(gpus)))
    return replace(found, label=Cause.UNKNOWN, name="jupyter", frames=tuple(frames))


def _server(draw: random.Random) -> Labelled:
    """Requests come as they like: it is underused because few ask."""
    found, load = _clean(draw), draw.uniform(0.1, 0.6)

    def less(one: Signals, share: float) -> Signals:
        names = ("engine", "sm", "occupancy", "tensor", "dram", "fp32", "fp64", "nvlink", "pcie")
        return replace(one, flags=(), **{name: None if (value := getattr(one, name)) is None else value * share
                                         for name in names})

    frames = []
    for _, gpus in found.frames:
        load = min(0.7, max(0.05, load + draw.gauss(0, 0.05)))
        frames.append((Host(len(gpus) * load * 0.8), tuple(less(one, load) for one in gpus)))
    return replace(found, label=Cause.UNKNOWN, name="serve", cpus=len(frames[0][1]) * 12, frames=tuple(frames))


_MAKERS = {"clean": _clean, "reading": _reading, "preparing": _preparing, "launching": _launching, "tiny": _tiny,
           "decoding": _decoding, "talking": _talking, "plain": _plain, "some": _some,
           "heat": lambda draw: _slowed(draw, Cause.HEAT), "power": lambda draw: _slowed(draw, Cause.POWER),
           "notebook": _notebook, "server": _server}
KINDS = tuple(_MAKERS)
