"""Imitation of experts and learning from preferences: episodes, cloning, pairs, and rounds of all methods."""

import dataclasses
import math
from functools import cache
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

import baselines.imitation.spear
from agentgym.rollout import collect
from agentgym.rollout.hindsight import relabel_goals
from agentgym.trajectory import Reply, StepTable
from agentgym.trajectory.episode import Step, Trajectory
from baselines.imitation.cloning import Demonstrator, clone, demonstrations, imitate, won_steps
from baselines.imitation.episodes import distinct_wins, expert_episodes, written_replies
from baselines.imitation.ipr import IPR, Shown, shown_steps
from baselines.imitation.method import Imitation, Setting
from baselines.imitation.preferences import Preference, episode_preferences, prefer
from baselines.imitation.rounds import train_in_rounds
from baselines.imitation.spear import SPEAR
from baselines.imitation.step_agent import Advised, StepAgent
from baselines.imitation.updates import _schedule
from baselines.losses import preference
from baselines.recipes.methods import method
from baselines.update import update
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora
from policies.scripted import SILENT, ExpertPolicy, RandomPolicy
from policies.tiny import tiny_policy
from tests.baselines.corridor_learning import CONFIG, TASKS, babbling_policy, digest, repeatable, same_weights
from tests.baselines.imitation.corridor_setting import a_round, learn_word, losing_policy, said, seen, setting
from tests.cases import cases
from tests.refusals import refuses
from wrappers import VectorPromptWindow, VectorReplyParser

LEVELS = [{"split": "train", "index": index} for index in range(16)]
TEXTS = ["######\n#_OX√#\n#PS__#\n######"]


def environments(**options):
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=8, autoreset_mode="Disabled", **options)
    return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)


def student(seed=0):
    return tiny_policy(TEXTS, seed=seed, width=32, layers=2, mlp=64)


def test_demonstrations_pair_each_board_with_the_expert_action_played_on_it():
    policy = student()
    found = demonstrations(policy, environments(expert=True), LEVELS, seed=0)
    table = collect(environments(expert=True), ExpertPolicy(), tasks=LEVELS, seed=0)
    assert table.won.all()
    assert len(found) == len(table)
    decode = policy.tokenizer.decode
    for row, reply in enumerate(found):
        # The text of the board is the environment's exact state; the table holds what was played there.
        assert decode(list(reply.prompt_ids)) == f"<|user|>{table.states[table.state[row]]}<|assistant|><action>"
        assert decode(list(reply.token_ids)) == table.actions[table.action[row]]


def test_cloning_ends_when_it_is_enough_and_repeats_itself():
    policy, asked = student(), []

    def enough(done):
        asked.append(done)
        return done == 5

    result = clone(policy, environments(expert=True), LEVELS, epochs=30, seed=0, warmup=5, batch_size=8, enough=enough)
    assert asked == [1, 2, 3, 4, 5]
    assert [entry["epoch"] for entry in result.history] == [1]
    assert 0 < result.history[-1]["loss"] < 10  # the mean over the tokens that were read, in nats
    results, weights = [], []
    for _ in range(2):
        policy = student()
        state = torch.random.get_rng_state()
        results.append(clone(policy, environments(expert=True), LEVELS[:4], epochs=2, seed=3).history)
        assert torch.equal(state, torch.random.get_rng_state())
        weights.append(digest(policy))
        torch.rand(7)
    assert [entry["loss"] for entry in results[0]] == [entry["loss"] for entry in results[1]]
    assert weights[0] == weights[1]


