"""Why a GPU that a job holds is underused: windows of its units and of its host, rules, and how long which held."""

from .rules import CauseVerdict, HostMeans, Means, judge
from .watch import CauseWatch
from .words import evidence_text, label, remedy, reported_causes

__all__ = ["CauseWatch", "HostMeans", "Means", "CauseVerdict", "evidence_text", "judge", "label", "remedy",
           "reported_causes"]
