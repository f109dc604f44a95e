"""The RPM on a booted systemd, as far as a Debian shows it: rpm installs, upgrades and removes it there.

Debian's rpm knows nothing of Debian's own packages, so what the RPM requires is looked at and not resolved.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.long, pytest.mark.systemd, pytest.mark.xdist_group("systemd"), pytest.mark.timeout(1800),
              pytest.mark.skipif(not shutil.which("rpmbuild"), reason="needs rpmbuild: apt install rpm")]

REPOSITORY = Path(__file__).parents[2]
NEXT = "0.99.0"
"""A later version of the same sources, to upgrade to."""
EPOCH = {"SOURCE_DATE_EPOCH": "1763749525"}


def built(source: Path, folder: Path) -> None:
    subprocess.run((source / "systemd/packages/rpm.sh", source, folder), check=True, timeout=900,
                   env=os.environ | EPOCH)


@pytest.fixture(scope="module")
def rpms(tmp_path_factory):
    """The RPM of now and one of a later version, built here, or those in the folder IDLEWATT_PACKAGES."""
    folder = Path(os.environ.get("IDLEWATT_PACKAGES", tmp_path_factory.mktemp("rpms")))
    if len(list(folder.glob("*.rpm"))) < 2:
        later = tmp_path_factory.mktemp("later")
        archive = subprocess.run(("git", "archive", "HEAD"), cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
        subprocess.run(("tar", "x", "-C", later), input=archive.stdout, check=True)
        setup = (later / "setup.cfg").read_text()
        version = next(line for line in setup.splitlines() if line.startswith("version = "))
        (later / "setup.cfg").write_text(setup.replace(version, f"version = {NEXT}", 1))
        for source in (REPOSITORY, later):
            built(source, folder)
    return sorted(folder.glob("idlewatt-*.rpm"))


@pytest.fixture(scope="module")
def machine(rpms, boot):
    with boot(*rpms) as booted:
        yield booted


def rpm(machine, action: str, package: Path) -> str:
    return machine.run("rpm", "--force-debian", "--nodeps", action, f"/srv/packages/{package.name}")


@pytest.fixture(scope="module")
def installed(machine, rpms):
    rpm(machine, "--install", rpms[0])
    return machine


def test_an_rpm_brings_account_folders_units_manuals_and_completions_and_starts_nothing(installed):
    assert installed.run("stat", "--format=%U:%G %a", "/etc/idlewatt") == "root:idlewatt 750"
    assert installed.run("stat", "--format=%U:%G %a", "/etc/default/idlewatt") == "root:root 640"
    assert installed.show("UnitFileState") == "disabled"
    assert installed.run("ls", "/usr/share/man/man1/idlewatt.1.gz", "/usr/share/bash-completion/completions/idlewatt",
                         "/usr/share/zsh/site-functions/_idlewatt",
                         "/usr/share/fish/vendor_completions.d/idlewatt.fish")
    version = re.search(r"^version = (.*)$", (REPOSITORY / "setup.cfg").read_text(), re.MULTILINE)[1]
    assert version in installed.run("idlewatt", "--version")


def test_an_rpm_needs_python_and_systemd_and_offers_nobody_its_libraries(rpms):
    def told(what: str) -> set[str]:
        answer = subprocess.run(("rpm", "-qp", what, rpms[0]), capture_output=True, text=True, check=True).stdout
        return {line.split()[0] for line in answer.splitlines() if not line.startswith("rpmlib(")}

    assert told("--requires") == {"/bin/sh", "python3.11", "systemd"}
    assert {name.partition("(")[0] for name in told("--provides")} == {"idlewatt"}


def test_an_upgrade_restarts_the_running_daemon_and_keeps_the_operators_files(installed, rpms):
    config = yaml.safe_dump({"sources": [{"kind": "node", "targets": ["127.0.0.1:9"]}]})
    installed.write("/etc/idlewatt/config.yml", config)
    installed.write("/etc/default/idlewatt", f'ARGS="--web.listen-address=127.0.0.1:{installed.port}"\n')
    installed.run("systemctl", "enable", "--now", "idlewatt")
    installed.wait_for(lambda: installed.get("/-/healthy"))
    before = installed.show("MainPID")
    said = rpm(installed, "--upgrade", rpms[1])
    assert "needs your hand" not in said
    installed.wait_for(lambda: installed.show("ActiveState") == "active" and installed.show("MainPID") != before)
    assert NEXT in installed.run("idlewatt", "--version")
    assert installed.run("cat", "/etc/idlewatt/config.yml") == config.strip()
    assert str(installed.port) in installed.run("cat", "/etc/default/idlewatt")


def test_a_removal_stops_the_daemon_and_what_is_left_goes_as_documented(installed):
    installed.run("rpm", "--force-debian", "--nodeps", "--erase", "idlewatt")
    assert installed.show("ActiveState") == "inactive"
    assert installed.run("ls", "/etc/idlewatt/config.yml")
    page = (REPOSITORY / "docs/operations.md").read_text()
    installed.run("sh", "-c", page.partition("| RPM | `dnf remove idlewatt` | then `")[2].partition("`")[0])
    left = installed.run("find", "/etc", "/opt", "/usr/bin", "/usr/lib", "/usr/share", "/var", "-xdev", "-name",
                         "*idlewatt*", "-not", "-path", "/var/log/*", "-not", "-path", "/var/cache/man/*")
    assert left == ""
    assert installed.run("sh", "-c", "getent passwd idlewatt || getent group idlewatt || true") == ""
