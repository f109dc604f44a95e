"""Hand machine code that the tests compiled to a daemon whose sources lie elsewhere."""

import json
from pathlib import Path

from numba.core.caching import _CacheLocator

from idlewatt.daemon.replay import compiled
from idlewatt.daemon.replay.compiled import cache_folder

TAKE = """
import json, pathlib, shutil, sys
source, place, but, names = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
for file in source.rglob("*.nb[ci]"):
    parts = file.relative_to(source).parts
    if file.parent.name in names and not file.name.startswith(but + "."):
        taken = place.joinpath(*parts[:-2], names[file.parent.name], file.name)
        taken.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, taken)
"""
"""A program: take all that one folder of machine code holds into another one, but for that of one module."""


def taking(source: str, place: str, but: str, daemon: str) -> tuple[str, ...]:
    """Return arguments with which Python takes our machine code, found at ``source``, for the sources in ``daemon``.

    numba names folders after the one that a source lies in.
    """
    ours, name = Path(compiled.__file__).parents[1], _CacheLocator.get_suitable_cache_subpath
    folders = {file.parent.relative_to(ours) for file in ours.rglob("*.py")}
    names = {name(str(ours / folder / "any.py")): name(str(Path(daemon) / folder / "any.py")) for folder in folders}
    return "-c", TAKE, source, f"{place}/{cache_folder().name}", but, json.dumps(names)
