"""Plain CSV in and out: what is read, what is rejected and where, and that nothing is dropped unseen."""

import gzip
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.storage.traces import TraceError, read_trace, table, write_csv

HEADER = "job,submit_s,run_s,gpus,limit_s,user,partition,cpus,mem_bytes,nodes\n"


@pytest.fixture
def read(tmp_path):
    def read_text(text, name="jobs.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_trace(path, **options)

    return read_text


def rejections(trace):
    return [(rejected.line, rejected.reason) for rejected in trace.rejected]


def test_every_column_is_read(read):
    trace = read(HEADER + "7,10,20.5,8,3600,alice,a100,64,1e9,2\n")
    assert (trace.id[0], trace.submit_s[0], trace.run_s[0], trace.gpus[0], trace.limit_s[0]) == (7, 10, 20.5, 8, 3600)
    assert (trace.cpus[0], trace.mem_bytes[0], trace.nodes[0]) == (64, 1e9, 2)
    assert (trace.words("user"), trace.words("partition")) == (["alice"], ["a100"])


def test_what_is_not_told_is_unknown_not_zero(read):
    for trace in (read("job,submit_s,run_s,gpus\n1,0,5,0\n"), read(HEADER + "1,0,5,0,,,,,,\n")):
        assert trace.gpus[0] == 0
        assert math.isnan(trace.limit_s[0])
        assert math.isnan(trace.mem_bytes[0])
        assert (trace.cpus[0], trace.nodes[0], trace.user[0], trace.partition[0]) == (-1, -1, -1, -1)
        assert trace.words("user") == [None]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_from_the_header(read, delimiter):
    trace = read("gpus,job,run_s,submit_s\n4,1,20,10\n".replace(",", delimiter))
    assert (trace.gpus[0], trace.run_s[0], trace.submit_s[0]) == (4, 20, 10)


def test_marks_of_spreadsheets_do_no_harm(read):
    trace = read(b"\xef\xbb\xbf# exported\r\njob,submit_s,run_s,gpus,user\r\n1, 0 ,5,1,\"ann, b\"\r\n\r\n"
                 b"2,0,5,1,\xff\r\n")
    assert trace.words("user") == ["ann, b", "\N{REPLACEMENT CHARACTER}"]
    assert trace.rejections == {}


@pytest.mark.parametrize("user", [b"\xff\xfe,x", b'"\xff,x"'])
def test_a_name_with_a_comma_that_is_no_utf_8_costs_no_other_row(read, user):
    trace = read(b"job,submit_s,run_s,gpus,user\n1,0,5,1,a\n2,0,5,1," + user + b"\n3,0,5,1,\xe2")
    assert (len(trace) + sum(trace.rejections.values()), set(trace.id.tolist()) >= {1, 3}) == (3, True)
    assert trace.words("user")[-1] == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_mark_in_a_comment_that_ends_no_line_costs_no_job(read, mark):
    trace = read(f"# page{mark}one\njob,submit_s,run_s,gpus\n1,0,5,1\n2,0,5,1\n".encode())
    assert trace.id.tolist() == [1, 2]


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_pipe_is_not_waited_for_for_it_cannot_be_read_twice(tmp_path, put):
    put(tmp_path / "jobs.csv")
    with pytest.raises(TraceError, match="jobs.csv: is no plain file, and is read twice: save what it gives as a file"):
        read_trace(tmp_path / "jobs.csv")


@pytest.mark.parametrize(("row", "reason"), [
    ("1,,5,1", "submit_s is missing"),
    ("1,-1,5,1", "submit_s is negative"),
    ("1,1e300,5,1", "submit_s is out of range"),
    ("1,0,0,1", "run_s is not positive"),
    ("1,0,-5,1", "run_s is not positive"),
    ("1,0,nan,1", "run_s is missing"),
    ("1,0,inf,1", "run_s cannot be read"),
    ("1,0,five,1", "run_s cannot be read"),
    ("1,0,1_0,1", "run_s cannot be read"),
    ("1,0,5,-1", "gpus is negative"),
    ("1,0,5,0.5", "gpus is not a whole number"),
    ("1,0,5,1e12", "gpus is out of range"),
    (",0,5,1", "id is missing"),
    ("x" * 65 + ",0,5,1", "id is longer than 64"),
    ("1,0,5", "does not have 4 columns"),
    ("1,0,5,1,9", "does not have 4 columns"),
    ("1;0;5;1", "does not have 4 columns"),
    ("0,3,3,3", "the job appears twice"),
])
def test_a_row_that_cannot_be_read_is_reported_with_its_line(read, row, reason):
    trace = read(f"job,submit_s,run_s,gpus\n0,0,5,1\n\n{row}\n9,0,5,1\n")
    assert rejections(trace) == [(4, reason)]
    assert trace.rejections == {reason: 1}
    assert trace.id.astype(str).tolist() == ["0", "9"]


@pytest.mark.parametrize("column", ["limit_s", "mem_bytes", "start_s", "cpus", "nodes", "gpu_milli"])
@pytest.mark.parametrize(("cell", "reason"), [
    ("1e300", "is out of range"), ("inf", "cannot be read"), ("-1e300", "is "), ("1e999", "cannot be read")])
def test_an_absurd_number_of_an_optional_column_is_reported_with_its_line(read, column, cell, reason):
    trace = read(f"job,submit_s,run_s,gpus,{column}\n0,0,5,1,2\n1,0,5,1,{cell}\n2,0,5,1,NaN\n3,0,5,1,NAN\n")
    [rejected] = trace.rejected
    assert (rejected.line, rejected.reason.startswith(f"{column} {reason}")) == (3, True)
    assert trace.id.tolist() == [0, 2, 3]


@pytest.mark.parametrize("before", ["", "; Version: 2.2\n"])
def test_the_mark_that_windows_puts_before_a_text_costs_no_line_of_a_standard_workload(read, before):
    trace = read("\ufeff" + before + "2 9 0 5 4 -1 -1 4 60 -1 5 3 1 -1 1 1 -1 -1\n")
    assert (trace.id.tolist(), trace.rejections) == ([2], {})


@pytest.mark.parametrize("fields", ["1 0 inf 100 8 -1 -1 8 3600 1048576", "1 0 5 100 8 -1 -1 8 inf 1048576",
                                    "1 0 5 100 8 -1 -1 8 3600 1e300"])
def test_an_absurd_number_of_a_standard_workload_costs_its_row(read, fields):
    trace = read(f"; Version: 2.2\n{fields} 1 3 1 7 1 1 -1 -1\n2 9 0 5 4 -1 -1 4 60 -1 5 3 1 -1 1 1 -1 -1\n")
    assert (trace.id.tolist(), sum(trace.rejections.values())) == ([2], 1)


@pytest.mark.parametrize("limit", ["0", "-5", "UNLIMITED"])
def test_a_limit_that_is_none_is_rejected(read, limit):
    assert len(read(HEADER + f"1,0,5,1,{limit},,,,,\n").rejected) == 1


@pytest.mark.parametrize("line", ["\n", " \n", ",,,\n", "x\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_hardly_anything_but_blank_or_odd_lines_is_not_read_to_its_end(read, monkeypatch, line, packed):
    monkeypatch.setattr(table, "MOST_ODD", 1000)
    monkeypatch.setattr(table, "BLOCK_BYTES", 4096)
    rows = "".join(f"{number},0,5,1\n" for number in range(500))
    head = "job,submit_s,run_s,gpus\n"
    assert len(read(head + line * 999 + rows)) == 500
    body = (head + rows + line * 100_000).encode()
    with pytest.raises(TraceError, match=r"lines near and before line \d+ are blank or do not have its 4 columns"):
        read(gzip.compress(body, 1) if packed else body)


@pytest.mark.parametrize("before", ["", "# made by hand\n", "# page\u2028one\n"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_header_alone_has_no_jobs_whether_its_line_ends_or_not(read, before, end):
    trace = read(f"{before}job,submit_s,run_s,gpus{end}")
    assert (len(trace), trace.rejections) == (0, {})


def test_a_column_that_is_there_twice_is_named_where_it_is_read(read):
    with pytest.raises(TraceError, match=r"jobs.csv: has two columns of the name gpus, .*: rename one of them in line"):
        read("job,submit_s,run_s,gpus,gpus\n1,0,5,1,8\n")
    assert len(read("job,submit_s,run_s,gpus,note,note\n1,0,5,1,x,y\n")) == 1


def test_an_open_quote_swallows_no_lines(read):
    trace = read(HEADER + '1,0,5,1,,"ann,,,,\n2,0,5,1,,bob,,,,\n3,0,5,1,,"bob ""b""",,,,\n')
    assert trace.id.tolist() == [1, 2, 3]
    assert trace.words("user")[1:] == ["bob", 'bob "b"']


def test_a_broken_quote_with_a_comma_is_rejected_alone(read):
    assert rejections(read(HEADER + '1,0,5,1,,"an,n,,,,\n2,0,5,1,,bob,,,,\n')) == [(2, "does not have 10 columns")]


def test_jobs_are_ordered_by_submission_then_id(read):
    trace = read("job,submit_s,run_s,gpus\n10,5,1,1\n9,5,1,1\n11,4,1,1\n")
    assert trace.id.tolist() == [11, 9, 10]


def test_ids_of_text_are_ordered_as_people_count(read):
    trace = read("job,submit_s,run_s,gpus\n8_10,5,1,1\n8_9,5,1,1\n10,5,1,1\nx,5,1,1\n")
    assert trace.id.tolist() == ["8_9", "8_10", "10", "x"]


def test_ids_that_only_look_like_numbers_stay_apart(read):
    assert read("job,submit_s,run_s,gpus\n007,0,1,1\n7,0,1,1\n").id.tolist() == ["007", "7"]


def test_gzip_is_recognised_by_content(read):
    assert len(read(gzip.compress(b"job,submit_s,run_s,gpus\n1,0,5,1\n"))) == 1


def test_a_truncated_gzip_is_an_error(read):
    whole = gzip.compress(b"job,submit_s,run_s,gpus\n" + b"".join(b"%d,0,5,1\n" % job for job in range(200_000)))
    for length in (10, 1_000, len(whole) - 4):
        with pytest.raises(TraceError, match="cannot be unpacked"):
            read(whole[:length])


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is empty"),
    (b"\n \n", "is empty"),
    (b"\x7fELF\0\0", "no text file"),
    ("job,submit_s".encode("utf-16"), "no text file"),
    (b"1,0,5,1\n2,0,5,1\n", "begins with '1,0,5,1'"),
    (b"job submit_s run_s gpus\n1 0 5 1\n", "separated by commas"),
    (b"<html><body>404</body></html>", "no known format"),
    (b"job,submit_s,run_s,gpus\n1,0,5,1\n2,0,5," + b"9" * 20_000_000, "near line 3: a line is longer than 4 MiB"),
])
def test_a_file_that_is_no_history_is_an_error_that_helps(read, content, message):
    with pytest.raises(TraceError, match=message):
        read(content)


def test_a_missing_file_or_a_folder_is_an_error(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(TraceError, match=str(path)):
            read_trace(path)


def test_an_unknown_format_is_an_error_that_names_the_known(read):
    with pytest.raises(TraceError, match=r"no format 'xls'; known are acme, .*swf"):
        read("job,submit_s,run_s,gpus\n", format_name="xls")


def test_a_named_format_that_does_not_fit_says_what_it_needs(read):
    with pytest.raises(TraceError, match="is no helios table: its header needs"):
        read("job,submit_s,run_s,gpus\n", format_name="helios")


def test_a_header_alone_is_an_empty_history(read):
    assert len(read("job,submit_s,run_s,gpus\n")) == 0


def test_progress_ends_at_the_whole_file(read):
    seen = []
    text = "job,submit_s,run_s,gpus\n" + "".join(f"{job},0,5,1\n" for job in range(500_000))
    read(text, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (len(text), len(text))


def test_lines_are_right_in_later_parts_of_a_long_file(read):
    rows = [f"{job},0,5,1" for job in range(600_000)]
    rows[400_000] = "broken"
    rows[599_999] = "599999,0,x,1"
    trace = read("job,submit_s,run_s,gpus\n" + "\n".join(rows))
    assert rejections(trace) == [(400_002, "does not have 4 columns"), (600_001, "run_s cannot be read")]


def test_many_bad_rows_are_counted_but_not_all_kept(read):
    trace = read("job,submit_s,run_s,gpus\n" + "".join(f"{job},0,-1,1\n" for job in range(5_000)))
    assert trace.rejections == {"run_s is not positive": 5_000}
    assert len(trace.rejected) == 1_000


def test_a_selection_keeps_columns_together(read):
    trace = read("job,submit_s,run_s,gpus,user\n1,0,5,1,a\n2,1,6,2,b\n").select(np.array([False, True]))
    assert (trace.id.tolist(), trace.gpus.tolist(), trace.words("user")) == ([2], [2], ["b"])


CELL = st.one_of(st.sampled_from(["1", "0", "-1", "2.5", "nan", "inf", "", " ", "x", "1e400", '"', '"1"', "0x10"]),
                 st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), max_size=6))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(CELL, min_size=1, max_size=6).map(",".join).filter(str.strip), max_size=8))
def test_every_line_is_read_or_counted(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "jobs.csv"
    path.write_text("job,submit_s,run_s,gpus\n" + "\n".join(rows), encoding="utf-8", newline="")
    trace = read_trace(path, "plain")
    blank = sum(not row.strip(', "\t\v\f\x1c\x1d\x1e\x1f\x85\xa0') for row in rows)
    counted = len(trace) + sum(trace.rejections.values())
    assert len(rows) - blank <= counted <= len(rows)
    assert all(2 <= rejected.line <= len(rows) + 1 for rejected in trace.rejected)


NAME = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=8).filter(
    lambda word: not word.startswith('"') and word.lower() not in ("nan", "none", "null"))
JOB = st.tuples(st.floats(0, 1e9), st.floats(0.001, 1e6), st.integers(0, 512), st.none() | st.integers(1, 10**6),
                st.none() | NAME, st.none() | NAME, st.none() | st.integers(0, 999), st.none() | st.integers(0, 2**50),
                st.none() | st.integers(1, 64))


@settings(max_examples=40, deadline=None)
@given(st.lists(JOB, min_size=1, max_size=10))
def test_what_is_written_is_read_again(tmp_path_factory, jobs):
    folder = tmp_path_factory.mktemp("round")
    first, second = folder / "first.csv", folder / "second.csv"
    quoted = [[f'"{cell}"'.replace('"', '""')[1:-1] if isinstance(cell, str) and "," in cell else cell for cell in job]
              for job in jobs]
    lines = [",".join("" if cell is None else str(cell) for cell in (number, *job))
             for number, job in enumerate(quoted)]
    first.write_text(HEADER + "\n".join(lines), encoding="utf-8")
    trace = read_trace(first)
    write_csv(trace, second)
    again = read_trace(second)
    assert again.rejections == {}
    for column in ("id", "submit_s", "run_s", "gpus", "limit_s", "cpus", "mem_bytes", "nodes"):
        assert np.array_equal(getattr(again, column), getattr(trace, column), equal_nan=column != "id")
    assert [again.words(column) for column in ("user", "partition")] == [
        trace.words(column) for column in ("user", "partition")]
