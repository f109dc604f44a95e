"""The JSON of real Slurm 22.05, and the shapes of the versions before and after it."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.exporters.slurm import parse_json
from idlewatt.exporters.slurm.fields import BadRecord, Fields
from idlewatt.exporters.slurm.parse_json import count_tasks, load, parse_accounted, parse_job, parse_list
from idlewatt.exporters.slurm.parse_node import parse_node
from idlewatt.exporters.slurm.parse_rules import parse_partition, parse_reservation
from idlewatt.storage.records import Allocation, JobState, NodeState
from idlewatt.storage.waiting import WaitReason

MIB = 2**20


@pytest.fixture
def jobs(recorded):
    """Return the function that reads a recording's jobs by name."""
    def read(name: str, parse=parse_job):
        parsed = parse_list(load(recorded(f"slurm/{name}")), "jobs", parse)
        assert not parsed.skipped
        return {job.name: job for job in parsed.records}
    return read


@pytest.fixture
def raw(recorded):
    """A running job of real Slurm, to be damaged."""
    return json.loads(recorded("slurm/squeue.json"))["jobs"][0]


def test_gpu_indexes_are_read_per_node_from_gres_detail(jobs):
    wide = jobs("squeue.json")["gpt-pretrain"]

    assert [(held.node, held.gpus, held.gpu_indexes, held.cpus) for held in wide.allocations] == [
        ("dgx-a100-01", 4, (4, 5, 6, 7), 32), ("dgx-a100-02", 4, (0, 1, 2, 3), 32)]
    assert (wide.request.gpus, wide.request.nodes, wide.request.gpus_per_node, wide.limit_s) == (8, 2, 4, 1200)
    assert wide.end_s is None


def test_every_pending_reason_is_kept_and_a_forecast_is_no_start(jobs):
    pending = {name: job for name, job in jobs("squeue.json").items() if job.state is JobState.PENDING}

    assert {name: job.reason_text for name, job in pending.items() if job.reason} == {
        "sweep": "JobArrayTaskLimit", "llama-big": "Resources", "resnet50": "Priority", "after": "Dependency",
        "held": "JobHeldUser", "pinned": "Priority", "per-task": "Priority"} | {
        name: job.reason_text for name, job in pending.items() if name in ("mpmd", "short", "broken") and job.reason}
    assert [pending[name].reason for name in ("sweep", "llama-big", "resnet50", "after", "held")] == [
        WaitReason.ARRAY_LIMIT, WaitReason.RESOURCES, WaitReason.PRIORITY, WaitReason.DEPENDENCY, WaitReason.HELD]
    assert all(job.start_s is None and job.end_s is None and not job.allocations for job in pending.values())
    assert pending["llama-big"].expected_start_s > pending["llama-big"].submit_s
    assert pending["after"].dependency.startswith("afterok:1")
    assert pending["held"].eligible_s is None


def test_every_way_to_ask_for_gpus_comes_to_the_same(jobs):
    asked = {name: (job.request.gpus, job.request.gpus_per_node, job.request.gpu_model)
             for name, job in jobs("squeue.json").items()}

    assert asked["llama-big"] == (16, 8, "a100")
    assert asked["resnet50"] == (12, None, "")
    assert asked["per-task"] == (16, None, "")
    assert asked["after"] == (1, 1, "")


def test_required_and_excluded_nodes_features_and_exclusive_use_are_read(jobs):
    request = jobs("squeue.json")["pinned"].request

    assert request.required_nodes == ("dgx-a100-02",)
    assert request.excluded_nodes == ("dgx-a100-01",)
    assert request.features == "a100&nvswitch"
    assert request.exclusive
    assert not jobs("squeue.json")["llama-big"].request.exclusive


def test_t41_array_tasks_and_het_components_go_by_the_names_users_know(recorded):
    parsed = parse_list(load(recorded("slurm/squeue.json")), "jobs", parse_job).records
    by_name = {(job.name, job.job_id): job for job in parsed}

    assert by_name["sweep", "3_0"].raw_id == 4
    assert by_name["sweep", "3_1"].raw_id == 5
    assert by_name["sweep", "3"].tasks == 6
    assert by_name["mpmd", "12+0"].partition == "V100"
    assert by_name["mpmd", "12+1"].raw_id == 13


