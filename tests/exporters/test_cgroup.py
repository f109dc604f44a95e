"""What jobs use, from the pages of the exporters that read their cgroups."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.exporters.cgroup import METRICS, CgroupConfig, parse
from idlewatt.exporters.exposition import Exposition, Look
from idlewatt.exporters.targets import Target
from idlewatt.storage.telemetry import JobReading

TARGET = Target("http://dgx-01:9306/metrics", "dgx-01:9306", {"node": "dgx-01"})
SCOPE = "/system.slice/slurmstepd.scope"


def read(page: str | bytes, target: Target = TARGET):
    raw = page if isinstance(page, bytes) else page.encode()
    return parse(Exposition(METRICS).samples(raw, Look(100.0)), target, 100.0).jobs


def jobstats(job: int, seconds: object, used: object, step: str = "") -> str:
    """Return what Jobstats' exporters write of a job, or of a step of it."""
    path = f"{SCOPE}/job_{job}" + (f"/step_{step}/user/task_0" if step else "")
    labels = f'{{cgroup="{path}",jobid="{job}",step="{step}",task="{0 if step else ""}"}}'
    return f"cgroup_cpu_total_seconds{labels} {seconds}\ncgroup_memory_used_bytes{labels} {used}\n"


def test_of_a_recorded_page_only_the_cgroup_of_the_slurm_job_counts(recorded):
    assert read(recorded("cgroup_exporter_slurm_v1.prom")) == (JobReading("12", "dgx-01", 100.0, 0.007840451, 315392),)


@pytest.mark.parametrize("path", [f"{SCOPE}/job_7", "/system.slice/dgx-01_slurmstepd.scope/job_7",
                                  "/slurm/uid_1000/job_7"])
def test_a_job_is_known_by_its_cgroup_where_no_label_names_it(path):
    reading, = read(f'cgroup_cpu_total_seconds{{cgroup="{path}"}} 5\n')
    assert (reading.job_id, reading.cpu_seconds, reading.memory_used_bytes) == ("7", 5, None)


def test_steps_are_part_of_their_job_and_not_counted_again():
    page = jobstats(223478, 671488.6, 2.4468041728e10) + jobstats(223478, 671471.9, 2.4462413824e10, step="batch")
    assert read(page) == (JobReading("223478", "dgx-01", 100.0, 671488.6, 2.4468041728e10),)


def test_user_and_system_time_of_ceems_add_up_and_one_alone_is_unmeasured():
    labels = '{hostname="dgx-01",manager="slurm",uuid="1009248"}'
    user, system = (f"ceems_compute_unit_cpu_{kind}_seconds_total{labels} {value}\n"
                    for kind, value in (("user", 60), ("system", 5)))
    memory = f"ceems_compute_unit_memory_used_bytes{labels} 1e9\n"
    assert read(user + system + memory) == (JobReading("1009248", "dgx-01", 100.0, 65, 1e9),)
    assert read(user + memory) == (JobReading("1009248", "dgx-01", 100.0, None, 1e9),)
    assert read((user + system).replace('"slurm"', '"libvirt"')) == ()


def test_the_cores_of_slurm_job_exporter_add_up_in_seconds():
    page = "".join(f'slurm_job_core_usage_total{{account="a",core="{core}",slurmjobid="9",user="u"}} {nanoseconds}\n'
                   for core, nanoseconds in enumerate((3e9, 1e9)))
    assert read(page) == (JobReading("9", "dgx-01", 100.0, 4.0, None),)


