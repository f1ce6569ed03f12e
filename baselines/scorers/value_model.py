"""Values from a copy of the policy's network: its trunk under a head with one output, which is initially 0."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.checks import Positive, fields_checked
from agentgym.trajectory import Floats, Ints, StepTable
from baselines.scorers.network import Fit, Losses, NetworkScorer
from baselines.scorers.scorer import ScorerConfig
from policies.scoring.head import autocast, pad
from wrappers.credit.scores import reply_lengths

#: Positions of the values: at the end of the prompt ("turn"), before every token of the reply ("token"), or at the
#: reply's last token ("reply").
Place = Literal["turn", "token", "reply"]
#: w h + b, or W2 SiLU(W1 h), W1 square.
Head = Literal["linear", "mlp"]


class ValueModel(nn.Module):
    """A causal language model's trunk with a scalar head.

    Attributes:
        scale: factor of the head's output: the size of the first returns that it was fitted to.
    """

    scale: Tensor

    def __init__(self, trunk: nn.Module, width: int, head: Head = "linear") -> None:
        super().__init__()
        self.trunk = trunk
        self.head = _linear_head(width) if head == "linear" else _mlp_head(width)
        self.register_buffer("scale", torch.ones(()))

    @property
    def silent(self) -> bool:
        last = self.head[-1] if isinstance(self.head, nn.Sequential) else self.head
        return not any(bool(weight.any()) for weight in last.parameters())

    def forward(self, ids: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return float32 (K,), the value behind the tokens at `(rows, columns)` of `ids` (n, S), padded at the end."""
        hidden = self.trunk(input_ids=ids, use_cache=False).last_hidden_state[rows, columns]
        # In 16 bits a value of 10 would be off by up to 0.03.
        with torch.autocast(hidden.device.type, enabled=False):
            values: Tensor = self.head(hidden.to(self.scale.dtype)).squeeze(-1) * self.scale
        return values


