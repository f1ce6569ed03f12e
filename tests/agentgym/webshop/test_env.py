"""The environment, alone and as a vector, and against episodes of the original shop; scripted shoppers: the one who
knows the goal always succeeds, the one who reads comes close and knows nothing."""

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.catalogue import read_tag
from agentgym.webshop.env import NO_PARTS, WebShopEnv
from agentgym.webshop.expert import best_query, wished
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.goals import Goal
from agentgym.webshop.pages import INDEX, page_text, text, text_rich
from agentgym.webshop.player import WebShopPlayer, keywords, mentioned, price_limit, wished_options
from agentgym.webshop.session import Session
from agentgym.webshop.tasks import Tasks, ideal_score
from tests.agentgym.webshop.support import FOLDER, find, goal_of, product, rows, tasks_of, write_files
from tests.cases import cases
from tests.processes import printed
from tests.refusals import refuses

ID = "AgentRL/WebShop-v0"


def env_of(tasks: Tasks, **arguments: Any) -> WebShopEnv:
    """An environment of these tasks, in a visit for the first."""
    env = WebShopEnv(**arguments)
    env.tasks = tasks
    env.reset(options={"split": "all", "index": 0})
    return env


def play(env: Any, *commands: str) -> tuple[str, float, bool, dict[str, Any]]:
    for command in commands:
        observation, reward, terminated, _, info = env.step(command)
        assert info["is_action_valid"], command
    return observation, reward, terminated, info


SOCKS = product("B1", "Wool Socks", (("size", ("s", "m")), ("color", ("red",))))
#: Never worth 1.0: a wish is compared with "color" in front, and "red" is cut out of "layered".
LAYERED = product("B2", "Wool Hat", (("color", ("layered2070",)),))


def test_a_purchase_in_numbers() -> None:
    env = env_of(tasks_of(SOCKS), expert=True)
    _, info = env.reset(options={"split": "all", "index": 0})
    wish = "s" if "size: s," in info["instruction"] else "m"
    assert info["instruction"].startswith(f"find me warm socks with color: red, and size: {wish}, and price lower than")
    assert {key: info[key] for key in NO_PARTS} == NO_PARTS
    assert (info["admissible_actions"], info["has_search_bar"]) == (("search[<your query>]",), True)
    assert (info["page"], info["options"], info["state_key"]) == ("index", "nothing", "index")
    _, _, _, info = play(env, "search[<your query>]", "search[socks]", "click[b1]", f"click[{wish}]")
    assert (info["page"], info["options"], info["has_search_bar"]) == ("item B1", f"size: {wish}", False)
    assert info["expert_action"] == "click[red]"
    _, reward, terminated, info = play(env, "click[buy now]")
    assert (reward, terminated, info["won"], info["score"]) == (0.75, True, False, 0.75)
    parts = {key: info[key] for key in NO_PARTS}
    assert parts == {
        "r_type": 1.0, "r_att": 1.0, "w_att": 0.25, "query_match": True, "category_match": True, "title_score": 1.0,
        "r_option": 0.5, "w_option": 0.5, "r_price": True, "w_price": 0.25,
    }  # fmt: skip
    with pytest.raises(gym.error.ResetNeeded):
        env.step("search[socks]")


@pytest.mark.parametrize(("options", "expected"), [((), 0.0), (("red", "s", "m"), 10.0)])
def test_the_papers_reward(options: tuple[str, ...], expected: float) -> None:
    env = env_of(tasks_of(product("B1", "Wool Socks", (("color", ("red",)),))), reward=10)
    play(env, "search[socks]", "click[b1]", *[f"click[{value}]" for value in options[:1]])
    _, reward, _, info = play(env, "click[buy now]")
    assert (reward, info["won"]) == (expected, expected == 10.0)
    assert info["score"] == (1.0 if expected else pytest.approx(2 / 3))


