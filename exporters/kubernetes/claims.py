"""Devices that are handed out by name (DRA): claims of pods, and the slices of devices that drivers offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from ..text import clean
from .asks import NOTHING, Amount
from .fields import Meta, ObjectPart, Text, some
from .nodes import NodeFacts
from .pods import PodFacts

GPUS = "gpu.nvidia.com"
_MIG = "mig.nvidia.com"
_MOST = 1024
SHARED_CLAIM = "shared-claim"
"""How parts of GPUs are called that a pod has by the claim of another."""
Place = tuple[str, str, str]
"""Driver, pool and device."""


class _Ask(ObjectPart, frozen=True):
    """Devices of one class that are requested; before v1beta2 these stood in the request itself."""

    device_class_name: str = ""
    count: int = 1
    allocation_mode: str = "ExactCount"
    admin_access: bool | None = None
    selectors: list[msgspec.Raw] | None = None


class _Request(_Ask, frozen=True):
    """One line of a claim."""

    exactly: _Ask | None = None
    first_available: list[msgspec.Raw] | None = None


class _Result(ObjectPart, frozen=True):
    """A device that was given."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class _Devices(ObjectPart, frozen=True):
    """What is requested, or was given."""

    requests: list[_Request] | None = None
    results: list[_Result] | None = None


class _Allocation(ObjectPart, frozen=True):
    """What was given to a claim."""

    devices: _Devices = _Devices()


class _ClaimSpec(ObjectPart, frozen=True):
    """What a claim asks for."""

    devices: _Devices = _Devices()


class _ClaimStatus(ObjectPart, frozen=True):
    """How a claim fares."""

    allocation: _Allocation | None = None


class _Claim(ObjectPart, frozen=True):
    """A claim of devices."""

    metadata: Meta = Meta()
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class _Value(ObjectPart, frozen=True):
    """An attribute of a device."""

    string: str = ""


class _Basic(ObjectPart, frozen=True):
    """A device by its attributes."""

    attributes: dict[str, _Value] | None = None


class _Device(_Basic, frozen=True):
    """A device that a driver offers; v1beta1 nests what it is."""

    name: str = ""
    basic: _Basic | None = None


class _Pool(ObjectPart, frozen=True):
    """Of which pool a slice is a part."""

    name: str = ""


class _SliceSpec(ObjectPart, frozen=True):
    """What a driver offers on a node."""

    driver: str = ""
    node_name: str = ""
    pool: _Pool = _Pool()
    devices: list[_Device] | None = None


class _Slice(ObjectPart, frozen=True):
    """A slice of the devices of a driver."""

    metadata: Meta = Meta()
    spec: _SliceSpec = _SliceSpec()


_CLAIM, _SLICE = msgspec.json.Decoder(_Claim), msgspec.json.Decoder(_Slice)


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A claim: what it was given, or what it asks for."""

    key: tuple[str, str]
    """Namespace and name."""
    devices: tuple[Place, ...] = ()
    gpus: int = 0
    """Whole GPUs that are requested."""
    unknown: str = ""
    """What of it cannot be judged."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A GPU, or an instance of one, that a driver offers."""

    place: Place
    node: str
    uuid: str
    instance: bool
    profile: str = ""


def parse_claim(raw: Text) -> ClaimFacts:
    """Return a claim."""
    claim = _CLAIM.decode(raw)
    key = clean(claim.metadata.namespace), clean(claim.metadata.name)
    given = claim.status.allocation
    # Whoever has access as an administrator looks at devices that others hold: a monitor, on every node.
    results = tuple((result.driver, result.pool, result.device) for result in some(given.devices.results)
                    if not result.admin_access) if given else ()
    gpus, unknown = 0, ""
    for request in some(claim.spec.devices.requests):
        ask = request.exactly or request
        if ask.admin_access:
            continue
        if ask.device_class_name == GPUS and ask.allocation_mode == "ExactCount" and not ask.selectors:
            gpus += max(0, min(ask.count, _MOST))
        elif request.first_available or ask.selectors or ask.device_class_name in (GPUS, _MIG):
            unknown = "which devices its claim would take (DRA)"
    return ClaimFacts(key, results, gpus, "" if results else unknown)


