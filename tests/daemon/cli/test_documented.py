"""Every command in the documentation is right usage, and is run by a test or excepted with its reason."""

import re

import certifi
import click
import pytest
import yaml
from click.testing import CliRunner
from documented import PAGES, ROOT, blocks, commands, others

from idlewatt.daemon import config
from idlewatt.daemon.cli import main
from idlewatt.storage.records import JobState

RUN_ELSEWHERE = {
    "check-config --meters": "tests/daemon/cli/test_check_config.py", "db import": "tests/daemon/cli/test_importing.py",
    "db stats": "tests/daemon/cli/test_db.py", "db upgrade": "tests/daemon/cli/test_db.py",
    "demo": "tests/daemon/cli/test_demo.py", "demote": "tests/daemon/cli/test_train.py",
    "evaluate": "tests/daemon/cli/test_train.py", "follow": "tests/stack/test_follow.py",
    "grafana install": "tests/daemon/cli/test_grafana.py",
    "install-systemd": "tests/systemd/test_unit.py", "live": "tests/daemon/cli/test_live.py",
    "models": "tests/daemon/cli/test_train.py", "notices": "tests/daemon/cli/test_notices.py",
    "promote": "tests/daemon/cli/test_train.py", "serve": "tests/daemon/cli/test_serve.py",
    "replay TRACE --cluster 8x8": "tests/test_contributing.py", "replay TRACE": "tests/daemon/cli/test_replay.py",
    "replay history": "tests/daemon/test_recorded_window.py",
    "replay jobs.csv": "tests/stack/test_priorities.py",
    "report --month 2026-10 --against": "tests/daemon/cli/test_energy.py",
    "reproduce": "tests/daemon/reproduce/test_command.py",
    "setup": "tests/daemon/cli/test_setup.py", "slurm-settings": "tests/daemon/cli/test_slurm_settings.py",
    "train": "tests/daemon/cli/test_train.py",
}
"""Commands that do not end, take long or write outside of a test's folder, and the tests that run them."""
BOOTED = "tests/systemd/test_tutorial.py"
"""It types tutorial, how-to and runbooks on a booted Debian with a real Slurm."""
RUN_BY = {
    r"make (install|lint|types|test|system-packages)\b": ".ci/run",
    r"make run$": "tests/daemon/cli/test_demo.py",
    r"make docs$": "tests/test_documentation.py",
    r"make dist$": "tests/test_packages.py",
    r"pytest -q tests/test_packaging.py": ".ci/run",
    r"make deb$": "tests/systemd/test_debian_package.py",
    r"make rpm$": "tests/systemd/test_rpm_package.py",
    r"(make sbom$|python systemd/packages/sbom.py)": "tests/test_packaging.py",
    r"make dashboards$": "tests/grafana/test_dashboards.py",
    r"make docs-reference$": "tests/exporters/test_reference.py",
    r"scontrol show topology$": "tests/exporters/test_fabric.py",
    r"scontrol show assoc_mgr$": "tests/stack/test_limits.py",
    r"squeue --state=PENDING --Format=": "tests/stack/test_follow.py",
    r"apt (install|remove|purge)\b": BOOTED,
    r"sbatch\b": BOOTED,
    r"systemctl (enable|stop|start|reload|status|daemon-reload|restart idlewatt)\b(?!.*-follow)": BOOTED,
    r"(journalctl -u idlewatt(?!-)|curl (-s )?localhost:(9723|9400)|scontrol (show job|update node|token))": BOOTED,
    r"(sqlite3|install -d|install -o|cp -r /etc/idlewatt|rm -f /var/lib/idlewatt)\b": BOOTED,
    r"chown -R idlewatt": BOOTED,
    r"(chmod 755 /usr/local/sbin|chmod 640 /etc/idlewatt|chown root:idlewatt /etc/idlewatt|mv /etc/idlewatt)": BOOTED,
    r"(dnf remove|rm -rf /etc/idlewatt|userdel)\b": "tests/systemd/test_rpm_package.py",
    r"kubectl apply\b": "tests/systemd/test_kubernetes.py",
    r"helm install\b": "tests/systemd/test_kubernetes.py",
    r"(systemd-sysusers|systemd-tmpfiles) ": "tests/systemd/test_booted.py",
    r"systemd-analyze security": "tests/systemd/test_unit.py",
    r"promtool\b": "tests/grafana/test_rules.py",
    r"curl -s '?http://127.0.0.1:9723/api/v1/(recommendations|waste)": "tests/daemon/web/test_energy_api.py",
    r"curl -s -H 'Content-Type: application/json' --data @args.json": "tests/exporters/kubernetes/test_extender.py",
    r"pytest tests/daemon/": ".ci/run",
    r"pytest -s tests/stack/": ".ci/run",
}
"""Other programs, and what runs the same."""
EXCEPTIONS = {
    r"python tests/benchmarks/gist_serves": "trainings that take the better part of an hour",
    r"(make bench|pytest (--benchmarks|--long)|python tests/benchmarks|python -m judge)": "takes minutes to hours",
    r"make reproduce": "takes hours",
    r"(make (twice|test-long|test-dependencies)|make -C release)": "takes minutes to hours, before a release",
    r"git (tag|push|clone) ": "makes a release of a maintainer's repository",
    r"git ls-files ": "counts lines in a checkout, which change every day",
    r"(docker|podman|kind|buildah|make image)": "no container service takes part in the tests",
    r"kubectl (?!apply)": "no real cluster; tests/exporters/kubernetes/test_commands.py has what advice prints",
    r"(nvidia-smi|dcgmi)": "there is no GPU",
    r"pip (install|download)": "needs a package index; make install is the same from a checkout",
    r"(python3? -m venv|tar )": "makes the environment for a package index",
    r"dnf upgrade": "no dnf on Debian; tests/systemd/test_rpm_package.py upgrades with rpm itself",
    r"(createuser|createdb|dropdb|pg_dump|pg_restore)": "PostgreSQL's own; tests/systemd/test_booted.py has a server",
    r"sacctmgr (modify|add)": "changes rights in Slurm's accounts, which tests/stack shares",
    r"(sacct --json|sacct --allusers)": "recorded in tests/recorded, by which imports and comparisons are tested",
    r"(dd if=|chown slurm:|chmod 600 /var/spool|systemctl restart slurm)": "the tests' Slurm has its key already",
    r"scontrol update jobid": "what the judge of tests/stack does to every recommendation, on a job of its own",
    r"systemctl (reload prometheus|enable --now grafana|restart grafana)": "services of others; no Grafana here",
    r"(systemctl|journalctl) .*-follow": "tests/stack/test_follow.py runs the program, test_unit.py reads its units",
    r"systemctl disable": "removes what the reader made by hand; the packages' own removal is run",
    r"rm (-r )?/(etc|opt|var)": "removes what the reader made by hand; the packages' own removal is run",
    r"cp ": "copies dashboards into a Grafana's folders; tests/daemon/cli/test_grafana.py looks at what is copied",
    r"(jq|curl -fsS -H)": "writes to a Grafana, which is not here",
    r"(ssh|chown root:idlewatt tls.key|chmod 640 tls.key|kill -9)": "a reader's own machine, files and processes",
}
"""Commands of the documentation that no test runs, each with its reason."""
FILE = {"FILE", "config.yml", "/etc/idlewatt/config.yml"}


