"""A job of ``sbatch --container`` on a real Slurm: its image is known while it runs, and afterwards."""

import json
import time

import pytest

from idlewatt.exporters.slurm.cli import SlurmCliConfig

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]
BUNDLE = {"ociVersion": "1.0.0", "process": {"user": {"uid": 65534, "gid": 65534}, "args": ["/bin/true"],
                                             "env": ["PATH=/usr/bin:/bin"], "cwd": "/"},
          "root": {"path": "rootfs"}, "hostname": "x", "mounts": [], "linux": {"namespaces": []}}


@pytest.fixture
def bundle(chain):
    """A folder that Slurm takes for a container, where all users may read."""
    folder = chain.root / "images/pytorch-24.01-cuda12.3"
    (folder / "rootfs").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(BUNDLE))
    return folder


def test_a_real_job_in_a_container_is_told_with_its_image_framework_and_cuda(chain, bundle):
    source = SlurmCliConfig(slurm_conf=chain.slurm_conf).build(time.time)
    job = chain.sbatch(f"--container={bundle}", "--gres=gpu:1", script="sleep 5")

    def told(jobs):
        return next(((run.state.name, run.image, run.framework, run.cuda) for run in jobs if run.job_id == job), None)

    known = (str(bundle), "pytorch", "12.3")
    chain.wait_for(lambda: told(source.read().jobs) == ("RUNNING", *known))
    chain.wait_for(lambda: told(source.completed(0.0)) == ("COMPLETED", *known))
