"""Moves of running jobs that would let one start that waits for room.

Slurm moves no job: it is requeued from its checkpoint, and the command names where to start (``scontrol requeue``,
``scontrol update … ReqNodeList=``). A job that is moved finds room on a node that meets its request, with the same
GPUs. Kubernetes evicts pods within their disruption budgets, whose owners make them again; where these start its
scheduler says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ....exporters.metrics.declared import ADVICE
from ....storage.eligibility import eligible
from ....storage.moves import Move, Relief
from ....storage.recommendations import Recommendation
from ....storage.records import Job
from ...durations import ago
from ...settings.recommenders import MovesSettings
from ...waste.stranded import Need, need, need_now
from ..kubectl import evict_commands
from ..migration import MigrationPlan, MigrationPlanner, MovableJob
from ..recommender import Recommendations, RecommenderContext, RecommenderKind, register

if TYPE_CHECKING:
    from ....exporters.metrics.declared import Labelled, Series

MOST_SHAPES = 100
"""Different requests for which moves are looked for in one round."""


class MoveRecommender:
    """Looks for moves, for the jobs that are held in the order in which they are advised to start."""

    def __init__(self, settings: MovesSettings) -> None:
        self._settings = settings

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return what to move for which job; each row takes those before it as done."""
        rows = tuple(self._reliefs(context))
        return Recommendations(context.now_s, rows, _metrics(rows))

    def _reliefs(self, context: RecommenderContext) -> Iterator[Relief]:
        planner, moves = MigrationPlanner(context.snapshot, context.now_s), 0
        hopeless: set[tuple[Need, float | None]] = set()
        for job, advice in self._held(context, planner):
            plan = self._plan(job, advice, planner, hopeless, context.now_s)
            if plan is not None:
                moves += len(plan.moves)
                if moves > ADVICE:  # a row of which half is not published would be no help
                    return
                yield _relief(job, plan, advice, context.now_s)
            elif advice and advice.placement and advice.expected_start_s is not None:
                planner.keep(advice.placement.nodes, advice.expected_start_s)
            if len(hopeless) == MOST_SHAPES:
                return

    def _plan(self, job: Job, advice: Recommendation | None, planner: MigrationPlanner,
              hopeless: set[tuple[Need, float | None]], now_s: float) -> MigrationPlan | None:
        """Return what to move for a job; None where it starts soon, a fact is unknown or nothing helps (noted)."""
        wanted = None if job.request.details.unknown else need_now(job, now_s, planner.owners)
        soon = advice and advice.expected_start_s is not None and \
            advice.expected_start_s - now_s < self._settings.gain
        if soon or wanted is None or (wanted, job.limit_s) in hopeless:
            return None
        plan = planner.make_room(wanted, self._settings.moves, job.limit_s)
        if plan is None:
            hopeless.add((wanted, job.limit_s))
        return plan

    def _held(self, context: RecommenderContext,
              planner: MigrationPlanner) -> Iterator[tuple[Job, Recommendation | None]]:
        """Yield waiting jobs that are held; those that are advised to start get their place first."""
        recommended = context.advice.recommendations if context.advice else ()
        advised = {(row.job_id, row.submit_s): row for row in recommended if not row.shadow}
        waiting = {job.key: job for job in context.snapshot.jobs if eligible(job, context.now_s)}
        for key, row in advised.items():
            if row.action == "start" and row.placement and key in waiting and \
                    (wanted := need(waiting.pop(key), planner.owners)):
                planner.take(row.placement, wanted)
        order = {key: place for place, key in enumerate(advised)}
        for key in sorted(waiting, key=lambda key: (order.get(key, len(order)), key[1])):
            yield waiting[key], advised.get(key)


def _relief(job: Job, plan: MigrationPlan, advice: Recommendation | None, now_s: float) -> Relief:
    return Relief(job.job_id, job.submit_s, job.partition, job.user, now_s, plan.placement,
                  tuple(_move(movable, home) for movable, home in plan.moves),
                  sum(movable.holds[0] for movable, _ in plan.moves), advice.expected_start_s if advice else None)


def _move(movable: MovableJob, home: str) -> Move:
    job = movable.job
    return Move(job.job_id, job.user, movable.holds[0], job.allocations[0].node, home,
                None if job.start_s is None else movable.ran_s,
                evict_commands(job.steering) if job.steering is not None else "")


def _metrics(rows: tuple[Relief, ...]) -> dict[str, Series]:
    freed, moved = dict[str, float](), dict[str, float]()
    for row in rows:
        freed[row.partition] = freed.get(row.partition, 0.0) + sum(row.placement.gpus)
        moved[row.partition] = moved.get(row.partition, 0.0) + row.gpus_moved
    info: Labelled = {(move.job_id, move.origin, move.destination, str(move.gpus), row.job_id): 1.0
                      for row in rows for move in row.moves}
    return {"move_info": info, "moves_freed_gpus": freed, "moves_moved_gpus": moved}


def _cells(row: Mapping[str, Any]) -> Mapping[str, Any]:
    at_stake = sum(move["gpus"] * (move["ran_s"] or 0.0) for move in row["moves"]) / 3600
    placement, start = row["placement"], row["expected_start_s"]
    return {**row, "gpus": sum(placement["gpus"]), "at_stake": at_stake,
            "placement": ",".join(f"{node}:{gpus}" for node, gpus in zip(placement["nodes"], placement["gpus"],
                                                                        strict=True)),
            "moves": "; ".join(f"{move['job_id']} ({move['gpus']} GPUs) {move['origin']} -> {move['destination']}"
                               for move in row["moves"]),
            "otherwise": "nobody knows" if start is None else f"in {ago(start - row['issued_s'])}"}


register(RecommenderKind("moves", Relief, lambda settings, history: MoveRecommender(settings), {
    "job_id": "job", "partition": "partition", "gpus": "GPUs", "placement": "could start on", "moves": "if these move",
    "gpus_moved": "GPUs moved", "at_stake": "GPU-hours at stake", "otherwise": "else starts"}, _cells,
    "no move would let a waiting job start"))
