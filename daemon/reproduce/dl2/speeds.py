"""How fast the eight models of DL2 train with ``p`` parameter servers and ``w`` workers.

The authors measured it on their testbed and publish the table without a licence, so the table is not here: our own fit
of it is, a quadratic in the logarithms of ``p`` and ``w`` for each model, robust (soft L1) against the few runs that
failed or are 7 times off (seq2seq on 5 and on 10 servers). A user who has the file can replay with it: ``measured``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import numpy as np

from ...replay.arrays import Floats
from ...replay.speed import SpeedError

MODELS = ("resnet-50", "vgg-16", "resnext-110", "inception-bn", "seq2seq", "cnn-text-classification", "dssm", "wlm")
EPOCH_SIZE = (115, 115, 390, 120, 780, 193, 349, 165)
"""Size of an epoch of each model, in the unit of its measured speed times seconds."""
SLOT_S = 1200.0

_POWERS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0))
"""Powers of ln p and ln w that belong to each coefficient."""
_FITTED = ((3.0568, 0.8097, -0.0503, 0.4781, 0.1354, -0.1657),
           (2.1627, 0.7508, -0.0419, 0.7285, 0.0772, -0.1169),
           (5.9056, 0.5645, -0.0339, 0.5949, 0.2170, -0.2246),
           (4.8614, 0.7866, -0.0342, 0.1218, 0.1356, -0.0361),
           (3.7930, 0.9874, -0.0126, 0.0661, 0.0110, -0.0142),
           (4.1707, 0.8893, -0.0676, 0.3892, 0.0833, -0.1710),
           (6.0456, 1.0168, -0.0661, 0.0104, 0.0103, -0.0097),
           (4.4165, 0.9661, -0.0744, 0.5934, -0.0298, -0.0532))
FIT_ERROR = (0.023, 0.037, 0.029, 0.047, 0.007, 0.032, 0.019, 0.024)
"""Median relative error of the fit at the measured points with up to 10 servers and 10 workers, by model."""


def fitted(most: int) -> Floats:
    """Return fitted epochs per slot, [model, servers, workers], for 0 to ``most`` + 1 of each; 0 without either.

    The fit used at most 10 servers and 10 workers: larger numbers are extrapolated.
    """
    tasks = np.log(np.arange(1, most + 2, dtype=np.float64))
    servers, workers = np.meshgrid(tasks, tasks, indexing="ij")
    logs = sum(np.multiply.outer(np.array(_FITTED)[:, term], servers ** p * workers ** w)
               for term, (p, w) in enumerate(_POWERS))
    return _per_slot(np.exp(np.asarray(logs)))


def measured(path: Path, most: int) -> Floats:
    """Return epochs per slot, [model, servers, workers], from the authors' file; SpeedError for any other file."""
    from scipy.interpolate import Rbf  # heavy, and only wanted where somebody has the file

    points: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for number, row in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            model, _, _, servers, workers, speeds, *_ = ast.literal_eval(row)
            points[model].append((int(servers), int(workers), float(sum(speeds))))
        except (ValueError, SyntaxError, TypeError) as error:
            raise SpeedError(f"{path}:{number}: not (model, mode, batch, servers, workers, [speeds], ...)") from error
    if missing := [model for model in MODELS if len(points[model]) < 3]:
        raise SpeedError(f"{path}: too few measurements of {', '.join(missing)}")
    tasks = np.arange(1, most + 2, dtype=np.float64)
    servers, workers = np.meshgrid(tasks, tasks, indexing="ij")
    return _per_slot(np.stack([np.maximum(0.0, Rbf(*np.array(points[model]).T, function="linear")(servers, workers))
                               for model in MODELS]))


def _per_slot(speeds: Floats) -> Floats:
    """Return epochs per slot with a zero row and a zero column for no servers and no workers."""
    epochs = speeds * SLOT_S / np.array(EPOCH_SIZE, np.float64)[:, None, None]
    return np.pad(epochs, ((0, 0), (1, 0), (1, 0)))
