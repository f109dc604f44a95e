"""Trained weights on disk: a safetensors file, and beside it a JSON card that says what they are. Neither is code."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialize

from ...exporters.text import clean
from ...storage.records import ModelCard
from ...storage.whole_files import write

FORMAT = 1
"""Raised when an older idlewatt could not read what we write."""
WEIGHTS, CARD = "weights.safetensors", "card.json"
TRAINED_ON = "trained_on"
"""Metadata of the weights, which their digest covers: [from, until] of the history that they were trained on, s."""
LARGEST_BYTES = 1 << 30
LARGEST_CARD_BYTES = 16 << 20
MOST_FAULTS = 10
"""The most faults of a card that one error lists."""
FURTHEST_S = 6e10
"""Times further from 1970 than some 1,900 years are refused."""
LARGEST_WEIGHT = 1e6
"""No training of ours ends with a weight beyond it: sums over such weights say nothing."""

Arrays = Mapping[str, NDArray[Any]]
_CARD = TypeAdapter(ModelCard)


class CheckpointError(Exception):
    """Weights that must not be used; the message says which, why and what to do."""


def schema_hash(schema: Mapping[str, object]) -> str:
    """Return the digest of what an agent's inputs and outputs mean."""
    return hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()


def save(folder: Path, card: ModelCard, weights: Arrays, schema: Mapping[str, object]) -> ModelCard:
    """Write weights and card, each whole or not at all; return the card with its digests."""
    folder.mkdir(parents=True, exist_ok=True)
    content = serialize({name: np.ascontiguousarray(array) for name, array in weights.items()})
    card = replace(card, schema_hash=schema_hash(schema), weights_digest=hashlib.sha256(content).hexdigest())
    write(folder / WEIGHTS, content)
    write_card(folder, card)
    return card


def seal(folder: Path, card: ModelCard) -> None:
    """Write the span of a model's history into its weights, and its card with their digest.

    Who judges a model needs days that it has not learned from, and must not take the word of its card alone for that.
    ``CheckpointError`` when the weights are not those of the card.
    """
    content = serialize(_sealed_arrays(folder, card), metadata={TRAINED_ON: _span(card)})
    write(folder / WEIGHTS, content)
    write_card(folder, replace(card, weights_digest=hashlib.sha256(content).hexdigest()))


def write_card(folder: Path, card: ModelCard) -> None:
    """Write the card beside its weights; it replaces the former card."""
    write(folder / CARD, json.dumps({"format": FORMAT, **asdict(card)}, indent=2).encode())


def verify(folder: Path) -> ModelCard:
    """Return the card of a model after checking its weights against it, without loading an agent.

    ``CheckpointError`` when the weights are damaged or implausible, or the card tells another history than they do.
    """
    return verified(folder)[1]


def verified(folder: Path) -> tuple[dict[str, NDArray[Any]], ModelCard]:
    """Return all arrays of a model and its card; ``CheckpointError`` where :func:`verify` raises it."""
    card = read_card(folder / CARD)
    arrays = _sealed_arrays(folder, card)
    _credible(folder / WEIGHTS, arrays)
    return arrays, card


def load(folder: Path, schema: Mapping[str, object], *,
         like: Arrays) -> tuple[dict[str, NDArray[np.float32]], ModelCard]:
    """Return the weights and their card; ``CheckpointError`` unless they are whole and fit ``schema`` and ``like``."""
    card = read_card(folder / CARD)
    if card.schema_hash != schema_hash(schema):
        raise CheckpointError(f"{folder}: trained for other inputs, actions or limits than this agent has; "
                              "train it anew")
    return _checked(folder / WEIGHTS, _sealed_arrays(folder, card), like), card


def _sealed_arrays(folder: Path, card: ModelCard) -> dict[str, NDArray[Any]]:
    """Return the arrays of weights; ``CheckpointError`` unless they are what their card describes."""
    path = folder / WEIGHTS
    content = _whole(path, card)
    arrays, told = _parsed(path, content), _metadata(path, content).get(TRAINED_ON)
    if told not in (None, _span(card)):  # weights of an older idlewatt tell nothing
        raise CheckpointError(f"{folder / CARD}: history_from_s and history_until_s are {_span(card)}, and the weights "
                              f"were trained on {clean(str(told)[:80])}: the card was changed after the training; "
                              f"restore it together with {WEIGHTS}, or train anew")
    return arrays


def _span(card: ModelCard) -> str:
    return json.dumps([None if time_s is None else float(time_s)
                       for time_s in (card.history_from_s, card.history_until_s)])


def _metadata(path: Path, content: bytes) -> Mapping[str, str]:
    """Return what a safetensors file says of itself: its header follows the eight bytes of the header's length."""
    try:
        header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
        return dict(header.get("__metadata__") or {})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: its header cannot be read ({error}); train it anew") from error


