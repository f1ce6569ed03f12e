import pytest
import torch

from policies.tiny import tiny_policy, tiny_tokenizer

BOARD = "######\n#_√###\n#____#\n#_XOP#\n######\n######"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer([BOARD, "Push every box."], ["up", "down"])


def tokens(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])


def test_words_and_tags_and_symbols_are_one_token_each(tokenizer):
    assert tokens(tokenizer, "<think>Push box.</think><action>up</action>") == [
        *("<think>", "Push", " ", "box", ".", "</think>", "<action>", "up", "</action>"),
    ]
    assert tokens(tokenizer, "#_OX√P\nO") == ["#", "_", "O", "X", "√", "P", "\n", "O"]


def test_every_board_of_one_size_keeps_its_cells_at_the_same_places(tokenizer):
    # Rooms may have rows of nothing but wall, which look like the frame: 16 cells and 5 frame pieces all the same.
    other = "######\n######\n######\n#PXO##\n######\n######"
    for board in (BOARD, other):
        pieces = tokens(tokenizer, board)
        frames = [place for place, piece in enumerate(pieces) if len(piece) > 1]
        assert frames == [0, 5, 10, 15, 20]
        assert len(pieces) == 21
        inside = "".join(piece for piece in pieces if len(piece) == 1)
        assert inside == "".join(row[1:-1] for row in board.split("\n")[1:-1])


@pytest.mark.parametrize("text", [BOARD, "up and  down\n\tnever?", "ABC abc 12", "<action>sideways</action>", "√X"])
def test_known_characters_come_back_exactly(tokenizer, text):
    if "\t" in text:
        text = text.replace("\t", " ")
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_unseen_words_are_spelled_and_unseen_characters_become_the_unknown_token(tokenizer):
    assert tokens(tokenizer, "left") == ["l", "e", "f", "t"]
    assert tokens(tokenizer, "a€b") == ["a", "<|unknown|>", "b"]


def test_in_lower_case_a_word_and_its_title_form_are_one_token():
    tokenizer = tiny_tokenizer(["Big red Box"], ["push big box"], lower_case=True)
    assert tokens(tokenizer, "RED Box, Push") == ["red", " ", "box", ",", " ", "push"]
    assert tokenizer.decode(tokenizer("Big Box")["input_ids"]) == "big box"
    assert not [word for word in tokenizer.get_vocab() if word != word.lower() and len(word) > 1]


def test_chat_template_is_minimal_and_marks_the_speakers(tokenizer):
    chat = [{"role": "system", "content": "Push"}, {"role": "user", "content": "box"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<|system|>Push<|user|>box<|assistant|>"
    assert len(tokenizer(text)["input_ids"]) == 5


def test_the_tokenizer_is_a_function_of_the_texts():
    texts = ["b a c a", "zebra crossing a"]
    assert tiny_tokenizer(texts).get_vocab() == tiny_tokenizer(texts).get_vocab()
    # The more frequent word comes first; equal counts go by the alphabet.
    vocabulary = tiny_tokenizer(["one two two three"]).get_vocab()
    assert vocabulary["two"] < vocabulary["one"] < vocabulary["three"]


def test_weights_depend_on_the_seed_and_on_nothing_else():
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    first = tiny_policy([BOARD], seed=3).model.state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(456)
    second = tiny_policy([BOARD], seed=3).model.state_dict()
    other = tiny_policy([BOARD], seed=4).model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_the_default_is_small_and_a_board_costs_24_tokens():
    policy = tiny_policy([BOARD], seed=0)
    assert 150_000 < sum(weight.numel() for weight in policy.model.parameters()) < 250_000
    # user tag + 21 pieces of the board + assistant tag + <action>
    assert len(policy.encode(BOARD)) == 24
    assert policy.settings.max_new_tokens == 1


def test_impossible_shapes_are_refused():
    with pytest.raises(ValueError, match="heads must be of even size"):
        tiny_policy([BOARD], seed=0, width=60, heads=8)
    with pytest.raises(ValueError, match="head_size=7"):
        tiny_policy([BOARD], seed=0, head_size=7)
