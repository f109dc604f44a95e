"""The shipped unit beside a real Slurm: munge, slurmrestd's socket with a token, and TLS, in spite of hardening."""

import tempfile
from pathlib import Path

import pytest
import requests
import trustme
import yaml
from compiled_ahead import advice_is_compiled
from unit_machine import Machine

pytestmark = [pytest.mark.systemd, pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(1800)]

TOKEN, SOCKET = "/etc/idlewatt/slurm.token", "/srv/slurmrestd/sock"
# The chain lies in /tmp, which the unit has for itself.
SHOWN = "[Service]\nBindReadOnlyPaths={root}\n"
WEB = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"


@pytest.fixture(scope="module")
def machine(chain):
    machine = Machine(Path(tempfile.mkdtemp(prefix="idlewatt-slurm-")), {
        "cycles": dict.fromkeys(("scrape", "jobs", "assess", "advise", "record"), "1s"),
        "sources": [{"kind": "dcgm", "targets": [url.removeprefix("http://").removesuffix("/metrics")
                                                 for url in chain.dcgm_urls]},
                    {"kind": "slurm_cli", "slurm_conf": str(chain.slurm_conf)}]})
    try:
        machine.boot(chain.root)
        machine.install()
        machine.write("/etc/systemd/system/idlewatt.service.d/slurm.conf", SHOWN.format(root=chain.root))
        machine.run("systemctl", "daemon-reload")
        if advice_is_compiled():
            machine.take_machine_code()
        yield machine
    finally:
        machine.stop()


@pytest.fixture
def waiting(chain):
    """A job that nobody lets start."""
    chain.cancel_all()
    yield chain.sbatch("--hold", "-p", "A100", "--gres=gpu:a100:1")
    chain.cancel_all()


def up(machine):
    return {source["kind"]: source["up"] for source in machine.rows("sources")}


def test_the_unit_runs_slurms_commands_which_munge_knows_by_its_user(machine, waiting):
    machine.run("systemctl", "start", "idlewatt")
    machine.wait_for(machine.ready, 180)
    assert up(machine) == {"dcgm": True, "slurm_cli": True}
    machine.wait_for(lambda: waiting in {row["job_id"] for row in machine.rows("jobs")})
    assert len(machine.rows("nodes")) == 4


def test_the_unit_asks_slurmrestd_on_its_socket_by_a_token_that_only_its_group_may_read(chain, machine, waiting):
    machine.run("install", "--directory", "--owner=nobody", "/srv/slurmrestd")
    machine.run("systemd-run", "--uid=nobody", "--gid=nogroup", "--setenv=SLURM_JWT=daemon",
                f"--setenv=SLURM_CONF={chain.slurm_conf}", "slurmrestd", "-a", "rest_auth/jwt",
                "-s", "openapi/v0.0.38,openapi/dbv0.0.38", f"unix:{SOCKET}")
    machine.wait_for(lambda: machine.run("find", "/srv/slurmrestd", "-name", "sock"))
    machine.write(TOKEN, chain.token())
    machine.run("chown", "root:idlewatt", TOKEN)
    machine.run("chmod", "640", TOKEN)
    settings = yaml.safe_load(machine.config)
    settings["sources"][1] = {"kind": "slurm_rest", "url": f"unix:{SOCKET}", "token_file": TOKEN, "user": "root"}
    machine.write("/etc/idlewatt/config.yml", yaml.safe_dump(settings))
    machine.run("systemctl", "restart", "idlewatt")
    machine.wait_for(machine.ready, 180)
    assert up(machine) == {"dcgm": True, "slurm_rest": True}
    machine.wait_for(lambda: waiting in {row["job_id"] for row in machine.rows("jobs")})


def test_the_unit_serves_tls_by_files_that_only_its_group_may_read(machine, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = authority.issue_cert("127.0.0.1")
    for name, text in {"server.key": certificate.private_key_pem.bytes().decode(), "web.yml": WEB,
                       "server.pem": certificate.cert_chain_pems[0].bytes().decode()}.items():
        machine.write(f"/etc/idlewatt/{name}", text)
        machine.run("chown", "root:idlewatt", f"/etc/idlewatt/{name}")
        machine.run("chmod", "640", f"/etc/idlewatt/{name}")
    machine.write("/etc/default/idlewatt", f'ARGS="--web.listen-address=127.0.0.1:{machine.port} '
                                           '--web.config.file=/etc/idlewatt/web.yml"')
    machine.run("systemctl", "restart", "idlewatt")

    def answered():
        try:
            return requests.get(f"https://127.0.0.1:{machine.port}/-/healthy", timeout=60,
                                verify=str(tmp_path / "ca.pem"))
        except requests.ConnectionError:
            return None

    assert machine.wait_for(answered, 120).status_code == 200
