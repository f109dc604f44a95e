"""The array types of networks that are written once: numpy arrays for decisions, torch tensors for training."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Array = TypeVar("Array", NDArray[np.float32], NDArray[np.float64], "torch.Tensor")
