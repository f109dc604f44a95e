"""Why a GPU that a job holds is underused: windows of its units and of its host, rules, and how long which held."""

from .rules import HostMeans, Means, Verdict, judge
from .watch import CauseWatch
from .words import evidence_words, label, remedy, told

__all__ = ["CauseWatch", "HostMeans", "Means", "Verdict", "evidence_words", "judge", "label", "remedy", "told"]
