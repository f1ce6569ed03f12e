"""Vector wrappers: who plays, ends and begins, saved states, snapshots, advice; each form is its single one."""

import gc
import itertools
import math
import pickle
import tracemalloc
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wrappers
from agentgym.alfworld.player import ALFWorldPlayer
from agentgym.registry import ROWS
from agentgym.rollout import collect
from policies.scripted import ExpertPolicy
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import DISABLED, LEFT, RIGHT, SAME_STEP, Twin, begun, corridor
from tests.refusals import refuses
from wrappers import VectorSnapshots
from wrappers.advice import VectorAdvice
from wrappers.credit import GRPO
from wrappers.prompt import VectorPromptWindow, text_of
from wrappers.reply import VectorReplyParser
from wrappers.symbols import DiscreteActions, SymbolPlanes
from wrappers.vector_wrapper import Shown, SubEnvWrapper


class Keeping(wrappers.TaskGraphs):
    """Graphs that stop growing when they are results to: they are shared by all branches."""

    grows = True

    def add(self, task: Hashable, state: Hashable, next_state: Hashable, success: bool = False) -> None:
        if self.grows:
            super().add(task, state, next_state, success)


class Parrot:
    """Advises what it has seen least often, in the order of the list."""

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    def act(self, observation: str, admissible: Collection[str]) -> str:
        if not admissible:
            return f"nothing in {len(observation)} letters"
        chosen = min(admissible, key=lambda command: self.times.get(command, 0))
        self.times[chosen] = self.times.get(chosen, 0) + 1
        return chosen


def scores(steps: Sequence[wrappers.ScoredStep]) -> list[float | None]:
    return [None if len(step.reply) % 3 == 0 else float(len(str(step.action))) for step in steps]


def state_of(observation: Any, info: dict[str, Any]) -> str:
    return f"{len(text_of(observation))} {info['state_key']}"


def make_stack(
    env_id: str, count: int, mode: AutoresetMode, limit: int, transcript: bool, **kwargs: Any
) -> tuple[Any, Keeping]:
    """Return the stack and the graphs of its shaping."""
    envs: Any = gym.make_vec(
        env_id, count, autoreset_mode=mode, max_episode_steps=limit, expert=not transcript, **kwargs
    )
    graphs = Keeping()
    if transcript:
        envs = wrappers.VectorAdvice(envs, Parrot)
    envs = wrappers.VectorInvalidActionPenalty(wrappers.VectorReplyParser(envs))
    envs = wrappers.VectorGraphShaping(wrappers.CanonicalStates(envs, key=state_of), gamma=0.9, graphs=graphs)
    envs = (
        wrappers.VectorTranscript(envs) if transcript else wrappers.VectorPromptWindow(envs, history=3, keep_first=True)
    )
    return wrappers.GRPO(wrappers.VectorProcessReward(envs, scores, kind="value", gamma=0.9)), graphs


class Player:
    """Plays a stack: advice, admissible commands and nonsense, as its own generator says.

    Args:
        envs: the stack, just reset.
        infos: what it showed.
        over: whose episode has ended.
    """

    def __init__(self, envs: Any, infos: Mapping[str, Any], over: Sequence[bool] | None = None) -> None:
        self.envs, self.infos = envs, infos
        self.over = [False] * envs.num_envs if over is None else list(over)

    def reply(self, i: int, rng: np.random.Generator) -> str:
        if self.over[i] and self.envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            return ""
        commands, kind = self.infos["admissible_actions"][i], rng.random()
        if kind < 0.15 or not commands:
            return ("no tag", "<action>fly to the moon</action>", "<action></action>")[rng.integers(3)]
        command = self.infos["expert_action"][i] if kind < 0.6 else commands[rng.integers(len(commands))]
        return command if command.startswith("<") else f"<action>{command}</action>"

    def play(self, steps: int, seed: int, like: Mapping[int, int] | None = None) -> list[list[Any]]:
        """Return for each step what each sub-environment showed; `like`: who draws the numbers of whom."""
        rngs = [np.random.default_rng([seed, (like or {}).get(i, i)]) for i in range(self.envs.num_envs)]
        shown = []
        for _ in range(steps):
            replies = [self.reply(i, rng) for i, rng in enumerate(rngs)]
            observations, rewards, terminated, truncated, infos = self.envs.step(replies)
            self.infos, self.over = infos, (terminated | truncated).tolist()
            results = zip(rewards, terminated, truncated, strict=True)
            shown.append([[*seen(observations, infos, i), frozen(parts)] for i, parts in enumerate(results)])
        return shown


