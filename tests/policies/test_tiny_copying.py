"""What the copying start promises: the head that looks back, matching values and outputs, and quicker learning."""

import pytest
import torch

from policies.scoring import score_replies
from policies.tiny import start_copying, tiny_policy

WORDS = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(8) for j in range(8)]


def make(**settings):
    return tiny_policy([" ".join(WORDS)], seed=0, width=32, layers=2, heads=2, kv_heads=2, mlp=32, **settings)


@pytest.fixture(scope="module")
def model():
    return make(head_size=32, copying=True).model


def test_the_first_head_looks_at_the_token_before(model):
    model.set_attn_implementation("eager")
    tokens = torch.randint(10, 60, (4, 24), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        looks = model(input_ids=tokens, output_attentions=True).attentions[0][:, 0]
    before = torch.arange(23)
    assert (looks[:, 1:].argmax(-1) == before).float().mean() > 0.9
    # And not its neighbour of the same kv group by the same means.
    assert looks[:, before + 1, before].mean() > 2 * looks[:, before + 1, before + 1].mean()


@pytest.mark.parametrize("head_size", [8, 32, 48])
def test_values_seen_through_the_output_are_the_token_in_a_subspace(head_size):
    model = make(head_size=head_size, copying=True).model
    for layer in model.model.layers:
        for head in range(2):
            rows = slice(head * head_size, (head + 1) * head_size)
            through = layer.self_attn.o_proj.weight[:, rows] @ layer.self_attn.v_proj.weight[rows]
            torch.testing.assert_close(through @ through, through, atol=1e-5, rtol=0)  # a projection ...
            assert through.trace().item() == pytest.approx(min(head_size, 32), abs=1e-3)  # ... of full rank


def test_query_heads_share_the_subspaces_of_their_key_value_head():
    model = tiny_policy(["a b"], seed=0, width=32, layers=2, heads=4, kv_heads=2, copying=True).model
    attention = model.model.layers[1].self_attn
    queries, keys = attention.q_proj.weight.reshape(4, 8, 32), attention.k_proj.weight.reshape(2, 8, 32)
    for head in range(4):
        torch.testing.assert_close(queries[head], keys[head // 2])
    assert not torch.equal(keys[0], keys[1])


def test_the_start_depends_on_the_seed_alone():
    one, same, other = make().model, make().model, make().model
    torch.manual_seed(1)
    start_copying(one, seed=3)
    torch.manual_seed(2)
    start_copying(same, seed=3)
    start_copying(other, seed=4)
    weights = [model.model.layers[1].self_attn.v_proj.weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_it_soon_learns_to_repeat_what_follows_a_marker():
    """Twelve different words and a marker somewhere among them: the reply is the word behind the marker."""
    right = {}
    for copying in (False, True):
        policy = make(head_size=32, copying=copying)
        marker, *tokens = [policy.tokenizer(word)["input_ids"][0] for word in WORDS]
        assert len({marker, *tokens}) == 64
        generator = torch.Generator().manual_seed(0)
        optimiser = torch.optim.AdamW(policy.model.parameters(), lr=3e-3)
        for _ in range(125):
            prompts, replies = [], []
            for _ in range(32):
                words = [tokens[word] for word in torch.randperm(63, generator=generator)[:12].tolist()]
                at = int(torch.randint(0, 11, (1,), generator=generator))
                prompts.append([*words[:at], marker, *words[at:]])
                replies.append([words[at]])
            scores = score_replies(policy.model, prompts, replies)
            optimiser.zero_grad()
            (-scores.logprobs.sum() / 32).backward()
            optimiser.step()
        right[copying] = float(scores.top.float().mean())
    assert right[False] < 0.25 < 0.75 < right[True], right
