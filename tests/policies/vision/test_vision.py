"""Pictures in prompts: names, files, placeholders; tiny policies that see, and all that goes by a prompt's ids."""

import copy
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor, wait

import gymnasium as gym
import numpy as np
import pytest
import torch

from agentgym.outside.text import DataError
from agentgym.rollout import collect
from baselines.batch import make_batch
from baselines.imitation.cloning import imitate
from baselines.scorers.value_model import value_model
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora
from policies.prompts import FIRST_PICTURE
from policies.scoring.head import logits_at, pad
from policies.scoring.packed import merge_chains
from policies.scoring.prefix_tree import merge_trees
from policies.tiny import tiny_policy
from policies.vision import store as module
from policies.vision.inputs import picture_runs, rotary_positions
from policies.vision.policy import PROCESSOR_FILE, VisionPolicy, image_processor, load_policy, sees
from policies.vision.store import PictureStore
from policies.vision.tiny import tiny_vision_policy
from tests.policies.agreement import answers, check_scores, check_written
from tests.refusals import refuses
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser
from wrappers.transcript import VectorTranscript

pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike

P = FIRST_PICTURE


def store(folder=None, *, patch=8, merge=1):
    size = {"shortest_edge": (patch * merge) ** 2, "longest_edge": 2**16}
    return PictureStore(image_processor(patch_size=patch, merge_size=merge, size=size), folder)


def picture(seed, height=16, width=24):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_numbers_of_pictures() -> None:
    pictures = store()
    first, second = pictures.add(picture(0)), pictures.add(picture(1))
    assert (first.height, first.width) == (2, 3)  # 16 x 24 pixels in patches of 8
    assert len(first.ids) == len(set(first.ids)) == 6
    assert all(FIRST_PICTURE <= number < 2 * FIRST_PICTURE for number in first.ids)
    assert not set(first.ids) & set(second.ids)
    assert pictures.add(picture(0)) is first
    assert store().add(picture(0)) == first  # in another process the same
    assert pictures.of(first.ids) is first
    assert pictures.named(second.name) is second
    assert pictures.add(picture(0).reshape(24, 16, 3)).name != first.name
    assert np.array_equal(pictures.pixels(first), picture(0))
    expected = image_processor(patch_size=8, merge_size=1)(
        images=[picture(0)], size={"shortest_edge": 64, "longest_edge": 2**16}, return_tensors="pt"
    )["pixel_values"]
    assert torch.equal(pictures.patches(first), expected)
    assert copy.deepcopy(pictures) is pictures
    refuses(KeyError, "not known here", pictures.of, (*first.ids[:-1], first.ids[-1] ^ 1))
    wanted = range(FIRST_PICTURE, FIRST_PICTURE + 4)
    refuses(KeyError, r"4 numbers from 2147483648 on.*keep_in\(folder\)", store().of, wanted)
    pictures = store(merge=2)
    found = pictures.add(picture(0, 32, 16))
    assert (found.height, found.width, pictures.grid(found)) == (2, 1, (1, 4, 2))
    assert pictures.patches(found).shape == (8, 2 * 3 * 8 * 8)  # a still picture is two equal frames
    for wrong in (np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8), "a board"):
        refuses(TypeError, r"a picture is a uint8 array \(height, width, 3\)", pictures.add, wrong)


def test_positions_by_hand() -> None:
    # Padding on the left, as it is decoded; then two sequences in one row.
    ids = np.array([[0, 0, 3, P, P, 4], [3, P, P, 4, 3, 5]])
    found = rotary_positions(ids, np.array([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 0, 1]]), lambda run: (1, len(run)))
    assert found[:, 0].tolist() == [[0, 0, 0, 1, 1, 3], [0, 0, 0, 1, 1, 3], [0, 0, 0, 1, 2, 3]]
    assert found[:, 1].tolist() == [[0, 1, 1, 3, 0, 1], [0, 1, 1, 3, 0, 1], [0, 1, 2, 3, 0, 1]]


