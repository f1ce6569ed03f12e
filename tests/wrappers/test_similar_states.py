"""State keys while episodes run; merged states of a table, by embeddings against loops."""

import sys
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

import wrappers.similar_states
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import StepTable
from tests.corridor import CorridorVectorEnv
from tests.playing import DISABLED, SAME_STEP
from tests.refusals import refuses
from tests.wrappers.credit.every_method import EMPTY
from tests.wrappers.credit.small_tables import episodes, random_table, rebuild
from wrappers import CanonicalStates, cosine_clusters, merge_similar_states
from wrappers.canonical import enriched_key, graphgpo_key, observation_key, relabel_states, rewardflow_key
from wrappers.credit.rewardflow import rewardflow_values
from wrappers.similar_states import SentenceEncoder, cluster_vectors


def _parity(observation: str, info: dict) -> str:
    return "even" if int(observation.split()[1]) % 2 == 0 else "odd"


def _envs(mode: AutoresetMode, key=_parity) -> CanonicalStates:
    return CanonicalStates(CorridorVectorEnv(2, autoreset_mode=mode), key=key)


def test_keys_in_every_autoreset_mode() -> None:
    envs = _envs(DISABLED)
    assert envs.reset(options=[{"index": 3}, {"index": 2}])[1]["canonical_key"].tolist() == ["odd", "even"]
    assert envs.step(["right", "right"])[-1]["canonical_key"].tolist() == ["even", "odd"]
    assert envs.step(["", "left"])[-1]["canonical_key"].tolist() == ["even", "even"]
    envs = _envs(SAME_STEP, key=enriched_key("won"))
    envs.reset(options=[{"index": 3}, {"index": 2}])
    observations, *_, infos = envs.step(["right", "right"])
    assert infos["final_info"]["canonical_key"].tolist() == ["cell 4 | won=True", None]
    assert infos["canonical_key"].tolist() == [f"{observations[0]} | won=False", "cell 3 | won=False"]


def test_the_recorder_prefers_the_canonical_key_and_keys_are_texts() -> None:
    envs = _envs(DISABLED)
    _, infos = envs.reset(options={"index": 3})
    builder = TableBuilder(2, DISABLED)
    builder.reset(infos)
    builder.step(["right", "right"], *envs.step(["right", "right"])[1:])
    assert builder.table().states == ("odd", "even [success]")

    refuses(TypeError, "must be a function", _envs, DISABLED, key="state_key")
    refuses(TypeError, "must return a str, got int", _envs(DISABLED, key=lambda observation, info: 3).reset, seed=0)
    refuses(KeyError, "info has no 'inventory'", _envs(DISABLED, key=enriched_key("inventory")).reset, seed=0)
    assert observation_key({"text": "t", "image": None}, {}) == "t"


def two_groups() -> StepTable:
    """Group g: a1 -> b -> goal (won), a2 -> b. Group h: b -> a1 (won, its goal), a3 -> goal (cut off)."""
    return StepTable.from_arrays(
        group=list("ggghh"), trajectory=list("xxyzw"), t=[0, 1, 0, 0, 0], state=["a1", "b", "a2", "b", "a3"],
        action=["go"] * 5, next_state=["b", "goal", "b", "a1", "goal"], reward=[0, 1, 0, 1, 0],
        won=[True, True, False, True, False], truncated=[False, False, True, False, True],
    )  # fmt: skip


def by_first_letter(states):
    """One direction per first letter."""
    return np.eye(26)[[ord(str(state)[0]) - ord("a") for state in states]]