def test_what_prometheus_holds_twice_under_two_names_of_the_scrape_counts_once():
    def labels(scrape, **more):
        return {"jobid": "5", "slurmjobid": "5", "job": scrape, **more}

    samples = [(("cgroup_cpu_total_seconds", labels(scrape)), 100.0) for scrape in ("cgroup", "slurm")]
    samples += [(("cgroup_memory_used_bytes", labels(scrape)), 8.0) for scrape in ("cgroup", "slurm")]
    cores = [(("slurm_job_core_usage_total", labels(scrape, core=core)), 3e9)
             for scrape in ("cgroup", "slurm") for core in "01"]

    assert parse(samples, TARGET, 100.0).jobs == (JobReading("5", "dgx-01", 100.0, 100.0, 8.0),)
    assert parse(cores, TARGET, 100.0).jobs == (JobReading("5", "dgx-01", 100.0, 6.0, None),)


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "1.8446744073709552e+19"])
def test_a_number_that_is_none_is_unmeasured(value):
    reading, = read(jobstats(1, value, 5))
    assert (reading.cpu_seconds, reading.memory_used_bytes) == (None, 5)
    assert read(jobstats(1, value, value)) == ()


def test_one_core_that_was_not_measured_makes_the_job_unmeasured():
    page = 'slurm_job_core_usage_total{core="0",slurmjobid="9"} 3e9\n' \
           'slurm_job_core_usage_total{core="1",slurmjobid="9"} NaN\n'
    assert read(page) == ()


@given(st.lists(st.tuples(st.text(max_size=12), st.floats(), st.floats()), max_size=6))
@settings(max_examples=60, deadline=None)
def test_whatever_a_page_says_readings_are_numbers_from_0_up(rows):
    labels = [("cgroup_cpu_total_seconds", {"jobid": job, "cgroup": f"/slurm/job_{job}"}) for job, _, _ in rows]
    samples = [((name, names), value) for (name, names), (_, value, _) in zip(labels, rows, strict=True)]
    samples += [(("slurm_job_memory_usage", names), value) for (_, names), (_, _, value) in zip(labels, rows,
                                                                                                 strict=True)]
    for reading in parse(samples, TARGET, 1.0).jobs:
        numbers = [number for number in (reading.cpu_seconds, reading.memory_used_bytes) if number is not None]
        assert numbers
        assert all(math.isfinite(number) and number >= 0 for number in numbers)


def test_pages_are_read_over_http_and_a_job_seen_by_two_exporters_counts_once(loopback, clock):
    loopback.pages["/one"] = loopback.pages["/two"] = jobstats(5, 10, 20).encode()
    groups = [{"targets": [loopback.url(path)], "labels": {"node": "n1"}} for path in ("/one", "/two")]
    source = CgroupConfig(kind="cgroup", static_configs=groups).build(clock)
    assert source.read().jobs == (JobReading("5", "n1", clock.now, 10, 20),)
    source.close()


def cadvisor(pod: str, seconds: object, used: object, container: str = "", namespace: str = "team") -> str:
    """Return what a kubelet writes of a pod, or of a container of it."""
    labels = f'{{container="{container}",id="/kubepods/pod1",image="",name="",namespace="{namespace}",pod="{pod}"}}'
    return (f"container_cpu_usage_seconds_total{labels} {seconds} 99000\n"  # of when the kubelet looked, in ms
            f"container_memory_working_set_bytes{labels} {used} 99000\n")


def test_a_pod_is_what_its_own_cgroup_says_and_its_containers_are_not_counted_again():
    page = cadvisor("train-0", 70, 3e9) + cadvisor("train-0", 60, 2e9, "main") + cadvisor("train-0", 9, 1e9, "sidecar")
    assert read(page) == (JobReading("team/train-0", "dgx-01", 100.0, 70, 3e9),)


def test_where_only_containers_are_told_they_add_up_but_for_the_pause():
    page = "".join((cadvisor("train-0", 60, 2e9, "main"), cadvisor("train-0", 9, 1e9, "sidecar"),
                    cadvisor("train-0", 1, 1, "POD")))
    assert read(page) == (JobReading("team/train-0", "dgx-01", 100.0, 69, 3e9),)


def test_what_is_of_no_pod_or_has_a_name_that_no_pod_has_is_left_out():
    page = cadvisor("", 5, 5, namespace="") + cadvisor("p", 5, 5, namespace="") + cadvisor("../x", 5, 5) \
        + cadvisor("p" * 300, 5, 5) + 'container_cpu_usage_seconds_total{id="/"} 9\n'
    assert read(page) == ()
