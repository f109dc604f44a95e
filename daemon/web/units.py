"""Energy and money as a person reads them on a page, and where the pages of jobs, users and nodes are."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import quote

from ...storage.energy_queries import MOST_COUNTED
from .. import amounts
from ..pricing import Cost


def energy(joules: float | None) -> str:
    """Return energy in Wh, kWh or MWh."""
    if joules is None:
        return "not recorded"
    for unit, size in (("MWh", 3.6e9), ("kWh", 3.6e6)):
        if abs(joules) >= size:
            return f"{joules / size:,.0f} {unit}" if abs(joules) >= 1000 * size else f"{joules / size:.3g} {unit}"
    return f"{joules / 3600:.3g} Wh"


def money(cost: Cost | None, part: str = "energy") -> str:
    """Return an amount with its currency; '' where no price is known."""
    return "" if cost is None else amounts.amount(asdict(cost), part)


def of_currency(value: float, cost: Cost) -> str:
    """Return a part of what something cost, in its currency."""
    return amounts.amount({"currency": cost.currency, "energy": value})


def carbon(cost: Cost | None) -> str:
    """Return the carbon of some energy; '' where no intensity is known."""
    return "" if cost is None else amounts.carbon(asdict(cost))


def counted(total: int) -> str:
    """Return how many rows a list has, as far as they were counted."""
    return f"More than {MOST_COUNTED:,}" if total > MOST_COUNTED else f"{total:,}"


def beside(name: str, job_id: str) -> str:
    """Return a job's name where it stands beside its id: nothing where the id ends in it, as Kubernetes' do."""
    return "" if job_id.rpartition("/")[2] == name else name


def job_path(job_id: str) -> str:
    """Return where a job's page is, from the root of the site."""
    return f"jobs/{_part(job_id)}"


def user_path(user: str) -> str:
    """Return where a user's page is."""
    return f"users/{_part(user)}"


def node_path(node: str) -> str:
    """Return where a node's page is."""
    return f"nodes/{_part(node)}"


def _part(name: str) -> str:
    """Return a name as part of a path; a part of dots alone would lead elsewhere.

    Its slashes stay what they are: servers and proxies leave ``%2F`` as it is, or refuse it.
    """
    return "/".join(quote(part, safe="") if part.strip(".") else part.replace(".", "%2E") for part in name.split("/"))
