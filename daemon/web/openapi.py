"""The OpenAPI 3.1 document, written from the same table that answers the requests."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Literal

from pydantic import TypeAdapter

from .api import ENDPOINTS, MOST_ROWS, Endpoint
from .energy_api import QUERIES, Query

PRIORITIZE = "/api/v1/kubernetes/prioritize"
"""The one path whose request is a body: kube-scheduler's extenders are."""
_SCORES = {"type": "array", "items": {"type": "object", "required": ["Host", "Score"], "properties": {
    "Host": {"type": "string"}, "Score": {"type": "integer", "minimum": 0, "maximum": 10}}}}
_QUESTION = {"type": "object", "required": ["Pod", "NodeNames"], "properties": {
    "Pod": {"type": "object"}, "NodeNames": {"type": "array", "items": {"type": "string"}}}}
_ERROR = {
    "type": "object",
    "required": ["status", "errorType", "error"],
    "properties": {"status": {"const": "error"}, "errorType": {"type": "string"}, "error": {"type": "string"}},
}


@functools.cache
def written() -> str:
    """Return the document as JSON; making it takes a tenth of a second, and it stays the same."""
    return json.dumps(document())


def document() -> dict[str, object]:
    """Return the description of every path of the API."""
    schemas, definitions = TypeAdapter.json_schemas(
        [(name, "serialization", endpoint.row) for name, endpoint in ENDPOINTS.items()]
        + [(f"recorded {name}", "serialization", query.row) for name, query in QUERIES.items()],
        ref_template="#/components/schemas/{model}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "idlewatt", "version": version("idlewatt"),
                 "description": "Which watts of a GPU cluster are wasted, why, and where the next jobs should go. "
                                "Times are seconds since the epoch, power W, energy J, memory bytes, ratios 0..1; "
                                "what is not measured is null.",
                 "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "paths": _paths(schemas),
        "components": {"schemas": definitions["$defs"] | {"Error": _ERROR}},
    }


def _paths(schemas: Mapping[tuple[str, Literal["validation", "serialization"]], dict[str, object]],
           ) -> dict[str, object]:
    paths: dict[str, Any] = {endpoint.path: {"get": _operation(endpoint, schemas[(name, "serialization")])}
                             for name, endpoint in ENDPOINTS.items()}
    for name, query in QUERIES.items():
        operation = _question(query, schemas[(f"recorded {name}", "serialization")])
        before = paths.get(f"/api/v1/{query.path}")
        paths[f"/api/v1/{query.path}"] = {"get": operation if before is None else _both(before["get"], operation)}
    return paths | {PRIORITIZE: {"post": _prioritize()}}


def _prioritize() -> dict[str, object]:
    failed = {"$ref": "#/components/schemas/Error"}
    return {"operationId": "kubernetes_prioritize",
            "summary": "Scores of nodes for a pod, for kube-scheduler with nodeCacheCapable; an empty list says "
                       "nothing, as when the cluster was not seen lately.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": _QUESTION}}},
            "responses": {"200": _response("Scores, in the order of NodeNames.", _SCORES),
                          "400": _response("It is no ExtenderArgs with NodeNames (errorType bad_data).", failed)}}


def _question(query: Query, rows: dict[str, object]) -> dict[str, object]:
    named = [{"name": name[1:-1], "in": "path", "required": True, "description": "Its name or id.",
              "schema": {"type": "string"}} for name in query.path.split("/") if name.startswith("{")]
    parameters = [_parameter(name, text, {"type": "string", "enum": list(query.choices[name])} if name in query.choices
                             else {"type": "string"}) for name, text in query.parameters.items()]
    failed = {"$ref": "#/components/schemas/Error"}
    return {"operationId": f"recorded_{query.name}", "summary": query.help, "parameters": named + parameters,
            "responses": {"200": _response("The rows.", _envelope(rows)),
                          "400": _response("A parameter is unknown or makes no sense (errorType bad_data).", failed),
                          "404": _response("Nothing of that name is known (errorType not_found).", failed),
                          "503": _response("The history cannot be read (errorType unavailable).", failed)}}


def _both(now: dict[str, Any], recorded: dict[str, Any]) -> dict[str, object]:
    """Return the operation of a path that answers from today's state, or from the history."""
    names = {parameter["name"] for parameter in now["parameters"]}
    more = [parameter for parameter in recorded["parameters"] if parameter["name"] not in names]
    rows = [operation["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["data"]
            for operation in (now, recorded)]
    return now | {"summary": f"{now['summary']} {recorded['summary']}", "parameters": now["parameters"] + more,
                  "responses": recorded["responses"] | {"200": _response("The rows.", _envelope({"anyOf": rows}))}}


def _operation(endpoint: Endpoint, rows: dict[str, object]) -> dict[str, object]:
    parameters = [_parameter(name, item.help, {"type": "string"} | ({"enum": item.choices} if item.choices else {}))
                  for name, item in endpoint.filters.items()]
    if endpoint.enveloped:
        limit = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS}
        parameters.append(_parameter("limit", "Most rows to return; a warning counts those left out.", limit))
    return {
        "operationId": endpoint.name.replace("/", "_"),
        "summary": endpoint.help,
        "parameters": parameters,
        "responses": {"200": _response("The rows.", _envelope(rows) if endpoint.enveloped else rows),
                      "400": _response("A parameter is unknown or makes no sense (errorType bad_data).",
                                       {"$ref": "#/components/schemas/Error"})},
    }


def _parameter(name: str, text: str, schema: dict[str, object]) -> dict[str, object]:
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _envelope(rows: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "required": ["status", "data"],
            "properties": {"status": {"const": "success"}, "data": rows,
                           "warnings": {"type": "array", "items": {"type": "string"}}}}


def _response(text: str, schema: dict[str, Any]) -> dict[str, object]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
