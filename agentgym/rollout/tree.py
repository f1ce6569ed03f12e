"""Trees of rollouts: episodes, and continuations of them from chosen steps to the end."""

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

# Policy and environment have their own seeds, apart from those of `collect`.
_POLICY, _ENVIRONMENT = 1, 2
#: As in numpy's `PCG64.jumped`: more than any step draws, and no power of 2, whose streams are correlated.
_JUMP = 210306068529402873165736369884012333109
#: A stage starts continuations when this share of its places is free, since each start copies the whole batch.
_FREE = 1 / 8


@dataclass(frozen=True)
class TreeCost:
    """The cost of a table with forks.

    Attributes:
        episodes: finished episodes, continuations included.
        environment_steps: steps played: rows with a reply.
        generated_tokens: tokens written by the policy; 0 without token ids.
        reused: share of the steps of all whole episodes that a shared prefix saved.
    """

    episodes: int
    environment_steps: int
    generated_tokens: int
    reused: float

    @classmethod
    def of(cls, table: StepTable) -> Self:
        """Count a table; episodes without a score are not in it."""
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
        return (
            f"{self.episodes} episodes, {self.environment_steps} environment steps, {self.generated_tokens} generated "
            f"tokens, {self.reused:.1%} of all steps shared"
        )


class _Numbers:
    """One generator per step, named by `name` and `seed`, so that draws of one step do not move those of the next."""

    def __init__(self, seed: int, *name: int) -> None:
        self._bits = np.random.PCG64(_sequence(seed, _POLICY, *name))
        self._begin = self._bits.state
        self._rng = np.random.Generator(self._bits)

    def of(self, step: int) -> np.random.Generator:
        """Return the generator of a step; those of other steps become invalid."""
        self._bits.state = self._begin
        self._bits.advance(step * _JUMP % 2**128)
        return self._rng


class Continuation(NamedTuple):
    """A planned continuation.

    Attributes:
        state: snapshot of the environments.
        group: label of the group.
        parent: name of the episode that it is cut from and `t` of the step after which; None: a trajectory of its own.
        first: name of the policy's numbers in the first step.
        later: name of its later numbers, and of the environment's.
        reply: played in the first step in place of the policy's.
    """

    state: Any
    group: Hashable
    parent: tuple[int, int] | None
    first: tuple[int, ...]
    later: tuple[int, ...]
    reply: Reply | None = None


def every(n: int) -> Select:
    """Return the selection of each episode's steps 0, n, 2n, ..."""
    whole("every: n", n, 1)
    return lambda table: np.flatnonzero(table.t % n == 0)


def highest_entropy(count: int) -> Select:
    """Return the selection of the `count` steps of each trajectory with the largest `-mean(Reply.logprobs)`.

    It estimates the policy's entropy in nats per token at the sampling temperature, among the allowed tokens. Ties go
    to earlier steps; steps without a reply are left out. ValueError if replies lack log-probabilities.
    """
    whole("highest_entropy: count", count, 1)

    def select(table: StepTable) -> Ints:
        replies: list[Any] = [None] * len(table) if table.replies is None else table.replies.tolist()
        written = np.array([reply is None or reply.finish != "prompt-too-long" for reply in replies], np.bool_)
        bare = [row for row in np.flatnonzero(written).tolist() if not (replies[row] and replies[row].logprobs)]
        if bare:
            raise ValueError(
                f"row {bare[0]} has a reply without log-probabilities: highest_entropy needs a policy that "
                "returns them, such as policies.huggingface.HuggingFacePolicy"
            )
        unsure = np.array([-np.mean(reply.logprobs) if ok else 0.0 for reply, ok in zip(replies, written, strict=True)])
        return _first_of_each(table, table.order[written[table.order]], -unsure, count)

    return select


def at_random(count: int, seed: int) -> Select:
    """Return the selection of `count` steps of each trajectory (all of shorter ones), drawn without replacement."""
    whole("at_random: count", count, 1)

    def select(table: StepTable) -> Ints:
        drawn = np.empty(len(table))
        drawn[table.order] = np.random.default_rng(seed).random(len(table))
        return _first_of_each(table, table.order, drawn, count)

    return select


def _first_of_each(table: StepTable, rows: Ints, key: NDArray[np.float64], count: int) -> Ints:
    """Of `rows`, return the `count` of each trajectory with the smallest `key`."""
    rows = rows[np.lexsort((key[rows], table.trajectory[rows]))]
    first = np.searchsorted(table.trajectory[rows], table.trajectory[rows])
    return np.sort(rows[np.arange(len(rows)) - first < count])


def _visits(table: StepTable) -> tuple[Ints, Ints]:
    """Return the row of the earliest visit of each state of a group, ties to the first, and the number of visits."""
    order = np.argsort(table.t, kind="stable")
    places = (table.group * len(table.states) + table.state)[order]
    _, first, count = np.unique(places, return_index=True, return_counts=True)
    return order[first].astype(np.int64), count.astype(np.int64)


