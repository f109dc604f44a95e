"""Predicted run times beside simpler and dearer ones: ``python tests/benchmarks/runtimes.py [TRACES]``.

*Before* are the quantiles of the last 32 runs of the most specific group that has three: what is to be improved on.
Every job of a trace is predicted from those that had ended when it came, each taken to start when it was submitted. The
regression (LightGBM, one model a quantile) is learned anew after every so many submissions from all that had ended by
then, from the same facts: size, user, partition, hour and day, and the last runs of the same user and size.
"""

import sys
import time
from collections import defaultdict, deque
from pathlib import Path

import numpy as np

from idlewatt.daemon.agents.histories import subset
from idlewatt.daemon.replay.runtime_prediction import JobFeatures, predict
from idlewatt.daemon.replay.workload_builder import from_trace
from idlewatt.storage.traces import read_trace

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
QUARTILES = (1, 2, 3)
MEMORY, ENOUGH = 32, 3
"""Of what was done before."""
RENEWALS, LEAST = 20, 200
"""How often the regression is learned in a trace, and from how many jobs at least."""
NEAR = 50
"""Pairs of jobs submitted within so many of one another are put in order."""
PHILLY, VENUS = "philly/philly_jobs.csv.gz", "helios_venus/helios_venus_2vc_sept.csv"
TRACES = (("Venus vcvGl", VENUS, "vcvGl", 0), ("Venus vcvlY", VENUS, "vcvlY", 0),
          ("Philly 0e4a51", PHILLY, "0e4a51", 0),
          ("Philly 7f04ca", PHILLY, "7f04ca", 0), ("Philly 11cb48", PHILLY, "11cb48", 0),
          ("Philly, first 20,000", PHILLY, "", 20000),
          ("openb", "alibaba_openb_2023/openb_pod_list_default.csv.gz", "", 0),
          ("Lingjun", "alibaba_lingjun_2023/crux_jobs.csv", "", 0))


OTHERS = ("6214e9", "b436b2", "ed69ec", "e13805", "103959", "6c71a0")
"""Virtual clusters of Philly on which the constants of the predictor were looked at, and no others."""
SLICES = range(20_000, 100_000, 20_000)
"""And where its whole history was begun anew."""


def jobs_of(file, partition, most, after=0):
    """Return the jobs of a trace that ran."""
    work = from_trace(read_trace(file)).workload
    kept = work.run > 0
    if partition:
        named = [name.startswith(partition) for name in work.partition_names]
        kept &= work.partition == named.index(True)
    rows = np.flatnonzero(kept)[after:]
    return subset(work, rows[:most] if most else rows)


def before(work):
    """Return [job, quantile] of the last runs of a group."""
    end, gpus, user = work.submit + work.run, work.gpus, work.user
    keys = [[key for key in ((user[job], gpus[job]), (user[job], None), (None, gpus[job]), (None, None))
             if key[0] is None or key[0] >= 0] for job in range(len(work))]
    runs, ends, learnt = defaultdict(lambda: deque(maxlen=MEMORY)), np.argsort(end, kind="stable"), 0
    found = np.full((len(work), len(QUANTILES)), np.nan)
    for job in range(len(work)):
        while learnt < len(ends) and end[ends[learnt]] <= work.submit[job]:
            for key in keys[ends[learnt]]:
                runs[key].append(work.run[ends[learnt]])
            learnt += 1
        known = [runs[key] for key in keys[job] if len(runs[key]) >= (ENOUGH if key != (None, None) else 1)]
        if known:
            found[job] = np.quantile(known[0], QUANTILES)
    return found


def scored(run, found):
    """Return the share of pairs in the right order, both coverages and the mean quantile loss of logarithms."""
    told = np.isfinite(found).all(axis=1)
    logs, guess = np.log(np.maximum(run[told], 1.0)), np.log(np.maximum(found[told], 1.0))
    right = pairs = 0.0
    for lag in range(1, NEAR + 1):
        real, said = np.sign(logs[lag:] - logs[:-lag]), np.sign(guess[lag:, 2] - guess[:-lag, 2])
        right += (real * said > 0).sum() + 0.5 * ((real != 0) & (said == 0)).sum()
        pairs += (real != 0).sum()
    loss = np.mean([np.maximum(q * (logs - guess[:, place]), (q - 1) * (logs - guess[:, place])).mean()
                    for place, q in enumerate(QUANTILES) if place in QUARTILES])
    inside = [np.mean((logs >= guess[:, low]) & (logs <= guess[:, high])) for low, high in ((1, 3), (0, 4))]
    return right / max(pairs, 1), *inside, loss


