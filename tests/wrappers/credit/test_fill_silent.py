import numpy as np
import pytest

from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import close, random_table
from wrappers.credit import attribution, graphgpo
from wrappers.credit.fill_silent import fill_silent, graphgpo_filled, raw_filled


def test_by_hand() -> None:
    found = fill_silent([2.0, 0.0, -1e-300, np.nan, 0.0], [5.0, 5.0, 5.0, -5.0, np.nan])
    np.testing.assert_array_equal(found, [2.0, 0.05, -1e-300, -0.05, 0.0])
    np.testing.assert_array_equal(fill_silent([1.0, 0.0], [3.0, 3.0], 0), [1.0, 0.0])
    table = random_table(0)
    graph = graphgpo(table, beta_episode=0.0)
    speaks = graph != 0
    assert 0 < speaks.mean() < 1
    filled = raw_filled(table, share=0.1)
    assert np.array_equal(filled[speaks], graph[speaks])
    assert filled[~speaks] == pytest.approx(0.1 * attribution(table)[~speaks])
    assert raw_filled(table, centred=True)[~speaks] == pytest.approx(0.01 * attribution(table, centred=True)[~speaks])


@cases(
    "first, second, share, words",
    ([1.0], [1.0, 2.0], 0.1, r"second must hold one number per row, .* got shape \(2,\)"),
    ([[1.0]], [1.0], 0.1, r"first must hold one number per row, .* got shape \(1, 1\)"),
    ([1.0, np.inf], [1.0, 2.0], 0.1, "first .* row 1 has inf"),
    ([1.0], [1.0], -0.1, "share must be a number of at least 0, got -0.1"),
    ([1.0], [1.0], np.nan, "share must be"),
)
def test_wrong_input_is_named(first: list[float], second: list[float], share: float, words: str) -> None:
    refuses(ValueError, words, fill_silent, first, second, share)


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_graphgpo_is_filled_and_otherwise_as_it_is(preset: str) -> None:
    table = random_table(2)
    options = {"preset": preset, "invalid_penalty": 0.1, "penalty": "advantage"}
    plain, filled = graphgpo(table, **options), graphgpo_filled(table, **options)
    steps = graphgpo(table, preset=preset, beta_episode=0.0, invalid_penalty=0.0)
    np.testing.assert_array_equal(filled[steps != 0], plain[steps != 0])
    silent = steps == 0
    fitted = attribution(table, centred=True, outcome="won" if preset == "paper" else "return")
    for group in range(table.n_groups):
        mine = table.group == group
        standard = (fitted - fitted[mine].mean()) / (fitted[mine].std(ddof=1) + 1e-6)
        if np.ptp(fitted[mine]) < 1e-9:
            standard = np.zeros(len(table))
        close((filled - plain)[mine & silent], 0.1 * standard[mine & silent])
    np.testing.assert_array_equal(graphgpo_filled(table, share=0.0, **options), plain)
