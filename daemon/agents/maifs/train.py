"""Training of MAIFS on a site: imitation of Synergy-tune, then an actor and a critic over the coordination graph.

The actor's joint policy is a Markov random field whose potentials are the agents' utilities and the payoffs on the
edges. Its likelihood is approximated by the product of each agent's probability given the others (pseudo-likelihood,
Besag 1975); exploration takes the joint actions that max-plus finds with Gumbel noise on the utilities (perturb and
MAP). The advantage of an action compares its replay with others of the same episode, less the critic's value. An
evolution strategy improves a second copy of the weights, including the order of the queue; validation on later history
keeps the better one. The only file of this agent that imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from ...replay.arrays import Floats, Longs
from ..adam import Adam
from ..episodes import Episode
from ..kinds import Progress, TraceWindow, TrainingConfig, TrainingError
from ..observation import grants_known
from ..training_loop import LearnerSpec, LearningMethod, Training, TrainingEnvironment, bounds
from ..training_loop import train as learn
from .agent import Maifs, load, save, schema
from .graph import CONFLICT, adjacency
from .levels import LEVELS
from .network import ACTION_INPUTS, NODE_INPUTS, NOMINATED, OF_JOB, SHAPES, SIZE, TASKS, forward, initial, unpacked
from .scheduling_round import Decide, Joint
from .teachers import ORDERS, TEACHERS

if TYPE_CHECKING:
    from ...replay.engine import Run

Tensors = Mapping[str, torch.Tensor]

AGENTS, ACTIONS = TASKS * NOMINATED, TASKS * len(LEVELS)
"""The most of each in a joint decision."""
RULE_EPISODES, IMITATED_CHOICES, IMITATION_STEPS = 4, 800, 150
"""Episodes on which teachers are tried, the most joint decisions that are imitated, and the steps of imitation."""
TOGETHER, REPLAYS, BATCH = 2, 3, 600
"""Episodes in a step, replays of each with noise, and the most joint decisions of a gradient."""
EPOCHS, CLIP, STEP, ENTROPY, EXPECTED = 3, 0.2, (0.004, 0.001), 0.003, 0.5
"""Gradients of a step, the bound on the change of a joint action's odds, the step size, first and last; weights of the
entropy in nats and of the critic's error."""
PAIRS, EVOLUTION_EPISODES, NOISE, EVOLUTION_STEP = 2, 2, 0.05, 0.02
"""The parameters of the evolution strategy: antithetic pairs, episodes on which all are tried, noise and step size."""
ACTOR, EVOLUTION = "actor_critic", "evolution"


@dataclass
class GrantRecorder:
    """Decides in place of an agent's network, and records the decisions and their times."""

    decide: Decide
    most: float = math.inf
    times: list[float] = field(default_factory=list)
    made: list[tuple[Joint, Longs]] = field(default_factory=list)

    def __call__(self, joint: Joint) -> Longs:
        """Decide."""
        actions = self.decide(joint)
        if len(self.made) < self.most:
            self.times.append(joint.now)
            self.made.append((joint, actions))
        return actions


class PerturbedDecisions:
    """Decides as an agent does, with noise on its utilities."""

    def __init__(self, agent: Maifs, random: np.random.Generator) -> None:
        self._agent, self._random = agent, random

    def __call__(self, joint: Joint) -> Longs:
        """Decide."""
        return self._agent.joint_action(joint, self._random.gumbel(size=(len(joint.able), 1 + joint.able.shape[1])))


def unmeasured(window: TraceWindow) -> str | None:
    """Return why nothing can be learned from a trace window: speeds by CPUs and memory are unknown; else None."""
    work = window.workload
    if grants_known(window.speeds.fungible, work.application[work.gpus > 0].astype(np.int64)).any():
        return None
    return ("the speed of no group of jobs by CPUs or memory is known, which is what maifs decides on; it needs runs "
            "whose use of CPUs and memory was watched, or speeds by CPUs")


