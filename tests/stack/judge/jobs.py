"""Random jobs over all options that decide about a start."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .clusters import ACCOUNTS, USERS, Cluster


@dataclass(frozen=True)
class Wish:
    """One submission: options of sbatch, and what is special about them."""

    options: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def heterogeneous(self) -> bool:
        """Tell whether it has several components."""
        return ":" in self.options

    @property
    def array(self) -> bool:
        """Tell whether it is an array."""
        return any(option.startswith("--array") for option in self.options)


@dataclass(frozen=True)
class Scene:
    """What of a round jobs may refer to."""

    cluster: Cluster
    running: Sequence[str]
    """Jobs that run, to depend on."""
    reservations: Sequence[str]


Twist = Callable[[random.Random, Scene], list[str]]


def random_wish(chance: random.Random, scene: Scene) -> Wish:
    """Return a job: who, where, how long, how much, and up to two twists."""
    if chance.random() < 0.05:
        return _heterogeneous(chance, scene)
    shape, options = _shape(chance, scene)
    twists = chance.sample(sorted(TWISTS), chance.choice((0, 0, 0, 1, 1, 1, 2)))
    for name in twists:
        options += TWISTS[name](chance, scene)
    where = [] if any(option.startswith(("-p", "--partition")) for option in options) else _partition(chance, scene)
    who = [] if any(option.startswith("--uid") for option in options) else _who(chance)
    return Wish((*who, *where, _limit(chance), *options), (shape, *twists))


def background(chance: random.Random, scene: Scene) -> Wish:
    """Return a job that is to run while others wait."""
    model = chance.choice(scene.cluster.models)
    gpus = chance.choice((1, 2, 2, 3, 4))
    return Wish((*_who(chance), "-p", "all", f"--gres=gpu:{model}:{gpus}", f"-c{chance.choice((1, 4, 8, 16))}",
                 f"-t{chance.choice((10, 30, 60, 120, 600))}"), ("background",))


def _who(chance: random.Random) -> list[str]:
    account = chance.choice(("physics",) * 5 + tuple(ACCOUNTS))
    return [f"--uid={chance.choice(USERS)}", "-A", account]


def _partition(chance: random.Random, scene: Scene) -> list[str]:
    names = [queue.name for queue in scene.cluster.queues]
    return ["-p", chance.choice(("all", "all", *names))]


def _limit(chance: random.Random) -> str:
    return f"-t{chance.choice((5, 10, 10, 15, 30, 60, 120, 600))}"


def _model(chance: random.Random, scene: Scene, share: float = 0.5) -> str:
    return f"{chance.choice(scene.cluster.models)}:" if chance.random() < share else ""


def _shape(chance: random.Random, scene: Scene) -> tuple[str, list[str]]:
    """Return how much a job asks for and in which words."""
    name = chance.choice(sorted(SHAPES))
    return name, SHAPES[name](chance, scene)


def _gres(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--gres=gpu:{_model(chance, scene)}{chance.choice((1, 1, 2, 2, 3, 4, 8))}",
            f"-c{chance.choice((1, 2, 8))}"]


def _several(chance: random.Random, scene: Scene) -> list[str]:
    return [f"-N{chance.choice((2, 2, 3))}", f"--gres=gpu:{_model(chance, scene)}{chance.choice((1, 2, 4))}",
            f"-c{chance.choice((1, 4))}"]


def _per_job(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--gpus={_model(chance, scene)}{chance.choice((1, 2, 3, 5, 6, 9))}"]


def _per_job_span(chance: random.Random, scene: Scene) -> list[str]:
    least = chance.choice((1, 1, 2))
    return [f"--gpus={_model(chance, scene)}{chance.choice((2, 4, 7, 8))}",
            f"-N{least}-{least + chance.choice((1, 2))}"]


def _per_node(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--gpus-per-node={_model(chance, scene)}{chance.choice((1, 2, 4))}", f"-N{chance.choice((1, 1, 2))}"]


def _per_task(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--gpus-per-task={_model(chance, scene)}{chance.choice((1, 1, 2))}", f"-n{chance.choice((1, 2, 3, 4))}",
            f"-c{chance.choice((1, 2, 8))}"]


def _per_socket(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--gpus-per-socket={_model(chance, scene)}{chance.choice((1, 2))}",
            f"--sockets-per-node={chance.choice((1, 2))}", "-N1", f"-n{chance.choice((2, 4))}"]


def _cpus_by_gpu(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--gres=gpu:{_model(chance, scene)}{chance.choice((1, 2, 4))}",
            f"--cpus-per-gpu={chance.choice((2, 8, 16))}"]


def _memory_by_gpu(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--gpus={_model(chance, scene)}{chance.choice((1, 2, 4))}",
            f"--mem-per-gpu={chance.choice((20_000, 100_000, 200_000))}"]


def _cpu_only(chance: random.Random, scene: Scene) -> list[str]:
    more = chance.choice(([], ["-N2"], ["--mem-per-cpu=4000"], ["--mem=100000"]))
    return [f"-n{chance.choice((1, 4, 16, 40))}", *more]


SHAPES: dict[str, Twist] = {
    "gres": _gres, "gres, again": _gres, "gres, on several": _several,
    "gpus": _per_job, "gpus, nodes a-b": _per_job_span,
    "gpus-per-node": _per_node, "gpus-per-task": _per_task, "gpus-per-socket": _per_socket,
    "cpus-per-gpu": _cpus_by_gpu, "mem-per-gpu": _memory_by_gpu, "no gpu": _cpu_only,
}


def _names(chance: random.Random, scene: Scene, most: int) -> str:
    names = [server.name for server in scene.cluster.servers]
    return ",".join(sorted(chance.sample(names, chance.randint(1, most))))


def _constraint(chance: random.Random, scene: Scene) -> list[str]:
    first, second = chance.sample(scene.cluster.features(), 2)
    forms = (first, f"{first}&{second}", f"{first}|{second}", f"[{first}|{second}]", "[rack1|rack2]", f"{first}*1")
    return ["-C", chance.choice(forms)]


def _counted_features(chance: random.Random, scene: Scene) -> list[str]:
    first, second = chance.sample(scene.cluster.features(), 2)
    return ["-N2", "-C", chance.choice((f"[{first}*1&{second}*1]", f"{first}*1&{second}*1", "[rack1*2|rack2*2]"))]


def _dependency(chance: random.Random, scene: Scene) -> list[str]:
    if not scene.running:
        return ["--dependency=singleton", "-J", "alone"]
    job = chance.choice(scene.running)
    return chance.choice(([f"--dependency=afterok:{job}"], [f"--dependency=after:{job}"],
                          ["--dependency=singleton", "-J", "alone"]))


def _reservation(chance: random.Random, scene: Scene) -> list[str]:
    return [f"--reservation={chance.choice(scene.reservations)}", "-p", "all"] if scene.reservations else []


def _partitions(chance: random.Random, scene: Scene) -> list[str]:
    return ["-p", ",".join(chance.sample([queue.name for queue in scene.cluster.queues], 2))]


TWISTS: dict[str, Twist] = {
    "constraint": _constraint,
    "counted features": _counted_features,
    "nodelist": lambda chance, scene: ["-w", _names(chance, scene, 2)],
    "exclude": lambda chance, scene: ["-x", _names(chance, scene, 3)],
    "exclusive": lambda chance, scene: [chance.choice(("--exclusive", "--exclusive", "--exclusive=user"))],
    "contiguous": lambda chance, scene: ["--contiguous"],
    "switches": lambda chance, scene: ["--switches=1"],
    "licences": lambda chance, scene: ["-L", chance.choice(("matlab:1", "matlab:2", "ansys:1", "ansys:1,matlab:1"))],
    "begin": lambda chance, scene: [f"--begin=now+{chance.choice((5, 60))}minutes"],
    "deadline": lambda chance, scene: [f"--deadline=now+{chance.choice((4, 22, 45, 700))}minutes"],
    "array": lambda chance, scene: [f"--array=0-{chance.choice((1, 3, 5))}{chance.choice(('', '%1', '%2'))}"],
    "dependency": _dependency,
    "qos": lambda chance, scene: [f"--qos={chance.choice(('urgent', 'capped', 'two', 'mine', 'tiny', 'brief'))}"],
    "partitions": _partitions,
    "reservation": _reservation,
    "memory": lambda chance, scene: [f"--mem={chance.choice((0, 50_000, 200_000, 600_000))}"],
    "tasks per node": lambda chance, scene: [f"--ntasks-per-node={chance.choice((1, 2, 8))}"],
    "held": lambda chance, scene: ["--hold"] if chance.random() < 0.5 else ["--nice=50"],
    "nice": lambda chance, scene: [f"--nice={chance.choice((10, 100, 1000))}"],
}


def _heterogeneous(chance: random.Random, scene: Scene) -> Wish:
    """Return a job of two components."""
    who, limit = _who(chance), _limit(chance)
    first, second = _gres(chance, scene), chance.choice((_gres, _cpu_only))(chance, scene)
    return Wish((*who, "-p", "all", limit, *first, ":", *who, "-p", "all", limit, *second), ("heterogeneous",))
