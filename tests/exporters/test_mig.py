"""How MIG cuts a GPU, by the name of its product as drivers write it, or labels of Kubernetes."""

import pytest

from idlewatt.exporters.mig import memory_of, slices_of


@pytest.mark.parametrize(("product", "slices"), [
    ("NVIDIA A30", 4), ("NVIDIA-A30", 4), ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 4),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 4), ("NVIDIA RTX PRO 5000 Blackwell", 2),
    ("NVIDIA A300", 7), ("NVIDIA A100-SXM4-40GB", 7), ("NVIDIA B200", 7), ("", 7)])
def test_slices_are_those_of_the_product_and_seven_of_one_that_is_not_known(product, slices):
    assert slices_of(product) == slices


@pytest.mark.parametrize(("product", "memory"), [
    ("NVIDIA-A100-SXM4-40GB", 40), ("NVIDIA-H100-80GB-HBM3", 80), ("NVIDIA-A30", 24), ("NVIDIA-L40S", 0),
    ("NVIDIA-H200", 141), ("NVIDIA-H200-NVL", 141), ("NVIDIA-B200", 180), ("NVIDIA-GB200", 186),
    ("NVIDIA-GH200-480GB", 96), ("NVIDIA-GH200-144G-HBM3e", 144), ("NVIDIA-H100-PCIe", 80), ("NVIDIA-H100-NVL", 94),
    ("NVIDIA-H100-SXM5-94GB", 94), ("NVIDIA-H20-3e", 141)])
def test_memory_is_what_the_product_names_or_is_known_to_have(product, memory):
    assert memory_of(product) == memory
