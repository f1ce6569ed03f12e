"""The sentence encoder on a tiny random model that is made here, offline."""

import subprocess
import sys

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from wrappers import merge_similar_states
from wrappers.sentence_encoder import SentenceEncoder

WORDS = ["the", "a", "red", "blue", "door", "key", "is", "locked", "open", "kitchen", "room", "you", "are", "in"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of one layer, with random weights and a vocabulary of the words above."""
    pytest.importorskip("sentence_transformers", reason="needs the extra 'embed'")
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    path = tmp_path_factory.mktemp("encoder")
    vocabulary = path / "words.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]), encoding="utf-8")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=5 + len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32, initializer_range=1.0,
    )  # fmt: skip
    BertModel(config).save_pretrained(path)
    BertTokenizerFast(vocab_file=str(vocabulary), model_max_length=32).save_pretrained(path)
    return path


class Counted:
    """Stands for the model and notes what it was asked to encode."""

    def __init__(self, encoder):
        self.asked = []
        self.inner = encoder._load()

    def encode(self, texts, **options):
        self.asked.append(list(texts))
        return self.inner.encode(texts, **options)


def counted(folder, **options):
    encoder = SentenceEncoder(folder, device="cpu", **options)
    encoder._encoder = Counted(encoder)
    return encoder, encoder._encoder.asked


def test_one_float32_vector_per_state(folder):
    encode = SentenceEncoder(folder, device="cpu")
    vectors = encode(["the red door", "a key", "the red door"])
    assert vectors.shape == (3, 16)
    assert vectors.dtype == np.float32
    assert (vectors[0] == vectors[2]).all()
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)
    assert encode([]).shape[0] == 0


def test_vectors_are_those_of_the_model_and_of_every_encoder(folder):
    from sentence_transformers import SentenceTransformer

    texts = ["the red door is locked", "you are in a kitchen", "a key"]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts)
    for batch_size in (1, 2, 64):
        np.testing.assert_allclose(SentenceEncoder(folder, batch_size=batch_size)(texts), expected, atol=1e-5)
    np.testing.assert_array_equal(SentenceEncoder(folder)(texts), SentenceEncoder(folder)(texts))


def test_other_states_are_encoded_as_their_text(folder):
    encode = SentenceEncoder(folder, device="cpu")
    np.testing.assert_array_equal(encode([("a", 1)]), encode(["('a', 1)"]))


def test_a_text_is_encoded_once_while_it_is_kept(folder):
    encode, asked = counted(folder, cache_size=2)
    first = encode(["a key", "a door", "a key"])
    assert asked == [["a key", "a door"]]
    np.testing.assert_array_equal(encode(["a door", "a key"]), first[[1, 0]])
    assert len(asked) == 1
    # "a door" was used least lately: it goes when a third text comes.
    encode(["a room"])
    encode(["a key"])
    assert asked[1:] == [["a room"]]
    encode(["a door"])
    assert asked[2:] == [["a door"]]


def test_more_states_than_are_kept_are_answered_all(folder):
    encode, asked = counted(folder, cache_size=1)
    vectors = encode(WORDS)
    assert vectors.shape == (len(WORDS), 16)
    np.testing.assert_array_equal(encode(WORDS[-1:])[0], vectors[-1])
    assert len(asked) == 1


def test_it_embeds_for_clusters(folder):
    encode = SentenceEncoder(folder, device="cpu")
    table = StepTable.from_arrays(
        group=[0, 0], trajectory=[0, 1], t=[0, 0], state=["the red door", "a key is in the kitchen"],
        action=["open", "knock"], next_state=["goal", "pit"], reward=[1, 0], won=[1, 0],
    )  # fmt: skip
    u, v = encode(["the red door", "a key is in the kitchen"]).astype(float)
    cosine = u @ v / np.sqrt((u @ u) * (v @ v))
    for threshold, states in ((cosine - 1e-4, 3), (cosine + 1e-4, 4)):
        assert len(merge_similar_states(table, encode, threshold).states) == states


@pytest.mark.parametrize("name", ["batch_size", "cache_size"])
def test_sizes_are_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        SentenceEncoder(**{name: 0})


def test_without_the_extra_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    encode = SentenceEncoder("anything")
    with pytest.raises(ImportError, match=r"pip install \"stepcredit\[embed\]\""):
        encode(["a"])


def test_importing_it_loads_no_torch():
    code = (
        "import wrappers.sentence_encoder, sys; print('torch' in sys.modules, 'sentence_transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
