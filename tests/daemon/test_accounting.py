"""The past from accounts: a job that was resized on one day and ended on another is one run."""

from dataclasses import replace
from pathlib import Path

import pytest

from idlewatt.daemon.accounting import DAY_S, from_file, from_sacct
from idlewatt.exporters.slurm.parse_json import Parsed
from idlewatt.exporters.slurm.parse_text import parse_sacct
from idlewatt.storage.records import Job

RECORDED = Path(__file__).parents[1] / "recorded/slurm/resized/sacct.txt"


@pytest.fixture
def records() -> tuple[Job, ...]:
    return parse_sacct(RECORDED.read_text()).records


def test_a_run_that_was_resized_on_an_earlier_day_has_its_first_submission(records):
    first, last = records
    last = replace(last, end_s=last.end_s + DAY_S)
    asked = []

    def read_runs(since_s: float, until_s: float) -> Parsed[Job]:
        asked.append((since_s, until_s))
        return Parsed(tuple(one for one in (first, last) if one.end_s >= since_s and one.submit_s < until_s))

    chunks = list(from_sacct(read_runs, first.submit_s, last.end_s + 60.0, ()))
    assert [(run.submit_s, run.end_s) for chunk in chunks for run in chunk.runs] == [(first.submit_s, last.end_s)]
    assert len(asked) == 3, "of the days one each, and one moment of the run"


def test_a_resized_run_of_a_file_is_one_run(tmp_path, records):
    path = tmp_path / "sacct.txt"
    path.write_bytes(RECORDED.read_bytes().replace(b"|", b"<0123456789abcdef>"))
    chunks = list(from_file(path, (), records[1].end_s))
    assert [(run.submit_s, run.start_s, run.end_s) for chunk in chunks for run in chunk.runs] == [
        (records[0].submit_s, records[0].start_s, records[1].end_s)]
