"""What a site's ended jobs tell of the run times of those to come: the same live, in replay and in training.

A job is compared with those that had ended when it was submitted, and never again: what an agent is shown of a job is
what it was shown in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..storage.columns import JobColumns
from ..storage.records import Job
from .replay.runtime_prediction import JobFeatures, known_codes, predicted_columns, template
from .replay.workload import PREDICTED_COLUMNS, waits_from

Floats = NDArray[np.float64]

RECENT = 5_000
"""The most jobs that are remembered: of like jobs only the last few dozen count."""


class RuntimeHistory:
    """Run times of jobs that have ended, to predict any job from."""

    def __init__(self, past: JobColumns) -> None:
        self.past = past = _by_template(past)
        self._users, self._partitions, self._templates = (
            {text: code for code, text in enumerate(past.vocabularies[name])} for name in ("user", "partition", "name"))
        images = past.vocabularies["image"]
        self._image_of = {image: code for code, image in enumerate(images) if image}
        self._images = known_codes(images)
        self._predicted: tuple[dict[tuple[str, float], int], Floats] = {}, np.empty((0, len(PREDICTED_COLUMNS)))
        """The rows of the jobs that were predicted last, and [row, column of ``PREDICTED_COLUMNS``]: replaced
        together, as other threads take copies."""

    def __call__(self, jobs: Sequence[Job]) -> dict[str, Floats]:
        """Return the columns of ``PREDICTED_COLUMNS`` for these jobs, in their order; NaN where nothing is known.

        Their predictions are remembered, and those of all others forgotten.
        """
        rows, predicted = self._predicted
        new = list({job.key: job for job in jobs if job.key not in rows}.values())
        if new:
            rows = rows | {job.key: len(predicted) + number for number, job in enumerate(new)}
            predicted = np.concatenate([predicted, self._predict(new)])
        # One array of its own: a row kept for each job would keep all that was found together with it, for days.
        values = predicted[np.array([rows[job.key] for job in jobs], np.intp)]
        self._predicted = {job.key: row for row, job in enumerate(jobs)}, values
        return {name: values[:, column].copy() for column, name in enumerate(PREDICTED_COLUMNS)}

    def renewed(self, past: JobColumns) -> RuntimeHistory:
        """Return the history with more of the past; predictions of jobs stay."""
        renewed = RuntimeHistory(past)
        renewed._predicted = self._predicted
        return renewed

    def independent_copy(self) -> RuntimeHistory:
        """Return a copy for another caller: what one predicted is not forgotten when the other predicts other jobs."""
        return copy(self)

    def _predict(self, jobs: Sequence[Job]) -> Floats:
        """Return [job, column of ``PREDICTED_COLUMNS``]."""
        past, run_s, ended_s = self.past, self.past.end_s - self.past.start_s, self.past.end_s
        # No job is its own predecessor; the outcomes of these jobs are known to later ones.
        keys = {job.key for job in jobs}
        row = {key: number for number, key in enumerate(zip(past.job_id, past.submit_s, strict=True)) if key in keys}
        past_rows = [row.get(job.key, -1) for job in jobs]
        others = np.ones(len(past), bool)
        others[[number for number in past_rows if number >= 0]] = False
        became_run_s, became_ended_s, became_started_s = (
            np.append(column, np.nan)[past_rows] for column in (run_s, ended_s, past.start_s))
        columns = predicted_columns(
            submit_s=np.append(np.fmax(past.submit_s, past.eligible_s)[others], [waits_from(job) for job in jobs]),
            run_s=np.append(run_s[others], became_run_s), ended_s=np.append(ended_s[others], became_ended_s),
            features=self._features(jobs, others), started_s=np.append(past.start_s[others], became_started_s),
            limit_s=np.append(past.limit_s[others], [np.nan if job.limit_s is None else job.limit_s for job in jobs]))
        return np.stack([columns[name][-len(jobs):] for name in PREDICTED_COLUMNS], axis=1)

    def _features(self, jobs: Sequence[Job], kept: NDArray[np.bool_]) -> JobFeatures:
        """Return what makes jobs of the past and these alike."""
        past = self.past
        return JobFeatures(
            np.append(past.gpus[kept], [job.request.gpus for job in jobs]),
            np.append(past.user[kept], _codes([job.user for job in jobs], self._users)),
            np.append(past.name[kept], _codes([template(job.name) for job in jobs], self._templates)),
            np.append(self._images[past.image[kept]], [self._image_of.get(job.image, -1) for job in jobs]),
            np.append(past.partition[kept], _codes([job.partition for job in jobs], self._partitions)))


def _by_template(past: JobColumns) -> JobColumns:
    """Return the jobs with templates in place of names, which are compared by template alone and mostly are many."""
    templates: dict[str, int] = {}
    codes = [templates.setdefault(template(name), len(templates)) for name in past.vocabularies["name"]]
    return replace(past, name=np.array(codes, np.int32)[past.name],
                   vocabularies=past.vocabularies | {"name": tuple(templates)})


def _codes(texts: Sequence[str], known: dict[str, int]) -> NDArray[np.int64]:
    """Return codes of texts; unknown ones get a new code each."""
    fresh = dict(known)
    return np.array([fresh.setdefault(text, len(fresh)) for text in texts], np.int64)
