"""Policies over causal language models, and the tiny models that tests and quick runs begin with."""

import copy
import json

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Model

from agentgym.outside.text import DataError, clean
from agentgym.trajectory import Reply
from policies.huggingface import SETTINGS_FILE, HuggingFacePolicy
from policies.prompts import PromptTooLongError
from policies.scoring import score_replies
from policies.tiny import start_copying, tiny_policy, tiny_tokenizer
from tests.cases import cases
from tests.policies.agreement import check_scores, check_written
from tests.refusals import refuses

BOARD = "#####\n#PXO#\n#####"
OTHER = "#####\n#_PS#\n#####"


@pytest.fixture(scope="module")
def policy():
    return tiny_policy([BOARD], seed=0, layers=2)


@pytest.fixture(scope="module")
def writer(policy):
    """The same model, writing up to six tokens itself."""
    return policy.with_settings(max_new_tokens=6, prefix="", suffix="", stop=("P", "O"))


def act(policy, observations, seed=0):
    return policy.act(observations, {}, np.random.default_rng(seed))


def test_a_reply_holds_its_prompt_and_tokens_and_messages_follow_the_template(policy):
    reply = act(policy, [BOARD])[0]
    decode = policy.tokenizer.decode
    assert decode(list(reply.prompt_ids)) == f"<|user|>{BOARD}<|assistant|><action>"
    assert len(reply.token_ids) == len(reply.logprobs) == 1
    assert reply.text == f"<action>{decode(list(reply.token_ids), skip_special_tokens=True)}</action>"
    messages = ({"role": "system", "content": "up"}, {"role": "user", "content": BOARD})
    assert policy.encode([{"role": "user", "content": BOARD}]) == policy.encode(BOARD)
    assert policy.tokenizer.decode(list(policy.encode(messages))).startswith("<|system|>up<|user|>###")
    for wrong in (7, None, [{"role": "user"}], ["text"], [], [{"role": "user", "content": [{"type": "image"}]}]):
        refuses(TypeError, r"must be a str or a non-empty sequence", policy.encode, wrong)


@pytest.mark.parametrize("name", ["policy", "writer"])
def test_replies_depend_on_their_own_numbers_alone(request, name):
    player = request.getfixturevalue(name)
    boards = [BOARD, OTHER] * 8
    first = act(player, boards)
    player.forget()
    check_written(act(player, boards), first)
    assert [one.token_ids for one in act(player, boards, seed=1)] != [one.token_ids for one in first]
    # The first place has the same numbers; those of the third one are left over.
    check_written(act(player, [BOARD, "quite another and much longer text\n" * 3])[:1], first[:1])
    shown = [BOARD, OTHER, BOARD, "up"]
    together = player.act_each(shown, {}, [np.random.default_rng(seed) for seed in range(4)])
    assert [act(player, [one], seed)[0].token_ids for seed, one in enumerate(shown)] == [a.token_ids for a in together]


@pytest.mark.parametrize("name", ["policy", "writer"])
def test_log_probabilities_of_acting_and_scoring_agree(request, name):
    for temperature in (1.0, 0.6, 0.0):
        player = request.getfixturevalue(name).with_settings(temperature=temperature)
        scores = check_scores(player, act(player, [BOARD, OTHER, BOARD, "up", OTHER, "down\nleft right"] * 3))
        assert temperature or scores.top.all()


def test_random_numbers_are_spent_by_places_and_length_limit_alone(policy, writer):
    for player, count in ((policy, 3), (writer, 18), (policy.with_settings(temperature=0.0), 0)):
        rng = np.random.default_rng(5)
        player.act([BOARD, OTHER, "up"], {}, rng)
        expected = np.random.default_rng(5)
        expected.random(count)
        assert rng.random() == expected.random()


def test_prompts_are_remembered_until_the_weights_change():
    player = tiny_policy([BOARD], seed=0, layers=1)
    calls = []
    player.model.register_forward_pre_hook(
        lambda _, __, given: calls.append((len(given["input_ids"]), given["use_cache"])), with_kwargs=True
    )
    act(player, [BOARD, OTHER, BOARD])
    act(player, [OTHER, BOARD])
    assert calls == [(2, False)]
    player.score([player.encode(BOARD)], [(5,)]).logprobs.sum().backward()
    torch.optim.SGD(player.model.parameters(), lr=0.1).step()
    reply = act(player, [BOARD])[0]
    fresh = player.score([reply.prompt_ids], [reply.token_ids]).logprobs.item()
    assert reply.logprobs[0] == pytest.approx(fresh, abs=1e-5)


