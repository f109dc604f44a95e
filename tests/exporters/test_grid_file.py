"""Prices and carbon by the hour from a file that anybody may have written."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.exporters.grid_file import LARGEST_BYTES, GridFileConfig, parse
from idlewatt.exporters.source import SourceError
from idlewatt.storage.energy_prices import GridSample

TABLE = """from,EUR/MWh,gCO2e/kWh
2001-09-09T01:00Z,80,400
2001-09-09T02:00Z,-12.5,
2001-09-09T02:15Z,,380
2001-09-09T04:00+02:00,95,350
"""
ONE = 999_997_200.0  # 2001-09-09T01:00Z


@pytest.fixture
def table(tmp_path, clock):
    """Return the function that writes a table and returns the source that reads it."""
    def write(text, **options):
        path = tmp_path / "grid.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return GridFileConfig(file=path, **{"currency": "EUR"} | options).build(clock)

    return write


def test_a_value_holds_until_the_next_line_and_an_hour_at_most(table):
    source = table(TABLE.replace("2001-09-09T04:00+02:00,95,350\n", "2001-09-09T06:00+02:00,95,350\n"))
    found = source.read()
    assert found.prices == (GridSample(0.08, ONE, ONE + 3600), GridSample(-0.0125, ONE + 3600, ONE + 4500),
                            GridSample(0.095, ONE + 10800, ONE + 14400))
    assert found.carbon == (GridSample(400.0, ONE, ONE + 3600), GridSample(380.0, ONE + 4500, ONE + 8100),
                            GridSample(350.0, ONE + 10800, ONE + 14400))


def test_an_empty_cell_is_not_known_and_an_offset_is_obeyed(table):
    with pytest.raises(SourceError, match=r"line 5: 2001-09-09T04:00\+02:00 does not come after the line before"):
        table(TABLE).read()


@pytest.mark.parametrize(("text", "fault"), [
    ("", "the first line is `from`"), ("from\n", "the first line"), ("hour,EUR/MWh\n", "the first line"),
    ("from,EUR/MWh,USD/MWh\n", "the first line"), ("from,gCO2e/kWh,gCO2e/kWh\n", "the first line"),
    ("from,USD/MWh\n", "its prices are in USD, not in EUR"), ("from,furlongs\n", "no unit of carbon intensity"),
    ("from,EUR/MWh\n2026-10-01T00:00Z\n", "line 2: 1 columns, not 2"),
    ("from,EUR/MWh\n2026-10-01T00:00Z,1,2\n", "line 2: 3 columns, not 2"),
    ("from,EUR/MWh\n2026-10-01T00:00Z,=cmd|' /C calc'!A0\n", "line 2: .*is no number"),
    ("from,EUR/MWh\n2026-10-01T00:00Z,\"1,5\"\n", "line 2: '1,5' is no number"),
    ("from,EUR/MWh\n2026-10-01T00:00Z,nan\n", "line 2: nan EUR/MWh is no price"),
    ("from,EUR/MWh\n2026-10-01T00:00Z,1e308\n", "line 2: .*cannot be believed"),
    ("from,EUR/MWh\nyesterday,1\n", "line 2: 'yesterday' is no time"),
    ("from,EUR/MWh\n2026-10-01T00:00Z,1\n2026-10-01T00:00Z,2\n", "line 3: .*does not come after"),
    ("from,EUR/MWh\n9999-12-31T23:59-23:59,1\n2026-10-01T00:00Z,2\n", "line [23]"),
    ("from,EUR/MWh\n\"2026\n", "line 2"), (b"from,EUR/MWh\n\xff\xfe", "decode"), (b"from,\0EUR/MWh\n", "no table"),
    (b"from,EUR/MWh\n" + b"x" * LARGEST_BYTES, "larger than 2 MiB")])
def test_a_table_that_is_none_is_refused_whole_and_by_its_line(table, text, fault):
    with pytest.raises(SourceError, match=fault):
        table(text).read()


def test_control_characters_of_a_cell_reach_no_log(table):
    with pytest.raises(SourceError) as fault:
        table("from,EUR/MWh\n2026-10-01T00:00Z,\x1b[2J1\n").read()
    assert "\x1b" not in str(fault.value)


def test_a_pipe_in_place_of_the_file_is_refused_and_not_waited_for(tmp_path, clock):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="no regular file"):
        GridFileConfig(file=tmp_path / "pipe").build(clock).read()


def test_a_file_that_is_not_there_says_so(tmp_path, clock):
    with pytest.raises(SourceError, match="No such file"):
        GridFileConfig(file=tmp_path / "none.csv").build(clock).read()


def test_it_is_read_again_when_it_changes_and_a_bad_one_is_told(table, tmp_path):
    source = table("from,EUR/MWh\n2026-10-01T00:00Z,100\n")
    assert [one.value for one in source.read().prices] == [0.1]
    (tmp_path / "grid.csv").write_text("from,EUR/MWh\n2026-10-01T00:00Z,150\n2026-10-01T01:00Z,160\n")
    assert [one.value for one in source.read().prices] == [0.15, 0.16]
    (tmp_path / "grid.csv").write_text("from,EUR/MWh\n2026-10-01T00:00Z,free\n")
    with pytest.raises(SourceError, match="line 2: 'free' is no number"):
        source.read()
    assert [health.up for health in source.health()] == [False]


def test_a_spreadsheet_s_byte_order_mark_and_line_ends_are_no_fault(table):
    source = table(b"\xef\xbb\xbffrom,EUR/kWh\r\n2026-10-01T00:00Z,0.25\r\n\r\n")
    assert [one.value for one in source.read().prices] == [0.25]


@given(st.text(max_size=60))
def test_any_text_is_a_table_or_a_value_error(text):
    for head in ("", "from,EUR/MWh\n", "from,EUR/MWh\n2026-10-01T00:00Z,"):
        try:
            parse(head + text, "EUR", 10.0, 0.0)
        except ValueError:
            continue
