import os
import time
from dataclasses import fields

import numpy as np
import pytest

from idlewatt.daemon.memory_mapped_workload import MappedWorkload, spool_folder
from idlewatt.daemon.replay.workload import Workload


@pytest.mark.parametrize("ids", [None, ["a", "b"], np.array([7, 8]), np.array(["x", "y"])])
def test_a_workload_comes_back_from_disk_as_it_went(tmp_path, ids):
    work = Workload.of([0.0, 1.0], [5.0, 6.0], [1, 2], ids=ids, user=["ann", "bob"], limit=[9.0, np.inf])
    back = MappedWorkload.of(work, tmp_path).workload()
    for field in fields(Workload):
        np.testing.assert_array_equal(getattr(back, field.name), getattr(work, field.name))


def test_what_is_sent_to_a_worker_holds_no_job(tmp_path):
    spool = MappedWorkload.of(Workload.of(np.arange(10.0), np.ones(10), np.ones(10), ids=np.arange(10)), tmp_path)
    assert len(spool.rest) == len(spool.rest.ids) == 0


def test_the_folder_goes_and_takes_with_it_what_a_killed_process_left(tmp_path):
    old, young = tmp_path / "jobs-old", tmp_path / "jobs-young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "run.npy").write_bytes(b"x")
    os.utime(old, (time.time() - 1e6, time.time() - 1e6))
    with spool_folder(tmp_path) as mine:
        assert mine.is_dir()
        assert not old.exists()
        assert young.exists()
    assert not mine.exists()
