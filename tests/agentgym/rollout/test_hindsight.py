"""Episodes relabelled with what they did: each wins when it is played again, in every environment with hindsight."""

import dataclasses
import pickle
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.adapter import adapt
from agentgym.rollout import collect
from agentgym.rollout.hindsight import CHOICES, relabel_goals
from agentgym.trajectory import Ending, Reply, StepTable
from policies.scripted import RandomPolicy, tagged
from tests.corridor import CorridorEnv
from tests.playing import Scripted, steps
from tests.refusals import refuses
from wrappers import CanonicalStates, VectorPromptWindow, VectorReplyParser, VectorTranscript

#: Environments with hindsight, each in a usual and an unusual form.
ENVIRONMENTS: list[tuple[str, dict[str, Any]]] = [
    ("AgentRL/Sokoban-v0", {}),
    ("AgentRL/VisualSokoban-v0", {"size": (5, 7), "boxes": 2, "tile_size": 4}),
    ("AgentRL/ALFWorld-v0", {"data": "generated"}),
    ("AgentRL/ALFWorld-v0", {"data": "generated", "ghosts": 0.5, "dialect": "put", "repairs": "all", "game_seed": 3}),
    ("AgentRL/VirtualHome-v0", {"data": "generated"}),
    (
        "AgentRL/VirtualHome-v0",
        {"data": "generated", "repairs": "all", "house_seed": 3, "task_types": ["rest", "cook"]},
    ),
    ("AgentRL/WebShop-v0", {"observation_mode": "text_rich", "noise": (0.5, 0.5)}),
    ("AgentRL/WebShop-v0", {"split_by": "product", "repairs": "all", "observation_mode": "url"}),
]


class Eager(RandomPolicy):
    """Plays at random, but takes, puts, treats, switches on and buys wherever that can be done, one time in two."""

    _DEEDS = re.compile(r"(take|grab|open|close|move|put|wash|clean|heat|cool|use|switch) |click\[(buy now|b0)")

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        replies = []
        for commands in infos["admissible_actions"]:
            deeds = [command for command in commands if self._DEEDS.match(command)] if rng.random() < 0.5 else []
            among = deeds or commands
            replies.append(Reply(f"<think>{rng.random()}</think>{tagged(among[rng.integers(len(among))])}"))
        return replies


def make(env_id: str, num_envs: int = 4, **kwargs: Any) -> Any:
    return gym.make_vec(env_id, num_envs=num_envs, autoreset_mode="Disabled", **kwargs)


def room(*commands: str, level: str) -> tuple[Any, StepTable]:
    """Sokoban on one level with a time limit of as many steps as there are commands."""
    envs = make("AgentRL/Sokoban-v0", 1, max_episode_steps=len(commands))
    return envs, collect(envs, Scripted(*commands), tasks=[{"task_id": level}], seed=0)


@pytest.mark.parametrize(("env_id", "kwargs"), ENVIRONMENTS, ids=lambda value: str(value)[:60])
@given(seed=st.integers(0, 10**6), choose=st.sampled_from(CHOICES), cut_loops=st.booleans(), num_envs=st.integers(1, 5))
@settings(max_examples=8)
def test_every_relabelled_episode_replays_to_won(env_id, kwargs, seed, choose, cut_loops, num_envs: int) -> None:
    envs = VectorReplyParser(make(env_id, num_envs, **kwargs))
    single = gym.make(env_id, **kwargs)
    first = seed % max(1, single.unwrapped.num_tasks("train") - 3)  # type: ignore[attr-defined]
    tasks = [{"split": "train", "index": first + i} for i in range(3)]
    table = collect(envs, Eager(), tasks=tasks, group_size=3, seed=seed)
    with warnings.catch_warnings(action="error"):
        relabelled = relabel_goals(table, envs, choose=choose, cut_loops=cut_loops, seed=seed)
    assert set(relabelled.endings) <= {Ending.SUCCESS}
    assert table.replies is not None
    sources = []
    for trajectory in relabelled.to_trajectories():
        actions = [step.action for step in trajectory.steps]
        # the chance in these worlds (adverts) changes nothing that is done: any seed will do
        won = [single.reset(seed=1, options={"task_id": trajectory.group})[1]["won"]]
        won += [step[4]["won"] for step in steps(single, actions)]
        assert won == [False] * len(actions) + [True]
        source, _, task_id = str(trajectory.trajectory).partition(" as ")
        number = table.trajectories.index(int(source))
        # one of the other tasks may have been fulfilled as well
        assert task_id == trajectory.group != table.groups[table.trajectory_group[number]]
        assert not table.trajectory_won[number]
        rows = table.chain(number)
        played = [table.actions[i] for i in table.action[rows]]
        if not cut_loops:
            assert actions == played[: len(actions)]
            texts = [reply.text for reply in table.replies[rows[: len(actions)]]]
            assert [step.reply for step in trajectory.steps] == [Reply(text) for text in texts]
        else:
            assert len({step.state for step in trajectory.steps}) == len(actions)
            remaining = iter(played)
            assert all(action in remaining for action in actions)  # a subsequence
        sources.append(number)
    assert sources == sorted(sources)
    if choose != "all":
        assert len(set(sources)) == len(sources)


