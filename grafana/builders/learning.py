"""Learning: how good trained agents are on history they have not seen, which were promoted, and how each is watched."""

from __future__ import annotations

from .dashboard import as_json
from .panels import (
    CURRENCY,
    DAEMON,
    MEAN_PRICE,
    SITE,
    Panel,
    Row,
    column,
    curves,
    lines,
    listing,
    number,
    quiet,
    timeline,
)

NO_AGENT = quiet("no agent yet (idlewatt train)")
NOT_JUDGED = quiet("no agent has been judged yet")
ROLES = {
    # From the least to the most trusted; a policy of two roles shows the greater.
    "0": ("demoted", "#c62828"),
    "1": ("shadow", "#bdbdbd"),
    "2": ("the scheduler's own", "#78909c"),
    "3": ("stands in for an agent", "#7fb8c9"),
    "4": ("active", "#1e88a8"),
}
AGENT = 'policy=~".+@.+"'
"""An agent is called kind@version; a heuristic's name has no @."""



NOT_SURE = "not distinguishable from 100 %"
"""What is shown of a share whose interval includes 1, or that has none."""


def _role(role: str) -> str:
    return f'max by ({SITE}, policy) (idlewatt_policy_info{{{DAEMON}, role="{role}"}})'


# The first line that holds for a policy is its role.
ROLE = " or ".join((f"{_role('active')} * 4", f"{_role('fallback')} * 3", f"{_role('incumbent')} * 2",
                    f"{_role('shadow')} * 1", f"{_role('demoted')} * 0"))


def _heldout(what: str, *more: str, **labels: str) -> str:
    chosen = ", ".join((DAEMON, *more, *(f'{label}="{value}"' for label, value in labels.items())))
    return f"max by ({SITE}, policy) (idlewatt_heldout_{what}{{{chosen}}})"


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("learning", "Learning",
                   "How good trained agents are on history that they have not seen, who is active, and how they "
                   "fare.",
                   ((4, _figures()), (13, _candidates()), (13, _judged()), (9, _curves()), (9, _watched()),
                    (8, _trained())), hours=720)


def _figures() -> Row:
    abstaining = f"max by ({SITE}, policy) (idlewatt_abstaining{{{DAEMON}}}) and on ({SITE}, policy) {_role('active')}"
    return (
        (5, number("Active policy", "Whose advice goes out: an agent that was promoted (kind@version), or a "
                   "heuristic while none has earned it.", _role("active"), "short", legend="{{policy}}")),
        (3, number("Age of the active agent",
                   "Time since the active agent was trained. Clusters change: after weeks a younger one "
                   "should have been tried.",
                   f"time() - max(idlewatt_model_trained_timestamp_seconds{{{DAEMON}}} and on ({SITE}, policy) "
                   f"{_role('active')})", "s", empty="no agent")),
        (3, number("Active agent abstains",
                   "Whether the active agent gives no advice at the moment, so that the heuristic's "
                   "goes out. The causes are below.", f"max({abstaining})", "short",
                   text={"0": ("no", "green"), "1": ("yes", "orange")}, empty="no agent")),
        (4, _best()),
        (3, number("Last judgement of agents",
                   "Time since an agent was last judged on held-out history, promoted or not.",
                   f"time() - max(idlewatt_heldout_timestamp_seconds{{{DAEMON}}})", "s", empty="never")),
        (3, number("Days worse than the scheduler",
                   "Closed days in a row on which the active policy was worse than the scheduler's own; "
                   "a row of them is a sign, and demotes nobody: evidence over weeks does.",
                   f"max(idlewatt_regret_streak{{{DAEMON}}} and on ({SITE}, policy) {_role('active')})", "short",
                   steps=((None, "green"), (1.0, "orange"), (3.0, "red")), empty="no closed day")),
        (3, number("Training of agents", "Whether an agent is trained at the moment.",
                   f"max(idlewatt_training_running{{{DAEMON}}})", "short",
                   text={"0": ("idle", "text"), "1": ("running", "green")})))


