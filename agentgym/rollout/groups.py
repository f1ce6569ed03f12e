"""Play whole groups of episodes with a policy."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args
from weakref import WeakSet

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from agentgym.adapter import adapt
from agentgym.branching.stack import reseed_each
from agentgym.checks import check_name
from agentgym.rollout.recorder import TableBuilder, entry
from agentgym.trajectory import Reply, StepTable

#: Environments that were warned of, by the kind of the warning.
_warned: defaultdict[str, WeakSet[Any]] = defaultdict(WeakSet)
#: Luck is drawn from seeds of its own, beside those of policies and trees (`agentgym.rollout.tree`).
_LUCK = 3

#: Whose random numbers an environment draws with once an episode has begun: its own, or those of its group.
Luck = Literal["episode", "group"]


class Policy(Protocol):
    """Who acts: anything with this one method; see `act_each` for another one that it may have."""

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        """Answer one reply per observation.

        Args:
            observations: one entry per sub-environment that still plays (strings, chat messages or dicts of these).
            infos: the info columns of the same sub-environments, shape (len(observations),).
            rng: the only source of randomness.
        """
        ...


def collect(
    envs: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    *,
    tasks: Sequence[Mapping[str, Any]],
    group_size: int = 1,
    seed: int,
    luck: Luck = "episode",
    first: int = 0,
    progress: Callable[[int], None] | None = None,
) -> StepTable:
    """Play every task `group_size` times and return all steps.

    Episodes are played in waves of `envs.num_envs`. A finished sub-environment is not shown to the policy again until
    its next episode. The result depends only on the environments' arguments, the policy, the tasks, `group_size`,
    `seed`, `luck` and `envs.num_envs`.

    All episodes of a group reset with the same seed, so that they have the same task, also a drawn one (`{}`), and the
    same start. The first episode goes on with the random numbers of this seed. The others are reseeded after their
    reset (`agentgym.branching.Branching.reseed`), each with a seed that depends on `seed`, the group and the episode's
    number in it alone: what the environment draws in a step is independent in all of them.

    Args:
        envs: a vector environment with autoreset `DISABLED`, reply and prompt wrappers included; see `Policy` for
            what reaches the policy. Any text environment of Gymnasium will do, single or in a stock vector
            environment: `agentgym.adapter.adapt` says what its infos need to hold.
        policy: who acts.
        tasks: reset options, one mapping per group, for instance `[{"split": "test", "index": i} for i in range(64)]`.
        group_size: episodes per task.
        seed: seeds both the environments and the policy's draws.
        luck: "episode", as above; or "group": no episode is reseeded, and two of a group that act alike meet the same
            chances (common random numbers). Their returns are then no independent draws: a policy that always acts
            alike has one return in the whole group.
        first: number in its group of the first episode of each; for callers that play a group one by one.
        progress: called after each step with the number of episodes finished so far.

    Returns:
        a `StepTable` with rows trajectory by trajectory in the order of tasks; group labels are the task ids
        (`"<task id> (2)"` when a task is listed twice), `replies` holds every reply. Episodes that could not be scored
        (`info["unscored"]`) are left out, with a `RuntimeWarning` that counts them. One warning each says that an
        environment refuses every action of the first `num_envs` episodes; that it cannot be reseeded; that the policy
        acts alike in all episodes of a group (`warn_of_likeness`).

    A reply with the finish "prompt-too-long" ends its episode, truncated: the last row has the action `""`, no reward,
    and this reply; see `agentgym.rollout.recorder.TableBuilder.give_up`.

    Raises:
        TypeError: when the policy answers something else than replies.
        ValueError: when autoreset is not disabled, there are no tasks, `group_size` < 1, `luck` is unknown, the
            episodes of one group do not have the same task, or no episode could be scored.
    """
    stack = playable(envs)
    builder = TableBuilder(stack.num_envs, stack.metadata["autoreset_mode"])
    play_groups(
        stack, policy, builder, tasks=tasks, group_size=group_size, seed=seed, luck=luck, first=first, progress=progress
    )
    warn_of_unscored(builder.unscored, builder.started)
    table = builder.table()
    warn_of_likeness(table, envs, policy)
    return table


class Episodes:
    """The episodes of some groups, numbered from 0 group by group, and their seeds; arguments as of `collect`.

    Attributes:
        count: how many there are.
        task_seeds: of the reset of each group.
        draws: parent of the policy's random numbers.
        names: task id of each group that has begun.
    """

    def __init__(
        self, tasks: Sequence[Mapping[str, Any]], group_size: int, seed: int, luck: Luck, first: int = 0
    ) -> None:
        if not tasks or group_size < 1:
            raise ValueError(f"expected tasks and a group_size of at least 1, got {len(tasks)} and {group_size}")
        check_name(luck, get_args(Luck), "luck")
        self.tasks, self.group_size, self.seed, self.luck, self.first = tasks, group_size, seed, luck, first
        self.count = len(tasks) * group_size
        sequence = np.random.SeedSequence(seed)
        self.task_seeds: list[int] = sequence.generate_state(len(tasks), np.uint32).tolist()
        self.draws = sequence.spawn(1)[0]
        self.names: dict[int, str] = {}

    def reseed(self, number: int) -> int | None:
        """Return the seed that an episode gets after its reset; None: it goes on with that of the reset."""
        group, index = divmod(number, self.group_size)
        index += self.first
        if self.luck == "group" or not index:
            return None
        return int(np.random.SeedSequence(self.seed, spawn_key=(_LUCK, group, index)).generate_state(1)[0])

    def begun(self, number: int, task_id: str) -> int:
        """Note the task of an episode and return its group; a ValueError where another of the group has another."""
        group = number // self.group_size
        known = self.names.setdefault(group, task_id)
        if known != task_id:
            raise ValueError(
                f"task {group} ({self.tasks[group]!r}) is {known!r} in one episode and {task_id!r} in another; "
                "name the task by index or task_id"
            )
        return group


def act_each(
    policy: Policy,
    observations: Sequence[Any],
    infos: Mapping[str, NDArray[Any]],
    rngs: Sequence[np.random.Generator],
) -> list[Reply]:
    """Ask a policy with random numbers of its own for each observation, so that no reply depends on the others.

    A policy that can answer all at once has a method `act_each(observations, infos, rngs)`, which draws for each
    observation from its generator alone; others are asked for one observation at a time.

    Args:
        policy: who acts.
        observations: n, as `Policy.act` takes them.
        infos: n entries in each column.
        rngs: n generators.

    Raises:
        TypeError, ValueError: a policy that is asked one by one does not answer one reply each, see `one_each`.
    """
    if defines(policy, "act_each", {"act"}):
        return policy.act_each(observations, infos, rngs)  # type: ignore[attr-defined, no-any-return]
    replies: list[Reply] = []
    for i, rng in enumerate(rngs):
        shown = {key: column[i : i + 1] for key, column in infos.items()}
        replies += one_each(policy, policy.act(observations[i : i + 1], shown, rng), 1)
    return replies


def defines(policy: Any, method: str, others: set[str]) -> bool:
    """Whether a policy has this method; a subclass that overrides only one of `others` does not mean its parent's."""
    owner = next((kind for kind in type(policy).__mro__ if {method, *others} & vars(kind).keys()), type(policy))
    return method in vars(owner) or method in vars(policy)