SPEC = LearnerSpec("maifs", schema(), ACTION_INPUTS[:OF_JOB], Maifs, save, unmeasured)


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Train and yield progress; ``TrainingError`` where nothing can be learned."""
    torch.set_num_threads(1)  # the network is too small for a second one, and one adds in one order
    start = None if config.start is None else load(config.start).weights
    return learn(SPEC, config, LearningMethod(partial(_initialise, start), _step, _candidates))


def _candidates(training: Training) -> dict[str, Floats]:
    return {ACTOR: training.weights, EVOLUTION: training.extra[EVOLUTION]}


def _agent(environment: TrainingEnvironment, weights: Floats, decide: Decide | None = None) -> Maifs:
    return Maifs(weights, environment.card, environment.config.objective.longest_wait_s, decide)


def _recorded(environment: TrainingEnvironment, episode: Episode, weights: Floats, decide: Decide,
              most: float = math.inf) -> tuple[GrantRecorder, Run]:
    recorder = GrantRecorder(decide, most)
    return recorder, episode.window.replayed(_agent(environment, weights, recorder))


def _initialise(start: Floats | None, training: Training, environment: TrainingEnvironment) -> None:
    """Begin with weights that imitate the best teacher, or with those of a model that does better."""
    episodes = [environment.episode(number) for number in range(RULE_EPISODES)]
    order, teacher, made = _best_teacher(environment, episodes)
    training.rule = f"{order}, {teacher}"
    if not made:
        raise TrainingError("there is never a choice between two nodes or levels; a heuristic serves as well")
    fresh = initial(np.random.default_rng(training.config.seed))
    fresh[:len(ORDERS[order])] = ORDERS[order]  # the first of the weights
    batch = _batch(made)
    learned = _imitated(fresh, batch, training.config.seed)
    training.agreement = _agreement(learned, batch)
    training.bounds = bounds(np.concatenate([joint.actions[joint.able][:, :OF_JOB] for joint, _ in made]))
    if start is not None and environment.worth(start) < environment.worth(learned):
        learned = start.copy()
    training.weights, training.adam = learned, Adam.of(SIZE)
    training.extra = {EVOLUTION: learned.copy(), "momentum": np.zeros(SIZE)}


def _best_teacher(environment: TrainingEnvironment,
                  episodes: Sequence[Episode]) -> tuple[str, str, list[tuple[Joint, Longs]]]:
    """Return the best order of the queue, the best teacher with it, and their joint decisions."""
    def tried(order: str, teacher: str) -> tuple[float, list[tuple[Joint, Longs]]]:
        weights = np.concatenate([ORDERS[order], np.zeros(SIZE - len(ORDERS[order]))])
        trials = [(episode, *_recorded(environment, episode, weights, TEACHERS[teacher],
                                         IMITATED_CHOICES // RULE_EPISODES))
                  for episode in episodes]
        return (sum(episode.cost(done) for episode, _, done in trials),
                [choice for _, recorder, _ in trials for choice in recorder.made])

    first = next(iter(TEACHERS))
    trials = {(order, first): tried(order, first) for order in ORDERS}
    order = min(trials, key=lambda combination: trials[combination][0])[0]
    trials |= {(order, teacher): tried(order, teacher) for teacher in TEACHERS if teacher != first}
    best = min(trials, key=lambda combination: (trials[combination][0], combination))
    return *best, trials[best][1]


def _batch(made: Sequence[tuple[Joint, Longs]]) -> Tensors:
    """Return joint decisions as tensors, [decision, agent, ...], with padding."""
    count = len(made)
    node_inputs, able = np.zeros((count, AGENTS, len(NODE_INPUTS))), np.zeros((count, AGENTS, ACTIONS), bool)
    actions = np.zeros((count, AGENTS, ACTIONS, len(ACTION_INPUTS)), np.float32)
    chosen, present = np.zeros((count, AGENTS), np.int64), np.zeros((count, AGENTS))
    for row, (joint, action) in enumerate(made):
        agents, wide = joint.able.shape
        node_inputs[row, :agents], able[row, :agents, :wide] = joint.node_inputs, joint.able
        actions[row, :agents, :wide], chosen[row, :agents] = joint.actions, action
        present[row, :agents] = 1.0
    arrays: dict[str, NDArray[np.generic]] = {
        "node_inputs": node_inputs, "actions": actions, "able": able, "chosen": chosen, "present": present}
    return {name: torch.from_numpy(array).float() if array.dtype.kind == "f" else torch.from_numpy(array)
            for name, array in arrays.items()}


_JOB = torch.cat([torch.tensor([-1]), torch.arange(ACTIONS) // len(LEVELS)])
"""Which job each action takes."""
_RIVALS = ((_JOB[:, None] == _JOB) & (_JOB >= 0)).float()


def _conditionals(flat: torch.Tensor, batch: Tensors, edges: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-odds of each agent's actions given the others', [decision, agent, action], and values."""
    parts = unpacked(flat)
    refuse, accept, refusing, factors, _, context = forward(parts, batch["node_inputs"], batch["actions"],
                                                            batch["present"])
    utility = torch.cat([refuse[..., None], accept.masked_fill(~batch["able"], -1e9)], -1)
    every = torch.cat([refusing[..., None, :], factors], -2)
    rank = every.shape[-1]
    chosen = torch.take_along_dim(every, batch["chosen"][..., None, None].expand(*batch["chosen"].shape, 1, rank),
                                  -2)[..., 0, :]
    payoff = torch.einsum("bnar,bnr->bna", every, edges @ chosen)
    clash = CONFLICT * (edges @ _RIVALS[batch["chosen"]])
    value = ((context * batch["present"][..., None]).sum(-2) / batch["present"].sum(-1)[..., None]) @ parts["critic"]
    return torch.log_softmax(utility + payoff - clash, -1), value + parts["critic_bias"]


