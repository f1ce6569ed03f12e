"""Log-probabilities of tokens, heads on them, and packed passes and shared prefixes that score as single rows do."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import BloomConfig, BloomForCausalLM, OPTConfig, OPTForCausalLM

from policies.decode.sampler import pick
from policies.scoring import head, packed, prefix_tree, score_replies
from policies.scoring import tokens as scoring_tokens
from policies.scoring.attention import RUNS, Runs
from policies.scoring.head import changes_logits, hidden_at, logits_at, restrict, takes_positions, token_logprobs
from policies.scoring.packed import Chain, merge_chains, pack, rows_per_pass, score_packed
from policies.scoring.prefix_tree import merge_trees, score_trees, tree_rows_per_pass
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


#: Options of `small_model`.
KINDS: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen3": {"kind": "Qwen3", "head_dim": 8},
    "qwen2-sliding": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "gemma2-capped": {"kind": "Gemma2", "head_dim": 8, "final_logit_softcapping": 3.0},
}
Rows = tuple[list[tuple[int, ...]], list[tuple[int, ...]]]


def make(name: str = "qwen2", attention: str = "sdpa") -> Any:
    return small_model(**KINDS[name], tie_word_embeddings=True, attn_implementation=attention)


def shapes_of(model: Any) -> list[tuple[int, ...]]:
    """Shapes of the token ids that the model reads from now on; it was examined before."""
    shapes: list[tuple[int, ...]] = []
    model.model.register_forward_pre_hook(
        lambda _, __, given: shapes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    return shapes


def transcripts(trajectories: int = 3, turns: int = 4) -> Rows:
    """Rows of append-only transcripts: each turn's prompt is the one before, its reply and an observation."""
    rng = np.random.default_rng(1)
    prompts, replies = [], []
    for _ in range(trajectories):
        prompt = tuple(rng.integers(40, size=rng.integers(2, 6)).tolist())
        for _ in range(turns):
            reply = tuple(rng.integers(40, size=rng.integers(1, 5)).tolist())
            prompts.append(prompt)
            replies.append(reply)
            prompt += reply + tuple(rng.integers(40, size=rng.integers(1, 4)).tolist())
    return prompts, replies


def windows() -> Rows:
    """Rows of which none is the beginning of another, some of one token, some twice."""
    return (
        [(5, 6, 7), (8,), (5, 6, 7), (9, 10, 11, 12), (5, 6, 7), (8,)],
        [(4,), (5, 6, 7), (9,), (10, 11), (4, 12), (5, 6, 7)],
    )


def group(tasks: int = 3, episodes: int = 4, turns: int = 3) -> Rows:
    """Rows of rollouts: a task's prompts begin alike, some go on alike, first prompts are the same."""
    rng = np.random.default_rng(2)
    prompts, replies = [], []
    for _ in range(tasks):
        question = tuple(rng.integers(40, size=6).tolist())
        for _ in range(episodes):
            prompt = question
            for _ in range(turns):
                replies.append(tuple(rng.integers(3, size=rng.integers(1, 5)).tolist()))
                prompts.append(prompt)
                prompt = question + replies[-1][:2] + tuple(rng.integers(2, size=2).tolist())
    return prompts, replies


PREFIX_TREE_ROWS: dict[str, Rows] = {
    "group": group(),
    "continued": ([(1, 2), (9,), (1, 2, 3, 4), (1, 2), (1, 2, 3, 5)], [(3,), (8, 8), (5, 6), (7, 7), (1,)]),
    "apart": ([(5, 6, 7), (8,), (9, 10, 11, 12)], [(4,), (5, 6, 7), (9,)]),
    "equal": ([(5, 6)] * 3, [(4, 3)] * 3),
    "one": ([(3,)], [(4,)]),
}
ROWS = {"transcripts": transcripts(), "windows": windows(), "one": ([(3,)], [(4,)])}


