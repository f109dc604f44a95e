"""Placement advice: what to start where, whether it is followed, and what it is worth."""

from __future__ import annotations

from .dashboard import as_json
from .panels import CURRENCY, DAEMON, MEAN_PRICE, PRICE, SITE, Row, column, lines, listing, number, quiet

AGE = f"clamp_min(max(time() - idlewatt_advice_timestamp_seconds{{{DAEMON}}}), 0)"
ISSUED = f"sum(increase(idlewatt_advice_issued_total{{{DAEMON}}}[$__range]))"
FOLLOWED = f"sum(increase(idlewatt_advice_followed_total{{{DAEMON}}}[$__range]))"
VERDICTS = "sum by ({by}) (increase(idlewatt_advice_verdicts_total{{" + DAEMON + "{only}}}[$__range]))"
WITHIN = ', result="within"'
FORECASTS = "sum(increase(idlewatt_start_forecasts_total{{" + DAEMON + "{only}}}[$__range]))"
DOWN = f"max by ({SITE}, node) (idlewatt_power_down_info{{{DAEMON}}})"
DOWN_POWER = f"sum by ({SITE}, node) (idlewatt_node_power_watts{{{DAEMON}}}) and on ({SITE}, node) {DOWN}"
# Zero where the daemon measures and advises none; nothing at all where it does not measure.
NO_POWER = f"0 * sum(idlewatt_node_power_watts{{{DAEMON}}})"
NO_ADVICE = f"0 * sum(idlewatt_advice_interval_seconds{{{DAEMON}}})"
NO_WINDOW = "no window replayed yet"
NO_ERROR = "no window or error known"
"""Where the replay's own error is not known nothing is called a saving."""
NOT_SURE = "not distinguishable from 0, +-"

ENERGY, WAIT = (f"idlewatt_simulated_{what}_total{{{DAEMON}}}" for what in ("energy_joules", "wait_seconds"))
ERROR = f"max by ({SITE}) (idlewatt_simulation_{{}}_error_ratio{{{{{DAEMON}}}}})"


def _role(role: str) -> str:
    return f'idlewatt_policy_info{{{DAEMON}, role="{role}"}}'


def _spent(spent: str) -> str:
    return f"sum by ({SITE}, policy) (increase({spent}[$__range]))"


def _saved(spent: str) -> str:
    """Return, by policy, what the scheduler's own would have spent less what the policy would have.

    Only while both were replayed: a policy that came later has not saved what was spent before it came.
    """
    incumbent = f"({spent} and on (cluster, job, instance, policy) {_role('incumbent')})"
    beside = f"{spent} * 0 + on (cluster, job, instance) group_left () {incumbent}"
    return (f"sum by ({SITE}, policy) (increase(({beside})[$__range:$__interval]) - "
            f"increase({spent}[$__range:$__interval]))")


def _saved_by_active(spent: str, what: str) -> str:
    """Return what the active policy would have saved, of the clusters whose replay is off by a known error."""
    return f"{_saved(spent)} and on ({SITE}, policy) {_role('active')} and on ({SITE}) {ERROR.format(what)}"


def _paid(joules: str, of: str) -> str:
    """Return what joules by cluster cost at the mean price of the time range; of each ``of``."""
    return f"sum{of} (({joules}) / 3.6e6 * on ({SITE}) group_left () {MEAN_PRICE})"


def _off(spent: str, what: str) -> str:
    """Return by how much what was simulated of the time range may be off, going by the error of the last window."""
    return f"sum(abs(({_incumbent(spent)}) * on ({SITE}) {ERROR.format(what)}))"


def _incumbent(spent: str) -> str:
    return f"{_spent(spent)} and on ({SITE}, policy) {_role('incumbent')}"


def _largest(error: str) -> str:
    """Return the error that is largest whichever way, with its sign."""
    return f"(max({error}) >= -min({error})) or min({error})"


