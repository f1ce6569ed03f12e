"""The studies by name; a new one is an entry of `STUDIES` and a page in docs/studies/."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from benchmarks.paper_studies.description import Arm, Study, Trained

#: Episodes per iteration of every trained run.
_EPISODES = 128
_GROUP_SIZE = 8


def _sized(method: str) -> Iterator[Arm]:
    for size in (2, _GROUP_SIZE, 16):
        same = size == _GROUP_SIZE
        setting = method if same else f"{method} groups={_EPISODES // size} group_size={size}"
        yield Arm(setting, method, str(size), "" if same else method)


def _budgeted(method: str) -> Iterator[Arm]:
    yield Arm(f"{method} token_budget=25000", method, "25,000", method)
    yield Arm(f"{method} token_budget=50000", method, "50,000", method)
    yield Arm(method, method, "100,000")


def _unscaled(method: str) -> Iterator[Arm]:
    yield Arm(method, method, "group")
    yield Arm(f"{method}:std=none", method, "none", method)


_SCALE = "divided by the deviation of"
#: By outcomes, by states, by graphs; with a critic, with a reward model, with continuations.
_TIMED = ("grpo", "gigpo", "hgpo", "rewardflow", "graphgpo", "frontier", "ppo", "istar", "tree_grpo", "vine")
_TWO = (Arm("grpo", "grpo", ""), Arm("graphgpo", "graphgpo", "", "grpo"))
_BOARDS = functools.partial(Trained, "sokoban", tokens=100_000, sizes={"eval_tasks": 256})
_HOUSEHOLDS = Trained(
    "alfworld", _TWO, "split", tokens=100_000, splits={"valid_seen": "seen rooms", "valid_unseen": "unseen rooms"}
)

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            "seen-unseen",
            "Does what is learned hold where training never was?",
            trained=(_BOARDS(_TWO, "split", splits={"train": "cloned levels", "test": "new levels"}), _HOUSEHOLDS),
        ),
        Study(
            "rollout-budget",
            "What do more rollouts of a task, or of a whole training, bring?",
            trained=(_BOARDS((*_budgeted("grpo"), *_budgeted("graphgpo")), "reply tokens of a run"),),
        ),
        Study(
            "group-size",
            "How many episodes should a group have, where the number of episodes is given?",
            trained=(_BOARDS((*_sized("grpo"), *_sized("graphgpo")), "episodes of a group"),),
        ),
        Study(
            "distance",
            "Is a state worth what its nearest success says, or what all successes say in the mean?",
            trained=(
                _BOARDS((
                    Arm("rewardflow", "rewardflow", "nearest"),
                    Arm("rewardflow:aggregate=mean", "rewardflow", "mean", "rewardflow"),
                ), "distance"),
            ),
        ),
        Study(
            "normalisation",
            "Should advantages be divided by a standard deviation?",
            trained=(_BOARDS((*_unscaled("grpo"), *_unscaled("gigpo"), *_unscaled("graphgpo")), _SCALE),),
        ),
        Study(
            "cosine-threshold",
            "From which similarity on should texts count as one state?",
        ),
        Study(
            "adverts",
            "What do adverts between the lines of a page do to credit that compares states?",
        ),
        Study(
            "graph-statistics",
            "What do the graphs of a group look like, and what is there to compare?",
        ),
        Study(
            "share-of-time",
            "Where does the time of training go, and how much of it is credit?",
            trained=(_BOARDS(tuple(Arm(method, method, "") for method in _TIMED), "method", shares=True),),
        ),
    )
}  # fmt: skip
