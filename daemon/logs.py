"""One structured line per event, on standard error, in logfmt or JSON; a repeated line is written once a while."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Literal, TextIO

import structlog

Format = Literal["logfmt", "json"]


class Repeats(logging.Filter):
    """Lets the same line of the same logger and target pass once per period, and says then how many it held back.

    A target that is down is worth one line a minute, not one a scrape. Bounded: the oldest lines are forgotten.
    """

    def __init__(self, period_s: float = 60.0, clock: Callable[[], float] = time.monotonic,
                 remembered: int = 1000) -> None:
        super().__init__()
        self._period_s, self._clock, self._remembered = period_s, clock, remembered
        self._held: dict[tuple[str, str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line may pass; below WARNING every line may."""
        if record.levelno < logging.WARNING:
            return True
        key, now = (record.name, record.getMessage(), str(getattr(record, "target", ""))), self._clock()
        last, held = self._held.get(key, (float("-inf"), 0))
        if now - last < self._period_s:
            self._held[key] = (last, held + 1)
            return False
        while len(self._held) >= self._remembered:
            del self._held[next(iter(self._held))]
        self._held.pop(key, None)
        self._held[key] = (now, 0)
        if held:
            record.repeated = held
        return True


def configure(level: str, style: Format, stream: TextIO | None = None) -> None:
    """Send every log line of the process to a stream, standard error by default, as ``style``."""
    renderer = (structlog.processors.JSONRenderer() if style == "json"
                else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "logger", "event"]))
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.format_exc_info,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer])
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(Repeats())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Their every-run lines say nothing that our cycle metrics do not.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Its lines have whole paths, and that of a webhook may be its secret; what failed is said by whoever asked.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