def _sure(saved: str, off: str) -> str:
    """Return a saving, or a loss, that is more than the replay is off by; nothing while that is not known."""
    return f"({saved}) > ({off}) or ({saved}) < -({off})"


def _unsure(saved: str, off: str) -> tuple[tuple[str, str], ...]:
    """Return by how much the replay is off where the saving is no more than that, as a figure beside it."""
    return ((f"({off}) >= abs({saved})", NOT_SURE),)


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("advice", "Placement advice", "What to start where, whether it is followed, and what it is worth.",
                   ("What to do now", (4, _figures()), (8, _now()), (8, _held()),
                    "What the advice is worth", (4, _worth()), (9, _savings()), (9, _record()),
                    "Whether the advice is followed", (9, _adherence()),
                    "Closeness of placements", (8, _closeness()),
                    "Beyond starts: moves, sizes, CPUs and memory", (8, _moves()), (8, _elastic()), (8, _allocation())))


def _figures() -> Row:
    return (
        (6, number("Active policy", "Whose advice this is: a heuristic, or an agent that has earned it on the "
                   "dashboard Learning.", f'max by ({SITE}, policy) ({_role("active")})', "short",
                   legend="{{policy}}")),
        (3, number("Jobs to start now", "Jobs that the active policy would start now.",
                   f"count(count by ({SITE}, job_id) (idlewatt_advice_info{{{DAEMON}}})) or {NO_ADVICE}",
                   "short")),
        (3, number("Age of the advice", "Time since the oldest policy last advised. Red from ten minutes: the "
                   "cluster has moved on, do not follow it.", AGE, "s",
                   steps=((None, "green"), (120.0, "orange"), (600.0, "red")), empty="no advice")),
        (4, number("Advice followed",
                   "Of the runs in the time range on which there was advice, the share that started as "
                   "advised: on these nodes, with so many GPUs on each, within ten minutes of the advised moment. "
                   "Coincidence counts too.",
                   f"{FOLLOWED} / ({ISSUED} > 0)", "percentunit", empty="none, or no data")),
        (4, number("Nodes to power down", "Power of the chosen nodes that the advice would power down: empty, not "
                   "needed soon, and not of the reserve.", f"sum({DOWN_POWER}) or {NO_POWER}", "watt")),
        (4, number("Cost of nodes to power down, a day",
                   "What these nodes cost in a day if they stay on, at the price of now.",
                   f"sum((sum by ({SITE}) ({DOWN_POWER}) or 0 * sum by ({SITE}) "
                   f"(idlewatt_node_power_watts{{{DAEMON}}}))"
                   f" * on ({SITE}) max by ({SITE}) {PRICE}) * 24 / 1e3", CURRENCY, decimals=2, empty="no price")))


def _worth() -> Row:
    losing = ((None, "orange"), (0.0, "text"))
    energy = _saved_by_active(ENERGY, "energy")
    saved, off = f"sum({energy}) / 3.6e6", f"{_off(ENERGY, 'energy')} / 3.6e6"
    sooner, by = f"sum({_saved_by_active(WAIT, 'wait')}) / 3600", f"{_off(WAIT, 'wait')} / 3600"
    money_saved = _paid(energy, "")
    return (
        (5, number("Energy saved, if followed", "In the closed windows of the time range, by replay of "
                   "the same jobs: the scheduler's own policy less the active one. Shown only where "
                   "it is more than the replay is off by: a smaller figure is not distinguishable from 0. Orange: "
                   "following would have cost energy.",
                   _sure(saved, off), "kwatth", steps=losing, empty=NO_ERROR, legend="saved",
                   beside=_unsure(saved, off))),
        (4, number("Cost saved, if followed", "The same in money, at the mean price of the time range that idlewatt "
                   "published, with the site's PUE where that is set. No amount while the energy is not "
                   "distinguishable from 0.", f"({money_saved}) and (abs({saved}) > ({off}))", CURRENCY, steps=losing,
                   decimals=2, empty="none, or no price")),
        (5, number("Waiting hours saved, if followed", "The same of the time that all jobs together "
                   "waited for their start, and by the same rule: shown only where it is more than the replay's error "
                   "of waiting. Orange: they would have waited longer.",
                   _sure(sooner, by), "short", steps=losing, empty=NO_ERROR, legend="saved",
                   beside=_unsure(sooner, by))),
        (5, number("Error of the simulated energy", "(Simulated - measured) / measured energy under the scheduler's "
                   "own policy; of several clusters that which is off most. A saving that is a smaller share than "
                   "this is none.", _largest(ERROR.format("energy")), "percentunit", empty=NO_WINDOW)),
        (5, number("Error of the simulated waiting", "How far starts of the jobs that waited are off under the "
                   "scheduler's own policy, whichever way, as a share of what they waited: what --check tells and "
                   "promotion asks for. Large where the scheduler does what no policy of ours describes: priorities, "
                   "reservations, people. Unknown where fewer than ten jobs waited in the last day.",
                   f"max({ERROR.format('wait')})", "percentunit", empty="too few waited")))


