"""The daemon's own cycle, on a simulated cluster; what a window comes to is tested in test_past.py."""

import threading
from dataclasses import replace

import pytest

from idlewatt.daemon.counterfactual import Counterfactual, ReplayedWindow
from idlewatt.daemon.efficiency.digest import Saved
from idlewatt.daemon.view import DaemonView

CYCLES = "{scrape: 2m, jobs: 1h, assess: 1h, advise: 1h, record: 1h, counterfactual: 30m}"
STEP_S = 120.0


def published(service):
    return DaemonView(service, lambda: service.settings).published()


def watched(rig, minutes, **changes):
    service = rig.service(cycles=CYCLES, **changes)
    for cycle in (service.jobs, service.scrape, service.assess):
        cycle()
    rig.watch(service, 60.0 * minutes, STEP_S)
    service.record()
    service.advise()
    return service


def test_closed_windows_are_published_by_policy_with_the_simulators_own_error(rig):
    service = watched(rig, 75)
    assert published(service).simulated_energy_joules_total == {}
    assert published(service).simulation_energy_error_ratio is None
    service.counterfactual()
    facts = published(service)
    assert set(facts.simulated_energy_joules_total) == {"fifo+first-fit+easy", "limit-aged+best-fit+easy"}
    assert all(joules > 0 for joules in facts.simulated_energy_joules_total.values())
    assert abs(facts.simulation_energy_error_ratio) < 0.25
    assert set(facts.simulated_wait_seconds_total) == set(facts.simulated_energy_joules_total)
    assert facts.simulation_wait_error_ratio is None, "fewer than ten jobs have waited"
    service.counterfactual()  # nothing more has closed
    assert published(service).simulated_energy_joules_total == facts.simulated_energy_joules_total
    rig.watch(service, 1800.0, STEP_S)
    service.record()
    service.counterfactual()
    later = published(service).simulated_energy_joules_total
    assert all(later[policy] > joules for policy, joules in facts.simulated_energy_joules_total.items())


@pytest.mark.long
def test_a_restart_resets_no_counter_and_goes_on_where_it_was(rig):
    service = watched(rig, 75)
    service.counterfactual()
    before = published(service)
    rig.services.remove(service)
    service.stop()
    later = rig.service(cycles=CYCLES)
    assert later.known.counterfactual == service.known.counterfactual
    after = published(later)
    assert after.simulated_energy_joules_total == before.simulated_energy_joules_total
    assert after.simulated_wait_seconds_total == before.simulated_wait_seconds_total
    assert after.simulation_energy_error_ratio == before.simulation_energy_error_ratio
    later.counterfactual()  # nothing more has closed
    assert published(later).simulated_energy_joules_total == before.simulated_energy_joules_total


def test_a_clock_that_was_set_back_begins_anew():
    ahead = Counterfactual(until_s=1e9)
    assert ahead.next(1e9 + 7200, 3600.0) == (1e9, (1e9 + 6300) // 300 * 300)
    assert ahead.next(1e8, 3600.0) == Counterfactual().next(1e8, 3600.0)


def test_a_gpu_can_tell_the_incumbent_from_who_advises(rig):
    service = rig.service(cycles=CYCLES, advice="{policy: sjf-limit+best-fit+easy, shadow: [fifo+first-fit]}")
    assert set(published(service).policy_info) == {
        ("fifo+first-fit+easy", "incumbent"), ("sjf-limit+best-fit+easy", "active"), ("fifo+first-fit", "shadow")}


@pytest.mark.long
def test_the_active_incumbent_is_one_series_and_so_saves_nothing(rig):
    service = watched(rig, 60, advice="{policy: fifo+first-fit+easy, shadow: []}")
    service.counterfactual()
    assert list(published(service).simulated_energy_joules_total) == ["fifo+first-fit+easy"]


def test_a_stop_does_not_wait_for_a_replay(rig):
    service = watched(rig, 60)
    busy = threading.Thread(target=service.counterfactual)
    busy.start()
    service._replays.end()
    busy.join(60)
    assert not busy.is_alive()


def test_an_unknown_incumbent_is_told_when_the_configuration_is_read(rig):
    with pytest.raises(Exception, match="'slurm' is no rule"):
        rig.service(counterfactual="{incumbent: slurm}")


def summed(*windows, incumbent="A", before=None):
    """Return the totals after windows of such joules by policy, each with a second of waiting for a joule."""
    known = before or Counterfactual()
    for joules in windows:
        known = known.plus(ReplayedWindow((known.until_s or 0.0) + 3600.0, joules, 0.02, joules), incumbent)
    return known


def saved(known, policy="B", incumbent="A"):
    found = Saved.of(known, incumbent, policy)
    return None if found is None else (found.joules, found.of_joules)


def test_a_policy_that_came_later_has_not_saved_what_the_incumbent_took_before():
    known = summed({"A": 10.0}, {"A": 10.0, "B": 9.0})
    assert saved(known) == (1.0, 10.0)
    assert saved(summed({"A": 20.0, "B": 21.0}, before=known)) == (0.0, 30.0)
    assert saved(known, "A") is saved(known, "C") is saved(summed({"A": 10.0})) is None


def test_a_window_in_which_an_agent_could_not_be_replayed_saves_nothing_in_the_digest_or_between_counters():
    before = summed({"A": 10.0, "B": 9.0, "C": 8.0})
    after = summed({"A": 10.0, "C": 8.0}, before=before)
    assert saved(after) == saved(before) == (1.0, 10.0)
    assert saved(after, "C") == (4.0, 20.0)
    assert after.joules == after.wait_s == {"A": 20.0, "B": 19.0, "C": 16.0}
    assert summed({"A": 10.0}).joules == {"A": 10.0}, "who was never replayed has no counter"


def test_what_was_saved_beside_another_incumbent_says_nothing_of_this_one():
    before = summed({"A": 10.0, "B": 9.0})
    assert saved(before, incumbent="N") is None
    after = summed({"N": 30.0, "B": 25.0}, incumbent="N", before=before)
    assert saved(after, incumbent="N") == (5.0, 30.0)
    assert saved(after) is None


def test_what_was_saved_outlives_a_restart_and_totals_of_an_older_version_say_nothing_of_it():
    known = summed({"A": 10.0}, {"A": 10.0, "B": 9.0})
    restored = Counterfactual.restored(known.totals())
    assert restored == known
    older = [replace(total, incumbent="", saved_joules=0.0, of_joules=0.0) for total in known.totals()]
    assert saved(Counterfactual.restored(older)) is None
    assert saved(summed({"A": 10.0, "B": 8.0}, before=Counterfactual.restored(older))) == (2.0, 10.0)


def test_the_digest_of_the_api_says_what_advice_saved_of_the_policies_in_force(rig):
    service = rig.service(cycles=CYCLES, advice="{policy: sjf-limit+best-fit+easy, shadow: []}")
    view = DaemonView(service, lambda: service.settings)
    assert view.saved() is None
    window = {"fifo+first-fit+easy": 10.0, "sjf-limit+best-fit+easy": 9.0}
    known = summed({"fifo+first-fit+easy": 10.0}, window, incumbent="fifo+first-fit+easy")
    service.known = replace(service.known, counterfactual=known)
    assert view.saved() == Saved("sjf-limit+best-fit+easy", "fifo+first-fit+easy", 1.0, 10.0, 0.02)