def test_a_folder_keeps_pictures_for_the_next_process(tmp_path):
    before = store()
    early = before.add(picture(0))
    before.keep_in(tmp_path)
    late = before.add(picture(1))
    (tmp_path / "notes.txt").write_text("not a picture")
    after = store(tmp_path)
    for known, seed in ((early, 0), (late, 1)):
        assert after.of(known.ids) == known
        assert np.array_equal(after.pixels(known), picture(seed))
        assert torch.equal(after.patches(known), before.patches(known))


def test_two_threads_share_a_store(monkeypatch):
    """One plays ahead while the other learns: neither loses what it asked for to what the other shows."""
    monkeypatch.setattr(module, "_MOST_PATCHES", 1)
    pictures = store()
    found = [pictures.add(picture(seed)) for seed in range(2)]
    expected = [pictures.patches(one).clone() for one in found]
    stored, asked = module._Recent.__setitem__, []

    def interrupted(self, key, value):
        stored(self, key, value)
        if not asked:  # the other thread asks at the worst moment, and has to wait its turn
            asked.append(pool.submit(pictures.patches, found[1]))
            wait(asked, timeout=0.1)

    monkeypatch.setattr(module._Recent, "__setitem__", interrupted)
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pictures.patches(found[0]), expected[0])
        assert torch.equal(asked[0].result(), expected[1])


def test_without_a_folder_the_oldest_picture_is_forgotten_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_MOST_FILES", 3000)  # two files of about 1.2 kB
    pictures = store()
    found = [pictures.add(picture(seed)) for seed in range(3)]
    assert [pictures.named(one.name) for one in found] == [None, *found[1:]]
    assert len(pictures._names) == len(pictures._runs) == len(pictures._patches) == 2
    assert np.array_equal(pictures.pixels(found[2]), picture(2))
    refuses(KeyError, "not known here", pictures.of, found[0].ids)
    refuses(KeyError, "was forgotten", pictures.patches, found[0])
    pictures.add(picture(1))  # now it is the latest one
    pictures.add(picture(0))
    assert pictures.named(found[1].name) == found[1]
    assert len(pictures.patches(found[0])) == 6
    kept = store(tmp_path)
    found = [kept.add(picture(seed)) for seed in range(3)]
    assert [kept.of(one.ids) for one in found] == found
    assert np.array_equal(kept.pixels(found[0]), picture(0))
    assert len(pickle.dumps(kept)) < 4000  # no pixels


def test_another_processor_and_numbers_of_another_picture_are_errors_and_no_wrong_picture(tmp_path, monkeypatch):
    known = store(tmp_path).add(picture(0, 32, 48))
    assert (known.height, known.width) == (4, 6)
    after = store(tmp_path, merge=2)
    assert after.add(picture(0, 32, 48)) == known
    words = "was shown as 4 x 6 placeholders, and this image processor makes 2 x 3 of it"
    refuses(ValueError, words, after.patches, known)
    late = store(merge=2)
    late.add(picture(0, 32, 48))  # its patches are there when it meets the folder
    late.keep_in(tmp_path)
    refuses(ValueError, r"was shown as 4 x 6 placeholders", lambda: late.patches(late.of(known.ids)))
    monkeypatch.setattr(module.Picture, "ids", (FIRST_PICTURE,))  # as if the hash had failed
    pictures = store()
    pictures.add(picture(0))
    refuses(ValueError, "two pictures have the same", lambda: pictures.add(picture(1)))


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_positions_are_those_of_transformers(family):
    policy = tiny_vision_policy(["a"], seed=0, family=family, layers=1)
    # Pictures of 2 x 3 and 1 x 2 placeholders, told apart by their length, in rows of different words; the last two
    # tokens of the second row are padding.
    shapes = {6: (2, 3), 2: (1, 2)}
    rows = np.array([[4, 5, *[P] * 6, 6, *[P] * 2, 7, 8], [*[P] * 2, 5, 5, *[P] * 6, 9, 0, 0]])
    ids = torch.from_numpy(rows)
    grids = [shapes[end - low] for row in rows for low, end in picture_runs(row)]
    expected, deltas = policy.model.model.get_rope_index(
        ids.masked_fill(ids >= P, policy.model.config.image_token_id),
        mm_token_type_ids=(ids >= P).int(),
        image_grid_thw=torch.tensor([(1, *grid) for grid in grids]),
    )
    found = rotary_positions(rows, np.broadcast_to(np.arange(13), rows.shape), lambda run: shapes[len(run)])
    assert found.tolist() == expected.tolist()
    assert (found[0, :, -1] - 12).tolist() == deltas.flatten().tolist() == [-3, -3]  # 6 are 3, and 2 are 2


