"""How much closeness is worth, by application: measured on nodes of four GPUs, and what is assumed of leaf switches."""

from __future__ import annotations

import numpy as np

from .arrays import Floats

GPUS = 4
"""Of a node, as on the machines that were measured."""
PER_CROSSING = 0.2
"""Share by which each leaf switch beyond the first prolongs what communication costs: our choice, for nobody measured
across leaf switches on these machines. The predecessor has so much for each further machine."""

_MEASURED = {
    "bert": ((1.00, 1.00, 1.03, 1.04), (1.61, 2.17, 2.41, 2.59), (1.40, 1.59, 1.69, 1.74), (1.60, 1.71, 1.81, 1.89)),
    "yolov3": ((1.00, 1.06, 1.20, 1.33), (1.82, 2.44, 2.91, 3.05), (1.57, 1.87, 2.14, 2.35), (1.66, 1.94, 2.20, 2.38)),
    "ncf": ((1.00, 1.28, 1.39, 1.59), (2.48, 2.81, 3.54, 3.80), (1.88, 2.60, 2.80, 3.02), (2.44, 2.88, 2.95, 3.17)),
    "deepspeech2": ((1.00, 1.06, 1.04, 1.07), (1.05, 1.09, 1.13, 1.14), (1.07, 1.12, 1.17, 1.19),
                    (1.12, 1.14, 1.17, 1.18)),
    "cifar10": ((1.00, 1.17, 1.17, 1.12), (1.03, 1.13, 1.19, 1.18), (1.06, 1.16, 1.21, 1.20), (1.10, 1.16, 1.21, 1.21)),
    "imagenet": ((1.00, 1.02, 1.08, 1.09), (1.04, 1.05, 1.12, 1.09), (1.05, 1.06, 1.09, 1.11),
                 (1.07, 1.08, 1.11, 1.12)),
}
"""Time of a step, over that on one GPU, by nodes (1 to 4; more count as 4) and GPUs on the fullest node (1 to 4).

Means over all such placements in the tables of Pollux's artifact (Qiao et al., OSDI'21; Apache-2.0), at the largest
batch of a GPU that was measured on each of them. Three nodes are faster than two there, as they were measured.
"""
APPLICATIONS = tuple(_MEASURED)


def slow() -> Floats:
    """Return the table, [application, nodes less 1, GPUs on the fullest node less 1]."""
    return np.array(list(_MEASURED.values()))
