"""The output head in pieces, against the whole head at once."""

import pytest
import torch
from torch import Tensor, nn
from transformers import Gemma2Config, Gemma2ForCausalLM, Qwen2Config, Qwen2ForCausalLM

from policies.scoring.head import changes_logits, hidden_at, logits_at, takes_positions, token_logprobs

torch.set_num_threads(1)

QWEN = 151_936


def kept_bytes(work) -> int:  # type: ignore[no-untyped-def]
    """Bytes of the distinct storages that autograd keeps while `work` runs, parameters aside."""
    seen: dict[int, int] = {}

    def pack(value: Tensor) -> Tensor:
        if not isinstance(value if value._base is None else value._base, nn.Parameter):
            seen[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        _result = work()  # held: what is freed may be counted once for two
    return sum(seen.values())


def whole(head, hidden, targets, temperature):  # type: ignore[no-untyped-def]
    distribution = torch.distributions.Categorical(logits=head(hidden) / temperature)
    return distribution.log_prob(targets), distribution.entropy()


@pytest.mark.parametrize("entropy", [True, False])
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_pieces_equal_the_whole_head(chunk: int, entropy: bool) -> None:
    torch.manual_seed(0)
    head, hidden = nn.Linear(8, 30, bias=True), torch.randn(11, 8, requires_grad=True)
    targets, weights = torch.randint(30, (11,)), torch.randn(11)
    found = token_logprobs(head, hidden, targets, temperature=0.7, entropy=entropy, chunk=chunk)
    logprobs, spread = whole(head, hidden, targets, 0.7)
    torch.testing.assert_close(found.logprobs, logprobs, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found.entropy, spread, atol=1e-6, rtol=1e-6)
    assert found.top.tolist() == (head(hidden).argmax(-1) == targets).tolist()
    assert found.entropy.requires_grad == entropy
    inputs = [hidden, *head.parameters()]

    def loss(logprobs: Tensor, spread: Tensor) -> Tensor:
        return (logprobs * weights).sum() + (0.3 * spread.sum() if entropy else 0.0)

    ours = torch.autograd.grad(loss(found.logprobs, found.entropy), inputs)
    theirs = torch.autograd.grad(loss(logprobs, spread), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6 * float(other.abs().max()), rtol=1e-5)


def test_improbable_tokens_and_memory() -> None:
    # Kept: the hidden state, 16 float32 = 64 bytes a token, and what pieces return. Whole: the float32 log-softmax
    # alone is 4 * 151,936 bytes = 0.6 MB a token.
    head, hidden = nn.Linear(16, QWEN, bias=False), torch.randn(12, 16, requires_grad=True)
    targets = torch.randint(QWEN, (12,))
    pieces = kept_bytes(lambda: token_logprobs(head, hidden, targets, chunk=4, entropy=True)) + hidden.nbytes
    full = kept_bytes(lambda: whole(head, hidden, targets, 1.0))
    assert pieces / 12 < 0.05e6
    assert full / 12 > 0.6e6
    hidden = torch.tensor([[0.0, -torch.inf, 1.0]], requires_grad=True)
    found = token_logprobs(nn.Identity(), hidden, torch.tensor([2]), entropy=True)
    (found.logprobs + found.entropy).sum().backward()
    assert torch.isfinite(found.entropy).all()
    assert found.entropy.item() == pytest.approx(0.5822, abs=1e-4)  # of probabilities 0.2689 and 0.7311
    model = small(Qwen2ForCausalLM, Qwen2Config)
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    rows, columns = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 2])
    hidden, last = hidden_at(model, ids, rows, columns)
    torch.testing.assert_close(model.lm_head(hidden), logits_at(model, ids, rows, columns))
    assert last.shape == (2, 1, 20)
    assert takes_positions(model)
    assert changes_logits(small(Gemma2ForCausalLM, Gemma2Config, head_dim=8, final_logit_softcapping=3.0))
    assert not changes_logits(small(Gemma2ForCausalLM, Gemma2Config, head_dim=8, final_logit_softcapping=None))
    assert not changes_logits(small(Qwen2ForCausalLM, Qwen2Config))


def small(kind, config, **options):  # type: ignore[no-untyped-def]
    sizes = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.3}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config(**sizes, **heads, **options)).eval()
