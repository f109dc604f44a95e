"""A past from the real sacct of a real slurmdbd."""

import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main
from idlewatt.storage.history import History

pytestmark = pytest.mark.stack


def test_the_real_accounts_come_in_once(chain, tmp_path):
    job = chain.sbatch("--gres=gpu:1", script="true")
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}'}}\n"
                                       f"sources: [{{kind: slurm_cli, slurm_conf: '{chain.slurm_conf}'}}]\n")
    History.open(url).close()
    chain.wait_for(lambda: "COMPLETED" in chain.run("sacct", "-j", job, "-X", "-n", "-o", "State"))
    command = ["db", "import", "sacct", "--since", "2d", "--config.file", str(tmp_path / "site.yml")]
    first = CliRunner().invoke(main, command)
    assert first.exit_code == 0, first.output
    with History.read_only(url) as reader:
        found = reader.jobs(0, 1e10)
        runs = reader.job(job).runs
    assert len({job.key for job in found}) == len(found) > 0
    assert len(runs) == 1
    again = CliRunner().invoke(main, command)
    assert "of which 0 jobs are new" in again.stdout
    with History.read_only(url) as reader:
        assert reader.jobs(0, 1e10) == found
