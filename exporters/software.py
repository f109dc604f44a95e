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
_NAMED = re.compile(r"\b(framework|cuda)\s*=\s*([^\s,;|]{1,200})", re.IGNORECASE)
_NAMED_IMAGES = tuple(re.compile(rf"\b{key}\s*=\s*([^\s,;|]\S*)", re.IGNORECASE) for key in ("image", "container"))
_SEPARATOR = re.compile(r"[,;|]")
_KEYED_ADDRESS = re.compile(r"(?:(?:e-?)?mail|mail-user|contact|owner)[=:][\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_CUDA = re.compile(r"(?<![a-z])cuda(?:[-_:/=]?v?)(\d{1,2}(?:\.\d{1,2})?)(?!\d)", re.IGNORECASE)
_SHORT_CUDA = re.compile(r"(?<![a-z0-9])cu(1[0-9])(\d)(?!\d)", re.IGNORECASE)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_DIGEST = re.compile(r"@sha[0-9]{3}:[0-9a-z]*$", re.IGNORECASE)
_NAMED_DIGEST = re.compile(r"@sha[0-9]{3}:[0-9a-z]*(?=[,;|]|$)", re.IGNORECASE)
_PATH = re.compile("/(?!/)")


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
    read = " ".join(_read(text) for text in texts if text)
    if not image and not read:
        return NOTHING
    named = {key.lower(): value for key, value in reversed(_NAMED.findall(read))}
    name = _image(image or _named_image(read))
    framework = named.get("framework", "").lower()
    return Software(name, framework if framework in FRAMEWORKS else _framework(name, read),
                    _cuda(named.get("cuda", ""), name, read))


def _read(text: str) -> str:
    """Return as much of a text as is read, to the end of a word: half a login does not look like one."""
    if len(text) <= LONGEST_READ:
        return text
    *whole, _ = re.split(r"\s", text[:LONGEST_READ])
    return " ".join(whole)


def _named_image(text: str) -> str:
    """Return the image that a comment names, '' where a separator behind it may be one in a password."""
    found = next(filter(None, (pattern.search(text) for pattern in _NAMED_IMAGES)), None)
    if found is None:
        return ""
    first, *others = _SEPARATOR.split(_NAMED_DIGEST.sub("", found[1]))
    # A login ends in an @ before registry and image: a mail's domain, which has no / : or #, is no such thing.
    certain = _PATH.match(first) or all("@" not in other or _KEYED_ADDRESS.fullmatch(other) for other in others)
    return first if certain else ""


def _image(name: str) -> str:
    """Return an image's name without scheme, user, password and digest; enroot writes ``registry#image``."""
    if len(name) > LONGEST_READ:
        return ""  # its login may be cut
    given = "".join(clean(name).split())
    image = _DIGEST.sub("", _SCHEME.sub("", given))
    # A password may hold any of @ # / too; a path on the server has no user before it.
    if not _PATH.match(given):
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
