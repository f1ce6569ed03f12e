"""Tokens, where a reply ends, and queues of replies."""

import copy
import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Qwen2Config

from agentgym.rollout import act_each
from agentgym.rollout.lanes import collect_lanes
from baselines.batch import make_batch
from policies.decode import batch
from policies.decode.batch import takes_runs
from policies.decode.continuous import Continuous, Request
from policies.decode.loop import LoopSampler
from policies.decode.queue import Together, completion_queue
from policies.decode.reply import ReplyEnd, ReplyText, TokenTrie
from policies.decode.sampler import Decoding, complete, first_logits, pick
from policies.huggingface import HuggingFacePolicy
from policies.pretrained import Settings
from policies.tiny import tiny_policy, tiny_tokenizer
from tests.agentgym.rollout.test_groups import disabled
from tests.playing import objects, walks
from tests.policies.agreement import answers, check_scores, check_written, moved
from tests.policies.small_models import small_model
from tests.refusals import refuses


class Chain(nn.Module):
    """A language model whose next token depends on the last one only: row = logits after that token."""

    def __init__(self, table):
        super().__init__()
        self.head = nn.Linear(len(table), len(table), bias=False)
        self.head.weight = nn.Parameter(torch.tensor(table).T.clone())
        self.config = Qwen2Config(num_hidden_layers=1)
        self.seen = []

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, **arguments):
        self.seen.append((tuple(input_ids.shape), arguments["use_cache"]))
        return SimpleNamespace(logits=self.head(nn.functional.one_hot(input_ids, self.head.in_features).float()))


def sure(*following):
    """A chain in which token i is always followed by ``following[i]``."""
    table = np.full((len(following), len(following)), -30.0, dtype=np.float32)
    table[np.arange(len(following)), following] = 30.0
    return table.tolist()


def decoding(temperature=1.0, max_new_tokens=5, end=0, batch_size=64):
    return Decoding(temperature, max_new_tokens, lambda ids: ids[-1] == end, 0, batch_size)


def test_the_loop_by_hand() -> None:
    # 1 -> 2 -> 3 -> 0 (end); 4 -> 5 -> 4 -> ... for ever
    chain = Chain(sure(0, 2, 3, 0, 5, 4))
    done = complete(chain, [(9 % 6, 1), (4,), (3,)], None, decoding(temperature=0.0))
    assert [one.token_ids for one in done] == [[2, 3, 0], [5, 4, 5, 4, 5], [0]]
    assert all(len(one.logprobs) == len(one.token_ids) for one in done)
    chain = Chain(sure(0, 2, 3, 0, 5, 4))
    complete(chain, [(1,)] * 5 + [(4,)] * 2, None, decoding(temperature=0.0))
    # Two distinct prompts, then 7 places for two steps (tokens 2 and 5, then 3 and 4), then the five are at the end.
    assert [shape for shape, _ in chain.seen] == [(2, 1), (7, 1), (7, 1), (2, 1), (2, 1)]
    chain = Chain(sure(1, 2, 0))
    assert first_logits(chain, [(0, 1), (2,), (0,)], decoding(max_new_tokens=1)).argmax(1).tolist() == [2, 0, 1]
    assert chain.seen == [((3, 2), False)]
    # 1 -> 2 -> 0 (end); 3 -> 4 -> 3 -> ...; an end token in the last place is an end.
    done = complete(Chain(sure(0, 2, 0, 4, 3)), [(1,), (3,), (2,)], None, decoding(temperature=0.0, max_new_tokens=2))
    assert [(one.token_ids, one.finish) for one in done] == [([2, 0], "stop"), ([4, 3], "length"), ([0], "stop")]
    one = LoopSampler(Chain(sure(1, 0))).write([(0,), (1,)], None, decoding(temperature=0.0, max_new_tokens=1))
    assert [(each.token_ids, each.finish) for each in one] == [([1], "length"), ([0], "stop")]