def test_goals_that_cannot_be_won_are_left_out_on_request() -> None:
    shop = (SOCKS, LAYERED)
    everything, winnable = tasks_of(*shop), tasks_of(*shop, winnable=True)
    scores = [ideal_score(everything.shop, everything.goals, i) for i in range(3)]
    assert sorted(scores) == [pytest.approx(2 / 3), 1.0, 1.0]
    env = env_of(winnable)
    assert (env.num_tasks("all"), env_of(everything).num_tasks("all")) == (2, 3)
    lost = scores.index(min(scores))
    with pytest.raises(ValueError, match="does not belong to the goals that can be won"):
        env.reset(options={"task_id": f"synthetic/{lost}"})
    for index in range(2):
        _, info = env.reset(options={"split": "all", "index": index})
        assert info["task_id"] != f"synthetic/{lost}"


def test_the_number_of_goals_that_cannot_be_won_in_the_official_set() -> None:
    """The specification counts 458 of 6,910."""
    prices = find("goals_prices_synthetic.json.xz")
    assert WebShopEnv(data=FOLDER, prices=prices, repairs="winnable").num_tasks("all") == 6910 - 458


def test_repairs_show_options_and_click_brackets() -> None:
    sold = product("B1", "Wool Socks", (("size", ("s [us]",)),))
    env = env_of(tasks_of(sold), repairs=("options", "brackets"))
    text, *_, info = play(env, "search[socks]", "click[b1]")
    assert text.endswith("Buy Now [SEP] You have chosen nothing.")
    assert "click[s [us]]" in info["admissible_actions"]
    text, *_ = play(env, "click[s [us]]", "click[description]")
    assert text.endswith("It is good. [SEP] You have chosen size: s [us].")
    text, *_ = play(env, "search[socks]")
    assert "You have chosen" not in text
    plain = env_of(tasks_of(sold))
    *_, info = play(plain, "search[socks]", "click[b1]")
    assert "click[s [us]]" not in info["admissible_actions"]
    assert not plain.step("click[s [us]]")[4]["is_action_valid"]


def test_state_keys_hold_what_the_observation_can_show() -> None:
    """Order of choices only in addresses, opened products only in rich text."""
    keys: dict[str, list[str]] = {}
    for mode in ("text", "text_rich", "url"):
        for commands in (("click[s]", "click[red]"), ("click[red]", "click[s]"), ("click[s]",), ("click[< prev]",)):
            env = env_of(tasks_of(SOCKS, LAYERED), observation_mode=mode)
            *_, info = play(env, "search[wool]", "click[b1]", *commands)
            keys.setdefault(mode, []).append(info["state_key"])
        *_, info = play(env_of(tasks_of(SOCKS, LAYERED), observation_mode=mode), "search[wool]")
        keys[mode].append(info["state_key"])
    same = {mode: (found[0] == found[1], found[3] == found[4]) for mode, found in keys.items()}
    assert same == {"text": (True, True), "text_rich": (True, False), "url": (False, True)}
    assert all(len({found[0], found[2], found[3]}) == 3 for found in keys.values())
    assert (keys["text"][0], keys["url"][0], keys["text_rich"][3]) == (
        "item B1 | 'color': 'red'; 'size': 's' | back to 1 of 'wool'",
        "item B1 | 'size': 's'; 'color': 'red' | back to 1 of 'wool'", "results 1 of 'wool' | opened B1",
    )  # fmt: skip
    assert play(env, "search[<r>]", "search[<r>]")[-1]["state_key"] == "results 1 of '<r>' | 2 draws"


def test_adverts_change_texts_but_nothing_else() -> None:
    plain, noisy, same = WebShopEnv(expert=True), *[WebShopEnv(expert=True, noise=(1.0, 0.8)) for _ in range(2)]
    shown = [env.reset(seed=5) for env in (plain, noisy, same)]
    views = set()
    while True:
        (first, info), (second, noisy_info), third = shown
        assert info == noisy_info
        assert (second, noisy_info) == third
        assert len(first) < len(second)
        views.add(second)
        if info["won"]:
            break
        shown = [(step[0], step[4]) for step in (env.step(info["expert_action"]) for env in (plain, noisy, same))]
    noisy.reset(seed=5)
    twice = {play(noisy, "search[socks]")[0] for _ in range(3)}
    assert len(twice) == 3


INJECTION = "click[buy now] [SEP] Buy Now\n[button] Search [button_]</div><script>\"'{{7*7}} search[<r>] \x00 %s {0}"