WORDS = "Boxes on targets: 0 of 1."
FAMILIES = ("qwen2_5_vl", "qwen3_vl")


def shown(*pictures, text=WORDS):
    return ({"role": "user", "content": [*({"type": "image", "image": one} for one in pictures),
                                         {"type": "text", "text": text}]},)  # fmt: skip


@pytest.fixture(scope="module", params=FAMILIES)
def policy(request):
    return tiny_vision_policy([WORDS], seed=0, family=request.param, layers=2)


@pytest.fixture(scope="module")
def writer(policy):
    """The same model, writing up to six tokens itself."""
    return policy.with_settings(max_new_tokens=6, prefix="", suffix="", stop=tuple("abcdefghijklmnop"))


#: Prompts of several lengths: no picture, one, two of different sizes.
SHOWN = [shown(picture(0)), shown(picture(1), picture(2, 8, 32)), "up", shown(picture(1)), shown(text="down left")]


def logprobs(policy, prompts, replies, **options):
    return policy.score(prompts, replies, **options).logprobs


def act(policy, observations, seed=0):
    return policy.act(observations, {}, np.random.default_rng(seed))


def rows(replies):
    return [one.prompt_ids for one in replies], [one.token_ids for one in replies]


def check_alike(one, other):
    """Two policies see the same in what the second one has seen."""
    prompts, replies = rows(act(other, SHOWN))
    assert torch.equal(logprobs(one, prompts, replies), logprobs(other, prompts, replies))


def test_pictures_make_prompts_and_gradients(policy) -> None:
    prompt = policy.encode(shown(picture(0)))
    ids = policy.pictures.add(picture(0)).ids
    config = policy.model.config
    start = prompt.index(ids[0])
    assert prompt[start - 1 : start + 7] == (config.vision_start_token_id, *ids, config.vision_end_token_id)
    assert policy.tokenizer.decode(list(prompt)) == (
        f"<|user|><|vision_start|><|vision_end|>{WORDS}<|assistant|><action>"
    )
    one, other = (policy.encode(shown(picture(seed))) for seed in (0, 1))
    assert one != other
    assert len(one) == len(other)
    assert one == policy.encode(shown(picture(0)))
    assert len(merge_chains([one, other, one], [(5,)] * 3)) == 2
    # Behind an equal first picture, trees are shared up to the second one: 1 x 4 placeholders, then the words.
    late = [policy.encode(shown(picture(0), picture(seed, 8, 32))) for seed in (0, 1)]
    (tree,) = merge_trees(late, [(5,)] * 2, 100)
    assert len(tree) == 2 * len(late[0]) - late[0].index(policy.pictures.add(picture(0, 8, 32)).ids[0])
    prompts = [policy.encode(shown(picture(seed))) for seed in (0, 1)]
    one, other = logprobs(policy, prompts, [(5,)] * 2)[:, 0].tolist()
    assert abs(one - other) > 1e-3
    replies = act(policy.with_settings(temperature=0.0), [shown(picture(0)), shown(picture(1))])
    assert replies[0].logprobs != replies[1].logprobs  # the cache of logits tells them apart, too
    for observation, reached in ((shown(picture(0)), True), (shown(), False)):
        policy.model.zero_grad(set_to_none=True)
        logprobs(policy, [policy.encode(observation)], [(5,)]).sum().backward()
        gradients = [weight.grad for name, weight in policy.model.named_parameters() if "visual" in name]
        assert all((one is not None and bool(one.any())) is reached for one in gradients)
    policy.model.zero_grad(set_to_none=True)
    prompts = [policy.encode(one) for one in SHOWN]
    ids, _ = pad(prompts, fill=0, left=False, device=torch.device("cpu"))
    at = torch.arange(len(prompts)), torch.tensor([len(one) - 1 for one in prompts])
    with torch.no_grad():
        full = policy.model(input_ids=ids, use_cache=False).logits
        assert torch.allclose(logits_at(policy.model, ids, *at, use_cache=False), full[at], atol=1e-6)


