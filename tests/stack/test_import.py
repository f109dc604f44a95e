"""A past from the real sacct of a real slurmdbd."""

import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main
from idlewatt.storage.history import History

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack")]


def test_the_real_accounts_come_in_once(chain, tmp_path):
    job = chain.sbatch("--gres=gpu:1", script="true")
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}'}}\n"
                                       f"sources: [{{kind: slurm_cli, slurm_conf: '{chain.slurm_conf}'}}]\n")
    History.open(url).close()
    chain.wait_for(lambda: "COMPLETED" in chain.run("sacct", "-j", job, "-X", "-n", "-o", "State"))
    command = ["db", "import", "sacct", "--since", "2d", "--config.file", str(tmp_path / "site.yml")]

    def brought():
        """Import until the job is there: sacct leaves out what began in the very second in which it is asked."""
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        with History.read_only(url) as reader:
            return reader.job(job) and (reader.jobs(0, 1e10), reader.job(job).runs)

    found, runs = chain.wait_for(brought)
    assert len({job.key for job in found}) == len(found) > 0
    assert len(runs) == 1
    again = CliRunner().invoke(main, command)
    assert "of which 0 jobs are new" in again.stdout
    with History.read_only(url) as reader:
        assert reader.jobs(0, 1e10) == found
