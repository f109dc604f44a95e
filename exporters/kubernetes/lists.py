"""Lists of the API server, page by page: whole, and of the requested kind, or none at all.

A proxy or a server that begins may answer 200 with something else. Taken for an empty list, that would end every job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..source import SourceError
from ..text import quoted
from .api import ApiClient
from .fields import ApiGroups, ListOf, some

PAGE = 500
MOST_PAGES = 2000
_ENDINGS = (("sses", "ss"), ("ies", "y"), ("s", ""), ("", ""))
"""Of names of many objects, and of one."""
_GROUPS = msgspec.json.Decoder(ApiGroups)


def read_list(api: ApiClient, path: str, take: Callable[[bytes], ListOf[Any]],
              query: Mapping[str, str] | None = None) -> str:
    """Give each page of a list to ``take``, which decodes it; return the version of the list.

    Raises:
        SourceError: the server cannot be reached, answers with something else, or its list has no end.
    """
    parameters, tokens = {"limit": str(PAGE), **(query or {})}, set[str]()
    while True:
        try:
            page = take(api.read(path, parameters))
        except msgspec.MsgspecError as error:
            raise SourceError(f"{path}: no list: {error!s:.120}") from error
        _expect(path, page.kind, _kind_of(path))
        token = page.metadata.continue_
        if not token:
            return page.metadata.resource_version
        if token in tokens or len(tokens) + 1 >= MOST_PAGES:
            raise SourceError(f"{path}: its list has no end: after {len(tokens) + 1} pages "
                              f"{'a page goes on as one before it did' if token in tokens else 'there are more'}; "
                              "what stands between idlewatt and the API server?")
        tokens.add(token)
        parameters["continue"] = token


def served(api: ApiClient) -> dict[str, set[str]]:
    """Return the versions of each group of kinds that a server has.

    Raises:
        SourceError: it cannot be reached, or answers with something else.
    """
    try:
        group_list = _GROUPS.decode(api.read("/apis"))
    except msgspec.MsgspecError as error:
        raise SourceError(f"/apis: no list of groups: {error!s:.120}") from error
    _expect("/apis", group_list.kind, "apigrouplist")
    return {group.name: {version.get("version", "") for version in some(group.versions)}
            for group in some(group_list.groups)}


def _kind_of(path: str) -> str:
    """Return the kind of a list in small letters by its path: ``podlist`` of ``/api/v1/pods``."""
    plural = path.rpartition("/")[2]
    return next(plural.removesuffix(many) + singular for many, singular in _ENDINGS if plural.endswith(many)) + "list"


def _expect(path: str, kind: str, wanted: str) -> None:
    if kind.lower() != wanted:
        what = f"of the kind {quoted(kind)}" if kind else "that names no kind"
        raise SourceError(f"{path}: not answered with a list of it, but with something {what}: "
                          "is this the address of an API server?")
