"""Who plays: the player of adjustable quality, tasks, policies of jobs."""

import numpy as np
import pytest

from baselines.environments.sokoban import SOKOBAN
from baselines.runs.config import make_config as make_learning_config
from benchmarks.json_files import ResultsError, write_json
from benchmarks.truth.episodes import NoisyExpert, make_config, scripted_of, tasks_of
from tests.refusals import refuses

MOVES = scripted_of("sokoban").others


def texts(optimal, advice, seed=0):
    infos, player = {"expert_action": np.array(advice, dtype=object)}, NoisyExpert(optimal, MOVES)
    return [reply.text for reply in player.act([""] * len(advice), infos, np.random.default_rng(seed))]


def test_players_and_tasks() -> None:
    assert texts(1.0, ["up"] * 50) == ["up"] * 50
    # A dead end has no optimal move: all four come up.
    assert set(texts(1.0, [""] * 50)) == {"up", "down", "left", "right"}
    # With probability .6 the expert's, and with .4 / 4 = .1 the same move by chance: .7 of 20,000, standard deviation
    # sqrt(.7 * .3 / 20,000) = .0032.
    played = texts(0.6, ["left"] * 20_000)
    assert played.count("left") / len(played) == pytest.approx(0.7, abs=0.015)
    for other in ("up", "down", "right"):
        assert played.count(other) / len(played) == pytest.approx(0.1, abs=0.015)
    for one, other in zip(texts(0.5, ["up"] * 40), texts(0.5, ["down"] * 40), strict=True):
        assert one == other or (one, other) == ("up", "down")
    assert tasks_of("sokoban", 1) == [{"split": "validation", "index": 0}]
    assert tasks_of("alfworld", 1) == [{"split": "valid_unseen", "index": 256}]
    assert tasks_of("alfworld", 1, "test") == [{"split": "valid_unseen", "index": 0}]


@pytest.mark.parametrize("optimal", [-0.1, 1.1])
def test_no_probability(optimal):
    refuses(ValueError, "probability", NoisyExpert, optimal)


def test_weights_are_part_of_the_configuration_and_files_of_players_distinct(tmp_path):
    """Jobs as far as a configuration looks at them."""
    config = make_learning_config(SOKOBAN, methods=["grpo"], seeds=[0], model="tiny", history=None, sizes=SOKOBAN.quick)
    write_json(config, tmp_path / "config.json")
    for name in ("job", "expert-50"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / "config.json").write_text("{}", encoding="utf-8")
    assert make_config(envs=["sokoban"]).weights is None
    found = []
    for weights in (b"1", b"1", b"2"):
        (tmp_path / "job" / "model" / "model.safetensors").write_bytes(weights)
        found.append(make_config(envs=["sokoban"], models=[tmp_path / "job"]))
    assert found[0] == found[1] != found[2]
    assert found[0].models == found[2].models
    for models, words in (
        ([tmp_path / "expert-50"], "the name 'expert-50' is taken by the player 'expert 50'"),
        ([tmp_path / "job", tmp_path / "job" / "model"], "the name 'job' is taken"),
        ([tmp_path], "job folder of a learning benchmark"),
    ):
        refuses(ResultsError, words, make_config, envs=["sokoban"], models=models)
    with pytest.raises(ResultsError, match="a policy for sokoban; this study plays webshop"):
        make_config(envs=["webshop"], models=[tmp_path / "job"])
