"""Numbers, texts and rewards are as they were frozen: see `freeze.py`, which also says how to freeze anew.

Those that take long are compared where STEPCREDIT_GOLDENS=all asks for it.
"""

import math
import os
from typing import Any

import numpy as np
import pytest

from agentgym.registry import ROWS
from tests.goldens.freeze import GOLDENS, main
from tests.goldens.records import DATA, circumstances, columns, computed, differences, encode, read, without_clock

ALL = os.environ.get("STEPCREDIT_GOLDENS") == "all"
#: What starts no process and takes a second; the others are marked slow.
_FAST = ("environments/", "credit/", "training/")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name.startswith(_FAST) else pytest.mark.slow) for name in GOLDENS]
)
def test_it_is_as_it_was_frozen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = GOLDENS[name]
    if golden.dear and not ALL:
        pytest.skip("takes long; STEPCREDIT_GOLDENS=all compares it")
    for variable in ("ALFWORLD_DATA", "VIRTUALHOME_DATA", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    kept, made_with = read(golden)
    lines = differences(kept, computed(golden))
    if lines and made_with != circumstances(golden):
        pytest.skip(f"differs, but was frozen with {made_with}, and here is {circumstances(golden)}")
    assert not lines, "\n".join([f"{name}, {len(lines)} paths; python -m tests.goldens.freeze --only {name}:", *lines])


def test_every_file_is_of_a_golden_and_all_are_small() -> None:
    files = {*DATA.rglob("*")} - {path for path in DATA.rglob("*") if path.is_dir()}
    assert files == {golden.file for golden in GOLDENS.values()}
    assert sum(file.stat().st_size for file in files) < 1_500_000


@pytest.mark.parametrize("name", [name for name in GOLDENS if name.startswith("training/recipe-")])
def test_every_update_of_a_recipe_has_something_to_learn_from(name: str) -> None:
    found = read(GOLDENS[name])[0]
    assert len(found["rows/grad_norm"]["numbers"]) == 3
    assert min(found["rows/grad_norm"]["numbers"]) > 0
    assert min(found["rows/signal"]["numbers"]) > 0


@pytest.mark.parametrize("name", [name for name in GOLDENS if name.startswith("credit/")])
def test_credit_is_given_in_most_tables(name: str) -> None:
    found = read(GOLDENS[name])[0].values()
    given = [column for column in found if any(value not in (0, "nan") for value in column.get("numbers", ()))]
    assert len(given) > len(found) / 2


@pytest.mark.parametrize("name", [row.id.removeprefix("AgentRL/").removesuffix("-v0") for row in ROWS])
def test_episodes_are_won_and_lost(name: str) -> None:
    ends = read(GOLDENS[f"environments/{name}"])[0]["ends"]["texts"]
    assert len(ends) == 20
    assert {end.split(", ")[1] for end in ends} == {"won True", "won False"}


def kept(record: Any) -> dict[str, Any]:
    return {path: encode(values) for path, values in columns(record).items()}


def test_a_change_beyond_a_millionth_is_noticed_wherever_it_is() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 24, 25, 400):
        numbers = rng.normal(size=count)
        for place in (0, count // 2, count - 1):
            for change, noticed in ((1e-4, True), (1e-12, False)):
                other = numbers.copy()
                other[place] += change * np.linalg.norm(numbers)
                assert bool(differences(kept({"a": numbers}), kept({"a": other}))) == noticed
    swapped = numbers.copy()
    swapped[[300, 301]] = swapped[[301, 300]]
    assert differences(kept({"a": numbers}), kept({"a": swapped}))
    assert differences(kept({"a": numbers}), kept({"a": numbers[:-1]}))


def test_what_is_not_a_number_is_noticed_and_a_difference_says_where() -> None:
    numbers = [1.0] * 30
    gap = [*numbers[:20], math.nan, *numbers[21:]]
    later = [*numbers[:21], math.nan, *numbers[22:]]
    assert differences(kept(numbers), kept(gap))
    assert differences(kept(gap), kept(later))
    assert not differences(kept(gap), kept(list(gap)))
    assert differences(kept([math.nan]), kept([math.inf]))
    texts = [f"state {i}" for i in range(30)]
    assert differences(kept(texts), kept([*texts[:-1], "another"]))
    assert not differences(kept(texts), kept(list(texts)))
    before, now = kept({"rows": [{"loss": 1.0}, {"loss": 2.0}]}), kept({"rows": [{"loss": 1.0}, {"loss": 3.0}]})
    assert differences(before, now) == ['rows/loss:\n    was {"numbers": [1.0, 2.0]}\n    is  {"numbers": [1.0, 3.0]}']
    assert differences(before, {}) == ['rows/loss: is gone: {"numbers": [1.0, 2.0]}']
    record = {"seconds": 1, "update_seconds": 2, "share_credit": 3, "versions": {"numpy": "2"}, "success": 0.5}
    assert without_clock([record]) == [{"success": 0.5}]


def test_an_unknown_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "credit/none"])
    assert "no golden is named 'credit/none'" in capsys.readouterr().err
    assert main(["--only", "credit/gigpo", "--list"]) == 0
    assert capsys.readouterr().out == "credit/gigpo\n"
