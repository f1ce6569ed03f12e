"""Trees of rollouts: episodes, and continuations of them from chosen steps to the end.

A selection of steps is a function of a `StepTable` that returns the rows (int64) whose states are branched from. The
action that was taken there is not part of a branch: the policy chooses anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.branching.stack import inside
from agentgym.checks import suggest, whole
from agentgym.rollout.groups import Policy, Stage, act_each, one_each, play_groups, playable, warn_of_unscored
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import Ints, Reply, StepTable

Select = Callable[[StepTable], Ints]
Common = bool | Literal["siblings"]

# Numbers of policy and environments are drawn from seeds of their own, beside those of `collect`.
_POLICY, _ENVIRONMENT = 1, 2
#: As far as numpy's own `PCG64.jumped` goes: further than any step draws, and no power of 2, which would show.
_JUMP = 210306068529402873165736369884012333109
#: A stage takes up continuations when so large a share of its places is free: each time it shows the whole batch anew.
_FREE = 1 / 8


@dataclass(frozen=True)
class TreeCost:
    """What a table with forks has cost.

    Attributes:
        episodes: episodes that were played to an end, continuations included.
        environment_steps: steps that were played: the table's rows without those in which nothing was written.
        generated_tokens: tokens that the policy wrote; 0 where replies have none.
        reused: share of the steps of all whole episodes that were not played again, because a prefix is shared.
    """

    episodes: int
    environment_steps: int
    generated_tokens: int
    reused: float

    @classmethod
    def of(cls, table: StepTable) -> Self:
        """Count what is in a table; episodes that were left out as unscored are not.

        >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 1],
        ...     state=["s", "u", "u"], action=["right", "up", "down"], next_state=["u", "goal", "pit"],
        ...     reward=[0, 1, 0], won=[1, 1, 0], parent={"b": ("a", 0)})
        >>> print(TreeCost.of(table))
        2 episodes, 3 environment steps, 0 generated tokens, 25.0% of all steps shared
        """
        replies = [] if table.replies is None else [reply for reply in table.replies if reply is not None]
        unplayed = sum(reply.finish == "prompt-too-long" for reply in replies)
        whole = table.episode_length.sum()
        return cls(
            episodes=table.n_trajectories,
            environment_steps=len(table) - unplayed,
            generated_tokens=sum(len(reply.token_ids) for reply in replies),
            reused=float(1 - len(table) / whole) if whole else 0.0,
        )

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.episodes} episodes, {self.environment_steps} environment steps, {self.generated_tokens} generated "
            f"tokens, {self.reused:.1%} of all steps shared"
        )


class _Numbers:
    """A generator for each step: what one step draws does not move what the next one gets.

    Args:
        name: whose numbers of the seed.
        seed: at least 0.
    """

    def __init__(self, seed: int, *name: int) -> None:
        self._bits = np.random.PCG64(_sequence(seed, _POLICY, *name))
        self._begin = self._bits.state
        self._rng = np.random.Generator(self._bits)

    def of(self, step: int) -> np.random.Generator:
        """Return the generator of a step before its first number; those of other steps are no longer valid."""
        self._bits.state = self._begin
        self._bits.advance(step * _JUMP % 2**128)
        return self._rng


class Continuation(NamedTuple):
    """What is to be played: from where, and the names of the random numbers that it gets.

    Attributes:
        state: what `snapshot` of the environments returned.
        group: label of the group.
        parent: name of the episode that it is cut from and `t` of the step after which; None: a trajectory of its own.
        first: name of the policy's numbers in the first step.
        later: name of its numbers after it, and of the environment's.
        reply: played in the first step in place of the policy's.
    """

    state: Any
    group: Hashable
    parent: tuple[int, int] | None
    first: tuple[int, ...]
    later: tuple[int, ...]
    reply: Reply | None = None


def every(n: int) -> Select:
    """Return the selection of each episode's steps 0, n, 2n, ...

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"],
    ...     action=["x"] * 3, next_state=["u", "v", "end"], reward=[0] * 3, won=[0] * 3)
    >>> every(2)(table)
    array([0, 2])
    """
    if n < 1:
        raise ValueError(f"every(n) needs an n of at least 1, got {n}")
    return lambda table: np.flatnonzero(table.t % n == 0)


def highest_entropy(count: int) -> Select:
    """Return the selection of the `count` steps of each trajectory where the policy was least sure of its reply.

    Measured is `-mean(Reply.logprobs)`, in nats per token: what was written is one draw, and the mean of this number
    over draws is the policy's entropy per token, at the sampling temperature (and among the tokens that were allowed).
    Of equal steps the earlier ones are taken. Steps in which nothing was written are left out.

    Raises:
        ValueError: when the selection is made, where the replies have no log-probabilities.
    """
    if count < 1:
        raise ValueError(f"highest_entropy(count) needs a count of at least 1, got {count}")

    def select(table: StepTable) -> Ints:
        replies: list[Any] = [None] * len(table) if table.replies is None else table.replies.tolist()
        written = np.array([reply is None or reply.finish != "prompt-too-long" for reply in replies], np.bool_)
        bare = [row for row in np.flatnonzero(written).tolist() if not (replies[row] and replies[row].logprobs)]
        if bare:
            raise ValueError(
                f"row {bare[0]} has a reply without log-probabilities: entropy can only be selected by for a policy "
                "that returns them, such as policies.huggingface.HuggingFacePolicy"
            )
        unsure = np.array([-np.mean(reply.logprobs) if ok else 0.0 for reply, ok in zip(replies, written, strict=True)])
        return _first_of_each(table, table.order[written[table.order]], -unsure, count)

    return select


def at_random(count: int, seed: int) -> Select:
    """Return the selection of `count` steps of each trajectory, drawn without replacement; of shorter ones all.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"],
    ...     action=["x"] * 3, next_state=["u", "v", "end"], reward=[0] * 3, won=[0] * 3)
    >>> len(at_random(2, seed=0)(table)), len(at_random(5, seed=0)(table))
    (2, 3)
    """
    if count < 1:
        raise ValueError(f"at_random(count, seed) needs a count of at least 1, got {count}")

    def select(table: StepTable) -> Ints:
        drawn = np.empty(len(table))
        drawn[table.order] = np.random.default_rng(seed).random(len(table))
        return _first_of_each(table, table.order, drawn, count)

    return select


def _first_of_each(table: StepTable, rows: Ints, key: NDArray[np.float64], count: int) -> Ints:
    """Of `rows`, the `count` of each trajectory that come first by the table's `key`."""
    rows = rows[np.lexsort((key[rows], table.trajectory[rows]))]
    first = np.searchsorted(table.trajectory[rows], table.trajectory[rows])
    return np.sort(rows[np.arange(len(rows)) - first < count])


