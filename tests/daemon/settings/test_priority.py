import pytest

from idlewatt.daemon.settings.priority import PRIORITY_LINES, BackfillSettings, PrioritySettings

SHOWN = {  # as `scontrol show config` of Slurm 22.05 prints it
    "PriorityType": "priority/multifactor", "PriorityDecayHalfLife": "7-00:00:00", "PriorityCalcPeriod": "00:05:00",
    "PriorityFavorSmall": "No", "PriorityFlags": "NO_FAIR_TREE,ACCRUE_ALWAYS", "PriorityMaxAge": "14-00:00:00",
    "PriorityUsageResetPeriod": "NONE", "PriorityWeightAge": "1000", "PriorityWeightAssoc": "0",
    "PriorityWeightFairShare": "100000", "PriorityWeightJobSize": "5000", "PriorityWeightPartition": "20",
    "PriorityWeightQOS": "3000", "PriorityWeightTRES": "CPU=1000,Mem=2000,GRES/gpu=3000",
    "FairShareDampeningFactor": "5"}


def test_what_scontrol_shows_is_understood_and_nothing_is_unset():
    settings = PrioritySettings.of(SHOWN)

    assert (settings.age, settings.fair_share, settings.job_size, settings.qos) == (1000, 100000, 5000, 3000)
    assert settings.resources == {"cpu": 1000, "mem": 2000, "gres/gpu": 3000}
    assert (settings.max_age_s, settings.half_life_s, settings.calc_period_s) == (14 * 86400, 7 * 86400, 300)
    assert not settings.fair_tree
    assert settings.dampening == 5
    assert settings.unset == ()


def test_what_nobody_told_is_named():
    settings = PrioritySettings.of({"PriorityWeightAge": "10"})

    assert set(PRIORITY_LINES) - set(settings.unset) == {"PriorityWeightAge"}
    assert PrioritySettings().unset == PRIORITY_LINES


@pytest.mark.parametrize(("text", "seconds"), [
    ("7-0", 7 * 86400), ("7-00:00:00", 7 * 86400), ("00:00:00", 0), ("14", 840), ("NONE", 0), ("1-12:00:00", 129600)])
def test_durations_are_those_of_slurm(text, seconds):
    assert PrioritySettings.of({"PriorityDecayHalfLife": text}).half_life_s == seconds


def test_usage_halves_in_a_half_life_and_never_decays_without_one():
    assert PrioritySettings(half_life_s=3600).decay ** 3600 == pytest.approx(0.5, rel=1e-3)
    assert PrioritySettings(half_life_s=0).decay == 1


def test_a_weight_that_is_no_number_is_named():
    with pytest.raises(ValueError, match=r"PriorityWeightAge='lots' is no number"):
        PrioritySettings.of({"PriorityWeightAge": "lots"})


def test_backfill_parameters_have_slurms_defaults_and_nonsense_does_not_change_them():
    assert BackfillSettings.of(("defer", "bf_window=2880", "bf_resolution=300", "bf_max_job_test=50")) == \
        BackfillSettings(30, 2880 * 60, 300, 50)
    assert BackfillSettings.of(("bf_interval=soon", "bf_window=-1", "bf_max_job_array_resv=-3")) == BackfillSettings()


def test_nodes_are_kept_for_one_task_of_an_array_at_least():
    assert [BackfillSettings.of((f"bf_max_job_array_resv={given}",)).array_plans for given in ("0", "1", "50")] == [
        1, 1, 50]


def test_parameters_that_replays_do_not_go_by_are_named_unless_they_are_switched_off():
    found = BackfillSettings.of(("defer", "bf_continue", "bf_max_job_user=20", " BF_One_Resv_Per_Job",
                                 "bf_max_job_part=0", "default_queue_depth=500", "bf_interval=60"))
    assert found == BackfillSettings(60.0, unfollowed=("bf_max_job_user", "bf_one_resv_per_job", "default_queue_depth"))


def test_what_the_formula_does_not_follow_is_named_and_what_changes_nothing_is_not():
    found = PrioritySettings.of({
        "PriorityWeightAssoc": "10", "PriorityWeightFairShare": "5", "PriorityUsageResetPeriod": "MONTHLY",
        "PrioritySiteFactorPlugin": "site_factor/own",
        "PriorityWeightTRES": "CPU=1,Mem=2,node=3,billing=4,GRES/gpu=5,GRES/gpu:a100=6,license/matlab=7,"
                              "GRES/nic=8,vmem=0",
        "PriorityFlags": "INCR_ONLY,CALCULATE_RUNNING,MAX_TRES,NO_NORMAL_ALL,NO_FAIR_TREE,DEPTH_OBLIVIOUS,"
                         "ACCRUE_ALWAYS"})
    assert found.unfollowed == (
        "PriorityWeightAssoc", "PriorityWeightTRES=license/matlab", "PriorityWeightTRES=gres/nic",
        "PriorityFlags=ACCRUE_ALWAYS", "PriorityFlags=CALCULATE_RUNNING", "PriorityFlags=DEPTH_OBLIVIOUS",
        "PriorityFlags=INCR_ONLY", "PriorityUsageResetPeriod", "PrioritySiteFactorPlugin")
    assert PrioritySettings.of(SHOWN).unfollowed == ("PriorityFlags=ACCRUE_ALWAYS",)
    assert PrioritySettings.of({"PriorityUsageResetPeriod": "MONTHLY"}).unfollowed == ()  # nothing rests on usage


@pytest.mark.parametrize(("flags", "normal"), [
    ("", {"QOS", "PART", "TRES"}), ("NO_NORMAL_QOS", {"PART", "TRES"}), ("NO_NORMAL_ALL", set()),
    ("NO_NORMAL_TRES,NO_NORMAL_PART", {"QOS"})])
def test_factors_are_brought_to_0_to_1_unless_flags_say_otherwise(flags, normal):
    settings = PrioritySettings.of({"PriorityFlags": flags})
    assert {what for what in ("QOS", "PART", "TRES") if settings.normal(what)} == normal