def test_a_deep_copy_is_a_policy_of_its_own_and_no_place_gets_no_reply(policy):
    player = tiny_policy([BOARD], seed=0, layers=1)
    before = act(player, [BOARD])
    frozen = copy.deepcopy(player)
    with torch.no_grad():
        player.model.model.embed_tokens.weight.neg_()
    assert act(frozen, [BOARD]) == before
    assert act(player, [BOARD])[0].logprobs != before[0].logprobs
    assert act(policy, []) == []


def test_demonstrations_are_what_the_model_itself_has_to_write(policy, writer):
    tokenizer = policy.tokenizer
    reply = policy.demonstrate(BOARD, "<action>up</action>")
    assert (reply.prompt_ids, reply.token_ids) == (policy.encode(BOARD), (tokenizer.convert_tokens_to_ids("up"),))
    # Nothing stops "up" but the end token; "upP" is stopped by its P.
    assert writer.demonstrate(BOARD, "up").token_ids[1:] == (tokenizer.eos_token_id,)
    assert tokenizer.convert_ids_to_tokens(writer.demonstrate(BOARD, "upP").token_ids) == ["up", "P"]
    for player, text, words in (
        (policy, "up", "cannot write 'up'"),
        (policy, "<action>", "cannot write"),
        (policy, "<action>jump</action>", "4 tokens"),
        (policy, "<action>up up</action>", "3 tokens"),
    ):
        refuses(ValueError, words, player.demonstrate, BOARD, text)


def test_a_prompt_longer_than_the_context_is_refused_or_loses_its_beginning():
    player = tiny_policy([BOARD], seed=0, layers=1, positions=24, max_new_tokens=4)
    # user + 20 words and blanks ("up " ten times) + assistant + <action> = 23, and 4 more do not fit in 24.
    with pytest.raises(ValueError, match="prompt of 23 tokens with up to 4 new ones does not fit the model's 24"):
        player.encode("up " * 10)
    player = tiny_policy([BOARD], seed=0, layers=1, positions=24, max_new_tokens=4, truncate="left")
    whole = tiny_policy([BOARD], seed=0, layers=1, positions=99, max_new_tokens=4)
    prompt = whole.encode("up " * 10)
    assert len(prompt) == 23
    short, cut = act(player, ["up", "up " * 10])
    assert short.prompt_ids == whole.encode("up")
    assert cut.prompt_ids == prompt[-20:]  # 24 positions less 4 new tokens
    check_scores(player, [cut])
    assert player.demonstrate("up " * 10, "<action>up</action>").prompt_ids == cut.prompt_ids


@pytest.mark.parametrize("admissible", [False, True])
def test_a_long_prompt_that_ends_the_episode_is_a_reply_of_nothing_and_changes_no_other(admissible):
    settings = {"max_new_tokens": 4, "admissible": admissible, "temperature": 1.0}
    infos = {"admissible_actions": np.array([("up",), ("down",), ("left",)], dtype=object)}
    words = ["up", "down", "left"]
    player = tiny_policy(
        [BOARD], seed=0, extra_words=words, layers=1, max_prompt_tokens=10, truncate="end-episode", **settings
    )
    whole = tiny_policy([BOARD], seed=0, extra_words=words, layers=1, **settings)
    observations = ["up", "up " * 10, "left"]
    found = player.act(observations, infos, np.random.default_rng(3))
    others = whole.act(["up", "down", "left"], infos, np.random.default_rng(3))
    assert found[1] == Reply("", finish="prompt-too-long")
    check_written(found[::2], others[::2])
    assert [(one.prompt_ids, one.finish) for one in found[::2]] == [(one.prompt_ids, one.finish) for one in others[::2]]
    assert player.act(observations[1:2], infos, np.random.default_rng(3)) == [found[1]]
    assert player.demonstrate("up " * 10, "<action>up</action>") == found[1]
    greedy = player.with_settings(temperature=0.0).act(observations, infos, np.random.default_rng(3))
    assert [reply.finish for reply in greedy][1] == "prompt-too-long"
    with pytest.raises(PromptTooLongError, match="max_prompt_tokens=10"):
        player.with_settings(truncate="raise").act(observations, infos, np.random.default_rng(3))


