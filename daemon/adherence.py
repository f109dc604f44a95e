"""How advice fared, as it is published: runs by policy, kind of advice, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from ..storage.following import Following


def adherence(counts: Iterable[Following]) -> dict[str, object]:
    """Return the facts of the metrics on advice that was followed or not; runs that nobody advised on are in none."""
    issued: dict[str, float] = {}
    followed: dict[str, float] = {}
    verdicts: dict[tuple[str, str, str], float] = {}
    for count in counts:
        if not count.policy:
            continue
        key = count.policy, count.action or "none", count.verdict
        verdicts[key] = verdicts.get(key, 0.0) + count.runs
        if count.verdict != "not advised":
            issued[count.policy] = issued.get(count.policy, 0.0) + count.runs
            followed[count.policy] = followed.get(count.policy, 0.0) + count.runs * (count.verdict == "followed")
    return {"advice_issued_total": issued, "advice_followed_total": followed, "advice_verdicts_total": verdicts}
