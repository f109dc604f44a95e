"""The sections of the configuration file, all but the sources."""

from __future__ import annotations

from pydantic import field_validator

from .advice import AdviceSettings, CounterfactualSettings
from .costs import CostSettings
from .cycles import Cycles
from .degraded import DegradedSettings
from .flavours import FlavourSettings, distinct
from .notices import NoticesSettings
from .privacy import PrivacySettings
from .recommenders import RecommendersSettings
from .storage import StorageSettings
from .training import TrainingSettings
from .values import StrictSettings
from .waste import WasteSettings


class Sections(StrictSettings):
    """Everything that the configuration file says beside its sources, which ``daemon.config.Settings`` adds."""

    cluster: str = ""
    """Name shown to people; Prometheus adds its own label."""
    storage: StorageSettings = StorageSettings()
    cycles: Cycles = Cycles()
    waste: WasteSettings = WasteSettings()
    costs: CostSettings = CostSettings()
    advice: AdviceSettings = AdviceSettings()
    recommenders: RecommendersSettings = RecommendersSettings()
    degraded: DegradedSettings = DegradedSettings()
    notices: NoticesSettings = NoticesSettings()
    privacy: PrivacySettings = PrivacySettings()
    counterfactual: CounterfactualSettings = CounterfactualSettings()
    training: TrainingSettings = TrainingSettings()
    flavours: tuple[FlavourSettings, ...] = ()
    """What users may ask for under a name; without any a job's flavour is its size."""

    @field_validator("flavours")
    @classmethod
    def _names_of_flavours_differ(cls, flavours: tuple[FlavourSettings, ...]) -> tuple[FlavourSettings, ...]:
        return distinct(flavours)

    def advising(self, leader: str | None) -> str:
        """Return the heuristic that advises where no agent does; ``leader`` is who has earned it, if anybody has."""
        if leader is not None and "@" not in leader:
            return leader
        return self.advice.policy or self.counterfactual.incumbent
