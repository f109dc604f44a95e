"""What a job runs, as far as its scheduler tells: container image, framework and CUDA.

The name of an image, a job's comment and what it asks for are texts of users: only what is known by its form is taken
from them, made fit and short. A job's script is never looked at, and no more is kept of a comment.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypedDict

from .text import clean

LONGEST_IMAGE, LONGEST_READ = 200, 4096
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet", "paddlepaddle", "nemo", "megatron", "deepspeed", "vllm",
              "tritonserver", "sglang", "rapids", "horovod", "gromacs", "lammps", "namd", "amber", "quantum_espresso")
"""Words by which images and comments are known, the first that is found."""
_NAMED = re.compile(r"\b(image|container|framework|cuda)\s*=\s*([^\s,;|]{1,200})", re.IGNORECASE)
_CUDA = re.compile(r"(?<![a-z])cuda(?:[-_:/=]?v?)(\d{1,2}(?:\.\d{1,2})?)(?!\d)", re.IGNORECASE)
_SHORT_CUDA = re.compile(r"(?<![a-z0-9])cu(1[0-9])(\d)(?!\d)", re.IGNORECASE)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_DIGEST = re.compile(r"@sha[0-9]{3}:[0-9a-z]*$", re.IGNORECASE)


class Software(NamedTuple):
    """What is known of what a job runs; '' where nobody tells."""

    image: str = ""
    framework: str = ""
    cuda: str = ""


class SoftwareFields(TypedDict):
    """The same by the names of the fields of ``storage.records.Job``."""

    image: str
    framework: str
    cuda: str


NOTHING = Software()


def software(image: str, *texts: str) -> Software:
    """Return what the name of an image and further texts, such as a comment, tell."""
    read = " ".join(text[:LONGEST_READ] for text in texts if text)
    if not image and not read:
        return NOTHING
    named = {key.lower(): value for key, value in reversed(_NAMED.findall(read))}
    name = _image(image or named.get("image") or named.get("container") or "")
    framework = named.get("framework", "").lower()
    return Software(name, framework if framework in FRAMEWORKS else _framework(name, read),
                    _cuda(named.get("cuda", ""), name, read))


def _image(name: str) -> str:
    """Return an image's name without scheme, user, password and digest; enroot writes ``registry#image``."""
    given = "".join(clean(name[:LONGEST_READ]).split())
    image = _DIGEST.sub("", _SCHEME.sub("", given))
    # A password may hold any of @ # / too; a path on the server has no user before it.
    if not re.match("/(?!/)", given):
        image = image.rpartition("@")[2].replace("#", "/", 1)
    return image[:LONGEST_IMAGE]


def _framework(*texts: str) -> str:
    name_words = [word for text in texts for word in re.split(r"[^a-z_]+", text.lower()[:LONGEST_READ])]
    return next((name for name in FRAMEWORKS if name in name_words), "")


def _cuda(version: str, *texts: str) -> str:
    if re.fullmatch(r"\d{1,2}(\.\d{1,2}){0,2}", version):
        return ".".join(version.split(".")[:2])
    for text in texts:
        if match := _CUDA.search(text):
            return match[1]
        if match := _SHORT_CUDA.search(text):
            return f"{match[1]}.{match[2]}"
    return ""
