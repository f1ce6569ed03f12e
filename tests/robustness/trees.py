"""Trials of trees of rollouts: any policy, any steps continued, endings at every place, budgets of one place."""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.rollout.recorder import UnscoredError
from agentgym.rollout.tree import SELECTIONS, collect_tree
from agentgym.trajectory import Reply, StepTable
from tests.agentgym.rollout.test_tree import UnjudgedVectorEnv
from tests.corridor import CorridorVectorEnv
from tests.robustness.trial import Trial, fragments, record

#: What a policy may do in place of a reply.
DEEDS = ("raise", "none", "too few", "too many", "no list", "bytes", "number")
KINDS = {"corridor": CorridorVectorEnv, "unjudged": UnjudgedVectorEnv}


class HostileError(Exception):
    """What a policy of the trial raises."""


class Drawn:
    """Replies drawn from a list of texts, some of which are no replies.

    Args:
        texts: what it may say; "@long" for a prompt that is too long, "@..." for one of `DEEDS`.
        together: has `act_each`; otherwise it is asked one by one.
    """

    def __init__(self, texts: Sequence[str], together: bool) -> None:
        self.texts = texts
        if together:
            self.act_each = self._each

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> Any:
        return self._each(observations, infos, [rng] * len(observations))

    def _each(self, observations: Sequence[Any], infos: Mapping[str, Any], rngs: Sequence[Any]) -> Any:
        assert len(observations) == len(rngs) == len(infos["won"])
        said = [self.texts[rng.integers(len(self.texts))] for rng in rngs]
        replies: Any = [
            Reply("", finish="prompt-too-long") if text == "@long" else Reply(text, (0,), (1,), (-0.5,))
            for text in said
        ]
        for place, text in enumerate(said):
            match text:
                case "@raise":
                    raise HostileError
                case "@none" | "@bytes" | "@number":
                    replies[place] = {"@none": None, "@bytes": b"left", "@number": 5}[text]
                case "@too few":
                    return replies[:-1]
                case "@too many":
                    return [*replies, replies[0]]
                case "@no list":
                    return replies[0]
        return replies


def played(given: dict[str, Any], places: int) -> StepTable | str:
    """The table, or the name of the error that a wrong policy is owed."""
    envs = KINDS[given["kind"]](places, autoreset_mode="Disabled", max_episode_steps=given["limit"])
    select: Any = given["select"]
    if not isinstance(select, str):
        shares = select
        select = lambda table: sorted({int(share * (len(table) - 1)) for share in shares})  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return collect_tree(
                envs, Drawn(given["texts"], given["together"]), tasks=[{"index": index} for index in given["tasks"]],
                group_size=given["group_size"], branches=given["branches"], rounds=given["rounds"], select=select,
                common=given["common"], seed=given["seed"],
            )  # fmt: skip
        except HostileError:
            assert "@raise" in given["texts"]
            return "raised"
        except UnscoredError:
            assert given["kind"] == "unjudged"
            return "unscored"
        except (TypeError, ValueError) as error:
            owed = any(f"@{deed}" in given["texts"] for deed in DEEDS)
            if owed and re.search("must answer Reply objects|answered .* replies to|a str", str(error)):
                return "wrong"
            raise


def check(given: dict[str, Any]) -> None:
    """A policy that answers wrongly is told so; of any other there is a whole table, the same one each time."""
    table = played(given, given["places"])
    if isinstance(table, str):
        return
    again = played(given, given["places"])
    assert isinstance(again, StepTable)
    assert columns(again) == columns(table)
    assert len(np.flatnonzero(table.parent < 0)) >= 1
    assert (table.group[table.parent[table.parent >= 0]] == table.trajectory_group[table.parent >= 0]).all()
    assert (table.t[table.order[table.offsets[:-1]]] == np.where(table.parent >= 0, table.t[table.parent] + 1, 0)).all()
    assert (table.episode_length <= given["limit"] + 1).all()
    assert len(table.endings) == table.n_trajectories
    assert np.isfinite(table.reward).all()


def columns(table: StepTable) -> list[Any]:
    names = ("group", "trajectory", "t", "state", "action", "next_state", "reward", "valid", "parent")
    return [table.groups, table.states, table.actions, *(getattr(table, name).tolist() for name in names)]


_texts = st.one_of(
    st.lists(st.sampled_from(["left", "right", "right", "@long"]) | fragments, min_size=1, max_size=6),
    st.lists(st.sampled_from(["left", "right", *(f"@{deed}" for deed in DEEDS)]), min_size=2, max_size=9),
)
TRIALS = [
    Trial(
        f"trees/{kind}",
        record(
            kind=st.just(kind),
            texts=_texts,
            together=st.booleans(),
            places=st.integers(1, 5),
            limit=st.sampled_from([1, 2, 5, 12]),
            tasks=st.lists(st.integers(1, 3), min_size=1, max_size=3),
            group_size=st.integers(1, 3),
            branches=st.integers(1, 3),
            rounds=st.integers(1, 2),
            select=st.sampled_from(sorted(SELECTIONS)) | st.lists(st.floats(0, 1), max_size=4),
            common=st.sampled_from([True, False, "siblings"]),
            seed=st.integers(0, 99),
        ),
        check,
        30,
    )
    for kind in KINDS
]