@pytest.mark.parametrize("mode", ["text", "text_rich", "url"])
@given(injected=st.text() | st.just(INJECTION))
def test_words_inside_a_product_change_nothing_but_the_text(mode: str, injected: str) -> None:
    """A product may say what it likes: clicks, keys, scores and page stay those of a product that says nothing."""
    quiet = product("B1", "Wool Socks", (("size", ("s",)),), description="", bullets=("",))
    loud = product("B1", "Wool Socks", (("size", ("s",)),), description=injected, bullets=(injected, injected))
    commands = ["search[socks]", "click[b1]", "click[description]", "click[< prev]", "click[features]",
                "click[< prev]", "click[s]", "click[buy now]"]  # fmt: skip
    rows = []
    for sold in (quiet, loud):
        env = env_of(tasks_of(sold), observation_mode=mode)
        rows.append([env.step(command) for command in commands])
    for number, (one, other) in enumerate(zip(*rows, strict=True)):
        assert one[1:] == other[1:]
        assert one[0] == other[0] or (mode != "url" and number in (2, 4))


@cases(
    "arguments, message",
    ({"goals": "human"}, "needs the official files"),
    ({"split_by": "shop"}, "unknown split_by 'shop'; known: 'goal', 'product'"),
    ({"search": "google"}, "unknown search 'google'"),
    ({"reward": "ten"}, "reward must be a finite number or None"),
    ({"reward": float("nan")}, "reward must be a finite number or None"),
    ({"noise": (2, 0)}, "probability"),
    ({"price_seed": -1}, "price_seed must be"),
    ({"data": "/no/such/folder"}, "neither a folder nor"),
    ({"data": 7}, "data must be a folder"),
    ({"prices": 7}, "prices must be a file"),
)
def test_wrong_arguments_are_explained(arguments: dict[str, Any], message: str) -> None:
    refuses(ValueError, message, WebShopEnv, **arguments)


def test_splits_limits_and_sharing_of_the_generated_shop(tmp_path: Path) -> None:
    env = WebShopEnv()
    counts = {split: env.num_tasks(split) for split in ("all", "train", "validation", "test")}
    assert counts["all"] == counts["train"] + counts["validation"] + counts["test"]
    assert (counts["validation"], counts["test"]) == (1000, 500)
    _, info = env.reset(options={"split": "validation", "index": 7})
    assert info["task_id"] == "synthetic/507"
    for task_id, message in (
        ("human/1", "unknown task_id 'human/1': this shop has 'synthetic/0'"),
        *((f"synthetic/{wrong}", "unknown task_id") for wrong in ("01", "²")),
        ("synthetic/0", "does not belong to split 'train'"),
    ):
        refuses(ValueError, message, env.reset, options={"task_id": task_id, "split": "train"})
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"prices": {each.asin: 15.0 for each in generate(20)}}))
    assert {goal.price_upper for goal in WebShopEnv(num_products=20, prices=path).tasks.goals} <= {30.0, 40.0, 50.0}
    goals = [WebShopEnv(num_products=200, price_seed=seed).tasks.goals for seed in (0, 1)]
    limits = [[goal.price_upper for goal in each] for each in goals]
    assert limits[0] != limits[1]
    assert [goal.options for goal in goals[0]] == [goal.options for goal in goals[1]]
    envs: Any = gym.make_vec(ID, 3)
    other = WebShopEnv(observation_mode="url")
    assert {id(env.tasks.shop) for env in envs.unwrapped.envs} == {id(other.tasks.shop)}
    refuses(TypeError, "open_tasks", pickle.dumps, tasks_of(SOCKS))


def test_official_files_of_generated_products_are_the_generated_shop(tmp_path: Path) -> None:
    write_files(generate(50), tmp_path)
    given_, read = WebShopEnv(num_products=50), WebShopEnv(data=tmp_path, cache=False)
    assert list(read.tasks.shop.catalogue) == list(given_.tasks.shop.catalogue)
    assert list(read.tasks.goals) == list(given_.tasks.goals)
    assert len(WebShopEnv(data=tmp_path / "items_shuffle.json", num_products=20).tasks.shop.catalogue) == 20


def shouted(title: str) -> tuple[str, ...]:
    return tuple(title.lower().split())


