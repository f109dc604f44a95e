"""The energy of jobs, users and nodes with its cost, what it says of a job, and what to do."""

from .book import EnergyBook
from .rows import CauseRow, ChartSeries, EnergyRow, HolderRow, JobReport, JobRow, Note

__all__ = ["CauseRow", "EnergyBook", "EnergyRow", "HolderRow", "JobReport", "JobRow", "Note", "ChartSeries"]