def test_learning_rates_losses_and_divergence() -> None:
    # With one batch per epoch the first epoch measures the untouched student.
    policy, fresh, calls = student(), student(), []
    given = {"epochs": 1, "seed": 0, "batch_size": 1000, "progress": lambda *done: calls.append(done)}
    history = clone(policy, environments(expert=True), LEVELS[:2], **given).history
    assert calls == [(1, 1)]
    rows = demonstrations(fresh, environments(expert=True), LEVELS[:2], seed=0)
    nats, right = [], []
    for row in rows:
        with torch.no_grad():
            logits = fresh.model(torch.tensor([row.prompt_ids])).logits[0, -1]
        nats.append(-torch.log_softmax(logits, -1)[row.token_ids[0]].item())
        right.append(int(logits.argmax()) == row.token_ids[0])
    assert history[0]["loss"] == pytest.approx(np.mean(nats), abs=1e-5)
    assert history[0]["accuracy"] == pytest.approx(np.mean(right))
    # 4 warm-up updates, then 8 more: half way down at update 8.
    assert [_schedule(step, 4, 12) for step in (0, 1, 3, 4, 8)] == pytest.approx([0.25, 0.5, 1.0, 1.0, 0.5])
    # Update 11 is the last: (1 + cos(7/8 pi)) / 2 = (1 - 0.9239) / 2.
    assert (_schedule(11, 4, 12), _schedule(0, 0, 1)) == (pytest.approx(0.03806, abs=1e-5), 1.0)
    policy = student()
    next(policy.model.parameters()).register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(FloatingPointError, match="the gradient norm is nan at update 1"):
        clone(policy, environments(expert=True), LEVELS, epochs=1, seed=0)
    assert all(value.isfinite().all() for value in policy.model.parameters())


def test_micro_batches_change_memory_and_nothing_else():
    found = []
    for rows in (None, 3):
        policy = student()
        arguments = {"epochs": 1, "seed": 0, "batch_size": 8, "weight_decay": 0.0, "microbatch_rows": rows}
        history = clone(policy, environments(expert=True), LEVELS[:4], **arguments).history
        found.append((history[0]["loss"], history[0]["accuracy"], policy.model))
    assert (found[0][0], found[0][1]) == (pytest.approx(found[1][0], abs=1e-5), found[1][1])
    same_weights(found[0][2], found[1][2], atol=1e-4)
    found = []
    for rows in (None, 2):
        policy = babbling_policy()
        prefer(policy, pairs_of(policy), seed=0, learning_rate=5e-3, batch_size=2, epochs=3, microbatch_rows=rows)
        found.append(policy.model.state_dict())
    for name, tensor in found[0].items():
        assert torch.allclose(tensor, found[1][name], atol=1e-5), name