def test_labels_merge_states_and_swallow_no_end() -> None:
    table = two_groups()
    shown: list = []
    merged = relabel_states(table, lambda states: shown.extend(states) or [str(state)[0] for state in states])
    # Ends keep their names, and nobody is asked about them: a1 and goal.
    assert (shown, merged.states) == (["b", "a2", "a3"], ("a1", "b", "a", "goal"))
    assert [merged.states[i] for i in merged.state] == ["a1", "b", "a", "b", "a"]
    assert [merged.states[i] for i in merged.next_state] == ["b", "goal", "b", "a1", "goal"]
    assert table.states == ("a1", "b", "a2", "a3", "goal")
    refuses(ValueError, "name of a terminal state", relabel_states, table, lambda states: ["goal"] * len(states))
    refuses(ValueError, r"one label per state \(3\), got 1", relabel_states, table, lambda states: ["one"])


@pytest.mark.parametrize("key", [observation_key, rewardflow_key, graphgpo_key])
def test_the_papers_keys_tell_apart_what_they_name_in_a_household(key) -> None:
    """A clean and a dirty apple in hand, and a refused command at two receptacles: who sees the difference."""
    envs = gym.make_vec("AgentRL/ALFWorld-v0", num_envs=2, autoreset_mode="Disabled", data="generated", expert=True)
    envs = CanonicalStates(envs, key=key)
    _, infos = envs.reset(options={"split": "train", "index": 0})
    for command in ("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to sinkbasin 1"):
        *_, infos = envs.step([command, command])
    envs.step(["clean apple 1 with sinkbasin 1", "xyzzy"])
    *_, infos = envs.step(["xyzzy", "xyzzy"])
    clean, dirty = infos["canonical_key"]
    assert infos["inventory"].tolist() == ["apple 1 (cleaned) (cooled)", "apple 1 (cooled)"]
    assert (clean == dirty) == (key is observation_key)
    envs.step(["go to fridge 1", "clean apple 1 with sinkbasin 1"])
    *_, infos = envs.step(["xyzzy", "xyzzy"])
    fridge, sink = infos["canonical_key"]
    assert (fridge == sink) == (key is not graphgpo_key)


METHODS = ("leader", "components")


def naive_leaders(near):
    found = []
    for i in range(len(near)):
        found.append(next((j for j in range(i) if found[j] == j and near[i, j]), i))
    return found


def naive_components(near):
    found = list(range(len(near)))
    for i in range(len(near)):
        for j in range(len(near)):
            if near[i, j]:
                old, new = max(found[i], found[j]), min(found[i], found[j])
                found = [new if name == old else name for name in found]
    return found


NAIVE = {"leader": naive_leaders, "components": naive_components}


def cosines(vectors):
    return np.array([[u @ v / (np.sqrt(u @ u) * np.sqrt(v @ v)) for v in vectors] for u in vectors])


