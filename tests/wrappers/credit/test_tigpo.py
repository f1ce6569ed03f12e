import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corridor import CorridorVectorEnv
from tests.refusals import refuses
from tests.wrappers.credit.every_method import EMPTY
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit import TaskGraphs, graphgpo, grpo
from wrappers.credit.tigpo import TIGPO, distances_with, task_scores, tigpo

# Nobody wins now: from s, right leads to u, left to v.
TABLE = episodes("s -right-> u -on-> w", "s -left-> v -on-> w", "s -left-> v -back-> s")
STEPS = {"gamma": 0.5, "std": "none", "alpha_episode": 0.0}


def remembered(*lines: str) -> TaskGraphs:
    history = TaskGraphs()
    history.add_table(episodes(*lines))
    return history


def test_ways_by_hand() -> None:
    # Somebody won from v before, in two steps over x: u knows no way, v is two away, and so s three.
    history = remembered("v -try-> x -in-> goal +")
    assert distances_with(TABLE, history).tolist() == [np.inf, np.inf, 2, np.inf, 2, 3]
    # Out of s: 0 1/4 1/4, mean 1/6; out of v: 0 and 1/8.
    expected = [-1 / 6, 0, 1 / 12, -1 / 16, 1 / 12, 1 / 16]
    assert tigpo(TABLE, history=history, **STEPS) == pytest.approx(expected)
    assert (tigpo(TABLE, **STEPS) == 0).all()
    # Of another task it knows nothing.
    other = TaskGraphs()
    other.add("another", "v", "goal", success=True)
    assert (tigpo(TABLE, history=other, **STEPS) == 0).all()
    # a wins over u, b is cut from a in u and loses, c loses at once: nothing of the first step counts twice.
    forked = episodes("s -right-> u -up-> goal +", "0.0: u -down-> pit", "s -left-> pit")
    half = 0.5**0.5
    assert tigpo(forked, alpha_episode=0.0) == pytest.approx([half, half, -half, -half], abs=1e-5)
    # Of the episodes a-a, a-b and c one wins; the shared first step has the mean of the first two.
    whole = tigpo(forked, alpha_step=0.0, std="none")
    assert whole == pytest.approx([(2 / 3 - 1 / 3) / 2, 2 / 3, -1 / 3, -1 / 3])
    # Before: a leads to b, nobody won. Now b wins; and a, seen again, is two steps from success.
    history = remembered("a -on-> b")
    table = episodes("b -in-> goal +", "c -to-> a", "c -to-> d")
    assert distances_with(table, history).tolist() == [0, 2, np.inf]
    assert distances_with(table, None).tolist() == [0, np.inf, np.inf]


def test_history_is_not_changed_and_refused_steps_are_not_remembered() -> None:
    history = remembered("s -wild-> goal +")
    before = history.state_dict()
    scores = tigpo(TABLE, history=history, **STEPS)
    assert history.state_dict() == before
    # s is one step away now; only the present steps out of s are compared: no 1 of "wild" in their mean.
    assert scores[[0, 2, 4]].sum() == pytest.approx(0)
    history = TaskGraphs()
    history.add_table(episodes("s -push!-> Noise -up-> goal +"))
    assert history.distance(0, "s") == np.inf
    everything = TaskGraphs()
    everything.add_table(episodes("s -push!-> Noise -up-> goal +"), valid_only=False)
    assert everything.distance(0, "s") == 2
    table = random_table(3, win=0.5)
    scores = task_scores(table)
    assert list(scores) == list(table.groups)
    for i, name in enumerate(table.groups):
        assert scores[name].tolist() == table.trajectory_won[table.trajectory_group == i].tolist()
    assert tigpo(EMPTY, earlier={0: [1]}).shape == (0,)
    words = r"earlier\[0\] must hold one finite number per episode, .*; episode 1 has nan"
    refuses(ValueError, words, tigpo, TABLE, earlier={0: [1, np.nan]})


def test_episodes_are_compared_with_earlier_ones_too():
    table = episodes("s -a-> goal +", "s -b-> pit")
    options = {"alpha_step": 0.0, "std": "none"}
    # Earlier 1 1 0 0: the mean of six is 1/2. Earlier all won: 5/6.
    assert tigpo(table, earlier={0: [1, 1, 0, 0]}, **options) == pytest.approx([0.5, -0.5])
    assert tigpo(table, earlier={0: [1, 1, 1, 1]}, **options) == pytest.approx([1 / 6, -5 / 6])
    # A deviation is over all six: 1 1 1 1 1 0.
    spread = np.std([1, 1, 1, 1, 1, 0], ddof=1)
    scored = tigpo(table, earlier={0: [1, 1, 1, 1]}, alpha_step=0.0, eps=0.0)
    assert scored == pytest.approx(np.array([1 / 6, -5 / 6]) / spread)
    # Without earlier ones it is GRPO; those of other tasks play no part.
    assert tigpo(table, earlier={"another": [1, 1]}, alpha_step=0.0) == pytest.approx(grpo(table, outcome="won"))
    # A lone episode has something to be compared with.
    assert tigpo(episodes("s -a-> goal +"), earlier={0: [0, 0]}, **options) == pytest.approx([2 / 3])


@given(seed=st.integers(0, 10**6))
def test_without_history_it_is_graphgpo_where_no_way_is_worth_0(seed):
    table = random_table(seed, win=0.5)
    same = {"unit": "visit", "exponent": "next", "unreachable": "infinite", "omega": 0.5}
    close(tigpo(table, gamma=0.5), graphgpo(table, **same))
    # A table that was remembered tells itself nothing new.
    history = TaskGraphs()
    history.add_table(table, valid_only=False)
    close(tigpo(table, gamma=0.5, history=history), tigpo(table, gamma=0.5))


def play(envs: TIGPO, *replies: str) -> None:
    envs.reset(seed=0, options={"index": 1})
    for reply in replies:
        envs.step([reply] * envs.num_envs)


def test_the_wrapper_remembers_when_it_is_told_to():
    # Cell 1 of 5; the goal is to the right.
    envs = TIGPO(CorridorVectorEnv(2, max_episode_steps=4, autoreset_mode="Disabled"), std="none")
    play(envs, "right", "right", "right", "right")
    first = envs.table()
    assert first.trajectory_won.all()
    assert len(envs.history) == 0
    envs.remember()
    assert len(envs.history) == 1
    assert envs.earlier[first.groups[0]].tolist() == [1, 1]
    # Now all lose, against those who won before.
    play(envs, "left", "left", "left", "left")
    assert not envs.table().trajectory_won.any()
    assert (envs.advantages() < 0).any()
    refuses(ValueError, "gamma must be above 0", TIGPO, CorridorVectorEnv(2), gamma=0)