@cases(
    "score, rows, name, attention",
    *((score_packed, rows, name, kind) for rows in ROWS.values() for name in KINDS for kind in ("sdpa", "eager")
      if (name, kind) != ("gemma2-capped", "sdpa")),  # transformers has no such attention for it
    *((score_trees, rows, name, "sdpa") for rows in PREFIX_TREE_ROWS.values() for name in ("qwen2", "qwen3")),
)  # fmt: skip
def test_scores_and_gradients_equal_those_of_rows(score: Any, rows: Rows, name: str, attention: str) -> None:
    model = make(name, attention).double()  # so that what differs is no rounding
    prompts, replies = rows
    weights = torch.linspace(-1, 2, len(prompts))[:, None]

    def gradients(scores: Any) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(((scores.logprobs + 0.3 * scores.entropy) * weights).sum(), list(model.parameters()))

    plain = score_replies(model, prompts, replies, temperature=0.8)
    expected = gradients(plain)
    largest = max(float(each.abs().max()) for each in expected)
    for tokens in (1, 30, 10_000):
        found = score(model, prompts, replies, temperature=0.8, tokens_per_pass=tokens, entropy=True)
        torch.testing.assert_close(found.logprobs, plain.logprobs, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.entropy, plain.entropy, atol=1e-5, rtol=0)
        assert torch.equal(found.mask, plain.mask)
        assert torch.equal(found.top, plain.top)
        for one, other in zip(gradients(found), expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6 * largest, rtol=0)


def test_entropy_is_not_differentiable_unless_wanted() -> None:
    model, (prompts, replies) = make(), ROWS["windows"]
    assert not score_packed(model, prompts, replies).entropy.requires_grad
    assert not score_replies(model, prompts, replies, entropy=False).entropy.requires_grad
    plain = score_replies(model, prompts, replies)
    torch.testing.assert_close(score_packed(model, prompts, replies).entropy, plain.entropy, atol=1e-5, rtol=0)


def test_models_that_cannot_keep_sequences_apart_are_refused() -> None:
    size: dict[str, Any] = {"vocab_size": 40, "hidden_size": 32}
    # OPT takes position ids and looks across the sequences all the same, where it takes no runs; Bloom takes none.
    heads = {"ffn_dim": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "word_embed_proj_dim": 32}
    opt = OPTForCausalLM(OPTConfig(**size, **heads, attn_implementation="eager")).eval()
    bloom = BloomForCausalLM(BloomConfig(**size, n_layer=1, n_head=2)).eval()
    for score, model, words in (
        (score_packed, opt, r"OPTForCausalLM.*see each other"),
        (score_packed, bloom, "takes no position_ids"),
        (score_trees, bloom, r"BloomForCausalLM.*share_prefixes=False"),
        (score_trees, make("qwen2-sliding"), r"sliding_attention.*cannot share prefixes"),
    ):
        refuses(ValueError, words, score, model, [(1,)], [(2,)])


def test_under_autocast_sequences_may_differ_by_the_rounding_of_16_bits() -> None:
    """Hidden states are float32 there as well: their type does not say how they were rounded."""
    lines = packed._lay([Chain((1, 2, 3, 4), ())] * 2, False)
    found = [packed.look_alike(make(), lines, slice(4), slice(4, 8), kind)[1] for kind in (None, torch.bfloat16)]
    assert found == [1e-4, 0.02]


