from collections import defaultdict

import pytest

from idlewatt.daemon.cli import waste
from idlewatt.daemon.cli._client import ask
from idlewatt.daemon.view import DaemonView


def rows(shell):
    return DaemonView(shell.service, lambda: shell.service.settings).waste()


def headed(text):
    """Return the headline, which a narrow terminal breaks, the headings, and the lines below."""
    lines = [line.strip() for line in text.splitlines()]
    headings = next(place for place, line in enumerate(lines) if line.startswith("class "))
    return " ".join(lines[:headings]), lines[headings], lines[headings + 1:]


def test_the_classes_add_up_to_the_wall_and_to_all(shell):
    found = shell.json("waste")
    wall = sum(node.wall_watts for node in shell.service.known.assessment.nodes)
    assert sum(row["power_watts"] for row in found) == pytest.approx(wall)
    assert sum(row["share_percent"] for row in found) == pytest.approx(100)


@pytest.mark.parametrize(("by", "key"), [("class", "power_class"), ("partition", "partition"), ("node", "node"),
                                         ("user", "user"), ("job", "job_id"), ("flavour", "flavour")])
def test_the_same_watts_whatever_they_are_added_up_by(shell, by, key):
    wanted = defaultdict(lambda: [0.0, 0.0])
    for row in rows(shell):
        name = str(getattr(row, key)) or "-"
        wanted[name][0] += row.power_watts or 0.0
        wanted[name][1] += (row.power_watts or 0.0) * row.wasted
    found = {row[by]: [row["power_watts"], row["wasted_power_watts"]] for row in shell.json("waste", "--by", by)}
    assert found.keys() == wanted.keys()
    for name, pair in found.items():
        assert pair == pytest.approx(wanted[name])


def test_the_worst_comes_first(shell):
    found = [row["wasted_power_watts"] + row["unused_power_watts"] for row in shell.json("waste", "--by", "node")]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0


def test_the_unused_part_of_busy_nodes_is_told_within_its_class_and_the_same_whatever_it_is_added_up_by(shell):
    unused = sum(node.unused_watts for node in shell.service.known.assessment.nodes)
    assert unused > 0
    by_class = {row["class"]: row for row in shell.json("waste")}
    assert by_class["host_active"]["unused_power_watts"] == pytest.approx(unused)
    assert by_class["host_active"]["unused_power_watts"] <= by_class["host_active"]["power_watts"]
    assert sum(row["unused_power_watts"] for row in by_class.values()) == pytest.approx(unused)
    for by in ("partition", "node", "user"):
        assert sum(row["unused_power_watts"] for row in shell.json("waste", "--by", by)) == pytest.approx(unused)
    headline, columns, _ = headed(shell.text("waste"))
    assert headline.endswith(" W unused part of busy nodes)")
    assert "unused W" in columns


def test_the_table_and_the_spreadsheet_say_the_same(shell):
    headline, _, table = headed(shell.text("waste"))
    assert " at the wall, " in headline
    assert len(table) == len(shell.csv("waste"))


def test_only_one_partition(shell):
    assert [row["partition"] for row in shell.json("waste", "--by", "partition", "--partition", "V100")] == ["V100"]


def test_what_nobody_could_read_any_more_is_unmeasured_and_its_waste_unknown(shell, rig):
    before = sum(row["power_watts"] for row in shell.json("waste"))
    rig.server.site._pages = {}
    rig.watch(shell.service, 600)
    (row,) = shell.json("waste")
    assert (row["class"], row["power_watts"]) == ("unmeasured", pytest.approx(before))
    assert row["wasted_power_watts"] is None
    assert "waste unknown" in shell.text("waste")
    assert "0 W wasted" not in shell.text("waste", "--by", "node")


def test_nothing_measured_is_said_so(shell):
    assert shell.text("waste", "--node", "nowhere") == "no power has been measured yet\n"


def test_jobs_of_one_number_and_user_in_two_partitions_are_two_and_the_table_names_each(shell, monkeypatch):
    """Two clusters number alike."""
    assert "partition" not in shell.json("waste", "--by", "job")[0]

    def renumbered(*given, **filters):
        return [row | ({"job_id": "7", "user": "ada"} if row.get("job_id") else {}) for row in ask(*given, **filters)]

    monkeypatch.setattr(waste, "ask", renumbered)
    watts = defaultdict(float)
    for row in rows(shell):
        if row.job_id:
            watts[row.partition] += row.power_watts or 0.0
    assert len(watts) > 1
    found = [row for row in shell.json("waste", "--by", "job") if row["job"] == "7"]
    assert {row["partition"]: row["power_watts"] for row in found} == pytest.approx(watts)
    assert "partition" in shell.text("waste", "--by", "job")


def test_jobs_of_two_schedulers_that_share_number_user_and_partition_are_two(shell, monkeypatch):
    """Of what each node holds, as if each were a job that its own scheduler gave the number 7."""
    nodes = {part.node for job in shell.service.known.snapshot.jobs if job.state.active for part in job.allocations}

    def renumbered(url, path, *given, **filters):
        if path == "sources":
            return [{"role": "scheduler"}] * 2
        if path == "jobs":
            return [{"job_id": "7", "submit_s": 1e9 + number / 64, "state": "running", "allocations": [{"node": node}]}
                    for number, node in enumerate(nodes)]
        return [row | ({"job_id": "7", "user": "ada", "partition": "gpu"} if row["job_id"] else {})
                for row in ask(url, path, *given, **filters)]

    monkeypatch.setattr(waste, "ask", renumbered)
    watts = defaultdict(float)
    for row in rows(shell):
        if row.job_id:
            watts[row.node] += row.power_watts or 0.0
    found = [row["power_watts"] for row in shell.json("waste", "--by", "job") if row["job"] == "7"]
    assert sorted(found) == pytest.approx(sorted(watts.values()))
    assert len(found) > 1
