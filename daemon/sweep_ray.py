"""The same sweep on a Ray cluster: ``RAY_ADDRESS`` names it, else Ray starts on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from .sweep import PolicyOutcome, SweepError, SweepPlan, replay, table_path


def side_by_side(plan: SweepPlan, policies: Sequence[str], workers: int) -> Iterator[PolicyOutcome]:
    """Replay policies as Ray tasks and yield outcomes as they come; at most ``workers`` at a time, one CPU each."""
    try:
        import ray  # an extra
    except ImportError as error:
        raise SweepError("--engine ray needs Ray: pip install 'idlewatt[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, include_dashboard=False)
    shared, task, left = ray.put(replace(plan, spool=None)), ray.remote(replay_remotely), list(policies)
    running = [task.remote(shared, left.pop(0)) for _ in range(min(workers, len(left)))]
    try:
        while running:
            (ready,), running = ray.wait(running)
            outcome, written = ray.get(ready)
            for path, content in zip(plan.writes, written, strict=True):
                table_path(path, outcome.policy).write_bytes(content)
            yield outcome
            if left:
                running.append(task.remote(shared, left.pop(0)))
    except ray.exceptions.RayError as error:
        raise SweepError(f"Ray: {str(error).strip().splitlines()[-1]}") from error
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if started:
            ray.shutdown()


def replay_remotely(plan: SweepPlan, policy: str) -> tuple[PolicyOutcome, list[bytes]]:
    """Replay on a machine that need share no folder with ours: tables come back with the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        here = replace(plan, jobs_out=plan.jobs_out and Path(folder, f"jobs{plan.jobs_out.suffix}"),
                       groups_out=plan.groups_out and Path(folder, f"groups{plan.groups_out.suffix}"))
        outcome = replay(here, policy)
        return outcome, [table_path(path, policy).read_bytes() for path in here.writes]
