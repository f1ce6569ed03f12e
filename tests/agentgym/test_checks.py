"""What is said about wrong names and numbers."""

import numpy as np
import pytest

from agentgym.checks import check_name, check_repairs, keywords_of, nearest, real, whole
from tests.refusals import refuses


def test_names_and_numbers_are_checked() -> None:
    known = {"ghosts": "taken things are gone", "look": "it lists the room"}
    assert check_repairs("all", known) == check_repairs(["all"], known) == check_repairs(("all", "look"), known)
    assert check_repairs("all", known) == {"ghosts", "look"}
    assert check_repairs("look", known) == {"look"}
    for wrong in (None, 3, [["look"]], [None]):
        refuses(ValueError, r"unknown repair .*known: 'all', 'ghosts'", check_repairs, wrong, known)
    refuses(ValueError, "did you mean 'ghosts'", check_repairs, ["ghost"], known)
    assert check_name("min", ("min", "mean"), "distance") == "min"
    with pytest.raises(ValueError, match="unknown distance 'mxn'; known: 'min', 'mean'; did you mean"):
        check_name("mxn", ("min", "mean"), "distance")
    assert whole("index", np.int64(3), 0) == 3
    assert real("rate", 1, 0, 1, expected="a share") == 1.0
    for wrong in (True, -1, 1.5, "3", None):
        refuses(ValueError, "index must be an integer of at least 0", whole, "index", wrong, 0)
    for wrong in (True, -0.1, 1.1, float("nan"), "1", None):
        refuses(ValueError, "rate must be a share", real, "rate", wrong, 0, 1, expected="a share")
    assert keywords_of(Last) == ["shown", "size", "colour"]
    assert keywords_of(Middle) == ["size", "colour"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("learning_rat", "learning_rate"), ("lr", "learning_rate"), ("Groups", "groups"), ("clip", "clip_low"),
        ("resample", "resample_rounds"), ("", None), (3, None), ("kl", "kl"),
    ],
)  # fmt: skip
def test_the_nearest_name_is_by_spelling_initials_or_word(given: object, meant: str | None) -> None:
    names = ("learning_rate", "groups", "group_size", "clip_low", "clip_high", "resample_rounds", "kl")
    assert nearest(given, names) == meant


class Base:
    def __init__(self, *, size: int = 3, colour: str = "") -> None: ...


class Middle(Base):
    pass


class Last(Middle):
    def __init__(self, *, shown: bool = False, **kwargs: object) -> None: ...
