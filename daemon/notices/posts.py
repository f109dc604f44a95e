"""Notices over HTTP: a webhook of the site's own, and Alertmanager's API v2."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from ...exporters.causes import of_request
from ...exporters.deadline import DEADLINES
from ...exporters.fetch import cut_at_deadlines
from ...storage.notices import Notice
from ..settings.notices import AlertmanagerSettings, WebhookSettings


class PostError(Exception):
    """Nothing took it; the message says why."""


class _InTime(HTTPAdapter):
    """An adapter whose connections a deadline can cut, those through a proxy too."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        cut_at_deadlines(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        cut_at_deadlines(manager)
        return manager


def post(settings: WebhookSettings, path: str, body: object) -> None:
    """Post JSON; PostError unless the answer is a success, which its head says: nothing else of it is read."""
    headers = {}
    try:
        if settings.token_file is not None:
            headers["Authorization"] = f"Bearer {settings.token_file.read_text(encoding='utf-8').strip()}"
        status = _status(settings, f"{settings.url.rstrip('/')}{path}" if path else settings.url, body, headers)
    except (requests.RequestException, OSError, ValueError) as error:
        raise PostError(of_request(error)) from error
    if not 200 <= status < 300:
        raise PostError(f"answered {status}")


def _status(settings: WebhookSettings, url: str, body: object, headers: Mapping[str, str]) -> int:
    """Return how a server answers; PostError when it has not within its time, however slowly it speaks."""
    late = PostError(f"did not answer within {settings.timeout:g} s")
    with DEADLINES.limit(settings.timeout) as exchange, requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, _InTime())
        try:
            with session.post(url, json=body, headers=headers, timeout=settings.timeout, allow_redirects=False,
                              verify=str(settings.ca_file) if settings.ca_file else True, stream=True) as answer:
                status = answer.status_code
        except (requests.RequestException, OSError) as error:
            if exchange.overdue:
                raise late from error
            raise
    if exchange.overdue:  # a head that was cut reads like one that has ended
        raise late
    return status


def payload(notice: Notice) -> dict[str, object]:
    """Return the fields of a notice that programs and webhooks receive."""
    return {"rule": notice.rule, "kind": notice.kind, "stage": notice.stage, "job_id": notice.job_id,
            "submit_s": notice.submit_s, "start_s": notice.start_s, "user": notice.user, "account": notice.account,
            "partition": notice.partition, "found_s": notice.found_s, "words": notice.words, "fix": notice.fix,
            "figures": dict(notice.figures)}


def alerts(notices: Sequence[Notice], settings: AlertmanagerSettings, until_s: float,
           opted_out: Collection[str] = ()) -> list[dict[str, object]]:
    """Return notices as Alertmanager's ``postableAlerts``; each ends by itself unless it is posted again."""
    return [{"labels": {**settings.labels, **_labels(notice, opted_out)},
             "annotations": {"summary": notice.words, "description": notice.fix, "owner": notice.user},
             "startsAt": _moment(notice.found_s), "endsAt": _moment(until_s),
             **({"generatorURL": url} if (url := str(notice.figures.get("url") or "")) else {})} for notice in notices]


def _labels(notice: Notice, opted_out: Collection[str]) -> dict[str, str]:
    # Routes make the owner's address of the label ``user``: without it what administrators hear cannot reach one who
    # wants to hear nothing.
    owner = {} if notice.user in opted_out else {"user": notice.user}
    return {"alertname": "IdlewattNotice", "rule": notice.rule, "kind": notice.kind, "stage": notice.stage,
            "job_id": notice.job_id, **owner, "account": notice.account, "partition": notice.partition}


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
