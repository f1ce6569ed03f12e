"""The base of vector wrappers: who plays, ends and begins, and states that are saved; snapshots and advice on it."""

import gc
import itertools
import pickle
import tracemalloc
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.registry import ROWS
from agentgym.rollout import collect
from policies.scripted import ExpertPolicy
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import DISABLED, LEFT, RIGHT, SAME_STEP, begun, corridor
from tests.refusals import refuses
from tests.wrappers.whole_stack import Keeping, Player, make_stack, seen
from wrappers import VectorSnapshots
from wrappers.advice import VectorAdvice
from wrappers.credit import GRPO
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser
from wrappers.vector_wrapper import Shown, SubEnvWrapper

NO, FIRST = np.array([False, False]), np.array([True, False])


class Log(SubEnvWrapper[int]):
    """Counts steps, and notes who began."""

    def __init__(self, env):
        super().__init__(env)
        self.log = []

    def begin(self, indices, shown):
        self.log += indices
        for i in indices:
            self.states[i] = 0

    def advance(self, step):
        for i in step.played:
            self.states[i] += 1

    def columns(self):
        return {"count": np.array(self.states)}


def test_what_comes_from_inside_is_not_changed_and_a_mode_is_needed() -> None:
    bare = CorridorVectorEnv(1)
    bare.metadata = {}
    refuses(ValueError, "autoreset_mode", Log, bare)
    inside = {"n": np.array([7, 7]), "final_info": {"n": np.array([9, 9])}, "final_obs": np.array(["last"] * 2, object)}
    envs = CorridorVectorEnv(2, autoreset_mode=SAME_STEP)
    envs.step = lambda actions: (("a", "b"), np.zeros(2), FIRST, NO, inside)
    envs = VectorPromptWindow(Log(envs), instructions=False)
    envs.reset()
    envs.step(["left", "right"])
    assert (list(inside), list(inside["final_info"])) == (["n", "final_info", "final_obs"], ["n"])
    assert inside["final_obs"].tolist() == ["last", "last"]


def test_a_masked_reset_of_gymnasiums_own_vector_environment_keeps_its_mask() -> None:
    # It takes the mask out of the options it is given; a wrapper that reads them afterwards would see a full reset.
    envs = begun(Log(SyncVectorEnv([CorridorEnv] * 2, autoreset_mode=DISABLED)), seed=0)
    envs.log.clear()
    options = {"reset_mask": FIRST.copy()}
    envs.reset(options=options)
    assert options["reset_mask"].tolist() == [True, False]
    assert envs.log == [0]


def test_a_masked_reset_of_gymnasiums_own_vector_environment_adds_to_the_table() -> None:
    envs = begun(GRPO(SyncVectorEnv([CorridorEnv] * 2, autoreset_mode=DISABLED)), seed=0, options={"index": 2})
    envs.step(("right", "left"))
    envs.step(("right", "right"))  # 0 has reached the end, 1 is back at its start
    envs.reset(options={"index": 2, "reset_mask": FIRST.copy()})
    for _ in range(2):
        envs.step(("left", "right"))
    table = envs.table()
    assert (table.n_trajectories, table.trajectory_won.tolist(), len(table)) == (3, [True, True, False], 2 + 4 + 2)


def test_infos_and_observations_of_one_sub_environment() -> None:
    infos = {
        "won": np.array([True, False]),
        "hint": np.array([0, 7]),
        "_hint": np.array([False, True]),
        "picture": np.arange(4).reshape(2, 2),
        "inner": {"depth": np.array([1.5, 2.5]), "_depth": np.array([True, False])},
        "shared": "no column",
    }
    shown = Shown(gym.spaces.Discrete(4), np.array([3, 1]), infos)
    first, second = shown.info(0), shown.info(1)
    assert first.pop("picture").tolist() == [0, 1]
    assert second.pop("picture").tolist() == [2, 3]
    assert (first, second) == ({"won": True, "inner": {"depth": 1.5}}, {"won": False, "hint": 7, "inner": {}})
    assert {type(value) for value in second.values()} == {bool, int, dict}
    space = gym.spaces.Tuple([gym.spaces.Discrete(4), gym.spaces.Dict(a=gym.spaces.Discrete(2))])
    assert Shown(space, (np.array([3, 1]), {"a": np.array([0, 1])}), {}).observation(1) == (1, {"a": 1})


COUNT = 128

REPLIES = [f"<action>{move}</action>" for move in ("up", "right", "down", "left")]


