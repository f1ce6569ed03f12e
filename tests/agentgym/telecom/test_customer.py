"""The customer as a second side: by rules, by a player, by an agent of PettingZoo."""

import warnings
from collections.abc import Sequence

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from agentgym.outside.dialogue import LEAVE, Act, Failure, write
from agentgym.outside.tool_calls import ToolCall, write_call
from agentgym.telecom.customer import MOST_ACTS, NONE, PATIENCE, View, asked
from agentgym.telecom.env import TelecomEnv
from agentgym.telecom.player import TelecomPlayer
from tests.cases import cases
from tests.playing import Scripted
from tests.refusals import refuses


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


def begun(env: TelecomEnv, index: int = 0) -> TelecomEnv:
    env.reset(seed=0, options={"split": "train", "index": index})
    return env


def test_switches_desks_and_patience() -> None:
    env = begun(TelecomEnv(side="agent", faults=(1, 1), kinds=["service"], hopeless=False))
    assert env._world.airplane_mode is False
    shown, *_ = env.step(say("Please turn off airplane mode."))
    assert shown.splitlines()[0] == "Customer: Airplane Mode is now ON."
    assert "Airplane Mode is now OFF." in shown
    assert env._world.airplane_mode is False
    env = begun(TelecomEnv(side="agent"))
    names = [tool["function"]["name"] for tool in env.tools]
    assert (len(names), names[-2:]) == (15, ["say", "done"])
    for action, words in (
        ("toggle_data()", "Error: Tool 'toggle_data' not found."),
        ("say()", "Error: say: the argument 'text' is missing"),
        ("say(text=3)", "Error: say: the argument 'text' must be of type string, got an integer"),
    ):
        shown, _, _, _, info = env.step(action)
        assert (shown, info["is_action_valid"]) == (words, False)
    assert env._errors == 3
    env, over, steps = begun(TelecomEnv(side="agent")), False, 0
    while not over:
        shown, reward, over, _, info = env.step(say("Good morning!"))
        steps += 1
    assert (steps, shown, reward, info["won"]) == (PATIENCE + 1, "The customer has left.", 0.0, False)
    env = begun(TelecomEnv(side="agent"))
    assert "555-" in env.step(say("What is your phone number?"))[0]
    words = 'Use grant_app_permission(app_name="messaging", permission="sms") and set_apn_settings(apn_settings={}).'
    assert [call for call, _ in asked(words)] == [
        ToolCall("grant_app_permission", {"app_name": "messaging", "permission": "sms"}),
        ToolCall("set_apn_settings", {"apn_settings": {}}),
    ]


def test_expert_and_fair_player_close_cases_with_a_customer() -> None:
    env = TelecomEnv(side="agent", expert=True)
    for index in range(25):
        begun(env, index)
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


def test_a_customer_that_fails_or_never_stops() -> None:
    env = begun(TelecomEnv(side="agent", customer=Recorded(Failure("no answer"))))
    *_, over, _, info = env.step(say("Hello"))
    assert (over, info["unscored"], info["failure"], info["won"]) == (True, True, "no answer", False)
    env = begun(TelecomEnv(side="agent", customer=Recorded(*[Act("action", "check_status_bar()")] * 20)))
    assert env.step(say("Hello"))[0] == "The customer says nothing."
    assert len(env._talk.turns) == MOST_ACTS + 1
    refuses(ValueError, "customer must be 'rules'", TelecomEnv, side="agent", customer="robot")


def test_policies_and_models_in_the_slot_of_sotopia_are_customers() -> None:
    from agentgym.sotopia.models import act_request
    from baselines.play.second_player import PolicyPartner

    acts = [write(Act("action", "toggle_data()")), write(Act("speak", "It is done."))]
    policy = Scripted(*(f"<action>{act}</action>" for act in acts), by="reply")
    env = begun(TelecomEnv(side="agent", customer=PolicyPartner(policy, order="random", history=4)))
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
    env = begun(TelecomEnv(side="agent"))
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

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(gym.make("AgentRL/Telecom-v0", side="agent").unwrapped, skip_render_check=True)
        parallel_api_test(parallel_env(), num_cycles=100)
        parallel_seed_test(parallel_env, num_cycles=100)
        # no api_test: it asks observations for their dtype, which texts lack
        seed_test(aec_env, num_cycles=100)
    spoken = [say("Please use toggle_data()."), "done()"]
    alone = begun(TelecomEnv(side="agent"))
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
