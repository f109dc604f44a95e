"""Every published format, on its own first rows: what becomes of each column, and what is left out."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from idlewatt.storage.traces import TraceError, formats, read_trace
from idlewatt.storage.traces.formats import open_file
from idlewatt.storage.traces.sacct import elapsed, gpus, limit, tres

RECORDED = Path(__file__).parents[2] / "recorded/traces"
GIBIBYTE = 1 << 30

HELIOS = """job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u1,vc0,train,8,64,1,COMPLETED,2020-04-01 00:07:27,2020-04-01 00:07:30,2020-04-01 00:08:30,60,3
8,u2,vc0,eval,0,4,1,FAILED,2020-04-01 00:07:28,2020-04-01 00:07:28,2020-04-01 00:07:28,0,0
"""
ACME = """job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,duration,queue,gpu_time
dlc1,u1,2,16.0,240,Pretrain,COMPLETED,2023-05-17 11:00:00+08:00,2023-05-17 11:00:05+08:00,60.0,5.0,960.0
dlc2,u1,1,1.0,16,Evaluation,CANCELLED,2023-05-17 11:00:00+08:00,,,0.0,0.0
"""
SWF = """; Version: 2.2
; MaxProcs: 512
1 0 5 100 8 -1 -1 8 3600 1048576 1 3 1 7 1 1 -1 -1
2 9 -1 -1 4 -1 -1 4 60 -1 5 3 1 -1 1 1 -1 -1
3 10 0 0 4 -1 -1 4 60 -1 0 3 1 -1 1 1 -1 -1
4 10 0 50 4 -1 -1 -1 -1 -1 1 -1 1 -1 1 1 -1 -1
5 10 0
"""
PHILLY = [
    {"status": "Pass", "vc": "7f04ca", "jobid": "application_1", "user": "u1", "submitted_time": "2017-10-09 07:01:38",
     "attempts": [
         {"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 07:12:00",
          "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu5"]}]},
         {"start_time": "2017-10-09 07:20:00 PDT", "end_time": "2017-10-09 07:22:00 PDT", "detail": []}]},
    {"status": "Killed", "vc": "7f04ca", "jobid": "application_2", "user": "u2", "attempts": [],
     "submitted_time": "2017-10-09 07:01:39"},
    {"status": "Failed", "vc": "7f04ca", "jobid": "application_3", "submitted_time": "2017-10-09 07:01:40",
     "attempts": [{"start_time": "2017-10-09 07:02:00", "end_time": None, "detail": [{"ip": "m1", "gpus": []}]}]},
    {"jobid": "application_4", "attempts": "gone", "submitted_time": "soon"},
    {"jobid": "application_5", "submitted_time": "never", "attempts": [
        {"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 07:12:00", "detail": [{"ip": "m1"}]}]},
    {"jobid": "application_6", "submitted_time": 5, "attempts": [
        {"start_time": "yesterday", "end_time": "2017-10-09 07:12:00", "detail": [{"ip": "m1"}]}]},
]
WRITTEN = {"helios": HELIOS, "acme": ACME, "swf": SWF, "philly": json.dumps(PHILLY, indent=1)}
SAMPLES = {"sacct_every_field.txt": "sacct", "sacct_steps.txt": "sacct", "helios_venus_first_jobs.csv": "helios-slice",
           "muri_first_jobs.csv": "muri", "openb_pods.csv": "openb", "crux_jobs.csv": "crux",
           "shockwave.trace": "shockwave", "tiresias_first_jobs.csv": "tiresias",
           "philly_compact.csv": "philly-compact", "pollux_workload.csv": "pollux"}


@pytest.fixture
def written(tmp_path):
    def read(name, text=None):
        path = tmp_path / f"{name}.txt"
        path.write_text(text if text is not None else WRITTEN[name])
        return read_trace(path)

    return read


def seconds(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("file", "name"), SAMPLES.items())
def test_each_recorded_file_is_recognised_as_one_format_alone(file, name):
    head = open_file(RECORDED / file).head
    marks = {layout.name: layout.recognises(head) for layout in formats().values()}
    best = max(marks.values())
    assert [layout for layout, count in marks.items() if count == best] == [name]


def test_each_written_format_is_recognised_as_one_format_alone(tmp_path):
    for name, text in WRITTEN.items():
        marks = {layout.name: layout.recognises(text) for layout in formats().values()}
        assert [layout for layout, count in marks.items() if count == max(marks.values())] == [name]


@pytest.mark.parametrize("file", SAMPLES)
def test_no_row_of_a_recorded_file_goes_missing(file):
    trace = read_trace(RECORDED / file)
    comments = sum(line.startswith("# ") for line in (RECORDED / file).read_text().splitlines())
    rows = len((RECORDED / file).read_text().splitlines()) - comments - (file != "shockwave.trace")
    assert len(trace) + sum(trace.rejections.values()) + sum(trace.set_aside.values()) == rows
    assert np.all(np.diff(trace.submit_s) >= 0)


def test_sacct_tells_what_was_given():
    trace = read_trace(RECORDED / "sacct_every_field.txt")
    first = trace.id.tolist().index("1")
    assert (trace.gpus[first], trace.cpus[first], trace.nodes[first]) == (8, 64, 2)
    assert (trace.run_s[first], trace.limit_s[first], trace.mem_bytes[first]) == (60, 1200, 256 * GIBIBYTE)
    assert trace.submit_s[first] == seconds("2026-11-20T23:58:39")
    assert trace.start_s[first] == seconds("2026-11-20T23:58:40")
    assert [trace.words(column)[first] for column in ("user", "partition", "name", "state", "gpu_model")] == [
        "bob", "A100", "gpt-pretrain", "COMPLETED", "a100"]
    assert {"8_0", "8_1", "8_2", "8_3"} <= set(trace.id.tolist())
    assert trace.set_aside == {"ended within its first second": 1}


def test_sacct_sets_job_steps_aside():
    assert read_trace(RECORDED / "sacct_steps.txt").set_aside["job step"] == 26


def test_sacct_keeps_a_requeued_job_under_each_submission(written):
    trace = written("sacct", "JobID|State|Submit|ElapsedRaw|ReqTRES|AllocTRES\n"
                             "5|CANCELLED by 1001|2026-01-01T00:00:00|60|gres/gpu=1|gres/gpu=1\n"
                             "5|COMPLETED|2026-01-01T00:01:00|60|gres/gpu=1|\n"
                             "5|COMPLETED|2026-01-01T00:01:00|60|gres/gpu=1|\n"
                             "6|RUNNING|2026-01-01T00:01:00|60|gres/gpu=1|\n"
                             "7|COMPLETED|Unknown|60|gres/gpu=1|\n")
    assert (trace.id.tolist(), trace.gpus.tolist()) == ([5, 5], [1, 1])
    assert trace.words("state") == ["CANCELLED", "COMPLETED"]
    assert trace.rejections == {"the job appears twice": 1, "submit_s is missing": 1}
    assert trace.set_aside == {"not finished": 1}


def test_a_bar_in_a_job_name_costs_one_row(written):
    trace = written("sacct", "JobID|JobName|State|Submit|ElapsedRaw|ReqTRES\n5|a|b|COMPLETED|1|60|gres/gpu=1\n"
                             '6|"x|COMPLETED|1|60|gres/gpu=1\n')
    assert trace.rejections == {"does not have 6 columns": 1}
    assert trace.words("name") == ['"x']


@pytest.mark.parametrize("memory", ["4X", "4g", "G", ""])
def test_memory_in_a_unit_that_slurm_lacks_costs_its_row(written, memory):
    trace = written("sacct", f"JobID|State|Submit|ElapsedRaw|AllocTRES\n5|COMPLETED|1|60|gres/gpu=1,mem={memory}\n"
                             "6|COMPLETED|1|60|gres/gpu=1,mem=4G\n")
    assert (trace.id.tolist(), trace.rejections) == ([6], {"AllocTRES cannot be read": 1})


@pytest.mark.parametrize("limit", ["10", "Partition_Limit"])
def test_an_underscore_in_the_name_of_a_gpu_or_a_licence_or_a_word_costs_no_job_of_sacct(written, limit):
    trace = written("sacct", "JobID|State|Submit|ElapsedRaw|TimelimitRaw|AllocTRES|ReqTRES\n"
                             f"5|COMPLETED|1|60|{limit}|gres/gpu:nvidia_a100_80gb_pcie=2,mem=1G|license/my_lic=1\n")
    assert (trace.rejections, trace.gpus.tolist(), trace.mem_bytes.tolist()) == ({}, [2], [GIBIBYTE])
    assert trace.words("gpu_model") == ["nvidia_a100_80gb_pcie"]


@pytest.mark.parametrize(("column", "cell"), [
    ("AllocTRES", "gres/gpu=1_0"), ("AllocTRES", "gres/gpu:a_b=1_0"), ("AllocTRES", "gres/gpu=1,mem=1_0G"),
    ("AllocTRES", "gres/gpu=1,cpu=1_0"), ("TimelimitRaw", "1_0"), ("Elapsed", "00:1_0:00")])
def test_digit_groups_are_no_amount_of_sacct(written, column, cell):
    row = {"AllocTRES": "gres/gpu=1", "TimelimitRaw": "10", "Elapsed": "00:01:00"} | {column: cell}
    trace = written("sacct", f"JobID|State|Submit|{'|'.join(row)}\n5|COMPLETED|1|{'|'.join(row.values())}\n")
    assert (len(trace), trace.rejections) == (0, {f"{column} cannot be read": 1})


def test_sacct_without_gpus_says_what_to_ask_for(written):
    with pytest.raises(TraceError, match="ask sacct for ElapsedRaw, AllocTRES and ReqTRES"):
        written("sacct", "JobID|State|Submit|Elapsed\n1|COMPLETED|1|00:01:00\n")


@pytest.mark.parametrize(("read", "cell", "value"), [
    (elapsed, "00:01:30", 90), (elapsed, "2-01:00:00", 176_400), (limit, "20", 1_200),
    (gpus, "cpu=4,gres/gpu:a100=8,gres/gpu=8", 8), (gpus, "gres/gpu:a100=2,gres/gpu:v100=1", 3), (gpus, "cpu=4", 0),
    (lambda cell: tres(cell, "mem"), "cpu=1,mem=1.5T", 1.5 * 1024 * GIBIBYTE),
    (lambda cell: tres(cell, "mem"), "mem=512", GIBIBYTE / 2),
])
def test_cells_of_slurm(read, cell, value):
    assert read(cell) == value


@pytest.mark.parametrize("cell", ["UNLIMITED", "Partition_Limit"])
def test_no_limit_is_unknown(cell):
    assert np.isnan(limit(cell))


def test_helios(written):
    trace = written("helios")
    assert (trace.id.tolist(), trace.gpus.tolist(), trace.cpus.tolist()) == ([7], [8], [64])
    assert trace.submit_s[0] == seconds("2020-04-01 00:07:27")
    assert trace.start_s[0] - trace.submit_s[0] == 3
    assert trace.rejections == {"run_s is not positive": 1}


def test_helios_slice_is_in_microseconds():
    trace = read_trace(RECORDED / "helios_venus_first_jobs.csv")
    assert (trace.submit_s[0], trace.run_s[0], trace.gpus[0], trace.nodes[0]) == (5835, 24, 128, 16)
    assert (trace.words("user")[0], trace.words("partition")[0], trace.words("state")[0]) == (
        "uH3om", "vcvGl", "CANCELED")


@pytest.mark.parametrize(("column", "date"), [
    ("submit_time", "2020-04-01 00:07:27"), ("start_time", "2020-04-01 00:07:30")])
@pytest.mark.parametrize("year", ["0001", "9999"])
def test_a_date_of_a_year_of_no_trace_costs_its_row(written, column, date, year):
    trace = written("helios", HELIOS.replace(date, year + date[4:]))
    assert (trace.rejected[0].line, trace.rejected[0].reason) == (2, f"{column} cannot be read")


def test_acme(written):
    trace = written("acme")
    assert (trace.id.tolist(), trace.gpus.tolist(), trace.run_s.tolist()) == (["dlc1"], [16], [60])
    assert trace.submit_s[0] == seconds("2023-05-17 03:00:00")
    assert trace.words("name") == ["Pretrain"]
    assert trace.rejections == {"run_s is missing": 1}


def test_swf(written):
    trace = written("swf")
    assert (trace.id.tolist(), trace.gpus.tolist(), trace.run_s.tolist()) == ([1, 4], [8, 4], [100, 50])
    assert (trace.start_s[0], trace.limit_s[0], trace.mem_bytes[0]) == (5, 3600, 8 * GIBIBYTE)
    assert np.isnan(trace.limit_s[1])
    assert (trace.words("user"), trace.words("name")) == (["3", None], ["7", None])
    assert [(rejected.line, rejected.reason) for rejected in trace.rejected] == [(7, "is not 18 numbers")]
    assert trace.set_aside == {"never ran": 1, "ended within its first second": 1}


def test_philly_log(written):
    trace = written("philly")
    assert (trace.id.tolist(), trace.gpus.tolist(), trace.nodes.tolist()) == (["application_1"], [3], [2])
    assert trace.run_s[0] == 20 * 60
    assert trace.start_s[0] - trace.submit_s[0] == 22
    assert trace.words("partition") == ["7f04ca"]
    assert trace.set_aside == {"never started": 1, "never ended": 1}
    assert trace.rejections == {"is no job with attempts": 1, "has a placement without GPUs": 1,
                                "has a time that is no date": 1}
    lines = json.dumps(PHILLY, indent=1).splitlines()
    assert [lines[rejected.line - 1].strip() for rejected in trace.rejected] == ["{"] * 3


def test_half_a_surrogate_in_a_philly_log_becomes_a_mark(written):
    times = {"start_time": "2017-01-01 00:00:00", "end_time": "2017-01-01 01:00:00"}
    attempt = times | {"detail": [{"gpus": ["gpu0"]}]}
    trace = written("philly", json.dumps([{"jobid": "a\ud800", "user": "\udfff", "attempts": [attempt],
                                           "submitted_time": "2017-01-01 00:00:00"}]))
    assert (trace.id.tolist(), trace.words("user")) == (["a?"], ["?"])


def test_a_philly_log_that_breaks_off_is_an_error(written):
    text = json.dumps(PHILLY * 3, indent=1)
    with pytest.raises(TraceError, match="breaks off"):
        written("philly", text[:len(text) // 2])


def test_a_philly_log_nested_without_end_is_an_error(written):
    with pytest.raises(TraceError, match="nested too deeply"):
        written("philly", '[{"jobid": 1, "attempts": ' + "[" * 200_000)


def test_a_shockwave_line_that_is_no_job_is_rejected(written):
    line = (RECORDED / "shockwave.trace").read_text().splitlines()[0]
    trace = written("shockwave", f"{line}\n{line.replace('1418', 'long')}\nshort\n")
    assert trace.rejections == {"has a field that is no number": 1, "does not have 12 fields": 1}


def test_a_long_philly_log_is_read_piece_by_piece(written):
    jobs = [{**PHILLY[0], "jobid": f"application_{number}"} for number in range(5_000)]
    assert len(written("philly", json.dumps(jobs))) == 5_000


def test_compact_philly_keeps_unknown_clusters_unknown():
    trace = read_trace(RECORDED / "philly_compact.csv")
    assert trace.words("partition")[:3] == [None, None, "7f04ca"]
    assert trace.rejections == {"run_s is not positive": 1}


def test_openb_knows_shares_and_pods_that_never_ran():
    trace = read_trace(RECORDED / "openb_pods.csv")
    share = trace.id.tolist().index("openb-pod-0001")
    assert (trace.gpus[share], trace.gpu_milli[share], trace.cpus[share]) == (1, 460, 6)
    assert trace.mem_bytes[share] == 12 * GIBIBYTE
    assert trace.run_s[share] == 12_902_960 - 427_061
    assert trace.set_aside == {"never scheduled": 3}
    assert trace.gpu_milli[trace.gpus == 0].tolist() == [-1, -1]


def test_muri_is_in_milliseconds_and_tiresias_in_seconds():
    assert read_trace(RECORDED / "muri_first_jobs.csv").submit_s[1] == 201_694
    assert read_trace(RECORDED / "tiresias_first_jobs.csv").run_s[:2].tolist() == [164, 147]


def test_elastic_jobs_have_no_run_time():
    trace = read_trace(RECORDED / "pollux_workload.csv")
    assert np.isnan(trace.run_s).all()
    assert (trace.words("name")[0], trace.gpus[0], trace.submit_s[0]) == ("cifar10", 6, 107)


def test_crux_and_shockwave():
    crux = read_trace(RECORDED / "crux_jobs.csv")
    assert (crux.gpus[0], crux.run_s[0]) == (48, 720)
    shockwave = read_trace(RECORDED / "shockwave.trace")
    assert (shockwave.words("name")[0], shockwave.run_s[0], shockwave.submit_s[1]) == ("LM (batch size 10)", 1418, 55)


@pytest.mark.parametrize(("file", "jobs"), [
    ("philly/philly_jobs.csv.gz", 104_782), ("helios_venus/helios_venus_2vc_sept.csv", 1_867),
    ("muri_sigcomm22/trace1.csv.gz", 1_494), ("muri_sigcomm22/trace4.csv.gz", 2_638),
    ("alibaba_openb_2023/openb_pod_list_default.csv.gz", 7_255), ("alibaba_lingjun_2023/crux_jobs.csv", 2_257),
])
def test_whole_published_files_are_read(traces, file, jobs):
    assert len(read_trace(traces / file)) == jobs


def test_sizes_without_times_are_set_aside(traces):
    trace = read_trace(traces / "alibaba_openb_2023/openb_pod_list_multigpu50.csv.gz")
    assert (len(trace), trace.set_aside) == (0, {"no times: only sizes": 9_061})