def _edges(flat: torch.Tensor, batch: Tensors) -> torch.Tensor:
    """Return the edges of each decision's graph by the present attention, without a gradient."""
    with torch.no_grad():
        attention = forward(unpacked(flat), batch["node_inputs"], batch["actions"], batch["present"])[4].numpy()
    graphs = np.stack([adjacency(scores.astype(np.float64), able) for scores, able in
                       zip(attention, batch["able"].numpy(), strict=True)])
    return torch.from_numpy(graphs).float()


def _likelihood(odds: torch.Tensor, batch: Tensors) -> torch.Tensor:
    """Return the log pseudo-likelihood of the joint actions, [decision]."""
    taken = torch.take_along_dim(odds, batch["chosen"][..., None], -1)[..., 0]
    return (taken * batch["present"]).sum(-1)


def _imitated(weights: Floats, batch: Tensors, seed: int) -> Floats:
    """Return weights that imitate the decisions."""
    flat, random = torch.from_numpy(weights).float().requires_grad_(), np.random.default_rng([seed, 7])
    optimiser = torch.optim.Adam([flat], lr=0.02)
    edges = _edges(flat, batch)
    for _ in range(IMITATION_STEPS):
        some = torch.from_numpy(random.permutation(len(edges))[:200])
        part = {name: column[some] for name, column in batch.items()}
        odds, _ = _conditionals(flat, part, edges[some])
        loss = -_likelihood(odds, part).mean() + 3e-4 * (flat**2).sum()
        flat.grad, = torch.autograd.grad(loss, flat)
        flat.grad[:SHAPES["order"][0]] = 0.0
        optimiser.step()
    return np.asarray(flat.detach().numpy(), np.float64)


def _agreement(weights: Floats, batch: Tensors) -> float:
    """Return the share of taken actions that the weights choose, given the other agents' actions."""
    flat = torch.from_numpy(weights).float()
    with torch.no_grad():
        odds, _ = _conditionals(flat, batch, _edges(flat, batch))
    took = batch["chosen"] > 0
    return float((odds.argmax(-1) == batch["chosen"])[took].float().mean())