def test_t41_a_requeued_job_waits_again_and_holds_nothing(jobs):
    again = jobs("shape_v0.0.42_jobs.json")["again"]

    assert again.state is JobState.PENDING
    assert (again.restarts, again.start_s, again.expected_start_s) == (2, None, 1735000200)
    assert again.allocations == ()
    assert (again.request.gpus, again.request.gpu_model, again.request.exclusive) == (2, "a100", True)


def test_t41_a_sluid_is_a_job_id(raw):
    sluid = parse_job(Fields(raw | {"job_id": "s7Q2ZK4M1X9P3B"}))

    assert (sluid.job_id, sluid.raw_id) == ("s7Q2ZK4M1X9P3B", None)


@pytest.mark.parametrize("sluid", ["", "../../etc/passwd", "<script>", "a" * 65])
def test_a_job_id_that_is_none_is_refused(raw, sluid):
    with pytest.raises(BadRecord, match="job_id"):
        parse_job(Fields(raw | {"job_id": sluid}))


def test_t38_uuids_in_gres_detail_leave_the_indexes_unknown(raw):
    job = parse_job(Fields(raw | {"gres_detail": ["gpu:a100:2(IDX:GPU-1a2b,GPU-3c4d)"]}))

    assert [(held.gpus, held.gpu_indexes) for held in job.allocations] == [(2, None)]


def test_slurm_21_08_is_read(recorded):
    jobs = parse_list(load(recorded("slurm/rivos_squeue_21.08.json")), "jobs", parse_job)
    nodes = parse_list(load(recorded("slurm/rivos_sinfo_21.08.json")), "nodes", parse_node)

    assert not jobs.skipped + nodes.skipped
    assert [job.request.features for job in jobs.records][0] == "a100-80gb&preemptible&gpu-1"
    assert nodes.records[0].name == "cs2.example.company.com"
    assert (nodes.records[0].gpus, nodes.records[0].gpu_indexes_allocated) == (0, ())


def test_the_wrapped_numbers_of_23_02_are_read(jobs):
    running, endless = jobs("shape_23.02_jobs.json").values()

    assert running.allocations == (Allocation("gpu-830", 8, tuple(range(8)), 16, 120_000 * MIB),)
    assert (running.job_id, running.limit_s, running.priority) == ("7", 360_000, 239256)
    assert endless.limit_s is None
    assert (endless.request.gpus, endless.request.nodes, endless.request.memory_bytes) == (8, 2, 2 * 1024 * MIB)
    assert endless.scheduled_nodes == ("gpu-830", "gpu-831")


def test_the_lists_and_objects_of_data_parser_0_0_42_are_read(recorded, jobs):
    sweep, done = (jobs("shape_v0.0.42_jobs.json")[name] for name in ("sweep", "done"))
    first, second = parse_list(load(recorded("slurm/shape_v0.0.42_nodes.json")), "nodes", parse_node).records
    parsed = parse_list(load(recorded("slurm/shape_v0.0.42_partitions.json")), "partitions", parse_partition)

    assert (sweep.job_id, sweep.raw_id, sweep.restarts) == ("20_3", 21, 1)
    assert [held.gpu_indexes for held in sweep.allocations] == [(0, 5), (3, 4)]
    assert done.state is JobState.COMPLETING
    assert done.end_s is None
    assert (first.state, first.cpus, first.gpu_indexes_allocated) == (NodeState.PLANNED, 252, (0, 3, 5))
    assert (second.state, second.reservation) == (NodeState.POWERED_DOWN, "exam")
    assert [(part.name, part.nodes, part.max_time_s, part.up, part.priority_tier) for part in parsed.records] == [
        ("A100", ("a1", "a2"), 172800, True, 5), ("old", (), None, False, 1)]


def test_nodes_partitions_and_reservations_of_22_05_are_read(recorded):
    nodes = parse_list(load(recorded("slurm/rest_nodes.json")), "nodes", parse_node).records
    partitions = parse_list(load(recorded("slurm/rest_partitions.json")), "partitions", parse_partition).records
    (maint,) = parse_list(load(recorded("slurm/rest_reservations.json")), "reservations", parse_reservation).records

    assert {node.name: node.state for node in nodes} == {
        "dgx-a100-01": NodeState.UP, "dgx-a100-02": NodeState.DRAINING, "dgx-v100-01": NodeState.UP,
        "dgx-v100-02": NodeState.DRAINED}
    assert nodes[-1].reason == "bad NVLink"
    assert [(part.name, part.max_time_s, part.default) for part in partitions] == [
        ("A100", 172800, True), ("V100", 172800, False)]
    assert (maint.name, maint.nodes, maint.maintenance) == ("maint", ("dgx-a100-02",), True)