def _now() -> Row:
    reason = (f'max by ({SITE}, policy, job_id, reason) (idlewatt_advice_reason_info{{{DAEMON}, '
              'action="start"})')
    return (
        (17, listing("Recommended placements", "What the active policy would start now, no more than 50; a job on "
                     "several nodes has several rows. All of them: idlewatt advise, or the daemon's own page.",
                     (f"max by ({SITE}, policy, objective, job_id, node, gpus) (idlewatt_advice_info{{{DAEMON}}}) "
                      f"* on ({SITE}, policy, job_id) group_left (reason) {reason}",),
                     {"cluster": "Cluster", "job_id": "Job", "node": "Node", "gpus": "GPUs", "Value": "Start",
                      "reason": "Reason", "policy": "Policy"}, special={
                         "Job": column(width=80), "Node": column(width=130), "GPUs": column(width=60),
                         "Start": column(width=60, text={"1": ("now", "green")}), "Policy": column(width=195)},
                     empty=quiet("nothing that waits could start now"))),
        (7, listing("Nodes that could be powered down", "Empty nodes that no known job needs soon, with what they "
                    "draw and would save until they are needed again, where the past tells; the reserve of each "
                    "partition is left out. idlewatt powers nothing down itself.",
                    (DOWN, f"sum by ({SITE}, node) ({DOWN_POWER})",
                     f"max by ({SITE}, node) (idlewatt_power_down_saving_joules{{{DAEMON}, "
                     'bound="estimate"}) / 3.6e6'),
                    {"cluster": "Cluster", "node": "Node", "Value #B": "Draws now", "Value #C": "Would save"},
                    unit="watt", order="-Draws now", special={"Would save": column("kwatth", decimals=1)},
                    empty=quiet("every empty node is needed, or reserve"))))


def _held() -> Row:
    why = (f'max by ({SITE}, policy, job_id, reason) (idlewatt_advice_reason_info{{{DAEMON}, '
           'action="hold"})')
    job = f"{SITE}, policy, job_id"
    return (
        (24, listing("Jobs that are held, and until when", "What cannot start now, by expected start, no more than 50: "
                     "the start assumes that jobs use their full limits, so it is rather too late. None: it can never "
                     "run, the reason says why.",
                     (why, f"{why} * on ({job}) group_left () max by ({job}) "
                      f"(idlewatt_advice_expected_start_timestamp_seconds{{{DAEMON}}}) * 1e3"),
                     {"cluster": "Cluster", "job_id": "Job", "Value #B": "Expected start", "reason": "Reason",
                      "policy": "Policy"},
                     special={"Job": column(width=80), "Policy": column(width=195),
                              "Expected start": column("dateTimeFromNow", width=150)}, order="Expected start",
                     empty=quiet("no job is held"))),)