def test_tokens_are_drawn_from_the_distribution() -> None:
    table = torch.log(torch.tensor([[0.1, 0.2, 0.7]] * 3)).tolist()
    uniforms = np.array([[0.05, 0.15], [0.29, 0.31], [0.999, 0.0]])
    done = complete(Chain(table), [(1,)] * 3, uniforms, decoding(max_new_tokens=2, end=-1))
    assert [one.token_ids for one in done] == [[0, 1], [1, 2], [2, 0]]
    assert done[1].logprobs == pytest.approx([np.log(0.2), np.log(0.7)], abs=1e-6)
    # Probabilities 1/4 and 3/4 at temperature 1/2 become 1/16 : 9/16 = 0.1 and 0.9.
    logits = torch.log(torch.tensor([[0.25, 0.75], [0.25, 0.75]]))
    tokens, logprobs = pick(logits, torch.tensor([0.099, 0.101], dtype=torch.float64), 0.5)
    assert tokens.tolist() == [0, 1]
    assert logprobs.exp().tolist() == pytest.approx([0.1, 0.9])
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(500, 7)) * 3, dtype=torch.float32)
    logits[:, 6] = -torch.inf
    logits[::2, 0] = -torch.inf
    uniforms = rng.random(500)
    uniforms[:4] = [0.0, 0.0, np.nextafter(1, 0), np.nextafter(1, 0)]
    tokens, _ = pick(logits, torch.from_numpy(uniforms), 1.0)
    for row, token, uniform in zip(logits.tolist(), tokens.tolist(), uniforms, strict=True):
        weights = np.exp(np.array(row))
        left = uniform * weights.sum()
        expected = 0
        while left >= weights[expected] and weights[expected + 1 :].sum() > 0:
            left -= weights[expected]
            expected += 1
        assert token == expected


