"""Which parts of GPUs pods hold, where an annotation tells: fractions of KAI, devices of HAMi."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ...storage.gpu_parts import GpuPart
from .fields import Annotations

_DEVICE = re.compile(r"(?P<uuid>GPU-[0-9a-fA-F-]{8,36}),[^,:;]{0,64},(?P<mib>\d{1,9}),(?P<cores>\d{1,3})(?=[:;,]|$)")
_MOST = 64


def parts_of_gpus(notes: Annotations | None) -> tuple[GpuPart, ...]:
    """Return the parts that a pod holds by its annotations; nothing where they tell none, or what cannot be."""
    if notes is None:
        return ()
    return tuple(_hami(notes.hami)) or tuple(_fraction(notes.fraction))


def _fraction(text: str) -> Iterator[GpuPart]:
    try:
        share = float(text)
    except ValueError:
        return
    if math.isfinite(share) and 0.0 < share < 1.0:
        yield GpuPart("fraction", None, share, share)


def _hami(text: str) -> Iterator[GpuPart]:
    """Yield what HAMi gave: of each device id, MiB and percent of its cores, 0 where these are not limited."""
    for number, match in enumerate(_DEVICE.finditer(text[:16_384])):
        if number < _MOST:
            cores = int(match["cores"])
            yield GpuPart("hami", None, float(match["mib"]), cores / 100 if 0 < cores <= 100 else None, match["uuid"])