def corridor(column: int) -> str:
    """The corridor below with its target in another column."""
    cells = list("#P_X___#")
    cells[column] = "O"
    return f"level:########/{''.join(cells)}/########"


def test_tasks_done_on_the_way_the_hardest_of_them_and_loops_that_are_cut_out() -> None:
    # walk, push to 4, step back, return, push to 5; the target is 6
    envs, table = room("right", "right", "left", "right", "right", level=corridor(6))
    assert table.endings == (Ending.TIME_LIMIT,)
    steps = {}
    for choose in CHOICES:
        relabelled = relabel_goals(table, envs, choose=choose)
        steps[choose] = [(one.group, len(one.steps)) for one in relabelled.to_trajectories()]
    pushed_once, pushed_twice = (corridor(4), 2), (corridor(5), 5)
    assert steps == {
        "hardest": [pushed_twice], "last": [pushed_twice], "first": [pushed_once], "all": [pushed_once, pushed_twice],
    }  # fmt: skip
    envs, table = room("right", "wait", "right", "left", "right", "up", "right", level=corridor(6))
    (one,) = relabel_goals(table, envs, cut_loops=True).to_trajectories()
    # "wait" and "up" are invalid, "left" and "right" lead back to where the box was pushed from
    assert [step.action for step in one.steps] == ["right", "right", "right"]
    assert (one.group, [step.reward for step in one.steps]) == (corridor(5), [-0.1, -0.1, 10.9])
    (whole,) = relabel_goals(table, envs).to_trajectories()
    assert [step.action for step in whole.steps] == [table.actions[i] for i in table.action]
    # four pushes to the right, around the box, four back to where it was, and one down: 1, 2, 3, 4 and 3 moves at best
    level = "level:##########/#________#/#PX______#/#________#/#_______O#/##########"
    ways = ("right " * 4 + "up right right down " + "left " * 4 + "up left down").split()
    envs, table = room(*ways, level=level)
    relabelled = {choose: relabel_goals(table, envs, choose=choose).to_trajectories() for choose in CHOICES}
    lengths = {choose: [len(one.steps) for one in found] for choose, found in relabelled.items()}
    assert lengths == {"hardest": [4], "last": [len(ways)], "first": [1], "all": [1, 2, 3, 4, len(ways)]}


def test_what_branches_share_won_idle_and_repeated_episodes_and_tables_without_replies() -> None:
    envs, whole = room("right", "right", "left", level=corridor(6))
    _, other = room("right", "right", "right", level=corridor(6))
    (a,), (b,) = whole.to_trajectories(), other.to_trajectories()
    b = dataclasses.replace(b, trajectory="b", steps=b.steps[2:], parent=(a.trajectory, 1))
    forked = StepTable.from_trajectories([a, b])
    assert forked.has_forks
    relabelled = relabel_goals(forked, envs, choose="all")
    assert [(one.group, len(one.steps)) for one in relabelled.to_trajectories()] == [(corridor(4), 2), (corridor(5), 3)]
    envs, idle = room("right", "left", level=corridor(6))
    _, won = room("right", "right", "right", "right", level=corridor(6))
    assert won.endings == (Ending.SUCCESS,)
    for table in (idle, won):
        relabelled = relabel_goals(table, envs)
        assert (len(relabelled), relabelled.n_trajectories, relabelled.replies.tolist()) == (0, 0, [])  # type: ignore[union-attr]
    envs = make("AgentRL/Sokoban-v0", 2, max_episode_steps=2)
    table = collect(envs, Scripted("right", "right"), tasks=[{"task_id": corridor(6)}] * 2, seed=0)
    assert table.groups == (corridor(6), f"{corridor(6)} (2)")
    relabelled = relabel_goals(table, envs)
    assert (relabelled.groups, relabelled.n_trajectories) == ((corridor(4),), 2)
    envs, table = room("right", "right", level=corridor(6))
    assert relabel_goals(dataclasses.replace(table, replies=None), envs).groups == (corridor(4),)

    envs = make("AgentRL/Sokoban-v0", 1)
    policy = Scripted("right", "right", Reply("", finish="prompt-too-long"))
    table = collect(envs, policy, tasks=[{"task_id": corridor(6)}], seed=0)
    assert len(table) == 3
    assert relabel_goals(table, envs).groups == (corridor(4),)


