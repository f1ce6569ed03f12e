"""Play whole groups of episodes with a policy."""

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

#: Environments for which a warning was given, by kind of warning.
_warned: defaultdict[str, WeakSet[Any]] = defaultdict(WeakSet)
#: The environment's luck has its own seeds, separate from those of policies and trees (`agentgym.rollout.tree`).
_LUCK = 3

#: Random numbers of the environment after the start of an episode: its own, or those of its group.
Luck = Literal["episode", "group"]
#: Info columns of a vector environment, one entry a place.
Infos = Mapping[str, NDArray[Any]]


class Policy(Protocol):
    """Anything with this method; it may also have `act_each`, see the function."""

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        """Return one reply per observation (text, chat messages or dicts of these), drawing from `rng` alone."""


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

    Episodes run in waves of `envs.num_envs`. The result depends only on the environments' arguments, the policy, the
    tasks, `group_size`, `seed`, `luck` and `envs.num_envs`. All episodes of a group reset with one seed and have the
    same task (also for `{}`) and start. The first continues with this seed's random numbers; the others are reseeded
    after the reset (`agentgym.branching.Branching.reseed`) by `seed`, the group and their number in it.

    Args:
        envs: with autoreset `DISABLED`, in its wrappers; or any text environment that `agentgym.adapter.adapt` takes.
        policy: answers the observations.
        tasks: reset options, one mapping per group, such as `[{"split": "test", "index": i} for i in range(64)]`.
        group_size: episodes per task.
        seed: of the environments and the policy's draws.
        luck: "episode", as above; or "group": no reseeding, so equal actions have the same random outcomes (common
            random numbers), and returns within a group are not independent.
        first: number in its group of each first episode, for callers that play groups one by one.
        progress: called after each step with the number of finished episodes.

    Returns:
        a `StepTable`, trajectory by trajectory in task order, with `replies`. Group labels are task ids (`"<task id>
        (2)"` for a repeated task). Episodes without a score (`info["unscored"]`) are left out with a `RuntimeWarning`.
        One warning each: the environment refuses every action of the first `num_envs` episodes; it cannot be reseeded;
        the policy takes equal actions in all episodes of a group (`warn_of_likeness`). A reply with finish
        "prompt-too-long" truncates its episode (`TableBuilder.give_up`).

    Raises:
        TypeError: an answer of the policy is no reply.
        ValueError: autoreset not disabled, no tasks, `group_size` < 1, unknown `luck`, two tasks in a group, no score.
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
    """The numbered episodes of some groups, their seeds and task ids; arguments are those of `collect`."""

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
        """Return the seed of an episode after its reset; None: it continues with the reset's."""
        group, index = divmod(number, self.group_size)
        index += self.first
        if self.luck == "group" or not index:
            return None
        return int(np.random.SeedSequence(self.seed, spawn_key=(_LUCK, group, index)).generate_state(1)[0])

    def begun(self, number: int, task_id: str) -> int:
        """Record the task of an episode and return its group; ValueError for a task that differs from its group's."""
        group = number // self.group_size
        known = self.names.setdefault(group, task_id)
        if known != task_id:
            raise ValueError(
                f"task {group} ({self.tasks[group]!r}) is {known!r} in one episode and {task_id!r} in another; "
                "name the task by index or task_id"
            )
        return group


def act_each(
    policy: Policy, observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]
) -> list[Reply]:
    """Ask a policy with one generator per observation, so that no reply depends on the others.

    Uses `policy.act_each(observations, infos, rngs)` if there is one, else asks for one observation at a time. There
    are n observations, n entries per info column and n generators. Errors are those of `one_each`.
    """
    if defines(policy, "act_each", {"act"}):
        return policy.act_each(observations, infos, rngs)  # type: ignore[attr-defined, no-any-return]
    replies: list[Reply] = []
    for i, rng in enumerate(rngs):
        shown = {key: column[i : i + 1] for key, column in infos.items()}
        replies += one_each(policy, policy.act(observations[i : i + 1], shown, rng), 1)
    return replies


def defines(policy: Any, method: str, others: set[str]) -> bool:
    """Return whether a policy has this method, and no subclass overrides only one of `others`."""
    owner = next((kind for kind in type(policy).__mro__ if {method, *others} & vars(kind).keys()), type(policy))
    return method in vars(owner) or method in vars(policy)


def one_each(policy: Policy, answers: Any, count: int) -> list[Reply]:
    """Return a policy's answers as a list of `count`; TypeError if they are no list, ValueError for another number."""
    if isinstance(answers, (str, bytes, Mapping)) or not isinstance(answers, Iterable):
        raise no_reply(policy, answers)
    replies = list(answers)
    if len(replies) != count:
        raise ValueError(f"{type(policy).__name__}.act answered {len(replies)} replies to {count} observations")
    return replies