def one_each(policy: Policy, answers: Any, count: int) -> list[Reply]:
    """Return what a policy answered to some observations as a list of that length.

    Raises:
        TypeError: it is no list.
        ValueError: there are more answers or fewer.
    """
    if isinstance(answers, (str, bytes, Mapping)) or not isinstance(answers, Iterable):
        raise no_reply(policy, answers)
    replies = list(answers)
    if len(replies) != count:
        raise ValueError(f"{type(policy).__name__}.act answered {len(replies)} replies to {count} observations")
    return replies


def no_reply(policy: Policy, answer: Any) -> TypeError:
    """Return the error of a policy that answered something else than a reply."""
    return TypeError(
        f"{type(policy).__name__}.act must answer Reply objects, one for each observation, such as "
        f"agentgym.trajectory.Reply('left'), got {answer!r:.120}"
    )


class Stage:
    """The sub-environments of a vector environment whose episodes run: asked, stepped and recorded step by step.

    Args:
        envs: with autoreset disabled.
        builder: what records.
        policy: named by errors.
        ask: answers one reply for each of some sub-environments: their observations, info columns and indices.

    Attributes:
        active: bool (num_envs,), which sub-environments play.
        written: number of replies that were played.
        accepted: whether the environment accepted one of them.
    """

    def __init__(
        self,
        envs: gym.vector.VectorEnv[Any, Any, Any],
        builder: TableBuilder,
        policy: Policy,
        ask: Callable[[list[Any], dict[str, NDArray[Any]], NDArray[np.int64]], list[Reply]],
    ) -> None:
        self.envs, self.builder, self.policy, self.ask = envs, builder, policy, ask
        self.active = np.zeros(envs.num_envs, np.bool_)
        self.observations: Any = None
        self.infos: Mapping[str, Any] = {}
        self.written, self.accepted = 0, False

    def begin(self, numbers: Sequence[int], episodes: Episodes) -> list[str]:
        """Reset the first sub-environments to one episode each, give each its luck, and return the task ids.

        A last wave that is too short is filled with copies that are never shown to the policy.
        """
        envs, count = self.envs, self.envs.num_envs
        wave = [number // episodes.group_size for number in numbers]
        padded = [*wave, *[wave[-1]] * (count - len(wave))]
        self.observations, self.infos = envs.reset(
            seed=[episodes.task_seeds[group] for group in padded],  # type: ignore[arg-type]  # one each
            options=[dict(episodes.tasks[group]) for group in padded],  # type: ignore[arg-type]  # one each
        )
        seeds = {i: seed for i, number in enumerate(numbers) if (seed := episodes.reseed(number)) is not None}
        if seeds and callable(getattr(envs.unwrapped, "reseed", None)):
            reseed_each(envs, list(seeds), list(seeds.values()))
        elif seeds:
            _warn_once(
                "unseeded",
                envs.unwrapped,
                f"{envs}: the episodes of a group meet the same luck, for {type(envs.unwrapped).__name__} has no "
                "reseed(indices, seeds): give its class this method (agentgym.branching.Branching.reseed), or say "
                "luck='group' where that is meant or nothing is drawn in a step",
                stacklevel=5,
            )
        self.active = np.arange(count) < len(wave)
        return [str(entry(self.infos, "task_id", i)) for i in range(len(wave))]

    def step(self) -> list[Reply]:
        """Ask all active sub-environments and play their replies; returns these."""
        envs, active, policy = self.envs, self.active, self.policy
        playing = np.flatnonzero(active)
        shown = observations_of(self.observations, playing), infos_of(self.infos, playing)
        answers = one_each(policy, self.ask(*shown, playing), len(playing))
        if wrong := [reply for reply in answers if not hasattr(reply, "text")]:
            raise no_reply(policy, wrong[0])
        replies: list[Reply | None] = [None] * envs.num_envs
        actions = [""] * envs.num_envs
        for i, reply in zip(playing.tolist(), answers, strict=True):
            replies[i], actions[i] = reply, reply.text
            if getattr(reply, "finish", "") == "prompt-too-long":
                self.builder.give_up(i, reply)
                active[i] = False
        if active.any():
            self.observations, rewards, terminated, truncated, infos = envs.step(actions)
            self.builder.step(actions, rewards, terminated, truncated, infos, replies)
            self.accepted = self.accepted or bool(infos["is_action_valid"][active].any())
            self.written += int(active.sum())
            active &= ~(terminated | truncated)
            self.infos = infos
        return answers


def playable(envs: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Return the vector environment, adapted where needed; a ValueError says why `collect` cannot play it."""
    envs = adapt(envs)
    if isinstance(envs.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
        raise ValueError(
            f"{envs}: collect gives each sub-environment seed and options of its own, which "
            f"{type(envs.unwrapped).__name__} cannot; adapt it before it is wrapped: agentgym.adapter.adapt(envs)"
        )
    mode = envs.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.DISABLED:
        raise ValueError(
            f"collect needs a vector environment with autoreset DISABLED, got {mode}; "
            "make it with gym.make_vec(..., autoreset_mode='Disabled') or "
            "SyncVectorEnv(..., autoreset_mode=AutoresetMode.DISABLED)"
        )
    return envs


def play_groups(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    builder: TableBuilder,
    *,
    tasks: Sequence[Mapping[str, Any]],
    group_size: int,
    seed: int,
    luck: Luck = "episode",
    first: int = 0,
    progress: Callable[[int], None] | None,
    before_step: Callable[[Stage], None] = lambda stage: None,
) -> None:
    """Play the episodes of `collect`, whose arguments these are; `before_step` is called before each step of a wave."""
    episodes = Episodes(tasks, group_size, seed, luck, first)
    rng = np.random.default_rng(episodes.draws)
    labels: dict[int, str] = {}
    stage = Stage(envs, builder, policy, lambda observations, infos, _: policy.act(observations, infos, rng))
    for start in range(0, episodes.count, envs.num_envs):
        numbers = range(start, min(start + envs.num_envs, episodes.count))
        groups = list(map(episodes.begun, numbers, stage.begin(numbers, episodes)))
        label_groups(labels, episodes.names)
        builder.reset(stage.infos, stage.active.copy(), [labels[group] for group in groups])
        while stage.active.any():
            before_step(stage)
            answers = stage.step()
            if progress is not None:
                progress(start + len(numbers) - int(stage.active.sum()))
        if start == 0 and stage.written and not stage.accepted:
            warn_of_refusals(stage, len(numbers), answers[-1].text, stacklevel=4)


def label_groups(labels: dict[int, str], names: Mapping[int, str]) -> None:
    """Add a label for each group that has none: its task id, with a number where another group has it already."""
    taken = set(labels.values())
    for group in sorted(names.keys() - labels.keys()):
        label, times = names[group], 1
        while label in taken:
            times += 1
            label = f"{names[group]} ({times})"
        labels[group] = label
        taken.add(label)


def unnumbered(label: str) -> str:
    """Return a task id from the label of its group, without the number of `label_groups`; ids may end like that too.

    >>> unnumbered("level 7 (2)"), unnumbered("level 7")
    ('level 7', 'level 7')
    """
    return re.sub(r" \(\d+\)$", "", label)


def observations_of(observations: Any, indices: NDArray[Any]) -> list[Any]:
    """Return the observations of some sub-environments as a policy is shown them, one entry each."""
    if isinstance(observations, dict):
        return [{key: batch[i] for key, batch in observations.items()} for i in indices]
    return [observations[i] for i in indices]


def infos_of(infos: Mapping[str, Any], indices: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the info columns of some sub-environments as a policy is shown them, without masks and nested infos."""
    return {
        key: column[indices]
        for key, column in infos.items()
        if isinstance(column, np.ndarray) and not key.startswith("_") and key != "final_obs"
    }


def _warn_once(kind: str, owner: Any, message: str, stacklevel: int) -> None:
    """Warn of an environment, once for each kind of warning; `stacklevel` is counted from here."""
    if owner not in _warned[kind]:
        _warned[kind].add(owner)
        warnings.warn(message, RuntimeWarning, stacklevel)


def warn_of_refusals(stage: Stage, episodes: int, last: str, stacklevel: int) -> None:
    """Warn once of an environment that has accepted no action of its first episodes.

    Args:
        stage: where they were played.
        episodes: how many.
        last: the last reply.
        stacklevel: whom to warn, see `warnings.warn`.
    """
    begin = f"{stage.envs} refused every action of the first {episodes} episodes"
    if "reply_error" in stage.infos:  # a reply parser is there
        what = f": none of the {stage.written} replies held a valid action, the last was {last!r:.120}"
    else:
        what = f", the last was {last!r:.120}: does a reply parser (VectorReplyParser) read the policy's format?"
    _warn_once("refusing", stage.envs.unwrapped, begin + what, stacklevel + 1)


def warn_of_likeness(table: StepTable, envs: Any, policy: Policy) -> None:
    """Warn the caller's caller once of a policy that acts alike in all episodes of a group: nothing can be learned.

    That is so in a group of at least two episodes that took the same action at every step, or the same action in every
    state. It is warned of where it is so in every such group, for chance does it in some; and not of a table without a
    valid action, which has a warning of its own.

    Args:
        table: of whole episodes.
        envs: as they were given; one warning for each.
        policy: named by the warning.
    """
    several = np.bincount(table.trajectory_group, minlength=table.n_groups) > 1
    owner = envs.unwrapped
    if not several.any() or owner in _warned["alike"] or not table.valid.any():
        return
    same = np.zeros(table.n_groups, np.bool_)
    for place in (table.t, table.state):
        visited = np.unique(np.stack([table.group, place, table.action], axis=1), axis=0)
        choices = np.unique(visited[:, :2], axis=0, return_counts=True)
        most = np.zeros(table.n_groups, np.int64)
        np.maximum.at(most, choices[0][:, 0], choices[1])
        same |= most == 1
    if not same[several].all():
        return
    label = table.groups[int(np.flatnonzero(several)[0])]
    _warn_once(
        "alike",
        owner,
        f"{type(policy).__name__} acted alike in all episodes of a group, in each of {int(several.sum())} groups (the "
        f"first: {label!r}): luck at most tells such episodes apart, and nothing can be learned from them. Let the "
        "policy draw its replies (a temperature above 0), or play one episode a task (group_size=1)",
        stacklevel=4,
    )


def warn_of_unscored(unscored: Sequence[str], started: int) -> None:
    """Warn the caller's caller of episodes that are left out: why, for each, and how many episodes were begun."""
    if unscored:
        warnings.warn(
            f"{len(unscored)} of {started} episodes are left out, they could not be scored; the first: {unscored[0]}",
            RuntimeWarning,
            stacklevel=3,
        )