def _visited_once(table: StepTable) -> Ints:
    first, count = _visits(table)
    return np.sort(first[count == 1])


def _first_disagreement(table: StepTable) -> Ints:
    """Return nodes of the tree of histories (states and actions since the beginning) with several actions."""
    node_of: dict[Hashable, int] = {}  # (earlier node, current state) -> node
    first: list[int] = []
    action_of: list[int] = []
    several: set[int] = set()
    node = np.empty(len(table), np.int64)
    begin = table.t[table.order[table.offsets[:-1]]]
    for i in np.argsort(begin, kind="stable").tolist():  # parents begin earlier
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


#: Named selections.
SELECTIONS: dict[str, Select] = {
    "all": lambda table: np.arange(len(table)),
    "distinct": lambda table: np.sort(_visits(table)[0]),
    "visited-once": _visited_once,
    "first-disagreement": _first_disagreement,
}


def selected(table: StepTable, select: str | Select) -> Ints:
    """Return the rows of a selection, sorted and unique; ValueError for an unknown name or other values than rows."""
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


class SavedSteps:
    """A table in the making, and the environment before each of its steps, by name of the episode and t.

    `save` is for `before_step` of `agentgym.rollout.groups.play_groups`.
    """

    def __init__(self, stack: Any) -> None:
        self.builder = TableBuilder(stack.num_envs, stack.metadata["autoreset_mode"])
        self.saved: dict[tuple[Any, int], Any] = {}
        self._stack = stack

    def save(self, stage: Stage) -> None:
        for i in np.flatnonzero(stage.active).tolist():
            self.saved[self.builder.position(i)] = self._stack.snapshot(i)


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

    A continuation starts in the state of the step, with the full state of environment and wrappers, and chooses a new
    action. In the table it is a trajectory of the same group whose `parent` is the row before (or its own trajectory
    for a first step). Continuations follow the episodes, ordered by their steps. The episodes get the random numbers of
    `collect`; step s of the k-th continuation of a step gets numbers fixed by the seed and

        common=True         group, k and s: k-th continuations of two steps share their luck, which lowers the
                            variance of value differences; continuations of one step are independent
        common="siblings"   the step and s, in the first step also k: continuations of one step differ only by
                            their first actions
        common=False        the step, k and s: all are independent

    The environments are seeded in the same way. With `common=True` two steps in one state have the same continuations;
    "distinct" selects one of them. Continuations do not depend on `envs.num_envs` (except for rounding in batches) or
    each other, since the policy is asked through `agentgym.rollout.act_each`.

    Args:
        envs, policy, tasks: as for `collect`; every layer of `envs` implements `agentgym.branching.Branching`.
        group_size: as for `collect`, without continuations.
        branches: continuations per chosen step, at least 1.
        select: which steps:

            "all"                  every one
            "distinct"             the earliest visit of each state of a group
            "visited-once"         states that a group visited only once
            "first-disagreement"   where episodes of a group with equal histories act differently; one row each
            a function             of the table so far that returns rows: `every(n)`, `highest_entropy(count)`, your own
        common: see above.
        rounds: number of rounds of selection; from the second on continuations can be chosen too.
        seed: of everything.
        progress: called after each step with the number of finished episodes and continuations.

    Returns:
        a `StepTable`, see `collect`; `TreeCost.of(table)` is its cost. The state of every step is kept in memory until
        the last round has begun.

    Raises:
        TypeError: as `collect`; or a layer of the environments cannot be saved.
        ValueError: as `collect`; or a number is out of range, or `select` does not choose rows.
    """
    branches, rounds = whole("branches", branches, 1), whole("rounds", rounds, 1)
    seed = whole("seed", seed, 0)
    if common not in (True, False, "siblings"):
        raise ValueError(f"common must be True, False or 'siblings', got {common!r}")
    envs = playable(envs)
    stack = inside(envs, envs)
    kept = SavedSteps(stack)
    builder, saved = kept.builder, kept.saved
    play_groups(
        stack, policy, builder, tasks=tasks, group_size=group_size, seed=seed, progress=progress, before_step=kept.save
    )
    forked = 0
    for number in range(rounds):
        table = builder.table()
        rows = selected(table, select)
        # A step that is chosen again gets new continuations.
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
        _play(stack, policy, builder, plan, seed, progress, kept.save if again else None)
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
    """Play continuations to their ends and return one trajectory each, in the order of the plan.

    `plan` holds continuations without a `parent` (else ValueError). Their names and `seed` determine all random
    numbers; names of `collect_tree` are tuples that begin with 0, 1 or 2. Continuations without a score are left out
    with a `RuntimeWarning`; other arguments and errors are those of `collect_tree`.
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
    """Return the continuations of a row's step, the `fork`-th chosen one."""
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
    """Play continuations, each in the next free place."""
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
