"""What the daemon advises, read over HTTP and believed only while it is fresh, whole and undegraded."""

from __future__ import annotations

import json
import re

import requests
from pydantic import BaseModel, ConfigDict, ValidationError
from urllib3.exceptions import HTTPError

from ...exporters.causes import of_request
from ...exporters.text import clean
from ..settings.follow import FollowSettings
from .sight import Advised, BelievedAdvice
from .slurm import JOB, NODE

HETEROGENEOUS = re.compile(r"[1-9][0-9]{0,9}\+[0-9]{1,4}")

MOST_BYTES = 64 << 20
_FUTURE_S = 5.0
"""How far clocks may be apart: what is read later than now is no fresher for it."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class _Degradation(_Row):
    cause: str
    words: str = ""


class _DaemonStatus(_Row):
    ready: bool
    no_advice: str = ""
    degraded: list[_Degradation] = []


class _Placement(_Row):
    nodes: list[str]


class _Recommendation(_Row):
    job_id: str
    submit_s: float
    partition: str
    issued_s: float
    policy: str
    action: str
    shadow: bool = False
    placement: _Placement | None = None
    snapshot_s: float | None = None
    command: str = ""


class Adviser:
    """Asks one daemon."""

    def __init__(self, rules: FollowSettings) -> None:
        self._rules = rules
        self._session = requests.Session()

    def advice(self, now_s: float) -> BelievedAdvice:
        """Return what is advised now; whatever is wrong with it is a silence with a reason."""
        try:
            standing = self._rows("status")
            rows = self._rows("recommendations")
            after = self._rows("status")
        except (requests.RequestException, HTTPError, OSError, ValueError, RecursionError) as error:
            return BelievedAdvice(silence=f"the daemon does not answer ({clean(of_request(error))[:200]})")
        for status in (standing, after):
            if silence := _silence(status, self._rules.despite):
                return BelievedAdvice(silence=silence)
        starts = [_start(row, now_s, self._rules.advice_within) for row in rows]
        return BelievedAdvice(tuple(start for start in starts if isinstance(start, Advised)), "",
                              tuple(start for start in starts if isinstance(start, str)))

    def _rows(self, endpoint: str) -> list[object]:
        """Return the rows of an endpoint; raises RequestException or HTTPError, ValueError for what is no answer."""
        daemon = self._rules.daemon
        url = f"{daemon.url.rstrip('/')}/api/v1/{endpoint}"
        with self._session.get(url, timeout=daemon.timeout, verify=str(daemon.ca_file) if daemon.ca_file else True,
                               stream=True, allow_redirects=False) as answer:
            body = answer.raw.read(MOST_BYTES + 1, decode_content=True)
            if answer.status_code != requests.codes.ok or len(body) > MOST_BYTES:
                raise ValueError(f"HTTP status {answer.status_code}, {len(body)} bytes")
        document = json.loads(body)
        rows = document.get("data") if isinstance(document, dict) else None
        if not isinstance(rows, list) or document.get("status") != "success":
            raise ValueError("not as idlewatt answers")
        return rows


def _silence(rows: list[object], despite: tuple[str, ...]) -> str:
    """Return why nothing is believed; '' where it may be."""
    try:
        status = _DaemonStatus.model_validate(rows[0])
    except (IndexError, ValidationError):
        return "its status is not understood"
    if not status.ready:
        return "the daemon has not read the scheduler lately"
    wrong = [condition for condition in status.degraded if condition.cause not in despite]
    if wrong:
        return f"degraded: {clean(wrong[0].words or wrong[0].cause)[:200]}"
    return clean(status.no_advice)[:200]


def _start(row: object, now_s: float, within_s: float) -> Advised | str | None:
    """Return advice to start a job of the active policy, or why it is left alone; None for all other advice."""
    try:
        start = _Recommendation.model_validate(row)
    except ValidationError:
        return "unreadable"
    if start.shadow or start.action != "start":
        return None
    if start.placement is None or start.snapshot_s is None:
        return "unreadable"
    if not -_FUTURE_S <= now_s - start.snapshot_s <= within_s or not -_FUTURE_S <= now_s - start.issued_s <= within_s:
        return "stale"
    nodes = tuple(sorted(start.placement.nodes))
    if HETEROGENEOUS.fullmatch(start.job_id):
        return "plain"
    if not nodes or not all(map(NODE.fullmatch, nodes)) or not JOB.fullmatch(start.job_id):
        return "unreadable"
    # Never run: it only tells that naming the nodes is all it takes. There is none for the next task of an array.
    named = f"scontrol update jobid={start.job_id} ReqNodeList={','.join(start.placement.nodes)}"
    plain = start.command in ("", named)
    return Advised(start.job_id, start.submit_s, clean(start.partition), nodes, clean(start.policy)[:256],
                   start.issued_s, start.snapshot_s, plain, task=not start.command)
