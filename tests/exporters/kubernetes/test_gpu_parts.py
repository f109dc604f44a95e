import pytest

from idlewatt.exporters.kubernetes.fields import Annotations
from idlewatt.exporters.kubernetes.gpu_parts import parts_of_gpus
from idlewatt.storage.gpu_parts import GpuPart

UUID = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"


@pytest.mark.parametrize(("fraction", "hami", "parts"), [
    ("0.25", "", (GpuPart("fraction", None, 0.25, 0.25),)),
    ("", f"{UUID},NVIDIA,8000,30:;", (GpuPart("hami", None, 8000.0, 0.3, UUID),)),
    ("", f"{UUID},NVIDIA,8000,0:;", (GpuPart("hami", None, 8000.0, None, UUID),)),
    ("", f"{UUID},NVIDIA,8000,50:{UUID},NVIDIA,8000,20:;", (GpuPart("hami", None, 8000.0, 0.5, UUID),
                                                            GpuPart("hami", None, 8000.0, 0.2, UUID))),
    *[(text, "", ()) for text in ("", "1", "0", "-0.5", "nan", "inf", "half", "1e999")],
    *[("", text, ()) for text in ("GPU-,NVIDIA,1,1:;", f"{UUID},NVIDIA,,:;", f"{UUID},NVIDIA,-8,1:;", "x" * 99999)]])
def test_annotations_tell_which_part_of_a_gpu_a_pod_holds_and_nonsense_tells_none(fraction, hami, parts):
    assert parts_of_gpus(Annotations(fraction=fraction, hami=hami)) == parts


def test_a_pod_without_annotations_holds_no_part():
    assert parts_of_gpus(None) == ()