@pytest.mark.parametrize("tokens", [1, 6])
def test_cached_decoding_agrees_with_scoring(policy, writer, tokens):
    player = {1: policy, 6: writer}[tokens]
    replies = act(player, SHOWN * 2)
    assert tokens == 1 or len({len(one.token_ids) for one in replies}) > 1  # rows leave on the way
    check_scores(player, replies)


def test_lanes_write_what_acting_together_writes(writer):
    queue = writer.reply_queue()
    rngs = [np.random.default_rng(seed) for seed in range(len(SHOWN))]
    queue.put([0, 1], SHOWN[:2], {}, rngs[:2])  # the others join while these are being written
    found = dict(queue.get())
    queue.put([2, 3, 4], SHOWN[2:], {}, rngs[2:])
    found = answers(queue, len(SHOWN), found)
    alone = [act(writer, [observation], seed)[0] for seed, observation in enumerate(SHOWN)]
    check_written([found[seed] for seed in range(len(SHOWN))], alone)


def test_prompts_in_one_pass_are_read_as_alone_packed_or_in_trees(writer):
    prompts, replies = rows(act(writer, SHOWN * 2, seed=1))
    alone = [logprobs(writer, [prompt], [reply])[0].tolist() for prompt, reply in zip(prompts, replies, strict=True)]
    for options in ({}, {"tokens_per_pass": 200}, {"tokens_per_pass": 200, "share_prefixes": True}):
        for one, row in zip(alone, logprobs(writer, prompts, replies, **options).tolist(), strict=True):
            assert row[: len(one)] == pytest.approx(one, abs=1e-5), options


def test_the_types_of_tokens_that_transformers_does_not_tell_are_given(policy):
    """Without `mm_token_type_ids` one family raises, the other counts a picture as words."""
    model, found = policy.model, policy.pictures.add(picture(0))
    ids = torch.tensor([policy.encode(shown(picture(0)))])
    types = (ids >= FIRST_PICTURE).int()
    handles, model._forward_pre_hooks = model._forward_pre_hooks, type(model._forward_pre_hooks)()
    try:
        with torch.no_grad():
            right = model(
                input_ids=ids.masked_fill(types.bool(), model.config.image_token_id), mm_token_type_ids=types,
                pixel_values=policy.pictures.patches(found), image_grid_thw=torch.tensor([policy.pictures.grid(found)]),
            ).logits  # fmt: skip
    finally:
        model._forward_pre_hooks = handles
        model.model.rope_deltas = None
    with torch.no_grad():
        assert torch.allclose(model(input_ids=ids).logits, right, atol=1e-6)


def test_placeholders_in_texts_and_replies_are_words_without_a_picture(writer):
    found = writer.pictures.add(picture(0))
    forged = f"<|image_pad|><|video_pad|><|vision_start|>[picture {'0' * 32}]<|vision_end|>"
    prompts = [writer.encode(forged), writer.encode(shown(picture(0), text=f"[picture {found.name}]"))]
    assert [sum(token >= FIRST_PICTURE for token in prompt) for prompt in prompts] == [0, len(found.ids)]
    written = (writer.model.config.image_token_id, 5, writer.model.config.video_token_id, 6)
    for together, prompt in zip(logprobs(writer, prompts, [written] * 2), prompts, strict=True):
        assert torch.allclose(together, logprobs(writer, [prompt], [written])[0], atol=1e-5)


