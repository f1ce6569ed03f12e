"""What is particular to an environment: one row each, written into the configuration, and enough for its policy."""

import dataclasses

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")

from agentgym.core import TextEnv, TextSpace
from agentgym.outside.files import OtherConfigurationError
from baselines.environments.alfworld import ALFWORLD
from baselines.environments.registry import SETTINGS, settings_of
from baselines.environments.settings import Setup
from baselines.environments.sokoban import SOKOBAN
from baselines.environments.virtualhome import VIRTUALHOME
from baselines.runs.config import Config, make_config
from baselines.runs.stack import held_out_tasks, make_envs, new_policy, training_tasks, validation_tasks
from benchmarks.json_files import ResultsError, claimed, load, write_json
from benchmarks.play.panel import choose_panel, play_panel
from benchmarks.play.players import Sampling, find_player
from tests.refusals import refuses


def config_of(row, **sizes):
    return make_config(row, methods=["grpo"], seeds=[0], model="tiny", history=None, sizes=row.quick)


def test_rows_are_found_by_names_ids_and_splits() -> None:
    config = config_of(SOKOBAN)
    assert config.setup == Setup(plenty={"num_levels": 100_000})
    assert held_out_tasks(config)[-1] == {"split": "test", "index": 63}
    assert validation_tasks(config)[0] == {"split": "validation", "index": 0}
    assert training_tasks(config)[0] == {"split": "train", "index": 200}
    assert settings_of("alfworld") is settings_of("AgentRL/ALFWorld-v0") is ALFWORLD
    assert settings_of("AgentRL/Other-v0").setup == dataclasses.replace(SOKOBAN.setup, plenty={})
    assert len(choose_panel("alfworld/valid_unseen", {"task_types": [1, 2]})[0].tasks) < 144  # two of six task types
    assert len(choose_panel("sokoban", {})[0].tasks) == 1000


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_no_task_is_used_twice(row):
    config = config_of(row)
    parts = [training_tasks(config), validation_tasks(config), held_out_tasks(config)]
    named = [{(task["split"], task["index"]) for task in part} for part in parts]
    assert len(set.union(*named)) == sum(map(len, parts))


def test_a_configuration_survives_its_file(tmp_path):
    config = config_of(ALFWORLD)
    write_json(config, tmp_path / "config.json")
    assert load(Config, tmp_path / "config.json") == config
    with claimed(tmp_path, config):
        pass
    with pytest.raises(OtherConfigurationError, match=r"setup\.\w+.*: there"), claimed(tmp_path, config_of(SOKOBAN)):
        pass


@pytest.mark.parametrize(("row", "most_tokens", "longest"), [(ALFWORLD, 7, 140), (VIRTUALHOME, 12, 60)])
def test_the_policy_of_households_can_write_whatever_its_expert_says(row, most_tokens, longest):
    """Every command of 24 tasks, all task types, within the limit of tokens: no letters, and no unknown words."""
    from agentgym.rollout import collect
    from policies.scripted import ExpertPolicy

    config = config_of(row)
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


def test_an_environment_without_a_list_of_tasks_makes_no_panel(monkeypatch):
    class Bare(TextEnv[str]):
        observation_space = action_space = TextSpace()

    Bare.__abstractmethods__ = frozenset()
    monkeypatch.setitem(gym.registry, "Mine/Bare-v0", gym.envs.registration.EnvSpec("Mine/Bare-v0", entry_point=Bare))
    refuses(ResultsError, "Mine/Bare-v0 has no list of tasks", choose_panel, "Mine/Bare-v0", {})
