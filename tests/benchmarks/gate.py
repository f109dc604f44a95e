"""The gate's errors and its power on made-up history: ``python tests/benchmarks/gate.py [YEARS] [errors|power]``.

Every year is replayed by itself under both policies; nothing is resampled, so that years are independent.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

import numpy as np
from gate_trials import Year, upper
from null_sites import NULLS

from idlewatt.daemon.learning.promotion_criteria import ERROR, TRIALS, share
from idlewatt.daemon.settings.training import TRIAL_S

DAY_S = 86400.0
SIZES = ({"nodes": 4, "daily": 120}, {"nodes": 8, "daily": 300}, {"nodes": 16, "daily": 600})
WINDOWS = (14, 28)


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


def main():
    """Run the parts that were asked for."""
    years = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    wanted = sys.argv[2:] or ["errors", "power"]
    if "errors" in wanted:
        errors(years, 2)
    if "power" in wanted:
        power(max(20, years // 5), 2)


if __name__ == "__main__":
    main()