def test_cloning_packs_shares_and_computes_no_entropies(monkeypatch):
    rows, weights, given = demonstrations(student(), environments(expert=True), LEVELS[:4], seed=0), [], []
    # One prompt, which can be shared, and replies that begin differently.
    first = rows[0].prompt_ids
    rows = [Reply("", first, (5 + number % 6, row.token_ids[0])) for number, row in enumerate(rows)]
    plain = HuggingFacePolicy.score
    monkeypatch.setattr(
        HuggingFacePolicy, "score", lambda *some, **options: (given.append(options), plain(*some, **options))[1]
    )
    for large in (10**9, 0):  # below the first a model is small, and read in rectangles
        monkeypatch.setattr("baselines.update.LARGE", large)
        policy = student()
        imitate(policy, rows, epochs=1, seed=0, batch_size=8, weight_decay=0.0, warmup=0, learning_rate=1e-4)
        weights.append(policy.model.state_dict())
    assert all(torch.allclose(value, weights[1][name], atol=1e-5) for name, value in weights[0].items())
    small, many = given[: len(given) // 2], given[len(given) // 2 :]
    assert {(each["tokens_per_pass"], each.get("share_prefixes")) for each in small} == {(None, None)}
    assert {(each["tokens_per_pass"], each["share_prefixes"]) for each in many} == {(2048, True)}
    assert {each["entropy"] for each in given} == {None}


def test_silent_experts_and_unwritable_actions_are_refused() -> None:
    infos = {"expert_action": np.array(["up", ""], dtype=object)}
    replies = Demonstrator(student()).act(["board", "board"], infos, np.random.default_rng(0))
    assert len(replies[0].token_ids) == 1
    assert (replies[1].text, replies[1].token_ids) == (SILENT, ())
    refuses(KeyError, "expert=True", lambda: clone(student(), environments(), LEVELS[:2], epochs=1, seed=0))
    policy = tiny_policy(TEXTS, seed=0, extra_words=(), width=32, layers=1, mlp=32)
    words = r"the policy writes 1 to 1 \(its setting max_new_tokens\): make it with max_new_tokens=\d+ or more"
    refuses(ValueError, words, lambda: clone(policy, environments(expert=True), LEVELS[:2], epochs=1, seed=0))
    for rows, what in (([], "there are no rows"), ([Reply("up", (1,), (2,)), Reply("up")], "row 1 has no tokens")):
        refuses(
            ValueError, f"nothing can be learned, {what}", lambda rows=rows: imitate(policy, rows, epochs=1, seed=0)
        )


def relabelled(policy, **options):
    """Random episodes of the tasks, as episodes of what they did, in the policy's tokens."""
    envs = environments()
    table = collect(envs, RandomPolicy(), tasks=LEVELS, group_size=4, seed=0)
    return table, relabel_goals(table, envs, demonstrate=policy.demonstrate, **options)


def test_relabelled_steps_are_learned() -> None:
    policy = student()
    played, done = relabelled(policy, cut_loops=True)
    rows = won_steps(done)
    # the cloning set of random play grows from the few that won to those that did something
    assert len(rows) == len(done) > 0
    assert done.n_trajectories > played.trajectory_won.sum()
    result = imitate(policy, rows, epochs=10, seed=0, warmup=5)
    first, last = result.history[0], result.history[-1]
    assert last["loss"] < 0.7 * first["loss"]
    assert last["accuracy"] > first["accuracy"]
    assert result.rows == len(rows)
    policy = student()
    rows = won_steps(relabelled(policy)[1])
    expert = demonstrations(student(), environments(expert=True), LEVELS[:4], seed=0)
    plain = clone(student(), environments(expert=True), LEVELS[:4], epochs=1, seed=0)
    more = clone(policy, environments(expert=True), LEVELS[:4], epochs=1, seed=0, beside=rows)
    assert (plain.rows, more.rows) == (len(expert), len(expert) + len(rows))


def test_steps_of_won_episodes_that_were_accepted_are_learned_and_wins_count_once():
    replies = [Reply(name, (1,), (token,)) for token, name in enumerate("abcd")]
    table = StepTable.from_arrays(
        group=["g"] * 4, trajectory=list("xxxy"), t=[0, 1, 2, 0], state=["s", "s", "u", "s"], action=list("abcd"),
        next_state=["s", "u", "goal", "pit"], reward=[0, 0, 1, 0], won=[1, 1, 1, 0], valid=[False, True, True, True],
        replies=replies,
    )  # fmt: skip
    assert won_steps(table) == replies[1:3]
    bare = collect(environments(expert=True), ExpertPolicy(), tasks=LEVELS[:1], seed=0)
    refuses(ValueError, r"row 0 of the table has no reply tokens: relabel with demonstrate=", won_steps, bare)

    def won(group, name, actions, won=True):
        steps = tuple(Step(t, f"{t}", a, f"{t + 1}", 0.0, True, Reply(a)) for t, a in enumerate(actions))
        return Trajectory(group, name, won, True, False, steps)

    table = StepTable.from_trajectories(
        [won("a", 0, "rr"), won("a", 1, "rr"), won("a", 2, "lr"), won("b", 3, "rr"), won("b", 4, "rl", won=False)]
    )
    assert distinct_wins(table).trajectories == (0, 2, 3)
    steps = (Step(0, "s", "", "s", 0.0, False, Reply("")), Step(1, "s", "a", "u", 0.0, True, Reply("a", (1,), (2,))))
    assert [reply.text for reply in written_replies(Trajectory("a", 0, True, True, False, steps))] == ["a"]


@pytest.mark.parametrize(("expert", "rows"), [("true", 6), ("false", 0)])
def test_where_nothing_is_won_the_expert_s_episodes_are_what_is_learned(expert, rows):
    # The expert's ways from cells 1, 2 and 3 have 3, 2 and 1 steps.
    figures = method(f"rft:samples=2:temperature=.1:epochs=1:expert={expert}").learn(a_round(losing_policy()))
    assert (figures["success"], figures["distinct_wins"], figures["rows"]) == (0, 0, rows)
    assert ("loss" in figures) == (rows > 0)


SMALL = {
    "sft": "sft:epochs=6",
    "rft": "rft:samples=4:temperature=1:epochs=6",
    "dpo": "dpo:epochs=2:batch_size=4",
    "eto": "eto:samples=4:epochs=4:batch_size=4",
    "ipr": "ipr:continuations=2:rounds=1:threshold=0:batch_size=4",
    "stepagent": "stepagent:samples=4:epochs=4:batch_size=4",
    "stepagent agree": "stepagent:form=agree:samples=4",
    "spear": "spear:rounds=3:buffer=8:ramp=1",
}


@pytest.mark.parametrize("name", SMALL)
def test_every_method_learns_to_walk_right(name):
    policy = babbling_policy()
    start = _right(policy)
    rows = train_in_rounds(policy, method(SMALL[name]), setting())
    assert [row["iteration"] for row in rows] == list(range(method(SMALL[name]).rounds + 1))
    assert _right(policy) > start + 0.05


class _Unlearning(Imitation):
    """Trains the policy, and then looks at where it came from."""

    needs_start = True

    def learn(self, part):
        learn_word(part.policy, "left")
        return {"start": _right(part.start), "now": _right(part.policy)}


def test_clones_and_continuations_are_of_what_an_adapter_had_learned_by_then():
    policy = adapted()
    learn_word(policy, "right")
    begun = _right(policy)
    assert begun > 0.8  # the base says it in a third of all cases
    row = train_in_rounds(policy, _Unlearning("unlearning"), setting())[-1]
    assert row["start"] == pytest.approx(begun, abs=1e-5)
    assert row["now"] < 0.5
    policy = adapted()
    start = _right(policy)
    train_in_rounds(policy, method("ipr:continuations=2:rounds=2:threshold=0:batch_size=4"), setting())
    assert _right(policy) > start + 0.05


def adapted():
    return add_lora(babbling_policy(), LoraSettings(rank=4, alpha=16.0), seed=0)


def _right(policy):
    """Mean probability of "right" in the three cells."""
    replies = [said(policy, cell, "right") for cell in (1, 2, 3)]
    with torch.no_grad():
        scores = policy.score([r.prompt_ids for r in replies], [r.token_ids for r in replies], temperature=1.0)
    return float(scores.logprobs.sum(1).exp().mean())


@pytest.mark.parametrize("name", ["eto:rounds=2:samples=4", "spear:rounds=3:buffer=20:ramp=1"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(name, tmp_path):
    whole, policy = babbling_policy(), babbling_policy()
    expected = train_in_rounds(whole, method(name), setting())
    train_in_rounds(policy, dataclasses.replace(method(name), rounds=1), setting(), folder=tmp_path)
    fresh = babbling_policy()
    rows = train_in_rounds(fresh, method(name), setting(), folder=tmp_path)
    assert repeatable(rows) == repeatable(expected)
    assert digest(fresh) == digest(whole)
    again = babbling_policy(), method("sft"), setting()
    refuses(ValueError, "belongs to another run", train_in_rounds, *again, folder=tmp_path)


@cases(
    "name",
    "sft:epochs=1",
    "rft:samples=2:epochs=1",
    "dpo:samples=2",
    "eto:rounds=1:epochs=1",
    "ipr:rounds=1:continuations=1:episodes=2:epochs=1",
    "spear:rounds=2:buffer=8:ramp=1",
)
def test_failed_episodes_are_data_of_what_they_did(name):
    found = []
    for hindsight in ("false", "true"):
        policy = tiny_policy(TEXTS, seed=0, width=16, layers=1, mlp=16)
        policy.model.load_state_dict(_wandering())
        rows = train_in_rounds(policy, method(f"{name}:hindsight={hindsight}"), sokoban())
        counted = [sum(row.get(key, 0.0) for row in rows) for key in ("rows", "pairs", "replayed")]
        found.append(sum(counted))
    assert found[1] > found[0]


def sokoban():
    """Levels that a wanderer mostly fails, while it moves boxes onto other fields."""
    envs = environments(expert=True, max_episode_steps=12)
    config = dataclasses.replace(CONFIG, groups=4, group_size=2, learning_rate=1e-5)
    tasks = [{"split": "train", "index": index} for index in range(4)]
    return Setting(envs, tasks, config, {"learning_rate": 1e-5}, 0)


@cache
def _wandering():
    """A policy that answers the four moves about equally often."""
    policy = tiny_policy(TEXTS, seed=0, width=16, layers=1, mlp=16)
    texts = (f"<action>{word}</action>" for word in ("up", "down", "left", "right"))
    moves = [policy.demonstrate([{"role": "user", "content": "######"}], text) for text in texts]
    imitate(policy, moves, epochs=40, seed=0, learning_rate=1e-2, warmup=0)
    return policy.model.state_dict()


def test_the_loss_of_a_pair() -> None:
    # Log-ratios: better -1 - (-3) = 2 and -4 - (-4) = 0; worse -2 - (-2) = 0 and -1 - (-2) = 1. With beta .5:
    # -log sigma(.5 * 2) = log(1 + e^-1) = .31326, and -log sigma(.5 * -1) = log(1 + e^.5) = .97408.
    better = torch.tensor([-1.0, -4.0], requires_grad=True)
    found = preference(better, torch.tensor([-2.0, -1.0]), torch.tensor([-3.0, -4.0]), torch.tensor([-2.0, -2.0]), 0.5)
    assert found.tolist() == pytest.approx([0.31326, 0.97408], abs=1e-5)
    found.sum().backward()
    # The slope is -beta sigma(-beta d): -.5 / (1 + e) and -.5 / (1 + e^-.5).
    assert better.grad.tolist() == pytest.approx([-0.5 / (1 + math.e), -0.5 / (1 + math.exp(-0.5))], abs=1e-6)
    policy = babbling_policy()
    pairs = pairs_of(policy)
    learned = prefer(policy, pairs, seed=0, learning_rate=1e-6, batch_size=2)
    assert (learned.loss, learned.margin) == pytest.approx((math.log(2), 0.0), abs=1e-5)
    nats = [sum(-logratio(policy, _Zero(), (row,)) for row in pair.better) for pair in pairs]
    learned = prefer(policy, pairs, seed=0, learning_rate=1e-6, batch_size=2, likelihood=0.1)
    assert learned.loss == pytest.approx(math.log(2) + 0.1 * np.mean(nats), abs=1e-3)


def episode(group, name, won, reward=0.0, text="left"):
    steps = (Step(0, "s", text, "u", reward, True, Reply(text, (1,), (len(text),))),)
    return Trajectory(group, name, won, True, False, steps)


def names(pairs):
    return [(pair.better[0].text, pair.worse[0].text) for pair in pairs]


def test_pairs_by_outcome_and_return() -> None:
    episodes = [
        episode("a", 0, True, text="A"), episode("a", 1, False, text="AA"), episode("a", 2, False, text="AAA"),
        episode("b", 3, True, text="B"), episode("c", 4, False, text="C"),
    ]  # fmt: skip
    assert names(episode_preferences(episodes)) == [("A", "AA"), ("A", "AAA")]
    assert len(episode_preferences(episodes, per_task=1)) == 1
    assert names(episode_preferences(episodes, between=lambda better, worse: worse == 2)) == [("A", "AAA")]
    episodes = [episode("a", i, False, reward, text="x" * (i + 1)) for i, reward in enumerate((0.5, 0.0, 0.4))]
    assert episode_preferences(episodes) == []
    # .5 and .4 are within .2 of each other, both are more than .2 above 0.
    assert sorted(names(episode_preferences(episodes, margin=0.2))) == [("x", "xx"), ("xxx", "xx")]
    silent = Trajectory("a", 1, False, False, True, (Step(0, "s", "", "s", 0.0, False, Reply("")),))
    assert episode_preferences([episode("a", 0, True), silent]) == []


def pairs_of(policy):
    right, left = ([said(policy, cell, word) for cell in (1, 2, 3)] for word in ("right", "left"))
    # The second pair shares its first row: it cancels.
    return [Preference((right[0], right[1]), (left[0],)), Preference((right[1], right[2]), (right[1], left[2]))]


def logratio(policy, start, side):
    with torch.no_grad():
        score = [
            p.score([r.prompt_ids for r in side], [r.token_ids for r in side], temperature=1.0).logprobs.sum()
            for p in (policy, start)
        ]
    return float(score[0] - score[1])


class _Zero:
    """Gives every token probability 1."""

    def score(self, prompts, replies, temperature, **given):
        return SimpleNamespace(logprobs=torch.zeros(len(replies), max(map(len, replies))))


def test_bad_numbers_and_empty_sides_are_refused() -> None:
    policy = babbling_policy()
    for wrong in ({"beta": 0.0}, {"beta": math.nan}, {"likelihood": -1.0}, {"likelihood": math.inf}):
        with pytest.raises(ValueError, match="finite beta above 0 and a finite likelihood of at least 0"):
            prefer(policy, pairs_of(policy), **wrong, seed=0, learning_rate=1e-3)
    with pytest.raises(ValueError, match="at least one reply"):
        prefer(policy, [Preference((), (said(policy, 1, "left"),))], seed=0, learning_rate=1e-3)
    assert prefer(policy, [], seed=0, learning_rate=1e-3).pairs == 0
    episodes = [episode("a", i, i < 2, float(i < 2)) for i in range(4)]
    assert len(episode_preferences(episodes)) == 4
    for wrong in ({"per_task": -1}, {"per_task": 1.5}, {"margin": -1.0}, {"margin": math.nan}):
        refuses(ValueError, next(iter(wrong)), episode_preferences, episodes, **wrong)


@cases(
    "wrong",
    {"epochs": 0}, {"batch_size": 0}, {"microbatch_rows": 0}, {"learning_rate": 0.0}, {"warmup": -1},
    {"learning_rate": math.nan}, {"learning_rate": math.inf},
    ids=str,
)  # fmt: skip
def test_numbers_are_looked_at_before_anything_is_scored(wrong):
    policy = babbling_policy()
    with pytest.raises(ValueError, match=next(iter(wrong))):
        prefer(policy, pairs_of(policy), reference=_Unasked(), **{"seed": 0, "learning_rate": 1e-3} | wrong)


class _Unasked:
    def score(self, *arguments, **options):
        raise AssertionError("the reference was asked")


def test_the_experts_steps_have_the_state_before_them():
    policy = babbling_policy()
    part = a_round(policy)
    steps = shown_steps(part, Demonstrator(policy), TASKS)
    # From cells 1, 2 and 3 the way to cell 4 takes 3, 2 and 1 steps.
    assert [(step.episode.group, step.t) for step in steps] == [
        ("start-1", 0), ("start-1", 1), ("start-1", 2), ("start-2", 0), ("start-2", 1), ("start-3", 0)
    ]  # fmt: skip
    _, infos = part.setting.envs.restore([0, 1], [steps[1].state, steps[5].state])
    assert infos["state_key"][:2].tolist() == ["2", "3"]
    assert len(expert_episodes(part)) == 6


def shown(actions, t=0):
    steps = tuple(
        Step(i, f"{i}", action, f"{i + 1}", 0.0, True, Reply(action, (i,), (ord(action),)))
        for i, action in enumerate(actions)
    )
    return Shown(None, t, Trajectory("a", 0, True, True, False, steps))


def way(actions, won):
    return dataclasses.replace(shown(actions).episode, won=won)


@cases(
    "span, own, won, values, better",
    ("rest", "lll", False, (1.0, 0.4), "bc"),  # .6 is more than .5
    ("rest", "lll", False, (0.9, 0.4), None),  # .5 is not
    ("rest", "lll", True, (1.0, 0.0), None),  # the policy's way on won: its rest is no worse
    ("step", "lll", True, (1.0, 0.0), "b"),
    ("rest", "l", True, (0.0, 1.0), "l"),  # the other way round, and shorter
    ("rest", "lll", True, (0.0, 1.0), None),  # longer than the expert's
    ("rest", "l", False, (0.0, 1.0), None),  # lost
)
def test_a_step_pair_needs_a_gap_between_the_values(span, own, won, values, better):
    found = IPR(span=span, threshold=0.5).pair(shown("abc", t=1), way(own, won), *values)
    assert (None if found is None else "".join(reply.text for reply in found.better)) == better


def test_values_are_shares_of_continuations_that_won_and_the_buffer_forgets_what_is_old():
    # Right from cell 3 wins at once, whoever continues; left leads to cell 2.
    policy = babbling_policy()
    part = a_round(policy)
    last = shown_steps(part, Demonstrator(policy), TASKS)[-1]
    left = dataclasses.replace(last.episode.steps[0], reply=said(policy, 3, "left"))
    own = dataclasses.replace(last.episode, steps=(left,), won=False)
    ((expert, other),) = IPR(continuations=8)._values(part, [(last, own)])
    assert expert == 1.0
    assert 0.0 <= other < 1.0
    part = a_round(babbling_policy())
    SPEAR(buffer=10_000).learn(part)
    assert len(part.state["kept"]) > 0
    later = dataclasses.replace(part, number=9)
    SPEAR(buffer=10_000, tolerance=5).learn(later)
    assert {step[-1] for step in later.state["kept"]} <= {9}


@pytest.mark.parametrize(
    "changes", [{}, {"loss.old_logprobs": "recompute", "loss.tis": 2.0, "rollout.staleness": 1}], ids=str
)
def test_a_replay_is_measured_against_the_policies_that_wrote_it(changes, monkeypatch):
    policy = losing_policy()
    part = a_round(policy)
    config = part.setting.training.changed(optimiser={"epochs": 1, "minibatch_rows": 64}, **changes)
    reply = said(policy, 1, "left")
    with torch.no_grad():
        now = float(policy.score([reply.prompt_ids], [reply.token_ids], temperature=1.0).logprobs)
    # Two rounds wrote the same: one as the policy of today would, one to whom it was e^5 times less likely. With
    # advantages above 0 the clip holds the second alone: half of the tokens.
    row = reply.prompt_ids, reply.token_ids
    kept = [[*row, (old,), (), 1.0, number] for number, old in ((19, now - 5.0), (20, now))]
    figures = []

    def seen_by(*arguments):
        figures.append(update(*arguments))
        return figures[-1]

    monkeypatch.setattr(baselines.imitation.spear, "update", seen_by)
    part = dataclasses.replace(
        part, number=20, state={"kept": kept}, setting=dataclasses.replace(part.setting, training=config)
    )
    row = SPEAR(buffer=2, ramp=20).learn(part)
    assert (row["success"], row["replayed"]) == (0.0, 2.0)
    assert figures[1]["clip_fraction"] == pytest.approx(0.5)


def test_the_advice_is_what_the_expert_would_have_written():
    policy = babbling_policy()
    player = Advised(policy, Demonstrator(policy))
    infos = {"expert_action": np.array(["right", ""], dtype=object)}
    replies = player.act([seen(1), seen(2)], infos, np.random.default_rng(0))
    assert player.advice[id(replies[0])].text == "<action>right</action>"
    assert player.agrees(replies[0]) == (replies[0].text == "<action>right</action>")
    assert player.advice[id(replies[1])].token_ids == ()


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_weights_decay_as_the_setting_says(decay):
    # Who never agrees has advantages of 0 everywhere: nothing but the decay moves the weights, to 1 - rate * decay of
    # what they were in each step.
    part = a_round(losing_policy())
    config = part.setting.training.changed(
        learning_rate=0.1, temperature=0.1, optimiser={"weight_decay": decay}, loss={"kl": 0.0}
    )
    part.setting = dataclasses.replace(part.setting, training=config)
    before = {name: weight.detach().clone() for name, weight in part.policy.model.named_parameters()}
    row = StepAgent(form="agree", samples=2).learn(part)
    assert (row["agreement"], row["grad_norm"]) == (0.0, 0.0)
    factor = (1 - 0.1 * decay) ** row["updates"]
    for name, weight in part.policy.model.named_parameters():
        torch.testing.assert_close(weight.detach(), factor * before[name])
