"""Tell systemd how the service is: the protocol of sd_notify(3), which is one datagram."""

from __future__ import annotations

import os
import socket
import time


def notify(*lines: str) -> bool:
    """Send state lines such as ``READY=1``; return False when no service manager listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto("\n".join(lines).encode(), address)
    return True


def reloading() -> bool:
    """Say that the configuration is being read again; ``READY=1`` ends it."""
    return notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def watchdog_period_s() -> float | None:
    """Return how often ``WATCHDOG=1`` is due (half of what systemd allows), None when it does not watch us."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdigit() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 2e6
