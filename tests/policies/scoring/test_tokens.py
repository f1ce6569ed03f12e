"""Log-probabilities of tokens, and heads on them."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from policies.decode.sampler import pick
from policies.scoring import head, score_replies
from policies.scoring import tokens as scoring_tokens
from policies.scoring.head import changes_logits, hidden_at, logits_at, restrict, takes_positions, token_logprobs
from policies.scoring.tokens import score_with_divergence
from tests.cases import cases
from tests.policies.small_models import small_model
from tests.refusals import refuses

PROMPTS = [(5, 6, 7), (8,), (5, 6, 7), (9, 10, 11, 12), (5, 6, 7)]
REPLIES = [(4,), (5, 6, 7), (9,), (10, 11), (4, 12)]


@pytest.fixture(scope="module")
def model():
    return small_model(vocab_size=20, initializer_range=0.3, tie_word_embeddings=True)


def naive(model, prompt, reply, temperature):
    """One unpadded row; log-probabilities, entropies and which tokens were the most probable."""
    logits = model(input_ids=torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1] / temperature
    distribution = torch.distributions.Categorical(logits=logits)
    return distribution.log_prob(torch.tensor(reply)), distribution.entropy(), logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_scores_equal_those_of_single_unpadded_rows(model, temperature):
    scores = score_replies(model, PROMPTS, REPLIES, temperature=temperature)
    assert scores.logprobs.shape == scores.entropy.shape == scores.mask.shape == scores.top.shape == (5, 3)
    for row, (prompt, reply) in enumerate(zip(PROMPTS, REPLIES, strict=True)):
        logprobs, entropy, best = naive(model, prompt, reply, temperature)
        rest = [False] * (3 - len(reply))
        assert scores.mask[row].tolist() == [True] * len(reply) + rest
        torch.testing.assert_close(scores.logprobs[row, : len(reply)], logprobs, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(scores.entropy[row, : len(reply)], entropy, atol=1e-5, rtol=1e-5)
        assert scores.logprobs[row, len(reply) :].abs().sum() == scores.entropy[row, len(reply) :].abs().sum() == 0
        assert scores.top[row].tolist() == [b == t for b, t in zip(best, reply, strict=True)] + rest


def another(model):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.8)
    return other


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_divergence_from_another_model_is_that_of_whole_distributions(model, temperature):
    other = another(model)
    logprobs, divergence = score_with_divergence(model, other, PROMPTS, REPLIES, temperature=temperature)
    torch.testing.assert_close(logprobs, score_replies(model, PROMPTS, REPLIES, temperature=temperature).logprobs)
    for row, (prompt, reply) in enumerate(zip(PROMPTS, REPLIES, strict=True)):
        ids = torch.tensor([[*prompt, *reply]])
        ours, theirs = (
            torch.distributions.Categorical(logits=of(input_ids=ids).logits[0, len(prompt) - 1 : -1] / temperature)
            for of in (model, other)
        )
        expected = torch.distributions.kl_divergence(theirs, ours)
        assert expected.min() > 1e-3
        torch.testing.assert_close(divergence[row, : len(reply)], expected, atol=1e-5, rtol=1e-4)
        assert not divergence[row, len(reply) :].any()
    divergence.sum().backward()
    assert all(weight.grad is None for weight in other.parameters())
    assert any(weight.grad is not None for weight in model.parameters())
    model.zero_grad()


def test_the_divergence_among_allowed_tokens_is_finite(model):
    allowed = [((4, 5),), ((5,), (6, 7), (7,)), ((),), ((), ()), ((4, 9), (12, 1))]
    _, divergence = score_with_divergence(model, another(model), PROMPTS, REPLIES, allowed=allowed)
    assert divergence[1].tolist()[::2] == [0.0, 0.0]  # one token allowed: nothing to differ in
    assert torch.isfinite(divergence).all()
    divergence.sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)
    model.zero_grad()


def test_gradients_equal_those_of_single_rows(model):
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0])

    def gradients(loss):
        return torch.autograd.grad(loss, list(model.parameters()))

    scores = score_replies(model, PROMPTS, REPLIES)
    shared = gradients((scores.logprobs.sum(1) * weights).sum() + scores.entropy.sum())
    rows = [naive(model, prompt, reply, 1.0) for prompt, reply in zip(PROMPTS, REPLIES, strict=True)]
    single = gradients(sum(w * row[0].sum() + row[1].sum() for w, row in zip(weights, rows, strict=True)))
    for one, other in zip(shared, single, strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-3)


def test_the_head_runs_once_per_distinct_position_of_a_reply(model):
    rows = []
    handle = model.lm_head.register_forward_hook(lambda _, __, output: rows.append(output.shape[-2]))
    bodies = []
    body = model.model.register_forward_pre_hook(
        lambda _, __, arguments: bodies.append(tuple(arguments["input_ids"].shape)), with_kwargs=True
    )
    score_replies(model, [(5, 6, 7)] * 4 + [(8, 9)], [(1,), (2,), (1,), (3,), (4, 5)])
    handle.remove()
    body.remove()
    # Four replies to one prompt read one position; the fifth reads two. Two distinct inputs of three tokens.
    assert rows == [3]
    assert bodies == [(2, 3)]


@cases(
    "prompts, replies, temperature, words",
    ([(1,)], [], 1.0, "1 prompts and 0 replies"),
    ([], [], 1.0, "at least one pair"),
    ([(1,), ()], [(1,), (2,)], 1.0, "prompt 1 has no tokens"),
    ([(1,)], [()], 1.0, "reply 0 has no tokens"),
    ([(1,)], [(2, -1)], 1.0, "reply 0 has the token id -1; ids are at least 0"),
    ([(1,)], [(2,)], 0.0, "temperature above 0"),
    ([(1,)], [(2,)], np.nan, "temperature above 0"),
)
def test_wrong_input_is_explained(model, prompts, replies, temperature, words):
    refuses(ValueError, words, score_replies, model, prompts, replies, temperature=temperature)


@pytest.mark.parametrize("restricted", [False, True])
def test_a_head_in_pieces_scores_as_a_whole_one(model, monkeypatch, restricted):
    allowed = [[(token, 3, 7) for token in reply] if row % 2 else () for row, reply in enumerate(REPLIES)]
    given = {"temperature": 0.7, "allowed": allowed if restricted else None}
    whole = score_replies(model, PROMPTS, REPLIES, **given)
    monkeypatch.setattr(scoring_tokens, "_WHOLE_HEAD", 0)
    pieces = score_replies(model, PROMPTS, REPLIES, **given)
    for one, other in zip(vars(pieces).values(), vars(whole).values(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    ours, theirs = (
        torch.autograd.grad(each.logprobs.sum() + each.entropy.sum(), list(model.parameters()))
        for each in (pieces, whole)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
    for how in (0, 2**30):
        monkeypatch.setattr(scoring_tokens, "_WHOLE_HEAD", how)
        none = score_replies(model, PROMPTS, REPLIES, entropy=None, **given)
        assert not none.entropy.any()
        torch.testing.assert_close(none.logprobs, whole.logprobs, atol=1e-5, rtol=0)


def test_weights_are_looked_at_for_nan_once_while_nothing_is_written(model, monkeypatch):
    summed, plain, fresh = [], head._sums, another(model)
    monkeypatch.setattr(head, "_sums", lambda values: (summed.append(len(values)), plain(values))[1])
    for _ in range(3):
        head.check_finite(fresh, "the policy's")
    assert len(summed) == 1
    with torch.no_grad():
        next(fresh.parameters()).mul_(2)
    head.check_finite(fresh, "the policy's")
    assert len(summed) == 2


QWEN = 151_936
SMALL = {"vocab_size": 20, "num_hidden_layers": 1, "initializer_range": 0.3}


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
    assert (found.top.tolist(), found.entropy.requires_grad) == ((head(hidden).argmax(-1) == targets).tolist(), entropy)
    inputs = [hidden, *head.parameters()]

    def loss(logprobs: Tensor, spread: Tensor) -> Tensor:
        return (logprobs * weights).sum() + (0.3 * spread.sum() if entropy else 0.0)

    ours = torch.autograd.grad(loss(found.logprobs, found.entropy), inputs)
    for one, other in zip(ours, torch.autograd.grad(loss(logprobs, spread), inputs), strict=True):
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
    model = small_model(**SMALL)
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    rows, columns = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 2])
    hidden, last = hidden_at(model, ids, rows, columns)
    torch.testing.assert_close(model.lm_head(hidden), logits_at(model, ids, rows, columns))
    assert last.shape == (2, 1, 20)
    assert takes_positions(model)
    assert changes_logits(small_model("Gemma2", **SMALL, head_dim=8, final_logit_softcapping=3.0))
    assert not changes_logits(small_model("Gemma2", **SMALL, head_dim=8, final_logit_softcapping=None))
    assert not changes_logits(small_model(**SMALL))


class _OnTheHost(TorchDispatchMode):
    """The most numbers of a tensor on the CPU that any operation reads or writes."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for each in tree_leaves((args, kwargs, found)):
            if isinstance(each, Tensor) and each.device.type == "cpu":
                self.most = max(self.most, each.numel())
        return found


@cases("every", False, True)
def test_a_restriction_costs_the_host_its_allowed_tokens_and_no_mask(every: bool) -> None:
    """On "meta", which stands for a GPU, n = 3 rows of V = 1,000 tokens: not even one row of a mask is made."""
    allowed = [(1, 2, 999), () if every else (7,), (4, 5)]
    logits = torch.zeros(3, 1000, device="meta")
    weight = torch.zeros(1000, 8, device="meta", requires_grad=True)
    targets = torch.zeros(3, dtype=torch.int64, device="meta")
    with _OnTheHost() as host:
        assert restrict(logits, allowed).shape == (3, 1000)
        pick(logits, torch.zeros(3, dtype=torch.float64, device="meta"), 1.0, allowed)
        hidden = torch.zeros(3, 8, device="meta")
        token_logprobs(lambda states: states @ weight.T, hidden, targets, allowed=allowed).logprobs.sum().backward()
    assert host.most == 2 * sum(map(len, allowed))  # a row and a column of each
    with _OnTheHost() as host:  # what it must not do is seen
        logits.masked_fill(torch.ones(3, 1000, dtype=torch.bool).to("meta"), 0.0)
    assert host.most == 3000