def columns(work):
    """Return what a regression knows of each job when it comes: [job, fact]."""
    last, mean = np.full((len(work), 3), np.nan), np.full((len(work), 3), np.nan)
    keys = (work.user, work.gpus.astype(np.int64) + 1000 * work.user, work.gpus)
    end = work.submit + work.run
    order = np.argsort(end, kind="stable")
    for place, key in enumerate(keys):
        runs, learnt = {}, 0
        for job in range(len(work)):
            while learnt < len(work) and end[order[learnt]] <= work.submit[job]:
                ended = order[learnt]
                runs.setdefault(key[ended], []).append(np.log(max(work.run[ended], 1.0)))
                learnt += 1
            if some := runs.get(key[job]):
                last[job, place], mean[job, place] = some[-1], np.mean(some[-16:])
    return np.column_stack([work.gpus, work.user, work.partition, work.submit % 86400 // 3600,
                            work.submit // 86400 % 7, last, mean])


def regressed(work):
    """Return [job, quantile] by LightGBM, learned anew now and then from what had ended."""
    import lightgbm

    facts, logs, end = columns(work), np.log(np.maximum(work.run, 1.0)), work.submit + work.run
    found = np.full((len(work), len(QUANTILES)), np.nan)
    edges = np.linspace(LEAST, len(work), RENEWALS + 1).astype(int)
    for first, after in zip(edges[:-1], edges[1:], strict=True):
        known = np.flatnonzero(end <= work.submit[min(first, len(work) - 1)])
        if len(known) < LEAST or after <= first:
            continue
        for place, quantile in enumerate(QUANTILES):
            model = lightgbm.train({"objective": "quantile", "alpha": quantile, "learning_rate": 0.05, "num_leaves": 15,
                                    "min_data_in_leaf": 10, "verbosity": -1, "num_threads": 1, "seed": 0},
                                   lightgbm.Dataset(facts[known], logs[known], categorical_feature=[1, 2]), 100)
            found[first:after, place] = np.exp(model.predict(facts[first:after]))
    return np.sort(found, axis=1)


def ours(work):
    """Return [job, quantile] of the predictor."""
    return predict(submit_s=work.submit, run_s=work.run, ended_s=work.submit + work.run, started_s=work.submit,
                   features=JobFeatures(work.gpus, np.where(work.user < 0, -1, work.user), partition=work.partition),
                   quantiles=QUANTILES).quantiles


def told(name, work):
    """Print a line for each way of predicting the jobs of a history."""
    ways = {"before": before(work), "ours": ours(work)}
    begun = time.process_time()
    ours(work)
    each_us = (time.process_time() - begun) / len(work) * 1e6
    try:
        ways["regression"] = regressed(work)
        both = np.isfinite(ways["regression"]).all(axis=1) & np.isfinite(ways["ours"]).all(axis=1)
        ways["ours there"] = np.where(np.expand_dims(both, 1), ways["ours"], np.nan)
    except ImportError:
        pass
    for by, found in ways.items():
        order, half, most_of, loss = scored(work.run, found)
        print(f"{name:25} {by:10} {np.isfinite(found).all(axis=1).sum():6} {order:6.3f} {half:6.1%} {most_of:6.1%} "
              f"{loss:6.3f}" + (f" {each_us:5.1f} us" if by == "ours" else ""), flush=True)


def main():
    """Print the packaged traces, and then the histories by which the predictor was made."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/traces")
    print(f"{'trace':25} {'by':10} {'jobs':>6} {'order':>6} {'25-75':>6} {'5-95':>6} {'loss':>6}")
    for name, file, partition, most in TRACES:
        told(name, jobs_of(folder / file, partition, most))
    for partition in OTHERS:
        told(f"Philly {partition}", jobs_of(folder / PHILLY, partition, 0))
    for after in SLICES:
        told(f"Philly after {after:,}", jobs_of(folder / PHILLY, "", 20_000, after))


if __name__ == "__main__":
    main()
