"""Quiet hours and days, in the time that people live by."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo

from ..settings.notices import DigestSettings, QuietSettings

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def local(time_s: float, zone: tzinfo | None) -> datetime:
    """Return a moment in a time zone, the machine's where none is given."""
    return datetime.fromtimestamp(time_s, zone).astimezone(zone)


def quiet(time_s: float, settings: QuietSettings | None, zone: tzinfo | None) -> bool:
    """Tell whether nobody wants to hear anything at a moment."""
    if settings is None:
        return False
    now = local(time_s, zone)
    if settings.weekends and now.weekday() >= 5:
        return True
    since, until, moment = settings.since, settings.until, now.time()
    return since <= moment < until if since <= until else moment >= since or moment < until


def digest_due(time_s: float, settings: DigestSettings, zone: tzinfo | None) -> float:
    """Return when the last digest was due, in seconds since the epoch."""
    now = local(time_s, zone)
    back = (now.weekday() - DAYS.index(settings.day)) % 7
    day = (now - timedelta(days=back)).date()
    due = datetime.combine(day, settings.at, tzinfo=zone).astimezone(zone)
    return due.timestamp() if due.timestamp() <= time_s else (due - timedelta(days=7)).timestamp()


def digest_until(due_s: float, settings: DigestSettings, zone: tzinfo | None) -> float:
    """Return the midnight (UTC) at which the week of a digest ends, in seconds since the epoch; weeks adjoin."""
    day, a_day = local(due_s, zone).date(), timedelta(days=1)
    # In summer a due time may lie before a midnight of UTC and in winter after it: the earlier one counts all year.
    ahead = max(local(datetime(day.year, month, 1, tzinfo=UTC).timestamp(), zone).utcoffset() or timedelta()
                for month in (1, 7))
    at = datetime.combine(day, settings.at) - datetime.combine(day, time())
    return (datetime.combine(day, time(), tzinfo=UTC) + (at - ahead) // a_day * a_day).timestamp()
