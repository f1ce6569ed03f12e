"""What a scorer's numbers are held against."""

from agentgym.trajectory import StepTable
from benchmarks.scorers.held_out import HeldOut


def test_the_truth_ranks_without_error():
    # A corridor: right pushes the box nearer, left steps away from it; two episodes of two levels.
    start, nearer, away = (f"#######\n#{row}#\n#######" for row in ("_PX_O", "__PXO", "P_X_O"))
    solved = "#######\n#___P√#\n####### [success]"
    played = StepTable.from_arrays(
        group=[0, 0, 0, 1, 1, 1], trajectory=[0, 0, 1, 2, 2, 3], t=[0, 1, 0, 0, 1, 0],
        state=[start, nearer, start] * 2, action=["right", "right", "left"] * 2,
        next_state=[nearer, solved, away] * 2, reward=[0.0] * 6, won=[1, 1, 0] * 2,
    )  # fmt: skip
    held_out = HeldOut.of(played, 2, resamples=20, seed=0)
    assert held_out.truth.tolist() == [1, 1, -1] * 2
    assert held_out.measures(held_out.truth)["within"].mean == 1
    assert held_out.measures(-held_out.truth)["within"].mean == -1
    assert held_out.measures(-held_out.truth)["sign_all"].mean == 0
