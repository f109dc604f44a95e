"""The role for Ansible on a booted systemd: it installs the package, and a second run changes nothing."""

import json
import re
import shutil
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.systemd, pytest.mark.xdist_group("systemd"), pytest.mark.timeout(1800),
              pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="needs Ansible: apt install ansible")]

REPOSITORY = Path(__file__).parents[2]
CONFIGURATION = {"cluster": "by-ansible", "sources": [{"kind": "node", "targets": ["127.0.0.1:9"]}]}


@pytest.fixture(scope="module")
def machine(packages, boot):
    with boot(packages[1], bound={REPOSITORY: "/opt/checkout"}) as booted:
        yield booted


@pytest.fixture(scope="module")
def play(machine, packages):
    """Run the playbook that is shipped on the machine itself; return how many tasks changed and which handlers ran."""
    def played(configuration: dict = CONFIGURATION, **variables: object) -> tuple[int, set[str]]:
        given = {"idlewatt_package": f"/srv/packages/{packages[1].name}", "idlewatt_config": configuration,
                 "idlewatt_arguments": f"--web.listen-address=127.0.0.1:{machine.port}", **variables}
        said = machine.run("env", "HOME=/root", "ANSIBLE_NOCOLOR=1", "ansible-playbook", "--inventory=localhost,",
                           "--connection=local", f"--extra-vars={json.dumps(given)}",
                           "/opt/checkout/systemd/packages/ansible/site.yml")
        assert re.search(r"unreachable=0 +failed=0", said), said
        return int(re.search(r"changed=(\d+)", said)[1]), set(re.findall(r"RUNNING HANDLER \[idlewatt : (.*?)\]", said))

    return played


@pytest.fixture(scope="module")
def first(play) -> int:
    return play()[0]


def test_the_role_installs_configures_and_starts(machine, first):
    assert first >= 4
    machine.wait_for(lambda: machine.get("/-/healthy"))
    assert (machine.show("ActiveState"), machine.show("UnitFileState")) == ("active", "enabled")
    assert "cluster: by-ansible" in machine.run("cat", "/etc/idlewatt/config.yml")
    assert machine.run("stat", "--format=%U:%G %a", "/etc/idlewatt/config.yml") == "root:idlewatt 640"


def test_the_role_leaves_a_password_beside_the_options_and_lets_nobody_read_it(machine, play, first):
    file = "/etc/default/idlewatt"
    machine.write(file, machine.run("cat", file) + "\nPGPASSWORD=secret\n")
    assert play() == (0, set())
    assert machine.run("cat", file).endswith("PGPASSWORD=secret")
    assert machine.run("stat", "--format=%U:%G %a", file) == "root:root 640"


def test_a_second_run_changes_nothing(play, first):
    assert play() == (0, set())


def test_a_changed_configuration_is_reloaded_and_the_daemon_goes_on(machine, play, first):
    before = machine.show("MainPID")
    assert play(CONFIGURATION | {"cluster": "renamed"}) == (2, {"Reload idlewatt"})   # the file and the handler
    assert machine.show("MainPID") == before


def test_a_faulty_configuration_stops_the_run_and_leaves_the_last_one(machine, play, first):
    before = machine.run("cat", "/etc/idlewatt/config.yml")
    with pytest.raises(AssertionError, match="unknown key"):
        play(CONFIGURATION | {"typo": 1})
    assert machine.run("cat", "/etc/idlewatt/config.yml") == before


def test_switched_off_it_is_stopped_and_not_started_at_a_boot(machine, play, first):
    play(idlewatt_enabled=False)
    assert (machine.show("ActiveState"), machine.show("UnitFileState")) == ("inactive", "disabled")
