import pytest
import torch

from policies.scoring import score_replies
from policies.tiny import start_copying, tiny_policy, tiny_tokenizer
from tests.refusals import refuses

BOARD = "######\n#_√###\n#____#\n#_XOP#\n######\n######"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer([BOARD, "Push every box."], ["up", "down"])


def tokens(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])


def test_words_and_templates_are_tokens(tokenizer) -> None:
    assert tokens(tokenizer, "<think>Push box.</think><action>up</action>") == [
        *("<think>", "Push", " ", "box", ".", "</think>", "<action>", "up", "</action>")
    ]
    assert tokens(tokenizer, "#_OX√P\nO") == ["#", "_", "O", "X", "√", "P", "\n", "O"]
    # Rooms may have rows of nothing but wall, which look like the frame: 16 cells and 5 frame pieces all the same.
    other = "######\n######\n######\n#PXO##\n######\n######"
    for board in (BOARD, other):
        pieces = tokens(tokenizer, board)
        frames = [place for place, piece in enumerate(pieces) if len(piece) > 1]
        assert frames == [0, 5, 10, 15, 20]
        assert len(pieces) == 21
        inside = "".join(piece for piece in pieces if len(piece) == 1)
        assert inside == "".join(row[1:-1] for row in board.split("\n")[1:-1])
    assert (tokens(tokenizer, "left"), tokens(tokenizer, "a€b")) == (["l", "e", "f", "t"], ["a", "<|unknown|>", "b"])
    chat = [{"role": "system", "content": "Push"}, {"role": "user", "content": "box"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<|system|>Push<|user|>box<|assistant|>"
    assert len(tokenizer(text)["input_ids"]) == 5


@pytest.mark.parametrize("text", [BOARD, "up and  down\n\tnever?", "ABC abc 12", "<action>sideways</action>", "√X"])
def test_known_characters_come_back_exactly(tokenizer, text):
    if "\t" in text:
        text = text.replace("\t", " ")
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_tokenizers_and_weights_are_functions_of_texts_and_seeds() -> None:
    tokenizer = tiny_tokenizer(["Big red Box"], ["push big box"], lower_case=True)
    assert tokens(tokenizer, "RED Box, Push") == ["red", " ", "box", ",", " ", "push"]
    assert tokenizer.decode(tokenizer("Big Box")["input_ids"]) == "big box"
    assert not [word for word in tokenizer.get_vocab() if word != word.lower() and len(word) > 1]
    texts = ["b a c a", "zebra crossing a"]
    assert tiny_tokenizer(texts).get_vocab() == tiny_tokenizer(texts).get_vocab()
    # The more frequent word comes first; equal counts go by the alphabet.
    vocabulary = tiny_tokenizer(["one two two three"]).get_vocab()
    assert vocabulary["two"] < vocabulary["one"] < vocabulary["three"]
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    first = tiny_policy([BOARD], seed=3).model.state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(456)
    second = tiny_policy([BOARD], seed=3).model.state_dict()
    other = tiny_policy([BOARD], seed=4).model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
    policy = tiny_policy([BOARD], seed=0)
    assert 150_000 < sum(weight.numel() for weight in policy.model.parameters()) < 250_000
    # user tag + 21 pieces of the board + assistant tag + <action>
    assert len(policy.encode(BOARD)) == 24
    assert policy.settings.max_new_tokens == 1
    refuses(ValueError, "heads must be of even size", tiny_policy, [BOARD], seed=0, width=60, heads=8)
    refuses(ValueError, "head_size=7", tiny_policy, [BOARD], seed=0, head_size=7)


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
    for layer in make(head_size=head_size, copying=True).model.model.layers:
        for head in range(2):
            rows = slice(head * head_size, (head + 1) * head_size)
            through = layer.self_attn.o_proj.weight[:, rows] @ layer.self_attn.v_proj.weight[rows]
            torch.testing.assert_close(through @ through, through, atol=1e-5, rtol=0)  # a projection ...
            assert through.trace().item() == pytest.approx(min(head_size, 32), abs=1e-3)  # ... of full rank


def test_heads_and_starts() -> None:
    model = tiny_policy(["a b"], seed=0, width=32, layers=2, heads=4, kv_heads=2, copying=True).model
    attention = model.model.layers[1].self_attn
    queries, keys = attention.q_proj.weight.reshape(4, 8, 32), attention.k_proj.weight.reshape(2, 8, 32)
    for head in range(4):
        torch.testing.assert_close(queries[head], keys[head // 2])
    assert not torch.equal(keys[0], keys[1])
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
