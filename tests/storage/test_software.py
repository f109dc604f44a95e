"""What jobs run, as it is recorded and asked for."""

from dataclasses import replace

from idlewatt.storage.energy_queries import RunFilter
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation
from idlewatt.storage.run_energy import EnergyShare


def test_what_a_job_runs_is_recorded_and_not_erased_by_a_source_that_does_not_tell(history, make):
    job = replace(make.ended(100.0, 200.0), image="nvcr.io/nvidia/pytorch:23.10", framework="pytorch", cuda="12.2")
    history.record_finished([job])
    history.record_finished([replace(job, image="", framework="", cuda="", exit_code=1)])
    (found,) = history.jobs(0.0, 1e9)
    assert (found.image, found.framework, found.cuda) == ("nvcr.io/nvidia/pytorch:23.10", "pytorch", "12.2")
    assert history.load_columns().vocabularies["image"] == ("nvcr.io/nvidia/pytorch:23.10",)


def test_runs_are_found_by_part_of_the_image_the_framework_or_cuda(history, make):
    shares = []
    for number, software in enumerate((("lab/llm:7", "vllm", "12.4"), ("lab/md%:1", "gromacs", ""))):
        job = replace(make.ended(100.0, 200.0), job_id=str(number), image=software[0], framework=software[1],
                      cuda=software[2], allocations=(Allocation("n", 1),))
        history.record_finished([job])
        shares.append(EnergyShare(0.0, 300.0, "n", "gpu", {PowerClass.PRODUCTIVE: 5.0}, job.job_id, job.submit_s,
                                  100.0, gpus=1, gpu_seconds=100.0))
    history.record_shares(shares)

    def found(text):
        rows, total = history.runs(RunFilter(software=text), "ended", 10)
        assert total == len(rows)
        return [row.job_id for row in rows]

    assert (found("vllm"), found("md%"), found("12.4"), found("lab/"), found("x%")) == (
        ["0"], ["1"], ["0"], ["1", "0"], [])
