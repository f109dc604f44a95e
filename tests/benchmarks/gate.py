"""The gate's errors and its power on made-up history.

``python tests/benchmarks/gate.py [YEARS] [errors|power|bounds|whole|energy|utilization|demotion]``; YEARS of each null,
and as many of an agent that stays; a tenth of these histories of each agent that is better or turns, and of who places
otherwise, which the engine replays. IDLEWATT_WORKERS says how many processes. Every year is replayed by itself under
both policies, once (``gate_kept.py``), and all that is tried is tried on the same; nothing is resampled, so that years
are independent.
"""

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

import numpy as np
from gate_energy import LOAD, placed_history
from gate_kept import kept
from gate_standings import equal, turning
from gate_trials import NEVER, Looks, Year, demoted, fills, first_day, saves, upper
from gate_whole import conditions
from gate_years import SIZES, agent_history, null_history
from null_sites import NULLS
from null_years import agent_use, null_energy, null_use

from idlewatt.daemon.learning.pairs import DAY_S
from idlewatt.daemon.learning.promotion_criteria import ASSUMED, ERROR, SHORTLIST, TRIALS
from idlewatt.daemon.learning.trials import error_of_each
from idlewatt.daemon.settings.training import TRIAL_S

WINDOWS = (14, 28)
ERRORS = (0.0125, 0.025, 0.05, 0.1, 0.25)
"""Of a year, between which and power the frontier lies."""
BETTER, HALF_YEAR = 0.18, 182.0
"""Weight of limits with which an agent is a tenth better, and how long its histories are."""
STAYING, TURNED, TRIAL_DAYS = 0.14, -0.3, 30
"""Weights with which one is 8 % better and a fifth worse; so long it is on trial before it is active."""
HARMFUL = {"users who use most wait 10 h longer, 4 nodes": ((0.3, 36000.0, 2), 0),
           "users who use least wait 6 h longer, 8 nodes": ((0.3, 21600.0, 0), 1),
           "limits above all, 4 nodes": ((8.0,), 0),
           "users who use most wait 24 h longer, 4 nodes": ((0.6, 86400.0, 2), 0)}
"""Agents that gain on the mean by what they take from some: limits' weight, delay and whose, and the site."""


def errors(years, workers):
    """Print coverage and false promotions by null."""
    for null in NULLS:
        found = [Year(**one) for one in kept(f"null-{NULLS.index(null)}", partial(null_history, null, 0, 365.0),
                                             range(years), workers)]
        for days in WINDOWS:
            told = [one for year in found for one in year.windows(days)]
            known = [covers for is_known, covers in told if is_known]
            print(f"{null:17} {days} days: interval covers {np.mean(known):.1%} of {len(known)}; "
                  f"{1 - len(known) / len(told):.0%} not enough yet")
        in_turn = [[year.promoted(error_of_each(TRIALS), number * TRIAL_S, (number + 1) * TRIAL_S) is not None
                    for number in range(TRIALS)] for year in found]
        _wrong(f"{null:17} promoted in a year, {TRIALS} agents in turn", sum(map(any, in_turn)), years)
        _wrong(f"{null:17} promoted in a year, one agent with the whole error",
               sum(year.promoted(ERROR) is not None for year in found), years)
        alone = error_of_each(TRIALS * SHORTLIST)
        single = sum(year.promoted(alone, number * TRIAL_S, (number + 1) * TRIAL_S) is not None
                     for year in found for number in range(TRIALS))
        _wrong(f"{null:17} promoted, one heuristic of a shortlist of {SHORTLIST}, by trial", single, years * TRIALS)


def _wrong(words, count, of):
    print(f"{words}: {count} of {of} = {count / of:.2%}, upper 95 % limit {upper(count, of):.2%}", flush=True)


def _agents(name, agent, size, count, workers):
    """Return histories of one kind of agent."""
    first = 2 * 10**6 if name == "better" else 4 * 10**6
    return kept(f"{name.replace(' ', '-')}-{size}", partial(agent_history, agent, size, HALF_YEAR),
                range(first, first + count), workers)


def bounded(one, rule, bound, error):
    """Tell at each look whether all thirds of users and the longest waits are within bounds, by one of four rules."""
    pairs = [(*one["groups"][:, number], bound or ASSUMED.group, None) for number in range(3)]
    pairs.append((*one["longest"], bound or ASSUMED.tail, one["whole"]))
    return [_held(Looks.at(ours, theirs, most), most if whole is None else most, rule, error, whole)
            for ours, theirs, most, whole in pairs]


def _held(looks, most, rule, error, whole):
    """Tell at each look whether one ratio is held to be within a bound."""
    looks = looks if whole is None else looks._replace(total=whole)
    if rule == "estimate":
        return looks.total <= most
    if rule == "not surely worse":
        return ~(looks.low > most)
    if rule == "interval":
        return looks.high <= most
    return looks.below(error, most)


