"""Single replies as they are finished are those of whole batches."""

import copy

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.rollout import act_each
from agentgym.rollout.lanes import collect_lanes
from policies.decode.batch import takes_runs
from policies.decode.continuous import Continuous, Request
from policies.decode.loop import LoopSampler
from policies.decode.queue import Together, completion_queue
from policies.decode.sampler import Decoding, complete
from policies.tiny import tiny_policy
from tests.agentgym.rollout.test_groups import disabled
from tests.refusals import refuses

torch.set_num_threads(1)

OBSERVATIONS = ["look up", "down", "look up down look", "up", "look up", "down down down up up", "left"]


@pytest.fixture(scope="module")
def policy():
    made = tiny_policy(["look up down left right"], seed=0, layers=2, max_new_tokens=6, suffix="", prefix="")
    with torch.no_grad():  # far from uniform, so that what a row reads decides what it writes
        for weight in made.model.parameters():
            weight.mul_(1.5)
    return made


def rngs(count=7):
    return [np.random.default_rng(seed) for seed in range(count)]


def check_equal(reply, other):
    """Equal but for the rounding of differently shaped products."""
    assert (reply.text, reply.prompt_ids, reply.token_ids, reply.finish, reply.version, reply.allowed) == (
        other.text, other.prompt_ids, other.token_ids, other.finish, other.version, other.allowed,
    )  # fmt: skip
    assert reply.logprobs == pytest.approx(other.logprobs, abs=1e-4)  # other batches round otherwise


def test_requests_that_join_and_leave_get_the_replies_of_a_whole_batch(policy):
    whole = act_each(policy, OBSERVATIONS, {}, rngs())
    assert len({len(one.token_ids) for one in whole}) > 1  # they leave at different times
    queue, own, found = policy.reply_queue(), rngs(), {}
    # Two come first, the others one by one, after every answer or when nothing is on its way.
    queue.put([0, 1], OBSERVATIONS[:2], {}, own[:2])
    going, new = {0, 1}, 2
    while going or new < len(OBSERVATIONS):
        if new < len(OBSERVATIONS):
            queue.put([new], OBSERVATIONS[new : new + 1], {}, own[new : new + 1])
            going, new = going | {new}, new + 1
        answers = dict(queue.get())
        assert answers
        assert answers.keys() <= going
        going -= answers.keys()
        found |= answers
    for name, reply in enumerate(whole):
        check_equal(found[name], reply)


def test_greedy_and_few_places(policy):
    greedy = policy.with_settings(temperature=0.0, batch_size=2)
    queue, found = greedy.reply_queue(), {}
    queue.put(range(7), OBSERVATIONS, {}, rngs())
    while len(found) < 7:
        found |= dict(queue.get())
    for name, reply in enumerate(greedy.act(OBSERVATIONS, {}, np.random.default_rng(0))):
        check_equal(found[name], reply)


def test_short_replies_are_answered_before_long_ones_end():
    # 0 ends; 1 -> 0; 4 -> 5 -> 4 -> ...: prompt (1,) is done after one token, (4,) after six.
    config = Qwen2Config(
        vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=16,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).eval()
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


def test_who_gets_which_queue(policy):
    decoding = policy.decoding
    assert isinstance(completion_queue(LoopSampler(policy.model), policy.model, decoding), Continuous)
    one = policy.with_settings(max_new_tokens=1)
    assert isinstance(completion_queue(one.sampler, one.model, one.decoding), Together)
    sliding = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            intermediate_size=16, use_sliding_window=True, sliding_window=4, max_window_layers=1,
        )
    )  # fmt: skip
    assert not takes_runs(sliding)
    assert isinstance(completion_queue(LoopSampler(sliding), sliding, decoding), Together)


@pytest.mark.filterwarnings("ignore:.*refused every action")  # of an untrained model
@pytest.mark.parametrize("tokens", [1, 6])
def test_lanes_of_a_model_play_the_same_episodes_however_many_they_are(policy, tokens):
    player = policy.with_settings(max_new_tokens=tokens)
    given = {"tasks": [{"index": 1}, {"index": 2}, {"index": 3}], "group_size": 2, "seed": 1}
    two, four = (collect_lanes([disabled(1) for _ in range(lanes)], player, **given) for lanes in (2, 4))
    assert len(two) == len(four) > 6
    for reply, other in zip(two.replies, four.replies, strict=True):
        check_equal(reply, other)
    assert two.groups == four.groups
    again = collect_lanes([disabled(1) for _ in range(4)], player, **given)
    assert again.to_trajectories() == four.to_trajectories()  # nothing here depends on a clock


def test_restricted_replies_and_prompts_that_do_not_fit(policy):
    player = policy.with_settings(admissible=True, prefix="<action>", suffix="</action>", max_new_tokens=3)
    infos = {"admissible_actions": np.array([("up", "down"), ("left",)], dtype=object)}
    queue = player.reply_queue()
    queue.put([3, 5], OBSERVATIONS[:2], infos, rngs(2))
    found = {}
    while len(found) < 2:
        found |= dict(queue.get())
    for name, reply in zip((3, 5), player.act_each(OBSERVATIONS[:2], infos, rngs(2)), strict=True):
        check_equal(found[name], reply)
        assert reply.allowed

    short = policy.with_settings(max_prompt_tokens=4, truncate="end-episode")
    lengths = [len(policy.encode(each)) for each in OBSERVATIONS[:2]]
    assert lengths[0] > min(lengths)
    short = policy.with_settings(max_prompt_tokens=min(lengths), truncate="end-episode")
    queue = short.reply_queue()
    queue.put([0, 1], OBSERVATIONS[:2], {}, rngs(2))
    assert [(name, one.finish, one.prompt_ids) for name, one in queue.get()] == [(0, "prompt-too-long", ())]
    ((name, other),) = queue.get()
    # The prompt that does not fit has drawn its numbers from its own generator; the other has its own.
    check_equal(other, short.act_each(OBSERVATIONS[:2], {}, rngs(2))[1])
    assert name == 1


def test_weights_that_are_not_numbers_end_it_all(policy):
    broken = copy.deepcopy(policy)
    next(broken.model.parameters()).data[0, 0] = float("nan")
    refuses(FloatingPointError, "cannot act", broken.reply_queue)
