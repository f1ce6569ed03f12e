import dataclasses
import math

import numpy as np
import pytest
import torch

from agentgym.trajectory import StepTable
from baselines.batch import make_batch
from baselines.config import Loss, Optimiser, TrainerConfig
from baselines.update import update
from policies.decode.reply import ReplyEnd, ReplyText, TokenTrie
from policies.huggingface import HuggingFacePolicy
from policies.pretrained import Settings
from policies.tiny import tiny_policy, tiny_tokenizer
from tests.refusals import refuses

torch.set_num_threads(1)

COMMANDS = ("go to desk 1", "go to desk 2", "look", "go to desk")
TEXT = "You see desk 1 and desk 2. " + ". ".join(COMMANDS)


def infos_of(*commands):
    column = np.empty(len(commands), object)
    column[:] = commands
    return {"admissible_actions": column}


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
    trie = TokenTrie([(3, 1, 9), (3, 1, 2), (4,)])
    assert (trie.allowed([]), trie.allowed([3]), trie.allowed([3, 1])) == ((3, 4), (1,), (2, 9))
    with pytest.raises(KeyError):
        trie.allowed([5])
    tokenizer = type("Foul", (), {"decode": lambda self, ids, **_: "a\ud800\x1b\x00b\n"})()
    assert ReplyText(tokenizer, Settings())((1, 2)) == "a\ufffd\ufffd\ufffdb\n"
    tokenizer = tiny_tokenizer(["look"], ["up", "down"])
    text = ReplyText(tokenizer, Settings(prefix="<action>", suffix="</action>", max_new_tokens=4))
    ids = text.tokens("<action>up down</action>")
    assert ids[-1] == tokenizer.eos_token_id  # no stop text ends it
    assert text(ids) == "<action>up down</action>"
    assert text(ids[:1]) == text(ids[:1]) == "<action>up</action>"
    tokenizer = tiny_tokenizer(["PO#"])
    first, second, other = (tokenizer(text)["input_ids"][0] for text in "PO#")
    over = ReplyEnd(tokenizer, {tokenizer.eos_token_id}, ("PO",))
    assert [over(ids) for ids in ([first], [first, second], [second], [other, first, second], [first, other])] == [
        False, True, False, True, False
    ]  # fmt: skip
    assert over([first, tokenizer.eos_token_id])
    assert not ReplyEnd(tokenizer, (), ())([tokenizer.eos_token_id])
    tokenizer = tiny_tokenizer(["Px"])
    token, other = (tokenizer(text)["input_ids"][0] for text in "Px")
    over = ReplyEnd(tokenizer, (), ("P" * 9 + "x",))
    ids: list[int] = []
    for _ in range(400):
        ids.append(other if len(ids) % 5 == 4 else token)
        assert not over(ids)
    assert over([token] * 9 + [other])


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
        scores = player.score(
            [one.prompt_ids for one in replies], [one.token_ids for one in replies],
            allowed=[one.allowed for one in replies],
        )  # fmt: skip
        for one, row in zip(replies, scores.logprobs.tolist(), strict=True):
            assert len(one.allowed) == len(one.token_ids) == len(one.logprobs)
            assert row[: len(one.logprobs)] == pytest.approx(one.logprobs, abs=1e-5)
        free = player.score([one.prompt_ids for one in replies], [one.token_ids for one in replies])
        assert float((scores.logprobs - free.logprobs).abs().max().detach()) > 0.01


def test_where_nothing_is_listed_nothing_is_restricted(policy):
    free = policy.with_settings(admissible=False)
    draws = [np.random.default_rng(0) for _ in range(2)]
    (one,) = policy.act(["look"], infos_of(()), draws[0])
    (same,) = free.act(["look"], {}, draws[1])
    assert one == same
    with pytest.raises(KeyError, match="'admissible_actions'"):
        policy.act(["look"], {"admissible": ()}, np.random.default_rng(0))


def test_a_command_that_does_not_fit_is_named(policy):
    few = policy.with_settings(max_new_tokens=1, prefix="<action>", suffix="</action>")
    refuses(ValueError, "'go to desk 1' takes", lambda: few.act(["look"], infos_of(COMMANDS), np.random.default_rng(0)))


def test_the_setting_is_kept(policy, tmp_path):
    policy.save_pretrained(tmp_path)
    assert HuggingFacePolicy.from_pretrained(tmp_path).settings.admissible
    refuses(TypeError, "admissible must be True or False", policy.with_settings, admissible="yes")


def test_an_update_trains_the_log_probabilities_under_the_restriction(policy):
    """With the restriction in the batch nothing has moved before the first step; left out, it looks as if it had."""
    policy = policy.with_settings(temperature=1.0)
    replies = policy.act(["look"] * 6, infos_of(*[commands_for(policy)] * 6), np.random.default_rng(1))
    count = len(replies)
    table = StepTable.from_arrays(
        group=[0] * count, trajectory=range(count), t=[0] * count, state=["s"] * count, action=["a"] * count,
        next_state=["n"] * count, reward=[0.0] * count, won=[False] * count, replies=replies,
    )  # fmt: skip
    batch = make_batch(table, np.array([1.0, -1.0] * 3))
    assert len(batch.allowed) == len(batch) == len(batch.take(range(len(batch))).allowed)
    config = TrainerConfig(loss=Loss(kl=0.0), optimiser=Optimiser(minibatch_rows=64))

    def moved(rows):
        optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
        return update(policy, optimizer, rows, config, np.random.default_rng(0))["approx_kl"]

    assert moved(batch) == pytest.approx(0.0, abs=1e-6)
    assert moved(dataclasses.replace(batch, allowed=())) > 1e-3
    for memory in ({"microbatch_tokens": 64}, {"microbatch_tokens": 64, "share_prefixes": True}):
        config = config.changed(memory=memory)
        assert moved(batch) == pytest.approx(0.0, abs=1e-6)
