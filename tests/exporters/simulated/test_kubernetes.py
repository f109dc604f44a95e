"""The simulated cluster as Kubernetes: objects that a real server would take, and the same jobs as under Slurm."""

from threading import Thread

import pytest
from crd_schemas import all_faults, faults_of

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated import kubernetes
from idlewatt.exporters.simulated.api_store import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    WORKLOADS,
    Store,
)
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.server import SimulatedSite, SimulationServer
from idlewatt.exporters.slurm import SlurmRestConfig
from idlewatt.storage.records import JobState

START_S = 1_795_219_200.0


@pytest.fixture
def clock():
    class Clock:
        now_s = START_S

        def __call__(self) -> float:
            return self.now_s

    return Clock()


@pytest.fixture
def server(clock):
    served = SimulationServer(SimulatedSite(SimulatedCluster(ClusterShape(start_s=START_S)), clock))
    Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    served.site.kubernetes.bookmark_s = 0.05
    yield served
    served.site.kubernetes.drop_watches()
    served.shutdown()
    served.server_close()


def test_its_objects_are_as_an_api_server_would_take_them():
    cluster, store = SimulatedCluster(ClusterShape(start_s=START_S)), Store()
    cluster.advance(START_S + 3600.0)
    kubernetes.sync(cluster, store)
    assert all(store.names(resource) for resource in (NODES, PODS, JOBS, WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES))
    assert all_faults(store, most=20) == []


def test_a_field_that_a_definition_does_not_have_is_a_fault():
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "lq"}}
    assert [*faults_of(queue | {"spec": {"clusterQueue": "research"}})] == []
    assert [*faults_of(queue | {"spec": {"clusterqueue": "research"}})]


def told(job):
    """Return what both schedulers can say of a job."""
    return (job.job_id.rpartition("/")[2].rpartition("-")[2], job.state, job.partition.lower(), job.user, job.account,
            job.submit_s, job.start_s, job.limit_s, job.request.gpus, job.request.cpus, job.request.memory_bytes,
            [(part.node, part.gpus, part.cpus, part.memory_bytes) for part in job.allocations])


def test_both_schedulers_tell_of_the_same_jobs(server, clock, until):
    slurm = SlurmRestConfig(kind="slurm_rest", url=server.url).build(clock)
    kube = KubernetesConfig(kind="kubernetes", url=f"{server.url}/kubernetes",
                            user=f"label:{kubernetes.USER}").build(clock)
    kube.read()
    waiting = 0
    for _ in range(24):
        clock.now_s += 290.0  # a job that has ended is shown for five minutes
        server.site.refresh()
        store = server.site.kubernetes.store
        until(lambda: all(int(version) >= store.version for version in kube.versions.values()))  # noqa: B023
        one = [job for job in slurm.read().jobs if not job.state.finished]
        snapshot = kube.read()
        assert sorted(map(told, one)) == sorted(map(told, snapshot.jobs))
        waiting += sum(job.state is JobState.PENDING for job in one)
    assert waiting
    accounts = {told(job)[0]: (job.start_s, job.end_s) for job in slurm.completed(START_S)}
    seen = {told(job)[0]: (job.start_s, job.end_s) for job in kube.completed(START_S)}
    assert len(accounts) > 5
    assert seen == accounts
    slurm.close()
    kube.close()