def _step(training: Training, environment: TrainingEnvironment) -> None:
    """Take one step of the actor and its critic, and one of the evolution strategy."""
    _actor_critic_step(training, environment)
    _evolution_step(training, environment)
    training.steps += 1


def _actor_critic_step(training: Training, environment: TrainingEnvironment) -> None:
    """Explore joint actions on some episodes, and raise the odds of those that beat the critic's values."""
    made, worth = list[tuple[Joint, Longs]](), list[Floats]()
    agent = _agent(environment, training.weights)
    for slot in range(TOGETHER):
        episode = environment.episode(TOGETHER * training.steps + slot)
        trials = [_recorded(environment, episode, training.weights, PerturbedDecisions(agent, np.random.default_rng(
            [training.config.seed, training.steps, slot, replay]))) for replay in range(REPLAYS)]
        for index, (recorder, done) in enumerate(trials):
            times = np.array(recorder.times)
            others = [episode.later(other, times) for _, other in trials[:index] + trials[index + 1:]]
            made += recorder.made
            worth.append(np.mean(others, axis=0) - episode.later(done, times))
    if made:
        gained = np.concatenate(worth)
        training.weights = _improved(training, made, gained / max(1e-12, float(gained.std())))


def _improved(training: Training, made: Sequence[tuple[Joint, Longs]], gained: Floats) -> Floats:
    """Return weights that raise the odds of better joint actions, within bounds."""
    some = np.random.default_rng([training.config.seed, training.steps, 11]).permutation(len(made))[:BATCH]
    batch, worth = _batch([made[row] for row in some.tolist()]), torch.from_numpy(gained[some]).float()
    weights, size = training.weights, STEP[0] + (STEP[1] - STEP[0]) * training.done
    flat = torch.from_numpy(weights).float()
    edges = _edges(flat, batch)
    with torch.no_grad():
        before = _likelihood(_conditionals(flat, batch, edges)[0], batch)
    for _ in range(EPOCHS):
        flat = torch.from_numpy(weights).float().requires_grad_()
        odds, value = _conditionals(flat, batch, edges)
        ratio, better = (_likelihood(odds, batch) - before).clamp(-2.0, 2.0).exp(), worth - value.detach()
        gain = torch.minimum(ratio * better, ratio.clamp(1 - CLIP, 1 + CLIP) * better)
        doubt = -((odds.exp() * odds.clamp(min=-30.0)).sum(-1) * batch["present"]).sum(-1)
        loss = (-gain - ENTROPY * doubt + EXPECTED * (worth - value) ** 2).mean()
        gradient = np.asarray(torch.autograd.grad(loss, flat)[0].numpy(), np.float64)
        gradient[:SHAPES["order"][0]] = 0.0  # which job goes first is learned by the evolution strategy alone
        if not np.isfinite(gradient).all():
            raise TrainingError(f"the objective is no number after {training.steps} steps; what was kept before stays")
        weights = weights - size * training.adam.direction(gradient)
    return weights


def _evolution_step(training: Training, environment: TrainingEnvironment) -> None:
    """Take one step of an evolution strategy, every candidate on the same episodes."""
    random = np.random.default_rng([training.config.seed, training.steps, 13])
    episodes = [environment.episode(EVOLUTION_EPISODES * training.steps + slot) for slot in range(EVOLUTION_EPISODES)]
    weights, momentum = training.extra[EVOLUTION], training.extra["momentum"]

    def cost(candidate: Floats) -> float:
        agent = _agent(environment, candidate)
        return float(np.mean([episode.cost(episode.window.replayed(agent)) for episode in episodes]))

    rising = np.zeros(SIZE)
    for noise in random.standard_normal((PAIRS, SIZE)):
        difference = cost(weights + NOISE * noise) - cost(weights - NOISE * noise)
        rising += difference * noise
    length = float(np.sqrt(np.mean(rising**2)))
    momentum = 0.8 * momentum + 0.2 * (rising / length if length > 0 else rising)
    training.extra = {EVOLUTION: weights - EVOLUTION_STEP * (1.0 - training.done) * momentum, "momentum": momentum}
