"""Any scorer in a trainer: when it is asked, what it is told, and that a run with it is resumed."""

from pathlib import Path
from typing import Any

import pytest

from baselines.recipes import RECIPES
from baselines.scorers.scorer import ScorerConfig
from tests.baselines.corridor_learning import babbling_policy, small_policy
from tests.baselines.scorers.fixed import Fixed
from tests.baselines.test_trainer import digest, repeatable, trainer
from tests.refusals import refuses


def test_scorers_are_given_and_learn_after_or_before() -> None:
    after, before = Fixed(), Fixed("before")
    for scorer in (after, before):
        rows = trainer(iterations=1, credit=RECIPES["judge"], scorer=scorer).run()
        assert rows[-1]["asked"] > 0
        assert rows[-1]["prm_pair_accuracy"] in (0.5, 1.0)  # won episodes are those it scores
    assert after.seen == [("scores", None), ("update", None)]
    assert before.seen == [("scores", None), ("update", None), ("scores", None)]
    with pytest.raises(ValueError, match=r"judge needs scores and makes no scorer: pass one, Trainer\(..., scorer="):
        trainer(credit=RECIPES["judge"])
    refuses(NotImplementedError, "ScorerConfig makes no scorer", lambda: ScorerConfig().make(small_policy()))


def test_its_state_is_in_the_checkpoint_and_so_are_its_settings(tmp_path: Path) -> None:
    trainer(iterations=2, credit=RECIPES["judge"], scorer=Fixed(), folder=tmp_path).run()
    resumed = Fixed()
    trainer(iterations=2, credit=RECIPES["judge"], scorer=resumed, folder=tmp_path, resume=True)
    assert resumed.seen == [("loaded", None)] * 4
    with pytest.raises(ValueError, match=r"scorer\.order: checkpoint after, here before"):
        trainer(iterations=2, credit=RECIPES["judge"], scorer=Fixed("before"), folder=tmp_path, resume=True)


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.scorer is not None])
def test_interrupted_and_resumed_equals_straight(name: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"credit": RECIPES[name], "checkpoint.every": 1}
    straight, resumed = babbling_policy(), babbling_policy()
    rows = trainer(straight, iterations=2, folder=tmp_path / "a", **changes).run()
    trainer(iterations=1, folder=tmp_path / "b", **changes).run()
    again = trainer(resumed, iterations=2, folder=tmp_path / "b", resume=True, **changes).run()
    assert digest(resumed) == digest(straight)
    assert repeatable(again) == repeatable(rows)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"level": "word"}, "level must be 'turn' or 'token', got 'word'"),
        ({"rate": 0.0}, "rate must be above 0"),
        ({"microbatch_tokens": 0}, "microbatch_tokens must be None or at least 1"),
    ],
)
def test_a_wrong_number_is_named(changes: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, ScorerConfig, **changes)