@pytest.mark.parametrize(("flags", "needed"), [
    (["reservation_required"], True), (["REQ_RESV"], True), (["default", "exclusive_user"], False), ([], False)])
def test_a_partition_says_by_either_name_of_a_flag_that_its_jobs_need_a_reservation(flags, needed):
    name = {"name": "course"}
    assert parse_partition(Fields(name | {"flags": flags})).reservation_required is needed
    nested = name | {"nodes": {"configured": ""}, "partition": {"flags": flags}}
    assert parse_partition(Fields(nested)).reservation_required is needed


def test_the_accounts_know_the_cpu_time_of_a_run_by_its_steps(recorded):
    (run,) = parse_list(load(recorded("slurm/rest_slurmdb_job_with_step.json")), "jobs", parse_accounted).records
    assert run.cpu_seconds == pytest.approx(0.014648)
    step = {"time": {"total": {"seconds": 3, "microseconds": 500_000}}}
    job = {"job_id": 7, "time": {"submission": 10**9}, "state": {"current": "COMPLETED"}}
    assert [parse_accounted(Fields(job | {"steps": steps})).cpu_seconds for steps in (
        [step, step], [], [{}], "none", [{"time": 5}], [{"time": {"total": {"seconds": "x"}}}])] == [
        7.0, None, None, None, None, None]


def test_the_accounts_know_each_run_but_no_indexes(recorded):
    runs = parse_list(load(recorded("slurm/rest_slurmdb_jobs.json")), "jobs", parse_accounted).records
    first, second = (run for run in runs if run.name == "bert-ft")

    assert (first.state, second.state) == (JobState.PREEMPTED, JobState.CANCELLED)
    assert first.end_s <= second.start_s
    assert first.request.gpus == 2
    assert [(held.node, held.gpus, held.gpu_indexes) for held in first.allocations] == [("dgx-a100-01", 2, None)]


def test_an_exit_code_of_0_for_a_failed_job_is_not_believed(recorded):
    runs = parse_list(load(recorded("slurm/rest_slurmdb_jobs.json")), "jobs", parse_accounted).records
    codes = {run.name: run.exit_code for run in runs}

    assert (codes["short"], codes["broken"]) == (0, None)


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3 << 8, 3), (9, -9)])
def test_a_raw_wait_status_becomes_an_exit_code(raw, status, code):
    assert parse_job(Fields(raw | {"job_state": "FAILED", "exit_code": status})).exit_code == code


@pytest.mark.parametrize("limit", [4294967295, 4294967294, None, -1, {"set": True, "infinite": True, "number": 0}])
def test_no_limit_is_none(raw, limit):
    assert parse_job(Fields(raw | {"time_limit": limit})).limit_s is None


@pytest.mark.parametrize(("tasks", "count"), [("2-7%2", 6), ("1,3,5", 3), ("0-10:5", 3), ("1-3,5,...", 4), ("", 1),
                                              ("nonsense", 1)])
def test_tasks_of_an_array_are_counted(tasks, count):
    assert count_tasks(tasks) == count


@pytest.mark.parametrize(("field", "value"), [
    ("job_id", None), ("job_id", -1), ("job_id", [1]), ("submit_time", None), ("submit_time", "yesterday"),
    ("nodes", 7), ("nodes", "n[0-999999999]"), ("gres_detail", {"0": "gpu"}), ("tres_req_str", "cpu=many"),
    ("time_limit", {"set": True, "number": "long"}), ("priority", float("inf")), ("restart_cnt", 2**70),
    ("name", ["x"]),
])
def test_a_job_with_a_field_of_the_wrong_type_is_skipped_and_told_of_and_the_rest_stays(raw, field, value):
    parsed = parse_json.parse_each([raw, raw | {field: value}, "no job", None], parse_job)

    assert [job.job_id for job in parsed.records] == ["1"]
    assert len(parsed.skipped) == 3


