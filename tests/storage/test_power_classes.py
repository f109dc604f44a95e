import pickle
from itertools import pairwise

import pytest

from idlewatt.storage.power_classes import ALLOCATED, GPU_CLASSES, GPU_CODES, NODE_STATES, WASTED, PowerClass

GROUNDS = {"white": "#ffffff", "dark page": "#1a222b", "dark Grafana": "#181b1f"}


def luminance(color: str) -> float:
    """Return WCAG's relative luminance of ``#rrggbb``."""
    parts = [int(color[place:place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("row", PowerClass)
def test_every_row_is_complete(row):
    assert row.label
    assert row.help.endswith(".")
    assert row.remedy.endswith(".") or not row.wasted, "who is shown waste is told what to do"
    assert (row.code is None) == (row.node_state == "")


@pytest.mark.parametrize("row", PowerClass)
@pytest.mark.parametrize("ground", GROUNDS)
def test_every_colour_stands_out_on_every_ground(row, ground):
    assert contrast(row.color, GROUNDS[ground]) >= 3.0


def test_no_two_rows_share_a_label_a_colour_or_a_code():
    for column in ("value", "label", "color"):
        assert len({getattr(row, column) for row in PowerClass}) == len(PowerClass)
    assert sorted(GPU_CODES.values()) == list(range(len(GPU_CLASSES)))


def test_label_values_and_codes_never_change():
    """What Prometheus and databases have stored is read by them."""
    assert list(GPU_CODES) == ["unavailable", "unmeasured", "planned", "stranded", "idle_unallocated", "allocated_idle",
                               "allocated_hung", "allocated_underused", "productive", "outside_scheduler"]
    assert set(PowerClass) - set(GPU_CODES) == {"node_overhead_empty", "host_active"}


def test_the_kinds_come_in_the_order_of_reading():
    kinds = [row.kind for row in PowerClass]
    assert [kinds[0], *(after for before, after in pairwise(kinds) if before != after)] == ["wasted", "useful", "apart"]
    assert set(WASTED) == {"idle_unallocated", "stranded", "allocated_idle", "allocated_hung", "allocated_underused",
                           "node_overhead_empty"}


def test_a_gpu_is_held_in_exactly_the_classes_of_held_gpus():
    assert {row for row in PowerClass if row.held} == {"allocated_idle", "allocated_hung", "allocated_underused",
                                                       "productive"}
    assert NODE_STATES[0] == ALLOCATED


def test_a_row_is_found_by_its_value_and_survives_another_process():
    assert PowerClass("stranded") is PowerClass.STRANDED
    assert pickle.loads(pickle.dumps(PowerClass.STRANDED)) is PowerClass.STRANDED
