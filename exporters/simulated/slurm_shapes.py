"""The keys that slurmrestd 22.05 writes, with the values they have where the simulation says nothing of them."""

from __future__ import annotations

from typing import Any, Final

META: Final[dict[str, object]] = {"Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}}

JOB: Final[dict[str, object]] = {
    "account": "", "accrue_time": 0, "admin_comment": "", "array_job_id": 0, "array_task_id": None,
    "array_max_tasks": 0, "array_task_string": "", "association_id": 1, "batch_features": "", "batch_flag": True,
    "batch_host": "", "flags": [], "burst_buffer": "", "burst_buffer_state": "", "cluster": "dgx",
    "cluster_features": "", "command": "", "comment": "", "container": "", "contiguous": False, "core_spec": None,
    "thread_spec": None, "cores_per_socket": None, "billable_tres": 0.0, "cpus_per_task": None,
    "cpu_frequency_minimum": None, "cpu_frequency_maximum": None, "cpu_frequency_governor": None, "cpus_per_tres": "",
    "deadline": 0, "delay_boot": 0, "dependency": "", "derived_exit_code": 0, "eligible_time": 0, "end_time": 0,
    "excluded_nodes": "", "exit_code": 0, "features": "", "federation_origin": "", "federation_siblings_active": "",
    "federation_siblings_viable": "", "gres_detail": [], "group_id": 0, "group_name": "", "job_id": 0,
    "job_state": "RUNNING", "last_sched_evaluation": 0, "licenses": "", "max_cpus": 0, "max_nodes": 0,
    "mcs_label": "", "memory_per_tres": "", "name": "", "nodes": "", "nice": None, "tasks_per_core": None,
    "tasks_per_node": 0, "tasks_per_socket": None, "tasks_per_board": 0, "cpus": 0, "node_count": 0, "tasks": 0,
    "het_job_id": 0, "het_job_id_set": "", "het_job_offset": 0, "partition": "", "prefer": "", "memory_per_node": 0,
    "memory_per_cpu": None, "minimum_cpus_per_node": 0, "minimum_tmp_disk_per_node": 0, "preempt_time": 0,
    "pre_sus_time": 0, "priority": 1, "profile": None, "qos": "normal", "reboot": False, "required_nodes": "",
    "requeue": True, "resize_time": 0, "restart_cnt": 0, "resv_name": "", "shared": None,
    "show_flags": ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"], "sockets_per_board": 0, "sockets_per_node": None,
    "start_time": 0, "state_description": "", "state_reason": "None", "standard_error": "",
    "standard_input": "/dev/null", "standard_output": "", "submit_time": 0, "suspend_time": 0, "system_comment": "",
    "time_limit": 0, "time_minimum": 0, "threads_per_core": None, "tres_bind": "", "tres_freq": "",
    "tres_per_job": "", "tres_per_node": "", "tres_per_socket": "", "tres_per_task": "", "tres_req_str": "",
    "tres_alloc_str": "", "user_id": 0, "user_name": "", "wckey": "", "current_working_directory": "",
}
"""A job; ``job_resources`` only comes with one that has started."""

NODE: Final[dict[str, object]] = {
    "architecture": "x86_64", "burstbuffer_network_address": "", "boards": 1, "boot_time": 0, "comment": "",
    "cores": 0, "cpu_binding": 0, "cpu_load": 0, "extra": "", "free_memory": 0, "cpus": 0, "last_busy": 0,
    "features": "", "active_features": "", "gres": "", "gres_drained": "N/A", "gres_used": "", "mcs_label": "",
    "name": "", "next_state_after_reboot": "invalid", "address": "", "hostname": "", "state": "", "state_flags": [],
    "next_state_after_reboot_flags": [], "operating_system": "Linux 5.15.0-1040-nvidia #40-Ubuntu SMP", "owner": None,
    "partitions": [], "port": 6818, "real_memory": 0, "reason": "", "reason_changed_at": 0,
    "reason_set_by_user": None, "slurmd_start_time": 0, "sockets": 2, "threads": 2, "temporary_disk": 0, "weight": 1,
    "tres": "", "slurmd_version": "22.05.8", "alloc_memory": 0, "alloc_cpus": 0, "idle_cpus": 0, "tres_used": "",
    "tres_weighted": 0.0,
}
"""A node."""

PARTITION: Final[dict[str, object]] = {
    "flags": [], "preemption_mode": ["disabled"], "allowed_allocation_nodes": "", "allowed_accounts": "",
    "allowed_groups": "", "allowed_qos": "", "alternative": "", "billing_weights": "", "default_memory_per_cpu": 1000,
    "default_memory_per_node": None, "default_time_limit": None, "denied_accounts": "", "denied_qos": "",
    "preemption_grace_time": 0, "maximum_cpus_per_node": -1, "maximum_memory_per_cpu": None,
    "maximum_memory_per_node": None, "maximum_nodes_per_job": -1, "max_time_limit": 0, "min nodes per job": 0,
    "name": "", "nodes": "", "over_time_limit": None, "priority_job_factor": 1, "priority_tier": 1, "qos": "",
    "state": "UP", "total_cpus": 0, "total_nodes": 0, "tres": "",
}
"""A partition."""

ACCOUNTED: Final[dict[str, Any]] = {
    "account": "", "comment": {"administrator": None, "job": None, "system": None}, "allocation_nodes": 0,
    "array": {"job_id": 0, "limits": {"max": {"running": {"tasks": 0}}}, "task": None, "task_id": None},
    "association": {}, "cluster": "dgx", "constraints": "", "container": None, "derived_exit_code": {},
    "time": {"elapsed": 0, "eligible": 0, "end": 0, "start": 0, "submission": 0, "suspended": 0,
             "system": {"seconds": 0, "microseconds": 0}, "limit": 0, "total": {"seconds": 0, "microseconds": 0},
             "user": {"seconds": 0, "microseconds": 0}},
    "exit_code": {}, "flags": ["CLEAR_SCHEDULING", "STARTED_ON_SCHEDULE"], "group": "",
    "het": {"job_id": 0, "job_offset": None}, "job_id": 0, "name": "", "mcs": {"label": ""}, "nodes": "",
    "partition": "", "priority": 1, "qos": "normal", "required": {}, "kill_request_user": None,
    "reservation": {"id": 0, "name": 0}, "state": {}, "steps": [], "tres": {}, "user": "",
    "wckey": {"wckey": "", "flags": []}, "working_directory": "",
}
"""A job of the accounting database, without its steps."""

SETTINGS = {"PreemptType": "preempt/none", "PreemptMode": "OFF", "TopologyPlugin": "topology/none",
            "AccountingStorageEnforce": "none", "SelectTypeParameters": "CR_CPU_MEMORY"}
"""As a simulated Slurm would tell them."""
