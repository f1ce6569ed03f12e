"""What is particular to an environment: its row of settings, the words that its tiny policy knows, its state graph."""

import dataclasses
import itertools
import re

import gymnasium as gym
import pytest

from agentgym.core import TextEnv, TextSpace
from agentgym.outside.dialogue import LEAVE, Act, write
from agentgym.outside.files import OtherConfigurationError
from agentgym.rollout import collect
from agentgym.sotopia.generated import generate
from agentgym.sotopia.players import make_player
from agentgym.telecom.env import TelecomEnv
from agentgym.telecom.player import TelecomPlayer
from baselines.environments.alfworld import ALFWORLD
from baselines.environments.registry import SETTINGS, settings_of
from baselines.environments.settings import Setup
from baselines.environments.sokoban import SOKOBAN
from baselines.environments.sotopia import SOTOPIA
from baselines.environments.telecom import _MISTAKES, NOISE, TELECOM, Trainee
from baselines.environments.virtualhome import VIRTUALHOME
from baselines.environments.webshop import WEBSHOP
from baselines.runs.config import Config
from baselines.runs.stack import held_out_tasks, make_envs, new_policy, tasks, training_tasks, validation_tasks
from benchmarks.json_files import ResultsError, claimed, load, write_json
from benchmarks.play.panel import choose_panel, play_panel
from benchmarks.play.players import Sampling, find_player
from policies.scripted import ExpertPolicy
from policies.tiny import tiny_tokenizer
from tests.agentgym.sotopia.support import play
from tests.baselines.configs import config_of
from tests.refusals import refuses


def test_rows_are_found_by_names_ids_and_splits_and_need_a_list_of_tasks(monkeypatch) -> None:
    config = config_of("sokoban")
    assert config.setup == Setup(plenty={"num_levels": 100_000})
    assert held_out_tasks(config)[-1] == {"split": "test", "index": 63}
    assert validation_tasks(config)[0] == {"split": "validation", "index": 0}
    assert training_tasks(config)[0] == {"split": "train", "index": 200}
    assert settings_of("alfworld") is settings_of("AgentRL/ALFWorld-v0") is ALFWORLD
    assert settings_of("AgentRL/Other-v0").setup == dataclasses.replace(SOKOBAN.setup, plenty={})
    assert len(choose_panel("alfworld/valid_unseen", {"task_types": [1, 2]})[0].tasks) < 144  # two of six task types
    assert len(choose_panel("sokoban", {})[0].tasks) == 1000

    class Bare(TextEnv[str]):
        observation_space = action_space = TextSpace()

    Bare.__abstractmethods__ = frozenset()
    monkeypatch.setitem(gym.registry, "Mine/Bare-v0", gym.envs.registration.EnvSpec("Mine/Bare-v0", entry_point=Bare))
    refuses(ResultsError, "Mine/Bare-v0 has no list of tasks", choose_panel, "Mine/Bare-v0", {})


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_no_task_is_used_twice(row):
    config = config_of(row.name)
    parts = [training_tasks(config), validation_tasks(config), held_out_tasks(config)]
    named = [{(task["split"], task["index"]) for task in part} for part in parts]
    assert len(set.union(*named)) == sum(map(len, parts))


def test_a_configuration_survives_its_file(tmp_path):
    config = config_of("alfworld")
    write_json(config, tmp_path / "config.json")
    assert load(Config, tmp_path / "config.json") == config
    with claimed(tmp_path, config):
        pass
    with pytest.raises(OtherConfigurationError, match=r"setup\.\w+.*: there"), claimed(tmp_path, config_of("sokoban")):
        pass


@pytest.mark.parametrize(("row", "most_tokens", "longest"), [(ALFWORLD, 7, 140), (VIRTUALHOME, 12, 60)])
def test_the_policy_of_households_can_write_whatever_its_expert_says(row, most_tokens, longest):
    """Every command of 24 tasks, all task types, within the limit of tokens: no letters, and no unknown words."""
    config = config_of(row.name)
    config.setup.options.pop("task_types", None)
    policy = new_policy(config, 0)
    envs = make_envs(config, 24, expert=True)
    table = collect(envs, ExpertPolicy(), tasks=held_out_tasks(config)[:24], seed=0)
    messages, _ = envs.reset(options=held_out_tasks(config)[:24])
    for reply in table.replies:
        assert len(policy.demonstrate(messages[0], reply.text).token_ids) <= most_tokens
    lengths = [len(policy.encode(message)) for message in messages]
    assert max(lengths) < longest
    assert policy.tokenizer.unk_token_id not in {token for message in messages for token in policy.encode(message)}