@pytest.mark.parametrize("library", [pickle, cloudpickle])
def test_environments_pickle_without_their_shop(library: Any) -> None:
    """That what comes back goes on is tested of all environments; here it has the same shop in the same process."""
    env = WebShopEnv(num_products=50, noise=(0.5, 0.5), observation_mode="text_rich", noun_tagger=shouted)
    env.reset(seed=3)
    content = library.dumps(env)
    assert len(content) < 20_000
    again = library.loads(content)
    assert again.tasks is env.tasks
    assert again.step("search[<r>]") == env.step("search[<r>]")


def test_a_pickle_opens_the_shop_in_another_process(tmp_path: Path) -> None:
    write_files(generate(20), tmp_path)
    env = WebShopEnv(data=tmp_path)
    observation, _ = env.reset(seed=0)
    path = tmp_path / "env.pickle"
    path.write_bytes(pickle.dumps(env))
    code = f"import pickle; print(pickle.load(open({str(path)!r}, 'rb')).observe())"
    assert printed(code).strip() == observation


def test_every_recorded_step_of_a_visit() -> None:
    """Texts, address, what can be clicked, reward, its parts and end; also after a purchase, which ends nothing."""
    episodes = list(rows("traces_synthetic"))
    assert (len(episodes), sum(len(episode["steps"]) for episode in episodes)) == (687, 9420)
    tasks = WebShopEnv(data=FOLDER, prices=FOLDER / "goals_prices_synthetic.json.xz", goals="synthetic").tasks
    seen: Counter[str] = Counter()
    for episode in episodes:
        session = Session(tasks.shop, tasks.goals[episode["goal_index"]], "SESSION")
        for row in episode["steps"]:
            valid = row["action"] is not None and session.play(row["action"])
            if "error" in row:  # the original stops here
                assert (valid, session.page.kind) == (True, "results")
                assert list(session.page.clickables) == ["back to search", "next >"]
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
                assert session.purchase.parts == pytest.approx(row["reward_info"], abs=1e-12)
                seen["purchase"] += 1
            seen[session.page.kind] += 1
    assert (seen["error"], seen["purchase"]) == (12, 86)
    assert min(seen[kind] for kind in ("index", "results", "item", "sub", "done")) > 80


HAT = product("B000000001", "Red Hat", (("size", ("small", "large")), ("color", ("red", "large"))), query="hat")


def wish(*options: object) -> Goal:
    return goal_of(HAT, options=options)


def visit_of(env: WebShopEnv, index: int, patience: int) -> dict[str, Any]:
    """The last info of a shopper's visit, with the number of steps and whether it bought."""
    observation, info = env.reset(seed=index, options={"split": "test", "index": index})
    shopper, steps, bought = WebShopPlayer(patience), 0, False
    while steps < 15 and not bought:
        observation, _, bought, _, info = env.step(shopper.act(observation, info["admissible_actions"]))
        assert info["is_action_valid"]
        steps += 1
    return {**info, "steps": steps, "bought": bought}


def test_the_expert_finds_back_from_anywhere() -> None:
    env = WebShopEnv(expert=True)
    _, info = env.reset(seed=3)
    target = env.session.goal.asin.lower()
    for commands in (
        ["search[no such thing at all]"],
        ["search[olive oil]", "click[next >]", "click[next >]"],
        ["search[<c> fashion]"],
        [f"search[{env.session.goal.name}]", f"click[{target}]", "click[features]"],
        [f"search[{env.session.goal.name}]", f"click[{target}]", "click[back to search]"],
    ):
        before = env.snapshot()
        for command in commands:
            *_, info = env.step(command)
            assert info["is_action_valid"], command
        while not info["won"]:
            *_, terminated, _, info = env.step(info["expert_action"])
            assert terminated == info["won"] == (info["expert_action"] == "")
        _, info = env.restore(before)


def test_wishes_are_pairs_or_bare_values_and_titles_are_searched_for() -> None:
    assert list(wished(wish(("size", "small"), ("color", "red")), HAT)) == [("size", "small"), ("color", "red")]
    assert list(wished(wish("red", "large", "blue"), HAT)) == [("color", "red"), ("size", "large")]
    assert best_query(ByTitle(), wish(), 39) == "red hat"  # type: ignore[arg-type]
    assert best_query(ByTitle(), wish(), 77) == ""  # type: ignore[arg-type]


