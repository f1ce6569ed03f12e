"""Numbers read off a copy of the policy's own network: its trunk under a linear head with one output."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trajectory import StepTable
from baselines.batch import reply_lengths
from policies.head import autocast, pad

#: Where a number is read: at the end of the prompt ("turn"), before every token of the reply ("token"), or at the
#: reply's last token ("reply").
Place = Literal["turn", "token", "reply"]


class ValueModel(nn.Module):
    """A causal language model's trunk with a scalar head.

    Attributes:
        scale: what the head's numbers are multiplied by: the size of the first returns that it was shown.
    """

    scale: Tensor

    def __init__(self, trunk: nn.Module, width: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(width, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, ids: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return float32 (K,), the value behind the tokens at `(rows, columns)` of `ids` (n, S), padded at the end."""
        hidden = self.trunk(input_ids=ids, use_cache=False).last_hidden_state[rows, columns]
        # In 16 bits a value of 10 would be off by up to 0.03.
        with torch.autocast(hidden.device.type, enabled=False):
            values: Tensor = self.head(hidden.float()).squeeze(-1) * self.scale
        return values


def value_model(policy: Any) -> ValueModel:
    """Return the trunk of a policy's model as it is now, with a head that says 0.

    What is frozen under an adapter is shared with the policy, as nobody writes to it.

    Raises:
        TypeError: the model has no base model, or no output head to take the width from.
    """
    causal = policy.model.get_base_model() if hasattr(policy.model, "get_base_model") else policy.model
    base = getattr(causal, "base_model", causal)
    head = getattr(causal, "get_output_embeddings", lambda: None)()
    if base is causal or head is None:
        raise TypeError(
            f"{type(policy.model).__name__} is not a causal language model with a base model under an output head; "
            "a scorer with a head needs one, such as transformers.AutoModelForCausalLM loads"
        )
    shared = {id(weight): weight for weight in base.parameters() if not weight.requires_grad}
    return ValueModel(copy.deepcopy(base, shared), head.weight.shape[1]).to(head.weight.device).eval()


@dataclass(frozen=True, eq=False)
class Inputs:
    """Distinct token sequences that hold all wanted places; rows with equal prompts (and replies) share one.

    Attributes:
        sequences: prompt, and the reply as far as something is read behind its tokens.
        first: int64 (n,), the first place that is read.
        of_row: int64 (N,), each table row's sequence.
        written: bool (N, width), the places of each row that have a number.
        lengths: int64 (n,), tokens of each sequence.
    """

    sequences: Sequence[tuple[int, ...]]
    first: NDArray[np.int64]
    of_row: NDArray[np.int64]
    written: NDArray[np.bool_]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, table: StepTable, place: Place) -> Inputs:
        """Collect the sequences of a table.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        written_tokens = reply_lengths(table)
        end = {"turn": 0, "token": -1, "reply": None}[place]
        index: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        of_row = np.empty(len(table), np.int64)
        for row, reply in enumerate(table.replies):  # type: ignore[arg-type]  # reply_lengths has seen them
            of_row[row] = index.setdefault((reply.prompt_ids, reply.token_ids[:end]), len(index))
        counted = written_tokens if place == "token" else np.ones_like(written_tokens)
        written = np.arange(counted.max(initial=1)) < counted[:, None]
        sequences = [prompt + reply for prompt, reply in index]
        lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        first = lengths if place == "reply" else np.array([len(prompt) for prompt, _ in index], np.int64)
        return cls(sequences, first - 1, of_row, written, lengths)

    @property
    def width(self) -> int:
        """Most places of a row."""
        return self.written.shape[1]

    def predict(self, model: ValueModel, part: NDArray[np.int64], precision: torch.dtype | None) -> Tensor:
        """Return the numbers at all places of some inputs, float32 (len(part), width); behind the end the last one."""
        device = model.head.weight.device
        ids, _ = pad([self.sequences[i] for i in part], fill=0, left=False, device=device)
        columns = np.minimum(self.first[part, None] + np.arange(self.width), self.lengths[part, None] - 1)
        rows = np.repeat(np.arange(len(part)), self.width)
        with autocast(device, precision):
            values: Tensor = model(ids, torch.from_numpy(rows).to(device), torch.from_numpy(columns.ravel()).to(device))
        return values.reshape(len(part), self.width)
