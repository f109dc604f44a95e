import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from idlewatt.daemon import sweep
from idlewatt.daemon.cli import main
from idlewatt.daemon.cli._conclusion import conclusion, nearest
from idlewatt.daemon.cli._history import described
from idlewatt.daemon.cli._units import length
from idlewatt.daemon.sweep import ORACLES

TRACES = Path(__file__).parents[2] / "recorded" / "traces"
HEAD = "job,submit_s,run_s,gpus,limit_s,user,partition\n"
JOBS = HEAD + "".join(f"{job},{10 * job},{100 + 37 * job % 90},{1 + job % 8},600,u{job % 3},all\n" for job in range(40))


def side_by_side(plan, policies, workers):
    """Replay in this process, which has the policies compiled already; tests/daemon/test_sweep.py has real workers."""
    whole = plan if plan.spool is None else replace(plan, workload=plan.spool.workload())
    return (sweep.replay(whole, policy) for policy in policies)


@pytest.fixture
def replay(tmp_path, monkeypatch):
    """Run the command in this process, with its outcomes kept in a folder of the test's own."""
    monkeypatch.setattr(sweep, "side_by_side", side_by_side)

    def run(*arguments, source=JOBS, code=0, **environment):
        path = tmp_path / "jobs.csv"
        if source is not None:
            path.write_text(source)
        words = [str(word) for word in arguments]
        if not words or words[0].startswith("-"):
            words = [str(path), *words]
        runner = CliRunner(env=environment)
        result = runner.invoke(main, ["replay", *words, "--workers", "1", "--state-dir", str(tmp_path / "state")])
        assert result.exit_code == code, result.output
        return result

    return run


def rows(result):
    return {row["policy"]: row for row in json.loads(result.stdout)}


def test_every_table_has_the_rows_of_chance_and_of_who_knows_run_times_under_its_own_name(replay):
    found = rows(replay("--cluster", "4x8", "--policy", "fifo", "--format", "json"))
    assert list(found) == ["fifo", "random-feasible", *ORACLES]
    fifo = found["fifo"]
    expected = {"policy", "jobs", "jct_mean_s", "wait_mean_s", "makespan_s", "utilization_ratio", "energy_joules",
                "seed", "digest", "jct_ratio", "jct_ratio_low", "jct_ratio_high", "jobs_rejected", "jobs_left_out"}
    assert expected <= set(fifo)
    assert fifo["jobs"] == 40
    assert fifo["jct_ratio"] == 1.0


def test_every_row_says_how_far_it_is_from_the_limit(replay):
    found = rows(replay("--cluster", "4x8", "--format", "json"))
    assert found["fifo"]["jct_bound_kind"] == "bound"
    assert found["fifo"]["distance"] == pytest.approx(found["fifo"]["jct_mean_s"] / found["fifo"]["jct_bound_s"] - 1)
    assert all(row["distance"] > 0 for row in found.values())
    few = HEAD + "a,0,30,8,60,u,all\nb,0,10,8,60,u,all\n"
    result = replay("--cluster", "1x8", "--format", "json", source=few)
    assert rows(result)["sjf-oracle+best-fit+easy"]["distance"] == 0.0 < rows(result)["fifo"]["distance"]
    assert rows(result)["fifo"]["jct_bound_kind"] == "optimum"


