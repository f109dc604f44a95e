"""How a smaller request is written where it is submitted: by options of ``sbatch``, or in the manifest of pods."""

from __future__ import annotations

from ...storage.records import Job, Request


def gpu_options(job: Job, request: Request) -> str:
    """Return the options that request GPUs and nodes in place of a job's own.

    CPUs and memory are named beside them where a job asks for so many by themselves, which then are others too.
    """
    if job.steering is not None:
        pods, beside = _pods(request), _of_pod(request, request.cpus, request.memory_bytes)
        each = f"{request.gpus // pods} GPU{'s' * (request.gpus // pods != 1)}"
        return f"{', '.join([f'{pods} pods, each with {each}' if pods > 1 else f'one pod with {each}', *beside])}"
    each_node, details = request.gpus_per_node, request.details
    size = f"--nodes={request.nodes} --gpus-per-node={each_node}" if each_node else f"--gpus={request.gpus}"
    on_node = max(1, details.tasks // max(1, request.nodes))
    return " ".join([size, *_of_task(details.cpus_per_node // on_node, details.memory_per_node_bytes)])


def host_options(job: Job, cpus: int, memory_bytes: int) -> str:
    """Return the options for CPUs and memory of the whole request; 0 for what it does not request."""
    if job.steering is None:
        request = job.request
        nodes = max(1, request.nodes)
        return " ".join(_of_task(cpus // max(nodes, request.details.tasks), memory_bytes // nodes))
    text = ", ".join(_of_pod(job.request, cpus, memory_bytes))
    return f"{text} for each pod" if _pods(job.request) > 1 else text


def _of_task(cpus: int, memory_bytes: int) -> list[str]:
    return ([f"--cpus-per-task={cpus}"] if cpus else []) + ([f"--mem={memory_bytes // 2**20}M"] if memory_bytes else [])


def _of_pod(request: Request, cpus: int, memory_bytes: int) -> list[str]:
    """Return CPUs and memory of each pod, of those of the whole request, as its manifest has them."""
    pods = _pods(request)
    return ([f"cpu: {cpus / pods:g}"] if cpus else []) + (
        [f"memory: {memory_bytes // pods // 2**20}Mi"] if memory_bytes else [])


def limit_option(job: Job, minutes: int) -> str:
    """Return the option that requests a limit of its time."""
    return f"--time={minutes}" if job.steering is None else f"activeDeadlineSeconds: {60 * minutes}"


def _pods(request: Request) -> int:
    """Return the pods of a request: as many as it has tasks, or nodes where these are more, each with the same GPUs."""
    for pods in (max(request.details.tasks, request.nodes), request.nodes, 1):
        if pods >= request.nodes and request.gpus % pods == 0 and request.gpus >= pods:
            return pods
    return 1
