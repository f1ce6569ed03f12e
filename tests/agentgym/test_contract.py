"""What every registered environment promises, tested over the whole registry."""

import copy
import itertools
import json
import pickle
from functools import cache, partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics

from agentgym import branching
from agentgym.core import INFO_TYPES
from agentgym.registry import ROWS
from tests.agentgym.indices import check_indices, refusal
from tests.goldens.environments import VARIANTS
from tests.playing import begun
from tests.processes import printed
from tests.refusals import refuses
from tests.robustness.playing import FORMS, check_vector, texts_in

IDS = [row.id for row in ROWS]
pytestmark = pytest.mark.parametrize("env_id", IDS)
#: How often a step is the expert's, any admissible one, and nonsense.
WISHED = (0.5, 0.4, 0.1)


def forms(env_id: str) -> list[dict[str, Any]]:
    """Options of the environment as it is, and of those forms of it whose episodes are frozen."""
    return [{}, *VARIANTS.get(env_id.removeprefix("AgentRL/").removesuffix("-v0"), {}).values()]


def choose(info: dict[str, Any], rng: np.random.Generator) -> str:
    """An admissible action most of the time, else nonsense."""
    actions = info["admissible_actions"]
    if len(actions) == 0 or rng.random() < 0.2:
        return str(rng.choice(["", "fly to the moon", "UP!", "<action>up"]))
    return str(actions[rng.integers(len(actions))])


@pytest.mark.filterwarnings("error::UserWarning")
def test_check_env(env_id: str) -> None:
    check_env(gym.make(env_id).unwrapped, skip_render_check=False)


def test_info_has_the_same_keys_and_types_at_every_step(env_id: str) -> None:
    env = gym.make(env_id)
    rng = np.random.default_rng(0)
    for seed in range(5):
        observation, info = env.reset(seed=seed)
        keys = set(info)
        over = False
        while not over:
            assert observation in env.observation_space
            assert set(info) == keys
            for key, kind in INFO_TYPES.items():
                assert type(info[key]) is kind, key
            action = choose(info, rng)
            admissible = action in info["admissible_actions"]
            observation, reward, terminated, truncated, info = env.step(action)
            assert type(reward) is float
            assert not admissible or info["is_action_valid"]
            over = terminated or truncated
            assert not info["won"] or over


def test_every_task_of_a_split_has_an_index_and_an_id_and_their_number_is_where_indices_end(env_id: str) -> None:
    env: Any = gym.make(env_id).unwrapped
    other = gym.make(env_id)
    for split in env.tasks.splits:
        count = env.num_tasks(split)
        first = list(itertools.islice(env.task_ids(split), 5))
        assert len(first) == min(count, 5)
        for index, task_id in enumerate(first):
            shown, info = env.reset(seed=1, options={"split": split, "index": index})
            again, same = other.reset(seed=1, options={"task_id": task_id})
            assert data_equivalence(shown, again)
            assert (same, info["task_id"]) == (info, task_id)
        if count < 20_000:
            assert sum(1 for _ in env.task_ids(split)) == count
    for wrong in ("no such split", 3, None):
        for method in (env.num_tasks, env.task_ids):
            refuses(ValueError, r"unknown split .*known: ", method, wrong)
    assert "test" in env.tasks.splits or "use " in refusal(env, {"split": "test"})
    for split in env.tasks.splits:
        check_indices(env, split)


def test_an_option_that_is_none_is_not_given(env_id: str) -> None:
    env = gym.make(env_id)
    for given in ({}, {"index": 1}, {"split": env.unwrapped.tasks.splits[0], "index": 0}):
        expected = env.reset(seed=7, options=given)
        names = set(env.unwrapped.OPTIONS) - set(given)
        for options in ({**given, **dict.fromkeys(names)}, *({**given, name: None} for name in sorted(names))):
            found = env.reset(seed=7, options=options)
            assert data_equivalence(found[0], expected[0])
            assert found[1] == expected[1]
    task_id = env.reset(seed=7, options={"index": 2})[1]["task_id"]
    others = set(env.unwrapped.OPTIONS) - {"task_id"}
    assert env.reset(options={"task_id": task_id, **dict.fromkeys(others)})[1]["task_id"] == task_id


