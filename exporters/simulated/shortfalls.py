"""Why a simulated job does less with its GPUs than it could, and what its servers' pages show of that.

The figures are made up so that each stands well within what the literature calls by that name (see the rules of
``daemon.causes``); no recorded program is repeated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from .hardware import Model


class Shortfall(StrEnum):
    """What keeps the GPUs of an underused job from their work."""

    NONE = "none"
    LOADERS = "loaders"
    """Its CPUs prepare data, all of them, and cannot keep up."""
    FILES = "files"
    """It reads files, and disks cannot keep up."""
    ONE_THREAD = "one_thread"
    """One thread launches all kernels; its other CPUs wait."""
    SMALL_BATCH = "small_batch"
    MEMORY = "memory"
    LINKS = "links"
    HEAT = "heat"
    POWER_BRAKE = "power_brake"
    PRECISION = "precision"
    """It trains in 32 bits, and the matrix units have nothing to do."""
    ONE_GPU = "one_gpu"
    """One of its GPUs works; the others were never used."""


@dataclass(frozen=True, slots=True)
class Units:
    """What the units of a GPU do: a level, and what activity adds to it; shares of 0..1 or of a link's rate."""

    engine: tuple[float, float] = (0.0, 1.0)
    sm: tuple[float, float] = (0.0, 1.0)
    occupancy: tuple[float, float] = (0.0, 0.5)
    tensor: tuple[float, float] = (0.0, 0.5)
    dram: tuple[float, float] = (0.0, 0.4)
    fp32: tuple[float, float] = (0.0, 0.2)
    nvlink: tuple[float, float] = (0.0, 0.05)
    clock: tuple[float, float] = (1.0, 0.0)
    """Of the usual one."""


@dataclass(frozen=True, slots=True)
class Host:
    """What a job makes its servers do: shares of its CPUs, of the disks' time, and of time with processes waiting."""

    cpus: float = 0.3
    disk: float = 0.02
    waiting: float = 0.01


_SLOW = {"engine": (0.9, 0.0), "sm": (0.8, 0.1), "tensor": (0.3, 0.1), "dram": (0.35, 0.0)}
"""Of a GPU that works all the time, and slowly."""
UNITS: Mapping[Shortfall, Units] = {
    Shortfall.SMALL_BATCH: Units((0.88, 0.1), occupancy=(0.05, 0.1), tensor=(0.0, 0.1), dram=(0.0, 0.2),
                                 fp32=(0.0, 0.1), nvlink=(0.0, 0.0)),
    Shortfall.MEMORY: Units((0.9, 0.05), (0.5, 0.3), (0.4, 0.0), (0.0, 0.1), (0.7, 0.1), (0.1, 0.1)),
    Shortfall.LINKS: Units((0.88, 0.1), tensor=(0.0, 0.3), dram=(0.0, 0.3), nvlink=(0.35, 0.1)),
    Shortfall.HEAT: Units(**_SLOW, clock=(0.62, 0.0)),
    Shortfall.POWER_BRAKE: Units(**_SLOW, clock=(0.5, 0.0)),
    Shortfall.PRECISION: Units((0.92, 0.05), (0.8, 0.1), (0.4, 0.0), (0.0, 0.0), (0.3, 0.0), (0.4, 0.1))}
"""Of all others the units do as much as the GPU is active."""
HOSTS: Mapping[Shortfall, Host] = {
    Shortfall.LOADERS: Host(0.95, 0.2, 0.05), Shortfall.FILES: Host(0.25, 0.92, 0.5),
    Shortfall.HEAT: Host(0.5), Shortfall.POWER_BRAKE: Host(0.5), Shortfall.PRECISION: Host(0.5)}
_ANYWHERE = (Shortfall.LOADERS, Shortfall.FILES, Shortfall.ONE_THREAD, Shortfall.ONE_GPU)
"""Known by how much GPUs and CPUs work alone, which every exporter shows."""
_OF_PROGRAMS: Mapping[str, tuple[Shortfall, ...]] = {
    "resnet50": (Shortfall.LOADERS,), "vit-large": (Shortfall.HEAT, Shortfall.LOADERS),
    "detr": (Shortfall.POWER_BRAKE, Shortfall.FILES), "bert-ft": (Shortfall.SMALL_BATCH, Shortfall.ONE_THREAD),
    "gpt-pretrain": (Shortfall.PRECISION, Shortfall.LOADERS), "notebook": (Shortfall.ONE_GPU,),
    "alphafold": (Shortfall.MEMORY, Shortfall.ONE_THREAD), "docking": (Shortfall.LINKS, Shortfall.LOADERS)}
"""What usually keeps a program from its work, where its servers' pages can tell it; else the next."""


def visible(model: Model) -> frozenset[Shortfall]:
    """Return the shortfalls that a server's pages show: DCGM's default fields have no SMs, clocks' reasons or links.

    A Gaudi shows only a utilisation that is derived from its power.
    """
    if model.since_4_6:
        return frozenset(Shortfall) - {Shortfall.NONE}
    more = {"amd": (Shortfall.HEAT, Shortfall.POWER_BRAKE), "dcgm": (Shortfall.MEMORY,)}
    return frozenset((*_ANYWHERE, *more.get(model.exporter, ())))


def first_visible(wanted: Iterable[Shortfall], model: Model, whole: bool) -> Shortfall:
    """Return the first of these that a server's pages can show; disks show only a job with a whole server."""
    shown = visible(model) if whole else visible(model) - {Shortfall.FILES}
    return next((shortfall for shortfall in wanted if shortfall in shown), Shortfall.LOADERS)


def of_program(name: str, model: Model, whole: bool) -> Shortfall:
    """Return what keeps a program from its work on servers of a model, of which it has the whole or parts."""
    return first_visible(_OF_PROGRAMS.get(name, ()), model, whole)


def host(shortfall: Shortfall) -> Host:
    """Return what a job does to its servers."""
    return HOSTS.get(shortfall, Host())


NUMBERS = {shortfall: number for number, shortfall in enumerate(Shortfall)}
"""By which arrays name it."""
LEVELS: Mapping[str, npt.NDArray[np.float64]] = {
    unit.name: np.array([getattr(UNITS.get(shortfall, Units()), unit.name) for shortfall in Shortfall])
    for unit in fields(Units)}
"""Level and gain of each unit, a row for each shortfall."""
