"""What is told of real programs on a real H100 (provenance: tests/recorded/h100_programs/README.md)."""

import pytest
import real_programs

from idlewatt.daemon.causes import CauseWatch
from idlewatt.daemon.waste import WasteSettings
from idlewatt.daemon.waste.nodes import does_nothing, looks_hung
from idlewatt.storage.telemetry import NO_DETAIL
from idlewatt.storage.underuse import Cause

TRUE = {
    "waiting_for_cpus": {Cause.WAITING_FOR_DATA}, "waiting_for_disk": {Cause.WAITING_FOR_DATA},
    "python_bound": {Cause.CPU_BOUND}, "launch_bound": {Cause.CPU_BOUND},
    "small_graph": {Cause.SMALL_BATCH},
    "small_lstm": {Cause.SMALL_BATCH, Cause.CPU_BOUND},  # a thread launches 40 % of the time, kernels fill 4 % of it
    "memory_decode": {Cause.MEMORY_BOUND}, "memory_stencil": {Cause.MEMORY_BOUND},
    "offload": {Cause.COMMUNICATION}, "precision_transformer": {Cause.PRECISION}}
APART = {
    "apart_fp32_resnet": {Cause.PRECISION}, "apart_no_workers": {Cause.CPU_BOUND},
    "apart_small_speech": {Cause.SMALL_BATCH}}
"""Recorded after the rules were mended on the others, and labelled before."""
CLEAN = ("clean_transformer", "clean_double", "clean_resnet", "apart_tf32_transformer")
NOBODY_KNOWS = ("idle", "hung", "requests")


@pytest.fixture(scope="module")
def watcher():
    """Return a watch with short windows that has seen the GPU at its highest clock."""
    for _ in real_programs.shortened():
        watcher = CauseWatch()
        real_programs.judged("idle", watcher)
        yield watcher


@pytest.mark.parametrize("name", [*TRUE, *APART])
def test_the_cause_told_of_a_real_program_is_the_right_one(watcher, name):
    assert real_programs.says(name, watcher) in (TRUE | APART)[name]


@pytest.mark.parametrize("name", CLEAN)
def test_a_real_training_that_uses_the_gpu_well_is_blamed_for_nothing(watcher, name):
    assert real_programs.says(name, watcher) is Cause.NONE


@pytest.mark.parametrize("name", NOBODY_KNOWS)
def test_of_an_idle_a_hung_and_a_rarely_asked_program_no_cause_is_told(watcher, name):
    assert real_programs.says(name, watcher) is Cause.UNKNOWN


def test_every_recorded_program_has_a_label():
    assert set(real_programs.names()) == {*TRUE, *APART, *CLEAN, *NOBODY_KNOWS, "no_context"}


def always(holds):
    """Return the programs of which it holds in every second."""
    return {name for name in real_programs.names()
            if all(holds(read.gpus[0]) for _, read in real_programs.telemetry(name))}


def test_of_real_programs_only_the_hung_one_looks_hung():
    """Small kernels draw as little: what units and links do tells them apart."""
    settings = WasteSettings()
    floor = max(read.gpus[0].power_watts for _, read in real_programs.telemetry("idle"))

    def looks(gpu, detail):
        return looks_hung(gpu.power_watts, gpu.resident, floor, gpu.power_limit_watts, settings, detail)

    assert always(lambda gpu: looks(gpu, NO_DETAIL)) == {"hung", "small_graph"}
    assert always(lambda gpu: looks(gpu, gpu.detail)) == {"hung"}


def test_of_real_programs_only_those_without_kernels_do_nothing():
    """Reinforcement learning keeps 0.4 % of the SMs active, and has kernels 9 % of the time."""
    nothing = always(lambda gpu: does_nothing(gpu.activity, gpu.resident, WasteSettings()))
    assert "python_bound" in always(lambda gpu: gpu.activity <= WasteSettings().epsilon)
    assert nothing == {"idle", "no_context"}
