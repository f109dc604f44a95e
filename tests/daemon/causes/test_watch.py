"""What a watch keeps of the GPUs of running jobs from one reading to the next."""

import gc

from labelled import NOW, levels, watch

from idlewatt.storage.telemetry import GpuReading
from idlewatt.storage.underuse import Cause


def test_no_reading_is_kept_until_the_next_one_comes():
    gc.collect()  # what tests before have left in circles, which might go in between
    before = sum(isinstance(one, GpuReading) for one in gc.get_objects())
    watcher = watch(levels(Cause.NONE, 0, minutes=12))
    assert sum(isinstance(one, GpuReading) for one in gc.get_objects()) <= before
    assert len(list(watcher.running(NOW))) == 1
