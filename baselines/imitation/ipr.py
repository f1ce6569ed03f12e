"""IPR: iterative step-level process refinement, Xiong et al. 2024 (2406.11176).

    for each step t of an expert's episode, from its state s_t:
        own continuation    the policy acts in s_t and plays to the end of the episode
        V(a)                mean outcome of N continuations by a frozen policy after action a in s_t, computed for the
                            expert's action and for the policy's
        step pair           the two continuations from t on, if V differs by more than tau and the outcomes agree
    for t = 0 also:         a pair of whole episodes, if the expert won and the policy lost

    L = mean over pairs of  -log sigma( beta (sum log pi/pi_ref better - sum log pi/pi_ref worse) )  -  log pi(better)

The policy before the first round is pi_ref and plays the N continuations, which start from snapshots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from agentgym.branching.stack import inside
from agentgym.checks import Count, Range, Size, Weight, fields_checked
from agentgym.rollout import Policy
from agentgym.rollout.groups import Infos, play_groups, playable
from agentgym.rollout.tree import Continuation, SavedSteps, continued
from agentgym.trajectory import Reply, StepTable, Trajectory
from baselines.imitation.cloning import Demonstrator
from baselines.imitation.episodes import own_episodes, relabelled, sampler, task_options, written_replies
from baselines.imitation.method import Round
from baselines.imitation.preferences import Preference
from baselines.imitation.preferring import Preferring
from baselines.records.metrics import Row

# Names of random numbers, see `agentgym.rollout.tree.continued`.
_OWN, _VALUE = 3, 4


@dataclass(frozen=True)
class Shown:
    """A step of an expert's episode: the state before it, the number of the step, and the whole episode."""

    state: Any
    t: int
    episode: Trajectory


@fields_checked
@dataclass(frozen=True)
class IPR(Preferring):
    """Learns to prefer, at each step, the action whose continuations succeed more often.

    Attributes:
        continuations: N, for each of the two actions.
        threshold: tau, a difference between shares of won continuations.
        episodes: expert episodes that a round branches, drawn at random; 0: all.
        span: content of a step pair: "rest", everything from the step on (paper, release), or only the "step".
        hindsight: whether one failed episode of each task is branched too, as a won episode of the task it completed.
    """

    needs_start: ClassVar[bool] = True
    name: str = "ipr"
    rounds: int = 3
    continuations: Size = 5
    threshold: Annotated[float, Range(low=0, below=1)] = 0.5
    episodes: Count = 0
    span: Literal["rest", "step"] = "rest"
    likelihood: Weight = 1.0
    epochs: Size = 3
    hindsight: bool = False

    def learn(self, part: Round) -> Row:
        steps = self._expert_steps(part)
        own = _played(part, part.policy, [_after(step, (_OWN, i), None) for i, step in enumerate(steps)], self)
        differing = [
            (step, way) for step, way in zip(steps, own, strict=True)
            if way is not None and _first(way).token_ids != _first(step.episode, step.t).token_ids
        ]  # fmt: skip
        values = self._values(part, differing)
        judged = (self.pair(*each, *value) for each, value in zip(differing, values, strict=True))
        pairs = [pair for pair in judged if pair is not None]
        stepwise = len(pairs)
        lost = [(step, way) for step, way in zip(steps, own, strict=True) if way is not None and not way.won]
        pairs += [
            Preference(written_replies(step.episode), written_replies(way))
            for step, way in lost
            if step.t == 0 and written_replies(way)
        ]
        return {"branched": float(len(steps)), "step_pairs": float(stepwise), **self.preferred(part, pairs)}

    def pair(self, step: Shown, own: Trajectory, expert_value: float, own_value: float) -> Preference | None:
        """Return the step pair of an expert's step and the policy's continuation from its state, if there is one.

        The policy's continuation is the better side only if it won and is no longer than the expert's.
        """
        shown, way = written_replies(step.episode, step.t), written_replies(own)
        if not way:  # the prompt did not fit
            return None
        if self.span == "step":
            shown, way = shown[:1], way[:1]
        if expert_value - own_value > self.threshold and (self.span == "step" or not own.won):
            return Preference(shown, way)
        if own_value - expert_value > self.threshold and own.won and step.t + len(own.steps) <= len(step.episode.steps):
            return Preference(way, shown)
        return None

    def _expert_steps(self, part: Round) -> list[Shown]:
        rng = np.random.default_rng(part.seed)
        tasks, size = part.setting.tasks, self.episodes or len(part.setting.tasks)
        chosen = [tasks[i] for i in sorted(rng.permutation(len(tasks))[:size].tolist())]
        steps = shown_steps(part, Demonstrator(part.policy), chosen)
        if self.hindsight:
            done = relabelled(part, own_episodes(part, samples=1, temperature=self.temperature, tasks=chosen))
            if len(done):
                steps += shown_steps(part, _Repeated(done), task_options(done))
        return steps

    def _values(self, part: Round, compared: Sequence[tuple[Shown, Trajectory]]) -> list[tuple[float, float]]:
        plan = [
            _after(step, (_VALUE, 2 * i + which, k), reply)
            for i, (step, own) in enumerate(compared)
            for which, reply in enumerate((_first(step.episode, step.t), _first(own)))
            for k in range(self.continuations)
        ]
        ways = _played(part, part.policy.with_model(part.start.model), plan, self)
        won = np.array([np.nan if way is None else float(way.won) for way in ways]).reshape(-1, 2, self.continuations)
        # Continuations that could not be scored are left out of the mean.
        known = np.maximum((~np.isnan(won)).sum(2), 1)
        return [(float(expert), float(own)) for expert, own in (np.nansum(won, axis=2) / known).tolist()]


class _Repeated:
    def __init__(self, table: StepTable) -> None:
        self._replies = {str(one.group): iter(written_replies(one)) for one in reversed(table.to_trajectories())}

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        return [next(self._replies[str(task)]) for task in infos["task_id"]]


def shown_steps(part: Round, player: Policy, tasks: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """Play tasks once and return every step of the episodes that were won, with the state before it.

    Raises:
        ValueError: none was won.
    """
    envs = playable(part.setting.envs)
    stack = inside(envs, envs)
    kept = SavedSteps(stack)
    play_groups(stack, player, kept.builder, tasks=tasks, group_size=1, seed=part.setting.seed, before_step=kept.save)
    episodes: list[Any] = [one for one in kept.builder.table().to_trajectories() if one.won]
    if not episodes:
        raise ValueError(f"none of the {len(tasks)} episodes to branch was won: are the tasks solvable?")
    return [Shown(kept.saved[one.trajectory, t], t, one) for one in episodes for t in range(len(one.steps))]


def _first(trajectory: Trajectory, t: int = 0) -> Reply:
    reply = trajectory.steps[t].reply
    return Reply("") if reply is None else reply


def _after(step: Shown, name: tuple[int, ...], reply: Reply | None) -> Continuation:
    return Continuation(step.state, step.episode.group, None, name, name, reply)


def _played(part: Round, policy: Any, plan: Sequence[Continuation], method: IPR) -> list[Trajectory | None]:
    """Play continuations, and return each one's episode from there on; None where it could not be scored."""
    if not plan:
        return []
    numbered = [each._replace(group=i) for i, each in enumerate(plan)]
    table = continued(
        part.setting.envs, sampler(policy, method.temperature), numbered, seed=part.seed,
        progress=lambda done: part.progress(done, len(plan), "continuations"),
    )  # fmt: skip
    found: dict[Any, Trajectory] = {one.group: one for one in table.to_trajectories()}
    return [found.get(i) for i in range(len(plan))]
