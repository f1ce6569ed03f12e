"""What `--paper` sets besides the trainer, row by row of the papers' settings."""

from typing import Any

import gymnasium as gym
import pytest

from baselines.environments.registry import SETTINGS, settings_of
from baselines.recipes.papers import PAPERS, Paper
from baselines.runs.settings import RunSettings, run_settings

PLAYED = [one for one in PAPERS.values() if one.env in {row.name for row in SETTINGS}]


def titles(papers: list[Paper]) -> list[str]:
    return [one.title.replace(" ", "-") for one in papers]


def settings(printed: Paper, **given: Any) -> RunSettings:
    row = settings_of(printed.env)
    return run_settings(row, method=printed.method, model="smollm2", seed=0, paper=printed, **given)


def made(found: RunSettings, **more: Any) -> gym.Env[Any, Any]:
    setup = found.config.setup
    return gym.make(found.config.env, **setup.options, **setup.plenty, **more)


def lines(found: RunSettings, kind: str) -> list[str]:
    start = f"  {kind:<9} "
    return [line.removeprefix(start) for line in found.told() if line.startswith(start)]


TIMED = [one for one in PLAYED if "steps" in one.environment]


@pytest.mark.parametrize("printed", TIMED, ids=titles(TIMED))
def test_an_episode_has_the_papers_steps(printed: Paper) -> None:
    found, steps = settings(printed), printed.environment["steps"]
    env = made(found)
    env.reset(seed=0)
    ended = [any(env.step("nothing that any environment knows")[2:4]) for _ in range(steps)]
    assert ended == [False] * (steps - 1) + [True]
    assert any(line.startswith(f"steps: {steps} (max_") for line in lines(found, "set"))


REWARDED = [one for one in PLAYED if "success_reward" in one.environment]


@pytest.mark.parametrize("printed", REWARDED, ids=titles(REWARDED))
def test_success_is_worth_what_the_paper_prints(printed: Paper) -> None:
    env = made(settings(printed), expert=True)
    _, info = env.reset(options={"split": "train", "index": 0})
    rewards, done = [], False
    while not done:
        _, reward, terminated, truncated, info = env.step(info["expert_action"])
        rewards.append(reward)
        done = terminated or truncated
    assert sum(rewards) == rewards[-1] == printed.environment["success_reward"]


BOARDS = [one for one in PLAYED if "board" in one.environment]


@pytest.mark.parametrize("printed", BOARDS, ids=titles(BOARDS))
def test_boards_have_the_papers_size(printed: Paper) -> None:
    found = settings(printed)
    board = made(found).reset(options={"split": "train", "index": 0})[0]
    if isinstance(board, dict):
        sides = [side // 16 for side in board["image"].shape[:2]]  # 16 pixels a cell
    else:
        sides = [len(board.splitlines()), *{len(line) for line in board.splitlines()}]
    assert "x".join(map(str, sides)) == printed.environment["board"]
    assert any(line.startswith(f"board: {printed.environment['board']!r} (size=") for line in lines(found, "set"))


@pytest.mark.parametrize("printed", PLAYED, ids=titles(PLAYED))
def test_every_printed_fact_is_either_set_or_told(printed: Paper) -> None:
    found = settings(printed)
    assert (found.prompt_tokens, found.reply_tokens) == (printed.prompt_tokens, printed.reply_tokens)
    told = {line.partition(":")[0] for line in lines(found, "set") + lines(found, "not set")}
    facts = {**printed.environment, **printed.others}
    assert told >= set(facts)
    assert ("prompt_tokens" in told) == (printed.prompt_tokens is not None)


def test_temperatures_and_settings_without_a_paper() -> None:
    def at(method: str, **changes: Any) -> tuple[list[str], list[str]]:
        found = settings(PAPERS[method, "alfworld", "paper"], changes=changes)
        both = (lines(found, kind) for kind in ("set", "not set"))
        set_, not_set = ([line for line in some if line.startswith("validation_temperature")] for some in both)
        return set_, not_set

    assert at("rewardflow") == (["validation_temperature: 0.4 (validation_sampled)"], [])
    assert at("rewardflow", temperature=1.0) == ([], ["validation_temperature: 0.4"])
    assert at("hisr") == (["validation_temperature: 0.0 (validation_greedy)"], [])
    assert at("graphgpo") == ([], ["validation_temperature: 0.4"])
    row = settings_of("sokoban")
    found = run_settings(row, method="grpo", model="smollm2", seed=0)
    assert found.config.setup.options == row.played_by("smollm2").setup.options == {}
    assert (found.prompt_tokens, found.told()) == (None, [])
