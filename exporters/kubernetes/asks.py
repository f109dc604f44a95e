"""What pods ask of nodes: amounts, labels and taints."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from ..mig import memory_of, slices_of
from .fields import Amounts, quantity, some
from .objects import Container, PodSpec, Requirement, Taint, Term, Toleration

WHOLE = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "gpu.intel.com/i915")
"""Resources that count GPUs, where no sharing makes more of them than there are."""
_SLICE = re.compile(r"nvidia\.com/(?:mig-([1-7])g\.\S+|gpu\.shared)")
_CUT = re.compile(r"-MIG-(?P<slices>[1-6])g\.(?P<part>[0-9]{1,4})gb")
_OUT = "node.kubernetes.io/"
"""How the taints begin by which the node's own state is shown."""
MOST_TERMS = 20


class Amount(msgspec.Struct, frozen=True, gc=False):
    """What is requested: whole GPUs, parts of GPUs, CPUs (may be broken), bytes."""

    gpus: int = 0
    slices: int = 0
    """MIG instances, and turns on GPUs that are shared."""
    cpus: float = 0.0
    memory_bytes: float = 0.0
    profile: str = ""
    """The resource by which slices are requested."""

    @property
    def any_gpu(self) -> bool:
        """Tell whether it asks for a GPU or a part of one."""
        return self.gpus > 0 or self.slices > 0

    def __add__(self, other: Amount) -> Amount:
        """Return the sum of two amounts."""
        if self is NOTHING or other is NOTHING:
            return other if self is NOTHING else self
        return Amount(self.gpus + other.gpus, self.slices + other.slices, self.cpus + other.cpus,
                      self.memory_bytes + other.memory_bytes, self.profile or other.profile)

    def most(self, other: Amount) -> Amount:
        """Return the larger of two amounts, resource by resource."""
        return Amount(max(self.gpus, other.gpus), max(self.slices, other.slices), max(self.cpus, other.cpus),
                      max(self.memory_bytes, other.memory_bytes), self.profile or other.profile)

    def times(self, count: int) -> Amount:
        """Return the amount that ``count`` equal pods ask for."""
        return Amount(self.gpus * count, self.slices * count, self.cpus * count, self.memory_bytes * count,
                      self.profile)


NOTHING = Amount()


def amount(amounts: Amounts | None) -> Amount:
    """Return amounts by resource in our terms; raise ``ValueError`` for quantities that cannot be."""
    return _amount(tuple(amounts.items())) if amounts else NOTHING


@lru_cache(maxsize=4096)
def _amount(given: tuple[tuple[str, str | int | float], ...]) -> Amount:
    gpus, slices, amounts = 0, dict[str, int](), dict(given)
    for name, value in given:
        if name in WHOLE:
            gpus += math.ceil(quantity(value))
        elif name.startswith("nvidia.com/") and _SLICE.fullmatch(name):
            slices[name] = math.ceil(quantity(value))
    return Amount(gpus, sum(slices.values()), quantity(amounts.get("cpu", 0)), quantity(amounts.get("memory", 0)),
                  next(iter(slices), ""))


def is_slice(resource: str) -> bool:
    """Tell whether a resource is a part of a GPU."""
    return resource.startswith("nvidia.com/") and _SLICE.fullmatch(resource) is not None


def requested(spec: PodSpec) -> Amount:
    """Return what a pod asks of its node; CPUs and memory that it asks for as a whole count before its containers'."""
    by_containers, whole = _requested_by_containers(spec), spec.resources.requests if spec.resources else None
    if not whole:
        return by_containers
    whole_pod, overhead = amount(whole), amount(spec.overhead)
    return msgspec.structs.replace(
        by_containers, cpus=whole_pod.cpus + overhead.cpus if "cpu" in whole else by_containers.cpus,
        memory_bytes=(whole_pod.memory_bytes + overhead.memory_bytes if "memory" in whole
                      else by_containers.memory_bytes))