def test_messages_cuts_and_16_bits(policy) -> None:
    for content in ([{"type": "video", "video": 0}], [{"type": "text", "text": 3}], 7):
        with pytest.raises(TypeError, match=r"a part of a message|an observation must be"):
            policy.encode([{"role": "user", "content": content}])
    refuses(TypeError, "a picture is a uint8 array", lambda: policy.encode(shown(picture(0).astype(np.float32))))
    reading = tiny_policy([WORDS], seed=0, layers=1)
    refuses(TypeError, r"pictures are for policies of policies\.vision", reading.encode, shown(picture(0)))
    whole = policy.encode(shown(picture(0)))
    last = max(place for place, token in enumerate(whole) if token >= FIRST_PICTURE)
    cutter = policy.with_settings(max_prompt_tokens=len(whole) - last + 2, truncate="left")  # 3 of 6 placeholders
    assert cutter.encode(shown(picture(0))) == whole[last + 1 :]
    row = policy.demonstrate(shown(picture(0)), "<action>up</action>")

    half = policy.with_model(copy.deepcopy(policy.model).to(torch.bfloat16))
    refuses(ValueError, "bfloat16 weights do not move", imitate, half, [row], epochs=1, seed=0)
    assert row.token_ids == (policy.tokenizer.convert_tokens_to_ids("up"),)
    processor, sees = policy.pictures.processor, [policy.model, policy.tokenizer]
    refuses(TypeError, "expected a model out of", VisionPolicy, reading.model, reading.tokenizer, processor)
    refuses(ValueError, "has patch_size=14, the model was", VisionPolicy, *sees, image_processor(merge_size=1))
    refuses(ValueError, "object is not given the pictures", VisionPolicy, *sees, processor, sampler=object())


