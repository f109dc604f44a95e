"""From a user's name to an address: by a template, or by a command of the site's own such as ``ldapsearch``.

A name is hostile until it is shown to be a name: anything else has no address, rather than one that somebody made up.
"""

from __future__ import annotations

import re

from ..settings.notices import AddressSettings
from .programs import run

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
"""Users that a template or command is given; LDAP filters, headers and options are made of other characters."""
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")


class NoAddress(Exception):
    """There is none, and asking again would not help; the message says why."""


def address_of(user: str, settings: AddressSettings) -> str:
    """Return the address of a user; NoAddress when there is none, ProgramError when the lookup fails now."""
    if not NAME.fullmatch(user):
        raise NoAddress("its user's name is no name that an address can be made of")
    if settings.template:
        return _checked(settings.template.replace("{user}", user))
    if not settings.command:
        raise NoAddress("neither addresses.template nor addresses.command is set")
    output = run([part.replace("{user}", user) for part in settings.command], "", settings.timeout)
    address = next((word for word in output.split() if "@" in word), "")
    if not address:
        raise NoAddress(f"{settings.command[0]} knows no address")
    return _checked(address)


def _checked(address: str) -> str:
    if not ADDRESS.fullmatch(address) or len(address) > 254:
        raise NoAddress("the result is no address")
    return address