def _whole(path: Path, card: ModelCard) -> bytes:
    """Return the content of a weights file; ``CheckpointError`` unless it is what its card describes."""
    content = _content(path)
    if hashlib.sha256(content).hexdigest() != card.weights_digest:
        raise CheckpointError(f"{path}: not the weights that {CARD} describes (digest differs): truncated, changed or "
                              "from another run; restore both files together")
    return content


def read_card(path: Path) -> ModelCard:
    """Return a card; ``CheckpointError`` when it is damaged or from a newer idlewatt."""
    try:
        fields = json.loads(_content(path, LARGEST_CARD_BYTES))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON ({error}); restore it together with {WEIGHTS}") from error
    version = fields.pop("format", None) if isinstance(fields, dict) else None
    if not isinstance(version, int):
        raise CheckpointError(f"{path}: not a model card; it has no format number")
    if version > FORMAT:
        raise CheckpointError(f"{path}: written by a newer idlewatt (format {version}, this one reads {FORMAT}); "
                              "upgrade")
    try:
        card = _CARD.validate_python(fields)
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, fault["loc"])) for fault in error.errors()[:MOST_FAULTS])
        raise CheckpointError(f"{path}: not a model card: {clean(wrong)} missing or of the wrong kind") from error
    _check_times(path, card)
    return card


def _check_times(path: Path, card: ModelCard) -> None:
    for name in ("trained_s", "history_from_s", "history_until_s"):
        time_s = getattr(card, name)
        if time_s is not None and not abs(time_s) < FURTHEST_S:  # NaN is no time either
            raise CheckpointError(f"{path}: {name} is {time_s}, which is no time; restore it together with {WEIGHTS}")


def write_unfinished(path: Path, state: Mapping[str, object], arrays: Arrays) -> None:
    """Write the state and the arrays of an interrupted training into one file, from which it can be resumed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, serialize(dict(arrays), metadata={"training": json.dumps(state)}))


def read_unfinished(path: Path, plan: str, difference: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the state and the arrays that :func:`write_unfinished` wrote.

    ``CheckpointError`` when the file is damaged or belongs to another plan; ``difference`` is how the error names what
    differs there.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            names: list[str] = list(file.keys())
            state, arrays = json.loads(file.metadata()["training"]), {name: file.get_tensor(name) for name in names}
        planned = state.get("plan")
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not an unfinished training ({error}); move it away to start anew") from error
    if planned != plan:
        raise CheckpointError(f"{path}: of a training with {difference}; move it away to start anew")
    return state, arrays


def _content(path: Path, most: int = LARGEST_BYTES) -> bytes:
    """Return the bytes of a plain file of a model; ``CheckpointError`` where there is none."""
    try:
        return plain_content(path, most)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error


def plain_content(path: Path, most: int) -> bytes:
    """Return the bytes of a plain file; a link may point anywhere, and a pipe or a device never ends.

    FileNotFoundError where there is none; ``CheckpointError`` for one of more than ``most`` bytes or of another sort.
    """
    try:
        # Without waiting: opening a pipe would, until somebody writes into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{path}: not a plain file; put the file itself there")
            if status.st_size > most:
                raise CheckpointError(f"{path}: larger than {most >> 20} MiB: no file of ours")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointError(f"{path}: a symbolic link, not a plain file; put the file itself there") from error
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error


def _parsed(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    try:
        return dict(parse(content))
    except (SafetensorError, ValueError, KeyError) as error:  # a shape beyond numpy's, a kind of number it lacks
        raise CheckpointError(f"{path}: not a safetensors file of numpy's numbers: {error}; train it anew") from error


def _checked(path: Path, weights: Arrays, like: Arrays) -> dict[str, NDArray[np.float32]]:
    """Return weights of the expected names, shapes and kind, all finite."""
    if {name: array.shape for name, array in weights.items()} != {name: array.shape for name, array in like.items()}:
        raise CheckpointError(f"{path}: other layers than this agent has; train it anew")
    for name, array in weights.items():
        if array.dtype != like[name].dtype or not np.isfinite(array).all():
            raise CheckpointError(f"{path}: {name} is not made of finite {like[name].dtype} numbers; train it anew")
    _credible(path, weights)
    return dict(weights)


def _credible(path: Path, weights: Arrays) -> None:
    """Raise ``CheckpointError`` for weights that no training ends with: an agent with them would be useless."""
    # Weights are of single precision; what a model keeps beside them (sizes in bytes, limits) is not.
    layers = [array for array in weights.values() if array.dtype == np.float32]
    if not layers:
        return  # the caller that loads them says what is missing
    largest = max(float(np.abs(array).max(initial=0.0)) for array in layers)
    if not 0.0 < largest <= LARGEST_WEIGHT:  # NaN is in no range
        description = "every weight is zero" if largest == 0.0 else f"weights up to {largest:.3g}"
        raise CheckpointError(f"{path}: {description}, which no training ends with; train it anew")
