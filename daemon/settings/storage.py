"""Where the history is kept, and for how long."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from .values import Duration, StrictSettings

STATE = Path("/var/lib/idlewatt")
"""The daemon's own folder, as the systemd unit has it made."""


class RetentionSettings(StrictSettings):
    """How long what is recorded is kept; energy sums stay exact when windows are merged."""

    rollups: Duration = 14 * 86400.0
    """Five-minute windows of each GPU, before they become hourly."""
    hourly_rollups: Duration = 400 * 86400.0
    waste: Duration = 35 * 86400.0
    """Five-minute energy by class, before it becomes hourly."""
    hourly_waste: Duration = 5 * 365 * 86400.0
    jobs: Duration = 5 * 365 * 86400.0
    recommendations: Duration = 400 * 86400.0
    speeds: Duration = 400 * 86400.0
    """How fast runs were, for recommendations on scaling."""
    uses: Duration = 400 * 86400.0
    """What runs used of their CPUs and memory, for recommendations on allocation."""
    notices: Duration = 400 * 86400.0
    """Notices and their recipients."""


class StorageSettings(StrictSettings):
    """Where jobs, rollups and recommendations are kept, and for how long."""

    url: str = "sqlite:////var/lib/idlewatt/idlewatt.db"
    """SQLAlchemy URL: SQLite or PostgreSQL."""
    models: Path | None = None
    """Folder of trained models; beside an SQLite database when it is not named."""
    state: Path | None = None
    """Folder in which facts wait while the database is away; beside an SQLite database when it is not named."""
    backlog_bytes: Annotated[int, Field(ge=1 << 20)] = 2 << 30
    """Of the disk, for facts that wait; what comes when they are used up is lost, and counted."""
    retention: RetentionSettings = RetentionSettings()

    @property
    def models_folder(self) -> Path:
        """Return where trained models are."""
        return self.models or (self._file.parent if self._file else STATE) / "models"

    @property
    def spool_folder(self) -> Path:
        """Return where facts wait while the database is away: a folder for each database."""
        if self._file is not None:
            return (self.state or self._file.parent) / f"{self._file.name}.spool"
        state_directory = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
        # Not the URL itself: it may hold a password, which may change.
        place = hashlib.sha256(self.url.rpartition("@")[2].encode()).hexdigest()[:8]
        return (self.state or Path(state_directory or STATE)) / f"{place}.spool"

    @property
    def _file(self) -> Path | None:
        """Return the SQLite file; None for a server."""
        driver, _, path = self.url.rpartition(":///")
        file = path.partition("?")[0] if "://" not in self.url or driver.startswith("sqlite") else ""
        return Path(file) if file else None
