"""What a watch keeps of the GPUs of running jobs from one reading to the next."""

import gc

from labelled import MODEL, NOW, levels, watch

from idlewatt.storage.telemetry import GpuReading
from idlewatt.storage.underuse import Cause


def kept() -> int:
    """Count the readings of labelled jobs that are alive; a thread of a test before may make others meanwhile."""
    return sum(isinstance(one, GpuReading) and one.time_s > NOW and one.model == MODEL for one in gc.get_objects())


def test_no_reading_is_kept_until_the_next_one_comes():
    gc.collect()  # what tests before have left in circles, which might go in between
    before = kept()
    watcher = watch(levels(Cause.NONE, 0, minutes=12))
    assert kept() <= before
    assert len(list(watcher.running(NOW))) == 1
