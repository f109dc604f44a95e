"""A replay to run, and the file of its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .setting import Setting
from .tried import Try

ON, OFF, FORECAST = "all nodes on", "powered down when empty", "powered down by forecast"
EVEN = "powered down at break-even"
"""After an empty time as long as a boot, so that a node draws at most twice the least energy in hindsight."""
AT_ONCE = "powered down and up at once"
"""A bound for every timer and forecast with the same placement: no job waits for a boot, no empty node draws power."""


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """One replay: trace, policy, power option and seed."""

    site: int
    tried: Try
    seed: int
    power: str
    """How empty nodes are powered down, if at all."""
    setting: Setting
    traces: Path
    folder: Path

    @property
    def result(self) -> Path:
        """Return the path of the outcome; a task whose outcome exists is not repeated."""
        terms = f"{self.setting.limit_factor:g}-{self.setting.power_down_s:g}-{self.setting.wake_s:g}"
        name = "".join(letter if letter.isalnum() or letter in "+.-" else "_" for letter in self.tried.name)
        return self.folder / f"{self.site}-{name}-{self.seed}-{self.power.replace(' ', '_')}-{terms}.npz"
