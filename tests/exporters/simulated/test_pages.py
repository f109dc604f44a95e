"""The pages are such as the real exporters write."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster
from idlewatt.exporters.simulated.pages import Pages

WATTS = "DCGM_FI_DEV_POWER_USAGE"
MILLIJOULES = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total"  # the stock parser adds the suffix that dcgm leaves out


@pytest.fixture
def cluster() -> SimulatedCluster:
    cluster = SimulatedCluster(ClusterShape(seed=3))
    cluster.advance(cluster.now_s + 60)
    return cluster


def samples(page: str) -> dict[str, list]:
    """Return the samples of a page by name; the stock parser is the judge of the format."""
    found: dict[str, list] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def values(page: str, name: str) -> list[float]:
    return [sample.value for sample in samples(page)[name]]


def test_a_dcgm_page_has_the_default_counters_of_eight_gpus(cluster):
    found = samples(Pages(cluster).dcgm(0))
    assert len(found) == 24
    assert all(len(rows) == 8 for rows in found.values())
    first = found[WATTS][0].labels
    assert list(first) == ["gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname",
                           "DCGM_FI_DRIVER_VERSION", "hpc_job"]
    assert (first["modelName"], first["Hostname"]) == ("NVIDIA A100-SXM4-40GB", "dgx-a100-01")


def test_a_v100_knows_no_remapped_rows(cluster):
    assert len(samples(Pages(cluster).dcgm(2))) == 21


def test_free_gpus_name_no_job(cluster):
    rows = samples(Pages(cluster).dcgm(0))[WATTS]
    assert ["hpc_job" in row.labels for row in rows] == [True] * 6 + [False] * 2


def test_energy_on_the_page_is_the_integral_of_the_watts_on_the_page(cluster):
    pages = Pages(cluster)
    before, joules = values(pages.dcgm(0), MILLIJOULES), [0.0] * 8
    for _ in range(100):
        cluster.advance(cluster.now_s + 5)
        joules = [total + 5 * watts for total, watts in zip(joules, values(pages.dcgm(0), WATTS), strict=True)]
    after = values(pages.dcgm(0), MILLIJOULES)
    grown = [(late - early) / 1000 for early, late in zip(before, after, strict=True)]
    assert grown == pytest.approx(joules, abs=0.01)


def test_the_same_seed_writes_the_same_bytes(cluster):
    twin = SimulatedCluster(ClusterShape(seed=3))
    twin.advance(twin.now_s + 60)
    for server in range(4):
        for page in ("dcgm", "node", "ipmi"):
            assert getattr(Pages(cluster), page)(server) == getattr(Pages(twin), page)(server)


def test_a_gpu_in_mig_mode_repeats_its_watts_for_every_instance(cluster):
    rows = [row for row in samples(Pages(cluster, mig=True).dcgm(0))[WATTS] if "GPU_I_ID" in row.labels]
    assert [row.labels["GPU_I_PROFILE"] for row in rows] == ["3g.20gb", "3g.20gb"]
    assert len({row.labels["UUID"] for row in rows}) == len({row.value for row in rows}) == 1
    assert len(samples(Pages(cluster, mig=True).dcgm(0))["DCGM_FI_DEV_GPU_UTIL"]) == 7


def test_cpu_seconds_grow_by_one_second_per_cpu_and_second(cluster):
    def total() -> float:
        return sum(values(pages.node(2), "node_cpu_seconds_total"))

    pages = Pages(cluster)
    before = total()
    cluster.advance(cluster.now_s + 600)
    assert total() - before == pytest.approx(600 * 80, rel=0.01)


def test_no_counter_of_a_node_page_ever_falls(cluster):
    pages, last = Pages(cluster), {}
    for _ in range(20):
        cluster.advance(cluster.now_s + 1800)
        for name, rows in samples(pages.node(1)).items():
            for row in rows if name.endswith("_total") else ():
                key = (name, *row.labels.values())
                assert row.value >= last.get(key, 0.0)
                last[key] = row.value
    assert len(last) > 500


def test_the_ipmi_page_shows_the_meter(cluster):
    shown = values(Pages(cluster).ipmi(1), "ipmi_dcmi_power_consumption_watts")
    assert shown == [round(cluster.gpus.meter_watts[1])]


def test_a_bmc_that_hangs_fails_its_collectors_and_shows_no_watts(cluster):
    cluster.advance(cluster.shape.start_s + 2300)
    found = samples(Pages(cluster).ipmi(3))
    assert "ipmi_dcmi_power_consumption_watts" not in found
    assert [row.value for row in found["ipmi_up"]] == [0, 0, 0]


def test_a_cgroup_page_tells_what_each_job_on_the_server_uses(cluster):
    before = {row.labels["jobid"]: row.value for row in samples(Pages(cluster).cgroup(0))["cgroup_cpu_total_seconds"]}
    assert set(before) == {str(job.job_id) for job in cluster.running.values() if 0 in dict(job.allocation)}
    cluster.advance(cluster.now_s + 60)
    found = samples(Pages(cluster).cgroup(0))
    after = {row.labels["jobid"]: row.value for row in found["cgroup_cpu_total_seconds"]}
    cores = [(after[job] - before[job]) / 60 for job in before]
    # All but the hundredth of the CPUs that the system itself keeps busy.
    assert sum(cores) == pytest.approx((cluster.gpus.cpu_busy[0] - 0.01) * cluster.servers[0].model.cpus)
    held = {row.labels["jobid"]: row.value for row in found["cgroup_memory_total_bytes"]}
    assert all(row.value < held[row.labels["jobid"]] for row in found["cgroup_memory_used_bytes"])
