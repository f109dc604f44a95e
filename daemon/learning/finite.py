"""Whether what a policy holds are numbers: weights that are NaN or infinite decide nothing that could be judged."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set

import numpy as np

MOST_PARTS = 100_000
"""A policy of more parts is not looked through: what lies beyond could be anything."""
_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
"""What holds no weights; to walk a function's globals would be to walk the program."""
_COMPILERS = ("numba", "llvmlite")
"""Packages of compiled functions, which are objects that hold the compiler itself."""
_PLAIN = (str, bytes, bytearray, bool, int, np.dtype, type(None))


def not_finite(policy: object, most: int = MOST_PARTS) -> str:
    """Return why a policy's numbers are none, by the attribute that holds them; '' when all of them are.

    Arrays are looked for in lists, mappings and objects at any depth. NaN is no number anywhere; infinity is one where
    a single float says that there is no limit, and in no array.
    """
    seen, left = set[int](), deque((name.strip("_"), part) for name, part in _attributes(policy))
    while left:
        name, part = left.popleft()
        if isinstance(part, (*_PLAIN, *_CODE)) or _compiled(part) or id(part) in seen:
            continue
        seen.add(id(part))
        if len(seen) > most:
            return f"its {name} holds too many parts to be looked through; {most} are the most"
        if _wrong(part):
            return f"its {name} holds numbers that are none"
        left.extend((name, inner) for inner in _inner(part))
    return ""


def _compiled(part: object) -> bool:
    return type(part).__module__.partition(".")[0] in _COMPILERS


def _wrong(part: object) -> bool:
    """Tell whether a value is no finite number, or an array that holds one."""
    if isinstance(part, float | np.floating):
        return bool(np.isnan(part))
    if not isinstance(part, np.ndarray | np.void):
        return isinstance(part, complex | np.complexfloating) and not np.isfinite(part)
    if part.dtype.names:
        return any(_wrong(np.asarray(part[name])) for name in part.dtype.names)
    return part.dtype.kind in "fc" and not np.isfinite(part).all()


def _inner(part: object) -> Iterable[object]:
    """Return what a part holds."""
    if isinstance(part, np.ndarray):
        return part.ravel().tolist() if part.dtype.kind == "O" else ()
    if isinstance(part, Mapping):
        return (*part.keys(), *part.values())
    if isinstance(part, list | tuple | Set | deque):
        return part
    # A single number of a part is what it remembers, such as its last loss: weights stand in arrays and lists.
    return (inner for _, inner in _attributes(part) if not isinstance(inner, float))


def _attributes(part: object) -> Iterator[tuple[str, object]]:
    """Yield what an object holds, by name: what is in its dictionary, and in the slots of its classes."""
    attributes = getattr(part, "__dict__", {})
    yield from attributes.items() if isinstance(attributes, dict) else ()
    for kind in type(part).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(part, name):
                yield name, getattr(part, name)