@cases(
    "settings, error, words",
    ({"truncate": "right"}, ValueError, "truncate 'right'; known: 'raise', 'left', 'end-episode'"),
    ({"max_prompt_tokens": 0}, ValueError, "max_prompt_tokens must be None or at least 1"),
    ({"max_prompt_tokens": 2.0}, TypeError, "max_prompt_tokens must be None or an integer"),
    ({"temperature": -1.0}, ValueError, "temperature"),
    ({"temperature": float("nan")}, ValueError, "temperature"),
    ({"max_new_tokens": 0}, ValueError, "max_new_tokens"),
    ({"batch_size": 0}, ValueError, "batch_size"),
    ({"stop": "</action>"}, TypeError, "sequence of texts"),
    ({"stop": [1]}, TypeError, "stop must be a tuple of words"),
    ({"temperature": "hot"}, TypeError, "temperature must be a number, got 'hot'"),
    ({"prefix": None}, TypeError, "prefix must be a text"),
    ({"top_p": 0.9}, TypeError, "top_p"),
    ({"template": ("enable_thinking",)}, TypeError, "template must be a dict"),
)
def test_wrong_settings_are_explained(policy, settings, error, words):
    refuses(error, words, policy.with_settings, **settings)


def test_saving_and_loading_keeps_weights_tokens_and_settings(tmp_path, writer):
    player = writer.with_settings(prefix="<action>", suffix="!", stop=("P",), temperature=0.7, batch_size=3)
    player.save_pretrained(tmp_path / "model")
    loaded = HuggingFacePolicy.from_pretrained(tmp_path / "model", device="cpu")
    assert loaded.settings == player.settings
    assert act(loaded, [BOARD, OTHER, BOARD]) == act(player, [BOARD, OTHER, BOARD])
    assert loaded.encode(BOARD) == player.encode(BOARD)
    # In every bit, wherever the file's tensors lie in memory.
    assert act(loaded, [BOARD] * 20) == act(player, [BOARD] * 20)
    assert not {weight.data_ptr() % 64 for weight in loaded.model.parameters()} - {0}
    assert HuggingFacePolicy.from_pretrained(tmp_path / "model", temperature=0.0).settings.temperature == 0.0


def test_a_policy_without_weights_plays_with_a_sampler_that_has_them(tmp_path, writer):
    writer.save_pretrained(tmp_path)
    player = HuggingFacePolicy.from_pretrained(tmp_path, device="meta")
    assert player.device.type == "meta"
    player.sampler = writer.sampler
    replies = player.act(["a board"] * 3, {}, np.random.default_rng(0))
    assert replies == writer.act(["a board"] * 3, {}, np.random.default_rng(0))


def test_any_hugging_face_folder_will_do(tmp_path):
    # Another architecture (learned positions), no chat template, no settings file.
    tokenizer = tiny_tokenizer([BOARD], ["up"])
    tokenizer.chat_template = None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64)
        GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    player = HuggingFacePolicy.from_pretrained(tmp_path, device="cpu", max_new_tokens=3)
    assert player.tokenizer.decode(list(player.encode([{"role": "user", "content": "up"}]))) == "up\n"
    check_scores(player, act(player, [BOARD, "up"]))


def test_missing_and_broken_folders_are_explained(tmp_path, policy):
    def refused(words, **changes):
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        refuses(ValueError, words, HuggingFacePolicy.from_pretrained, tmp_path)

    refuses(DataError, "no model folder at", lambda: HuggingFacePolicy.from_pretrained(tmp_path / "nothing"))
    incomplete, config = r"no complete Hugging Face model|cannot be loaded", {}
    refuses(ValueError, incomplete, HuggingFacePolicy.from_pretrained, tmp_path)
    refused(incomplete, model_type="no_such_architecture")
    policy.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    refused("cannot be loaded", hidden_size=128)
    refused(r"lacks 12 weights of its model, the first is 'model.layers.2", num_hidden_layers=3, layer_types=None)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    refused("cannot be loaded as a causal language model")
    weights.write_bytes(whole)
    for file in tmp_path.glob("*token*"):
        file.unlink()
    refused("tokenizer")