def _visits(table: StepTable) -> tuple[Ints, Ints]:
    """Row of the earliest visit of each state of a group, of equal ones the first, and how often it was visited."""
    order = np.argsort(table.t, kind="stable")
    places = (table.group * len(table.states) + table.state)[order]
    _, first, count = np.unique(places, return_index=True, return_counts=True)
    return order[first].astype(np.int64), count.astype(np.int64)


def _distinct(table: StepTable) -> Ints:
    return np.sort(_visits(table)[0])


def _visited_once(table: StepTable) -> Ints:
    first, count = _visits(table)
    return np.sort(first[count == 1])


def _first_disagreement(table: StepTable) -> Ints:
    """Nodes of the tree of histories (states and actions since the beginning) that were left by several actions."""
    node_of: dict[Hashable, int] = {}  # what came before, and the state now
    first: list[int] = []
    action_of: list[int] = []
    several: set[int] = set()
    node = np.empty(len(table), np.int64)
    begin = table.t[table.order[table.offsets[:-1]]]
    for i in np.argsort(begin, kind="stable").tolist():  # whoever another one was cut from begins earlier
        before = int(table.parent[i])
        for row in table.order[table.offsets[i] : table.offsets[i + 1]].tolist():
            came: Hashable = (
                ("g", int(table.group[row])) if before < 0 else (int(node[before]), int(table.action[before]))
            )
            node[row] = here = node_of.setdefault((came, int(table.state[row])), len(first))
            if here == len(first):
                first.append(row)
                action_of.append(int(table.action[row]))
            elif action_of[here] != table.action[row]:
                several.add(here)
            before = row
    return np.sort(np.array([first[here] for here in several], np.int64))


#: Selections that have a name.
SELECTIONS: dict[str, Select] = {
    "all": lambda table: np.arange(len(table)),
    "distinct": _distinct,
    "visited-once": _visited_once,
    "first-disagreement": _first_disagreement,
}


def selected(table: StepTable, select: str | Select) -> Ints:
    """Return the rows that a selection chooses, sorted and each once.

    Raises:
        ValueError: when there is no selection of that name, or a function returns something else than rows.
    """
    if isinstance(select, str):
        if select not in SELECTIONS:
            raise ValueError(f"unknown select {select!r}; {suggest(select, SELECTIONS)}, or a function of the table")
        return SELECTIONS[select](table)
    rows = np.asarray(select(table))
    if rows.ndim != 1 or (len(rows) and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(table))):
        raise ValueError(
            f"select must return row numbers, integers in 0..{len(table) - 1}, got {rows.dtype} of shape {rows.shape}"
            + (f" from {rows.min()} to {rows.max()}" if rows.size and rows.dtype.kind in "iuf" else "")
        )
    return np.unique(rows).astype(np.int64)