#: What a wrapper says of one that has not played.
IDLE = {"shaping": 0.0, "unshaped_reward": 0.0, "process_reward": float("nan"), "env_reward": 0.0}


class Singles(Twin):
    """A twin that is just reset and writes down what it does as `seen` does."""

    def __init__(self, envs: list[gym.Env[Any, Any]], mode: AutoresetMode, seed: int) -> None:
        super().__init__(envs, mode)
        for i in range(len(envs)):
            self.reset(i, seed + i)

    def written(self) -> list[list[Any]]:
        """Return for each what `seen` says of a sub-environment, where none has just ended."""
        return [[frozen(observation), frozen(info), False, {}, None] for observation, info in self.rows]

    def played(self, actions: Sequence[Any]) -> list[list[Any]]:
        """Play, and return for each what `seen` says of a sub-environment, and its reward and flags."""
        idle, answers = [any(flags) for flags in self.flags], self.step(actions)
        for i, (observation, info) in enumerate(self.rows):
            if idle[i] and self.mode is AutoresetMode.DISABLED:
                self.rows[i] = observation, {name: IDLE.get(name, value) for name, value in info.items()}
        rows = []
        for row, (*outcome, final) in zip(self.written(), answers, strict=True):
            ended = [True, frozen(final[1]), frozen(final[0])] if final else row[2:]
            rows.append([*row[:2], *ended, *map(frozen, outcome)])
        return rows


def seen(observations: Any, infos: Mapping[str, Any], i: int) -> list[Any]:
    """What sub-environment i shows, as values that can be compared."""
    plain = {name: column for name, column in infos.items() if not isinstance(column, dict)}
    final = infos.get("final_info", {})
    ended = "_final_info" in infos and bool(infos["_final_info"][i])
    own = {name: frozen(column[i]) for name, column in plain.items() if "final" not in name and name[0] != "_"}
    last = {name: frozen(column[i]) for name, column in final.items() if name[0] != "_"} if ended else {}
    return [frozen(observations[i]), own, ended, last, frozen(infos["final_obs"][i]) if ended else None]


