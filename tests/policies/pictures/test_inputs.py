"""Positions of words and pictures, against transformers' own."""

import numpy as np
import pytest
import torch

from policies.pictures.inputs import picture_runs, rotary_positions
from policies.prompts import FIRST_PICTURE
from policies.vision.tiny import tiny_vision_policy

pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike

P = FIRST_PICTURE


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_positions_are_those_of_transformers(family):
    policy = tiny_vision_policy(["a"], seed=0, family=family, layers=1)
    # Pictures of 2 x 3 and 1 x 2 placeholders, told apart by their length, in rows of different words; the last two
    # tokens of the second row are padding.
    shapes = {6: (2, 3), 2: (1, 2)}
    rows = np.array([[4, 5, *[P] * 6, 6, *[P] * 2, 7, 8], [*[P] * 2, 5, 5, *[P] * 6, 9, 0, 0]])
    ids = torch.from_numpy(rows)
    grids = [shapes[end - low] for row in rows for low, end in picture_runs(row)]
    expected, deltas = policy.model.model.get_rope_index(
        ids.masked_fill(ids >= P, policy.model.config.image_token_id),
        mm_token_type_ids=(ids >= P).int(),
        image_grid_thw=torch.tensor([(1, *grid) for grid in grids]),
    )
    found = rotary_positions(rows, np.broadcast_to(np.arange(13), rows.shape), lambda run: shapes[len(run)])
    assert found.tolist() == expected.tolist()
    assert (found[0, :, -1] - 12).tolist() == deltas.flatten().tolist() == [-3, -3]  # 6 are 3, and 2 are 2


def test_packed_sequences_and_padding_begin_anew():
    # Padding on the left, as it is decoded; then two sequences in one row.
    ids = np.array([[0, 0, 3, P, P, 4], [3, P, P, 4, 3, 5]])
    depths = np.array([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 0, 1]])
    found = rotary_positions(ids, depths, lambda run: (1, len(run)))
    assert found[:, 0].tolist() == [[0, 0, 0, 1, 1, 3], [0, 0, 0, 1, 1, 3], [0, 0, 0, 1, 2, 3]]
    assert found[:, 1].tolist() == [[0, 1, 1, 3, 0, 1], [0, 1, 1, 3, 0, 1], [0, 1, 2, 3, 0, 1]]
