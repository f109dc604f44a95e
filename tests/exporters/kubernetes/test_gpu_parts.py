import json

import pytest
from kube_objects import pod

from idlewatt.exporters.kubernetes.fields import Annotations
from idlewatt.exporters.kubernetes.gpu_parts import parts_of_gpus
from idlewatt.exporters.kubernetes.pods import parse_pod
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


def test_what_hami_hands_out_as_a_gpu_is_a_part_of_one():
    annotations = {"hami.io/vgpu-devices-allocated": f"{UUID},NVIDIA,8000,30:;"}
    found = parse_pod(json.dumps(pod("a", on="n", annotations=annotations)).encode())
    assert (found.amount.gpus, found.amount.slices, found.amount.profile) == (0, 1, "hami")
    assert [part.share for part in found.parts] == [0.3]
    assert parse_pod(json.dumps(pod("a", on="n")).encode()).amount.gpus == 1
