"""What Prometheus' operator takes (0.82, `monitoring.coreos.com/v1`): the fields that its users need, stated by hand.

The operator's own definitions allow more fields; a server drops one that they do not know without a word.
"""

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_DURATION = {"type": "string",
             "pattern": r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_ACTIONS = ("replace", "keep", "drop", "hashmod", "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase",
            "keepequal", "dropequal")
_IN_WORDS = ("HashMod", "LabelMap", "LabelDrop", "LabelKeep", "KeepEqual", "DropEqual", "Replace", "Keep", "Drop",
             "Lowercase", "Uppercase")


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _resource(spec: dict[str, Any]) -> dict[str, Any]:
    return _object("apiVersion", "kind", "metadata", "spec", apiVersion=_TEXT, kind=_TEXT,
                   metadata=_object("name", name=_TEXT, namespace=_TEXT, labels=_TEXTS, annotations=_TEXTS), spec=spec)


_RELABELLING = _object(
    action={"enum": [*_ACTIONS, *_IN_WORDS]}, modulus={"type": "integer"}, regex=_TEXT, replacement=_TEXT,
    separator=_TEXT, sourceLabels=_many({"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}), targetLabel=_TEXT)
_ENDPOINT = {"port": _TEXT, "path": _TEXT, "scheme": {"enum": ["http", "https"]}, "interval": _DURATION,
             "scrapeTimeout": _DURATION, "honorLabels": {"type": "boolean"}, "honorTimestamps": {"type": "boolean"},
             "params": {"type": "object", "additionalProperties": _many(_TEXT)}, "relabelings": _many(_RELABELLING),
             "metricRelabelings": _many(_RELABELLING)}
_SELECTOR = _object(matchLabels=_TEXTS, matchExpressions=_many(
    _object("key", "operator", key=_TEXT, operator=_TEXT, values=_many(_TEXT))))
_NAMESPACES = _object(any={"type": "boolean"}, matchNames=_many(_TEXT))
_LIMITS = dict.fromkeys(("sampleLimit", "targetLimit", "labelLimit", "labelNameLengthLimit", "labelValueLengthLimit"),
                        {"type": "integer"})
_RULE = _object("expr", record=_TEXT, alert=_TEXT, expr={"type": ["string", "integer"]}, **{"for": _DURATION},
                keep_firing_for=_DURATION | {"minLength": 1}, labels=_TEXTS, annotations=_TEXTS)
SCHEMAS = {
    "ServiceMonitor": _resource(_object(
        "endpoints", "selector", endpoints=_many(_object(**_ENDPOINT, targetPort={"type": ["string", "integer"]})),
        selector=_SELECTOR, namespaceSelector=_NAMESPACES, jobLabel=_TEXT, targetLabels=_many(_TEXT),
        podTargetLabels=_many(_TEXT), **_LIMITS)),
    "PodMonitor": _resource(_object(
        "selector", podMetricsEndpoints=_many(_object(**_ENDPOINT)), selector=_SELECTOR, jobLabel=_TEXT,
        namespaceSelector=_NAMESPACES, podTargetLabels=_many(_TEXT), **_LIMITS)),
    "PrometheusRule": _resource(_object(groups=_many(_object(
        "name", name=_TEXT | {"minLength": 1}, interval=_DURATION, query_offset=_DURATION, limit={"type": "integer"},
        labels=_TEXTS, rules=_many(_RULE)))))}
