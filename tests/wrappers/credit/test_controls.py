import numpy as np
import pytest

from tests.refusals import refuses
from tests.wrappers.credit.small_tables import close, random_table
from wrappers.credit import dapo, graphgpo
from wrappers.credit.controls import broadcast, shuffled

TABLE = random_table(3)


def test_controls_shuffle_or_broadcast_advantages() -> None:
    given, moved = graphgpo(TABLE, omega=0.8, invalid_penalty=0.1, penalty="advantage"), shuffled(TABLE)
    for group in range(TABLE.n_groups):
        rows = TABLE.group == group
        np.testing.assert_array_equal(np.sort(moved[rows]), np.sort(given[rows]))
    assert (moved != given).any()
    np.testing.assert_array_equal(moved, shuffled(TABLE))
    given, spread = graphgpo(TABLE, omega=0.8, invalid_penalty=0.1, penalty="advantage"), broadcast(TABLE)
    for trajectory in range(TABLE.n_trajectories):
        rows = TABLE.trajectory == trajectory
        close(spread[rows], given[rows].mean())


@pytest.mark.parametrize("control", [shuffled, broadcast])
def test_steps_that_are_not_scored_stay_so(control):
    missing = np.isnan(dapo(TABLE))
    assert missing.any()
    np.testing.assert_array_equal(np.isnan(control(TABLE, of="dapo")), missing)


@pytest.mark.parametrize("control", [shuffled, broadcast])
def test_a_control_is_of_a_method_that_reads_the_table_alone(control):
    refuses(ValueError, "did you mean 'graphgpo'", control, TABLE, of="graphpo")
    refuses(ValueError, "'judge' needs scores", control, TABLE, of="judge")