def each() -> list:
    return [pytest.param(words, id=f"{page.name}: {' '.join(words)}") for page in PAGES for words in commands(page)]


@pytest.mark.parametrize("words", each())
def test_a_command_that_is_named_exists_and_so_do_its_options(words):
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command, words = command.get_command(context, words[0]), words[1:]
        assert command is not None
        context = click.Context(command)
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    used = {word.split("=")[0] for word in words if word.startswith("-") and word not in ("-h", "--help")}
    assert used - known <= {"--version"}


def elsewhere(words: list[str]) -> str | None:
    """Return the test that runs such a command, if it is not run here."""
    return next((test for name, test in RUN_ELSEWHERE.items() if words[:len(name.split())] == name.split()), None)


def is_a_name(words: list[str]) -> bool:
    """Tell whether a page only names a command, which takes a file or the like as well."""
    command = main.get_command(click.Context(main), words[0])
    return len(words) == 1 and command is not None and any(isinstance(one, click.Argument) for one in command.params)


def to_run() -> list:
    """Return the commands of every page, each once, less those that another test runs."""
    found = [words for page in PAGES for words in commands(page)]
    each_once = {" ".join(words): words for words in found if not elsewhere(words) and not is_a_name(words)}
    return [pytest.param(words, id=name) for name, words in sorted(each_once.items())]


@pytest.fixture
def stand_ins(shell, rig, tmp_path):
    """What a reader has where the documentation says FILE or JOB."""
    file = tmp_path / "config.yml"
    file.write_text(yaml.safe_dump({"sources": [{"kind": "slurm_rest", "url": rig.server.url}]}))
    running = next(job for job in shell.service.known.snapshot.jobs if job.state is JobState.RUNNING)
    pending = next(job for job in shell.service.known.snapshot.jobs if job.state is JobState.PENDING)
    return dict.fromkeys(FILE, str(file)) | {
        "JOB": running.job_id, "ID": pending.job_id, "/etc/ssl/site-ca.pem": certifi.where()}


@pytest.mark.parametrize("words", to_run())
def test_a_command_of_the_documentation_does_what_it_says(shell, monkeypatch, tmp_path, stand_ins, words):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if words[0] in ("advise", "digest"):
        shell.service.advise()
    words = [stand_ins.get(word, word) for word in words]
    done = CliRunner().invoke(main, words, env={"IDLEWATT_URL": shell.url, "COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert done.stdout.strip()


@pytest.mark.parametrize("command", sorted({command for page in PAGES for command in others(page)}))
def test_another_command_is_run_by_a_test_or_excepted_with_its_reason(command):
    told = [pattern for pattern in (*RUN_BY, *EXCEPTIONS) if re.match(pattern, command)]
    assert told, "say in RUN_BY who runs it, or in EXCEPTIONS why nobody does"


def test_every_test_that_is_named_for_a_command_exists():
    for name, test in RUN_ELSEWHERE.items():
        assert name.split()[0].replace("-", "_") in (ROOT / test).read_text().replace("-", "_"), (name, test)
    assert [test for test in RUN_BY.values() if not (ROOT / test).exists()] == []


def test_no_exception_is_left_for_a_command_that_is_gone():
    every = {command for page in PAGES for command in others(page)}
    assert [pattern for pattern in (*RUN_BY, *EXCEPTIONS) if not any(re.match(pattern, one) for one in every)] == []


def examples() -> list:
    """Return the blocks of YAML that are configurations of the daemon."""
    found = [(page, block) for page in PAGES for block in blocks(page, language="yaml")]
    return [pytest.param(block, id=f"{page.name}: {block.splitlines()[0]} {number}")
            for number, (page, block) in enumerate(found)
            if block.split(":")[0] in ("sources", "storage", "waste", "advice", "training", "costs", "notices")]


@pytest.mark.parametrize("block", examples())
def test_an_example_of_a_configuration_is_right(block):
    config.parse(block if block.startswith("sources") else f"sources: [{{kind: node, targets: [a]}}]\n{block}")
