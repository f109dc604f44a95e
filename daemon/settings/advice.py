"""Which policies advise, and what the energy of that advice is compared with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .values import ApplicationName, Duration, PolicyName, ServingPolicy, StrictSettings


class AdviceSettings(StrictSettings):
    """The active policy, the shadow policies, and the spare nodes."""

    policy: ServingPolicy | None = None
    """Active until another one has earned it, and where an agent abstains: order+placement+backfill. Without one it
    is the site's own order, ``counterfactual.incumbent``: a policy that advises otherwise has shown to be better."""
    objective: str = "wait"
    """What the policy is after, as a label of every recommendation."""
    shadow: tuple[ServingPolicy, ...] = ("fifo+first-fit",)
    """Policies whose advice is recorded beside it for comparison, and shown as such."""
    draws: Annotated[int, Field(ge=0, le=1000)] = 20
    """Futures drawn to tell how much sooner or later a job starts than under the incumbent; 0 tells nothing."""
    spare_nodes: Annotated[int, Field(ge=0)] = 1
    """Empty nodes per partition that are never advised to be powered down: the next job should not wait for a boot."""
    power_down_after: Duration = 1800.0
    """A node is worth powering down when no known job needs it for at least so long; a boot costs minutes and watts."""
    applications: dict[str, ApplicationName] = {"*bert*": "bert", "*yolo*": "yolov3", "*resnet*": "imagenet",
                                                "*deepspeech*": "deepspeech2"}
    """The application whose measured speeds a job follows, by pattern of its name: ImageNet is ResNet-50."""


class CounterfactualSettings(StrictSettings):
    """What the energy of the active policy is compared with."""

    incumbent: PolicyName | None = None
    """What the scheduler itself does, in our words; its simulated energy is compared with what was measured. Without
    one it is what Slurm tells of itself, or ``fifo+first-fit+easy`` where that leaves something open."""
    power_down_after: Duration | Literal["never"] | None = None
    """After so long the site itself powers an empty node down, by which the energy of policies is then compared.
    Without one it is what Slurm tells of itself (``SuspendTime``), or never where that tells of none."""
