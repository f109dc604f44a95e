"""Print a bill of materials (CycloneDX 1.5, JSON) of what idlewatt needs and is installed here, or a table of licences.

usage: python systemd/packages/sbom.py [--licences]
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution

NAME = "idlewatt"
EXTRAS = frozenset({"postgres"})
"""Those that packages carry."""


def needed(name: str, extras: frozenset[str], seen: set[str]) -> Iterator[Distribution]:
    """Yield a distribution that is installed and those that it needs here, each once."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen:
        return
    seen.add(key)
    try:
        found = distribution(name)
    except PackageNotFoundError:  # for another platform
        return
    yield found
    for requirement in found.requires or ():
        wanted = re.search(r"extra\s*==\s*['\"]([\w-]+)", requirement)
        parts = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement)
        if parts is not None and (wanted is None or wanted[1] in extras):
            yield from needed(parts[1], frozenset((parts[2] or "").split(",")), seen)


def licence(found: Distribution) -> str:
    """Return a distribution's licence: its expression, else its classifiers, else the first line of its text."""
    about = found.metadata
    if about.get("License-Expression"):
        return about["License-Expression"]
    classes = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", ()) if line.startswith("License ::")]
    if classes:
        return " AND ".join(sorted(classes))
    return (about.get("License") or "unknown").strip().splitlines()[0]


def component(found: Distribution) -> dict[str, object]:
    """Return a distribution as CycloneDX has it."""
    name, version = found.metadata["Name"], found.version
    kind = "application" if name == NAME else "library"
    return {"type": kind, "bom-ref": f"pkg:pypi/{name.lower()}@{version}", "name": name, "version": version,
            "purl": f"pkg:pypi/{name.lower()}@{version}", "licenses": [{"license": {"name": licence(found)}}]}


def bill() -> dict[str, object]:
    """Return the whole bill; the same packages and SOURCE_DATE_EPOCH make the same one."""
    root, *others = needed(NAME, EXTRAS, set())
    parts = sorted((component(found) for found in others), key=lambda part: str(part["bom-ref"]))
    built = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), UTC)
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": built.isoformat(), "component": component(root)}, "components": parts,
            "dependencies": [{"ref": component(root)["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}]}


def licences() -> str:
    """Return the licences of the dependencies as a table in Markdown."""
    _, *others = needed(NAME, EXTRAS, set())
    rows = sorted((found.metadata["Name"].lower(), licence(found)) for found in others)
    return "".join(f"| {name} | {text} |\n" for name, text in (("package", "licence"), ("---", "---"), *rows))


if __name__ == "__main__":
    print(licences().rstrip() if "--licences" in sys.argv else json.dumps(bill(), indent=1))
