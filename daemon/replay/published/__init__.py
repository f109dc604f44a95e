"""The simulators behind published results, rewritten event by event: named modes, apart from our engine.

Each file follows one artifact to its digits, quirks included; what is such a quirk says so. Nothing here is used to
advise anybody. To add one, write a file with ``rows(traces)`` and name it in ``ARTIFACTS``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

from .result import Row

ARTIFACTS = ("helios", "muri", "pollux", "fgd", "proximity")


def rows(traces: Path) -> Iterator[Row]:
    """Yield every published number beside ours; ``traces`` is the folder of the packaged traces.

    Raises ``FileNotFoundError`` when a trace is missing.
    """
    for artifact in ARTIFACTS:
        yield from importlib.import_module(f"{__name__}.{artifact}").rows(traces)
