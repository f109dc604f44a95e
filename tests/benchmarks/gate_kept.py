"""Made-up histories that are replayed once and kept, so that every rule is tried on the same.

They lie in the folder IDLEWATT_KEPT, by default among temporary files, under names that change with the code that made
them.
"""

import hashlib
import inspect
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import null_sites
import numpy as np
import one_node_easy

FOLDER = Path(os.environ.get("IDLEWATT_KEPT") or Path(tempfile.gettempdir()) / "idlewatt-gate")
CHUNK = 20


def kept(name, make, seeds, workers=2):
    """Return ``make(seed)`` for all seeds, from files where there are some; ``make`` is a partial of a function."""
    parts = [seeds[first:first + CHUNK] for first in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        return [row for part in pool.map(partial(_part, name, make), parts) for row in part]


def _part(name, make, seeds):
    file = FOLDER / f"{name}-{_told(make)}-{seeds[0]}-{len(seeds)}.npz"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        found = {f"{seed} {field}": value for seed in seeds for field, value in make(seed).items()}
        np.savez(file.with_suffix(".part.npz"), **found)
        file.with_suffix(".part.npz").rename(file)
    rows = {seed: {} for seed in seeds}
    with np.load(file) as stored:
        for key in stored.files:
            seed, field = key.split()
            rows[int(seed)][field] = stored[key]
    return list(rows.values())


def _told(make):
    """Return a digest of what makes histories and of what it was told."""
    sources = [inspect.getsourcefile(one) or "" for one in (make.func, null_sites, one_node_easy)]
    return hashlib.sha256(b"".join(Path(one).read_bytes() for one in sources)
                          + repr((make.func.__name__, make.args)).encode()).hexdigest()[:12]