def _savings() -> Row:
    return (
        (8, lines("Energy saved against the scheduler's own policy", "By policy, over windows as long as the time "
                   "range that end at each moment; zero is the scheduler's own. What lies below the error of the "
                   "simulation may be nothing.",
                   _gap(ENERGY, "energy", "3.6e6"), "kwatth", signed=True, names=_BAND, empty=NO_WINDOW)),
        (8, lines("Cost saved against the scheduler's own policy", "The same in money, at the mean price of the time "
                  "range.",
                  ((_paid(_saved(ENERGY), f" by ({SITE}, policy)"), "{{policy}}"),
                   (_paid(f"abs(({_incumbent(ENERGY)}) * on ({SITE}) {ERROR.format('energy')})", ""),
                    "error of the simulation")), CURRENCY, signed=True, names=_BAND, empty="no price, or no window")),
        (8, lines("Hours of waiting saved against the scheduler's own policy", "The same, of the time that all jobs "
                   "together waited for their start. Where too few jobs waited the error is not known, and no curve "
                   "is called a saving.",
                   _gap(WAIT, "wait", "3600"), "short", signed=True, names=_BAND, empty=NO_WINDOW)))


_BAND = {"error of the simulation": ("Error of the simulation", "#9e9e9e")}


def _gap(spent: str, what: str, scale: str) -> tuple[tuple[str, str], ...]:
    return ((f"{_saved(spent)} / {scale}", "{{policy}}"),
            (f"sum by ({SITE}) (abs(({_incumbent(spent)}) * on ({SITE}) {ERROR.format(what)})) / {scale}",
             "error of the simulation"))


def _adherence() -> Row:
    shared = f"{SITE}, policy, advice"
    followed = VERDICTS.format(by=shared, only=', verdict="followed"')
    advised = VERDICTS.format(by=shared, only=', verdict!="not advised"')
    return (
        (9, lines("Adherence by policy and kind of advice", "Of the runs on which a policy had advice in force, the "
                   "share that started there and then, over the time range: apart for advice to start at once and "
                   "advice to hold until an expected start.",
                   ((f"{followed} / ({advised} > 0)", "{{policy}}: {{advice}}"),), "percentunit",
                   empty=quiet("no advised job has started yet"))),
        (10, listing("What became of the advice", "Runs that started in the time range. Elsewhere: on other nodes, or "
                     "with other GPUs on them. Earlier, later: there, but more than ten minutes from the advised "
                     "moment, which for a held job is its expected start. Not advised: the advice named no place, as "
                     "the job could not have started, or no moment, as nobody could foresee one.",
                     (VERDICTS.format(by=f"{shared}, verdict", only="") + " > 0",),
                     {"cluster": "Cluster", "policy": "Policy", "advice": "Advice", "verdict": "Became",
                      "Value": "Runs"}, order="-Runs",
                     special={"Policy": column(width=195), "Runs": column(decimals=0)},
                     empty=quiet("no advised job has started yet"))),
        (5, number("Starts within their interval", "Of the runs in the time range whose start had been foretold as an "
                   "interval that holds in nine of ten futures, the share that started within the first such interval. "
                   "Below 90 %: who comes later and goes first, or people, move starts.",
                   f"({FORECASTS.format(only=WITHIN)} or 0 * {FORECASTS.format(only='')}) / "
                   f"({FORECASTS.format(only='')} > 0)", "percentunit", empty="none yet, or no data")))


def _record() -> Row:
    return (
        (12, listing("Policies side by side", "What the closed windows of the time range would have taken under each "
                    "policy, by replay of the same jobs; less where a policy came later.",
                    (f"{_spent(ENERGY)} / 3.6e6", f"{_spent(WAIT)} / 3600",
                     f"{_spent(ENERGY)} / 3.6e6 * on ({SITE}) group_left () max by ({SITE}) {PRICE}"),
                    {"cluster": "Cluster", "policy": "Policy", "Value #A": "Energy", "Value #B": "Waiting hours",
                     "Value #C": "Cost today"},
                    special={"Policy": column(width=190), "Energy": column("kwatth"),
                             "Cost today": column(CURRENCY, decimals=2)}, order="Energy",
                    empty=NO_WINDOW)),
        (12, lines("Error of the simulation over time", "How far the replay of what really ran is off what was "
                  "measured, either way: energy in all, and the starts of the jobs that waited as a share of their "
                  "waits.",
                  ((f"abs({ERROR.format('energy')})", "energy, {{cluster}}"),
                   (ERROR.format("wait"), "waiting, {{cluster}}")), "percentunit", empty=NO_WINDOW)))