class Hoarder(SubEnvWrapper[None]):
    """Keeps every state that was restored."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.kept: list[Any] = []

    def begin(self, indices: Any, shown: Any) -> None:
        pass

    def restore(self, indices: Any, states: Any, seeds: Any = None) -> Any:
        self.kept += [(i, tuple(state)) for i, state in zip(indices, states, strict=True)]
        return super().restore(indices, states, seeds)


def grown(envs: Any, forks: int) -> int:
    """Bytes that are held more after so many forks, each into seven others, and a step now and then."""
    envs.reset(seed=[0] * COUNT, options={"index": 0})
    first = [envs.snapshot(0)] * COUNT

    def fork(times: int) -> None:
        for k in range(times):
            others = [(k + 16 * j) % COUNT for j in range(1, 8)]
            envs.fork(k % COUNT, others, None if k % 3 else [k] * 7)
            if k % 25 == 0:
                envs.step(REPLIES * (COUNT // 4))
            if k % 100 == 99:
                envs.restore(range(COUNT), first)

    fork(100)
    gc.collect()
    tracemalloc.start()
    try:
        fork(100)  # what is measured begins with objects of the same age
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        fork(forks)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_a_thousand_forks_of_128_sub_environments_leak_nothing() -> None:
    credit, graphs = make_stack("AgentRL/Sokoban-v0", COUNT, DISABLED, 50, transcript=False)
    graphs.grows = False
    envs = credit.env  # a credit wrapper keeps what was played: that is its purpose
    assert grown(envs, 1000) < 50_000
    assert grown(Hoarder(envs), 200) > 100_000  # a tuple for each of 1,400 states


PLACES, LIMIT = 3, 7

CASES: list[tuple[str, dict[str, Any]]] = [
    *((row.id, {}) for row in ROWS),
    ("AgentRL/WebShop-v0", {"noise": (0.7, 0.5), "num_products": 300}),
    ("AgentRL/SOTOPIA-v0", {"order": "random", "role": "random"}),
]

CASES = [(name, {"data": "generated", **more} if "ALFWorld" in name else more) for name, more in CASES]


@cache
def stacks(case: int, mode: AutoresetMode, transcript: bool) -> list[tuple[Any, Keeping]]:
    """Two stacks that are built alike."""
    name, more = CASES[case]
    return [make_stack(name, PLACES, mode, LIMIT, transcript, **more) for _ in range(2)]


@pytest.mark.filterwarnings("ignore:.*the policy's commands:UserWarning")
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{name[8:-3]}{'+' * bool(more)}" for name, more in CASES])
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_playing_on_from_a_fork_is_playing_on(case: int, mode: AutoresetMode, data: st.DataObject) -> None:
    seed, before = data.draw(st.integers(0, 500), "seed"), data.draw(st.integers(0, 12), "steps before the cut")
    transcript = data.draw(st.booleans(), "transcript")
    source, target = data.draw(st.permutations(range(PLACES)), "source and target")[:2]
    (envs, graphs), (others, their_graphs) = stacks(case, mode, transcript)
    graphs.grows = their_graphs.grows = True
    graphs.load_state_dict(Keeping().state_dict())

    player = Player(envs, envs.reset(seed=seed)[1])
    shown = player.play(before, seed)
    saved = [envs.snapshot(i) for i in range(PLACES)]
    if data.draw(st.booleans(), "pickled"):
        saved = pickle.loads(pickle.dumps(saved))
    over = list(player.over)
    their_graphs.load_state_dict(graphs.state_dict())
    graphs.grows = their_graphs.grows = False  # what siblings find out is not part of a branch
    on = player.play(9, seed + 1)

    # all of them, here and in another stack, in another order
    order = data.draw(st.permutations(range(PLACES)), "order")
    others.reset(seed=seed + 7)
    for stack in (envs, others):
        observations, again = stack.restore(order, [saved[i] for i in order])
        if shown:
            now = [seen(observations, again, i) for i in range(PLACES)]
            assert [entries[:2] for entries in now] == [entries[:2] for entries in shown[-1]]
        assert Player(stack, again, over).play(9, seed + 1) == on

    # one of them in two places
    envs.restore(range(PLACES), saved)
    observations, again = envs.fork(source, target)
    assert seen(observations, again, target) == seen(observations, again, source)
    over[target] = over[source]
    forked = Player(envs, again, over).play(9, seed + 1, like={target: source})
    assert [step[target] for step in forked] == [step[source] for step in on]
    rest = [i for i in range(PLACES) if i != target]
    assert [[step[i] for i in rest] for step in forked] == [[step[i] for i in rest] for step in on]


def make(num_envs: int, mode: Any = DISABLED) -> VectorReplyParser:
    return VectorReplyParser(corridor(num_envs, mode, max_episode_steps=9))


def test_every_moment_can_be_continued_and_episodes_keep_their_number() -> None:
    envs, elsewhere = VectorSnapshots(make(2)), make(3)
    envs.reset(seed=0, options={"index": 2})
    _, _, _, _, infos = envs.step([RIGHT, LEFT])
    observations, shown = elsewhere.restore(range(3), [infos["snapshot"][i] for i in (0, 1, 0)])
    assert (observations, shown["command"].tolist()) == (("cell 3", "cell 1", "cell 3"), ["right", "left", "right"])
    _, rewards, terminated, _, _ = elsewhere.step([RIGHT, LEFT, LEFT])
    assert (rewards.tolist(), terminated.tolist()) == ([1.0, 0.0, 0.0], [True, True, False])
    envs = VectorSnapshots(make(3))
    _, infos = envs.reset(seed=0, options={"index": 3})
    assert infos["episode_number"].tolist() == [0, 1, 2]
    infos = envs.step([RIGHT, LEFT, RIGHT])[-1]
    assert infos["episode_number"].tolist() == [0, 1, 2]
    _, infos = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert infos["episode_number"].tolist() == [3, 1, 4]
    _, infos = envs.fork(1, [2])
    assert infos["episode_number"].tolist() == [3, 1, 1]
    before = begun(VectorSnapshots(make(3)), seed=0, options={"index": 3})
    envs = VectorSnapshots(make(2))
    envs.restore(range(2), [before.snapshot(0), before.snapshot(2)])
    _, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    assert infos["episode_number"].tolist() == [3, 2]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_where_episodes_begin_by_themselves_they_get_new_numbers(mode) -> None:
    envs = begun(VectorSnapshots(make(2, mode)), seed=0, options={"index": 3})
    infos = envs.step([RIGHT, LEFT])[-1]
    if mode == "NextStep":
        assert infos["episode_number"].tolist() == [0, 1]
        infos = envs.step([RIGHT, RIGHT])[-1]
    else:
        assert infos["final_info"]["episode_number"].tolist() == [0, 0]  # of the first; the second goes on
        assert "snapshot" not in infos["final_info"]
    assert infos["episode_number"].tolist() == [2, 1]


class Counting:
    """Answers the first admissible command, and counts how often it was asked."""

    def __init__(self, number):
        self.number, self.asked = number, 0

    def act(self, observation, admissible):
        self.asked += 1
        return f"{self.number}.{self.asked}.{len(admissible) > 0}.{'task' in observation}"


def counting():
    """A maker of advisers with the numbers 1, 2, ..."""
    numbers = itertools.count(1)
    return lambda: Counting(next(numbers))


def make_alfworld(mode, **options):
    return gym.make_vec("AgentRL/ALFWorld-v0", num_envs=2, autoreset_mode=mode, data="generated", **options)


def advice(infos):
    return infos["expert_action"].tolist()


def test_advice_follows_episodes() -> None:
    envs = VectorAdvice(make_alfworld("Disabled", max_episode_steps=2), counting())
    assert advice(envs.reset(seed=0)[1]) == ["1.1.True.True", "2.1.True.True"]
    assert advice(envs.step(["look", "help"])[-1]) == ["1.2.True.False", "2.2.True.False"]
    assert advice(envs.step(["look", "help"])[-1]) == ["", ""]
    assert advice(envs.reset(options={"reset_mask": np.array([False, True])})[1]) == ["", "3.1.True.True"]
    envs = begun(VectorAdvice(make_alfworld("SameStep", max_episode_steps=1), counting()), seed=0)
    infos = envs.step(["look", "look"])[-1]
    assert advice(infos) == ["3.1.True.True", "4.1.True.True"]
    assert infos["final_info"]["expert_action"].tolist() == ["", ""]
    refuses(TypeError, "must make an adviser", VectorAdvice, make_alfworld("Disabled"), "explorer")


def test_an_explorer_that_advises_wins_without_the_environments_expert():
    from agentgym.alfworld.player import ALFWorldPlayer

    envs = VectorReplyParser(VectorAdvice(make_alfworld("Disabled"), ALFWorldPlayer))
    table = collect(envs, ExpertPolicy(), tasks=[{"split": "valid_unseen", "index": i} for i in range(6)], seed=0)
    assert table.trajectory_won.mean() > 0.6
