import dataclasses
from typing import Any

import numpy as np

from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit import oracles
from tests.wrappers.credit.small_tables import close, episodes, random_table, rebuild
from wrappers.credit import attribution, gae, gigpo, spa

#: Won in three steps, the second refused; lost in one.
TABLE = episodes("s -right-> u -wall!-> u -up-> goal +", "s -left-> pit")
SHARES = [0.1, 0.2, 0.5, 0.3]


@cases(
    "options, rewards",
    ({}, [0.6, 0.2, 1.0, 0.8]),
    ({"grounding_weight": 0.0}, SHARES),
    # Two steps follow the first, one the second, none the last.
    ({"times_left": True}, [1.2, 0.2, 0.0, 0.0]),
    # Won, and all others lost: 1 - 0. Lost, and all others won: 0 - 1.
    ({"share": "outcome"}, [1.5, 1.0, 1.5, -0.5]),
)
def test_by_hand(options: dict[str, Any], rewards: list[float]) -> None:
    close(spa(TABLE, contributions=SHARES, **options), rewards)


def test_further_cases_by_hand() -> None:
    plain: Any = {"grounding_weight": 0.0, "rescale": True}
    for shares in ([0.0, 0.0, 0.0, 1.0], [0.3, -0.3, 5e-7, 1.0], [np.nan, np.nan, np.nan, np.nan]):
        close(spa(TABLE, contributions=shares, **plain), [1 / 3, 1 / 3, 1 / 3, 0])
    # What a model left out shares nothing of what the others contributed.
    close(spa(TABLE, contributions=[np.nan, 0.1, 0.3, np.nan], **plain), [0, 0.25, 0.75, 0])
    close(spa(TABLE, contributions=[np.nan] * 4), [0.5, 0.0, 0.5, 0.5])
    # Refused by its text, valid by its column, and the other way round; the last action is never refused.
    table = episodes("s -a-> Nothing_happens -b!-> u -c!-> Nothing_happens", "s -a-> u")
    table = rebuild(table, np.arange(4), rename=lambda name: name.replace("_", " "))
    close(spa(table, contributions=np.zeros(4), refusals=("Nothing happens",)), [0.0, 0.5, 0.5, 0.5])
    close(spa(table, contributions=np.zeros(4)), [0.5, 0.0, 0.0, 0.5])
    # Ridge needs no model.
    table = random_table(3)
    found = spa(table, contributions="ridge")
    np.testing.assert_array_equal(found, spa(table, contributions=attribution(table)))
    refuses(ValueError, "must be one number per row or .ridge., got 'rigde'", spa, table, contributions="rigde")


def test_rescaled_contributions_go_into_other_methods() -> None:
    table = random_table(4)
    shares = np.random.default_rng(0).normal(1.0, 0.5, len(table))
    rewards = spa(table, contributions=shares, rescale=True, grounding_weight=0.0)
    close(np.bincount(table.trajectory, weights=rewards), table.trajectory_won)
    rewarded = dataclasses.replace(TABLE, reward=spa(TABLE, contributions=SHARES, grounding="penalty"))
    # lam 1, values 0: the returns of .1 -.3 .5 and .3.
    close(gae(rewarded, values=np.zeros(4), lam=1.0), [0.3, 0.2, 0.5, 0.3])
    # Returns from "s" at gamma 1: .3 and .3, the same; so are the episodes.
    close(gigpo(rewarded, gamma=1.0, omega=1.0, std="none")[[0, 3]], 0.0)
    table = episodes(" ".join(["s", *["-wait-> s"] * 20]), "s -up-> goal +")
    shares = np.append(np.zeros(20), 1.0)
    for grounding, lost, won in (("bonus", 10.0, 1.5), ("penalty", 0.0, 1.0)):
        rewards = spa(table, contributions=shares, grounding=grounding)  # type: ignore[arg-type]
        close(np.bincount(table.trajectory, weights=rewards), [lost, won])


def test_the_paper_and_the_authors() -> None:
    for key, options in (
        ("reward", {}), ("reward|grounding=penalty", {"grounding": "penalty"}), ("reward_rescaled", {"rescale": True}),
        ("rescaled", {"rescale": True, "grounding_weight": 0.0}),
    ):  # fmt: skip
        found = spa(oracles.table(), contributions=oracles.scores("contribution"), **options)  # type: ignore[arg-type]
        close(found, oracles.answers(oracles.PAPER, "spa", key), 1e-6)
    for key, options in (("reward_fed_to_ppo", {}), ("reward_from_rl_data_org", {"times_left": False})):
        found = spa(oracles.table(), contributions=oracles.scores("contribution"), preset="authors", **options)
        close(found, oracles.answers(oracles.AUTHORS, "spa", key), 1e-4)
