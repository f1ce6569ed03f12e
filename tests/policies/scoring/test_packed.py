"""Packed passes and shared prefixes score as single rows do."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM, OPTConfig, OPTForCausalLM

from policies.scoring import packed, prefix_tree, score_replies
from policies.scoring.attention import RUNS, Runs
from policies.scoring.packed import Chain, merge_chains, pack, rows_per_pass, score_packed
from policies.scoring.prefix_tree import merge_trees, score_trees, tree_rows_per_pass
from tests.cases import cases
from tests.policies.small_models import small_model
from tests.refusals import refuses

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
    with pytest.raises(ValueError, match=rf"see each other.*{setting}"):
        score(copy.deepcopy(model), *rows)


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