def parse_slice(raw: Text) -> tuple[DeviceFacts, ...]:
    """Return the GPUs, and instances of GPUs, of a slice."""
    spec = _SLICE.decode(raw).spec
    if spec.driver != GPUS:
        return ()
    devices = []
    for device in some(spec.devices):
        attributes = device.attributes or (device.basic.attributes if device.basic else None) or {}
        kind, uuid = (attributes.get(name, _Value()).string for name in ("type", "uuid"))
        if kind in ("gpu", "mig"):
            profile = attributes.get("profile", _Value()).string
            devices.append(DeviceFacts((spec.driver, spec.pool.name, device.name), clean(spec.node_name), clean(uuid),
                                       kind == "mig", clean(profile)))
    return tuple(devices)


@dataclass(slots=True)
class Devices:
    """All claims and devices at one moment."""

    claims: Mapping[tuple[str, str], ClaimFacts] = field(default_factory=dict)
    devices: Mapping[Place, DeviceFacts] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Iterable[ClaimFacts], slices: Iterable[tuple[DeviceFacts, ...]]) -> Devices:
        """Return what was listed."""
        return cls({claim.key: claim for claim in claims},
                   {device.place: device for devices in slices for device in devices})

    def equipped(self, nodes: list[NodeFacts]) -> list[NodeFacts]:
        """Return nodes with the GPUs that are handed out by name alone."""
        if not self.devices:
            return nodes
        gpus, named = Counter(device.node for device in self.devices.values() if not device.instance), {
            device.node for device in self.devices.values()}
        return [replace(node, gpus=max(gpus[node.name], node.gpus), by_name=True) if node.name in named else node
                for node in nodes]

    def laid_over(self, pods: Iterable[PodFacts]) -> list[PodFacts]:
        """Return pods with what their claims are, or were given; of pods that share one the first holds its GPUs."""
        known = list(pods)
        holders = _holders(pod for pod in known if pod.claims)
        return [self._with_claims(pod, holders) if pod.claims else pod for pod in known]

    def _with_claims(self, pod: PodFacts, holders: Mapping[tuple[str, str], str]) -> PodFacts:
        amount, uuids, unknown, unknown_devices = NOTHING, list[str](), list[str](), 0
        for name in dict.fromkeys(pod.claims):
            claim = self.claims.get((pod.namespace, name))
            if claim is None:
                unknown.append("a claim of devices that is not there, or not shown (DRA)")
                unknown_devices += 1
                continue
            unknown_devices += bool(claim.unknown)
            unknown += [claim.unknown] if claim.unknown else []
            held = [self.devices[place] for place in claim.devices if place in self.devices]
            lost = sum(place[0] == GPUS and place not in self.devices for place in claim.devices)
            uuids += [device.uuid for device in held if device.uuid]
            slices = [device for device in held if device.instance]
            gpus = len(held) - len(slices) + lost if claim.devices else claim.gpus
            if holders[claim.key] == pod.uid:
                amount += Amount(gpus, len(slices), profile=f"mig-{slices[0].profile}" if slices else "")
            elif gpus or slices:
                amount += Amount(slices=gpus + len(slices), profile=SHARED_CLAIM)
                unknown.append("where the claim lets it run that it shares with other pods (DRA)")
        unknown_facts = tuple(dict.fromkeys((*pod.wish.unknown, *unknown)))
        wish = msgspec.structs.replace(pod.wish, unknown=unknown_facts) if unknown and not pod.node else pod.wish
        return msgspec.structs.replace(pod, amount=pod.amount + amount, devices=tuple(uuids), wish=wish,
                                       unknown_devices=bool(unknown_devices and pod.node))


def _holders(pods: Iterable[PodFacts]) -> dict[tuple[str, str], str]:
    """Return the uid of the pod that counts as the holder of each claim: of those that run the one that began first."""
    holders: dict[tuple[str, str], tuple[tuple[bool, float, str], str]] = {}
    for pod in pods:
        turn = (not pod.holds, pod.created_s, pod.uid)
        for key in [(pod.namespace, name) for name in pod.claims]:
            if key not in holders or turn < holders[key][0]:
                holders[key] = turn, pod.uid
    return {key: uid for key, (_, uid) in holders.items()}
