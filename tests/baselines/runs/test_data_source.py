"""Runs play the data that variables and options name; published configurations stay what they were without either."""

import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentgym.outside.files import OtherConfigurationError
from baselines.environments.registry import SETTINGS, settings_of
from baselines.runs.config import Config
from baselines.runs.data_source import DataSource, hand_on, noted, open_data
from baselines.runs.stack import held_out_tasks, make_envs, training_tasks, validation_tasks
from tests.agentgym.alfworld.support import unpack
from tests.agentgym.sotopia.support import FOLDER as PROFILES
from tests.agentgym.sotopia.support import needs_data
from tests.agentgym.virtualhome import houses
from tests.baselines.configs import config_of
from tests.benchmarks.command import run
from tests.oracles import oracle
from tests.refusals import refuses

PUBLISHED = Path(__file__).parents[3] / "docs" / "results" / "head-to-head"
VARIABLES = ("ALFWORLD_DATA", "VIRTUALHOME_DATA")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("alfworld")
    counts = {"train": ("train_240", 7), "valid_seen": ("valid_seen", 5), "valid_unseen": ("valid_unseen", 4)}
    return unpack(place, counts)


def opened(env: str, given: dict[str, Any], **options: Any) -> tuple[Config, DataSource]:
    config = config_of(env, full=True, **options.pop("changes", {}))
    return open_data(config, settings_of(env), given, **options)


@pytest.mark.parametrize("model", ["tiny", "other"])
@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_without_variables_and_options_a_configuration_is_what_it_was(row, model, tmp_path, monkeypatch) -> None:
    for full in (True, False):
        config = config_of(row.name, model, full)
        found, source = open_data(config, row, {})
        assert (found, source.source) == (config, "generated")
    if row.name == "alfworld":  # generated tasks are played where they are asked for, whatever the variable says
        monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
        found, source = open_data(config, row, {"data": "generated"})
        assert (found, source.source) == (config, "generated")


