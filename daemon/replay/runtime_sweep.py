"""Go through submissions in time, and foretell each job's run from what had become known before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .bursts import FIRST, Bursts, end_in_burst, submit_to_burst
from .compiled import compiled_with_arrays
from .last_runs import MEMORIES, LastRuns, expect, expect_quantiles, last_runs, learn_run
from .quantile_mixture import Mixture, await_outcome, learn_outcomes, mix
from .quantiles import centre, product_limit, quantiles_of

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]

FORGET = 0.99
"""What an error of an earlier job still counts beside one of the next."""
ERRORS, ENOUGH, KNOWN = 600, 20, 10
"""Last jobs whose errors make an interval; those that a level must have for one of its own, and errors among them."""
RENEWED = 8
"""An interval is worked out again after so many jobs."""
BY_ERRORS, BY_FEW, BY_MANY, BY_BURSTS, WAYS = 0, 1, 2, 3, 4
"""Ways of forecasting quantiles: how far estimates were off, a group's last runs, and those that began its bursts."""


class Runs(NamedTuple):
    """What became of the jobs."""

    submit_s: Floats
    started_s: Floats
    """NaN where nobody knows it."""
    ended_s: Floats
    value: Floats
    """Logarithm of the run time, in units; NaN where there is none."""
    unit_s: Floats
    """Of each job: a second, or its limit."""


class _Errors(NamedTuple):
    """The last jobs of each level, and the quantiles of how far estimates were off for them."""

    jobs: Groups
    """[level, place]"""
    seen: Codes
    quantiles: Floats
    """[level, quantile]; NaN while too few are known."""
    asked: Codes
    """[level] since they were worked out."""


class SweepMemory(NamedTuple):
    """What is known after some submissions."""

    estimate: Floats
    """[job, memory]"""
    chosen: Codes
    """[job] level, and how many runs it had; -1 where nothing was known."""
    evidence: Codes
    off: Floats
    """[memory] errors of late."""
    learnt: Codes
    """One number: how many ends were learnt."""
    last: LastRuns
    first: LastRuns
    """Of each burst."""
    bursts: Bursts
    errors: _Errors
    mixture: Mixture

    @classmethod
    def of(cls, groups: Groups, finest: Codes, quantiles: int) -> SweepMemory:
        """Return what is known before any submission."""
        levels, size = groups.shape
        errors = _Errors(np.zeros((levels, ERRORS), np.int32), np.zeros(levels, np.int64),
                         np.full((levels, quantiles), np.nan), np.zeros(levels, np.int64))
        mixture = Mixture.of(size, WAYS, quantiles)
        return cls(np.full((size, len(MEMORIES)), np.nan), np.full(size, -1), np.zeros(size, np.int64),
                   np.zeros(len(MEMORIES)), np.zeros(1, np.int64), LastRuns.of(groups), LastRuns.of(groups),
                   Bursts.of(finest), errors, mixture)


@compiled_with_arrays
def sweep(order: Codes, ends: Codes, runs: Runs, quantiles: Floats, memory: SweepMemory) -> None:
    """Go on through submissions in time; what ended before one, or at the same moment, is learnt first."""
    mixture = memory.mixture
    for job in order:
        now = runs.submit_s[job]
        _learn_ends(now, ends, runs, memory)
        learn_outcomes(now, runs.started_s, runs.ended_s, runs.value, runs.unit_s, quantiles, mixture)
        mixture.kind[job] = submit_to_burst(job, now, memory.bursts)
        if not _forecast(job, runs, quantiles, memory):
            continue
        mix(job, quantiles, mixture)
        centre(mixture.middle[job], quantiles, mixture.told[job])
        await_outcome(job, runs.started_s, runs.ended_s, runs.unit_s, mixture)


@compiled_with_arrays
def _learn_ends(now: float, ends: Codes, runs: Runs, memory: SweepMemory) -> None:
    learnt, seen = memory.learnt[0], memory.mixture.seen
    while learnt < len(ends) and runs.ended_s[ends[learnt]] <= now:
        ended = ends[learnt]
        value = runs.value[ended]
        if memory.chosen[ended] >= 0:
            memory.off[:] = FORGET * memory.off + np.abs(value - memory.estimate[ended])
        learn_run(ended, value, memory.last)
        if memory.bursts.place[ended] < FIRST:
            learn_run(ended, value, memory.first)
        end_in_burst(ended, memory.bursts)
        seen[0], seen[1] = min(seen[0], value), max(seen[1], value)
        learnt += 1
    memory.learnt[0] = learnt


@compiled_with_arrays
def _forecast(job: int, runs: Runs, quantiles: Floats, memory: SweepMemory) -> bool:
    """Fill in the median and each way's forecast; return whether anything is known."""
    ways = memory.mixture.ways[job]
    memory.chosen[job], memory.evidence[job] = expect(job, memory.last, quantiles, memory.estimate[job],
                                                      ways[BY_FEW], ways[BY_MANY])
    if memory.chosen[job] < 0:
        return False
    memory.mixture.middle[job] = memory.estimate[job, np.argmin(memory.off)]
    _by_errors(job, runs, quantiles, memory, ways[BY_ERRORS])
    if not expect_quantiles(job, memory.first, quantiles, ways[BY_BURSTS]):
        ways[BY_BURSTS] = ways[BY_MANY]
    return True


@compiled_with_arrays
def _by_errors(job: int, runs: Runs, quantiles: Floats, memory: SweepMemory, out: Floats) -> None:
    """Fill in quantiles by how far estimates were off for the last jobs of the same level, or else of all."""
    errors, middle, chosen = memory.errors, memory.mixture.middle, memory.chosen[job]
    everyone = len(errors.seen) - 1
    level = chosen if errors.seen[chosen] >= ENOUGH else everyone
    _renew(level, runs.submit_s[job], runs, middle, errors, quantiles)
    if np.isnan(errors.quantiles[level, 0]):
        quantiles_of(last_runs(job, chosen, memory.last), quantiles, out)
    else:
        out[:] = middle[job] + errors.quantiles[level]
    centre(middle[job], quantiles, out)
    for noted in (chosen, everyone):
        if noted == everyone or chosen != everyone:
            errors.jobs[noted, errors.seen[noted] % ERRORS] = job
            errors.seen[noted] += 1


@compiled_with_arrays
def _renew(level: int, now: float, runs: Runs, told: Floats, errors: _Errors, quantiles: Floats) -> None:
    """Work out the quantiles of a level's errors once in a while."""
    errors.asked[level] += 1
    if errors.asked[level] < RENEWED and not np.isnan(errors.quantiles[level, 0]):
        return
    off, open_ended, count, known = np.empty(ERRORS), np.zeros(ERRORS, np.bool_), 0, 0
    for place in range(min(errors.seen[level], ERRORS)):
        job = errors.jobs[level, place]
        if runs.ended_s[job] <= now and not np.isnan(runs.value[job]):
            off[count] = runs.value[job] - told[job]
            count, known = count + 1, known + 1
        elif runs.started_s[job] < now and not np.isnan(runs.unit_s[job]):
            off[count] = np.log(max(now - runs.started_s[job], 1.0) / runs.unit_s[job]) - told[job]
            open_ended[count] = True
            count += 1
    if known >= KNOWN:
        product_limit(off[:count], open_ended[:count], quantiles, errors.quantiles[level])
        errors.asked[level] = 0
