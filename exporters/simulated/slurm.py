"""The answers of slurmrestd 22.05 (``v0.0.38``) about the simulated cluster, key for key as the real one's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ...storage.records import JobState
from ...storage.waiting import WaitReason
from ..hostlist import ranges
from ..slurm.states import spelled
from .cluster import SimulatedCluster
from .hardware import Model
from .jobs import USERS, SimulatedJob
from .shards import job_answer, node_shards
from .slurm_shapes import ACCOUNTED, JOB, META, NODE, PARTITION

MIB = 2**20
MIN_JOB_AGE_S = 300.0
"""slurmctld shows a finished job for this long."""
_USER_ID = {user.name: 1001 + number for number, user in enumerate(USERS)}

Answer = dict[str, Any]


def _answer(database: bool = False, **body: object) -> Answer:
    plugin = {"type": "openapi/dbv0.0.38" if database else "openapi/v0.0.38",
              "name": "Slurm OpenAPI DB v0.0.38" if database else "Slurm OpenAPI v0.0.38"}
    return {"meta": {"plugin": plugin, **META}, "errors": [], **body}


def ping(cluster: SimulatedCluster) -> Answer:
    """Return that the controller is there."""
    return _answer(pings=[{"hostname": "slurm-login", "ping": "UP", "status": 0, "mode": "primary"}])


def jobs(cluster: SimulatedCluster) -> Answer:
    """Return the jobs that slurmctld still knows: pending, running and just finished."""
    recent = itertools.takewhile(lambda job: (job.end_s or 0.0) > cluster.now_s - MIN_JOB_AGE_S,
                                 reversed(cluster.finished))
    known = [*itertools.chain(*cluster.pending.values()), *cluster.running.values(), *recent]
    return _answer(jobs=[_job(cluster, job) for job in sorted(known, key=lambda job: job.job_id)])


def nodes(cluster: SimulatedCluster) -> Answer:
    """Return the nodes of the simulated cluster."""
    return _answer(nodes=[_node(cluster, number) for number in range(len(cluster.servers))])


def partitions(cluster: SimulatedCluster) -> Answer:
    """Return the partitions of the simulated cluster."""
    return _answer(partitions=[_partition(cluster, name) for name in cluster.partitions])


def reservations(cluster: SimulatedCluster) -> Answer:
    """Return no reservation."""
    return _answer(reservations=[])


def accounted(cluster: SimulatedCluster, since_s: float = 0.0) -> Answer:
    """Return what slurmdbd keeps of the jobs that ended after ``since_s``, oldest first."""
    ended = [job for job in cluster.finished if (job.end_s or 0.0) >= since_s]
    return _answer(database=True, jobs=[_accounted(cluster, job) for job in ended])


def _job(cluster: SimulatedCluster, job: SimulatedJob) -> Answer:
    started, running = job.start_s is not None, job.state is JobState.RUNNING
    model = _model(cluster, job.partition)
    names = [cluster.servers[number].name for number, _ in job.allocation]
    requested = _tres(job, model)
    answer = JOB | {
        "account": job.user.account, "accrue_time": int(job.submit_s), "batch_host": names[0] if names else "",
        "flags": ["JOB_CPUS_SET", *(["JOB_WAS_RUNNING"] if started else []), "JOB_MEM_SET"],
        "command": f"/home/{job.user.name}/jobs/{job.name}.sh", "billable_tres": float(job.cpus) if started else None,
        "eligible_time": int(job.submit_s), "end_time": _end(job), "exit_code": job.exit_code * 256,
        "gres_detail": [f"gpu:{model.gres_type}:{len(indexes)}(IDX:{ranges(indexes)})"
                        for _, indexes in job.allocation] if running else [],
        "group_id": _USER_ID[job.user.name], "group_name": job.user.name, "job_id": job.job_id,
        "job_state": spelled(job.state), "last_sched_evaluation": int(cluster.now_s),
        "max_nodes": 0 if started else job.nodes, "name": job.name, "nodes": hostlist(names), "cpus": job.cpus,
        "node_count": job.nodes, "tasks": job.nodes, "partition": job.partition,
        "memory_per_node": job.memory_per_node // MIB, "minimum_cpus_per_node": job.cpus_per_node,
        "required_nodes": hostlist(job.required_nodes), "start_time": int(job.start_s or 0),
        "state_reason": _reason(job), "submit_time": int(job.submit_s),
        "time_limit": None if job.service else int(job.flavor.limit_s // 60),
        "tres_per_node": f"gres:gpu:{model.gres_type}:{job.gpus_per_node}",
        "tres_req_str": requested, "tres_alloc_str": requested if started else "",
        "user_id": _USER_ID[job.user.name], "user_name": job.user.name,
        "current_working_directory": f"/home/{job.user.name}/jobs"}
    if job.job_id in cluster.shards:
        answer |= job_answer(job, cluster.shards[job.job_id])
    if started:
        answer["job_resources"] = _resources(cluster, job, names)
    return answer


def _reason(job: SimulatedJob) -> str:
    ends = {JobState.FAILED: "NonZeroExitCode", JobState.TIMEOUT: "TimeLimit"}
    waits = {WaitReason.PRIORITY: "Priority", WaitReason.RESOURCES: "Resources"}
    return ends.get(job.state) or waits.get(job.reason, "None")


def _end(job: SimulatedJob) -> int:
    """Return the end; of a running job Slurm shows when its limit will end it."""
    if job.end_s is not None:
        return int(job.end_s)
    return int(job.start_s + job.flavor.limit_s) if job.start_s is not None and not job.service else 0


def _tres(job: SimulatedJob, model: Model) -> str:
    gpus = job.flavor.gpus
    return (f"cpu={job.cpus},mem={job.memory_bytes // 2**30}G,node={job.nodes},billing={job.cpus},"
            f"gres/gpu={gpus},gres/gpu:{model.gres_type}={gpus}")


def _resources(cluster: SimulatedCluster, job: SimulatedJob, names: Sequence[str]) -> Answer:
    model = _model(cluster, job.partition)
    cores = job.cpus_per_node * model.cores * 2 // model.cpus
    per_socket: dict[str, Any] = {}
    for core in range(cores):
        socket = per_socket.setdefault(str(core // model.cores), {"cores": {}})
        socket["cores"][str(core % model.cores)] = "allocated"
    return {"nodes": hostlist(names), "allocated_cores": cores * len(names), "allocated_hosts": len(names),
            "allocated_nodes": [{"sockets": per_socket, "nodename": name, "cpus_used": 0, "memory_used": 0,
                                 "memory_allocated": job.memory_per_node // MIB} for name in names]}


def _node(cluster: SimulatedCluster, number: int) -> Answer:
    server, capacity = cluster.servers[number], cluster.capacity
    model, drained = server.model, cluster.drained(number)
    cpus = model.cpus - int(capacity.free_cpus[number])
    memory = (model.memory_bytes - int(capacity.free_memory[number])) // MIB
    shards = node_shards(cluster, number)
    indexes = [index for index in capacity.taken[number].nonzero()[0].tolist() if index not in shards.gpus]
    gres = f"gpu:{model.gres_type}"
    whole = model.memory_bytes // MIB
    return NODE | {
        "boot_time": int(cluster.shape.start_s) - 864_000, "cores": model.cores,
        "threads": model.threads,
        "cpu_load": int(cluster.gpus.cpu_busy[number] * model.cpus * 100),
        "free_memory": whole - int(cluster.gpus.memory_used_bytes[number]) // MIB,
        "cpus": model.cpus, "last_busy": int(cluster.now_s), "features": model.features,
        "active_features": model.features, "gres": f"{gres}:{model.gpus}(S:0-1){shards.gres}",
        "gres_used": f"{gres}:{len(indexes)}(IDX:{ranges(indexes) or 'N/A'}){shards.gres_used}",
        "name": server.name, "address": server.name, "hostname": server.name,
        "state": "idle" if not cpus else "allocated" if cpus == model.cpus else "mixed",
        "state_flags": ["DRAIN"] if drained else [], "partitions": [model.partition], "real_memory": whole,
        "reason": "replacing a fan" if drained else "", "reason_set_by_user": "root" if drained else None,
        "reason_changed_at": int(cluster.now_s) if drained else 0,
        "slurmd_start_time": int(cluster.shape.start_s) - 863_000,
        "tres": _node_tres(model.cpus, whole, model.gpus, model) + shards.tres, "alloc_memory": memory,
        "alloc_cpus": cpus,
        "idle_cpus": model.cpus - cpus,
        "tres_used": _node_tres(cpus, memory, len(indexes), model, billing=False) + shards.tres_used if cpus else "",
        "tres_weighted": float(cpus)}


def _node_tres(cpus: int, memory_mib: int, gpus: int, model: Model, billing: bool = True) -> str:
    bill = f"billing={cpus}," if billing else ""
    return f"cpu={cpus},mem={memory_mib}M,{bill}gres/gpu={gpus},gres/gpu:{model.gres_type}={gpus}"


def _partition(cluster: SimulatedCluster, name: str) -> Answer:
    model = _model(cluster, name)
    names = [server.name for server in cluster.servers if server.model is model]
    count, first = len(names), name == cluster.partitions[0]
    return PARTITION | {
        "flags": ["default"] if first else [], "max_time_limit": int(504 * cluster.shape.hour_s // 60),
        "name": name, "nodes": hostlist(names), "total_cpus": count * model.cpus, "total_nodes": count,
        "tres": f"cpu={count * model.cpus},mem={count * model.memory_bytes // 2**30}G,node={count},"
                f"billing={count * model.cpus},gres/gpu={count * model.gpus},"
                f"gres/gpu:{model.gres_type}={count * model.gpus}"}


def _accounted(cluster: SimulatedCluster, job: SimulatedJob) -> Answer:
    assert job.start_s is not None
    assert job.end_s is not None
    tres = _accounted_tres(job, _model(cluster, job.partition))
    exit_code = {"status": "ERROR" if job.exit_code else "SUCCESS", "return_code": job.exit_code}
    return ACCOUNTED | {
        "account": job.user.account, "allocation_nodes": job.nodes,
        "association": {"account": job.user.account, "cluster": "dgx", "partition": None, "user": job.user.name},
        "derived_exit_code": exit_code, "exit_code": exit_code,
        "time": ACCOUNTED["time"] | {
            "elapsed": int(job.end_s) - int(job.start_s), "eligible": int(job.submit_s), "end": int(job.end_s),
            "start": int(job.start_s), "submission": int(job.submit_s), "limit": int(job.flavor.limit_s // 60)},
        "group": job.user.name, "job_id": job.job_id, "name": job.name,
        "nodes": hostlist([cluster.servers[number].name for number, _ in job.allocation]),
        "partition": job.partition, "required": {"CPUs": job.cpus, "memory": job.memory_per_node // MIB},
        "state": {"current": spelled(job.state), "reason": "None"}, "tres": {"allocated": tres, "requested": tres},
        "user": job.user.name, "working_directory": f"/home/{job.user.name}/jobs"}


def _accounted_tres(job: SimulatedJob, model: Model) -> list[Answer]:
    rows = (("cpu", None, 1, job.cpus), ("mem", None, 2, job.memory_bytes // MIB), ("node", None, 4, job.nodes),
            ("billing", None, 5, job.cpus), ("gres", "gpu", 1001, job.flavor.gpus),
            ("gres", f"gpu:{model.gres_type}", 1002, job.flavor.gpus))
    return [dict(zip(("type", "name", "id", "count"), row, strict=True)) for row in rows]


def _model(cluster: SimulatedCluster, partition: str) -> Model:
    return next(server.model for server in cluster.servers if server.model.partition == partition)


def hostlist(names: Iterable[str]) -> str:
    """Return host names as Slurm writes them: ``dgx-a100-[01-02],dgx-v100-01``."""
    parts = []
    for prefix, group in itertools.groupby(sorted(names), lambda name: name.rpartition("-")[0]):
        numbers = [name.rpartition("-")[2] for name in group]
        text = ranges((int(number) for number in numbers), len(numbers[0]))
        parts.append(f"{prefix}-{text}" if len(numbers) == 1 else f"{prefix}-[{text}]")
    return ",".join(parts)