def _requested_by_containers(spec: PodSpec) -> Amount:
    """Return what containers ask for side by side, and those that prepare the pod one after the other."""
    # Of what cannot be overcommitted, GPUs, the limit is the request, and may stand alone.
    if not spec.init_containers and not spec.overhead and spec.containers and len(spec.containers) == 1:
        return _container(spec.containers[0])
    together, preparing = amount(spec.overhead), NOTHING
    for container in some(spec.init_containers):
        needs = _container(container)
        if container.restart_policy == "Always":
            together += needs  # it goes on beside the others
        else:
            preparing = preparing.most(together + needs)
    for container in some(spec.containers):
        together += _container(container)
    return together if preparing is NOTHING else together.most(preparing)


def image_of(containers: Sequence[Container] | None) -> str:
    """Return the image of the first container that asks for GPUs, else of the first one."""
    given = containers or ()
    if len(given) > 1:
        return next((container.image for container in given if _container(container).any_gpu), given[0].image)
    return given[0].image if given else ""


def _container(container: Container) -> Amount:
    resources = container.resources
    if resources is None:
        return NOTHING
    limits, requests = resources.limits, resources.requests
    return amount({**limits, **requests} if limits and requests and limits != requests else requests or limits)


def instances_per_gpu(product: str) -> int:
    """Return into how many instances, each called a GPU, a GPU is cut by the product that a node is labelled with.

    So many of a profile fit one GPU, by its slices and by its memory; 0 where GPUs are whole.
    """
    match = _CUT.search(product)
    if match is None:
        return 0
    slices, part = int(match["slices"]), int(match["part"])
    whole = product[:match.start()]
    memory, most = memory_of(whole), slices_of(whole)
    return max(1, min(most // slices, round(memory / part) if memory and part else most))


def expression(spec: PodSpec) -> str:
    """Return what a pod asks of the labels of its node, as ``Request.features`` has it; '' for nothing."""
    terms = [f"{key}={value}" for key, value in sorted((spec.node_selector or {}).items())]
    wanted = list(_terms(spec))
    if not all(wanted):  # one of the alternatives asks for more than labels, or for what cannot be expressed
        return "&".join(terms)
    if len(wanted) == 1:
        terms.append(wanted[0])
    elif 1 < len(wanted) <= MOST_TERMS:
        terms.append("(" + "|".join(f"({term})" for term in wanted) + ")")
    return "&".join(terms)


def _terms(spec: PodSpec) -> Iterator[str]:
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    for term in some(required.node_selector_terms) if required else ():
        if term.match_expressions or term.match_fields:  # an empty one matches no node
            yield "&".join(filter(None, map(_requirement, some(term.match_expressions))))


def _requirement(wanted: Requirement) -> str:
    """Return one requirement; what compares numbers cannot be expressed and is left out."""
    values = [f"{wanted.key}={value}" for value in some(wanted.values)][:MOST_TERMS]
    if wanted.operator == "In" and values:
        return values[0] if len(values) == 1 else "(" + "|".join(values) + ")"
    if wanted.operator == "NotIn":
        return "&".join(f"!{value}" for value in values)
    return {"Exists": wanted.key, "DoesNotExist": f"!{wanted.key}"}.get(wanted.operator, "")


def keys_of(spec: PodSpec) -> frozenset[str]:
    """Return the labels of nodes that a pod's wishes are about."""
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    terms: Iterable[Term] = some(required.node_selector_terms) if required else ()
    return frozenset((*(spec.node_selector or {}), *(expression.key for term in terms
                                                     for expression in some(term.match_expressions))))


def features(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, ...]:
    """Return a node's labels of some keys, as ``expression`` asks for them."""
    return tuple(text for key in sorted(keys) if key in labels for text in (key, f"{key}={labels[key]}"))


def repels(taint: Taint) -> bool:
    """Tell whether a taint keeps pods away for what the node is, not for how it fares."""
    return taint.effect in ("NoSchedule", "NoExecute") and not taint.key.startswith(_OUT)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Tell whether a pod may be on a node in spite of a taint."""
    return any((not toleration.key or toleration.key == taint.key) and toleration.effect in ("", taint.effect)
               and (toleration.operator == "Exists" or (toleration.value == taint.value and bool(toleration.key)))
               for toleration in tolerations)
