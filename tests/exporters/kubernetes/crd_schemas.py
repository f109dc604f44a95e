"""Whether objects are as an API server would take them: by Kubernetes' own schemas, and those of custom definitions.

Volcano's definitions are not recorded here, so that its gangs and HyperNodes are held against nothing.
"""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate

from idlewatt.exporters.simulated.api_store import Store

RECORDED = Path(__file__).parents[2] / "recorded" / "kubernetes" / "crds.json.gz"
HOSTILE = "strange"
"""Objects of this name are to be wrong."""


@cache
def schemas() -> dict[str, Any]:
    """Return the schemas of Kueue, KAI and the scheduler plugins by version and kind."""
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


def _strict(schema: Any) -> Any:
    """Return a schema that also refuses fields which nobody defined: a server would drop them without a word."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    known = {key: value if key in ("enum", "required", "default") else _strict(value) for key, value in schema.items()}
    if "properties" in known and not known.get("x-kubernetes-preserve-unknown-fields"):
        known.setdefault("additionalProperties", False)
    if known.get("x-kubernetes-int-or-string"):
        known = {key: value for key, value in known.items() if key != "anyOf"} | {"type": ["integer", "string"]}
    return known


@cache
def _validator(kind: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(_strict(schemas()[kind]))


def faults_of(content: dict[str, Any]) -> Iterator[str]:
    """Yield what an API server would have against an object."""
    kind, name = f"{content['apiVersion']} {content['kind']}", content["metadata"]["name"]
    if kind in schemas():
        for fault in _validator(kind).iter_errors(content):
            yield f"{kind} {name}: {'.'.join(map(str, fault.path))}: {fault.message[:200]}"
    elif ".volcano.sh/" not in kind:
        try:
            kubernetes_validate.validate(content, "1.37", strict=True)
        except kubernetes_validate.ValidationError as fault:
            yield f"{kind} {name}: {fault.message[:200]}"


def all_faults(store: Store, most: int = 12) -> list[str]:
    """Return what is wrong with the objects of a store, of the first ``most`` of each kind."""
    return [fault for resource in store.resources for name in store.names(resource)[:most] if name[1] != HOSTILE
            for fault in faults_of(json.loads(store.get(resource, name).text))]
