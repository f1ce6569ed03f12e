"""Rollouts without lock-step: each vector environment is a lane that waits for its own replies only.

Episodes and seeds of the lanes are fixed before the start, so the table does not depend on the order of replies.
"""

import contextlib
import dataclasses
import warnings
from collections import deque
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.rollout import groups
from agentgym.rollout.recorder import TableBuilder, none_scored
from agentgym.trajectory import Reply, StepTable, Trajectory

Vector = gym.vector.VectorEnv[Any, Any, Any]
_T = TypeVar("_T")
#: Kinds of policies for which a warning was given: one each.
_in_turn: WeakSet[type] = WeakSet()


class ReplyQueue(Protocol):
    """Pending requests to a policy, returned by its method `reply_queue()`.

    A reply must depend only on its observation, infos and generator, not on other requests or timing.
    """

    def put(
        self,
        names: Sequence[int],
        observations: Sequence[Any],
        infos: groups.Infos,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        """Request replies without waiting; `names` identify the n requests, each with its own generator."""

    def get(self) -> list[tuple[int, Reply | Exception]]:
        """Wait for at least one answer and return names with replies or exceptions; raising ends the rollout."""

    def close(self) -> None:
        """Cancel pending requests."""


def reply_queue(policy: groups.Policy) -> ReplyQueue | None:
    """Return a new queue of a policy, or None if it has none (then `InTurn` serves)."""
    if not groups.defines(policy, "reply_queue", {"act", "act_each"}):
        return None
    made: ReplyQueue | None = policy.reply_queue()  # type: ignore[attr-defined]
    return made


def answers_of(queue: Any, found: Sequence[tuple[int, _T]], waiting: Collection[int]) -> Sequence[tuple[int, _T]]:
    """Return the answer of a queue's `get` after checking it.

    `waiting` holds the names of pending requests. TypeError for no pairs, ValueError for none or wrong names.
    """
    kind = type(queue).__name__
    pairs = isinstance(found, (list, tuple)) and all(isinstance(one, (tuple, list)) and len(one) == 2 for one in found)
    if not pairs:
        raise TypeError(
            f"{kind}.get must return a list of pairs (name, reply), where a reply that failed is an exception, got "
            f"{found!r:.200}"
        )
    known = [str(name) for name, _ in zip(waiting, range(8), strict=False)]
    few = ", ".join(known) + (", ..." if len(waiting) > len(known) else "")
    if not found:
        raise ValueError(
            f"{kind}.get returned nothing while {len(waiting)} requests are pending ({few}): it must wait "
            "for at least one answer, or return an exception for each request that gets none"
        )
    names = [name for name, _ in found]
    unknown = [name for name in names if name not in waiting]
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if unknown or twice:
        wrong = f"{unknown[0]!r}, which is not pending" if unknown else f"{twice[0]!r} twice"
        raise ValueError(f"{kind}.get answered {wrong}: each name given to `put` is answered once; pending are {few}")
    return found


class InTurn:
    """The queue of a policy without one: each `get` answers one `put`, in order, by `act_each`."""

    def __init__(self, policy: groups.Policy) -> None:
        self._policy = policy
        self._asked: deque[tuple[Any, ...]] = deque()

    def put(self, *asked: Any) -> None:
        self._asked.append(asked)

    def get(self) -> list[tuple[int, Reply | Exception]]:
        names, *shown = self._asked.popleft()
        try:
            replies = groups.act_each(self._policy, *shown)
        except Exception as error:
            return [(name, error) for name in names]
        return list(zip(names, groups.one_each(self._policy, replies, len(names)), strict=True))

    def close(self) -> None:
        self._asked.clear()


@dataclasses.dataclass(frozen=True)
class Played:
    """A finished episode: its task id, and the trajectory or why it has no score."""

    task: str
    outcome: Trajectory | str


class LaneError(RuntimeError):
    """Some lanes failed; `failures` are their exceptions by lane, `finished` the episodes of all others by number.

    `collect_lanes(..., finished=error.finished)` plays the rest.
    """

    def __init__(
        self, failures: Mapping[int, Exception], finished: MutableMapping[int, Played], asked: str, lanes: int
    ) -> None:
        self.failures, self.finished = dict(failures), finished
        number, error = next(iter(sorted(self.failures.items())))
        numbers = ", ".join(map(str, sorted(self.failures)))
        super().__init__(
            f"{len(failures)} of {lanes} lanes failed ({numbers}); lane {number}, {asked}: {type(error).__name__}: "
            f"{error}. The {len(finished)} finished episodes are kept: pass finished=error.finished to resume"
        )


def collect_lanes(
    lanes: Sequence[gym.Env[Any, Any] | Vector],
    policy: groups.Policy,
    *,
    tasks: Sequence[Mapping[str, Any]],
    group_size: int = 1,
    seed: int,
    luck: groups.Luck = "episode",
    progress: Callable[[int], None] | None = None,
    finished: MutableMapping[int, Played] | None = None,
    likeness: bool = True,
) -> StepTable:
    """Play every task `group_size` times, as `agentgym.rollout.collect` does, with independent lanes.

    With one lane it equals `collect`. With more, the table depends on the environments' arguments, the policy, the
    tasks, `group_size` and `seed`, not on number, sizes or speed of the lanes, if each reply depends on its own
    observation and random numbers only: exactly so for scripted policies and the decode loop, up to rounding for
    batched models, see docs/samplers.md for servers. It differs from the table of `collect`, whose replies share a
    generator.

    Args:
        lanes: distinct, equally made vector environments with autoreset `DISABLED`; their places get episodes in turn.
        policy: one with `reply_queue()` returns replies as they finish; others are asked lane by lane, with a warning.
        tasks, group_size, seed, luck: see `collect`.
        progress: called with the number of finished episodes after each step of a lane.
        finished: already played episodes of this call, by number; it gets the new ones: pass it again to resume.
        likeness: warn of a policy that takes the same actions in all episodes of a group, as `collect` does.

    Raises:
        LaneError: an environment failed, or the policy had no reply for it; the other lanes have finished.
        TypeError: an answer of the policy is no reply.
        ValueError: as `collect`; or an environment is used twice, or one lane is to resume.
    """
    envs = [groups.playable(each) for each in lanes]
    if not envs or len({id(each) for each in envs}) < len(envs):
        raise ValueError(f"expected at least one lane, each another environment, got {len(envs)}: {lanes!r:.200}")
    if len(envs) == 1:
        if finished:
            raise ValueError("a single lane is `collect`, which cannot resume after a failure: use at least two lanes")
        return groups.collect(
            lanes[0], policy, tasks=tasks, group_size=group_size, seed=seed, luck=luck, progress=progress
        )
    finished = {} if finished is None else finished
    episodes = _Episodes(tasks, group_size, seed, luck, finished)
    queue = reply_queue(policy)
    if queue is None:
        queue = InTurn(policy)
        if type(policy) not in _in_turn:
            _in_turn.add(type(policy))
            warnings.warn(
                f"{type(policy).__name__} has no reply_queue(): lanes are asked one after the other, which takes as "
                "long as all of their replies together",
                RuntimeWarning,
                stacklevel=2,
            )
    with contextlib.closing(queue):
        played = _Lanes(envs, policy, queue, episodes, progress)
        played.run()
    written = [lane.stage for lane in played.lanes if lane.stage.written]
    if written and not finished.keys() - episodes.new and not any(stage.accepted for stage in written):
        groups.warn_of_refusals(written[0], len(finished), played.last, stacklevel=3)
    if played.failures:
        lane = played.lanes[min(played.failures)]
        raise LaneError(played.failures, finished, lane.at, len(envs)) from played.failures[lane.number]
    table = episodes.table()
    if likeness:
        groups.warn_of_likeness(table, lanes[0], policy)
    return table


class _Episodes(groups.Episodes):
    def __init__(
        self,
        tasks: Sequence[Mapping[str, Any]],
        group_size: int,
        seed: int,
        luck: groups.Luck,
        finished: MutableMapping[int, Played],
    ) -> None:
        super().__init__(tasks, group_size, seed, luck)
        self.finished = finished
        if unknown := sorted(number for number in finished if not 0 <= number < self.count):
            raise ValueError(f"`finished` belongs to another call: episodes {unknown[:5]}, here there are {self.count}")
        self.new = set(range(self.count)) - finished.keys()
        # The generator of `collect` is the parent of these.
        self.rngs = list(map(np.random.default_rng, self.draws.spawn(self.count)))
        for number, played in finished.items():
            self.begun(number, played.task)

    def table(self) -> StepTable:
        labels: dict[int, str] = {}
        groups.label_groups(labels, self.names)
        outcomes = [(number, self.finished[number].outcome) for number in range(self.count)]
        unscored = [outcome for _, outcome in outcomes if isinstance(outcome, str)]
        if len(unscored) == self.count:
            raise none_scored(unscored)
        groups.warn_of_unscored(unscored, self.count)
        return StepTable.from_trajectories(
            dataclasses.replace(outcome, group=labels[number // self.group_size], trajectory=number)
            for number, outcome in outcomes
            if not isinstance(outcome, str)
        )


class _Lane:
    """One vector environment and its waves of episodes."""

    def __init__(self, number: int, envs: Vector, policy: groups.Policy, waves: list[list[int]]) -> None:
        self.number, self.waves = number, waves
        self.builder = TableBuilder(envs.num_envs, envs.metadata["autoreset_mode"])
        self.stage = groups.Stage(envs, self.builder, policy, self._given)
        self.wave: list[int] = []
        """The running episodes, one per place."""
        self.owed: set[int] = set()
        """Episodes of the wave that wait for a reply."""
        self._replies: dict[int, Reply] = {}
        self._first = 0  # builder's number of the wave's first episode

    @property
    def at(self) -> str:
        return f"{self.stage.envs} with episode{'s' * (len(self.wave) > 1)} {', '.join(map(str, self.wave))}"

    def _given(self, observations: Any, infos: Any, playing: NDArray[np.int64]) -> list[Reply]:
        return [self._replies.pop(self.wave[i]) for i in playing]

    def begin(self, episodes: _Episodes) -> list[str]:
        self.wave, self._first = self.waves.pop(0), self.builder.started
        ids = self.stage.begin(self.wave, episodes)
        self.builder.reset(self.stage.infos, self.stage.active.copy(), ids)
        return ids

    def ask(self, queue: ReplyQueue, episodes: _Episodes) -> None:
        stage, playing = self.stage, np.flatnonzero(self.stage.active)
        names = [self.wave[i] for i in playing]
        self.owed = set(names)
        queue.put(
            names,
            groups.observations_of(stage.observations, playing),
            groups.infos_of(stage.infos, playing),
            [episodes.rngs[number] for number in names],
        )

    def take(self, number: int, reply: Reply) -> bool:
        """Keep a reply; return whether the step is complete."""
        self._replies[number] = reply
        self.owed.discard(number)
        return not self.owed

    def step(self, episodes: _Episodes) -> None:
        self.stage.step()
        for number, outcome in self.builder.ended().items():
            episode = self.wave[number - self._first]
            episodes.finished[episode] = Played(episodes.names[episode // episodes.group_size], outcome)
        self.builder.clear()


class _Lanes:
    """Runs all lanes; a failed lane is stopped, with its pending requests."""

    def __init__(
        self,
        envs: Sequence[Vector],
        policy: groups.Policy,
        queue: ReplyQueue,
        episodes: _Episodes,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.queue, self.episodes, self.progress = queue, episodes, progress
        waves: list[list[list[int]]] = [[] for _ in envs]
        left = sorted(episodes.new)
        while left:
            for own, each in zip(waves, envs, strict=True):
                part, left = left[: each.num_envs], left[each.num_envs :]
                own += [part] if part else []
        self.lanes = [_Lane(i, each, policy, own) for i, (each, own) in enumerate(zip(envs, waves, strict=True))]
        self.failures: dict[int, Exception] = {}
        self.last = ""
        """The last reply that was played."""
        self._waiting: dict[int, _Lane] = {}  # lanes by pending episode

    def run(self) -> None:
        for lane in self.lanes:
            self._advance(lane)
        while self._waiting:
            for number, answer in answers_of(self.queue, self.queue.get(), self._waiting):
                lane = self._waiting.pop(number)
                if lane.number in self.failures:
                    continue
                if isinstance(answer, Exception):
                    self.failures[lane.number] = answer
                elif not isinstance(answer, Reply):
                    raise groups.no_reply(lane.stage.policy, answer)
                elif lane.take(number, answer):
                    self.last = answer.text
                    self._advance(lane)

    def _advance(self, lane: _Lane) -> None:
        """Step a lane, and begin its next wave, until it waits for replies or is finished."""
        ids: list[str] = []
        try:
            if lane.stage.active.any():
                lane.step(self.episodes)
            if lane.waves and not lane.stage.active.any():
                ids = lane.begin(self.episodes)
        except Exception as error:
            self.failures[lane.number] = error
            return
        for number, task in zip(lane.wave, ids, strict=False):
            self.episodes.begun(number, task)
        if self.progress is not None:
            self.progress(len(self.episodes.finished))
        if lane.stage.active.any():
            lane.ask(self.queue, self.episodes)
            self._waiting |= dict.fromkeys(lane.owed, lane)