def test_indices_may_be_of_numpy_and_those_and_ids_that_are_none_are_refused(env_id: str) -> None:
    env = gym.make(env_id)
    expected = env.reset(seed=0, options={"index": 2})[1]["task_id"]
    for index in (np.int64(2), np.int8(2), np.uint64(2)):
        assert env.reset(seed=0, options={"index": index})[1]["task_id"] == expected
    task_id = env.reset(seed=0, options={"task_id": np.str_(expected)})[1]["task_id"]
    assert (task_id, type(task_id)) == (expected, str)
    for index in (-1, np.int64(-1), 1.0, np.float64(0), True, np.True_, "0", [0], np.array([0]), (), b"0"):
        refuses(ValueError, "option 'index' must be an integer of at least 0", env.reset, options={"index": index})
    for task_id in ("", "no/such/task/7", "\x00", "train/-1", "9" * 5000, "train/" + "9" * 5000, 3, b"x", [], True):
        assert len(refuses(ValueError, "task", env.reset, seed=0, options={"task_id": task_id})) < 15_000
    task_id = env.reset(seed=0)[1]["task_id"]
    refuses(ValueError, "name the task in more than one way", env.reset, options={"task_id": task_id, "index": 0})


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_equals_single_environments(env_id: str, mode: AutoresetMode) -> None:
    """Step by step, with tasks per place, over several episodes and their resets, in every form and kind of batch."""
    for form in forms(env_id):
        rng = np.random.default_rng(1)
        wishes = [[("expert", int(rng.integers(99)), [["fly to the moon", 1]])[i] for i in rng.choice(3, 3, p=WISHED)]
                  for _ in range(60)]  # fmt: skip
        steps = [["step", kind, wish] for kind, wish in zip(itertools.cycle(FORMS), wishes, strict=False)]
        tasks = ["reset", 7, 0b010, [{"index": 1}]]
        ends = check_vector({
            "id": env_id, "form": {**form, "expert": True}, "envs": 3, "mode": mode.value, "limit": 20, "seed": 11,
            "operations": [tasks, *steps[:20], ["save"], *steps[20:25], ["load"], *steps[25:]],
        })  # fmt: skip
        assert ends >= (3 if mode is AutoresetMode.DISABLED else 6)


def test_whatever_is_said_is_a_step_that_shows_clean_text_and_an_invalid_action_changes_nothing(env_id: str) -> None:
    """Control characters, half characters and a million of them: as a command, within one, and in one's own form."""
    env: Any = gym.make(env_id)
    actions = env.reset(seed=0)[1]["admissible_actions"][:2]
    long = "na\u0300\n" * 250_000
    odd = ("", "\n", "up down", "\x00", "\x1b[31m", "\u2028", "\r", "ri\ud800ght", "\u0130" * 100_000, "[" * 100_000)
    texts = [
        *odd, long, "\ud800\x00" * 500_000, " " * 1_000_000,
        json.dumps({"action_type": "speak", "argument": long[:60_000]}),
        *(f"{head}{text}{tail}" for head, tail in (("search[", "]"), ("click[", "]"), ("<search>", "</search>"))
          for text in (long[:90_000], "\ud800", "\x00", "a " * 49_000)),
        f"<answer>{long}</answer>", *(action + text for action in actions for text in (*odd[3:], long)),
        *(text + actions[0] for text in odd[3:]), *(actions[0].replace(" ", text) for text in odd[3:]),
    ]  # fmt: skip
    uses_up_a_turn = env_id.endswith(("SearchQA-v0", "SOTOPIA-v0"))
    for text in texts:
        start = env.reset(seed=0)[1]
        observation, _, terminated, truncated, info = env.step(text)
        assert observation in env.observation_space
        for each in texts_in([observation, info]):
            assert len(each) <= 1_000_000
            each.encode()
            assert not set(each) & {"\x00", "\x1b"}
        if not info["is_action_valid"] and not uses_up_a_turn:
            assert ({**info, "is_action_valid": True}, terminated, truncated) == (start, False, False), text[:80]
        assert env.unwrapped.snapshot()
        if not (terminated or truncated):
            assert env.step("x")[0] in env.observation_space


def test_what_needs_an_episode_wrong_options_and_unknown_arguments_are_explained(env_id: str) -> None:
    env: Any = gym.make(env_id, render_mode="ansi").unwrapped
    for method in ("render", "distance", "distance_bounds", "optimal_actions", "snapshot"):
        if hasattr(env, method):
            refuses(ResetNeeded, r"no episode yet; call reset\(\) first", getattr(env, method))
    refuses(ValueError, "did you mean 'split'", env.reset, options={"spilt": "train"})
    refuses(ValueError, "train", env.reset, options={"split": "trian"})
    refuses(ValueError, "render_mode", lambda: type(env.unwrapped)(render_mode="hologram"))
    for make in (gym.make, gym.make_vec):
        refuses(TypeError, r"unknown argument 'foo'; known: .*'expert', 'render_mode'", make, env_id, foo=1)
        refuses(TypeError, r"unknown argument 'spilt'; .*did you mean 'split'", make, env_id, spilt="train")
    words = r"unknown argument 'autoreset'; .*did you mean 'autoreset_mode'"
    refuses(TypeError, words, gym.make_vec, env_id, num_envs=2, autoreset="Disabled")
    words = r"vector_kwargs={'shared_memory': False}"
    refuses(ValueError, words, gym.make_vec, env_id, num_envs=2, vectorization_mode="async")