def test_a_model_without_a_head_and_a_tokenizer_with_more_tokens_are_explained(policy):
    refuses(TypeError, "AutoModelForCausalLM", HuggingFacePolicy, Qwen2Model(policy.model.config), policy.tokenizer)
    tokenizer = tiny_tokenizer(["up", "sideways"])
    tokenizer.add_tokens([f"word{i}" for i in range(50)])
    mixed = HuggingFacePolicy(policy.model, tokenizer, max_new_tokens=1)
    refuses(ValueError, r"the model knows [0-9]+ tokens: load the tokenizer that belongs", act, mixed, ["word49"])


FOUL = [
    "\ud800", "a\udfffb", "".join(map(chr, [*range(9), *range(14, 32)])), "\x1b[2J\x7f\x9f", "\x00" * 1_000,
    "😀\ud83d",
]  # fmt: skip


@pytest.mark.parametrize("text", FOUL)
def test_text_that_no_tokenizer_takes_is_cleaned_at_the_door(writer, text):
    def messages(each):
        return [{"role": "user", "content": each(text)}, {"role": each(text), "content": "up"}]

    rng = np.random.default_rng(0)
    for observation, cleaned in ((text, clean(text)), (messages(str), messages(clean))):
        (reply,) = writer.act([observation], {}, rng)
        reply.text.encode()
        assert writer.encode(observation) == writer.encode(cleaned)
    tiny_tokenizer([text], [text])("up")
    assert writer.demonstrate(text, "up" + "\ud800").text == "up\ufffd"


def test_weights_that_are_not_numbers_cannot_act_and_are_named(policy):
    broken = copy.deepcopy(policy)
    name, weight = list(broken.model.named_parameters())[2]
    weight.data.view(-1)[0] = float("nan")
    for temperature in (0.0, 1.0):
        player = broken.with_settings(temperature=temperature)
        with pytest.raises(FloatingPointError, match=f"the policy cannot act, the model's {name} holds nan"):
            player.act(["up"], {}, np.random.default_rng(0))
        refuses(FloatingPointError, "cannot act", player.with_settings(max_new_tokens=2).reply_queue)


@pytest.mark.parametrize(
    "content",
    ["[", "[" * 200_000, "5", '{"temperature": NaN}', '{"temperature": -1}', '{"stop": "x"}', '{"prefix": 5}',
     '{"new": 1}', '{"max_new_tokens": 1' + "0" * 400 + "}", b"\xff"],
)  # fmt: skip
def test_damaged_settings_are_named(tmp_path, content):
    (tmp_path / SETTINGS_FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
    refuses(ValueError, r"policy\.json", HuggingFacePolicy.from_pretrained, tmp_path)


ROOM = "######\n#_√###\n#____#\n#_XOP#\n######\n######"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer([ROOM, "Push every box."], ["up", "down"])


def tokens(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])


def test_words_and_templates_are_tokens(tokenizer) -> None:
    assert tokens(tokenizer, "<think>Push box.</think><action>up</action>") == [
        *("<think>", "Push", " ", "box", ".", "</think>", "<action>", "up", "</action>")
    ]
    assert tokens(tokenizer, "#_OX√P\nO") == ["#", "_", "O", "X", "√", "P", "\n", "O"]
    # Rooms may have rows of nothing but wall, which look like the frame: 16 cells and 5 frame pieces all the same.
    other = "######\n######\n######\n#PXO##\n######\n######"
    for board in (ROOM, other):
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
    for known in (ROOM, "up and  down\n never?", "ABC abc 12", "<action>sideways</action>", "√X"):
        assert tokenizer.decode(tokenizer(known)["input_ids"]) == known


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
    first = tiny_policy([ROOM], seed=3).model.state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(456)
    second = tiny_policy([ROOM], seed=3).model.state_dict()
    other = tiny_policy([ROOM], seed=4).model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
    policy = tiny_policy([ROOM], seed=0)
    assert 150_000 < sum(weight.numel() for weight in policy.model.parameters()) < 250_000
    # user tag + 21 pieces of the board + assistant tag + <action>
    assert len(policy.encode(ROOM)) == 24
    assert policy.settings.max_new_tokens == 1
    refuses(ValueError, "heads must be of even size", tiny_policy, [ROOM], seed=0, width=60, heads=8)
    refuses(ValueError, "head_size=7", tiny_policy, [ROOM], seed=0, head_size=7)


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
