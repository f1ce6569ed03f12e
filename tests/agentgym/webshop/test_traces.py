"""Episodes that were played on the original shop, played again: not one character differs."""

from collections import Counter
from typing import Any

import gymnasium as gym
import pytest

from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.pages import INDEX, page_text, text, text_rich
from agentgym.webshop.session import Session
from tests.agentgym.webshop.oracles import FOLDER, rows

Episode = dict[str, Any]


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    found = list(rows("traces_synthetic"))
    assert (len(found), sum(len(episode["steps"]) for episode in found)) == (687, 9420)
    return found


def arguments() -> dict[str, Any]:
    return {"data": FOLDER, "prices": FOLDER / "goals_prices_synthetic.json.xz", "goals": "synthetic"}


def test_every_recorded_step_of_a_visit(episodes: list[Episode]) -> None:
    """Texts, address, what can be clicked, reward, its parts and end; also after a purchase, which ends nothing."""
    tasks = WebShopEnv(**arguments()).tasks
    seen: Counter[str] = Counter()
    for episode in episodes:
        index = episode["goal_index"]
        session = Session(tasks.shop, tasks.goals[index], "SESSION")
        for row in episode["steps"]:
            valid = row["action"] is not None and session.play(row["action"])
            if "error" in row:  # the original stops here
                assert (valid, session.page.kind, list(session.page.clickables)) == (
                    True, "results", ["back to search", "next >"],
                )  # fmt: skip
                seen["error"] += 1
                continue
            shown = session.page.nodes(session.request)
            assert page_text(session.page, session.request_text) == text(shown) == row["obs"]
            assert text_rich(shown, session.url(), session.opened()) == row["obs_rich"]
            assert session.url() == row["url"]
            assert {"has_search_bar": session.page is INDEX, "clickables": list(session.page.clickables)} == row[
                "available"
            ]
            done = session.page.kind == "done" and valid
            assert done == row["done"]
            assert (session.purchase.score if done and session.purchase else 0.0) == pytest.approx(row["reward"], abs=0)
            if "reward_info" in row:
                assert session.purchase is not None
                assert session.purchase.parts == pytest.approx(row["reward_info"], abs=1e-12)
                seen["purchase"] += 1
            seen[session.page.kind] += 1
    assert seen["error"] == 12
    assert seen["purchase"] == 86
    assert min(seen[kind] for kind in ("index", "results", "item", "sub", "done")) > 80


@pytest.mark.parametrize("mode", ["text", "text_rich", "url"])
def test_every_recorded_episode_in_the_environment(episodes: list[Episode], mode: str) -> None:
    env: Any = gym.make("AgentRL/WebShop-v0", observation_mode=mode, max_episode_steps=1000, **arguments())
    column = {"text": "obs", "text_rich": "obs_rich", "url": "url"}[mode]
    steps = 0
    for episode in episodes:
        first, *played = episode["steps"]
        index = episode["goal_index"]
        observation, info = env.reset(options={"split": "all", "index": index})
        assert info["task_id"] == f"synthetic/{index}"
        assert info["instruction"] == episode["instruction"]
        assert observation.replace(f":3000/{index}", ":3000/SESSION") == first[column]
        assert info["has_search_bar"]
        for row in played:
            if "error" in row:
                break
            before, known = info["state_key"], info["admissible_actions"]
            observation, reward, terminated, truncated, info = env.step(row["action"])
            shown = observation.replace(f"/{index}/", "/SESSION/") if mode == "url" else observation
            shown = shown.removesuffix(f"/{index}") + "/SESSION" if shown.endswith(f":3000/{index}") else shown
            assert shown == row[column]
            assert (reward, terminated, truncated) == (row["reward"], row["done"], False)
            assert info["has_search_bar"] == row["available"]["has_search_bar"]
            assert (info["score"], info["won"]) == (reward, reward == 1.0)
            assert info["is_action_valid"] or info["state_key"] == before
            assert info["is_action_valid"] or row["action"] not in known
            clicks = [f"click[{name}]" for name in row["available"]["clickables"] if name != "search"]
            assert [command for command in info["admissible_actions"] if command.startswith("click")] == clicks
            steps += 1
            if terminated:
                break
    assert steps > 8000