LARGE = {"pad_token_id": 0, "initializer_range": 0.3}
MODELS = {
    "qwen": small_model(**LARGE),
    "window": small_model(**LARGE, use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "gpt2": small_model("GPT2", **LARGE, n_positions=64),
}


def naive(model, prompt, uniforms, settings):
    """No cache, no padding, one prompt: the whole sequence again for every token."""
    ids, written = list(prompt), []
    for uniform in uniforms:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[:, -1]
        token = int(pick(logits, torch.tensor([uniform], dtype=torch.float64), settings.temperature)[0])
        ids.append(token)
        written.append(token)
        if settings.is_end(written):
            break
    return written


# Rotary positions, a sliding attention window, and learned absolute positions.
@pytest.mark.parametrize("name", list(MODELS))
def test_padding_sharing_and_cache_change_no_token(name):
    model, settings = MODELS[name], Decoding(0.8, 8, lambda ids: ids[-1] % 5 == 3, 0, 5)
    rng = np.random.default_rng(1)
    prompts = [tuple(rng.integers(4, 40, size=length).tolist()) for length in (3, 9, 1, 6, 9, 12)]
    prompts = [prompts[i] for i in (0, 1, 2, 3, 4, 5, 0, 1, 0, 5, 2)]
    uniforms = rng.random((len(prompts), 8))
    done = complete(model, prompts, uniforms, settings)
    expected = [naive(model, prompt, row, settings) for prompt, row in zip(prompts, uniforms, strict=True)]
    assert [one.token_ids for one in done] == expected
    assert len({len(one) for one in expected}) > 1, "some replies should end early"
    alone = [complete(model, [prompt], uniforms[[i]], settings)[0] for i, prompt in enumerate(prompts)]
    check_written(alone, done, 2e-5)


@pytest.mark.parametrize("name", list(MODELS))
def test_first_logits_agree_with_unpadded_passes(name):
    prompts = [(5, 6, 7), (8,), (9, 10, 11, 12, 13, 14), (8, 9)]
    logits = first_logits(MODELS[name], prompts, decoding(max_new_tokens=1, batch_size=3))
    for prompt, row in zip(prompts, logits, strict=True):
        with torch.no_grad():
            alone = MODELS[name](input_ids=torch.tensor([prompt])).logits[0, -1]
        torch.testing.assert_close(row, alone, atol=1e-5, rtol=1e-5)


class Only:
    """Allows the same tokens at every place."""

    def __init__(self, *tokens):
        self.tokens = tokens

    def allowed(self, token_ids):
        return self.tokens


@pytest.mark.parametrize("steps", [1, 2])
def test_a_restriction_takes_the_other_tokens_out_of_the_distribution(steps):
    # 0.1, 0.2, 0.7 without the last token: 1/3 and 2/3.
    table = torch.log(torch.tensor([[0.1, 0.2, 0.7]] * 3)).tolist()
    uniforms = np.array([[0.32] * 2, [0.34] * 2, [0.32] * 2])
    one, two, free = LoopSampler(Chain(table)).write(
        [(1,)] * 3, uniforms[:, :steps], decoding(max_new_tokens=steps, end=-1), [Only(0, 1), Only(0, 1), None]
    )
    assert (one.token_ids, two.token_ids, free.token_ids) == ([0] * steps, [1] * steps, [2] * steps)
    assert one.logprobs == pytest.approx([np.log(1 / 3)] * steps, abs=1e-6)
    assert two.logprobs == pytest.approx([np.log(2 / 3)] * steps, abs=1e-6)
    assert free.logprobs == pytest.approx([np.log(0.7)] * steps, abs=1e-6)
    assert (one.allowed, free.allowed) == ([(0, 1)] * steps, [])
    # Greedy: the most probable of those that are allowed.
    greedy = decoding(temperature=0.0, max_new_tokens=steps, end=-1)
    assert LoopSampler(Chain(table)).write([(1,)], None, greedy, [Only(0, 1)])[0].token_ids == [1] * steps


def test_mixed_precision_decodes_with_a_copy_that_is_cast_once_and_follows_the_weights():
    casts = []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), given=None):
            given = given or {}
            if function is torch.ops.aten._to_copy.default and given.get("dtype") is torch.bfloat16:
                casts.append(tuple(arguments[0].shape))
            return function(*arguments, **given)

    sizes = {"vocab_size": 13, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    model = small_model(**sizes, num_attention_heads=2, initializer_range=0.02)
    sampler, settings = LoopSampler(model), Decoding(0.0, 4, lambda ids: False, 0, 64, torch.bfloat16)
    with Counting():
        sampler.follow(model, 0)
        first = sampler.write([(1, 2, 3)], None, settings)
        assert casts.count(tuple(model.model.layers[0].mlp.gate_proj.weight.shape)) == 7  # all are 16 x 16
        casts.clear()
        assert sampler.write([(1, 2, 3)], None, settings) == first
        lanes = sampler.continuous(settings)
        lanes.put(Request(0, (1, 2, 3), None))
        assert lanes.get()[0][1].token_ids == first[0].token_ids
        assert (16, 16) not in casts
    played = sampler.playing(torch.bfloat16)
    assert {keys.dtype for keys in batch.KeyedBatch(played, [(1, 2, 3)]).keys} == {torch.bfloat16}
    assert {weight.dtype for weight in played.parameters()} == {torch.bfloat16}
    assert first == complete(copy.deepcopy(model).to(torch.bfloat16), [(1, 2, 3)], None, settings)
    with torch.no_grad():
        model.lm_head.weight.neg_()
    sampler.follow(model, 1)
    assert sampler.write([(1, 2, 3)], None, settings) != first
    assert sampler.playing(torch.bfloat16) is played
    assert sampler.playing(None) is model


def test_a_loop_of_ones_own_is_kept_under_other_settings_and_refused_over_another_model():
    policy = tiny_policy(["P"], seed=0, layers=1)

    class Noted(LoopSampler):
        pass

    sampler = Noted(policy.model)
    one = HuggingFacePolicy(policy.model, policy.tokenizer, sampler=sampler)
    assert one.with_settings(temperature=0.5).sampler is sampler
    refuses(TypeError, r"Noted .*writes with the model it was made with", one.with_model, copy.deepcopy(policy.model))
    assert type(policy.with_model(copy.deepcopy(policy.model)).sampler) is LoopSampler


COMMANDS = ("go to desk 1", "go to desk 2", "look", "go to desk")
TEXT = "You see desk 1 and desk 2. " + ". ".join(COMMANDS)


def infos_of(*commands):
    return {"admissible_actions": objects(*commands)}


@pytest.fixture(params=["prefix", "tags", "one token"])
def policy(request):
    """A policy whose prompt opens the tag, one that writes the tags itself, and one that writes a single token."""
    settings = {
        "prefix": {"max_new_tokens": 8},
        "tags": {"prefix": "", "suffix": "", "max_new_tokens": 16, "stop": ("</action>",)},
        "one token": {"max_new_tokens": 1},
    }[request.param]
    words = ["<action>", "</action>", "up", "down", "left"]
    return tiny_policy([TEXT], seed=0, layers=1, extra_words=words, admissible=True, **settings)


def commands_for(policy):
    return COMMANDS if policy.settings.max_new_tokens > 1 else ("up", "down", "left")


def test_tries_and_ends_of_replies() -> None:
    refuses(KeyError, "5", TokenTrie([(3, 1, 9)]).allowed, [5])
    tokenizer = type("Foul", (), {"decode": lambda self, ids, **_: "a\ud800\x1b\x00b\n"})()
    assert ReplyText(tokenizer, Settings())((1, 2)) == "a\ufffd\ufffd\ufffdb\n"
    tokenizer = tiny_tokenizer(["look"], ["up", "down"])
    text = ReplyText(tokenizer, Settings(prefix="<action>", suffix="</action>", max_new_tokens=4))
    ids = text.tokens("<action>up down</action>")
    assert ids[-1] == tokenizer.eos_token_id  # no stop text ends it
    assert text(ids) == "<action>up down</action>"
    assert text(ids[:1]) == text(tokenizer("up</action>\n")["input_ids"]) == "<action>up</action>"
    tokenizer = tiny_tokenizer(["PO#"])
    first, second, other = (tokenizer(text)["input_ids"][0] for text in "PO#")
    over = ReplyEnd(tokenizer, {tokenizer.eos_token_id}, ("PO",))
    assert [over(ids) for ids in ([first], [first, second], [second], [other, first, second], [first, other])] == [
        False, True, False, True, False
    ]  # fmt: skip
    assert over([first, tokenizer.eos_token_id])
    assert not ReplyEnd(tokenizer, (), ())([tokenizer.eos_token_id])


def test_probabilities_of_all_commands_sum_to_1(policy):
    commands = commands_for(policy)
    total = 0.0
    for command in commands:
        reply = written(policy, command, commands)
        scores = policy.score([reply.prompt_ids], [reply.token_ids], 1.0, allowed=[reply.allowed])
        total += math.exp(scores.logprobs.sum().item())
    assert total == pytest.approx(1.0, abs=1e-5)
    free = policy.with_settings(admissible=False)
    share = sum(
        math.exp(float(free.score([one.prompt_ids], [one.token_ids], 1.0).logprobs.sum().detach()))
        for one in (written(policy, command, commands) for command in commands)
    )
    assert share < 0.9  # without the restriction much of the probability is elsewhere


def written(policy, command, commands):
    """The reply that writes a command, with the tokens that were allowed."""
    before, after = policy.settings.prefix or "<action>", policy.settings.suffix or "</action>"
    reply = policy.demonstrate("look", f"{before}{command}{after}")
    (trie,) = policy._commands.of(infos_of(commands))
    allowed = tuple(trie.allowed(reply.token_ids[:place]) for place in range(len(reply.token_ids)))
    return dataclasses.replace(reply, allowed=allowed)


def test_only_commands_are_written_and_scoring_agrees_with_acting(policy):
    commands = commands_for(policy)
    for temperature in (1.0, 0.6):
        player = policy.with_settings(temperature=temperature)
        few, all_of_them = commands[:2], commands
        replies = player.act(["look"] * 40, infos_of(*[few, all_of_them] * 20), np.random.default_rng(0))
        texts = [one.text.removeprefix("<action>").removesuffix("</action>") for one in replies]
        assert set(texts[::2]) <= set(few)
        assert set(few) < set(texts[1::2]) | set(few) <= set(all_of_them)
        assert all(len(one.allowed) == len(one.token_ids) for one in replies)
        scores = check_scores(player, replies, allowed=[one.allowed for one in replies])
        free = player.score([one.prompt_ids for one in replies], [one.token_ids for one in replies])
        assert float((scores.logprobs - free.logprobs).abs().max().detach()) > 0.01


def test_restrictions_need_a_list_are_kept_and_name_what_does_not_fit(policy, tmp_path):
    free = policy.with_settings(admissible=False)
    assert policy.act(["look"], infos_of(()), *rngs(1)) == free.act(["look"], {}, *rngs(1))
    refuses(KeyError, "'admissible_actions'", policy.act, ["look"], {"admissible": ()}, np.random.default_rng(0))
    few = policy.with_settings(max_new_tokens=1, prefix="<action>", suffix="</action>")
    refuses(ValueError, "'go to desk 1' takes", lambda: few.act(["look"], infos_of(COMMANDS), np.random.default_rng(0)))
    policy.save_pretrained(tmp_path)
    assert HuggingFacePolicy.from_pretrained(tmp_path).settings.admissible
    refuses(TypeError, "admissible must be True or False", policy.with_settings, admissible="yes")


def test_an_update_trains_the_log_probabilities_under_the_restriction(policy):
    """With the restriction in the batch nothing has moved before the first step; left out, it looks as if it had."""
    policy = policy.with_settings(temperature=1.0)
    replies = policy.act(["look"] * 6, infos_of(*[commands_for(policy)] * 6), np.random.default_rng(1))
    batch = make_batch(walks({str(place): "s a n" for place in range(6)}, replies=replies), np.array([1.0, -1.0] * 3))
    assert len(batch.allowed) == len(batch) == len(batch.take(range(len(batch))).allowed)
    assert moved(policy, dataclasses.replace(batch, allowed=())) > 1e-3
    for memory in ({}, {"microbatch_tokens": 64}, {"microbatch_tokens": 64, "share_prefixes": True}):
        assert moved(policy, batch, **memory) == pytest.approx(0.0, abs=1e-6)


OBSERVATIONS = ["look up", "down", "look up down look", "up", "look up", "down down down up up", "left"]


@pytest.fixture(scope="module")
def queue_policy():
    made = tiny_policy(["look up down left right"], seed=0, layers=2, max_new_tokens=6, suffix="", prefix="")
    with torch.no_grad():  # far from uniform, so that what a row reads decides what it writes
        for weight in made.model.parameters():
            weight.mul_(1.5)
    return made


def rngs(count=7):
    return [np.random.default_rng(seed) for seed in range(count)]


def check_equal(found, expected):
    """Equal but for the rounding of differently shaped products; `found` may be answers by the places of `expected`."""
    found = [found[place] for place in range(len(expected))]
    check_written(found, expected, 1e-4)  # other batches round otherwise
    for name in ("text", "prompt_ids", "finish", "version", "allowed"):
        assert [getattr(one, name) for one in found] == [getattr(one, name) for one in expected]


def test_requests_that_join_and_leave_get_the_replies_of_a_whole_batch(queue_policy):
    whole = act_each(queue_policy, OBSERVATIONS, {}, rngs())
    assert len({len(one.token_ids) for one in whole}) > 1  # they leave at different times
    queue, own, found = queue_policy.reply_queue(), rngs(), {}
    # Two come first, the others one by one, after every answer or when nothing is on its way.
    queue.put([0, 1], OBSERVATIONS[:2], {}, own[:2])
    going, new = {0, 1}, 2
    while going or new < len(OBSERVATIONS):
        if new < len(OBSERVATIONS):
            queue.put([new], OBSERVATIONS[new : new + 1], {}, own[new : new + 1])
            going, new = going | {new}, new + 1
        came = dict(queue.get())
        assert came
        assert came.keys() <= going
        going -= came.keys()
        found |= came
    check_equal(found, whole)
    greedy = queue_policy.with_settings(temperature=0.0, batch_size=2)  # in few places
    queue = greedy.reply_queue()
    queue.put(range(7), OBSERVATIONS, {}, rngs())
    check_equal(answers(queue, 7), greedy.act(OBSERVATIONS, {}, np.random.default_rng(0)))


TINY = {
    "vocab_size": 8, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1,
}  # fmt: skip


def test_short_replies_are_answered_before_long_ones_end():
    # 0 ends; 1 -> 0; 4 -> 5 -> 4 -> ...: prompt (1,) is done after one token, (4,) after six.
    model = small_model(**TINY, num_hidden_layers=1)
    weights = torch.zeros(8, 16)
    weights[:, :8] = torch.eye(8)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" not in name:
                weight.zero_()
        model.model.embed_tokens.weight.copy_(weights)
        for token, following in ((1, 0), (4, 5), (5, 4)):
            model.lm_head.weight[following, token] = 9.0
    decoding = Decoding(0.0, 6, lambda ids: ids[-1] == 0, 0, 64)
    queue = Continuous(model, decoding)
    queue.put(Request(7, (4,), None))
    queue.put(Request(8, (1,), None))
    assert [(name, one.token_ids) for name, one in queue.get()] == [(8, [0])]
    # One pass has read both prompts. The long one has 5 tokens to go: 5 passes; the new one is read in one of its own.
    assert queue.passes == 1
    queue.put(Request(9, (4, 1), None))
    assert [(name, one.token_ids) for name, one in queue.get()] == [(9, [0])]
    assert [(name, one.token_ids) for name, one in queue.get()] == [(7, [5, 4, 5, 4, 5, 4])]
    assert queue.passes == 1 + 1 + 5
    assert [one.token_ids for one in complete(model, [(4,), (1,)], None, decoding)] == [[5, 4, 5, 4, 5, 4], [0]]


def test_who_gets_which_queue(queue_policy):
    decoding = queue_policy.decoding
    assert isinstance(completion_queue(LoopSampler(queue_policy.model), queue_policy.model, decoding), Continuous)
    one = queue_policy.with_settings(max_new_tokens=1)
    assert isinstance(completion_queue(one.sampler, one.model, one.decoding), Together)
    sliding = small_model(**TINY, use_sliding_window=True, sliding_window=4, max_window_layers=1)
    assert not takes_runs(sliding)
    assert isinstance(completion_queue(LoopSampler(sliding), sliding, decoding), Together)


@pytest.mark.filterwarnings("ignore:.*refused every action")  # of an untrained model
@pytest.mark.parametrize("tokens", [1, 6])
def test_lanes_of_a_model_play_the_same_episodes_however_many_they_are(queue_policy, tokens):
    player = queue_policy.with_settings(max_new_tokens=tokens)
    given = {"tasks": [{"index": 1}, {"index": 2}, {"index": 3}], "group_size": 2, "seed": 1}
    two, four = (collect_lanes([disabled(1) for _ in range(lanes)], player, **given) for lanes in (2, 4))
    assert len(two) > 6
    check_equal(two.replies, four.replies)
    assert two.groups == four.groups
    again = collect_lanes([disabled(1) for _ in range(4)], player, **given)
    assert again.to_trajectories() == four.to_trajectories()  # nothing here depends on a clock


def test_restricted_replies_and_prompts_that_do_not_fit(queue_policy):
    player = queue_policy.with_settings(admissible=True, prefix="<action>", suffix="</action>", max_new_tokens=3)
    infos = infos_of(("up", "down"), ("left",))
    queue = player.reply_queue()
    queue.put([0, 1], OBSERVATIONS[:2], infos, rngs(2))
    found = answers(queue, 2)
    check_equal(found, player.act_each(OBSERVATIONS[:2], infos, rngs(2)))
    assert all(reply.allowed for reply in found.values())
    shortest = min(len(queue_policy.encode(each)) for each in OBSERVATIONS[:2])
    assert len(queue_policy.encode(OBSERVATIONS[0])) > shortest
    short = queue_policy.with_settings(max_prompt_tokens=shortest, truncate="end-episode")
    queue = short.reply_queue()
    queue.put([0, 1], OBSERVATIONS[:2], {}, rngs(2))
    assert [(name, one.finish, one.prompt_ids) for name, one in queue.get()] == [(0, "prompt-too-long", ())]
    ((name, other),) = queue.get()
    # The prompt that does not fit has drawn its numbers from its own generator; the other has its own.
    check_equal([other], short.act_each(OBSERVATIONS[:2], {}, rngs(2))[1:])
    assert name == 1