def _closeness() -> Row:
    actual, advised = (f'sum by ({SITE}) (idlewatt_communication_cost{{{DAEMON}, placement="{placement}"}})'
                       for placement in ("actual", "advised"))
    return (
        (6, number("Locality penalty above the advised", "By how much the running jobs of several GPUs are further "
                   "apart than where they were advised to start; of several clusters the largest. Below zero they are "
                   "closer together than advised.",
                   f"max({actual} / {advised}) - 1", "percentunit", empty="none, or no data")),
        (6, listing("Speed beside scattered GPUs", "How fast jobs would run where they are advised to start, beside "
                    "the GPUs that are left over here and there: 2 is twice as fast. By Pollux's tables (OSDI'21, up "
                    "to four nodes of four GPUs), for jobs whose name tells one of its applications "
                    "(advice.applications); no more than 50.",
                    (f"max by ({SITE}, job_id) (idlewatt_advice_speedup_ratio{{{DAEMON}}})",),
                    {"cluster": "Cluster", "job_id": "Job", "Value": "Times as fast"}, order="-Times as fast",
                    special={"Times as fast": column(decimals=2)},
                    empty=quiet("no such job could start now, or none would be scattered"))),
        (12, lines("Locality penalty of placements, as they are and as advised", "Weight of the edges between the "
                   "GPUs of each job, all running jobs of several GPUs together that were advised to start: GPU to "
                   "node 1/40, node to leaf switch 1/4, leaf switch to spine 1/2, spine to the others 1. Where no "
                   "topology is known all nodes count as on one leaf switch.",
                   ((actual, "as they are"), (advised, "as advised")), "short",
                   empty=quiet("no job of several GPUs runs that was advised to start"))))


def _moves() -> Row:
    return (
        (5, number("GPUs that moves would free", "GPUs on which jobs that wait for room could start if others were "
                   "moved as advised beside. Nothing is moved by idlewatt.",
                   f"sum(idlewatt_moves_freed_gpus{{{DAEMON}}}) or {NO_ADVICE}", "short", empty="no advice",
                   tall=True)),
        (5, number("GPUs that moves would move", "GPUs of the jobs that would go on elsewhere: where they keep no "
                   "checkpoint, what they did is lost.", f"sum(idlewatt_moves_moved_gpus{{{DAEMON}}}) or {NO_ADVICE}",
                   "short", empty="no advice", tall=True)),
        (14, listing("Moves that would let a waiting job start", "The fewest GPUs that were found to be moved so that "
                     "a job starts which waits for room; those for one job belong together, no more than 50 in all. "
                     "With where it would start, and what is at stake: idlewatt advise --moves.",
                     (f"max by ({SITE}, for_job_id, job_id, node, to_node, gpus) "
                      f"(idlewatt_move_info{{{DAEMON}}})",),
                     {"cluster": "Cluster", "for_job_id": "Lets start", "job_id": "Move job", "gpus": "GPUs",
                      "node": "From",
                      "to_node": "To"}, order="Lets start", special={"GPUs": column(width=60)},
                     empty=quiet("no move would let a waiting job start"))))


