"""The figures of a training run, for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self


class TensorBoard:
    """Writes scalars that ``tensorboard --logdir`` shows."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter  # torch: only machines that train have it

        self._writer = SummaryWriter(str(folder))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Note figures of one step."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._writer.close()
