"""Slurm's words for GPUs: GRES (``gpu:a100:4(IDX:0,3-5)``) and TRES (``cpu=64,mem=62.50G,gres/gpu:a100=8``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MAX_GPUS = 1_000_000
_MAX_LENGTH = 10_000
_UNITS = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_GPU = re.compile(r"(?:gres[:/])?gpu(?:[:/](?:(?P<model>(?!\d+(?:[:=(]|$))[^:=(]+)|\(null\)))?"
                  r"(?:[:=](?P<count>\d{1,9}))?(?P<rest>\(.*)?")
_PART = re.compile(r"(?:gres[:/])?(?P<kind>shard|mps)(?:[:/](?:(?!-?\d+(?:[:=(]|$))[^:=(]+|\(null\)))?"
                   r"(?:[:=](?P<count>\d{1,9}))?(?P<rest>\(.*)?")
_OTHER = re.compile(r"(?:gres[:/])(?!gpu(?:[:/=(]|$))[^()]{1,100}")
_INDEXES = re.compile(r"\(IDX:([^)]*)\)")
_SPAN = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)(?:[nc])?")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of one node, one job or one part of a job."""

    count: int = 0
    model: str = ""
    """The first type named; '' when none is."""
    indexes: tuple[int, ...] | None = None
    """None where no indexes are given, or where UUIDs stand in their place."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of GPUs (``shard``, ``mps``) of one node, or of one job on a node."""

    kind: str
    count: int
    indexes: tuple[int, ...] = ()
    """Of the GPUs that they are on; () where none are given."""


@dataclass(frozen=True, slots=True)
class Tres:
    """The trackable resources that idlewatt cares for; None where the string does not name one."""

    cpus: int | None = None
    memory_bytes: int | None = None
    nodes: int | None = None
    gpus: Gpus | None = None


def parse_gres(text: str) -> Gpus:
    """Return the GPUs of a GRES string; other resources (``nvme``, ``shard``, ``mps``) are not GPUs.

    Raises:
        ValueError: a text or a count beyond reason.
    """
    if len(text or "") > _MAX_LENGTH:
        raise ValueError(f"a GRES of {len(text)} characters: {text[:80]!r}")
    matches = _gpus(text)
    count = sum(int(match["count"] or 1) for match in matches)
    if count > MAX_GPUS:
        raise ValueError(f"{count} GPUs in {text[:80]!r}")
    model = next((match["model"] for match in matches if match["model"]), "")
    named = [_INDEXES.search(match["rest"] or "") for match in matches]
    parts = [parse_indexes(match[1]) for match in named if match]
    if len(parts) != len(matches) or any(part is None for part in parts):
        return Gpus(count, model)
    return Gpus(count, model, tuple(sorted(index for part in parts for index in part or ())) if matches else None)


def parse_models(text: str) -> tuple[str, ...]:
    """Return the types of GPUs that a GRES string names, each once."""
    models = dict[str, str]()
    for match in _gpus((text or "")[:_MAX_LENGTH]):
        if match["model"] and match["count"] != "0":
            models.setdefault(match["model"].lower(), match["model"])
    return tuple(models.values())


def _gpus(text: str) -> list[re.Match[str]]:
    return [match for entry in _OUTSIDE_PARENTHESES.split(text or "") if (match := _GPU.fullmatch(entry.strip()))]


def parse_parts(text: str) -> tuple[Parts, ...]:
    """Return the parts of GPUs in a GRES string.

    What is in use of a node stands as ``shard:a100:2(IDX:0,4)``, two GPUs of which some is taken; of a job as
    ``shard:3(IDX:0)``, three shards of GPU 0.
    """
    matches = [_PART.fullmatch(entry.strip()) for entry in _OUTSIDE_PARENTHESES.split((text or "")[:_MAX_LENGTH])]
    named = [(match, _INDEXES.search(match["rest"] or "")) for match in matches if match]
    return tuple(Parts(match["kind"], int(match["count"] or 1), (parse_indexes(where[1]) if where else None) or ())
                 for match, where in named)


def parse_others(text: str) -> tuple[str, ...]:
    """Return what a job asks for of resources that are no GPUs: ``mps:60``, ``shard:a100:2``, ``nvme:1``."""
    entries = (entry.strip() for entry in _OUTSIDE_PARENTHESES.split((text or "")[:_MAX_LENGTH]))
    return tuple(re.sub("^gres[:/]", "", entry) for entry in entries
                 if _OTHER.fullmatch(entry) or (entry.startswith(("shard", "mps")) and _PART.fullmatch(entry)))


def parse_indexes(text: str) -> tuple[int, ...] | None:
    """Return the numbers of ``0,3-4``; () for ``N/A``; None for anything else, such as the UUIDs of Slurm >= 25.11."""
    if text in ("", "N/A"):
        return ()
    spans = [_SPAN.fullmatch(part.strip()) for part in text.split(",")]
    numbers: list[int] = []
    for span in spans:
        if span is None:
            return None
        numbers += range(int(span[1]), int(span[2] or span[1]) + 1)
    return tuple(numbers)


def parse_tres(text: str) -> Tres:
    """Return the resources of a TRES string.

    Raises:
        ValueError: an amount that is no number.
    """
    amounts = dict(part.partition("=")[::2] for part in (text or "").split(",") if "=" in part)
    models = [name.partition(":")[2] for name in amounts if name.startswith("gres/gpu:")]
    typed = sum(int(amounts[f"gres/gpu:{model}"]) for model in models)
    gpus = max(int(amounts.get("gres/gpu", 0)), typed)
    if gpus > MAX_GPUS:
        raise ValueError(f"{gpus} GPUs in {text[:80]!r}")
    return Tres(
        cpus=int(amounts["cpu"]) if "cpu" in amounts else None,
        memory_bytes=parse_memory(amounts["mem"]) if "mem" in amounts else None,
        nodes=int(amounts["node"]) if "node" in amounts else None,
        gpus=Gpus(gpus, models[0] if models else "") if models or "gres/gpu" in amounts else None,
    )


def gpus_of(counts: Mapping[str, int]) -> int:
    """Return the GPUs among counts by TRES name, be it only their types that are reported.

    Raises:
        ValueError: a count beyond reason.
    """
    gpus = max(counts.get("gres/gpu", 0), sum(count for name, count in counts.items() if name.startswith("gres/gpu:")))
    if gpus > MAX_GPUS:
        raise ValueError(f"it has {gpus} GPUs")
    return gpus


def parse_memory(text: str) -> int:
    """Return the bytes of ``62.50G``; without a unit Slurm means MiB.

    Raises:
        ValueError: not an amount of memory.
    """
    match = _MEMORY.fullmatch(text)
    if not match:
        raise ValueError(f"not an amount of memory: {text[:40]!r}")
    return int(float(match[1]) * _UNITS[match[2]])


def share_gpus(gpus: int, nodes: int) -> list[Gpus]:
    """Return GPUs of unknown index, spread over the nodes as evenly as they go."""
    return [Gpus(count) for count in share(gpus, nodes)]


def share(amount: int, parts: int) -> list[int]:
    """Return whole shares that add up to the amount, the larger ones first."""
    return [amount // parts + (place < amount % parts) for place in range(parts)]
