"""Files of accounting that somebody printed: what is taken, what is refused, and what is skipped."""

import time
from pathlib import Path

import pytest
from cost import slowness

from idlewatt.exporters.slurm import dump
from idlewatt.exporters.slurm.dump import Untrusted, read_dump
from idlewatt.exporters.slurm.fields import BadRecord
from idlewatt.exporters.slurm.parse_text import SACCT_FIELDS
from idlewatt.storage.records import JobState

RECORDED = Path(__file__).parents[2] / "recorded"
MARK = "7f0c4e1a-drawn"


def _read(path, **how):
    pieces = list(read_dump(path, **how))
    return [job for piece in pieces for job in piece.parsed.records], \
        [line for piece in pieces for line in piece.parsed.skipped]


@pytest.fixture
def table(tmp_path):
    def write(*rows, names=SACCT_FIELDS, mark=MARK, end=""):
        path = tmp_path / "accounting.txt"
        path.write_text("".join(mark.join(row) + end + "\n" for row in (names, *rows)))
        return path
    return write


def _row(**cells):
    row = {"JobID": "7", "JobIDRaw": "7", "JobName": "x", "User": "alice", "Partition": "gpu", "State": "COMPLETED",
           "ExitCode": "0:0", "Submit": "2026-01-01T00:00:00", "Start": "2026-01-01T00:01:00",
           "End": "2026-01-01T01:00:00", "NNodes": "1", "AllocTRES": "gres/gpu=2,cpu=4", "NodeList": "a"} | cells
    return [row.get(name, "") for name in SACCT_FIELDS]


def test_a_recorded_table_is_taken_where_it_is_trusted():
    jobs, skipped = _read(RECORDED / "slurm/sacct.txt", trusted=True)
    assert len(jobs) + len(skipped) == len((RECORDED / "slurm/sacct.txt").read_text().splitlines()) - 1
    assert skipped == []
    assert jobs[2].allocations[1].node == "dgx-a100-02"


def test_a_table_with_names_and_a_mark_that_anyone_can_write_is_refused_with_what_to_type():
    with pytest.raises(Untrusted, match=r"JobName may hold '\|' and line ends.*sacct --allusers .*--delimiter="):
        _read(RECORDED / "slurm/sacct.txt")


def test_without_free_text_any_mark_will_do(table):
    names = [name for name in SACCT_FIELDS if name != "JobName"]
    row = [cell for name, cell in zip(SACCT_FIELDS, _row(), strict=True) if name != "JobName"]
    jobs, skipped = _read(table(row, names=names, mark="|"))
    assert ([job.user for job in jobs], skipped) == (["alice"], [])


@pytest.mark.parametrize("end", ["", MARK])
def test_a_name_cannot_forge_a_row_where_the_mark_was_drawn(table, end):
    forged = "x\n" + "|".join(_row(JobID="999", User="root", AllocTRES="gres/gpu=16"))
    jobs, skipped = _read(table(_row(JobName=forged), _row(JobID="8"), end=end))
    assert [(job.job_id, job.user) for job in jobs] == [("7", "alice"), ("8", "alice")]
    assert skipped == []


def test_json_is_taken_as_it_is():
    jobs, _ = _read(RECORDED / "slurm/rest_slurmdb_jobs.json")
    assert len(jobs) > 10
    assert any(job.state is JobState.COMPLETED and job.allocations for job in jobs)


def test_times_may_be_seconds_and_steps_are_no_jobs(table):
    jobs, _ = _read(table(_row(Submit="1767225600", Start="1767225660", End="1767229200"), _row(JobID="7.batch")))
    assert [(job.submit_s, job.start_s, job.end_s) for job in jobs] == [(1767225600.0, 1767225660.0, 1767229200.0)]


def test_a_row_that_cannot_be_read_costs_itself(table):
    jobs, skipped = _read(table(_row(Submit="yesterday"), _row(JobID="8"), ["9"] * len(SACCT_FIELDS), _row(JobID="10")))
    assert [job.job_id for job in jobs] == ["8", "10"]
    assert [line.partition(":")[0] for line in skipped] == ["line 2", "line 4"]


@pytest.mark.parametrize(("text", "told"), [
    ("", "is nothing that sacct prints"), ("job,submit_s\n1,2\n", "is nothing that sacct prints"),
    ("JobID|User\n1|a\n", "its heading lacks State, Submit, Start, End"), ("{", "no JSON"), ("\0\xff" * 100, "nothing"),
])
def test_what_is_no_accounting_is_refused(tmp_path, text, told):
    (tmp_path / "file").write_text(text, encoding="latin-1")
    with pytest.raises(BadRecord, match=told):
        _read(tmp_path / "file")


def test_a_large_file_comes_piece_by_piece(table, monkeypatch):
    monkeypatch.setattr(dump, "ROWS", 10)
    path = table(*[_row(JobID=str(number)) for number in range(95)])
    pieces = list(read_dump(path))
    assert [len(piece.parsed.records) for piece in pieces] == [10] * 9 + [5]
    assert pieces[-1].read_bytes == path.stat().st_size


@pytest.mark.parametrize("cell", ["99999999999999999999", "9" * 400, "253402300800"])
def test_seconds_beyond_any_time_cost_their_own_row(table, cell):
    jobs, skipped = _read(table(_row(Submit=cell), _row(JobID="8")))
    assert [job.job_id for job in jobs] == ["8"]
    assert [line.partition(":")[0] for line in skipped] == ["line 2"]


@pytest.mark.parametrize("name", ["Submit", "Start", "End"])
@pytest.mark.parametrize("year", ["0001", "1969", "2199", "9999"])
def test_a_year_that_no_clock_can_have_told_costs_its_own_row(table, name, year):
    jobs, skipped = _read(table(_row(**{name: f"{year}-01-01T00:00:00"}), _row(JobID="8")))
    assert [job.job_id for job in jobs] == ["8"]
    [told] = skipped
    assert f"in the year {int(year)}, and only times from 2000 to 2100 are believed" in told


def test_when_a_job_may_begin_is_not_known_where_it_is_absurd(table):
    [job], skipped = _read(table(_row(Eligible="0001-01-01T00:00:00")))
    assert (job.eligible_s, skipped) == (None, [])


def test_the_mark_that_windows_puts_before_a_text_is_no_part_of_it(table, tmp_path):
    path = table(_row(), _row(JobID="8"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    jobs, skipped = _read(path)
    assert ([job.job_id for job in jobs], skipped) == (["7", "8"], [])
    plain = (RECORDED / "slurm/rest_slurmdb_jobs.json")
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    assert _read(tmp_path / "marked") == _read(plain)


def test_a_blank_line_between_rows_costs_none(table):
    path = table(_row(), _row(JobID="8"))
    path.write_text(path.read_text().replace("\n", "\n\n"))
    jobs, skipped = _read(path)
    assert ([job.job_id for job in jobs], skipped) == (["7", "8"], [])


def test_a_name_of_a_hundred_thousand_lines_is_not_read_over_and_over(table):
    path = table(_row(JobName="x\n" * 100_000), _row(JobID="8"), mark="|")
    began = time.process_time()
    jobs, skipped = _read(path, trusted=True)
    assert time.process_time() - began < 3.0 * slowness(), "each line would cost as much as all before it"
    assert ([job.job_id for job in jobs], skipped) == (["7", "8"], [])
