"""Why a GPU that a job holds is underused: windows of its units and of its host, rules, and how long which held."""

from .rules import CauseVerdict, HostMeans, Means, judge
from .watch import CauseWatch
from .words import evidence_words, label, remedy, told

__all__ = ["CauseWatch", "HostMeans", "Means", "CauseVerdict", "evidence_words", "judge", "label", "remedy", "told"]