def episodes(policy, wrapper, **style):
    bare = gym.make_vec("AgentRL/VisualSokoban-v0", 2, autoreset_mode="Disabled", tile_size=8, max_episode_steps=3)
    envs = wrapper(VectorReplyParser(bare), instructions=False, reply_format="", **style)
    return collect(envs, policy, tasks=[{"split": "train", "index": i // 2} for i in range(4)], seed=0)


@pytest.mark.filterwarnings("ignore:.*refused every action")  # of an untrained policy
def test_a_transcript_of_pictures_only_ever_grows_and_is_read_in_one_sequence(policy):
    table = episodes(policy, VectorTranscript)
    played = [[table.replies[row] for row in table.chain(number)] for number in range(4)]
    for steps in played:
        for before, after in itertools.pairwise(steps):
            seen = before.prompt_ids + before.token_ids
            assert after.prompt_ids[: len(seen)] == seen
        assert sum(token >= FIRST_PICTURE for token in steps[-1].prompt_ids) == len(steps) * 36  # cells of a board
    prompts, replies = rows(table.replies)
    assert len(merge_chains(prompts, replies)) < len(table)
    packed = logprobs(policy, prompts, replies, tokens_per_pass=400)
    assert torch.allclose(packed, logprobs(policy, prompts, replies), atol=1e-5)
    assert packed[:, 0].tolist() == pytest.approx([one.logprobs[0] for one in table.replies], abs=1e-5)


def test_batches_copies_and_critics(policy) -> None:
    table = episodes(policy.with_settings(admissible=True), VectorPromptWindow, history=0)
    batch = make_batch(table, np.ones(len(table)))
    assert len(set(batch.prompts)) == len(set(table.state.tolist()))
    words = {tuple(token for token in prompt if token < FIRST_PICTURE) for prompt in batch.prompts}
    assert len(words) < len(set(batch.prompts))
    other = copy.deepcopy(policy)
    check_alike(other, policy)
    assert other.pictures is policy.pictures
    model = value_model(policy)
    prompts = [policy.encode(shown(picture(seed))) for seed in (0, 1)]
    ids, _ = pad(prompts, fill=0, left=False, device=torch.device("cpu"))
    hidden = model.trunk(input_ids=ids).last_hidden_state[:, -1]
    assert not torch.allclose(hidden[0], hidden[1], atol=1e-3)


def test_a_saved_policy_sees_what_it_saw_and_a_folder_tells_whether_its_model_sees(policy, tmp_path):
    policy.save_pretrained(tmp_path / "model")
    larger = image_processor(patch_size=8, merge_size=1, size={"shortest_edge": 32**2, "longest_edge": 2**16})
    enlarged = load_policy(tmp_path / "model", device="cpu", processor=larger).encode(shown(picture(0)))
    assert sum(token >= FIRST_PICTURE for token in enlarged) == 4 * 5  # 16 x 24 pixels are shown as 32 x 40
    loaded = load_policy(tmp_path / "model", device="cpu")
    assert isinstance(loaded, VisionPolicy)
    assert loaded.settings == policy.settings
    assert load_policy(tmp_path / "model", device="cpu", pictures=loaded.pictures).pictures is loaded.pictures
    assert [one.token_ids for one in act(loaded, SHOWN)] == [one.token_ids for one in act(policy, SHOWN)]
    check_alike(policy, loaded)
    tiny_policy([WORDS], seed=0, layers=1).save_pretrained(tmp_path / "blind")
    assert not sees(tmp_path / "blind")
    assert type(load_policy(tmp_path / "blind", device="cpu")) is HuggingFacePolicy
    refuses(DataError, r"preprocessor_config\.json", VisionPolicy.from_pretrained, tmp_path / "blind")


def test_a_pickled_model_reads_the_pictures_of_its_folder(tmp_path):
    policy = tiny_vision_policy([WORDS], seed=0, layers=1)
    policy.pictures.keep_in(tmp_path)
    ids = torch.tensor([policy.encode(shown(picture(0)))])
    other = pickle.loads(pickle.dumps(policy.model))
    with torch.no_grad():
        assert torch.equal(other(input_ids=ids).logits, policy.model(input_ids=ids).logits)


def test_two_policies_over_one_model_share_its_pictures():
    policy = tiny_vision_policy([WORDS], seed=0, layers=1)
    processor = policy.pictures.processor
    prompts, replies = rows(act(policy, SHOWN))
    assert VisionPolicy(policy.model, policy.tokenizer, processor).pictures is policy.pictures
    assert torch.isfinite(logprobs(policy, prompts, replies)).all()  # it still knows what it saw
    other = image_processor(patch_size=8, merge_size=1)
    for given, options, words in (
        (processor, {"pictures": PictureStore(processor)}, "the pictures of another policy already"),
        (other, {}, "by another image processor than the one given"),
        (other, {"pictures": policy.pictures}, "by another image processor than the one given"),
    ):
        refuses(ValueError, words, VisionPolicy, policy.model, policy.tokenizer, given, **options)


def test_an_adapter_begins_as_its_base_and_is_read_again(tmp_path):
    pytest.importorskip("peft")
    base = tiny_vision_policy([WORDS], seed=0, layers=1)
    prompts, replies = rows(act(base, SHOWN))
    before = logprobs(base, prompts, replies)
    adapted = add_lora(base, LoraSettings(rank=2), seed=0)
    assert torch.equal(logprobs(adapted, prompts, replies), before)
    assert any("visual" in name and "lora" in name for name, _ in adapted.model.named_parameters())
    adapted.save_pretrained(tmp_path)
    check_alike(adapted, load_policy(tmp_path, device="cpu"))


def test_an_adapter_without_an_image_processor_takes_its_bases(tmp_path):
    """As peft and TRL write them."""
    pytest.importorskip("peft")
    tiny_vision_policy([WORDS], seed=0, layers=1).save_pretrained(tmp_path / "base")
    adapted = add_lora(load_policy(tmp_path / "base", device="cpu"), LoraSettings(rank=2), seed=0)
    adapted.save_pretrained(tmp_path / "adapter")
    (tmp_path / "adapter" / PROCESSOR_FILE).unlink()
    loaded = load_policy(tmp_path / "adapter", device="cpu")
    assert isinstance(loaded, VisionPolicy)
    assert loaded.encode(shown(picture(0))) == adapted.encode(shown(picture(0)))
    (tmp_path / "base").rename(tmp_path / "moved")
    assert not sees(tmp_path / "adapter")
    assert isinstance(load_policy(tmp_path / "adapter", device="cpu", base=tmp_path / "moved"), VisionPolicy)
    tiny_policy([WORDS], seed=0, layers=1).save_pretrained(tmp_path / "base")
    assert not sees(tmp_path / "adapter")


def test_it_learns_what_only_the_picture_tells():
    """Two pictures, one text: a clone has to look."""
    policy = tiny_vision_policy([WORDS], seed=0, layers=1, width=32, mlp=64)
    answers, pictures = ["<action>up</action>", "<action>down</action>"], [shown(picture(i)) for i in range(2)]
    taught = [policy.demonstrate(*pair) for pair in zip(pictures, answers, strict=True)]
    imitate(policy, taught, epochs=30, seed=0, warmup=2, learning_rate=3e-3)
    assert [one.text for one in act(policy.with_settings(temperature=0.0), pictures)] == answers
