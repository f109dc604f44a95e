"""The same sweep on a Ray cluster: ``RAY_ADDRESS`` names it, else Ray starts on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .sweep import Outcome, Plan, SweepError, replay


def side_by_side(plan: Plan, policies: Sequence[str], workers: int) -> Iterator[Outcome]:
    """Replay policies as Ray tasks and yield outcomes as they come; at most ``workers`` at a time, one CPU each."""
    try:
        import ray
    except ImportError as error:
        raise SweepError("--engine ray needs Ray: pip install 'idlewatt[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, include_dashboard=False)
    shared, task, left = ray.put(plan), ray.remote(replay), list(policies)
    running = [task.remote(shared, left.pop(0)) for _ in range(min(workers, len(left)))]
    try:
        while running:
            (ready,), running = ray.wait(running)
            yield ray.get(ready)
            if left:
                running.append(task.remote(shared, left.pop(0)))
    except ray.exceptions.RayError as error:
        raise SweepError(f"Ray: {str(error).strip().splitlines()[-1]}") from error
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if started:
            ray.shutdown()
