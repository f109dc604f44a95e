"""How often the told cause of an underused GPU is the right one, on jobs that the rules were not tuned on."""

import time
from collections import Counter
from dataclasses import replace

import pytest
from labelled import Labelled, levels, verdict, watch
from training_loops import KINDS, job

from idlewatt.daemon.causes import CauseWatch
from idlewatt.storage.underuse import Cause

HELD_APART = 900_000
"""Seeds from here on were never looked at while rules were written."""


def site() -> CauseWatch:
    """Return a watch that has seen such a GPU at its highest clock, as any site's has after a while."""
    return watch(levels(Cause.NONE, 0, minutes=6, interval_s=60.0))


def confusion(jobs: list[Labelled]) -> Counter[tuple[Cause, Cause]]:
    return Counter((one.label, verdict(one, site())) for one in jobs)


def figures(found: Counter[tuple[Cause, Cause]]) -> tuple[float, float, float]:
    """Return precision of what is told, share of jobs with a cause of which one is told, share of clean ones blamed."""
    told = sum(count for (_, says), count in found.items() if says.known)
    right = sum(count for (is_, says), count in found.items() if says.known and says is is_)
    caused = sum(count for (is_, _), count in found.items() if is_.known)
    said = sum(count for (is_, says), count in found.items() if is_.known and says.known)
    clean = sum(count for (is_, _), count in found.items() if is_ is Cause.NONE)
    blamed = sum(count for (is_, says), count in found.items() if is_ is Cause.NONE and says.known)
    return right / told, said / caused, blamed / clean


def show(found: Counter[tuple[Cause, Cause]]) -> None:
    says = [cause for cause in Cause if cause is not Cause.UNKNOWN]
    print("\n" + " " * 18 + "".join(f"{one.value[:9]:>10}" for one in says))
    for row in Cause:
        if any(is_ is row for is_, _ in found):
            print(f"{row.value:>18}" + "".join(f"{found[row, one] or '':>10}" for one in says))


@pytest.mark.parametrize("batch", [0, 1])
def test_what_is_told_is_right_on_loops_that_the_rules_were_not_tuned_on(batch):
    began = time.perf_counter()
    first = HELD_APART + 1000 * batch
    jobs = [job(kind, seed) for kind in KINDS for seed in range(first, first + (60 if kind == "clean" else 20))]
    found = confusion(jobs)
    show(found)
    precision, told, blamed = figures(found)
    print(f"{len(jobs)} jobs: precision {precision:.3f}, told {told:.3f}, clean jobs blamed {blamed:.3f}; "
          f"{time.perf_counter() - began:.0f} s")
    assert precision >= 0.9
    assert told >= 0.5
    assert blamed <= 0.02


def test_many_clean_jobs_are_not_blamed():
    jobs = [job("clean", HELD_APART + 5000 + seed) for seed in range(300)]
    *_, blamed = figures(confusion(jobs) + Counter({(Cause.HEAT, Cause.HEAT): 1}))
    print(f"\n300 clean jobs: {blamed:.4f} blamed")
    assert blamed <= 0.02


def test_other_noise_and_levels_of_the_tuning_generator():
    jobs = [replace(levels(cause, HELD_APART + seed), label=cause) for cause in (
        Cause.NONE, *(one for one in Cause if one.known)) for seed in range(20)]
    found = confusion(jobs)
    show(found)
    precision, told, blamed = figures(found)
    print(f"precision {precision:.3f}, told {told:.3f}, blamed {blamed:.3f}")
    assert (precision, blamed) >= (0.95, 0.0)