def test_the_same_seed_gives_the_same_digest_and_another_one_does_not(replay):
    runs = [rows(replay("--cluster", "4x8", "--seed", seed, "--format", "json"))["random-feasible"]["digest"]
            for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_csv_and_table_say_the_same_as_json(replay):
    found = rows(replay("--cluster", "4x8", "--format", "json"))
    lines = list(csv.DictReader(replay("--cluster", "4x8", "--format", "csv").stdout.splitlines()))
    assert [line["policy"] for line in lines] == list(found)
    assert float(lines[0]["jct_mean_s"]) == found["fifo"]["jct_mean_s"]
    table = replay("--cluster", "4x8", COLUMNS="200").stdout
    assert length(found["fifo"]["jct_mean_s"]) in table


def test_a_table_is_in_units_that_people_read_and_begins_with_its_conclusion(replay):
    lines = replay("--cluster", "4x8", COLUMNS="200").stdout.splitlines()
    assert lines[0].startswith(("No policy that a site could run", "random-feasible has the shortest mean JCT"))
    assert re.search(r"^fifo +40 +[\d.,]+ (s|min|h|d) ", "\n".join(lines), re.M)
    assert "(1.00-1.00)" not in "\n".join(lines), "an interval with equal ends is none"


@pytest.mark.parametrize(("seconds", "told"), [(0, "0 s"), (89.94, "89.9 s"), (600, "10 min"), (-13_584, "-3.77 h"),
                                               (19_949_210, "231 d"), (None, "-")])
def test_lengths_of_time_have_three_digits_and_a_unit(seconds, told):
    assert length(seconds) == told


def test_overload_and_missing_limits_are_warned_of(replay):
    warned = replay("--cluster", "1x8", "--policy", "sjf-limit", source=HEAD + "".join(
        f"{job},{10 * job},100,8,,u,all\n" for job in range(20))).stderr
    assert "warning: overload: the jobs ask for 10.53 times the GPU time" in warned
    assert "warning: 100% of the jobs have no time limit, which sjf-limit" in warned
    quiet = replay("--cluster", "64x8", "--policy", "sjf-limit", source=HEAD + "".join(
        f"{job},{10 * job},100,8,{1000 + 37 * (job * 7 % 20)},u,all\n" for job in range(20))).stderr
    assert "warning" not in quiet


def test_the_best_of_the_orders_that_know_run_times_stands_beside_the_lower_bound(replay):
    lines = [{"policy": "fifo", "distance": 0.0}, {"policy": "sjf-oracle", "distance": 0.5},
             {"policy": "qssf-oracle+easy", "distance": 0.2}, {"policy": "sjf-oracle+easy", "distance": None}]
    assert nearest(lines).startswith("Of the oracles, which know true run times, qssf-oracle+easy comes nearest to the "
                                     "lower bound, 20 % above it")
    assert nearest(lines[:1]) == ""
    assert "comes nearest to the lower bound" in replay("--cluster", "4x8", COLUMNS="200").stdout


def test_a_conclusion_says_who_is_ahead_and_never_by_chance_or_hindsight():
    def told(low, high, name="sjf-limit"):
        return conclusion([{"policy": "fifo", "jct_ratio": 1.0},
                           {"policy": "sjf-oracle+best-fit+easy", "jct_ratio": 0.5},
                           {"policy": name, "jct_ratio": 0.9, "jct_ratio_low": low, "jct_ratio_high": high}], "fifo")

    assert told(0.85, 0.95) == "sjf-limit has the shortest mean JCT, 10.0 % below fifo (95 %: 5.0 to 15.0 %)."
    assert "not distinguishable from fifo" in told(0.8, 1.1)
    assert "too few days" in told(None, None)
    assert told(0.85, 0.95, "srtf") == "", "nobody is beside the baseline but those who know run times"


def test_the_published_venus_slice_is_read_from_its_own_format(replay):
    result = replay(TRACES / "helios_venus_first_jobs.csv", "--cluster", "22x8", "--format", "json", source=None)
    assert rows(result)["fifo"]["jobs"] > 0
    assert "the cluster has no partitions" in result.stderr


def test_a_cluster_file_with_partitions_sends_jobs_to_theirs_and_names_what_it_does_not_know(replay, tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("nodes:\n- {name: n, count: 2, gpus: 8, partitions: [all]}\n")
    source = JOBS + "x,5,10,1,60,u,elsewhere\n"
    result = replay("--cluster", cluster, "--format", "json", source=source)
    assert rows(result)["fifo"]["jobs_rejected"] == 1
    assert "1 job can never run here: the cluster has no such partition" in result.stderr
    assert "(x in line 42)" in result.stderr


@pytest.mark.parametrize(("topology", "says"), [
    (None, "cannot be read"), ("SwitchName=l1 Nodes=n0,n9", "1 nodes hang on no switch of the topology: n1"),
    ("SwitchName=l1 Nodes=n0\nSwitchName=l2 Nodes=n0", "node n0 hangs on two switches: l1 and l2")])
def test_a_cluster_file_whose_topology_cannot_be_is_refused(replay, tmp_path, topology, says):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("topology: topology.conf\nnodes:\n- {name: n, count: 2, gpus: 8}\n")
    if topology is not None:
        (tmp_path / "topology.conf").write_text(topology)
    assert says in replay("--cluster", cluster, code=2).stderr


def test_a_cluster_file_names_the_topology_of_its_nodes(tmp_path):
    (tmp_path / "topology.conf").write_text("SwitchName=l1 Nodes=n0\nSwitchName=l2 Nodes=n[1-2]\n")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("topology: topology.conf\nnodes:\n- {name: n, count: 2, gpus: 8}\n")
    assert described(str(cluster)).leaf.tolist() == [0, 1]


def test_a_cluster_file_names_how_the_gpus_of_its_nodes_are_linked(tmp_path):
    (tmp_path / "pair.topo").write_text("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("links: {n*: pair.topo}\nnodes:\n- {name: n, count: 2, gpus: 2}\n- {name: m, gpus: 8}\n")
    assert described(str(cluster)).islands == {"n0": ((0,), (1,)), "n1": ((0,), (1,))}


def test_a_cluster_file_whose_links_are_those_of_other_servers_is_refused(replay, tmp_path):
    (tmp_path / "pair.topo").write_text("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("links: {n*: pair.topo}\nnodes:\n- {name: n, count: 2, gpus: 8}\n")
    assert "2 nodes have another number of GPUs than the links name: n0, n1" in replay("--cluster", cluster,
                                                                                       code=2).stderr


@pytest.mark.parametrize(("text", "says"), [
    ("[1, 2]", "nodes and what is known of them are expected"), ("8", "nodes and what is known of them are expected"),
    ("[" * 200_000, "nest"), ("links: 5", "links: names of nodes are expected"),
    ("nodes: 5", "nodes: input should be a valid tuple"), ("nodes: [8]", "nodes[0]: "),
    ("nodes: [{gpus: many}]", "nodes[0].gpus: input should be a valid integer"),
    ("nodes: [{gpus: 8, partitions: fast}]", "nodes[0].partitions: input should be a valid tuple, not 'fast'"),
    ("nodes: [{gpus: 8, islands: 7}]", "nodes[0].islands: input should be a valid tuple"),
    ("nodes: [{gpus: 8}]\nevents: [{time: 5}]", "events[0].node: field required"),
    ("nodes: [{gpus: 8}]\nevents: [{time: 5, node: group0-, kind: broken}]", "events[0].kind: ")])
def test_what_is_no_cluster_is_told_in_words_and_with_its_place(replay, tmp_path, text, says):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(text)
    said = replay("--cluster", cluster, code=2).stderr
    assert f"{cluster}: " in said
    assert says in said
    assert "Error(" not in said


def test_a_job_larger_than_the_cluster_is_rejected_by_name_and_the_rest_runs(replay):
    result = replay("--cluster", "1x8", "--format", "json", source=JOBS + "huge,1,10,9000,60,u,all\n")
    assert rows(result)["fifo"]["jobs"] == 40
    assert "1 job can never run here: larger than the cluster (huge in line 42)" in result.stderr


def test_jobs_that_wait_for_each_other_are_rejected_and_so_are_those_behind_them(replay):
    source = ("job,submit_s,run_s,gpus,after\nfirst,0,50,1,\nthen,1,10,1,first\na,2,10,1,b\nb,3,10,1,a\n"
              "self,4,10,1,self\nbehind,5,10,1,b\nlost,6,10,1,nobody\n")
    result = replay("--cluster", "4x8", "--format", "json", source=source)
    fifo = rows(result)["fifo"]
    assert (fifo["jobs"], fifo["jobs_rejected"]) == (3, 4)
    assert fifo["jct_mean_s"] == (50 + 59 + 10) / 3
    assert "3 jobs can never run here: its dependencies form a circle (a in line 4, b in line 5, self in line 6)" \
        in result.stderr
    assert "depends on a job that can never run (behind in line 7)" in result.stderr
    assert "note: 1 jobs do not wait for one that the history does not have" in result.stderr


def test_rows_that_cannot_be_read_are_counted_with_their_line(replay):
    result = replay("--cluster", "1x8", "--format", "json", source=HEAD + "a,0,10,1,,,\nb,-5,10,1,,,\nc,0,no,1,,,\n")
    assert rows(result)["fifo"]["jobs"] == 1
    assert rows(result)["fifo"]["jobs_left_out"] == 2
    assert "2 rows are not replayed" in result.stderr
    assert "line 3: submit_s is negative" in result.stderr
    assert "line 4" in result.stderr


def test_a_trace_out_of_order_is_replayed_in_order(replay):
    lines = JOBS.splitlines(keepends=True)
    backwards = "".join([lines[0], *reversed(lines[1:])])
    assert (rows(replay("--cluster", "4x8", "--format", "json"))["fifo"]["jct_mean_s"]
            == rows(replay("--cluster", "4x8", "--format", "json", source=backwards))["fifo"]["jct_mean_s"])


@pytest.mark.parametrize(("source", "says"), [
    (JOBS.replace(",", "~"), "jobs.csv"),
    ("", "is empty"),
    (HEAD, "no job can be replayed"),
    (HEAD + "a,0,-1,1,,,\n", "no job can be replayed (1 x run_s is not positive; first: line 2"),
])
def test_a_file_of_which_nothing_can_be_made_says_why(replay, source, says):
    result = replay("--cluster", "1x8", source=source, code=1)
    assert says in result.stderr
    assert "Traceback" not in result.output


def test_a_truncated_gzip_is_an_error_and_no_short_history(replay, tmp_path):
    packed = tmp_path / "jobs.csv.gz"
    text = HEAD + "".join(f"{job},{job},1,1,,,\n" for job in range(50_000))
    packed.write_bytes(gzip.compress(text.encode())[:-5000])
    assert "fetch it again" in replay(packed, "--cluster", "1x8", source=None, code=1).stderr


@pytest.mark.parametrize(("arguments", "says"), [
    ((), "give --cluster"),
    (("--cluster", "64by8"), "64x8"),
    (("--cluster", "0x8"), "is not NODESxGPUS"),
    (("--cluster", "missing.yaml"), "missing.yaml: cannot be read: No such file or directory"),
    (("--cluster", "1x8", "--policy", "sjf"), "'sjf' is no rule"),
    (("--cluster", "1x8", "--baseline", "nobody"), "'nobody' is no rule"),
    (("--cluster", "1x8", "--jobs-out", "jobs.xls"), "written as .csv or .parquet"),
    (("--cluster", "1x8", "--preemption-cost", "soon"), "is not a duration"),
    (("--cluster", "1x8", "--check"), "--check needs recorded starts"),
])
def test_a_wrong_option_is_told_before_anything_runs(replay, arguments, says):
    result = CliRunner().invoke(main, ["replay", str(TRACES / "philly_compact.csv"), *arguments])
    assert result.exit_code in (1, 2)
    assert says in result.output.replace("\n", " ")


@pytest.mark.parametrize("option", ["--report", "--jobs-out", "--groups-out", "--speeds-out"])
def test_a_file_whose_folder_is_not_there_is_refused_before_anything_runs(replay, begun, tmp_path, option):
    refused = replay("--cluster", "1x8", option, tmp_path / "gone/x.csv", code=2)
    assert f"there is no folder {tmp_path}/gone" in " ".join(refused.output.split())
    assert not begun


def test_two_tables_in_one_file_are_refused(replay, tmp_path):
    refused = replay("--cluster", "1x8", "--jobs-out", tmp_path / "x.csv", "--groups-out", tmp_path / "x.csv", code=2)
    assert "name two files" in " ".join(refused.output.split())


@pytest.mark.parametrize("option", ["--jobs-out", "--groups-out"])
def test_a_table_of_any_policy_that_is_a_folder_is_refused_before_anything_runs(replay, begun, tmp_path, option):
    (tmp_path / "x.random-feasible.csv").mkdir()
    refused = replay("--cluster", "1x8", option, tmp_path / "x.csv", code=2)
    assert f"{tmp_path}/x.random-feasible.csv: a folder is called so" in " ".join(refused.output.split())
    assert not begun


@pytest.mark.parametrize("option", ["--report", "--jobs-out", "--groups-out", "--speeds-out"])
def test_a_file_that_may_not_be_written_is_refused_before_anything_runs(replay, begun, tmp_path, monkeypatch, option):
    (closed := tmp_path / "closed").mkdir()
    (tmp_path / "link.csv").symlink_to(closed / "x.csv")
    (tmp_path / "link.fifo.csv").symlink_to(closed / "x.csv")
    (open_file := closed / "old.fifo.csv").touch()
    access = os.access  # root may write into any folder
    monkeypatch.setattr(os, "access", lambda path, mode, **how: Path(path) != closed and access(path, mode, **how))
    for path in (closed / "x.csv", tmp_path / "link.csv"):
        refused = replay("--cluster", "1x8", option, path, code=2)
        assert f"you may not write into {closed}" in " ".join(refused.output.split())
    monkeypatch.setattr(os, "access", lambda path, mode, **how: Path(path) != open_file and access(path, mode, **how))
    refused = replay("--cluster", "1x8", "--jobs-out", closed / "old.csv", code=2)
    assert f"{open_file}: you may not write it" in " ".join(refused.output.split())
    assert not begun


def test_a_device_and_links_to_files_are_written(replay, tmp_path):
    for name in ("page.html", "speeds.yaml"):
        (tmp_path / name).symlink_to(tmp_path / f"real-{name}")
    (tmp_path / "real-page.html").touch()
    replay("--cluster", "4x8", "--report", tmp_path / "page.html", "--speeds-out", tmp_path / "speeds.yaml")
    assert "<html" in (tmp_path / "real-page.html").read_text()
    assert (tmp_path / "real-speeds.yaml").exists()
    replay("--cluster", "4x8", "--report", "/dev/null", "--speeds-out", "/dev/stdout")


def test_only_a_fault_of_the_folder_of_outcomes_names_its_option(replay, tmp_path, monkeypatch):
    monkeypatch.setattr("idlewatt.daemon.cli.replay._check_output", lambda path: None)  # it is made meanwhile
    (tmp_path / "x.fifo.csv").mkdir()
    failed = replay("--cluster", "1x8", "--jobs-out", tmp_path / "x.csv", code=1)
    assert "x.fifo.csv" in failed.output
    assert "--state-dir" not in failed.output


def test_a_database_that_is_not_there_is_named(replay, tmp_path):
    result = replay(f"sqlite:///{tmp_path}/none/idlewatt.db", "--cluster", "1x8", source=None, code=3)
    assert "none/idlewatt.db" in result.stderr


def test_tables_of_jobs_are_written_for_each_policy(replay, tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    replay("--cluster", "4x8", "--jobs-out", tmp_path / "jobs.parquet")
    replay("--cluster", "4x8", "--jobs-out", tmp_path / "jobs.csv")
    written = {path.name for path in tmp_path.glob("jobs.*.*")}
    assert written == {f"jobs.{policy}.{suffix}" for policy in ("fifo", "random-feasible", *ORACLES)
                       for suffix in ("csv", "parquet")}
    table = pyarrow.read_table(tmp_path / "jobs.fifo.parquet").to_pydict()
    lines = list(csv.DictReader((tmp_path / "jobs.fifo.csv").open()))
    assert table["job"] == [line["job"] for line in lines] == [str(job) for job in range(40)]
    assert all(end > start for start, end in zip(table["start_s"], table["end_s"], strict=True))


def test_a_name_from_a_hostile_trace_reaches_no_terminal_unchanged(replay):
    evil = "\x1b[2Jboo"
    result = replay("--cluster", "1x8", source=HEAD + f"a,0,10,1,,,p\n{evil},0,10,9000,,,p\n")
    assert "\x1b" not in result.stderr
    assert "boo" in result.stderr


@pytest.fixture
def begun(replay, monkeypatch):
    """Return the policies that are handed out to be replayed; what comes of them is empty, and not shown."""
    policies = []

    def side_by_side(plan, left, workers):
        policies.extend(left)
        return (sweep.PolicyOutcome(policy, {}, {}, {}) for policy in left)

    monkeypatch.setattr(sweep, "side_by_side", side_by_side)
    monkeypatch.setattr("idlewatt.daemon.cli.replay._finish", lambda *_: None)
    return policies


def test_an_edited_cluster_is_replayed_anew_and_an_unchanged_one_is_not(replay, begun, tmp_path):
    path, policy = tmp_path / "cluster.yaml", "multifactor+slurm-placement+slurm-backfill"
    for weight, feature, anew in ((1000, "ib", True), (1000, "ib", False), (0, "ib", True), (0, "eth", True)):
        begun.clear()
        path.write_text(f"nodes: [{{name: n, count: 4, gpus: 8, features: [{feature}]}}]\n"
                        f"settings: {{PriorityType: priority/multifactor, PriorityWeightJobSize: {weight}}}\n")
        replay("--cluster", path, "--policy", policy)
        assert (policy in begun, bool(begun)) == (anew, anew)


@pytest.mark.parametrize(("option", "says"), [
    (None, "goes on from there"), ("--jobs-out", "replays all of them again, for its tables"),
    ("--groups-out", "replays all of them again, for its tables")])
def test_an_interrupted_command_says_whether_it_would_replay_all_again(replay, begun, tmp_path, monkeypatch, option,
                                                                       says):
    def interrupted(plan, left, workers):
        begun.append(left[0])
        yield sweep.PolicyOutcome(left[0], {}, {}, {})
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "side_by_side", interrupted)
    options = () if option is None else (option, tmp_path / "table.csv")
    told = replay("--cluster", "4x8", *options, code=130).stderr
    assert f"interrupted with 1 of 4 policies done; the same command {says}" in told
    replay("--cluster", "4x8", *options, code=130)
    assert begun == ["fifo", "fifo" if option else "random-feasible"]


@pytest.mark.long
def test_ctrl_c_leaves_what_is_done_and_the_same_command_goes_on(tmp_path):
    source, state = tmp_path / "jobs.csv", tmp_path / "state"
    # The preemptive order walks through everybody at every event: long enough to be interrupted.
    source.write_text(HEAD + "".join(f"{job},{job},{500 + job * 7919 % 5000},{1 + job % 8},9999,u,p\n"
                                     for job in range(4_000)))
    words = [sys.executable, "-m", "idlewatt.daemon.cli", "replay", str(source), "--cluster", "4x8", "--policy", "fifo",
             "--policy", "srtf", "--format", "json", "--state-dir", str(state), "--workers", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while not list(state.glob("*.json")) and process.poll() is None:
        assert time.monotonic() < deadline, "the first policy is never done"
        threading.Event().wait(0.05)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=200)  # the table of what is done takes seconds of a free core
    assert process.returncode == 130, complaint
    assert "fifo" in {row["policy"] for row in json.loads(said)}
    assert "the same command goes on from there" in complaint
    kept = {path.name: path.stat().st_mtime_ns for path in state.glob("*.json")}
    source_rows = CliRunner().invoke(main, ["replay", str(source), "--cluster", "4x8", "--policy", "fifo", "--format",
                                            "json", "--state-dir", str(state)])
    assert source_rows.exit_code == 0
    assert all((state / name).stat().st_mtime_ns == when for name, when in kept.items())


def test_replayed_energy_has_money_beside_it_where_a_price_is_configured(replay, tmp_path):
    config = tmp_path / "idlewatt.yml"
    config.write_text("costs: {currency: EUR, per_kwh: 0.25}\nwaste: {pue: 2.0}\n")
    options = ("--cluster", "4x8", "--config.file", config)
    told = rows(replay(*options, "--format", "json"))["fifo"]
    assert told["cost"] == pytest.approx(told["energy_joules"] / 3.6e6 * 0.5)
    assert (told["currency"], told["wasted_cost"] < told["cost"]) == ("EUR", True)
    result = replay(*options, "--report", tmp_path / "replay.html", COLUMNS="200")
    assert "energy is priced at 0.25 EUR a kWh, times a PUE of 2" in result.stderr
    assert f"{told['cost']:.2f} EUR" in result.stdout
    assert f"{told['cost']:.2f} EUR" in (tmp_path / "replay.html").read_text()
    assert "cost" not in rows(replay("--cluster", "4x8", "--format", "json"))["fifo"]