def _best() -> Panel:
    """Show the best agent in green only where its whole 95 % interval lies below 1, else without colour."""
    estimate, low, high = (_heldout("jct_ratio", AGENT, bound=bound) for bound in ("estimate", "low", "high"))
    better, like = f"min({estimate} and ({high} < 1))", f"min({estimate} unless ({low} > 1))"
    return number("Best agent on held-out history",
                  "Completion time of jobs under the best agent over that under the scheduler's own policy, on "
                  "held-out history: below 100 % is better. Green: better for sure, as its whole 95 % interval is "
                  "below. Orange: each agent is worse for sure.",
                  f"{better} or (min({estimate}) unless {like})", "percentunit",
                  steps=((None, "green"), (1.0, "orange")), empty="none, or no data", legend="of the scheduler's",
                  beside=((f"{like} unless {better}", NOT_SURE),), plain=NOT_SURE)


def _candidates() -> Row:
    info = f"max by ({SITE}, policy, state, reason) (idlewatt_candidate_info{{{DAEMON}}})"
    ratios = (f'{info} * on ({SITE}, policy) group_left () max by ({SITE}, policy) '
              f'(idlewatt_candidate_jct_ratio{{{DAEMON}, bound="{bound}"}})' for bound in ("estimate", "low", "high"))
    columns = {"policy": "Policy", "state": "State", "Value #B": "Completion", "Value #C": "From", "Value #D": "To",
               "reason": "Why"}
    ratio = column("percentunit", width=95)
    looks = {"Policy": column(width=270), "State": column(width=120), "Completion": ratio, "From": ratio, "To": ratio}
    return (
        (24, listing("Candidates to advise",
                     "Whoever may come to advise, agents and combinations of heuristics alike: active, on trial, "
                     "candidate (waits for its turn), demoted, or not a candidate, and why. Completion time of jobs "
                     "against the scheduler's own policy is from when it was judged last, with its 95 % "
                     "interval; no figure means not judged yet, no interval not enough history.",
                     (info, *ratios), columns, special=looks, order="State",
                     empty=quiet("no round of advice yet"))),)


def _judged() -> Row:
    columns = {"policy": "Policy", "Value #A": "Against the scheduler", "Value #B": "From", "Value #C": "To",
               "Value #D": "Completion", "Value #E": "Completion, p99", "Value #F": "Wait", "Value #G": "Wait, p99",
               "Value #H": "Energy at the wall", "Value #I": "Cost of it", "Value #J": "Utilisation",
               "Value #K": "Makespan"}
    ratio, seconds = column("percentunit", width=75), column("s")
    looks = (column(width=240), column("percentunit", width=185), *2 * (ratio,), *4 * (seconds,), column("kwatth"),
             column(CURRENCY), column("percentunit"), seconds)
    return (
        (24, listing("Policies on held-out history", "The last judgement: everybody replayed the same jobs of days "
                     "that no agent was trained on. Completion time against the scheduler's own policy with its 95 % "
                     "interval over stretches of a day or more that share no queue; energy is at the wall, with "
                     "all nodes on, its cost at the mean price of the time range; utilisation is GPU time held while "
                     "jobs came (Eq. (5) of the GIST AI-X paper), of which more is better. Who is promoted has shown "
                     "more: evidence that holds for somebody who looks every night.",
                     (*(_heldout("jct_ratio", bound=bound) for bound in ("estimate", "low", "high")),
                      *(_heldout(f"{what}_seconds", statistic=statistic)
                        for what in ("jct", "wait") for statistic in ("mean", "p99")),
                      f"{_heldout('energy_joules', empty_nodes='on')} / 3.6e6",
                      f'max by ({SITE}, policy) (idlewatt_heldout_energy_joules{{{DAEMON}, empty_nodes="on"}} / 3.6e6 '
                      f"* on ({SITE}) group_left () {MEAN_PRICE})",
                      _heldout("utilization_ratio"), _heldout("makespan_seconds")),
                     columns, special=dict(zip(columns.values(), looks, strict=True)), order="Against the scheduler",
                     empty=NOT_JUDGED)),)