def test_a_whole_split_is_played_kind_by_kind(tmp_path):
    found, row = choose_panel("alfworld/valid_seen", {"num_games": 36})
    played = play_panel(found, find_player("explorer", row, found.arguments, Sampling(), tmp_path), tmp_path).summary
    assert set(played.kinds) == set(ALFWORLD.kind_names)
    assert played.success.mean > 0.8


def test_no_word_of_a_meeting_is_spelled_out() -> None:
    tokenizer = tiny_tokenizer(SOTOPIA.words(), pieces=SOTOPIA.pieces)
    for index in range(30):
        dialogue = play(generate("schedule", 0, index), make_player("negotiator"), make_player("rules"))
        texts = [dialogue.text.partition("Conversation Starts:")[2]]
        texts += [write(turn.acts[0]) for turn in dialogue.turns if turn.acts[0].kind in ("speak", "leave")]
        for text in texts:
            letters = [token for token in tokenizer.tokenize(text) if re.fullmatch("[A-Za-z]", token)]
            assert not letters, (text, letters)
    assert len(tokenizer.tokenize(write(Act("speak", "How about Monday at noon?")))) == 5
    assert len(tokenizer.tokenize(write(LEAVE))) == 1


def test_a_trainee_takes_repairs_for_others_as_often_as_is_said_and_a_clone_is_shown_fewer_faults() -> None:
    env, right, wrong = TelecomEnv(faults=(1, 2), kinds=["mobile_data"], hopeless=False), 0, 0
    for index in range(150):
        observation, _ = env.reset(options={"split": "train", "index": index})
        trainee, player, over = Trainee(NOISE), TelecomPlayer(), False
        while not over:
            call, meant = trainee.act(observation, ()), player.act(observation, ())
            assert call in (meant, _MISTAKES.get(meant))
            right += call == meant and meant in _MISTAKES
            wrong += call != meant
            observation, _, over, *_ = env.step(call)
    assert wrong / (right + wrong) == pytest.approx(NOISE, abs=0.1)
    setup = settings_of("telecom").played_by("smollm2").setup
    assert (setup.options["faults"], setup.while_cloned().options["faults"]) == ([1, 3], [1, 2])
    assert TELECOM.setup.while_cloned() == TELECOM.setup


LETTERS = set("abcdefghijklmnopqrstuvwxyz0123456789")


def whole(text):
    """Leave the line out at which a page was cut off; a long phrase of many lines goes with it."""
    if "[cut]" not in text:
        return text
    lines = itertools.takewhile(lambda line: not line.startswith("Rating"), text.split(" [SEP] ")[:-1])
    return " [SEP] ".join([*lines, ""])


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer([], WEBSHOP.words(), pieces=WEBSHOP.pieces, lower_case=True)


@pytest.fixture(scope="module")
def steps():
    """Prompts and advice of 64 training episodes."""
    config = config_of("webshop")
    envs = make_envs(config, 64, expert=True)
    observations, infos = envs.reset(options=tasks("train", 64))
    found = []
    for _ in range(config.setup.options["max_episode_steps"]):
        found += [
            (chat[-1]["content"], advice) for chat, advice in zip(observations, infos["expert_action"], strict=True)
        ]
        observations, _, _, _, infos = envs.step([f"<action>{advice}</action>" for advice in infos["expert_action"]])
    return [(prompt, advice) for prompt, advice in found if advice]


def test_words_of_prompts_and_commands_are_few_tokens_and_read_back(tokenizer, steps):
    assert len(steps) > 200
    for prompt, advice in steps:
        for text in (prompt, advice):
            # Numbers below ten are words of one character.
            tokens = tokenizer.tokenize(whole(text))
            assert not [token for token in tokens if token in LETTERS - set("123456789")], (text, tokens)
    lengths = [len(tokenizer(prompt)["input_ids"]) for prompt, _ in steps]
    assert max(lengths) < 220
    assert sum(lengths) / len(lengths) < 100
    # the command, the tag that closes it, and nothing more
    longest = max(len(tokenizer(f"{advice}</action>")["input_ids"]) for _, advice in steps)
    assert longest <= WEBSHOP.setup.policy["max_new_tokens"]
    for _, advice in steps:
        assert tokenizer.decode(tokenizer(advice)["input_ids"]) == advice
    assert tokenizer.tokenize("click[b000001234]") == ["click[b00000", "12", "34", "]"]
    assert tokenizer.tokenize("search[Odor Resistant sandals]") == ["search[", "odor resistant", " ", "sandals", "]"]
    assert tokenizer.tokenize("click[buy now]") == ["click[buy now]"]
    # A phrase inside another word is none.
    assert "sandals" not in tokenizer.tokenize("sandalsandals")