def no_reply(policy: Policy, answer: Any) -> TypeError:
    """Return the error for a policy's answer that is no reply."""
    return TypeError(
        f"{type(policy).__name__}.act must answer Reply objects, one for each observation, such as "
        f"agentgym.trajectory.Reply('left'), got {answer!r:.120}"
    )


class Stage:
    """The running sub-environments of a vector environment with autoreset disabled: asked, stepped and recorded.

    Attributes:
        active: bool (num_envs,), which sub-environments play.
        written: number of replies played.
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
        """Reset the first sub-environments to one episode each, seed their luck, and return the task ids.

        Copies, never shown to the policy, fill up a short last wave.
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
                f"{envs}: the episodes of a group draw alike, because {type(envs.unwrapped).__name__} has no "
                "reseed(indices, seeds): add this method to its class (agentgym.branching.Branching.reseed), or pass "
                "luck='group' if that is intended or steps draw nothing",
                stacklevel=5,
            )
        self.active = np.arange(count) < len(wave)
        return [str(entry(self.infos, "task_id", i)) for i in range(len(wave))]

    def step(self) -> list[Reply]:
        """Ask all active sub-environments, play their replies and return these."""
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
    """Return the vector environment, adapted if needed; ValueError if `collect` cannot play it."""
    envs = adapt(envs)
    if isinstance(envs.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
        raise ValueError(
            f"{envs}: collect gives each sub-environment its own seed and options, which "
            f"{type(envs.unwrapped).__name__} does not support; adapt it before wrapping: agentgym.adapter.adapt(envs)"
        )
    mode = envs.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.DISABLED:
        raise ValueError(
            f"collect needs a vector environment with autoreset DISABLED, got {mode} (ours are made with SAME_STEP "
            "by default, Gymnasium's with NEXT_STEP); make it with gym.make_vec(..., autoreset_mode='Disabled') or "
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
    progress: Callable[[int], None] | None = None,
    before_step: Callable[[Stage], None] = lambda stage: None,
) -> None:
    """Play the episodes of `collect`; `before_step` is called before each step of a wave."""
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
    """Label each group without a label by its task id, with a number if the label is taken."""
    taken = set(labels.values())
    for group in sorted(names.keys() - labels.keys()):
        label, times = names[group], 1
        while label in taken:
            times += 1
            label = f"{names[group]} ({times})"
        labels[group] = label
        taken.add(label)


def unnumbered(label: str) -> str:
    """Return a group's task id from its label, without the number of `label_groups`; ids may end like that too.

    >>> unnumbered("level 7 (2)"), unnumbered("level 7")
    ('level 7', 'level 7')
    """
    return re.sub(r" \(\d+\)$", "", label)


def observations_of(observations: Any, indices: NDArray[Any]) -> list[Any]:
    """Return the observations of some sub-environments, one entry each, as a policy gets them."""
    if isinstance(observations, dict):
        return [{key: batch[i] for key, batch in observations.items()} for i in indices]
    return [observations[i] for i in indices]


def infos_of(infos: Mapping[str, Any], indices: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the info columns of some sub-environments without masks and nested infos, as a policy gets them."""
    return {
        key: column[indices]
        for key, column in infos.items()
        if isinstance(column, np.ndarray) and not key.startswith("_") and key != "final_obs"
    }


def _warn_once(kind: str, owner: Any, message: str, stacklevel: int) -> None:
    """Warn once per kind and environment; `stacklevel` counts from here."""
    if owner not in _warned[kind]:
        _warned[kind].add(owner)
        warnings.warn(message, RuntimeWarning, stacklevel)


def warn_of_refusals(stage: Stage, episodes: int, last: str, stacklevel: int) -> None:
    """Warn once that an environment accepted no action of its first `episodes`; the message quotes the `last` reply."""
    begin = f"{stage.envs} refused every action of the first {episodes} episodes"
    if "reply_error" in stage.infos:  # there is a reply parser
        what = f": none of the {stage.written} replies held a valid action, the last was {last!r:.120}"
    else:
        what = f", the last was {last!r:.120}: does a reply parser (VectorReplyParser) read the policy's format?"
    _warn_once("refusing", stage.envs.unwrapped, begin + what, stacklevel + 1)


def warn_of_likeness(table: StepTable, envs: Any, policy: Policy) -> None:
    """Warn once if the policy takes the same actions in all episodes of every group: nothing can be learned.

    They are alike if they took the same action at every step, or in every state.
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
        f"first: {label!r}): such episodes differ at most by luck, and nothing can be learned from them. Sample "
        "the replies (a temperature above 0), or play one episode per task (group_size=1)",
        stacklevel=4,
    )


def warn_of_unscored(unscored: Sequence[str], started: int) -> None:
    """Warn the caller's caller of episodes that are left out, with their reasons."""
    if unscored:
        warnings.warn(
            f"{len(unscored)} of {started} episodes have no score and are left out; the first: {unscored[0]}",
            RuntimeWarning,
            stacklevel=3,
        )