def frozen(value: Any) -> Any:
    """Return a value that is equal for what is equal to the bit."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, (float, np.floating)):
        return np.float64(value).tobytes()
    if isinstance(value, Mapping):
        return {key: frozen(part) for key, part in value.items()}
    return [frozen(part) for part in value] if isinstance(value, (list, tuple)) else value


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


def test_a_masked_reset_of_gymnasiums_own_vector_environment_keeps_its_mask_and_adds_to_the_table() -> None:
    # It takes the mask out of the options it is given; a wrapper that reads them afterwards would see a full reset.
    envs = begun(Log(SyncVectorEnv([CorridorEnv] * 2, autoreset_mode=DISABLED)), seed=0)
    envs.log.clear()
    options = {"reset_mask": FIRST.copy()}
    envs.reset(options=options)
    assert options["reset_mask"].tolist() == [True, False]
    assert envs.log == [0]

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


@cache
def stacks(case: int, mode: AutoresetMode, transcript: bool) -> list[tuple[Any, Keeping]]:
    """Two stacks that are built alike."""
    name, more = CASES[case]
    data = {"data": "generated"} if "ALFWorld" in name else {}
    return [make_stack(name, PLACES, mode, LIMIT, transcript, **data, **more) for _ in range(2)]


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


def test_advice_follows_episodes_and_an_explorer_wins_by_its_own() -> None:
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
    envs = VectorReplyParser(VectorAdvice(make_alfworld("Disabled"), ALFWorldPlayer))
    table = collect(envs, ExpertPolicy(), tasks=[{"split": "valid_unseen", "index": i} for i in range(6)], seed=0)
    assert table.trajectory_won.mean() > 0.6


def opinions(steps: Any) -> list[float | None]:
    """Scores by a rule, silent at times."""
    found: list[float | None] = []
    for step in steps:
        before, after = (sum(map(ord, str(shown))) % 10 for shown in (step.messages, step.observation))
        silent = (before + after) % 3 == 0
        found.append(None if silent else 0.1 * after**2 - 0.3 * before + 0.01 * len(str(step.reply)))
    return found


#: Wrappers of replies, and those that score what is done anywhere; the vector form is called Vector and its name.
READING: list[tuple[str, dict[str, Any]]] = [
    ("InvalidActionPenalty", {"penalty": 0.25}),
    ("PromptWindow", {"history": 2, "admissible": True, "keep_first": True, "max_chars": 250, "facts": ("score",)}),
    ("Transcript", {"instructions": False}),
]
SCORING: list[tuple[str, dict[str, Any]]] = [
    ("GraphShaping", {"gamma": 0.9, "decay": 0.8, "key": lambda observation, info: str(observation)}),
    *(
        ("ProcessReward", {"scorer": opinions, "weight": 0.7, "kind": kind, "gamma": 0.9})
        for kind in ("contribution", "value", "advantage")
    ),
]
COMMANDS = ["left", "right", "right", "jump", "up"]
PICTURES: Any = {"id": "AgentRL/VisualSokoban-v0", "max_episode_steps": 6}
#: Of each world a single environment, our vector environment if there is one, and what is answered there.
WORLDS: dict[str, tuple[Callable[[], Any], Callable[..., Any] | None, Any]] = {
    "ours": (lambda: TimeLimit(CorridorEnv(), 6), partial(CorridorVectorEnv, max_episode_steps=6), COMMANDS),
    "stock": (lambda: TimeLimit(CorridorEnv(), 6), None, COMMANDS),
    "pictures": (partial(gym.make, **PICTURES), partial(gym.make_vec, **PICTURES), COMMANDS),
    "numbers": (partial(gym.make, "CartPole-v1", max_episode_steps=10), None, range(2)),
}
FORMS = [
    *((*form, world) for form, world in itertools.product([*READING, *SCORING], ("ours", "stock"))),
    *((*form, "numbers") for form in SCORING),
    (*READING[1], "pictures"),
]
#: Gymnasium's own vector environment steps what has ended where nothing begins by itself.
MODES = [(*case, mode) for case in FORMS for mode in AutoresetMode if mode is not DISABLED or WORLDS[case[2]][1]]


@pytest.mark.parametrize(("name", "options", "world", "mode"), MODES)
def test_a_vector_wrapper_is_its_single_form_in_every_place(
    name: str, options: dict[str, Any], world: str, mode: AutoresetMode
) -> None:
    n, rng = 3, np.random.default_rng(1)
    make, ours, answers = WORLDS[world]
    envs = ours(num_envs=n, autoreset_mode=mode) if ours else SyncVectorEnv([make] * n, autoreset_mode=mode)
    inner = [make() for _ in range(n)]
    if (name, options) in READING:
        answers = [f"<action>{command}</action>" for command in answers]
        envs, inner = wrappers.VectorReplyParser(envs), [wrappers.ReplyParser(env) for env in inner]
    shared = {"graphs": wrappers.TaskGraphs()} if name == "GraphShaping" else {}
    envs = getattr(wrappers, f"Vector{name}")(envs, **options)
    singles = Singles([getattr(wrappers, name)(env, **options, **shared) for env in inner], mode, seed=5)
    envs.reset(seed=5)
    ended = 0
    for _ in range(100):
        actions = rng.choice(answers, n).tolist()
        observations, *outcomes, infos = envs.step(actions)
        found = [[*seen(observations, infos, i), *(frozen(each[i]) for each in outcomes)] for i in range(n)]
        assert found == singles.played(actions)
        assert observations in envs.observation_space
        over = outcomes[1] | outcomes[2]
        assert envs.idle.tolist() == [bool(each) and mode is not AutoresetMode.SAME_STEP for each in over]
        for name, ends in infos.get("final_info", {}).items():
            assert name[0] != "_" or ends.tolist() == over.tolist()
        ended += int(over.sum())
        begins = over & (rng.random(n) < 0.5)
        if mode is DISABLED and begins.any():
            observations, infos = envs.reset(options={"reset_mask": begins})
            for i in np.flatnonzero(begins).tolist():
                singles.reset(i)
            assert [seen(observations, infos, i) for i in range(n)] == singles.written()
    assert ended > 20


@cases(
    "make",
    lambda: wrappers.ReplyParser(CorridorEnv()),
    lambda: wrappers.InvalidActionPenalty(CorridorEnv()),
    lambda: wrappers.PromptWindow(wrappers.ReplyParser(gym.make("AgentRL/Sokoban-v0")), admissible=True),
    lambda: wrappers.PromptWindow(wrappers.ReplyParser(gym.make("AgentRL/VisualSokoban-v0")), admissible=True),
    lambda: wrappers.Transcript(gym.make("AgentRL/Sokoban-v0"), instructions=False, admissible=True),
    lambda: wrappers.ProcessReward(gym.make("AgentRL/Sokoban-v0"), lambda steps: [0.5]),
    lambda: wrappers.ProcessReward(gym.make("FrozenLake-v1"), lambda steps: [1.0], kind="value"),
    lambda: wrappers.GraphShaping(gym.make("FrozenLake-v1"), gamma=0.97, key=lambda observation, info: observation),
    lambda: wrappers.GraphShaping(DiscreteActions(SymbolPlanes(gym.make("AgentRL/Sokoban-v0"))), gamma=0.99),
)
def test_single_forms_pass_gymnasiums_check(make: Callable[[], gym.Env[Any, Any]]) -> None:
    check_env(make(), skip_render_check=True)


#: What they need beside the environment.
NEEDED: dict[str, dict[str, Any]] = {"GraphShaping": {"gamma": 0.9}, "ProcessReward": {"scorer": opinions}}


@cases(
    "name, options, error, words",
    ("GraphShaping", {"gamma": 0.0}, ValueError, "gamma must be above 0 and at most 1, got 0.0"),
    ("GraphShaping", {"gamma": "0.9"}, TypeError, "gamma must be a number, got '0.9'"),
    ("GraphShaping", {"decay": True}, TypeError, "decay must be a number, got True"),
    ("GraphShaping", {"decay": 1.1}, ValueError, "decay"),
    ("GraphShaping", {"scale": -1.0}, ValueError, "scale"),
    ("GraphShaping", {"truncation": "drop"}, ValueError, "unknown truncation 'drop'; known: 'keep', 'zero'"),
    ("GraphShaping", {"graphs": {}}, TypeError, "TaskGraphs"),
    ("GraphShaping", {"key": "state_key"}, TypeError, "key must be a function"),
    ("ProcessReward", {"scorer": 0.5}, TypeError, "scorer must be a function from steps to scores, got 0.5"),
    ("ProcessReward", {"weight": "1"}, TypeError, "weight must be a number, got '1'"),
    ("ProcessReward", {"weight": math.nan}, ValueError, "weight must be finite, got nan"),
    ("ProcessReward", {"gamma": None}, TypeError, "gamma must be a number, got None"),
    ("ProcessReward", {"gamma": 0.0}, ValueError, "gamma must be above 0 and at most 1, got 0.0"),
    ("ProcessReward", {"kind": "level"}, ValueError, "kind 'level'; known: 'contribution', 'value', 'advantage'"),
    ("PromptWindow", {"history": -1}, ValueError, "history must be None or at least 0, got -1"),
    ("PromptWindow", {"history": 2.0}, TypeError, "history must be None or an integer, got 2.0"),
    ("PromptWindow", {"max_chars": 0}, ValueError, "max_chars must be None or at least 1, got 0"),
    ("PromptWindow", {"max_chars": "80"}, TypeError, "max_chars must be None or an integer"),
    ("InvalidActionPenalty", {"penalty": -0.1}, ValueError, "at least 0"),
    ("InvalidActionPenalty", {"penalty": math.inf}, ValueError, "at least 0"),
)
def test_wrong_arguments_are_explained_by_both_forms(
    name: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    for form, env in ((name, CorridorEnv()), (f"Vector{name}", CorridorVectorEnv(1))):
        refuses(error, words, getattr(wrappers, form), env, **{**NEEDED.get(name, {}), **options})