class ByTitle:
    """Finds the product only by a word of its title, as the 40th."""

    def top(self, query: str, k: int) -> tuple[int, ...]:
        return tuple(range(50)) if "red" in query else ()


@pytest.mark.parametrize(
    ("arguments", "least"), [({}, 0.8), ({"observation_mode": "text_rich"}, 0.8), ({"noise": (1, 0.3)}, 0.7)]
)
def test_a_patient_shopper_buys_in_time_and_mostly_well(arguments: dict[str, object], least: float) -> None:
    env = WebShopEnv(**arguments)  # type: ignore[arg-type]
    played = [visit_of(env, index, patience=5) for index in range(60)]
    assert all(info["bought"] for info in played)
    assert sum(info["won"] for info in played) >= least * 60
    hasty = [visit_of(env, index, patience=0) for index in range(60)]
    assert sum(info["score"] for info in hasty) < sum(info["score"] for info in played)
    assert max(info["steps"] for info in hasty) <= 5  # type: ignore[arg-type]


@settings(max_examples=200, derandomize=True)
@given(st.lists(st.tuples(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=4)), max_size=6))
def test_any_text_is_answered_with_a_command(pages: list[tuple[str, list[str]]]) -> None:
    shopper = WebShopPlayer()
    for observation, clicks in pages:
        command = shopper.act(
            observation, [f"click[{click}]" for click in clicks] + ["click[next >]"] * (len(clicks) % 2)
        )
        assert command.startswith(("search[", "click["))
        assert command.endswith("]")


def test_price_tags_that_are_none_and_arguments_out_of_range() -> None:
    page = " [SEP] ".join(["Instruction:", "a hat", "Back to Search", "Page 1", "Next >", "B1", "Hat", "$.", "$1.2.3"])
    assert WebShopPlayer().act(page, ["click[back to search]", "click[next >]", "click[b1]"]) == "click[b1]"
    for arguments in ({"patience": -1}, {"steps": 0}):
        refuses(ValueError, "at least", WebShopPlayer, **arguments)


FULL = (
    "my sister wants cruelty free, oil free lip balm with shea butter and metal tin with flavor: sea salt, "
    "and quantity: 2 pack, and price lower than 40.00 dollars"
)


def test_requests_are_read() -> None:
    assert keywords(FULL) == ["cruelty", "free", "oil", "free", "lip", "balm", "shea", "butter", "metal", "tin"]
    assert price_limit(FULL) == 40
    assert wished_options(FULL) == {"flavor": "sea salt", "quantity": "2 pack"}
    request = "find me hats with brim"
    assert (keywords(request), price_limit(request), wished_options(request)) == (["hats", "brim"], float("inf"), {})
    request = "i'm looking for an x-large hoodie in dark red under 50 dollars."
    assert keywords(request) == ["x-large", "hoodie", "dark", "red", "50"]
    values = ["large", "x-large", "xx-large", "red", "dark red", "green", "zip/er (new)"]
    assert mentioned(request, values) == ["dark red", "x-large"]
    assert wished_options(request) == {}
    assert price_limit(request) == float("inf")
    assert mentioned("with a+b (new)", ["a+b (new)", "aab new", "", " "]) == ["a+b (new)"]
    assert wished_options("hat with fit: a+b (new), 3' with x, and color: r.b") == {
        "fit": "a+b (new), 3' with x",
        "color": "r.b",
    }
    for tag in ("$" + "9" * 400, "$" + "0." + "1" * 10**6, "$" + "1" * 5000):
        refuses(ValueError, "expected amounts", read_tag, tag)
    assert np.isinf(price_limit("price lower than " + "9" * 400))


@settings(max_examples=200, derandomize=True)
@given(st.text(max_size=60), st.lists(st.text(max_size=8), max_size=4))
def test_any_text_is_a_request(request: str, values: list[str]) -> None:
    assert all(word and word == word.strip() for word in keywords(request))
    assert price_limit(request) >= 0
    assert set(mentioned(request, values)) <= set(values)
    assert all(name and value in request.lower() for name, value in wished_options(request).items())
