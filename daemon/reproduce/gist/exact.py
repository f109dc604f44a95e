"""The exact value of a policy, over all 81 equally likely job sequences and all random choices of the policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ...agents.gist_mdrl.environment import (
    CLOSEST,
    Environment,
    EpisodeOutcome,
    GpuPartition,
    PlacementDecision,
    Reading,
    sequences,
)

DAY_S = 86400.0
FIGURES = ("utilization", "utilization_at_end", "terminal_start_days", "makespan_days")
"""Names of the figures that the paper reports."""
QUEUE = -1
Choice = int
"""A server, or ``QUEUE``."""
Policy = Callable[[PlacementDecision], Mapping[Choice, float]]
"""Returns the probability of each choice in a decision."""


class EpisodeMoment:
    """A moment of an episode: a decision or the end; each following moment is simulated once and cached."""

    __slots__ = ("decision", "_environment", "_children", "outcome")

    def __init__(self, environment: Environment, decision: PlacementDecision | None) -> None:
        self.decision, self._environment = decision, environment
        self.outcome: EpisodeOutcome | None = None if decision else environment.outcome
        self._children: dict[Choice, EpisodeMoment] = {}

    @property
    def choices(self) -> list[Choice]:
        """Return all choices, with or without room; of several empty servers, which are equivalent, only one."""
        assert self.decision is not None
        empty = [server for server, free in enumerate(self.decision.free)
                 if free == self._environment.partition.server]
        return [choice for choice in range(QUEUE, len(self.decision.free)) if choice not in empty[1:]]

    def after(self, choice: Choice) -> EpisodeMoment:
        """Return the moment that follows a choice."""
        if choice not in self._children:
            assert self.decision is not None
            environment = self._environment.fork()
            _, decision = environment.step(action(environment.partition, self.decision.flavor, choice))
            self._children[choice] = EpisodeMoment(environment, decision)
        return self._children[choice]


def action(partition: GpuPartition, flavor: int, choice: Choice) -> int:
    """Return the number of a choice in §5.2 of the paper."""
    servers = partition.servers
    return len(partition.flavors) * servers + flavor if choice == QUEUE else flavor * servers + choice


def drawn(partition: GpuPartition, policy: Policy, random: np.random.Generator) -> Callable[[PlacementDecision], int]:
    """Return a player that draws from a policy: it returns the number of an action for each decision."""
    def act(decision: PlacementDecision) -> int:
        choices, chances = zip(*policy(decision).items(), strict=True)
        return action(partition, decision.flavor, choices[int(random.choice(len(choices), p=chances))])

    return act


def root(partition: GpuPartition, sequence: Sequence[int], reading: Reading = CLOSEST) -> EpisodeMoment:
    """Return the beginning of the episode with these flavours."""
    environment = Environment(partition, reading)
    return EpisodeMoment(environment, environment.reset(sequence))


def roots(partition: GpuPartition, reading: Reading = CLOSEST) -> list[EpisodeMoment]:
    """Return the beginning of every sequence."""
    return [root(partition, sequence, reading) for sequence in sequences(partition)]


def figures(outcome: EpisodeOutcome) -> tuple[float, ...]:
    """Return ``FIGURES`` of an episode."""
    return (outcome.utilization, outcome.utilization_at_end, outcome.terminal_start_s / DAY_S,
            outcome.makespan_s / DAY_S)


def mean_figures(outcomes: Sequence[EpisodeOutcome]) -> dict[str, float]:
    """Return the means of ``FIGURES`` over episodes."""
    return dict(zip(FIGURES, np.mean([figures(outcome) for outcome in outcomes], axis=0).tolist(), strict=True))


def value(nodes: Sequence[EpisodeMoment], policy: Policy) -> dict[str, float]:
    """Return the mean ``FIGURES`` of a policy over all sequences and all its random choices."""
    sums = [0.0] * len(FIGURES)
    for node in nodes:
        for probability, end in ends(node, policy):
            for index, figure in enumerate(figures(end)):
                sums[index] += probability * figure
    return {name: total / len(nodes) for name, total in zip(FIGURES, sums, strict=True)}


def ends(node: EpisodeMoment, policy: Policy, probability: float = 1.0) -> Iterable[tuple[float, EpisodeOutcome]]:
    """Yield every possible outcome of a policy, with its probability."""
    if node.outcome is not None:
        yield probability, node.outcome
        return
    assert node.decision is not None
    for choice, share in policy(node.decision).items():
        yield from ends(node.after(choice), policy, probability * share)


def optimum(nodes: Sequence[EpisodeMoment]) -> float:
    """Return the largest sum of utilisation for a policy that cannot distinguish these episodes until they differ.

    All sequences together give the optimum without foresight; each sequence alone gives the oracle's value.
    """
    by_decision = defaultdict(list)
    for node in nodes:
        by_decision[node.decision].append(node)
    finished = by_decision.pop(None, [])
    ended = sum(node.outcome.utilization for node in finished if node.outcome)
    return ended + sum(max(optimum([node.after(choice) for node in group]) for choice in group[0].choices)
                       for group in by_decision.values())


Table = dict[tuple[object, int], Choice]


def stationary(nodes: Sequence[EpisodeMoment], start: Policy) -> tuple[float, Table]:
    """Return a lower bound of the best policy that sees only the paper's state, (free resources, flavour).

    Coordinate ascent: from ``start``, change one state's choice at a time while that helps.
    """
    table: Table = {}
    best, improved = value(nodes, _followed(table, start))["utilization"], True
    while improved:
        improved = False
        for state in list(table):
            chosen = table[state]
            for choice in range(QUEUE, len(nodes[0].decision.free)) if nodes[0].decision else ():
                table[state] = choice
                worth = value(nodes, _followed(table, start))["utilization"]
                if worth > best + 1e-12:
                    best, chosen, improved = worth, choice, True
            table[state] = chosen
    return best, table


def _followed(table: Table, otherwise: Policy) -> Policy:
    """Return the policy that follows a table and adds its choices in other states to the table."""
    def policy(decision: PlacementDecision) -> Mapping[Choice, float]:
        state = (decision.free, decision.flavor)
        if state not in table:
            table[state] = max(otherwise(decision).items(), key=lambda item: item[1])[0]
        return {table[state]: 1.0}

    return policy