def _elastic() -> Row:
    info = f"max by ({SITE}, job_id, change, gpus, room, helps, basis) (idlewatt_elastic_info{{{DAEMON}}})"
    change = f"{SITE}, job_id, change"

    def beside(values: str) -> str:
        return f"{info} * on ({change}) group_left () max by ({change}) ({values})"

    times = (beside(f'idlewatt_elastic_time_ratio{{{DAEMON}, bound="{bound}"}}')
             for bound in ("estimate", "low", "high"))
    return (
        (5, number("Jobs of unknown elasticity", "Running and pending jobs of which nobody knows how fast they would "
                   "be with more or fewer GPUs: no like run was watched, all had one size, or no curve fits them. "
                   "These have no row.", f"sum(idlewatt_elastic_unknown_jobs{{{DAEMON}}}) or {NO_ADVICE}",
                   "short", empty="no advice", tall=True)),
        (19, listing("What more or fewer GPUs would do for a job", "Change in the time that it still takes, with its "
                     "95 % interval, and the marginal gain: speed for each GPU of the change. The data source is the "
                     "throughput "
                     "of like runs, by their GPUs' activity (which flatters large sizes), or as configured. Slurm "
                     "lets no running job grow: idlewatt advise --elastic says what it takes. No more than 50 jobs.",
                     (*times, beside(f"idlewatt_elastic_marginal_gain_ratio{{{DAEMON}}}")),
                     {"cluster": "Cluster", "job_id": "Job", "gpus": "GPUs", "change": "Change",
                      "Value #A": "Time left",
                      "Value #B": "At best", "Value #C": "At worst", "Value #D": "Speed per GPU", "room": "Room",
                      "helps": "Makes room for", "basis": "Data source"}, unit="percentunit", order="Time left",
                     special={"Job": column(width=80), "GPUs": column("short", width=60),
                              "Change": column("short", width=70), "Room": column(width=60)},
                     empty=quiet("of no job is it known"))))


def _allocation() -> Row:
    info = f"max by ({SITE}, job_id, state, node, basis, reason) (idlewatt_allocation_info{{{DAEMON}}})"

    def beside(values: str) -> str:
        return f"{info} * on ({SITE}, job_id) group_left () max by ({SITE}, job_id) ({values})"

    cpus = (beside(f'idlewatt_allocation_cpus{{{DAEMON}, which="{which}"}}') for which in ("held", "advised"))
    return (
        (4, number("CPUs held and not used", "CPUs that running jobs hold and do not use by their 95th percentile and "
                   "a margin: others could, and free GPUs may be stranded for want of them. Only what was measured "
                   "counts.", f"sum(idlewatt_unused_cpus{{{DAEMON}}}) or {NO_ADVICE}", "short", empty="no advice",
                   tall=True)),
        (4, number("Jobs of unknown needs", "Jobs on GPU nodes of whose use of CPUs and memory nothing was measured, "
                   "and whose names tell no model: they stay at their fair share.",
                   f'sum(idlewatt_allocation_jobs{{{DAEMON}, basis="fair-share"}}) or {NO_ADVICE}', "short",
                   empty="no advice", tall=True)),
        (16, listing("Who should have what others do not use", "Jobs that could start, or run faster, with CPUs and "
                     "memory of their node that neighbours measurably do not use: how many CPUs they have and should "
                     "have, and the share of their remaining time that saves, with the low end of its 95 % interval. "
                     "No more than 50; all of them: idlewatt advise --allocation.",
                     (info, *cpus, *(beside(f'idlewatt_allocation_sooner_ratio{{{DAEMON}, bound="{bound}"}}')
                                     for bound in ("estimate", "low"))),
                     {"cluster": "Cluster", "job_id": "Job", "node": "Node", "Value #B": "CPUs",
                      "Value #C": "Advised", "Value #D": "Sooner by", "Value #E": "At least", "basis": "Data source",
                      "reason": "What and why"},
                     order="-Sooner by", special={
                         "Job": column(width=60), "Node": column(width=110), "CPUs": column(width=60),
                         "Advised": column(width=70), "Sooner by": column("percentunit", width=85),
                         "At least": column("percentunit", width=75), "Data source": column(width=85)},
                     empty=quiet("nobody could use what others leave"))))
