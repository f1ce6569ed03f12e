"""The studies by name; a new one is an entry of `STUDIES` and a page in docs/studies/."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from agentgym.trajectory import Floats, StepTable
from benchmarks.paper_studies.description import (
    CREDIT,
    KEY,
    NOISE,
    SIZE,
    VARIANT,
    Against,
    Arm,
    Compared,
    Labels,
    Study,
    Trained,
)
from wrappers.credit.gigpo import gigpo
from wrappers.credit.gigpo import step_level as gigpo_steps
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.potential import potential
from wrappers.credit.rewardflow import rewardflow

#: Episodes per iteration of every trained run.
_EPISODES = 128
_GROUP_SIZE = 8
_WHOLE: dict[str, Callable[..., Floats]] = {"gigpo": gigpo, "rewardflow": rewardflow, "graphgpo": graphgpo}
#: The step level alone: an episode's outcome ranks no two actions of a state better than chance would.
_STEPS: dict[str, Callable[[StepTable], Floats]] = {
    "gigpo": gigpo_steps,
    "rewardflow": functools.partial(rewardflow, alpha_trajectory=0.0),
    "graphgpo": functools.partial(graphgpo, beta_episode=0.0),
}
_COMPARED = tuple(Compared(name, give) for name, give in _STEPS.items())
_BY_OUTCOME = (Compared("grpo", grpo), *_COMPARED[:1], Compared("hgpo", hgpo), *_COMPARED[1:])
_EXACT = ("sokoban", "alfworld", "virtualhome")
_ALL = (*_EXACT, "webshop", "searchqa", "sotopia")


def _distances() -> Iterator[Compared]:
    yield Compared("nearest success", _STEPS["rewardflow"])
    yield Compared("mean over successes", functools.partial(rewardflow, alpha_trajectory=0.0, aggregate="mean"))
    # The other mean: not over successes, but over the ways that the group took on from a state.
    yield Compared(
        "mean over ways on",
        functools.partial(potential, preset="gated_bepo", alpha_episode=0.0, lam=0.0, gate="none", contrast="state"),
    )


def _scales() -> Iterator[Compared]:
    for name, give in _WHOLE.items():
        for std in ("group", "batch", "none"):
            yield Compared(name, functools.partial(give, std=std), std)


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
            Against(
                ("sokoban", "alfworld"), _BY_OUTCOME, (2, 4, 8, 16, 32), ("same",),
                label="episodes of a task", base={SIZE: 2},
            ),
            (_BOARDS((*_budgeted("grpo"), *_budgeted("graphgpo")), "reply tokens of a run"),),
        ),
        Study(
            "group-size",
            "How many episodes should a group have, where the number of episodes is given?",
            Against(_ALL, _BY_OUTCOME, (2, 4, 8, 16), ("within",)),
            (_BOARDS((*_sized("grpo"), *_sized("graphgpo")), "episodes of a group"),),
        ),
        Study(
            "distance",
            "Is a state worth what its nearest success says, or what all successes say in the mean?",
            Against(
                ("sokoban", "alfworld", "virtualhome", "webshop", "searchqa"), tuple(_distances()), (2, 4, 8, 16),
                base={CREDIT: "nearest success"}, graphs=("goals",),
            ),
            (
                _BOARDS((
                    Arm("rewardflow", "rewardflow", "nearest"),
                    Arm("rewardflow:aggregate=mean", "rewardflow", "mean", "rewardflow"),
                ), "distance"),
            ),
        ),
        Study(
            "normalisation",
            "Should advantages be divided by a standard deviation?",
            Against(
                ("sokoban", "alfworld"), tuple(_scales()), shown=("overall", "within", "sign_all"),
                along=VARIANT, label=_SCALE, base={VARIANT: "group"},
            ),
            (_BOARDS((*_unscaled("grpo"), *_unscaled("gigpo"), *_unscaled("graphgpo")), _SCALE),),
        ),
        Study(
            "cosine-threshold",
            "From which similarity on should texts count as one state?",
            Against(
                ("webshop", "alfworld", "searchqa"), _COMPARED, along=KEY,
                label="what counts as one state", base={KEY: "own"},
                labels=(
                    Labels(), Labels("text"),
                    *(Labels(f"cosine {least:g}", least) for least in (0.99, 0.95, 0.9, 0.8, 0.7)),
                ),
                graphs=("states", "shared", "aliased"),
            ),
        ),
        Study(
            "adverts",
            "What do adverts between the lines of a page do to credit that compares states?",
            Against(
                ("webshop",), _COMPARED, panel=CREDIT, line=KEY, along=NOISE,
                label="pages with adverts", base={NOISE: "0 %"},
                # The environment's own key knows nothing of adverts.
                labels=(
                    Labels(),
                    *(
                        Labels(key, threshold, adverts)
                        for key, threshold in (("text", None), ("cosine 0.95", 0.95), ("cosine 0.9", 0.9))
                        for adverts in (0.0, 0.25, 0.5, 1.0)
                    ),
                ),
                graphs=("states", "shared", "aliased"),
            ),
        ),
        Study(
            "graph-statistics",
            "What do the graphs of a group look like, and what is there to compare?",
            Against(
                _ALL, sizes=(2, 4, 8, 16),
                graphs=("states", "edges", "branching", "shared", "singletons", "ties", "reached", "mixed"),
            ),
        ),
        Study(
            "share-of-time",
            "Where does the time of training go, and how much of it is credit?",
            trained=(_BOARDS(tuple(Arm(method, method, "") for method in _TIMED), "method", shares=True),),
        ),
    )
}  # fmt: skip
