"""A smaller request is written as whoever submits it writes requests: for Slurm, or for pods."""

from dataclasses import replace

import pytest

from idlewatt.daemon.advice.request_options import gpu_options, host_options, limit_option
from idlewatt.daemon.replay.admission.partition_terms import refusal_text
from idlewatt.storage.details import Details
from idlewatt.storage.records import Job, JobState, Request
from idlewatt.storage.steering import Steering

GIB = 2**30
OF_SLURM = Job("5", 0.0, JobState.PENDING, "a100", Request(8, gpus_per_node=8, cpus=64, memory_bytes=512 * GIB))
OF_PODS = replace(OF_SLURM, job_id="team/train", steering=Steering("team"))


@pytest.mark.parametrize(("request_", "slurm", "pods"), [
    (Request(4, gpus_per_node=4), "--nodes=1 --gpus-per-node=4", "one pod with 4 GPUs"),
    (Request(1), "--gpus=1", "one pod with 1 GPU"),
    (Request(8, nodes=4, gpus_per_node=2, cpus=8), "--nodes=4 --gpus-per-node=2", "4 pods, each with 2 GPUs, cpu: 2"),
    (Request(2, gpus_per_node=2, cpus=3, memory_bytes=GIB, details=Details(tasks=2, cpus_per_node=3)),
     "--nodes=1 --gpus-per-node=2 --cpus-per-task=1", "2 pods, each with 1 GPU, cpu: 1.5, memory: 512Mi"),
    (Request(3, details=Details(tasks=2)), "--gpus=3", "one pod with 3 GPUs")])
def test_gpus_are_asked_for_as_each_scheduler_takes_them(request_, slurm, pods):
    assert gpu_options(OF_SLURM, request_) == slurm
    assert gpu_options(OF_PODS, request_) == pods


def test_cpus_memory_and_time_are_asked_for_as_each_scheduler_takes_them():
    assert host_options(OF_SLURM, 32, 64 * GIB) == "--cpus-per-task=32 --mem=65536M"
    assert host_options(OF_PODS, 32, 64 * GIB) == "cpu: 32, memory: 65536Mi"
    tasks = replace(OF_SLURM, request=replace(OF_SLURM.request, details=Details(tasks=8)))
    assert host_options(tasks, 32, 64 * GIB) == "--cpus-per-task=4 --mem=65536M"
    nodes = replace(OF_SLURM, request=replace(OF_SLURM.request, nodes=4))
    assert host_options(nodes, 32, 64 * GIB) == "--cpus-per-task=8 --mem=16384M"
    assert host_options(tasks, 7, 0) == "", "less than a CPU of each task is no request"
    four = replace(OF_PODS, request=replace(OF_PODS.request, details=Details(tasks=4)))
    assert host_options(four, 32, 64 * GIB) == "cpu: 8, memory: 16384Mi for each pod"
    assert (limit_option(OF_SLURM, 42), limit_option(OF_PODS, 42)) == ("--time=42", "activeDeadlineSeconds: 2520")


def test_a_word_of_slurm_is_said_of_slurms_jobs_alone():
    assert refusal_text(OF_SLURM, "PartitionNodeLimit", "a100") == (
        "not eligible yet: the scheduler says PartitionNodeLimit")
    assert refusal_text(OF_PODS, "PartitionNodeLimit", "a100") == "it needs more nodes than a100 has"