def test_a_branch_goes_through_the_wrappers_of_make(env_id: str) -> None:
    env, other = (gym.make(env_id, max_episode_steps=6) for _ in range(2))
    rng = np.random.default_rng(3)

    def play(steps: int, shown: tuple[Any, Any]) -> tuple[list[str], list[Any]]:
        actions, played, over = list[str](), list[Any](), False
        while len(actions) < steps and not over:
            actions.append(choose(played[-1][-1] if played else shown[1], rng))
            played.append(env.step(actions[-1]))
            over = played[-1][2] or played[-1][3]
        return actions, played

    for seed in range(5):
        shown = env.reset(seed=seed)
        before = play(seed, shown)[1]
        over = bool(before) and before[-1][2]
        if before:
            shown = before[-1][0], before[-1][-1]
        saved = pickle.loads(pickle.dumps(branching.snapshot(env)))
        actions, on = ([], []) if over else play(6, shown)
        assert over or len(actions) == 6 - seed or on[-1][2]  # the time limit counts what was played before
        after = env.reset()
        assert data_equivalence(branching.restore(other, saved), shown)
        assert data_equivalence([other.step(action) for action in actions], on)
        assert data_equivalence(other.reset(), after)


def test_snapshot_replays_exactly(env_id: str) -> None:
    rng = np.random.default_rng(2)
    for seed, form in [*enumerate([{}] * 4), *enumerate(forms(env_id))]:
        env: Any = gym.make(env_id, **form).unwrapped
        _, info = env.reset(seed=seed)
        for _ in range(4):
            saved = pickle.loads(pickle.dumps(env.snapshot()))
            action = choose(info, rng)
            first = env.step(action)
            observation, before = env.restore(saved)
            assert before == info
            assert observation in env.observation_space
            second = env.step(action)
            assert data_equivalence(first, second)
            info = second[-1]
            if second[2] or second[3]:
                break


@pytest.mark.parametrize("copied", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickle", "copy"])
@pytest.mark.parametrize("make", [gym.make, partial(gym.make_vec, num_envs=2, autoreset_mode="Disabled")])
def test_a_copy_goes_on_in_the_middle_of_an_episode(env_id: str, make: Any, copied: Any) -> None:
    for form in forms(env_id):
        env = begun(make(env_id, **form), seed=3)
        *_, over, cut, info = env.step("hm" if make is gym.make else ["hm"] * 2)
        other, later = copied(env), copied(env)
        over, turns = bool(np.all(over | cut)), itertools.count(1)
        while not over:
            actions = admissible(info)
            played, same = env.step(actions), other.step(actions)
            assert data_equivalence(played[:4], same[:4])
            assert repr(played[-1]) == repr(same[-1])
            info, over = played[-1], np.all(played[2]) or np.all(played[3]) or next(turns) == 3
        assert data_equivalence(env.reset()[0], other.reset()[0])
        assert later.unwrapped.observe() if make is gym.make else later  # what others did is not what a copy did


def admissible(info: dict[str, Any]) -> Any:
    """An admissible action, or one for each sub-environment."""
    actions = info["admissible_actions"]
    if isinstance(actions, np.ndarray):
        return [each[-1] if each else "" for each in actions]
    return actions[-1] if actions else ""


def test_time_limit_is_truncation_and_stock_wrappers_work(env_id: str) -> None:
    env = begun(RecordEpisodeStatistics(gym.make(env_id, max_episode_steps=3)), seed=0)
    for _ in range(2):
        assert not env.step("no such command")[3]
    *_, terminated, truncated, info = env.step("no such command")
    assert (terminated, truncated, info["episode"]["l"]) == (False, True, 3)
    assert not info["is_action_valid"]


def test_expert_wins(env_id: str) -> None:
    envs = gym.make_vec(env_id, num_envs=8, autoreset_mode="Disabled", expert=True)
    _, infos = envs.reset(seed=3)
    for _ in range(envs.unwrapped.max_episode_steps):
        *_, infos = envs.step(list(infos["expert_action"]))
    assert infos["won"].all()


@cache
def digests(hash_seed: str) -> dict[str, str]:
    """What is shown and done in a few episodes of every environment, in a process with this hash seed."""
    script = (
        "import sys, hashlib, json, gymnasium as gym, agentgym\n"
        "found = {}\n"
        f"for name in {IDS}:\n"
        "    env = gym.make(name); digest = hashlib.sha256()\n"
        "    for seed in range(5):\n"
        "        observation, info = env.reset(seed=seed)\n"
        "        for t in range(5):\n"
        "            digest.update(repr((info, seed)).encode())\n"
        "            *_, over, cut, info = env.step(info['admissible_actions'][t % len(info['admissible_actions'])])\n"
        "            if over: break\n"
        "    found[name] = digest.hexdigest()\n"
        "print(json.dumps(found))\n"
    )
    found: dict[str, str] = json.loads(printed(script, hash_seed))
    return found


def test_same_episode_in_another_process_with_another_hash_seed(env_id: str) -> None:
    assert digests("0")[env_id] == digests("1")[env_id]
