"""Trees of rollouts: where they branch, and what they cost."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.registry import ROWS
from agentgym.rollout import act_each, collect
from agentgym.rollout import tree as trees
from agentgym.rollout.tree import TreeCost, collect_tree, continued, every, highest_entropy, selected
from agentgym.trajectory import Ending, Reply, StepTable
from policies.scripted import ExpertPolicy, RandomPolicy, tagged
from tests.agentgym.rollout.test_groups import Forgetful, UnjudgedEnv, check_corridor_dynamics
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import of, walks
from tests.refusals import refuses
from wrappers import VectorPromptWindow, VectorReplyParser, VectorTranscript

TASKS = [{"index": 2}, {"index": 1}]


class Coin:
    """Walks right with probability .6; its number stands in the reply's log-probability."""

    def act(self, observations: Sequence[str], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        return self.act_each(observations, infos, [rng] * len(observations))

    def act_each(self, observations: Sequence[str], infos: Mapping[str, Any], rngs: Sequence[Any]) -> list[Reply]:
        numbers = [rng.random() for rng in rngs]
        return [Reply("right" if number < 0.6 else "left", (0,), (1,), (number,)) for number in numbers]


class OneByOne:
    """The same without `act_each`; counts how many observations it is shown at a time."""

    most = 0

    def act(self, observations: Sequence[str], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        assert len(observations) == len(infos["won"])
        self.most = max(self.most, len(observations))
        return Coin().act(observations, infos, rng)


class NoisyEnv(CorridorEnv):
    """The corridor, where the environment draws a number in each step that is seen in the state."""

    noise = 0.0

    def begin(self, options: dict[str, Any]) -> None:
        super().begin(options)
        self.noise = 0.0

    def act(self, command: str) -> tuple[float, bool, bool]:
        self.noise = float(self.np_random.random())
        return super().act(command)

    def describe(self, valid: bool) -> dict[str, Any]:
        return {**super().describe(valid), "state_key": f"{self.cell} {self.noise}"}

    def get_state(self) -> Any:
        return self.noise, super().get_state()

    def set_state(self, state: Any) -> None:
        self.noise, cells = state
        super().set_state(cells)


def corridors(places: int, kind: type[CorridorEnv] = CorridorEnv) -> Any:
    return of(kind, places, max_episode_steps=12)


def tree(places: int = 8, policy: Any = None, kind: type[CorridorEnv] = CorridorEnv, **given: Any) -> StepTable:
    arguments = {"tasks": TASKS, "group_size": 3, "branches": 2, "seed": 7, **given}
    return collect_tree(corridors(places, kind), policy or Coin(), **arguments)


def own(table: StepTable, trajectory: int) -> np.ndarray:
    return table.order[table.offsets[trajectory] : table.offsets[trajectory + 1]]


def numbers(table: StepTable, trajectory: int) -> list[float]:
    """The policy's numbers in a trajectory's own steps."""
    return [table.replies[row].logprobs[0] for row in own(table, trajectory)]


def noises(table: StepTable, trajectory: int) -> list[float]:
    """The environment's numbers in a trajectory's own steps."""
    return [float(str(table.states[table.next_state[row]]).split()[1]) for row in own(table, trajectory)]


def agree(one: list[float], other: list[float]) -> bool:
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def differ(one: list[float], other: list[float]) -> bool:
    return not set(one) & set(other)


def continuations(table: StepTable, roots: int, branches: int) -> list[list[int]]:
    """Trajectories by the step that they continue."""
    return np.arange(roots, table.n_trajectories).reshape(-1, branches).tolist()


def test_the_episodes_are_those_of_collect_and_every_step_is_continued() -> None:
    table = tree()
    roots = collect(corridors(8), Coin(), tasks=TASKS, group_size=3, seed=7)
    assert table.to_trajectories()[:6] == roots.to_trajectories()
    assert table.n_trajectories == 6 + 2 * len(roots)
    for row, pair in enumerate(continuations(table, 6, 2)):
        for child in pair:
            # Where the step was taken: its state, its t, its group; before it, the row before it.
            first = own(table, child)[0]
            assert (table.state[first], table.group[first]) == (roots.state[row], roots.group[row])
            assert table.parent[child] == (-1 if roots.t[row] == 0 else row - 1)
            assert table.t[first] == roots.t[row]
    check_corridor_dynamics(table.unfolded()[0])
    for i in range(table.n_trajectories):
        rows = table.chain(i)
        assert table.t[rows].tolist() == list(range(len(rows)))
        cut = table.endings[i] is Ending.TIME_LIMIT
        assert (len(rows) == 12) if cut else (len(rows) <= 12)
    StepTable.from_trajectories(table.to_trajectories())


def test_continuations_meet_the_luck_of_their_number_in_all_steps_or_under_common_numbers() -> None:
    table = tree(kind=NoisyEnv)
    found = continuations(table, 6, 2)
    for one in found:
        assert differ(numbers(table, one[0]), numbers(table, one[1]))
        assert differ(noises(table, one[0]), noises(table, one[1]))
        for other in found:
            same_group = table.trajectory_group[one[0]] == table.trajectory_group[other[0]]
            for k in (0, 1):
                assert (agree if same_group else differ)(numbers(table, one[k]), numbers(table, other[k]))
                assert (agree if same_group else differ)(noises(table, one[k]), noises(table, other[k]))
    table = tree(select=lambda table: np.flatnonzero((table.state == table.state[0]) & (table.group == 0)))
    assert table.n_trajectories > 8
    for k in (0, 1):
        found = [own(table, pair[k]) for pair in continuations(table, 6, 2)]
        for rows in found:  # but for the limit, which comes sooner for some
            both = min(len(rows), len(found[0]))
            assert table.action[rows[:both]].tolist() == table.action[found[0][:both]].tolist()


def test_siblings_differ_by_their_first_numbers_alone_and_independent_continuations_share_nothing() -> None:
    table = tree(kind=NoisyEnv, common="siblings", branches=3)
    found = continuations(table, 6, 3)
    for one in found:
        for i, k in ((0, 1), (0, 2), (1, 2)):
            assert numbers(table, one[i])[0] != numbers(table, one[k])[0]
            assert agree(numbers(table, one[i])[1:], numbers(table, one[k])[1:])
            assert agree(noises(table, one[i]), noises(table, one[k]))
            actions = [table.action[own(table, one[j])].tolist() for j in (i, k)]
            assert (actions[0] == actions[1]) == (actions[0][0] == actions[1][0])
    for one, other in itertools.pairwise(found):
        assert differ(numbers(table, one[0]), numbers(table, other[0]))
        assert differ(noises(table, one[0]), noises(table, other[0]))
    table = tree(kind=NoisyEnv, common=False)
    for drawn in (numbers, noises):
        found = [drawn(table, i) for i in range(6, table.n_trajectories)]
        flat = [number for each in found for number in each]
        assert len(flat) == len(set(flat))


class Zigzag(Coin):
    """Its episodes are the same whatever is drawn; continuations are drawn."""

    def act(self, observations: Sequence[str], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        return [Reply("right", (0,), (1,), (0.0,)) for _ in observations]

    def act_each(self, *given: Any) -> list[Reply]:
        return Coin().act_each(*given)


@pytest.mark.parametrize("common", [True, False, "siblings"])
def test_neither_the_number_of_places_nor_company_matters(common: Any) -> None:
    tables = [tree(places, Zigzag(), NoisyEnv, common=common).to_trajectories() for places in (1, 3, 8, 64)]
    assert tables[0] == tables[1] == tables[2] == tables[3]


def test_policies_are_asked_by_what_they_define() -> None:
    policy = OneByOne()
    assert tree(6, policy).to_trajectories() == tree(6).to_trajectories()
    assert policy.most == 6  # in the episodes, not in the continuations:
    single = OneByOne()
    act_each(single, ["a", "b"], {"won": np.zeros(2, bool)}, [np.random.default_rng(0), np.random.default_rng(1)])
    assert single.most == 1

    class Left(Coin):
        def act(self, observations: Sequence[str], infos: Any, rng: np.random.Generator) -> list[Reply]:
            return [Reply("left") for _ in observations]

    rngs = [np.random.default_rng(i) for i in range(20)]
    assert {reply.text for reply in act_each(Left(), ["x"] * 20, {}, rngs)} == {"left"}
    assert {reply.text for reply in act_each(Coin(), ["x"] * 20, {}, rngs)} == {"left", "right"}
    infos = {"admissible_actions": np.array([("a", "b", "c"), (), ("a", "b", "c")], object)}
    rngs = [np.random.default_rng(3) for _ in range(3)]
    first, silent, last = RandomPolicy().act_each([""] * 3, infos, rngs)
    assert (first, silent.text) == (last, tagged(""))


def test_later_rounds_continue_continuations_and_what_trees_cost() -> None:
    chosen: list[int] = []

    def last_begun(table: StepTable) -> list[int]:
        """The second step of the youngest trajectory that has two."""
        youngest = max(i for i in range(table.n_trajectories) if len(own(table, i)) > 1)
        chosen.append(youngest)
        return [int(own(table, youngest)[1])]

    table = tree(select=last_begun, rounds=3, branches=1, common=False)
    assert table.n_trajectories == 6 + 3
    assert chosen[0] < 6 <= chosen[-1]
    for i in range(6, 9):
        assert table.trajectory[table.parent[i]] == chosen[i - 6]
        assert table.parent[i] == own(table, chosen[i - 6])[0]
    assert tree(select=last_begun, rounds=3, branches=1, common=False).to_trajectories() == table.to_trajectories()
    once = tree(select=lambda table: [0], branches=4)
    twice = tree(select=lambda table: [0], rounds=2, branches=2)
    played = [[[step.action for step in one.steps] for one in each.to_trajectories()] for each in (once, twice)]
    assert played[0] == played[1]
    seen: list[int] = []
    table = tree(places=4, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == table.n_trajectories
    table = tree(branches=1, select=every(3))
    whole, _ = table.unfolded()
    cost = TreeCost.of(table)
    assert cost == TreeCost(table.n_trajectories, len(table), len(table), 1 - len(table) / len(whole))
    assert 0 < cost.reused < 1
    assert TreeCost.of(collect(corridors(8), Coin(), tasks=TASKS, seed=0)).reused == 0.0
    table = tree(select=lambda table: np.empty(0))
    assert table.to_trajectories() == collect(corridors(8), Coin(), tasks=TASKS, group_size=3, seed=7).to_trajectories()


class Logged:
    """Plays what another policy does, and keeps what it was shown in the reply, where the table has it."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def act_each(self, observations: Sequence[Any], infos: Any, rngs: Any) -> list[Reply]:
        replies = act_each(self.policy, observations, infos, rngs)
        return [
            dataclasses.replace(reply, text=f"{len(str(shown))} {hash(str(shown))} {reply.text}")
            for reply, shown in zip(replies, observations, strict=True)
        ]

    def act(self, observations: Sequence[Any], infos: Any, rng: np.random.Generator) -> list[Reply]:
        return self.act_each(observations, infos, [rng] * len(observations))


def test_a_policy_without_luck_plays_the_rest_of_an_episode_again_behind_a_transcript() -> None:
    inner = gym.make_vec("AgentRL/Sokoban-v0", num_envs=4, autoreset_mode="Disabled", expert=True)
    envs = VectorTranscript(VectorReplyParser(inner))
    tasks = [{"split": "train", "index": i} for i in range(2)]
    table = collect_tree(envs, Logged(ExpertPolicy()), tasks=tasks, branches=1, select=every(2), seed=0)
    assert table.has_forks
    assert table.replies is not None
    for i in range(2, table.n_trajectories):
        rows = table.chain(i)
        (same,) = [root for root in range(2) if table.trajectory_group[root] == table.trajectory_group[i]]
        root = table.chain(same)
        assert table.state[rows].tolist() == table.state[root].tolist()
        # The replies hold what was shown: the whole conversation until there.
        assert [table.replies[row].text for row in rows] == [table.replies[row].text for row in root]
        assert table.endings[i] == table.endings[same]


@pytest.mark.parametrize("name", [row.id for row in ROWS])
def test_a_continuation_begins_with_what_was_shown_in_every_environment(name: str) -> None:
    envs = VectorPromptWindow(VectorReplyParser(gym.make_vec(name, num_envs=4, autoreset_mode="Disabled")))
    tasks = [{"index": i} for i in range(2)]
    table = collect_tree(envs, Logged(RandomPolicy()), tasks=tasks, group_size=2, branches=2, select=every(3), seed=1)
    assert table.n_trajectories > 4
    assert table.replies is not None
    shown = [" ".join(reply.text.split()[:2]) for reply in table.replies]
    next_row = {int(before): row for row, before in enumerate(table.previous) if table.trajectory[row] < 4}
    for i in range(4, table.n_trajectories):
        first = own(table, i)[0]
        if table.parent[i] < 0:
            roots = [own(table, k)[0] for k in range(4) if table.trajectory_group[k] == table.trajectory_group[i]]
            assert shown[first] in {shown[root] for root in roots}
        else:
            assert shown[first] == shown[next_row[int(table.parent[i])]]


def test_continuations_end_where_their_prompt_does_not_fit_and_unscored_ones_are_left_out() -> None:
    table = tree(policy=Forgetful("cell 3"), group_size=1, branches=1)
    # From cell 2: cells 2, 3 and there nothing more; from cell 1 one step more. Every step is continued once.
    assert [len(own(table, i)) for i in range(table.n_trajectories)] == [2, 3, 2, 1, 3, 2, 1]
    assert (set(table.endings), table.actions[table.action[own(table, 3)[-1]]]) == ({Ending.TIME_LIMIT}, "")
    assert TreeCost.of(table).environment_steps == len(table) - 7
    with pytest.warns(RuntimeWarning, match=r"\d+ of \d+ episodes have no score and are left out") as caught:
        table = tree(tasks=[{"index": 2}], kind=UnjudgedEnv, group_size=6, branches=3)
    assert [warning.filename for warning in caught] == [__file__]
    assert table.has_forks
    assert not [state for state in table.states if str(state).startswith("0")]


class UnjudgedVectorEnv(CorridorVectorEnv):
    env_class = UnjudgedEnv


def test_wrong_calls_and_answers() -> None:
    for name, wrong, least in (("branches", 0, 1), ("rounds", 1.5, 1), ("branches", math.nan, 1), ("seed", None, 0)):
        refuses(ValueError, f"{name} must be an integer of at least {least}, got {wrong}", tree, **{name: wrong})
    refuses(ValueError, "common must be True, False or 'siblings', got 'both'", tree, common="both")
    refuses(ValueError, r"unknown select 'al'; .*did you mean 'all'", tree, select="al")
    for rows in ([0.5], [[0]], [-1], [10**6], [True], np.ones(3, bool)):
        words = r"select must return row numbers, integers in 0\.\."
        refuses(ValueError, words, tree, select=lambda table, rows=rows: rows)
    given: Any = {"tasks": TASKS, "branches": 1, "seed": 0}
    refuses(ValueError, "autoreset DISABLED", collect_tree, CorridorVectorEnv(2), Coin(), **given)
    foreign = type("Foreign", (gym.vector.VectorWrapper,), {})(corridors(2))
    refuses(TypeError, "cannot be branched through Foreign", collect_tree, foreign, Coin(), **given)
    for counts in ([0], [2], [2, 0]):  # what was too much for one observation was played for the next one, or dropped
        refuses(ValueError, f"Answers.act answered {counts[0]} replies to 1 observations", tree, policy=Answers(counts))


class Answers(OneByOne):
    """Asked for one observation, answers as many replies as it is the turn of, again and again."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = itertools.cycle(counts)

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> Any:
        return super().act(observations, infos, rng) * (next(self.counts) if len(observations) == 1 else 1)


def test_continuations_begin_with_the_reply_of_the_plan_and_go_on_with_their_own_numbers():
    envs = VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=3, autoreset_mode="Disabled"))
    envs.reset(seed=[0] * 3, options=[{"split": "train", "index": 0}] * 3)
    begin = envs.snapshot(0)
    begins = None, Reply("<action>up</action>"), Reply("<action>left</action>")
    plan = [trees.Continuation(begin, "g", None, (5, k), (5, k), reply) for k in range(2) for reply in begins]
    table = continued(envs, RandomPolicy(), plan, seed=0)
    chosen = [table.actions[action] for action in table.action[table.order[table.offsets[:-1]]]]
    assert chosen[1:3] == chosen[4:] == ["up", "left"]
    assert table.groups == ("g",)
    # Alone and in another order it is the same.
    alone = continued(envs, RandomPolicy(), plan[4:5], seed=0)
    rows = table.order[table.offsets[4] : table.offsets[5]]
    assert [table.actions[a] for a in table.action[rows]] == [alone.actions[a] for a in alone.action]
    # The same numbers after the first step: a player that chooses the same first step plays the same.
    for k in (0, 3):
        for other in (k + 1, k + 2):
            if chosen[k] == chosen[other]:
                mine, theirs = (table.order[table.offsets[i] : table.offsets[i + 1]] for i in (k, other))
                np.testing.assert_array_equal(table.action[mine], table.action[theirs])
    refuses(ValueError, "without parents", continued, envs, RandomPolicy(), [plan[0]._replace(parent=(0, 0))], seed=0)


# Group g: a and b part at v; c parts from both at s (it meets "v" by another way); d (of group h) is alone.
#
#   a:  s -x-> v -x-> w -x-> end     rows 0 1 2
#   b:  s -x-> v -y-> w -x-> end     rows 3 4 5
#   c:  s -y-> v -y-> u -x-> end     rows 6 7 8
#   d:  s -x-> s -y-> end            rows 9 10
COLUMNS = {
    "group": ["g"] * 9 + ["h"] * 2, "trajectory": [*"aaabbbcccdd"], "t": [0, 1, 2] * 3 + [0, 1],
    "state": [*"svwsvwsvuss"], "action": [*"xxxxyxyyxxy"], "reward": [0] * 11, "won": [0] * 11,
    "next_state": ["v", "w", "end", "v", "w", "end", "v", "u", "end", "s", "end"],
}  # fmt: skip
TABLE = StepTable.from_arrays(**COLUMNS)


@cases(
    "select, rows",
    ("all", list(range(11))), ("distinct", [0, 1, 2, 8, 9]), ("visited-once", [8]), (every(1), list(range(11))),
    # s of group g is left by x and y; v after (s, x) as well. After (s, y) there is one episode only.
    ("first-disagreement", [0, 1]),
    (every(2), [0, 2, 3, 5, 6, 8, 9]), (lambda table: np.array([4, 4, 2]), [2, 4]), (lambda table: [], []),
)  # fmt: skip
def test_selections_by_hand(select, rows) -> None:
    found = selected(TABLE, select)
    assert (found.tolist(), found.dtype) == (rows, np.int64)


def test_the_earliest_visit_is_chosen_and_disagreement_counts_histories_not_states() -> None:
    table = walks({"a": "s x u x v x end", "b": "s x v x end"})
    assert selected(table, "distinct").tolist() == [0, 1, 4]  # v at t = 1 of b, not at t = 2 of a
    refuses(ValueError, r"every: n must be an integer of at least 1, got 0", every, 0)
    refuses(ValueError, r"highest_entropy: count must be an integer of at least 1, got 0", highest_entropy, 0)
    # e was cut from c after its first step, and leaves v by x where c left it by y: now that history disagrees too.
    more = {"group": "g", "trajectory": "e", "t": 1, "state": "v", "action": "x", "next_state": "end"}
    columns = {name: [*column, more.get(name, 0)] for name, column in COLUMNS.items()}
    table = StepTable.from_arrays(**columns, parent={"e": ("c", 0)})
    assert selected(table, "first-disagreement").tolist() == [0, 1, 7]


@given(st.permutations(range(11)))
def test_the_order_of_rows_only_chooses_among_equal_ones(order) -> None:
    table = StepTable.from_arrays(**{name: [column[i] for i in order] for name, column in COLUMNS.items()})
    for name in trees.SELECTIONS:
        rows = [order[row] for row in selected(table, name)], selected(TABLE, name)
        found = [{(TABLE.group[row], TABLE.state[row], row if name == "all" else 0) for row in each} for each in rows]
        assert found[0] == found[1]


def test_entropy_is_the_mean_surprise_of_a_replys_tokens() -> None:
    def reply(*logprobs: float) -> Reply:
        return Reply("x", (1,), tuple(range(len(logprobs))), logprobs)

    # a: .1, (.2 + .6) / 2 = .4, .3; b: equal everywhere, the earlier come first; c: one step was not written.
    replies = [
        reply(-0.1), reply(-0.2, -0.6), reply(-0.3), *[reply(-1.0)] * 3, reply(-0.1), reply(-0.2),
        Reply("", finish="prompt-too-long"), reply(-3.0), reply(-2.0),
    ]  # fmt: skip
    table = StepTable.from_arrays(**COLUMNS, replies=replies)
    assert selected(table, highest_entropy(1)).tolist() == [1, 3, 7, 9]
    assert selected(table, highest_entropy(2)).tolist() == [1, 2, 3, 4, 6, 7, 9, 10]
    assert selected(table, highest_entropy(5)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]

    for none in (None, [None] * 11, [Reply("x")] * 11):
        table = StepTable.from_arrays(**COLUMNS, replies=none)
        refuses(ValueError, "row 0 has a reply without log-probabilities", selected, table, highest_entropy(1))
