"""What metrics say of people."""

from __future__ import annotations

from pathlib import Path

from .values import StrictSettings


class PrivacySettings(StrictSettings):
    """Names in metrics, which Prometheus keeps for long and shows to many."""

    pseudonym_key_file: Path | None = None
    """File with a secret of 16 bytes at least: users are then called by a keyed hash in metrics, and nowhere else."""