def collect_tree(
    envs: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    *,
    tasks: Sequence[Mapping[str, Any]],
    group_size: int = 1,
    branches: int,
    select: str | Select = "all",
    common: Common = True,
    rounds: int = 1,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> StepTable:
    """Play groups of episodes as `collect` does, then continue them from chosen steps, `branches` times each.

    A continuation of a step starts in the state in which that step was taken, with everything that the environment and
    the wrappers knew there, and chooses anew. In the table it is a trajectory of the same group whose `parent` is the
    row before; a continuation of an episode's first step is a trajectory of its own. Continuations come after the
    episodes, step by step in the order of the table, those of one step next to each other.

    Random numbers: the episodes get those of `collect`, to the bit. Step s of the k-th continuation of a step gets
    numbers that are fixed by the seed and

        common=True         group, k and s: k-th continuations of two steps meet the same luck, so that the difference
                            of two states' values is not that of two draws; those of one step are independent
        common="siblings"   the step and s, and in the first step k as well: continuations of one step differ by their
                            first actions alone, and are the same where these are
        common=False        the step, k and s: all are independent

    The environments are seeded in the same way as they are restored; whether they draw as often in two continuations is
    theirs. With `common=True` two steps in one state have the same continuations: "distinct" selects one of them.
    Continuations do not depend on `envs.num_envs` (but by the rounding of a model's batches) nor on each other. That
    takes a policy that draws for each observation from a generator of its own, see `agentgym.rollout.act_each`; any
    other one is asked for one observation at a time.

    Args:
        envs: as for `collect`; every layer has the verbs of `agentgym.branching.Branching`, as all layers here
            do.
        policy: who acts.
        tasks: as for `collect`.
        group_size: episodes per task, before continuations.
        branches: continuations per chosen step, at least 1.
        select: which steps:

            "all"                  every one
            "distinct"             the earliest visit of each state of a group: its continuations have the most time
            "visited-once"         states that a group visited only once: nothing else says what they are worth
            "first-disagreement"   where episodes of a group, alike until then, act differently; one row each
            a function             of the table so far that returns rows: `every(n)`, `highest_entropy(count)`, your own
        common: see above.
        rounds: how often steps are chosen and continued; from the second time on continuations can be chosen too.
        seed: seeds everything.
        progress: called after each step with the number of episodes and continuations finished so far.

    Returns:
        a `StepTable`, see `collect`; `TreeCost.of(table)` says what it took. Every step's state is kept until the last
        round has begun, see the docs for what that takes.

    Raises:
        TypeError: as `collect`; when a layer of the environments cannot be saved; the message names it.
        ValueError: as `collect`; when a number is out of range or `select` does not choose rows of the table.

    >>> import agentgym
    >>> from policies.scripted import RandomPolicy
    >>> from wrappers import VectorReplyParser
    >>> envs = VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=4, autoreset_mode="Disabled"))
    >>> tasks = [{"split": "train", "index": 0}]
    >>> table = collect_tree(envs, RandomPolicy(), tasks=tasks, branches=2, select=lambda table: [0, 5], seed=0)
    >>> table.parent  # a continuation of the first step is an episode
    array([-1, -1, -1,  4,  4])
    >>> print(TreeCost.of(table))  # nobody solved the level in 20 steps: 5 episodes of 20, 2 of them cut after 5
    5 episodes, 90 environment steps, 0 generated tokens, 10.0% of all steps shared
    """
    branches, rounds = whole("branches", branches, 1), whole("rounds", rounds, 1)
    seed = whole("seed", seed, 0)
    if common not in (True, False, "siblings"):
        raise ValueError(f"common must be True, False or 'siblings', got {common!r}")
    envs = playable(envs)
    stack = inside(envs, envs)
    builder = TableBuilder(stack.num_envs, stack.metadata["autoreset_mode"])
    saved: dict[tuple[int, int], Any] = {}

    def save(stage: Stage) -> None:
        for i in np.flatnonzero(stage.active).tolist():
            saved[builder.position(i)] = stack.snapshot(i)

    play_groups(
        stack, policy, builder, tasks=tasks, group_size=group_size, seed=seed, progress=progress, before_step=save
    )
    forked = 0
    for number in range(rounds):
        table = builder.table()
        rows = selected(table, select)
        # A step that is chosen again gets further continuations, not the same ones.
        numbers = range(number * branches, (number + 1) * branches)
        plan = [
            continuation
            for fork, row in enumerate(rows.tolist(), forked)
            for continuation in _continuations(table, row, saved, numbers, common, fork)
        ]
        forked += len(rows)
        again = number < rounds - 1
        if not again:
            saved.clear()
        _play(stack, policy, builder, plan, seed, progress, save if again else None)
    warn_of_unscored(builder.unscored, builder.started)
    return builder.table()


def continued(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    plan: Sequence[Continuation],
    *,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> StepTable:
    """Play continuations to their ends.

    Args:
        envs: as for `collect_tree`; what they played is dropped.
        policy: who acts, after the replies of the plan.
        plan: what is to be played; a `parent` has to be None, for nothing that was played before is in the table.
        seed: with the names in the plan it makes all numbers. `collect_tree` names its own by tuples that begin with
            0, 1 and 2.
        progress: called after each step with the number of continuations finished so far.

    Returns:
        a `StepTable` with one trajectory per continuation, in the order of the plan, but for those that could not be
        scored, of which a `RuntimeWarning` counts how many.

    Raises:
        ValueError: when nothing is planned, or what is planned has a parent; else as `collect_tree`.
    """
    if not plan or any(each.parent is not None for each in plan):
        raise ValueError(f"expected continuations without parents, at least one, got {len(plan)} of them")
    stack = inside(playable(envs), envs)
    builder = TableBuilder(stack.num_envs, stack.metadata["autoreset_mode"])
    _play(stack, policy, builder, plan, seed, progress, None)
    warn_of_unscored(builder.unscored, builder.started)
    return builder.table()


def _continuations(
    table: StepTable, row: int, saved: Mapping[tuple[int, int], Any], numbers: range, common: Common, fork: int
) -> list[Continuation]:
    """The continuations of a row's step, which is the `fork`-th that was chosen."""
    names: Any = table.trajectories
    before, group = table.previous[row], int(table.group[row])
    parent = None if before < 0 else (names[table.trajectory[before]], int(table.t[before]))
    state, label = saved[names[table.trajectory[row]], int(table.t[row])], table.groups[group]
    return [
        Continuation(
            state, label, parent,
            *{
                True: ((0, group, k), (0, group, k)),
                False: ((1, fork, k), (1, fork, k)),
                "siblings": ((1, fork, k), (2, fork)),
            }[common],
        )
        for k in numbers
    ]  # fmt: skip


def _play(
    envs: Any,
    policy: Policy,
    builder: TableBuilder,
    plan: Sequence[Continuation],
    seed: int,
    progress: Callable[[int], None] | None,
    before_step: Callable[[Stage], None] | None,
) -> None:
    """Play continuations, each in the next place that is free."""
    waiting = deque(plan)
    age = np.zeros(envs.num_envs, np.int64)
    first, later = ([_Numbers(seed)] * envs.num_envs for _ in range(2))
    given: dict[int, Reply] = {}  # replies of first steps, by place

    def ask(observations: list[Any], infos: dict[str, NDArray[Any]], playing: NDArray[np.int64]) -> list[Reply]:
        places = playing.tolist()
        asked = [k for k, i in enumerate(places) if i not in given]
        rngs = [(later if age[places[k]] else first)[places[k]].of(int(age[places[k]])) for k in asked]
        if len(asked) < len(places):
            observations, infos = [observations[k] for k in asked], {name: of[asked] for name, of in infos.items()}
        answers = iter(one_each(policy, act_each(policy, observations, infos, rngs), len(asked)) if asked else ())
        return [given.pop(i) if i in given else next(answers) for i in places]

    stage = Stage(envs, builder, policy, ask)
    while waiting or stage.active.any():
        free = np.flatnonzero(~stage.active)[: len(waiting)].tolist()
        if free and len(free) >= min(len(waiting), _FREE * envs.num_envs):
            begun = [waiting.popleft() for _ in free]
            seeds = [int(_sequence(seed, _ENVIRONMENT, *each.later).generate_state(1)[0]) for each in begun]
            stage.observations, stage.infos = envs.restore(free, [each.state for each in begun], seeds)
            stage.active[free], age[free] = True, 0
            for i, each in zip(free, begun, strict=True):
                later[i] = _Numbers(seed, *each.later)
                first[i] = later[i] if each.first == each.later else _Numbers(seed, *each.first)
                if each.reply is not None:
                    given[i] = each.reply
                builder.resume(i, stage.infos, each.group, each.parent)
        if before_step is not None:
            before_step(stage)
        stage.step()
        age += 1
        if progress is not None:
            progress(builder.started - int(stage.active.sum()))


def _sequence(seed: int, *name: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=name)
