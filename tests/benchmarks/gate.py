"""The gate's errors and its power on made-up history.

``python tests/benchmarks/gate.py [YEARS] [errors|power|promotion|demotion]``; the last two print the frontier between
errors and power. IDLEWATT_WORKERS says how many processes. Every year is replayed by itself under both policies;
nothing is resampled, so that years are independent.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

import numpy as np
from gate_trials import Year, daily, demoted, upper
from null_sites import NULLS, turning

from idlewatt.daemon.learning.promotion_criteria import ERROR, TRIALS, share
from idlewatt.daemon.settings.training import TRIAL_S

DAY_S = 86400.0
SIZES = ({"nodes": 4, "daily": 120}, {"nodes": 8, "daily": 300}, {"nodes": 16, "daily": 600})
WINDOWS = (14, 28)
ERRORS = (0.0125, 0.025, 0.05, 0.1, 0.25, 0.5)
"""Of a year, between which and power the frontier lies."""
QUIET_DAYS = 90
"""An agent that is 8 % better is in charge for so long, and then becomes worse."""


def of_null(null, seed):
    """Return the outcome of one year: intervals by window, and whether an equal agent was promoted."""
    size = SIZES[0]
    year = Year.of_null(null, seed, **size)
    windows = {days: list(year.windows(days)) for days in WINDOWS}
    tried = [year.promoted(share(TRIALS), number * TRIAL_S, (number + 1) * TRIAL_S) for number in range(TRIALS)]
    return windows, year.promoted(ERROR) is not None, any(day is not None for day in tried)


def errors(years, workers):
    """Print coverage and false promotions by null."""
    with ProcessPoolExecutor(workers) as pool:
        for null in NULLS:
            found = list(pool.map(of_null, repeat(null, years), range(years), chunksize=10))
            for days in WINDOWS:
                told = [one for windows, _, _ in found for one in windows[days]]
                known = [covers for is_known, covers in told if is_known]
                print(f"{null:17} {days} days: interval covers {np.mean(known):.1%} of {len(known)}; "
                      f"{1 - len(known) / len(told):.0%} not enough yet")
            for words, place in (("one agent, looked at every night", 1), (f"{TRIALS} agents in turn", 2)):
                wrong = sum(one[place] for one in found)
                print(f"{null:17} promoted in a year, {words}: {wrong} of {years} = {wrong / years:.2%}, "
                      f"upper 95 % limit {upper(wrong, years):.2%}", flush=True)


def of_better(weight, size, seed):
    """Return the mean ratio of a history of half a year, and when the agent was promoted by error."""
    year = Year.of_better(weight, seed, 182.0, **SIZES[size])
    return year.ours.sum() / year.theirs.sum(), [year.promoted(error) or 999.0 for error in (ERROR, share(TRIALS))]


def power(histories, workers):
    """Print how soon a better agent is promoted, by size of the site and by how much better it is."""
    with ProcessPoolExecutor(workers) as pool:
        for size, weights in ((0, (0.2, 0.4)), (1, (0.2, 0.3)), (2, (0.2, 0.4))):
            for weight in weights:
                seeds = range(10**6, 10**6 + histories)
                found = list(pool.map(of_better, repeat(weight, histories), repeat(size), seeds, chunksize=5))
                ratio = np.mean([one[0] for one in found])
                for place, error in enumerate((ERROR, share(TRIALS))):
                    days = np.array([one[1][place] for one in found])
                    print(f"{SIZES[size]['nodes']:3} nodes, mean JCT {ratio:.3f}, error {error:.2%}: promoted within "
                          f"60 days in {np.mean(days <= 60):.0%}, 80 % after {np.quantile(days, 0.8):.0f} days",
                          flush=True)


def when_promoted(weight, size, seed):
    """Return the mean ratio of a half-year, and on which day each of ``ERRORS`` lets a better agent be promoted."""
    year = Year.of_better(weight, seed, 182.0, **SIZES[size])
    return year.ours.sum() / year.theirs.sum(), [year.promoted(error / (2 * TRIALS)) or 999.0 for error in ERRORS]


def promotion(histories, workers):
    """Print for each error of a year how soon an agent that is 10 % better is promoted."""
    with ProcessPoolExecutor(workers) as pool:
        for size, weight in ((0, 0.3), (1, 0.25), (2, 0.3)):
            seeds = range(2 * 10**6, 2 * 10**6 + histories)
            found = list(pool.map(when_promoted, repeat(weight, histories), repeat(size), seeds, chunksize=5))
            ratio, nodes = np.mean([one[0] for one in found]), SIZES[size]["nodes"]
            for place, error in enumerate(ERRORS):
                days = np.array([one[1][place] for one in found])
                print(f"promotion, {nodes:2} nodes, mean JCT {ratio:.3f}, error of a year {error:.2%}: within 60 days "
                      f"{np.mean(days <= 60):.0%}, 80 % after {np.quantile(days, 0.8):.0f} days", flush=True)


def when_demoted(weights, size, seed):
    """Return how an agent did before and after it turned, and per error when it was demoted, counted from the turn."""
    ours, theirs = turning(weights[0], weights[1], seed, QUIET_DAYS, 90, **SIZES[size])
    regret = daily(ours, theirs)
    before, after = regret[1:QUIET_DAYS], regret[QUIET_DAYS:]
    return before.mean(), after.mean(), [demoted(regret, error) - QUIET_DAYS for error in ERRORS]


def demotion(histories, workers):
    """Print for each error how often a better agent is wrongly demoted, and how soon one is that has become worse."""
    with ProcessPoolExecutor(workers) as pool:
        for size, weights in ((0, (0.25, -0.35)), (1, (0.2, -0.3)), (2, (0.25, -0.4))):
            seeds = range(3 * 10**6, 3 * 10**6 + histories)
            found = list(pool.map(when_demoted, repeat(weights, histories), repeat(size), seeds, chunksize=5))
            before, after = (1 + np.mean([one[place] for one in found]) for place in (0, 1))
            for place, error in enumerate(ERRORS):
                days = np.array([one[2][place] for one in found], float)
                wrong, rest = int((days < 0).sum()), days[days >= 0]
                nodes = SIZES[size]["nodes"]
                print(f"demotion, {nodes:2} nodes, ratio {before:.3f}, then {after:.3f}; error of a year "
                      f"{error:.2%}: wrongly within {QUIET_DAYS} days {wrong / histories:.1%} (upper 95 % limit "
                      f"{upper(wrong, histories):.1%}); within 7 days {np.mean(rest <= 7):.0%}, 14 days "
                      f"{np.mean(rest <= 14):.0%}, 90 % after {np.quantile(rest, 0.9):.0f} days", flush=True)


def main():
    """Run the parts that were asked for."""
    years, workers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(os.environ.get("IDLEWATT_WORKERS", "2"))
    wanted = sys.argv[2:] or ["errors", "power"]
    if "errors" in wanted:
        errors(years, workers)
    for name, part in (("power", power), ("promotion", promotion), ("demotion", demotion)):
        if name in wanted:
            part(max(20, years // 5), workers)


if __name__ == "__main__":
    main()
