"""What another process has spent so far."""

import os
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """Return the seconds of CPU of a process, its children not counted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
