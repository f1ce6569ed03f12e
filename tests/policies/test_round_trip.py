"""A saved tiny policy reads a board as it did before."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy

BOARD = "######\n#__P_#\n#_OX_#\n######"


def test_saved_tokenizer_and_weights_come_back(tmp_path: Path) -> None:
    policy = tiny_policy([BOARD], seed=0)
    policy.save_pretrained(tmp_path / "policy")
    again = HuggingFacePolicy.from_pretrained(tmp_path / "policy")
    assert again.settings == policy.settings
    assert again.encode(BOARD) == policy.encode(BOARD)
    replies = [one.act([BOARD] * 20, {}, np.random.default_rng(0)) for one in (policy, again)]
    assert replies[0] == replies[1]  # in every bit, wherever the file's tensors lie in memory
    assert not {weight.data_ptr() % 64 for weight in again.model.parameters()} - {0}