@pytest.mark.parametrize("text", [b"", b"<html>", b'{"jobs": [', b"[1, 2]", b"\xff\xfe", b"[" * 100_000,
                                  b'{"jobs": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(BadRecord):
        load(text)


@pytest.mark.parametrize("answer", [{}, {"jobs": None}, {"jobs": {"1": {}}},
                                    {"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}])
def test_an_answer_without_its_list_is_no_empty_cluster(answer):
    with pytest.raises(BadRecord):
        parse_list(Fields(answer), "jobs", parse_job)


def test_nothing_found_is_an_empty_list():
    answer = {"jobs": [], "errors": [{"error_number": 9003, "error": "Nothing found with query"}]}

    assert parse_list(Fields(answer), "jobs", parse_job).records == ()


def test_a_job_that_ended_while_it_waited_never_began(recorded):
    """Slurm tells the moment of its end as its start, here and at times in the accounts."""
    answer = load(recorded("slurm/rest_jobs_cancelled.json"))
    seen = {job.name: job for job in parse_list(answer, "jobs", parse_job).records}
    accounted = parse_accounted(Fields({"job_id": 7, "state": {"current": "CANCELLED"}, "nodes": "None assigned",
                                        "time": {"submission": 10**9, "start": 10**9 + 10, "end": 10**9 + 10}}))

    assert (seen["given-up"].state, seen["given-up"].start_s, seen["given-up"].end_s) == (
        JobState.CANCELLED, None, seen["wide"].end_s)
    assert len(seen["wide"].allocations) == 2
    assert seen["wide"].start_s < seen["wide"].end_s
    assert (accounted.start_s, accounted.end_s) == (None, 10**9 + 10)


def test_a_run_of_no_second_on_a_node_did_begin():
    job = parse_job(Fields({"job_id": 7, "job_state": "FAILED", "submit_time": 10**9, "start_time": 10**9,
                            "end_time": 10**9, "nodes": "a1"}))

    assert job.start_s == 10**9


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=8), SCALARS, max_size=3))
KEYS = ["job_id", "job_state", "nodes", "gres_detail", "tres_req_str", "tres_alloc_str", "tres_per_node", "submit_time",
        "start_time", "cpus", "time_limit", "name", "state", "partitions", "gres", "gres_used", "time", "tres",
        "exit_code", "shared", "maximums", "flags"]


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_no_damage_to_a_record_hides_the_record_beside_it(damage):
    good = {"job_id": 1, "name": "x", "submit_time": 10**9, "time": {"submission": 10**9}}
    for parse in (parse_job, parse_node, parse_partition, parse_reservation, parse_accounted):
        parsed = parse_json.parse_each([good | damage, good], parse)
        assert len(parsed.records) + len(parsed.skipped) == 2
        assert parsed.records


RECORDED = sorted((Path(__file__).parents[2] / "recorded/slurm").rglob("*.json"))
LISTS = {"jobs": parse_job, "nodes": parse_node, "partitions": parse_partition, "reservations": parse_reservation}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_item_by_item_an_answer_says_what_it_says_as_a_whole(path):
    body, compared = path.read_bytes(), 0
    for name in LISTS.keys() & json.loads(body).keys():
        for text in (body, body.replace(b'"name"', b'"name\xf6"'), b'{"a": NaN, ' + body.lstrip()[1:]):
            whole, apart = parse_json.load(text), parse_json.load_list(text, name)
            assert parse_json.errors(apart) == parse_json.errors(whole)
            assert parse_json.parse_list(apart, name, LISTS[name]) == parse_json.parse_list(whole, name, LISTS[name])
            compared += 1
    assert compared or not LISTS.keys() & json.loads(body).keys()


@pytest.mark.parametrize("text", [b"", b"[]", b'{"jobs": null}', b'{"jobs": 1}', b'{"jobs": [1, "x", null]}',
                                  b'{"nodes": []}', b'{"jobs": [{"job_id": 1}], "errors": [{"error": "x"}]}'])
def test_what_is_odd_item_by_item_is_as_odd_as_a_whole(text):
    def told(load):
        try:
            return parse_json.parse_list(load(text), "jobs", parse_job)
        except BadRecord as fault:
            return str(fault)

    assert told(parse_json.load) == told(lambda text: parse_json.load_list(text, "jobs"))


def test_a_long_list_item_by_item_takes_little_more_than_what_is_kept_of_it(raw):
    body = json.dumps({"jobs": [raw] * 300}).encode()
    peaks = []
    for taken in (parse_json.load, lambda body: parse_json.load_list(body, "jobs")):
        tracemalloc.start()
        assert len(parse_json.parse_list(taken(body), "jobs", parse_job).records) == 300
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] / 2


@pytest.mark.parametrize("comment", ["framework=jax see wiki", {"job": "framework=jax", "administrator": "cuda=9"}])
def test_container_comment_and_tres_tell_what_a_job_runs_and_strange_ones_tell_nothing(comment):
    raw = {"job_id": 1, "submit_time": 10**9, "job_state": "PENDING", "partition": "gpu",
           "container": "docker://lab/own:cu121\x1b", "comment": comment, "tres_req_str": "cpu=1,gres/gpu=2"}
    job = parse_job(Fields(raw))
    assert (job.framework, job.cuda) == ("jax", "12.1")
    assert job.image.startswith("lab/own:cu121")
    assert job.image.isprintable()
    strange = parse_job(Fields(raw | {"container": 7, "comment": "x" * 10_000_000}))
    assert (strange.image, strange.framework, strange.cuda) == ("", "", "")


def test_a_record_in_the_words_of_the_last_answer_stays_the_same_object_and_a_changed_one_is_read(raw):
    known = {}

    def read(*jobs):
        answer = parse_json.load_list(json.dumps({"jobs": jobs}).encode(), "jobs")
        return parse_json.parse_list(answer, "jobs", parse_job, known)

    other = raw | {"job_id": 77}
    first = read(raw, other, {"job_id": 0})
    second = read({"job_id": 0}, other | {"time_limit": 7}, raw)
    assert second.records[1] is first.records[0]
    assert (second.records[0].limit_s, second.records[0].job_id) == (420.0, "77")
    assert len(first.skipped) == len(second.skipped) == 1
    assert len(known) == 2


def test_what_is_gone_from_the_list_is_forgotten(raw):
    known = {}
    for jobs in ([raw | {"job_id": number} for number in range(1, 40)], [raw]):
        parse_json.parse_list(parse_json.load_list(json.dumps({"jobs": jobs}).encode(), "jobs"), "jobs", parse_job,
                              known)
    assert len(known) == 1


@pytest.mark.parametrize(("told", "nice"), [
    (None, 0), (0, 0), (300, 300), (-50, -50),
    # 22.05 and data_parser v0.0.39 write what is less than 0 as a number of 32 bits; -1 and -2 look like "unset" there.
    (4294967246, -50), (4294967295, -1), (4294967294, -2), (2147483645, 2147483645),
    ({"set": True, "infinite": False, "number": 7}, 7), ({"set": True, "infinite": False, "number": -7}, -7),
    ({"set": False, "infinite": False, "number": 0}, 0)])
def test_the_nice_value_is_read_as_every_version_writes_it(raw, told, nice):
    assert parse_job(Fields({**raw, "nice": told})).nice == nice


@pytest.mark.parametrize("told", ["0", True, 2**32, -2**40, 1e300, [0]])
def test_a_nice_value_that_cannot_be_is_said(raw, told):
    with pytest.raises(BadRecord, match="nice"):
        parse_job(Fields({**raw, "nice": told}))


def test_a_nice_value_that_is_not_told_is_not_known(raw, jobs):
    assert parse_job(Fields({name: value for name, value in raw.items() if name != "nice"})).nice is None
    assert {job.nice for job in jobs("rest_slurmdb_jobs.json", parse_accounted).values()} == {None}


@pytest.mark.parametrize(("changes", "told"), [
    ({"time": {"submission": 300_000_000_000, "end": 300_000_000_060}}, "not a time before the year 10000"),
    ({"time": {"submission": 1, "end": 9e18}}, "not a time before the year 10000"),
    ({"time": {"submission": 10**9, "end": 5_000_000_000}}, "it was ended in the year 2128, and only"),
    ({"time": {"submission": 1, "end": 10**9 + 10}}, "it was submitted in the year 1970, and only"),
    ({"tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 10**18}]}}, "it has 1000000000000000000 GPUs")])
def test_an_accounted_run_beyond_time_or_reason_is_told_and_not_recorded(changes, told):
    run = {"job_id": 7, "state": {"current": "COMPLETED"}, "time": {"submission": 10**9, "end": 10**9}, "nodes": "a"}
    parsed = parse_list(Fields({"jobs": [run | changes, run | {"job_id": 8}]}), "jobs", parse_accounted)
    assert [job.job_id for job in parsed.records] == ["8"]
    assert told in parsed.skipped[0]
