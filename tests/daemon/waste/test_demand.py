import pytest

from idlewatt.daemon.waste.demand import DAY_S, MOST_SHAPES_A_DAY, DemandMix, need
from idlewatt.exporters.slurm.reasons import wait_reason
from idlewatt.storage.eligibility import eligible


@pytest.mark.parametrize("reason", ["Dependency", "JobHeldUser", "JobHeldAdmin", "Licenses", "AssocGrpGRES",
                                    "QOSMaxGRESPerUser", "BeginTime", "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit",
                                    "ReqNodeNotAvail"])
def test_a_job_that_freedom_would_not_start_strands_nobody(site, reason):
    assert not eligible(site.pending(reason=wait_reason(reason)), 1000.0)


@pytest.mark.parametrize("reason", ["Resources", "Priority", "None", ""])
def test_a_job_that_waits_for_resources_is_eligible(site, reason):
    assert eligible(site.pending(reason=wait_reason(reason)), 1000.0)


def test_a_job_whose_time_has_not_come_is_not_eligible(site):
    assert not eligible(site.pending(eligible_s=2000.0), 1000.0)
    assert not eligible(site.running(), 1000.0)


@pytest.mark.parametrize(("request_", "gpus", "cpus", "sets", "splits"), [
    ({"gpus": 16, "nodes": 2, "cpus": 256}, 8, 128, 2, False),
    ({"gpus": 8, "gpus_per_node": None, "cpus": 64}, 1, 8, 8, True),
    ({"gpus": 12, "nodes": 2, "gpus_per_node": None}, 6, 0, 2, False),
    ({"gpus": 16, "nodes": 1, "gpus_per_node": 8}, 8, 0, 2, False),
])
def test_the_need_per_node_follows_from_the_request(site, request_, gpus, cpus, sets, splits):
    wanted = need(site.pending(**request_))
    assert (wanted.gpus, wanted.cpus, wanted.sets, wanted.splits) == (gpus, cpus, sets, splits)


def test_a_job_without_gpus_needs_none(site):
    assert need(site.pending(gpus=0, gpus_per_node=None)) is None


def test_a_job_counts_once_however_often_it_is_seen(site):
    mix = DemandMix()
    for _ in range(50):
        mix.observe([site.pending("1", 1), site.pending("2", 8), site.pending("3", 8)], 1000.0)
    assert [(shape.gpus, share) for shape, share in mix.mix("gpu")] == [(8, pytest.approx(2 / 3)),
                                                                       (1, pytest.approx(1 / 3))]
    assert mix.mix("other") == []


def test_demand_is_forgotten_after_seven_days(site):
    mix = DemandMix()
    mix.observe([site.pending("1", 1)], 0.0)
    mix.observe([site.pending("2", 8, submit_s=6 * DAY_S)], 6 * DAY_S)
    assert len(mix.mix("gpu")) == 2
    mix.observe([], 7 * DAY_S)
    assert [shape.gpus for shape, _ in mix.mix("gpu")] == [8]


def test_a_flood_of_odd_requests_is_bounded(site):
    mix = DemandMix()
    mix.observe([site.pending(str(number), 1, cpus=number) for number in range(3 * MOST_SHAPES_A_DAY)], 1000.0)
    assert sum(len(day) for day in mix._days.values()) == MOST_SHAPES_A_DAY
    assert sum(share for _, share in mix.mix("gpu")) == pytest.approx(1.0)
