"""Trials of trees of rollouts (any policy, any steps continued, endings at every place, budgets of one place).

And of learning from preferences: any replies in the pairs, and any numbers beside them.
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.rollout.recorder import UnscoredError
from agentgym.rollout.tree import SELECTIONS, collect_tree
from agentgym.trajectory import Reply, StepTable
from agentgym.trajectory.episode import Step, Trajectory
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
            if text == "@raise":
                raise HostileError
            if text in ("@none", "@bytes", "@number"):
                replies[place] = {"@none": None, "@bytes": b"left", "@number": 5}[text]
            elif text in ("@too few", "@too many", "@no list"):
                return {"few": replies[:-1], "many": [*replies, replies[0]], "list": replies[0]}[text.split()[1]]
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
            kind=st.just(kind), texts=_texts, together=st.booleans(), places=st.integers(1, 5),
            limit=st.sampled_from([1, 2, 5, 12]), tasks=st.lists(st.integers(1, 3), min_size=1, max_size=3),
            group_size=st.integers(1, 3), branches=st.integers(1, 3), rounds=st.integers(1, 2),
            select=st.sampled_from(sorted(SELECTIONS)) | st.lists(st.floats(0, 1), max_size=4),
            common=st.sampled_from([True, False, "siblings"]), seed=st.integers(0, 99),
        ),
        check, 30,
    )
    for kind in KINDS
]  # fmt: skip

_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

#: An IndexError is that of a token which the model has not.
REFUSED = (ValueError, TypeError, IndexError, FloatingPointError)


@cache
def learner() -> tuple[Any, dict[str, Any]]:
    """A policy, and its weights at the start."""
    import torch

    from policies.tiny import tiny_policy

    torch.set_num_threads(1)
    policy = tiny_policy(["left", "right"], seed=0, width=16, layers=1, heads=2, kv_heads=1, mlp=16)
    return policy, {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}


def check_learning(given: dict[str, Any]) -> None:
    """What is refused moves no weight; what is learned leaves numbers in them, and a loss that is one."""
    import torch

    from baselines.imitation.preferences import Preference, prefer

    policy, start = learner()
    policy.model.load_state_dict(start)
    options = {name: _NUMBERS.get(value, value) for name, value in given["options"].items()}
    pairs = [Preference(*[tuple([reply(each) for each in side]) for side in pair]) for pair in given["pairs"]]
    found, early = None, False
    try:
        found = prefer(policy, pairs, **{"seed": 0, "learning_rate": 1e-3} | options)
    except REFUSED as error:
        early = not isinstance(error, FloatingPointError)  # that is of an update, and says so
    assert not early or same(policy.model.state_dict(), start), "it was refused after it had begun"
    assert all(torch.isfinite(tensor).all() for tensor in policy.model.state_dict().values())
    if found is not None:
        assert math.isfinite(found.loss)
        assert math.isfinite(found.margin)
        assert 0 <= found.accuracy <= 1
        assert found.pairs == len(pairs)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(bool((tensor == other[name]).all()) for name, tensor in one.items())


def reply(drawn: dict[str, Any]) -> Reply:
    ids = tuple(drawn["token_ids"])
    allowed = tuple([tuple(each) for each in drawn["allowed"]]) if drawn["allowed"] is not None else ()
    return Reply("x", tuple(drawn["prompt_ids"]), ids, (-0.5,) * len(ids), allowed=allowed)


def check_pairs(given: dict[str, Any]) -> None:
    """Each pair is of one task and of two episodes of which one is better, and there are no more than asked for."""
    from baselines.imitation.preferences import episode_preferences

    options = {name: _NUMBERS.get(value, value) for name, value in given["options"].items()}
    episodes = []
    for number, (group, won, reward) in enumerate(given["episodes"]):
        said = Reply("x", (1,), (number,), (-0.5,))
        step = Step(0, "s", "a", "u", float(reward), True, said)
        episodes.append(Trajectory(group, number, won, True, False, (step,)))
    try:
        pairs = episode_preferences(episodes, **options)
    except (ValueError, TypeError):
        if not options:
            raise
        return
    margin, counts = options.get("margin"), dict[str, int]()
    for pair in pairs:
        better, worse = (episodes[side[0].token_ids[0]] for side in (pair.better, pair.worse))
        assert better.group == worse.group
        counts[str(better.group)] = counts.get(str(better.group), 0) + 1
        gained = better.steps[0].reward - worse.steps[0].reward
        assert (better.won and not worse.won) if margin is None else gained > margin >= 0
    assert not options.get("per_task") or max(counts.values(), default=0) <= options["per_task"]


_ids = st.lists(st.integers(0, 20) | st.sampled_from([0, 1, 5, -1, 109, 110, 10**6, 2**63]), max_size=4)
_reply = record(prompt_ids=_ids, token_ids=_ids, allowed=st.none() | st.none() | st.lists(_ids, max_size=3))

_some_ids = st.lists(st.integers(0, 20), min_size=1, max_size=3)
_good = record(prompt_ids=_some_ids, token_ids=_some_ids, allowed=st.none())
_side = st.lists(_good, min_size=1, max_size=2) | st.lists(_good | _reply, max_size=2)
_number = st.sampled_from([0, 1, 2, -1, 0.5, 1e-3, 1e6, 1e300, "nan", "inf", "-inf", None, True])
_names = ("beta", "likelihood", "epochs", "batch_size", "microbatch_rows", "learning_rate", "weight_decay", "warmup",
    "max_grad_norm")  # fmt: skip
_learned = record(
    pairs=st.lists(st.lists(_side, min_size=2, max_size=2), max_size=3),
    options=st.dictionaries(st.sampled_from(_names), _number, max_size=1),
)
_episode = st.tuples(st.sampled_from("ab"), st.booleans(), st.sampled_from([0, 0.5, 1, -1, 1e300])).map(list)
_paired = record(
    episodes=st.lists(_episode, max_size=8),
    options=st.dictionaries(st.sampled_from(["margin", "per_task", "seed"]), _number, max_size=2),
)
TRIALS += [
    Trial("preferences/learned", _learned, check_learning, 30, needs=("torch", "transformers")),
    Trial("preferences/pairs", _paired, check_pairs, 30, needs=("torch",)),
]
