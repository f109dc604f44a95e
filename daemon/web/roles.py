"""Which user asks, and what that user may see: a name by password, or by the header of a proxy that is trusted."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import Field, field_validator

from ..settings.values import StrictSettings

USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,127}")


class Roles(StrictSettings):
    """Keys of ``idlewatt`` in the web configuration, which is ours and not the toolkit's."""

    admins: tuple[str, ...] = ()
    """Users who see all; every other user sees only own jobs."""
    user_header: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")] | None = None
    """The header in which a proxy names the user."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks from which that header is believed."""

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            ipaddress.ip_network(value)
        return values

    def trusts(self, peer: str | None) -> bool:
        """Tell whether the header of a peer is believed."""
        try:
            address = ipaddress.ip_address((peer or "").partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in ipaddress.ip_network(network) for network in self.trusted_proxies)

    def named(self, peer: str | None, header: str | None) -> str:
        """Return the user that a trusted proxy names; '' where there is none."""
        return header if header and self.trusts(peer) and USER.fullmatch(header) else ""
