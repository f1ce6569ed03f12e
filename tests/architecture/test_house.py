"""The measures of the house: that they count what they say, and that the limits hold."""

import pytest

from tests.architecture import house, route
from tests.architecture.house import LIMITS, ROUTE, Limit, broken, measures


def test_every_limit_holds() -> None:
    assert broken(measures()) == []
    limits = [Limit("a", 2), Limit("b", 2, later=3), Limit("c", 2)]
    assert broken({"a": 3, "b": 3, "c": 2}, limits) == ["a: 3, at most 2"]


def test_every_limit_is_measured_or_is_of_a_folder_to_come() -> None:
    found = measures()
    unknown = [limit.measure for limit in LIMITS if limit.measure not in (*found, *ROUTE)]
    assert all(measure.startswith("lines of benchmarks/") for measure in unknown)
    assert found["lines of source"] == sum(found[f"lines of {folder}"] for folder in house.FOLDERS)


def test_mentions_are_counted_as_the_rules_say() -> None:
    assert "agentgym/registry.py" in house.environments()["webshop"]
    assert not any("webshop" in path for path in house.environments()["webshop"])
    # Its own file and the two lists of exports are aside; one method may stand in another's name.
    named = house.methods()["grpo"]
    assert not {"wrappers/credit/grpo.py", "wrappers/credit/__init__.py", "wrappers/__init__.py"} & set(named)
    code = house.methods(prose=False)
    assert all(set(code[name]) <= set(files) for name, files in house.methods().items())
    # A cupboard holds salt, and a search is of potential use: neither is a method's name.
    assert not any(path.startswith("agentgym/") for path in (*code["salt"], *code["potential"]))


def test_the_table_has_every_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(measure in printed for measure in (*measures(), *(limit.measure for limit in LIMITS)))
    assert "method grpo:" in printed


def test_the_route_notes_functions_of_the_house_alone() -> None:
    from wrappers.reply import parse_reply

    walked = route.Route()
    walked.start()
    try:
        parse_reply("<action>up</action>")
        sorted([2, 1], key=lambda number: number)
    finally:
        walked.stop()
    assert ("wrappers/reply.py", "parse_reply") in walked.entered
    assert all(file.split("/")[0] in house.FOLDERS for file in walked.files)


@pytest.mark.slow
def test_an_iteration_goes_through_every_stage() -> None:
    walked = route.walk()
    assert {"agentgym/vector.py", "baselines/trainer.py", "policies/huggingface.py"} <= set(walked.files)
    assert any(file.startswith("wrappers/credit/") for file in walked.files)
    assert walked.entered == route.walk().entered