def power(histories, workers):
    """Print how soon an agent that is 10 % better is promoted, all bounds considered, by the error of a year."""
    for size, count in ((0, histories), (1, histories), (2, max(20, histories * 3 // 5))):
        found = _agents("better", (BETTER,), size, count, workers)
        for error, ways in [*((error, 1) for error in ERRORS), (ERROR, 2), (ERROR, 3)]:
            trial = error / (2 * TRIALS)
            days = np.array([first_day(one["settled"], np.all(
                [Looks.at(one["ours"], one["theirs"]).below(trial / ways), *bounded(one, "evidence", 0, trial)],
                axis=0)) for one in found])
            jct = np.mean([one["true"][0] for one in found])
            print(f"{SIZES[size]['nodes']:2} nodes, mean JCT {jct:.3f}, error of a year {error:.2%}, completion time "
                  f"one of {ways} ways: promoted within "
                  f"60 days in {np.mean(days <= 60):.0%} of {count}, 75 days in {np.mean(days <= 75):.0%}, 80 % after "
                  f"{np.quantile(days, 0.8):.0f} days", flush=True)


def bounds(histories, workers):
    """Print what each rule for groups and the longest waits costs a better agent, and what harm it lets through."""
    trial = error_of_each(TRIALS)
    sites: dict[str, tuple[str, tuple[float, ...], int]] = {
        f"a tenth better, {SIZES[size]['nodes']} nodes": ("better", (BETTER,), size) for size in (0, 1)}
    sites |= {name: (name.split(",")[0], *told) for name, told in HARMFUL.items()}
    for words, (name, agent, size) in sites.items():
        found = _agents(name, agent, size, histories, workers)
        true = np.mean([one["true"] for one in found], axis=0)
        print(f"{words}: truly mean JCT {true[0]:.3f}, of thirds of users {true[1]:.2f}, {true[2]:.2f}, {true[3]:.2f}, "
              f"p99 wait {true[4]:.2f}; {len(found)} histories")
        better = [Looks.at(one["ours"], one["theirs"]).below(trial) for one in found]
        _promoted("JCT alone", found, better, None)
        for rule, bound, error in (("estimate", 0, 0), ("not surely worse", 0, 0), ("interval", 0, 0),
                                   ("evidence", 0, ERROR), ("evidence", 0, trial), ("evidence", 1.05, trial),
                                   ("evidence", 1.1, trial), ("evidence", 1.5, trial), ("evidence", 2.0, trial)):
            held = [bounded(one, rule, bound, error) for one in found]
            for part, which, usual in (("groups", slice(0, 3), ASSUMED.group), ("p99 wait", slice(3, 4), ASSUMED.tail)):
                passed = [np.all(one[which], axis=0) for one in held]
                told = f"{part}: {rule}, bound {bound or usual}" + f", error {error:.2%}" * (error > 0)
                _promoted(told, found, [one & two for one, two in zip(better, passed, strict=True)], passed)


def _promoted(words, found, promoted, passed):
    """Print how often and when agents are promoted, and how often one condition ever holds within a trial."""
    days = np.array([first_day(one["settled"], had) for one, had in zip(found, promoted, strict=True)])
    alone = "" if passed is None else "; by itself ever within a trial " + format(np.mean(
        [first_day(one["settled"], had) <= TRIAL_S / DAY_S for one, had in zip(found, passed, strict=True)]), ".0%")
    print(f"  {words}: promoted within 60 days {np.mean(days <= 60):.0%}, 75 days {np.mean(days <= 75):.0%}, 80 % "
          f"after {np.quantile(days, 0.8):.0f}{alone}", flush=True)


def whole(histories, workers):
    """Print which of the gate's conditions hold after a trial, energy among them, by the engine and the gate's code."""
    for size in (0, 1):
        found = kept(f"whole-{size}", partial(conditions, BETTER, size, TRIAL_S / DAY_S),
                     range(2 * 10**6, 2 * 10**6 + max(20, histories // 2)), workers)
        names = [name for name in found[0] if name != "better"]
        better = np.array([bool(one["better"]) for one in found])
        print(f"{SIZES[size]['nodes']} nodes, {len(found)} histories of {TRIAL_S / DAY_S:.0f} days: surely better "
              f"{better.mean():.0%}; of these " + ", ".join(
                  f"{name.replace('_', ' ')} {np.mean([bool(one[name]) for one in found if one['better']]):.0%}"
                  for name in names), flush=True)


def energy(years, workers):
    """Print how often who saves nothing, or is slower, is promoted for its energy in a year; and how soon who may."""
    size, trial = SIZES[1], error_of_each(TRIALS)
    for null in NULLS:
        found = kept(f"energy-{NULLS.index(null)}", partial(null_energy, null, size, LOAD, 365.0),
                     range(8 * 10**6, 8 * 10**6 + years), workers)
        for words, shares in (("each with its share of the error", 2), ("each with the whole error", 1)):
            _wrong(f"{null:17} promoted in a year for energy or completion time, {words}", sum(
                first_day(one["edges"], saves(one, trial, shares)
                          | Looks.at(*one["jct"]).below(trial / shares)) != NEVER for one in found), years)
    found = kept("energy-saver", partial(placed_history, ("best-fit", "random-fit"), size, 365.0),
                 range(9 * 10**6, 9 * 10**6 + max(20, years // 10)), workers)
    ratio, saved = (np.array([one[what][0].sum() / one[what][1].sum() for one in found]) for what in ("jct", "energy"))
    print(f"best fit for random fit: truly {saved.mean():.3f} of the energy, mean JCT {ratio.mean():.3f}")
    for truly in (1.0, 1.005, ASSUMED.alike, 1.02):
        slower = [{**one, "jct": one["jct"] * [[truly / was], [1.0]]} for one, was in zip(found, ratio, strict=True)]
        for words, rule in (("by the interval of one look", True), ("by evidence", False)):
            days = np.array([first_day(one["edges"], saves(one, trial, by_interval=rule)) for one in slower])
            _wrong(f"  mean JCT truly {truly} of it, {words}: within 60 days {np.mean(days <= 60):.0%}, in a year",
                   int((days != NEVER).sum()), len(found))


def utilization(years, workers):
    """Print how often one that fills GPUs no better is promoted for utilisation in a year, and how soon who does."""
    trial = error_of_each(TRIALS)
    for null in NULLS:
        found = kept(f"utilization-{NULLS.index(null)}", partial(null_use, null, SIZES[0], 365.0), range(years),
                     workers)
        _wrong(f"{null:17} promoted in a year for utilisation or completion time", sum(
            first_day(one["edges"], fills(one, trial) | Looks.at(*one["jct"]).below(trial / 2)) != NEVER
            for one in found), years)
        _wrong(f"{null:17} promoted in a year for utilisation", sum(
            first_day(one["edges"], fills(one, trial)) != NEVER for one in found), years)
    for size in (0, 1):
        found = kept(f"fills-{size}", partial(agent_use, BETTER, SIZES[size], HALF_YEAR),
                     range(2 * 10**6, 2 * 10**6 + max(20, years // 10)), workers)
        jct, use = (np.mean([one[what][0].sum() / one[what][1].sum() for one in found]) for what in ("jct", "use"))
        days = np.array([first_day(one["edges"], fills(one, trial)) for one in found])
        print(f"{SIZES[size]['nodes']} nodes, mean JCT {jct:.3f}, utilisation {use:.4f}: promoted for utilisation "
              f"within 60 days in {np.mean(days <= 60):.0%} of {len(found)}, in half a year in "
              f"{np.mean(days != NEVER):.0%}", flush=True)


def demotion(years, workers):
    """Print how often an agent that stays is demoted, and how soon one is that has become worse, by the error."""
    stays = kept("stays", partial(turning, (STAYING,), 0, (365,)), range(5 * 10**6, 5 * 10**6 + years), workers)
    equals = kept("equal", partial(equal, "time shift", 0, 365), range(6 * 10**6, 6 * 10**6 + max(20, years // 5)),
                  workers)
    print(f"stays: truly {np.mean([one['true'][0] for one in stays]):.3f} of the incumbent's mean JCT")
    for words, found in (("8 % better", stays), ("equal", equals)):
        days = np.array([demoted(one["logs"], TRIAL_DAYS, ERRORS) for one in found])
        for error, wrong in zip(ERRORS, (days != NEVER).sum(axis=0).tolist(), strict=True):
            _wrong(f"error {error:.2%}: {words}, demoted within a year less {TRIAL_DAYS} days", wrong, len(found))
    for size, count in ((0, years * 4 // 25), (1, years * 3 // 50), (2, years // 25)):
        found = kept(f"turns-{size}", partial(turning, (STAYING, TURNED), size, (60, 60)),
                     range(7 * 10**6, 7 * 10**6 + max(20, count)), workers)
        true = np.mean([one["true"] for one in found], axis=0)
        days = np.array([demoted(one["logs"], TRIAL_DAYS, ERRORS) for one in found]) - 60
        for error, of_error in zip(ERRORS, days.T, strict=True):
            late = of_error[of_error > 0]
            print(f"{SIZES[size]['nodes']:2} nodes, {true[0]:.3f}, then {true[1]:.3f}; error {error:.2%}: "
                  f"{len(found) - len(late)} of {len(found)} before; within 7 days {np.mean(late <= 7):.0%}, 10 days "
                  f"{np.mean(late <= 10):.0%}, 14 days {np.mean(late <= 14):.0%}, 90 % after "
                  f"{np.quantile(late, 0.9):.0f} days", flush=True)


def main():
    """Run the parts that were asked for."""
    years, workers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(os.environ.get("IDLEWATT_WORKERS", "2"))
    wanted = sys.argv[2:] or ["errors", "power"]
    for name, part, count in (("errors", errors, years), ("power", power, years // 10), ("bounds", bounds, years // 10),
                              ("whole", whole, years // 10), ("energy", energy, years),
                              ("utilization", utilization, years), ("demotion", demotion, years)):
        if name in wanted:
            part(max(20, count), workers)


if __name__ == "__main__":
    main()