def _linear_head(width: int) -> nn.Module:
    head = nn.Linear(width, 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def _mlp_head(width: int) -> nn.Module:
    inner, outer = nn.Linear(width, width, bias=False), nn.Linear(width, 1, bias=False)
    # A fixed seed: policy and settings alone determine the scorer.
    nn.init.normal_(inner.weight, std=width**-0.5, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(outer.weight)
    return nn.Sequential(inner, nn.SiLU(), outer)


def value_model(policy: Any, head: Head = "linear") -> ValueModel:
    """Return a copy of the trunk of a policy's model, with a head whose output is 0.

    Frozen weights under an adapter are shared with the policy, because they never change.

    Raises:
        TypeError: the model has no base model, or no output head to take the width from.
    """
    causal = policy.model.get_base_model() if hasattr(policy.model, "get_base_model") else policy.model
    base = getattr(causal, "base_model", causal)
    output = getattr(causal, "get_output_embeddings", lambda: None)()
    if base is causal or output is None:
        raise TypeError(
            f"{type(policy.model).__name__} is not a causal language model with a base model under an output head; "
            "a scorer with a head needs one, such as transformers.AutoModelForCausalLM loads"
        )
    shared = {id(weight): weight for weight in base.parameters() if not weight.requires_grad}
    width, device = output.weight.shape[1], output.weight.device
    model = ValueModel(copy.deepcopy(base, shared), width, head).to(device).eval()
    if hasattr(policy, "read_pictures"):  # only the whole model read them
        policy.read_pictures(model.trunk)
    return model


@dataclass(frozen=True, eq=False)
class Inputs:
    """Distinct token sequences that contain all required positions; rows with equal prompts (and replies) share one.

    Attributes:
        sequences: the prompt, and the reply up to its last position with a value.
        first: int64 (n,), the first position with a value.
        of_row: int64 (N,), each table row's sequence.
        written: bool (N, width), the positions of each row that have a value.
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
        """Largest number of positions of a row."""
        return self.written.shape[1]


@fields_checked
@dataclass(frozen=True)
class HeadConfig(ScorerConfig):
    """Settings of a scorer that is a head on a copy of the policy's trunk; `rate` is the trunk's.

    Attributes:
        head: head on the trunk, "linear" or "mlp", W2 SiLU(W1 h).
        head_rate: learning rate of the untrained head, as a multiple of the policy's.
    """

    head: Head = "linear"
    head_rate: Positive = 10.0


class ValueScorer(NetworkScorer):
    """A head on a copy of the policy's trunk, whose values are fitted to targets, or their sums to outcomes.

    Args:
        policy: the policy whose trunk is copied; with `model`, a Hugging Face causal language model, and as
            options `precision` (autocast type) as `policies.huggingface.HuggingFacePolicy` has it.

    Raises:
        TypeError: the model has no base model, or no output head to take the width from.
    """

    takes_forks = True
    model: ValueModel

    def __init__(self, policy: Any, config: HeadConfig, name: str) -> None:
        self._precision: torch.dtype | None = getattr(policy, "precision", None)
        model = value_model(policy, config.head)
        trunk = [weight for weight in model.trunk.parameters() if weight.requires_grad]
        rates = [(trunk, config.rate), (list(model.head.parameters()), config.head_rate)]
        super().__init__(config, model, rates, name)

    @torch.no_grad()
    def numbers(self, inputs: Inputs, chosen: Ints | None = None) -> Floats:
        """Return the outputs at all positions of some inputs (None: of all), 0 elsewhere: float64 (n, width)."""
        found = np.zeros((len(inputs.sequences), inputs.width))
        chosen = np.arange(len(found)) if chosen is None else chosen
        order = chosen[np.argsort(inputs.lengths[chosen], kind="stable")]
        for part in self.parts(inputs.lengths, order, learning=False):
            found[part] = self.predict(inputs, part).cpu().numpy()
        return found

    def predict(self, inputs: Inputs, part: Ints) -> Tensor:
        """Return the values at all positions of some inputs, float32 (len(part), width); the last one repeats."""
        ids, _ = pad([inputs.sequences[i] for i in part], fill=0, left=False, device=self.device)
        columns = np.minimum(inputs.first[part, None] + np.arange(inputs.width), inputs.lengths[part, None] - 1)
        rows = torch.arange(len(part), device=self.device).repeat_interleave(inputs.width)
        with autocast(self.device, self._precision):
            values: Tensor = self.model(ids, rows, torch.from_numpy(columns.ravel()).to(self.device))
        return values.reshape(len(part), inputs.width)

    def find_scale(self, targets: Floats, parts: float = 1.0) -> None:
        """Set the unit from the first targets that are not all 0; until then every value is 0 as well.

        Args:
            targets: their root mean square is the unit.
            parts: divisor of the unit, the number of terms of a sum.
        """
        size = float(np.sqrt(np.mean(targets**2)))
        if size > 0 and self.model.silent:
            self.model.scale.fill_(size / parts)

    def fit_places(
        self, inputs: Inputs, before: Floats, targets: Floats, size: int,
        error: Callable[[Tensor, Tensor, Tensor], Tensor], report: str,
    ) -> Fit:  # fmt: skip
        """Fit the value at every position to its own target, in mini-batches of inputs.

        Args:
            before: scores before the update, (N,) or (N, K).
            error: from values, targets and values before the update, all (S,), the error of each.
        """
        row, place = np.nonzero(inputs.written)
        of = inputs.of_row[row]
        old_values, wanted = (array.reshape(len(inputs.of_row), -1)[row, place] for array in (before, targets))

        def losses(chosen: Ints, count: int) -> Losses:
            for part in self.parts(inputs.lengths, chosen, learning=True):
                local = np.full(len(inputs.sequences), -1)
                local[part] = np.arange(len(part))
                members = np.flatnonzero(local[of] >= 0)
                at, column, goal, old = (
                    torch.from_numpy(array).to(self.device)
                    for array in (local[of[members]], place[members], wanted[members], old_values[members])
                )
                predicted = self.predict(inputs, part)[at, column]
                loss = error(predicted, goal.to(predicted), old.to(predicted)).sum() / (len(row) / count)
                # In units of the scale: gradients, and their limit, do not depend on the unit of the rewards.
                yield loss / self.model.scale.square(), float(loss.detach())

        figures = {"explained_variance": explained_variance(old_values, wanted)}
        return Fit(lambda generator: generator.permutation(len(inputs.sequences)), size, losses, (report,), figures)


def explained_variance(values: Floats, returns: Floats) -> float:
    """Return `1 - var(returns - values) / var(returns)`; 0 if the returns do not vary."""
    spread = float(returns.var())
    return 1.0 - float((returns - values).var()) / spread if spread > 0 else 0.0