@pytest.mark.parametrize("command", [[], ["train"], ["head-to-head"]], ids=lambda words: "".join(words) or "benchmark")
@pytest.mark.parametrize(
    ("env", "variable"), [("alfworld", "ALFWORLD_DATA"), ("virtualhome", "VIRTUALHOME_DATA")]
)  # fmt: skip
def test_data_that_are_not_there_end_a_command_as_they_end_gym_make(
    command: list[str], env: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "nothing here"
    monkeypatch.setenv(variable, str(missing))
    with pytest.raises(ValueError, match="is not a folder") as raised:
        gym.make(settings_of(env).id)
    asked = (*command, "--env", env, "--quick", "--out", tmp_path / "out")
    said = run(*asked, status=2)
    assert (str(raised.value) in said, str(missing) in said) == (True, True)
    assert not (tmp_path / "out").exists()
    # An option wins over the variable.
    wrong = tmp_path / "elsewhere"
    said = run(*asked, "--option", f"data={wrong}", status=2)
    assert (str(wrong) in said, str(missing) in said) == (True, False)


def test_official_games_are_trained_validated_and_tested_on_in_the_splits_that_they_have(games, monkeypatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(games))
    config, source = opened("alfworld", {})
    assert source.tasks == {"train": 7, "valid_seen": 5, "valid_unseen": 4}
    assert (source.source, config.data) == (f"ALFWORLD_DATA={games}", source.fingerprint)
    # Of 6,000 and 4,000 tasks to clone and to train on, 7 leave 7 * 6000 // 10000 = 4, and the other 3.
    assert (config.clone_tasks, config.training_tasks) == (4, 3)
    assert (config.setup.validation, config.validation_tasks) == ("valid_seen", 5)
    assert (config.setup.test, config.eval_tasks, config.setup.beside) == ("valid_unseen", 4, [])
    played = [*training_tasks(config), *validation_tasks(config), *held_out_tasks(config)]
    assert len({(task["split"], task["index"]) for task in played}) == 3 + 5 + 4
    _, infos = make_envs(config, len(played)).reset(options=played)
    folders = {str(path.relative_to(games / "json_2.1.1")).partition("/")[2] for path in games.glob("*/*/*/*")}
    assert set(infos["task_id"]) < folders


def test_a_run_without_a_warm_start_trains_on_the_whole_split(games: Path) -> None:
    changes = {"clone_tasks": 0, "training_tasks": 2}
    config, _ = opened("alfworld", {"data": str(games)}, changes=changes, whole=True)
    assert (config.clone_tasks, config.training_tasks) == (0, 7)
    assert opened("alfworld", {"data": str(games)}, changes=changes)[0].training_tasks == 2


def test_splits_that_are_missing_are_shared_or_named(games: Path, tmp_path: Path) -> None:
    place = tmp_path / "json_2.1.1"
    shutil.copytree(games / "json_2.1.1" / "train", place / "train")
    with pytest.raises(ValueError, match=r"no tasks to validate and test on beside 'train'.*'valid_seen'.*got"):
        opened("alfworld", {"data": str(tmp_path)})
    shutil.copytree(games / "json_2.1.1" / "valid_seen", place / "valid_seen")
    config, _ = opened("alfworld", {"data": str(tmp_path)})
    # 256 test and 128 validation tasks of five: 5 * 256 // 384 = 3, and the other two.
    assert (config.setup.test, config.setup.validation) == ("valid_seen", "valid_seen")
    assert (config.eval_tasks, config.validation_tasks) == (3, 2)
    assert validation_tasks(config) == [{"split": "valid_seen", "index": 3}, {"split": "valid_seen", "index": 4}]
    shutil.rmtree(place / "train")
    with pytest.raises(ValueError, match=r"no tasks to train on: expected a split 'train', got \['valid_seen'\]"):
        opened("alfworld", {"data": str(tmp_path)})


def test_numbers_that_were_asked_for_are_kept_or_refused(games: Path) -> None:
    data = {"data": str(games)}
    config, _ = opened("alfworld", data, changes={"clone_tasks": 6}, stated=["clone_tasks"])
    assert (config.clone_tasks, config.training_tasks) == (6, 1)
    with pytest.raises(ValueError, match="split 'train' has 7 tasks, too few for 7 tasks to clone on and 1 more"):
        opened("alfworld", data, changes={"clone_tasks": 7}, stated=["clone_tasks"])
    with pytest.raises(ValueError, match=r"split 'valid_unseen' has 4 tasks, too few for 9 tasks to test on$"):
        opened("alfworld", data, changes={"eval_tasks": 9}, stated=["eval_tasks"])


def test_a_fingerprint_goes_by_the_tasks_and_not_by_where_they_lie(games: Path, tmp_path: Path) -> None:
    shutil.copytree(games, tmp_path / "copy")
    _, first = opened("alfworld", {"data": str(games)})
    _, moved = opened("alfworld", {"data": str(tmp_path / "copy")})
    assert (first.fingerprint, first.source) == (moved.fingerprint, f"data={games}")
    other = tmp_path / "other"
    shutil.copytree(games, other)
    shutil.rmtree(sorted((other / "json_2.1.1" / "valid_seen").iterdir())[0])
    fewer = opened("alfworld", {"data": str(other)})[1]
    generated = [opened("alfworld", {"game_seed": seed})[1].fingerprint for seed in (0, 1)]
    assert len({first.fingerprint, fewer.fingerprint, *generated}) == 4
    moved.note(tmp_path / "run")
    first.note(tmp_path / "run")  # the same games in another place
    (tmp_path / "run" / "log.jsonl").touch()
    with pytest.raises(OtherConfigurationError, match=f"(?s)other data.*{first.fingerprint}.*{fewer.fingerprint}"):
        fewer.note(tmp_path / "run")
    assert noted(tmp_path / "run") == moved


def test_a_run_goes_on_with_its_own_data_alone(games: Path, tmp_path: Path) -> None:
    official, generated = opened("alfworld", {"data": str(games)})[1], opened("alfworld", {})[1]
    generated.note(tmp_path)
    official.note(tmp_path)  # nothing was played on the first
    (tmp_path / "log.jsonl").touch()
    refuses(OtherConfigurationError, "holds a run on other data", generated.note, tmp_path)
    with pytest.raises(OtherConfigurationError, match=r"'reward': 2"):
        opened("alfworld", {"data": str(games), "reward": 2})[1].note(tmp_path)
    (tmp_path / "data_source.json").unlink()  # as runs were begun before they noted any
    refuses(OtherConfigurationError, r"there generated tasks \(it has no data_source.json\)", official.note, tmp_path)
    generated.note(tmp_path)
    (tmp_path / "model").mkdir()
    hand_on(tmp_path, tmp_path / "model")
    assert noted(tmp_path / "model") == generated


def test_what_a_user_says_of_generated_tasks_wins() -> None:
    config, source = opened("alfworld", {"num_games": 90, "max_episode_steps": 7, "task_types": [1]})
    assert config.setup.plenty == {}
    assert config.setup.options == {
        "data": "generated", "num_games": 90, "max_episode_steps": 7, "task_types": [1]
    }  # fmt: skip
    played = gym.make("AgentRL/ALFWorld-v0", data="generated", num_games=90, task_types=[1]).unwrapped
    assert source.tasks["train"] == config.clone_tasks + config.training_tasks == played.tasks.count("train") < 90
    assert config.data is None
    refuses(ValueError, "--option split='test': a run sets 'split' itself", opened, "alfworld", {"split": "test"})
    refuses(TypeError, r"unknown argument 'num_gmes'.*did you mean 'num_games'", opened, "alfworld", {"num_gmes": 90})


def test_published_activities_are_trained_on() -> None:
    config, source = opened("virtualhome", {"data": str(houses.find("scene1_518_diffs.json.xz").parent)})
    assert (config.setup.validation, config.setup.test) == ("valid_seen", "valid_unseen")
    assert config.setup.plenty == {}
    assert "task_types" not in config.setup.options  # families of the generator
    assert config.clone_tasks + config.training_tasks == source.tasks["train"]


def test_questions_of_others_are_trained_on_and_their_corpus_counts(tmp_path: Path) -> None:
    questions, corpus = tmp_path / "questions.jsonl", tmp_path / "corpus.jsonl"
    for path in (questions, corpus):
        path.write_bytes(lzma.decompress(oracle("searchqa", f"{path.name}.xz").read_bytes()))
    given = {"questions": str(questions), "corpus": str(corpus)}
    config, source = opened("searchqa", given)
    assert (config.setup.train, config.setup.validation, config.setup.test) == ("train", "dev", "test")
    assert not {"sources", "kinds"} & config.setup.options.keys()
    lines = corpus.read_bytes().splitlines(keepends=True)
    last = json.loads(lines[-1])
    corpus.write_bytes(
        b"".join(lines[:-1]) + json.dumps({**last, "contents": last["contents"] + " x"}).encode() + b"\n"
    )
    assert opened("searchqa", given)[1].fingerprint != source.fingerprint


@needs_data
def test_data_without_tasks_to_train_on_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no tasks to train on: expected a split 'train', got \['all', 'hard', 'num"):
        opened("sotopia", {"data": str(PROFILES)})