def directions(seed, n, dimensions=3):
    """Vectors that lie near each other often enough to chain."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dimensions)) * rng.uniform(0.1, 10, (n, 1))


@given(
    seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8), shuffled=st.booleans(),
    threshold=st.sampled_from([0.5, 0.8, 0.9, 0.99]), kind=st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
@pytest.mark.parametrize("method", METHODS)
def test_every_group_is_clustered_as_the_loops_cluster_it_alone(method, seed, sizes, shuffled, threshold, kind):
    groups = np.repeat(np.arange(len(sizes)) * 7 - 3, sizes)
    if shuffled:
        groups = np.random.default_rng(seed).permutation(groups)
    vectors = directions(seed, len(groups))
    found = cluster_vectors(vectors.astype(kind), groups, threshold=threshold, method=method)
    for group in set(groups.tolist()):
        rows = np.flatnonzero(groups == group)
        assert found[rows].tolist() == rows[NAIVE[method](cosines(vectors[rows]) >= threshold)].tolist()


@pytest.mark.parametrize("block", [1, 3, 4, 7])
@pytest.mark.parametrize("method", METHODS)
def test_blocks_change_nothing(monkeypatch, method, block):
    vectors = directions(5, 90)
    groups = np.repeat([0, 1, 2, 3, 4], [1, 3, 40, 6, 40])
    expected = cluster_vectors(vectors, groups, threshold=0.85, method=method).tolist()
    monkeypatch.setattr(wrappers.similar_states, "_BLOCK", block)
    assert cluster_vectors(vectors, groups, threshold=0.85, method=method).tolist() == expected
    assert len(set(expected)) < 60


def test_clusters_by_hand() -> None:
    # Angles 0, 20, 40 and 90 degrees; cos 20 = 0.94, cos 40 = 0.77, cos 50 = 0.64. The third is near the second, which
    # leads nobody: a cluster of its own for leaders, one link of the chain for components.
    radians = np.radians([0, 20, 40, 90])
    vectors = 5 * np.stack([np.cos(radians), np.sin(radians)], axis=1)

    def embed(states):
        return vectors

    assert cosine_clusters(embed)(["d", "c", "b", "a"]) == ["d", "d", "b", "a"]
    assert cosine_clusters(embed, method="components")(["d", "c", "b", "a"]) == ["b", "b", "b", "a"]
    for method in METHODS:
        assert cosine_clusters(lambda states: np.zeros((0, 2)), method=method)([]) == []
        for dtype in (np.float32, np.float64):  # equal ones at threshold 1
            equal = np.random.default_rng(0).normal(size=300).astype(dtype) * [[1.0], [3.0], [0.1], [7.0], [1e3]]
            assert cluster_vectors(equal.astype(dtype), threshold=1.0, method=method).tolist() == [0] * 5
    for threshold in (0.0, 1.1, np.nan):
        refuses(ValueError, "threshold", cosine_clusters, lambda states: [[1.0]], threshold)
    with pytest.raises(ValueError, match="unknown method 'leaders'; known: 'leader', 'components'"):
        cosine_clusters(lambda states: [[1.0]], method="leaders")
    refuses(ValueError, r"shape \(2, dimensions\), got \(1, 1\)", cosine_clusters(lambda states: [[1.0]]), ["a", "b"])
    refuses(ValueError, "length zero", lambda: cosine_clusters(lambda states: [[0.0]])(["a"]))
    refuses(ValueError, "not finite", cluster_vectors, [[np.nan], [1.0]])
    refuses(ValueError, r"groups must have shape \(2,\), got \(1,\)", cluster_vectors, [[1.0], [1.0]], [0])
    refuses(ValueError, r"vectors must have shape \(n, dimensions\), got \(2,\)", cluster_vectors, [1.0, 1.0])
    with pytest.raises(ValueError, match="unknown within 'batch'; known: 'group', 'table'"):
        merge_similar_states(random_table(0), lambda states: np.ones((len(states), 1)), within="batch")


@pytest.mark.parametrize("seed", range(4))
def test_names_of_components_do_not_depend_on_the_order(seed):
    vectors = dict(zip("abcdefghijkl", directions(seed, 12), strict=True))
    label = cosine_clusters(lambda states: [vectors[s] for s in states], 0.8, method="components")
    names = dict(zip(vectors, label(list(vectors)), strict=True))
    assert all(name <= state for state, name in names.items())
    shuffled = np.random.default_rng(seed).permutation(list(vectors)).tolist()
    assert dict(zip(shuffled, label(shuffled), strict=True)) == names


@pytest.mark.parametrize("method", METHODS)
def test_states_merge_within_their_group_and_ends_never(method):
    table = two_groups()
    merged = merge_similar_states(table, by_first_letter, method=method)
    # g: a1 and a2 merge, b stays, goal is an end. h: a1 is an end there, so a3 keeps its name; goal is no end there.
    assert [merged.states[i] for i in merged.state] == ["a1", "b", "a1", "b", "a3"]
    assert [merged.states[i] for i in merged.next_state] == ["b", "goal", "b", "a1", "goal"]
    assert merged.states == ("a1", "b", "a3", "goal")
    for name in ("group", "trajectory", "t", "action", "reward", "won", "terminated", "truncated", "last", "order"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(table, name))
    assert table.states == ("a1", "b", "a2", "a3", "goal")


def test_merged_tables_by_hand() -> None:
    table = two_groups()
    merged = merge_similar_states(table, by_first_letter, within="table")
    expected = relabel_states(table, cosine_clusters(by_first_letter))
    # a1 ends an episode of h, so it is an end everywhere; a2 and a3 of different groups share a name.
    assert merged.states == expected.states == ("a1", "b", "a2", "goal")
    assert merged.state.tolist() == expected.state.tolist()
    shown = []
    merge_similar_states(two_groups(), lambda states: shown.append(list(states)) or by_first_letter(states))
    # b is in both groups; a1 is an end only in h, goal only in g.
    assert [sorted(states) for states in shown] == [["a1", "a2", "a3", "b", "goal"]]
    # Three ways out of rooms a1, a2, a3 that look alike: 1 step, 2 steps, and never to the goal. Max-pooled .9, .81, 0.
    table = episodes("a1 -go-> goal +", "a2 -go-> b -go-> goal +", "a3 -go-> pit")
    credit = rewardflow_values(merge_similar_states(table, by_first_letter))
    assert credit.graph.by_state(credit.value) == pytest.approx({"a1": 0.9, "b": 0.9, "goal": 1.0, "pit": 0.0})
    assert merge_similar_states(EMPTY, by_first_letter).states == ()


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


def counted(folder, **options):
    """An encoder, and the texts that its model was asked for, call by call."""
    encoder, asked = SentenceEncoder(folder, device="cpu", **options), []
    encode = encoder._load().encode
    encoder._encoder = SimpleNamespace(encode=lambda texts, **more: asked.append(list(texts)) or encode(texts, **more))
    return encoder, asked


def test_vectors_of_the_encoder(folder) -> None:
    encode = SentenceEncoder(folder, device="cpu")
    vectors = encode(["the red door", "a key", "the red door"])
    assert (vectors.shape, vectors.dtype) == ((3, 16), np.float32)
    assert (vectors[0] == vectors[2]).all()
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)
    assert encode([]).shape[0] == 0
    from sentence_transformers import SentenceTransformer

    texts = ["the red door is locked", "you are in a kitchen", "a key"]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts)
    for batch_size in (1, 2, 64):
        np.testing.assert_allclose(SentenceEncoder(folder, batch_size=batch_size)(texts), expected, atol=1e-5)
    np.testing.assert_array_equal(SentenceEncoder(folder)(texts), SentenceEncoder(folder)(texts))
    encode = SentenceEncoder(folder, device="cpu")
    np.testing.assert_array_equal(encode([("a", 1)]), encode(["('a', 1)"]))


def test_texts_are_encoded_once_while_kept(folder) -> None:
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
    encode, asked = counted(folder, cache_size=1)
    vectors = encode(WORDS)
    assert vectors.shape == (len(WORDS), 16)
    np.testing.assert_array_equal(encode(WORDS[-1:])[0], vectors[-1])
    assert len(asked) == 1
    encode = SentenceEncoder(folder, device="cpu")
    table = episodes("the_red_door -open-> goal +", "a_key_is_in_the_kitchen -knock-> pit")
    table = rebuild(table, np.arange(2), rename=lambda name: name.replace("_", " "))
    u, v = encode(["the red door", "a key is in the kitchen"]).astype(float)
    cosine = u @ v / np.sqrt((u @ u) * (v @ v))
    for threshold, states in ((cosine - 1e-4, 3), (cosine + 1e-4, 4)):
        assert len(merge_similar_states(table, encode, threshold).states) == states


def test_sizes_are_positive_and_without_the_extra_the_message_says_what_to_install(monkeypatch):
    for name in ("batch_size", "cache_size"):
        refuses(ValueError, f"{name} must be an integer of at least 1, got 0", SentenceEncoder, **{name: 0})
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    refuses(ImportError, r"pip install .*\[embed\]", SentenceEncoder("anything"), ["a"])
