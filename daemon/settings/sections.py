"""The sections of the configuration file, all but the sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import field_validator

from .advice import AdviceSettings, CounterfactualSettings
from .costs import CostSettings
from .cycles import Cycles
from .degraded import DegradedSettings
from .flavours import FlavourSettings, distinct
from .notices import NoticesSettings
from .priority import LIVE, own_policy
from .privacy import PrivacySettings
from .recommenders import RecommendersSettings
from .storage import StorageSettings
from .training import TRIAL_S, WARM_UP_S, TrainingSettings
from .values import StrictSettings
from .waste import WasteSettings

FIRST_COME = "fifo+first-fit+easy"
"""What a scheduler is taken to do that tells nothing of itself."""


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
        """Return the heuristic that advises where no agent does; ``leader`` is the one that has earned it, if any."""
        if leader is not None and "@" not in leader:
            return leader
        return self.advice.policy or self.live_incumbent

    @property
    def incumbent(self) -> str:
        """Return what the scheduler itself does, in our words."""
        return self.counterfactual.incumbent or FIRST_COME

    @property
    def live_incumbent(self) -> str:
        """Return what stands for the scheduler itself in live advice and forecasts."""
        return LIVE.get(self.incumbent, self.incumbent)

    @property
    def power_down_s(self) -> float | None:
        """Return after how long the site itself powers an empty node down; None where it does not."""
        after = self.counterfactual.power_down_after
        return None if after == "never" else after

    @property
    def forgets(self) -> str:
        """Return why the history would forget the beginning of a trial; '' where it keeps all that a trial needs."""
        kept_s, needed_s = self.storage.retention.jobs, TRIAL_S + WARM_UP_S
        if kept_s >= needed_s:
            return ""
        return (f"storage.retention.jobs keeps jobs for {kept_s / 86400.0:.3g} days, and a trial needs those of "
                f"{needed_s / 86400.0:.0f}: what it has shown would be forgotten while it lasts, so nobody is trained "
                f"or tried by night; set it to {needed_s / 86400.0:.0f}d or more")

    def with_scheduler_lines(self, lines: Mapping[str, str], power_down_s: float | None = None) -> Self:
        """Return these settings with what the scheduler reports of itself, where nothing is configured.

        Its own lines make the incumbent; ``power_down_s`` is after how long it powers an empty node down, None for
        never or where it does not report it.
        """
        reported = {"incumbent": own_policy(lines), "power_down_after": power_down_s}
        known = {name: value for name, value in reported.items()
                 if value is not None and getattr(self.counterfactual, name) is None}
        return self.model_copy(update={"counterfactual": self.counterfactual.model_copy(update=known)}) if known \
            else self
