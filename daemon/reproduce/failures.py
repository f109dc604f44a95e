"""Errors that prevent the reproduction of a result; each message is one line."""

from __future__ import annotations


class ReproductionError(Exception):
    """A result that cannot be reproduced; the message says why and what to do."""


class ZeroProgressError(ReproductionError):
    """A policy under which some job never ends; the message says how many."""


class SettingError(ValueError):
    """A setting that does not exist, or a value that it cannot have."""
