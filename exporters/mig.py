"""How MIG cuts NVIDIA's GPUs: into how many slices, and of how much memory, by the name of the product.

The numbers are those of NVIDIA's MIG User Guide (supported GPUs and profiles); B300's and GB300's are those that their
largest profiles are named after. Names are compared word by word: drivers write ``NVIDIA A30``, labels ``NVIDIA-A30``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

MOST_SLICES = 7
_WORD = re.compile(r"[a-z0-9]+")
_SIZE = re.compile(r"-([0-9]{2,4})GB(?![^-])")
_FEWER_SLICES = {"A30": 4, "A30X": 4, "RTX PRO 6000": 4, "RTX PRO 5000": 2, "RTX PRO 4500": 2}
_MISNAMED = {"GH200 144G": 144, "GH200": 96}
"""In GB, by the first that fits, of products that name another: GH200's 480GB are those of its CPU."""
_UNNAMED = {"H200": 141, "H20 3e": 141, "H20": 96, "H100 NVL": 94, "H100 PCIe": 80, "H800": 80, "B200": 180,
            "GB200": 186, "B300": 269, "GB300": 278, "A30": 24, "RTX PRO 6000": 96}
"""In GB, by the first that fits, of products that do not name it."""


@lru_cache(maxsize=256)
def slices_of(product: str) -> int:
    """Return into how many slices a GPU can be cut; 7 for a product that is not known."""
    return _known(_FEWER_SLICES, product) or MOST_SLICES


def memory_of(product: str) -> int:
    """Return the memory of a GPU in GB by its product's label; 0 where nobody tells."""
    size = _SIZE.search(product)
    return _known(_MISNAMED, product) or (int(size[1]) if size else _known(_UNNAMED, product))


def _known(table: Mapping[str, int], product: str) -> int:
    words = _words(product)
    return next((number for name, number in table.items() if _words(name) <= words), 0)


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name.lower()))