def test_passes_by_hand() -> None:
    prompts = [(1, 2), (9,), (1, 2, 3, 4), (1, 2), (1, 2, 3, 5), (9, 7)]
    replies = [(3,), (8, 8), (5, 6), (7, 7), (1,), (2,)]
    # Inputs: 12 | 98 | 12345 | 127 | 1235 | 97. 12 is the beginning of three others and joins one of them.
    assert merge_chains(prompts, replies) == [
        Chain((1, 2, 3, 4, 5), ((0, 2), (2, 4))),
        Chain((9, 8), ((1, 1),)),
        Chain((1, 2, 7), ((3, 2),)),
        Chain((1, 2, 3, 5), ((4, 4),)),
        Chain((9, 7), ((5, 2),)),
    ]
    prompts, replies = transcripts(trajectories=3, turns=8)
    chains = merge_chains(prompts, replies)
    assert [len(chain.spans) for chain in chains] == [8, 8, 8]
    assert [chain.tokens for chain in chains] == [(*prompts[7 + 8 * i], *replies[7 + 8 * i][:-1]) for i in range(3)]
    # Token ids above 255 and 65,535 keep the order of tuples.
    wide = [(300, 70_000), (300, 70_000, 2), (44,), (256, 1)]
    assert len(merge_chains(wide, [(1,)] * 4)) == 3
    chains = [Chain((0,) * length, ((row, 1),)) for row, length in enumerate((3, 9, 4, 2, 5))]
    # Longest first: 9 alone is too long for 8, 5 + 3, 4 + 2.
    assert [[len(chain.tokens) for chain in each] for each in pack(chains, 8)] == [[9], [5, 3], [4, 2]]
    refuses(ValueError, "at least 1 token, got 0", pack, chains, 0)
    refuses(ValueError, "1 prompts and 0 replies", score_packed, make(), [(1,)], [])
    prompts, replies = ROWS["transcripts"]
    passes = rows_per_pass(prompts, replies, 40)
    assert sorted(row for rows in passes for row in rows) == list(range(12))
    assert all({row // 4 for row in rows} == {row // 4 for row in rows if row % 4 == 3} for rows in passes)
    model, (prompts, replies) = make(), ROWS["transcripts"]
    score_packed(model, [(1,)], [(2,)])
    shapes = shapes_of(model)
    score_packed(model, prompts, replies, tokens_per_pass=10_000)
    assert shapes == [(1, sum(len(prompts[row]) + len(replies[row]) - 1 for row in (3, 7, 11)))]


@cases(
    "module, score, rows, wrong, setting",
    (packed, score_packed, ROWS["windows"], "positions", "microbatch_tokens=None"),
    (prefix_tree, score_trees, PREFIX_TREE_ROWS["group"], "positions", "share_prefixes=False"),
    (prefix_tree, score_trees, PREFIX_TREE_ROWS["group"], "runs", "share_prefixes=False"),
)
def test_rows_that_see_each_other_are_found_by_these_tests_and_refused(
    module: Any, score: Any, rows: Rows, wrong: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers are others, and there is an error."""
    model, lay = make(), module._lay

    def leaking(sequences: Any, *runs: Any) -> Any:
        laid = lay(sequences, *(False for _ in runs))
        ids = laid["input_ids"]
        if wrong == "positions":  # they go on over the end of a sequence or branch
            return laid | {"position_ids": torch.arange(ids.shape[1]).expand_as(ids)}
        return laid | {RUNS: Runs.of([ids.shape[1]])}  # a token sees all branches before its own

    plain = score_replies(model, *rows).logprobs
    score(model, *rows)  # examined and found good: only the numbers can tell from here on
    monkeypatch.setattr(module, "_lay", leaking)
    assert float((score(model, *rows).logprobs - plain).detach().abs().max()) > 0.01
    refuses(ValueError, rf"see each other.*{setting}", score, copy.deepcopy(model), *rows)


def test_trees_by_hand() -> None:
    # Inputs: 1 2 3 | 1 2 3 4 | 1 2 5 4. Depth first: 1 2 3 4 | 5 4; the first row ends where the second goes on.
    [tree] = merge_trees([(1, 2, 5), (1, 2, 3, 4), (1, 2, 3)], [(4, 9), (9,), (7,)], 100)
    assert (tree.tokens.tolist(), tree.positions.tolist()) == ([1, 2, 3, 4, 5, 4], [0, 1, 2, 3, 2, 3])
    assert tree.stops.tolist() == [6, 6, 4, 4, 6, 6]
    assert tree.runs(10) == [(10, 12, [(10, 12)]), (12, 14, [(10, 14)]), (14, 16, [(10, 12), (14, 16)])]
    assert {row: columns.tolist() for row, columns in tree.columns.items()} == {2: [2], 1: [3], 0: [4, 5]}
    prompts = [(1, 2, 3), (1, 2, 4), (1, 2, 5)]
    # Of 4 tokens a second row fits with its 1 new one, the third does not any more.
    assert [tree.tokens.tolist() for tree in merge_trees(prompts, [(9,)] * 3, 4)] == [[1, 2, 3, 4], [1, 2, 5]]
    # One shared token for four new ones is worth it, for five it is not.
    for length, trees in ((5, 1), (6, 2)):
        rows = [(1, *(2,) * (length - 1)), (1, *(3,) * (length - 1))]
        assert len(merge_trees(rows, [(9,)] * 2, 100)) == trees
    # Token ids above 255 keep the order of tuples.
    assert len(merge_trees([(300, 70_000), (44, 1), (300, 70_001)], [(1,)] * 3, 100)) == 2


def test_passes_of_rows_are_the_passes_of_a_score() -> None:
    model, (prompts, replies) = make(), PREFIX_TREE_ROWS["group"]
    score_trees(model, [(1,)], [(2,)])
    shapes, passes = shapes_of(model), tree_rows_per_pass(prompts, replies, 60)
    assert len(passes) > 1
    assert sorted(row for rows in passes for row in rows) == list(range(len(prompts)))
    for rows in passes:
        score_trees(model, [prompts[r] for r in rows], [replies[r] for r in rows], tokens_per_pass=60)
    assert len(shapes) == len(passes)
    assert all(lines * width <= 60 for lines, width in shapes)
    separate = sum(len(prompt) + len(reply) - 1 for prompt, reply in zip(prompts, replies, strict=True))
    assert sum(lines * width for lines, width in shapes) < separate / 2