def _curves() -> Row:
    return (
        (10, curves("Training curves", "Held-out score of the agents in use while they were trained, over that of the "
                    "scheduler's own policy, by the share of the training that was done. Below 100 % is better; a "
                    "curve that still falls at its end wants a longer training.",
                    f'label_join(max by ({SITE}, policy, done) (idlewatt_training_score_ratio{{{DAEMON}}}), "curve", '
                    '" ", "policy", "cluster")', "curve", "done",
                    "percentunit", empty=NO_AGENT)),
        (14, timeline("Which policy was what",
                      "What each policy was to the daemon: promotions and demotions are where the "
                      "colour changes.", ROLE, "{{policy}}", ROLES)))


def _watched() -> Row:
    return (
        (8, lines("Regret of policies",
                  "Time in the system of the last closed day's jobs under each policy over that under the "
                  "scheduler's own, less 1, by replay. An agent is demoted by evidence over weeks, as it was promoted.",
                  ((f"max by ({SITE}, policy) (idlewatt_regret_ratio{{{DAEMON}}})", "{{policy}}"),), "percentunit",
                  signed=True,
                  empty=quiet("no closed day has been replayed yet"))),
        (8, lines("Drift of waiting jobs",
                  "Share of the waiting jobs that lie outside of what each agent was trained on. Above a "
                  "quarter the scorer gives no advice any more: train anew.",
                  ((f"max by ({SITE}, policy) (idlewatt_drift_ratio{{{DAEMON}}})", "{{policy}}"),), "percentunit",
                  most=1.0,
                  empty=NO_AGENT)),
        (8, lines("Rounds without advice", "Rounds, over the time range, in which an agent abstained, by cause: doubt "
                  "of its own, jobs that are expected to end later under it, stale facts, damaged files, unknown "
                  "partitions or GPUs, or a failure.",
                  ((f"sum by ({SITE}, policy, cause) (increase(idlewatt_abstentions_total{{{DAEMON}}}[$__range]))",
                    "{{policy}}: {{cause}}"),), "short", empty=quiet("no agent has ever abstained"))))


def _trained() -> Row:
    return (
        (8, lines("Decisions on agents", "Over the time range: promoted, left in the shadow, demoted, refused. "
                  "The history has each with its figures and reason.",
                  ((f"sum by (decision) (increase(idlewatt_promotions_total{{{DAEMON}}}[$__range]))", "{{decision}}"),),
                  "short", empty=NOT_JUDGED)),
        (8, lines("Trainings of agents", "Trainings by the daemon over the time range, by how they ended.",
                  ((f"sum by (result) (increase(idlewatt_training_runs_total{{{DAEMON}}}[$__range]))", "{{result}}"),),
                  "short", empty=quiet("the daemon has trained nothing (training.enabled)"))),
        (8, listing("Agents in use",
                    "Agents in use, the youngest first: the time since they were trained, their present "
                    "drift and their last regret.",
                    (f"time() - max by ({SITE}, policy) (idlewatt_model_trained_timestamp_seconds{{{DAEMON}}})",
                     f"max by ({SITE}, policy) (idlewatt_drift_ratio{{{DAEMON}}})",
                     f"max by ({SITE}, policy) (idlewatt_regret_ratio{{{DAEMON}, {AGENT}}})"),
                    {"policy": "Agent", "Value #A": "Age", "Value #B": "Drift", "Value #C": "Regret"},
                    special={"Agent": column(width=205), "Age": column("s"), "Drift": column("percentunit"),
                             "Regret": column("percentunit")},
                    order="Age", empty=quiet("none: a heuristic is active"))))
