"""The tutorial of the package, to the letter: a stranger's Debian 12 with a real Slurm, from the .deb to correct watts.

Then, on the same machine, the how-to pages whose commands need such a machine: Slurm's tokens and accounts, backup and
restore, removal.
"""

import json
import re
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from documented import blocks, others

pytestmark = [pytest.mark.long, pytest.mark.systemd, pytest.mark.stack, pytest.mark.xdist_group("systemd"),
              pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
SITE = "/srv/site"
MINUTES = 10
"""Within which a stranger is to see the first correct watts."""
PYTHON = f"/opt/python/bin/python3.{sys.version_info.minor}"
OURS = {"LD_LIBRARY_PATH": "/opt/python/lib", "PYTHONPATH": "/opt/dependencies"}
"""For the stand-ins of GPUs and service processors alone."""


@dataclass(frozen=True)
class Step:
    """A command of a page: when it was over and what it printed."""

    command: str
    seconds: float
    printed: str


def typed(machine, block: str) -> str:
    """Run a block as somebody would who types it into a shell of root, in the folder of the package."""
    said = machine.run("env", "HOME=/root", "bash", "-e", "-o", "pipefail", "-c", f"cd /root\n{block}")
    if "no advice yet" in said:   # "you ask again a little later"
        machine.wait_for(lambda: "no advice yet" not in machine.run("sh", "-c", block), 1800)
        return machine.run("sh", "-c", block)
    return said


@pytest.fixture(scope="module")
def machine(packages, boot):
    """A machine on which sinfo works, exporters on the GPU servers, and the package in root's folder.

    Its Slurm listens where that of other tests does.
    """
    bound = {Path(sys.base_prefix): "/opt/python", Path(sysconfig.get_path("purelib")): "/opt/dependencies",
             REPOSITORY: "/opt/checkout"}
    with boot(packages[1], bound=bound, network="own") as booted:
        booted.run("systemd-run", "--quiet", "--unit=site", "-p", "Type=oneshot", "-p", "RemainAfterExit=yes",
                   *(f"--setenv={name}={value}" for name, value in OURS.items()),
                   "/opt/checkout/tests/systemd/site.sh", SITE, PYTHON)
        # The job that the tutorial starts sleeps: its GPUs do nothing.
        booted.run("sh", "-c", f"for node in {SITE}/watts/*; do mkdir -p {SITE}/slurm/jobmap/${{node##*/}}; "
                   f"echo 0 > {SITE}/slurm/jobmap/${{node##*/}}/load; done")
        booted.run("cp", f"/srv/packages/{packages[1].name}", "/root/")
        yield booted


@pytest.fixture(scope="module")
def followed(machine) -> list[Step]:
    """The tutorial, line by line."""
    began, steps = time.monotonic(), []
    for line in (line for block in blocks(DOCS / "tutorial-slurm.md") for line in block.splitlines()):
        printed = typed(machine, line)
        steps.append(Step(line, time.monotonic() - began, printed))
        print(f"[{steps[-1].seconds:5.1f} s] # {line}\n{printed}")
    return steps


def meters(machine) -> float:
    """Return what the service processors of all nodes read, in watts."""
    told = machine.run("sh", "-c", f"for file in {SITE}/watts/*; do cat $file; echo; done")
    return sum(map(float, told.split()))


def rows_of(machine, command: str) -> list[dict]:
    """Return what a command prints as JSON; what is degraded it tells beside that."""
    return json.loads(machine.run("sh", "-c", f"idlewatt {command} --format json 2> /dev/null"))


def recorded(machine) -> set[str]:
    """Return the ids of the jobs in the database."""
    return set(machine.run("sqlite3", "/var/lib/idlewatt/idlewatt.db", "SELECT job_id FROM jobs").split())


def test_the_package_leads_to_the_first_correct_watts_within_ten_minutes(machine, followed):
    first = next(step for step in followed if step.command == "idlewatt waste")
    told = re.match(r"([\d.]+) kW at the wall, ([\d.]+) kW wasted", first.printed)
    # No job ran then: 16 A100 at 60 W and 16 V100 at 55 W, and 1.5 kW of each host, are what its meters read.
    assert float(told[1]) == pytest.approx(4 * 1.5 + 16 * 0.060 + 16 * 0.055, rel=0.01)
    assert first.seconds < 60 * MINUTES
    print(f"from the package to the first correct watts: {first.seconds:.0f} s")


def test_every_line_of_the_tutorial_prints_what_it_promises(followed):
    printed = {step.command: step.printed for step in followed}
    assert "Free GPUs" in printed["idlewatt waste"]
    assert "FAILED" not in printed["idlewatt check-config --probe /etc/idlewatt/config.yml"]
    assert "4 nodes with 32 GPUs" in printed["idlewatt check-config --probe /etc/idlewatt/config.yml"]
    assert "running" in printed["idlewatt jobs"]
    assert "no advice yet" not in printed["idlewatt advise"]


def test_the_job_that_sleeps_wastes_the_watts_of_its_two_gpus(machine, followed):
    rows = rows_of(machine, "waste --by job")
    job = next(row for row in rows if row["job"] != "-")
    assert job["wasted_power_watts"] == pytest.approx(2 * 60, rel=0.05)


def test_the_watts_go_on_to_be_those_of_the_meters(machine, followed):
    def agrees() -> bool:
        rows = rows_of(machine, "waste")
        return sum(row["power_watts"] for row in rows) == pytest.approx(meters(machine), rel=0.01)

    machine.wait_for(agrees, 60)


def runbook_commands() -> list[str]:
    """Return what the runbooks tell to type beside idlewatt.

    There are no GPUs for their tools, and nobody follows advice here: tests/stack/test_follow.py does.
    """
    pages = sorted((REPOSITORY / "grafana/runbooks").glob("*.md"))
    return sorted({command for page in pages for command in others(page)
                   if not re.match(r"nvidia-smi|dcgmi|systemctl reload( prometheus|$)|scontrol update jobid|.*-follow",
                                   command)})


@pytest.mark.parametrize("command", runbook_commands())
def test_a_command_of_a_runbook_works_beside_the_daemon(machine, followed, command):
    meant = {"JOB": "1", "NODE": "dgx-v100-02", "localhost:9400": "dgx-a100-01:9400"}
    for word, stand_in in meant.items():
        command = command.replace(word, stand_in)
    command = command.removesuffix("…")
    quiet = command.startswith("systemctl reload") or command.startswith("scontrol update")
    assert machine.run("sh", "-c", f"{command} || test $? = 1" if "-g" in command else command) or quiet


def test_a_token_is_made_and_renewed_by_its_timer_and_slurmrestd_takes_it(machine, followed):
    for block in blocks(DOCS / "slurm.md", "By slurmrestd"):
        typed(machine, block)
    assert machine.run("stat", "--format=%U:%G %a", "/etc/idlewatt/slurm.jwt") == "root:idlewatt 640"
    assert "idlewatt-token.timer" in machine.run("systemctl", "list-timers", "--no-legend")
    source = re.search(r"```yaml\n(.*?)```", (DOCS / "slurm.md").read_text(), re.DOTALL)[1]
    machine.run("sh", "-c", "echo 127.0.0.1 slurmctl >> /etc/hosts")
    machine.write("/etc/idlewatt/rest.yml", source)
    assert "ok      slurm_rest: 4 nodes with 32 GPUs, 1 job" in machine.run(
        "idlewatt", "check-config", "--probe", "/etc/idlewatt/rest.yml")
    before = machine.run("cat", "/etc/idlewatt/slurm.jwt")
    # A token tells the second in which it was made.
    machine.wait_for(lambda: machine.run("systemctl", "start", "idlewatt-token.service") == ""
                     and machine.run("cat", "/etc/idlewatt/slurm.jwt") != before, 20)


def test_a_token_that_cannot_be_made_leaves_the_last_one(machine, followed):
    before = machine.run("cat", "/etc/idlewatt/slurm.jwt")
    done = machine.run("sh", "-c", "SLURM_CONF=/nowhere /usr/local/sbin/idlewatt-token 2> /dev/null || echo failed")
    assert done == "failed"
    assert machine.run("cat", "/etc/idlewatt/slurm.jwt") == before


def test_a_year_of_accounting_is_imported_beside_the_running_daemon(machine, followed):
    for block in blocks(DOCS / "slurm.md", "Import a year of accounting"):
        said = typed(machine, block)
        assert "could not be read" not in said, said
    assert "jobs" in machine.run("idlewatt", "db", "stats")


def test_a_backup_is_taken_and_restored(machine, followed):
    backup, restore = blocks(DOCS / "operations.md", "Backup and restore")
    typed(machine, backup)
    jobs = recorded(machine)
    assert jobs
    machine.run("systemctl", "stop", "idlewatt")
    machine.run("sh", "-c", "rm -r /var/lib/idlewatt/*")
    assert "jobs" in typed(machine, restore)
    machine.wait_for(lambda: machine.run("sh", "-c", "curl -fsS localhost:9723/-/ready 2> /dev/null || true"))
    assert jobs <= recorded(machine)
    assert machine.run("stat", "--format=%U %a", "/var/lib/idlewatt/idlewatt.db") == "idlewatt 600"


def test_a_removal_and_a_purge_leave_nothing_of_the_package(machine, followed):
    for command in re.findall(r"^\| Debian package \| `(.*?)` \| `(.*?)` \|", (DOCS / "operations.md").read_text(),
                              re.MULTILINE)[0]:
        typed(machine, f"{command} -y")
    left = machine.run("find", "/etc", "/opt", "/usr/bin", "/usr/lib", "/usr/share", "/var/lib", "-xdev",
                       "-name", "*idlewatt*", "-not", "-path", "/opt/*/*", "-not", "-name", "*idlewatt-token*")
    assert left == ""
