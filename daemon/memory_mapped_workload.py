"""A workload on disk instead of in every process of a sweep: its columns are files that all of them map."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .replay.workload import COLUMNS, Workload

_PREFIX = "jobs-"
LEFT_S = 86400.0
"""A folder this old was left by a process that was killed: a sweep writes its own first thing."""


@dataclass(frozen=True, slots=True)
class MappedWorkload:
    """The files that hold the columns of a workload."""

    folder: Path
    rest: Workload
    """The workload without its columns."""

    @classmethod
    def of(cls, workload: Workload, folder: Path) -> MappedWorkload:
        """Write the columns into a folder."""
        columns = {name: getattr(workload, name) for name in COLUMNS}
        if isinstance(workload.ids, np.ndarray):
            columns["ids"] = workload.ids
        for name, column in columns.items():
            np.save(folder / f"{name}.npy", column, allow_pickle=False)
        nothing: dict[str, Any] = {name: column[:0].copy() for name, column in columns.items()}
        return cls(folder, replace(workload, **nothing))

    def workload(self) -> Workload:
        """Return the workload; the system reads of it what is looked at."""
        columns: dict[str, Any] = {path.stem: np.load(path, mmap_mode="r", allow_pickle=False)
                                   for path in self.folder.glob("*.npy")}
        return replace(self.rest, **columns)


@contextmanager
def spool_folder(beside: Path) -> Iterator[Path]:
    """Make a folder that goes when this ends, and take away what others could not."""
    beside.mkdir(parents=True, exist_ok=True)
    for old in beside.glob(f"{_PREFIX}*"):
        if old.stat().st_mtime < time.time() - LEFT_S:
            shutil.rmtree(old, ignore_errors=True)
    with TemporaryDirectory(prefix=_PREFIX, dir=beside) as folder:
        yield Path(folder)