@pytest.mark.parametrize("wrapper", [VectorPromptWindow, VectorTranscript])
def test_prompts_ask_for_what_was_done(wrapper: Any) -> None:
    envs = wrapper(VectorReplyParser(make("AgentRL/ALFWorld-v0", data="generated")))
    table = collect(envs, Eager(), tasks=[{"index": i} for i in range(4)], group_size=4, seed=1)
    prompts: list[str] = []

    def demonstrate(observation: Any, text: str) -> Reply:
        prompts.append("\n".join(message["content"] for message in observation[1:]))
        return Reply(text, prompt_ids=(len(prompts),), token_ids=(7, 8))

    relabelled = relabel_goals(table, envs, demonstrate=demonstrate)
    assert relabelled.n_trajectories > 2
    env: Any = envs.unwrapped.envs[0]
    for trajectory in relabelled.to_trajectories():
        env.reset(options={"task_id": trajectory.group})
        new = env.world.game.task
        source = int(str(trajectory.trajectory).partition(" as ")[0])
        env.reset(options={"task_id": table.groups[table.trajectory_group[source]]})
        old = env.world.game.task
        for t, step in enumerate(trajectory.steps):
            prompt = prompts[step.reply.prompt_ids[0] - 1]  # type: ignore[union-attr]
            if t == 0 or wrapper is VectorTranscript:
                assert f"Your task is to: {new}." in prompt
            assert old not in prompt
            assert step.reply == Reply(step.reply.text, step.reply.prompt_ids, (7, 8))  # type: ignore[union-attr]
    assert len({step.reply.prompt_ids for one in relabelled.to_trajectories() for step in one.steps}) == len(relabelled)  # type: ignore[union-attr]


def test_replies_can_be_edited_or_made_of_actions() -> None:
    envs = VectorReplyParser(make("AgentRL/Sokoban-v0", 4))
    table = collect(envs, Eager(), tasks=[{"index": i} for i in range(6)], group_size=2, seed=0)
    kept = relabel_goals(table, envs)
    edited = relabel_goals(table, envs, edit=lambda text: re.sub(r"<think>.*?</think>", "", text))
    made = relabel_goals(dataclasses.replace(table, replies=None), envs, edit=tagged)
    assert all(reply.text.startswith("<think>") for reply in kept.replies)  # type: ignore[union-attr]
    actions = [edited.actions[i] for i in edited.action]
    assert [reply.text for reply in edited.replies] == [tagged(str(action)) for action in actions]  # type: ignore[union-attr]
    assert edited.trajectories == made.trajectories
    assert [reply.text for reply in made.replies] == [reply.text for reply in edited.replies]  # type: ignore[union-attr]
    words = "parses replies, and the table has actions only.*edit=policies.scripted.tagged"
    refuses(ValueError, words, relabel_goals, dataclasses.replace(table, replies=None), envs)


def test_the_result_is_a_table_like_others_in_any_number_of_sub_environments(tmp_path: Path) -> None:
    envs = VectorReplyParser(make("AgentRL/WebShop-v0"))
    envs = CanonicalStates(envs, key=lambda observation, info: str(info["page"]))
    table = collect(envs, Eager(), tasks=[{"index": i} for i in range(4)], group_size=3, seed=0)
    relabelled = relabel_goals(table, envs)
    assert relabelled.n_trajectories > 0
    assert "index" in relabelled.states  # the wrapper's key
    assert StepTable.concatenate([table, relabelled]).n_trajectories == table.n_trajectories + relabelled.n_trajectories
    relabelled.to_jsonl(tmp_path / "done.jsonl")
    assert StepTable.from_jsonl(tmp_path / "done.jsonl").trajectories == relabelled.trajectories
    again = relabel_goals(table, envs)
    assert again.trajectories == relabelled.trajectories
    assert (again.state == relabelled.state).all()
    few, more = (VectorReplyParser(make("AgentRL/ALFWorld-v0", num_envs)) for num_envs in (1, 5))
    table = collect(few, Eager(), tasks=[{"index": i} for i in range(3)], group_size=4, seed=0)
    one, other = (relabel_goals(table, envs, choose="all", seed=3) for envs in (few, more))
    assert one.state.tolist() == other.state.tolist()
    assert (one.trajectories, one.states) == (other.trajectories, other.states)


