"""Whether objects are as an API server would take them: by Kubernetes' own schemas, and those of custom definitions.

Volcano's are written by hand after the fields that its documentation names; those of the others are recorded.
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
_TEXT, _NUMBER, _FREE = {"type": "string"}, {"type": "integer"}, {"type": "object"}


def _fields(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _resource(**parts: Any) -> dict[str, Any]:
    return _fields("apiVersion", "kind", "metadata", apiVersion=_TEXT, kind=_TEXT, metadata=_FREE, **parts)


_CONDITION = _fields("type", "status", type=_TEXT, status={"enum": ["True", "False", "Unknown"]}, reason=_TEXT,
                     message=_TEXT, transitionID=_TEXT, lastTransitionTime=_TEXT)
_SELECTOR = _fields(exactMatch=_fields("name", name=_TEXT), regexMatch=_fields("pattern", pattern=_TEXT),
                    labelMatch=_FREE)
VOLCANO = {
    "scheduling.volcano.sh/v1beta1 PodGroup": _resource(
        spec=_fields(minMember=_NUMBER, minTaskMember=_FREE, queue=_TEXT, priorityClassName=_TEXT, minResources=_FREE,
                     networkTopology=_fields(mode={"enum": ["hard", "soft"]}, highestTierAllowed=_NUMBER)),
        status=_fields(phase={"enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]}, running=_NUMBER,
                       succeeded=_NUMBER, failed=_NUMBER, conditions={"type": "array", "items": _CONDITION})),
    "topology.volcano.sh/v1alpha1 HyperNode": _resource(
        spec=_fields("tier", tier=_NUMBER, members={"type": "array", "items": _fields(
            "type", type={"enum": ["Node", "HyperNode"]}, selector=_SELECTOR)}),
        status=_fields(nodeCount=_NUMBER, conditions={"type": "array"}))}


@cache
def schemas() -> dict[str, Any]:
    """Return the schemas of Kueue, KAI, the scheduler plugins and Volcano by version and kind."""
    return json.loads(gzip.decompress(RECORDED.read_bytes())) | VOLCANO


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
    else:
        try:
            kubernetes_validate.validate(content, "1.37", strict=True)
        except kubernetes_validate.ValidationError as fault:
            yield f"{kind} {name}: {fault.message[:200]}"


def all_faults(store: Store, most: int = 12) -> list[str]:
    """Return what is wrong with the objects of a store, of the first ``most`` of each kind."""
    return [fault for resource in store.resources for name in store.names(resource)[:most] if name[1] != HOSTILE
            for fault in faults_of(json.loads(store.get(resource, name).text))]