@pytest.mark.parametrize("env_id", ["Sokoban", "ALFWorld", "WebShop", "VirtualHome"])
def test_states_tasks_and_snapshots_hold_the_goal(env_id: str) -> None:
    envs = VectorReplyParser(make(f"AgentRL/{env_id}-v0"))
    table = collect(envs, Eager(), tasks=[{"index": 0}], group_size=24, seed=2)
    relabelled = relabel_goals(table, envs, choose="all")
    tasks = [str(group) for group in (*table.groups, *relabelled.groups)]
    assert len(tasks) > 3
    env, other = (gym.make(f"AgentRL/{env_id}-v0").unwrapped for _ in range(2))
    keys = []
    for task_id in tasks:
        _, info = env.reset(seed=0, options={"task_id": task_id})
        keys.append(info["state_key"])
        state = pickle.loads(pickle.dumps(env.snapshot()))  # type: ignore[attr-defined]
        other.reset(seed=5)
        shown, found = other.restore(state)  # type: ignore[attr-defined]
        assert (found["task_id"], found["state_key"]) == (task_id, info["state_key"])
        assert shown == env.observe()  # type: ignore[attr-defined]
    # the goals that a shop has of its own have no mark, and no key of a house names what is to be done
    if env_id != "VirtualHome":
        marked = [key for key, task_id in zip(keys, tasks, strict=True) if env_id != "WebShop" or "{" in task_id]
        assert len(set(marked)) == len(marked) > 1


def test_wrong_use_and_environments_without_hindsight_say_why() -> None:
    _, table = room("right", level=corridor(6))
    words = "SearchQAEnv has no exact hindsight: a wrong answer to this question"
    refuses(TypeError, words, relabel_goals, table, make("AgentRL/SearchQA-v0"))
    words = "SotopiaEnv has no exact hindsight: the partner's replies"
    refuses(TypeError, words, relabel_goals, table, make("AgentRL/SOTOPIA-v0"))
    stock = gym.vector.SyncVectorEnv([CorridorEnv], autoreset_mode=AutoresetMode.DISABLED)
    refuses(TypeError, "needs a vector environment of ours", relabel_goals, table, stock)
    words = "AdaptedEnv has no exact hindsight: it does not say which tasks"
    refuses(TypeError, words, relabel_goals, table, adapt(stock))
    envs, table = room("right", level=corridor(6))
    refuses(ValueError, r"unknown choose 'longest'; known: 'hardest'", relabel_goals, table, envs, choose="longest")
    with pytest.raises(ValueError, match=r"autoreset DISABLED.*got AutoresetMode.SAME_STEP"):
        relabel_goals(table, gym.make_vec("AgentRL/Sokoban-v0", 1))
    for group in ("my level", 3):
        (one,) = table.to_trajectories()
        named = StepTable.from_trajectories([dataclasses.replace(one, group=group)])
        refuses(ValueError, rf"the group {group!r} is no task_id", relabel_goals, named, envs)


def test_episodes_that_go_another_way_or_exceed_a_shorter_limit_are_left_out_with_a_warning() -> None:
    # `examine` of what is not in hand is valid under the repair alone
    made = VectorReplyParser(make("AgentRL/ALFWorld-v0", data="generated", repairs="examine"))
    plain = VectorReplyParser(make("AgentRL/ALFWorld-v0", data="generated"))
    table = collect(made, Eager(), tasks=[{"index": i} for i in range(3)], group_size=4, seed=0)
    assert any(str(action).startswith("examine") for action in table.actions)
    with pytest.warns(RuntimeWarning, match=rf"of {table.n_trajectories} episodes were played differently"):
        relabelled = relabel_goals(table, plain)
    assert relabelled.n_trajectories < relabel_goals(table, made).n_trajectories
    _, table = room("right", "right", "right", level=corridor(6))
    short = make("AgentRL/Sokoban-v0", 3, max_episode_steps=2)
    with pytest.warns(RuntimeWarning, match="1 of 2 episodes did not win again"):
        relabelled = relabel_goals(table, short, choose="all")
    assert relabelled.groups == (corridor(4),)
