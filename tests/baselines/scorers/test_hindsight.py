"""Scorers that ask a policy behind more than its prompt: in hindsight, and as an informed teacher."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from agentgym.adapter import adapt
from agentgym.corridor.env import MEANING, CorridorEnv
from agentgym.rollout import collect
from agentgym.trajectory import Reply, StepTable
from agentgym.vector import TextVectorEnv
from baselines.config import Distillation, Loss, Optimiser, TrainerConfig
from baselines.imitation.cloning import informed_demonstrations
from baselines.recipes import recipe
from baselines.scorers.hindsight import Hindsight, HindsightConfig, new_tokens, without
from baselines.scorers.privileged import PrivilegedConfig, PrivilegedScorer
from baselines.scorers.reply_in_hindsight import ReplyInHindsight, ReplyInHindsightConfig
from baselines.trainer import Trainer
from policies.prompts import FIRST_PICTURE as P
from policies.scripted import RandomPolicy
from policies.tiny import tiny_policy
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import babbling_policy, rollouts, small_policy
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers.privileged import Context, Control, Privileged, Seen, contexts
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser

RATE = 1e-2


def learn(model: Hindsight, table: StepTable, rng: np.random.Generator) -> dict[str, float]:
    return model.update(table, model.scores(table), None, rng, RATE)


def two_turns(second: tuple[int, ...]) -> StepTable:
    """A trajectory of two turns whose prompts and replies are given tokens."""
    replies = [Reply("", (20, 21, 29), (25, 26), (-1.0,) * 2), Reply("", second, (27,), (-1.0,))]
    return filled(replies=replies, won=[1, 1])


def test_prompts_with_the_outcome_in_front() -> None:
    policy, table = babbling_policy(), rollouts(size=8)
    prompts = Hindsight(policy).prompts(table)
    for row, reply in enumerate(table.replies):  # type: ignore[arg-type]
        text = "Won.\n" if table.won[row] else "Lost.\n"
        assert prompts[row] == (*policy.tokenizer(text, add_special_tokens=False)["input_ids"], *reply.prompt_ids)
    assert 0 < table.trajectory_won.mean() < 1
    policy = babbling_policy()
    model = Hindsight(policy)
    won = model._outcome[1]
    table = two_turns((20, 21, 29, 25, 26, 23, 29))
    policy.tokenizer.bos_token_id = 20
    assert model.prompts(table)[0] == (20, *won, 21, 29)
    model.model.config.max_position_embeddings = 1 + len(won) + 1 + 2
    assert model.prompts(table)[0] == (20, *won, 29)  # one place is left beside the reply's two
    pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike
    policy = tiny_vision_policy(["up"], seed=0, layers=1, width=16, heads=2, mlp=16)
    model = Hindsight(policy, HindsightConfig(hindsight="cloze"))
    after, won = model._encode("After: "), model._outcome[1]
    first, second = (20, P, P + 1, P + 2, 29), (20, P + 3, P + 4, P + 5, 29)
    table = two_turns(second)
    table.replies[0] = Reply("", first, (25,), (-1.0,))  # type: ignore[index]
    for room, prompt in (
        (len(after) + 4 + 5, (*won, *after, *second[1:4], 27, *first)),  # all that was new, but for the line's end
        (len(after) + 2 + 5, (*won, *after, *first)),  # two of three placeholders
        (4, (*won, *after[:3], 29)),  # of the prompt, too
    ):
        model.model.config.text_config.max_position_embeddings = len(won) + room + 1
        assert model.prompts(table)[0] == prompt, room
    before = Reply("", (1, 2, 9), (7,))
    assert (new_tokens(before, (1, 2, 9)), new_tokens(before, (4, 5, 9))) == ((), (4, 5))
    assert new_tokens(before, (1, 2, 9, 7, 9)) == ()
    assert (without((1, 1, 2, 3), (1, 2)), without((), (1,))) == ((1, 3), ())


@pytest.mark.parametrize("second", [(20, 21, 29, 25, 26, 23, 29), (20, 23, 29), (20, 25, 26, 23, 29)])
def test_a_cloze_knows_what_came_after_but_not_the_reply_itself(second: tuple[int, ...]) -> None:
    policy = babbling_policy()
    model = Hindsight(policy, HindsightConfig(hindsight="cloze"))
    encoded = [tuple(policy.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in ("After: ", "\n")]
    won = model._outcome[1]
    # A transcript, a window on the last observation, and one that repeats the reply: 23 was seen, 27 was done.
    assert model.prompts(two_turns(second)) == [(*won, *encoded[0], 23, 27, *encoded[1], 20, 21, 29), (*won, *second)]
    model.model.config.max_position_embeddings = len(won) + len(encoded[0]) + 1 + 3 + 2
    assert model.prompts(two_turns(second))[0] == (*won, *encoded[0], 23, 20, 21, 29)


def test_the_gradient_is_that_of_the_mean_over_tokens_however_it_is_cut() -> None:
    policy = small_policy(max_new_tokens=3)
    with pytest.warns(RuntimeWarning, match="refused every action"):
        table = rollouts(policy, 2)
    naive = Hindsight(policy)
    losses = [
        -naive.twin.score([prompt], [reply.token_ids], 1.0).logprobs.sum()
        for prompt, reply in zip(naive.prompts(table), table.replies, strict=True)  # type: ignore[arg-type]
    ]
    expected = torch.stack(losses).sum() / sum(len(reply.token_ids) for reply in table.replies)  # type: ignore[union-attr]
    expected.backward()  # type: ignore[no-untyped-call]
    for limits in ({}, {"microbatch_rows": 3}, {"microbatch_tokens": 80}):
        model = Hindsight(policy, HindsightConfig(minibatch_rows=1000, max_grad_norm=1e9, **limits))
        model._optimizer.zero_grad = lambda **_: None  # type: ignore[method-assign]  # the gradients stay
        row = learn(model, table, np.random.default_rng(0))
        assert row["prm_loss"] == pytest.approx(float(expected.detach()), rel=1e-5)
        for weight, same in zip(model.model.parameters(), naive.model.parameters(), strict=True):
            torch.testing.assert_close(weight.grad, same.grad, atol=1e-5, rtol=1e-3)


def test_it_learns_which_reply_the_outcome_tells() -> None:
    # The same prompt three times; won episodes said "right" in all, so the outcome gives the reply away.
    policy = babbling_policy()
    replies = policy.act(["cell 2"] * 96, {}, np.random.default_rng(0))
    right = np.array(["right" in reply.text for reply in replies])
    table = filled(replies=replies, trajectory=range(len(replies)), next_state=right, won=right)
    model, rng = Hindsight(policy, HindsightConfig(beta=1.0)), np.random.default_rng(0)
    rows = [learn(model, table, rng) for _ in range(40)]
    assert rows[-1]["prm_loss"] < rows[0]["prm_loss"]
    # In hindsight the word is certain: its importance is the inverse of the policy's probability.
    chance = np.exp(next(reply.logprobs[0] for reply in replies if "right" in reply.text))
    assert model.scores(table)[right].mean() > 0.7 / chance > 1.3


def test_bounds_what_is_refused_and_final_states_that_do_not_fit() -> None:
    table = rollouts(size=8)
    model = Hindsight(babbling_policy(), HindsightConfig(clip=2.0))
    scores = np.where(np.arange(len(table)) < 3, np.exp(-2.0), 1.0)
    row = model.update(table, scores, None, np.random.default_rng(0), 0.0)
    assert row["prm_clipped"] == pytest.approx(3 / len(table))
    policy = babbling_policy()
    unknown = lambda *_, **__: {"input_ids": [0]}  # noqa: E731  # every word
    blind = SimpleNamespace(model=policy.model, score=policy.score, tokenizer=unknown)
    refuses(ValueError, r"same tokens of 'Lost.\\n' and 'Won.\\n'", Hindsight, blind)
    policy = babbling_policy()
    table = rollouts(policy, 1)
    scorer = ReplyInHindsight(policy)
    reply = table.replies[0]  # type: ignore[index]
    policy.model.config.max_position_embeddings = len(reply.prompt_ids) + len(reply.token_ids) + 1
    asked = scorer.behind_ending(dataclasses.replace(table, replies=np.full(len(table), reply)))[0]
    assert asked.prompt_ids == scorer.encode("It ended here: ")[:1] + reply.prompt_ids


def test_the_final_state_stands_in_front_and_the_prompt_ends_as_it_did() -> None:
    policy = babbling_policy()
    table = rollouts(policy)
    scorer = ReplyInHindsight(policy)
    for row, asked in enumerate(scorer.behind_ending(table)):
        ending = table.states[table.next_state[table.last[table.trajectory[row]]]]
        ending_ids = scorer.encode(f"It ended here: {ending}\n")
        assert asked.prompt_ids == ending_ids + table.replies[row].prompt_ids  # type: ignore[index]
        assert asked.token_ids == table.replies[row].token_ids  # type: ignore[index]
    assert len({asked.prompt_ids for asked in scorer.behind_ending(table)}) > len(set(table.state))
    words = ReplyInHindsight(policy, ReplyInHindsightConfig(final="outcome", won_text="right", lost_text="left"))
    for won, asked in zip(table.won, words.behind_ending(table), strict=True):
        assert asked.prompt_ids[: len(words.encode("right"))] == words.encode("right" if won else "left")


def test_scores_are_the_policys_likelihoods_one_reply_at_a_time() -> None:
    policy = small_policy(max_new_tokens=3)
    with pytest.warns(RuntimeWarning, match="refused every action"):
        table = rollouts(policy, 2)
    for limits in ({}, {"microbatch_tokens": 80}):
        scorer = ReplyInHindsight(policy, ReplyInHindsightConfig(temperature=0.7, **limits))
        expected = [
            float(policy.score([asked.prompt_ids], [asked.token_ids], 0.7).logprobs.mean().detach())
            for asked in scorer.behind_ending(table)
        ]
        np.testing.assert_allclose(scorer.scores(table), expected, atol=1e-5)


DIRECTIONS = ("north", "east", "south", "west")
TASKS = [{"split": "train", "index": index} for index in range(3)]
CONFIG = TrainerConfig(
    iterations=2, groups=2, group_size=4, learning_rate=1e-2, loss=Loss(kl=0.0, keep_zero=False),
    optimiser=Optimiser(minibatch_rows=8),
)  # fmt: skip


def corridor(places: int = 8, **options: Any) -> Any:
    envs = gym.make_vec("AgentRL/Corridor-v0", places, autoreset_mode="Disabled", length=3, wrong="back", **options)
    return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)


def policy(seed: int = 0) -> Any:
    made = tiny_policy(["Room 1 of 3. The sign says: apple."], seed=seed, extra_words=DIRECTIONS, width=16, layers=1,
                       heads=2, kv_heads=1, mlp=16)  # fmt: skip
    words = [made.tokenizer.convert_tokens_to_ids(word) for word in DIRECTIONS]
    with torch.no_grad():  # it answers every direction now and then
        made.model.get_input_embeddings().weight[words] *= 0.2
    return made.with_settings(admissible=True)


def played(context: Context = "expert", seed: int = 0) -> tuple[Any, Privileged, StepTable]:
    envs, player = Privileged(corridor(), demonstrations=True), policy()
    return player, envs, collect(envs, player, tasks=TASKS, group_size=4, seed=seed)


def test_contexts_and_wrong_twins_by_hand() -> None:
    _, notes, table = played()
    found = contexts("expert", table, notes)
    for row, text in enumerate(found.right):
        seen = notes.seen[str(table.groups[table.group[row]]), str(table.states[table.state[row]])]
        right = MEANING[seen.text.rpartition(": ")[2].rstrip(".")]
        assert text == f"The best command now: {right}"
        assert len(found.wrong[row]) == 3
        assert text not in found.wrong[row]
    shown = contexts("demonstration", table, notes)
    assert all(text is not None and text.count(";") == 2 for text in shown.right)
    after = contexts("next", table, notes)
    assert all((text is not None and "Room" in text) or "end of the corridor" in str(text) for text in after.right)
    table = episodes("s -one-> u -two-> goal +", "s -three-> u -four-> pit", "s -five-> pit", "v -six-> goal +")
    found = contexts("sibling", table)
    said = "From here it went on: "
    assert found.right == [None, None, f"{said}one; two", f"{said}two", f"{said}one; two", None]
    assert (found.wrong[0], found.wrong[1]) == ((f"{said}five", f"{said}three; four"), (f"{said}four",))
    assert found.under("wrong", table)[2] == f"{said}five"
    assert contexts("outcome", table).under("wrong", table)[0] == "This attempt will fail."
    assert contexts("feedback", table).right == [None] * 6
    player, notes, table = played()
    first, second = (table.keep(table.trajectory_group == group) for group in range(2))
    scorer = PrivilegedScorer(player, PrivilegedConfig(control="task"), notes)
    assert np.isnan(scorer.scores(first)).all()
    row = scorer.update(first, np.zeros(0), None, np.random.default_rng(0), 0.0)
    assert row == {"context_share": 0.0, "context_dropped": 0.0, "teacher_replies": 0.0}
    before = contexts("expert", first, notes).right
    assert contexts("expert", second, notes).under("task", second, elsewhere=before)[:4] == before[:4]  # type: ignore[arg-type]
    other = PrivilegedScorer(player, PrivilegedConfig(control="task"), notes)
    other.load_state_dict(scorer.state_dict())
    assert np.isfinite(other.scores(second)).all()
    np.testing.assert_array_equal(other.scores(second), scorer.scores(second))
    table = filled(
        group=list("gggh"), trajectory=list("abcd"), state=list("sssv"), action=["one", "two", "six", "one"],
        next_state=list("uswg"), won=[0, 0, 0, 1], valid=[True, False, True, True],
    )  # fmt: skip
    seen = {("g", state): Seen(text, (), ()) for state, text in (("u", "A hall."), ("w", "A yard."))}
    notes: Any = SimpleNamespace(seen=seen, solved={"g": ("one", "two"), "h": ("six",)})
    said = "What is seen next:\n"
    found = contexts("next", table, notes)
    assert found.right == [said + "A hall.", None, said + "A yard.", None]
    assert found.wrong[0] == (said + "A yard.",)
    assert found.wrong[2] == (said + "A hall.",)
    assert contexts("next", table, notes).under("wrong", table) == [said + "A yard.", None, said + "A hall.", None]
    shown = contexts("demonstration", table, notes)
    assert shown.right == ["It is done by: one; two"] * 3 + ["It is done by: six"]
    assert shown.under("wrong", table) == ["It is done by: six"] * 3 + ["It is done by: one; two"]
    refused = contexts("feedback", table)
    assert refused.right == [None, "The command will be refused.", None, None]
    assert refused.under("wrong", table) == [None, "The command will be accepted.", None, None]
    assert contexts("feedback", filled(state=["s"], next_state=["s"])).right == ["The command will change nothing."]
    assert contexts("outcome", table).under("wrong", table) == ["This attempt will succeed."] * 3 + [
        "This attempt will fail."
    ]


@pytest.mark.parametrize("control", ["task", "unrelated", "shuffled", "empty", "wrong"])
def test_controls_have_the_frame_and_another_body(control: Control) -> None:
    player, notes, table = played()
    found = contexts("expert", table, notes)
    texts = found.under(control, table)
    assert [text is None for text in texts] == [text is None for text in found.right]
    scorer = PrivilegedScorer(player, PrivilegedConfig(control=control), notes)
    right, other = scorer.prompts(table, found.right), scorer.prompts(table, texts)
    frame = scorer.block("")
    for mine, theirs, reply in zip(right, other, table.replies, strict=True):  # type: ignore[arg-type]
        assert mine[: len(frame) - 2] == theirs[: len(frame) - 2] == frame[:-2]
        assert mine[-len(reply.prompt_ids) :] == theirs[-len(reply.prompt_ids) :] == reply.prompt_ids
    if control == "task":
        other_group = {text for text, group in zip(found.right, table.group, strict=True) if group == 1}
        assert {text for text, group in zip(texts, table.group, strict=True) if group == 0} <= other_group


def test_a_clone_learns_to_read_what_stands_in_the_block() -> None:
    player, shown = policy(), TASKS
    envs = gym.make_vec("AgentRL/Corridor-v0", 3, autoreset_mode="Disabled", length=3, expert=True)
    envs = VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)
    rows = informed_demonstrations(player, envs, shown, {"expert": 1.0, "sibling": 2.0}, seed=0)
    assert len(rows) == 9 + 18
    said = [player.tokenizer.decode(row.prompt_ids) for row in rows]
    assert all("The best command now: " + row.text[8:-9] in text for row, text in zip(rows[:9], said[:9], strict=True))
    right = [MEANING[text.rpartition(": ")[2].split(".")[0]] for text in said]
    matching = [row.text == f"<action>{word}</action>" for row, word in zip(rows, right, strict=True)]
    assert 0 < sum(matching) < len(rows)  # some have block and reply of another step
    plain = informed_demonstrations(player, envs, shown, {"sibling": 1.0}, seed=0, swapped=0.0)
    first = [player.tokenizer.decode(row.prompt_ids).rpartition("From here it went on: ")[2] for row in plain]
    assert all(text.startswith(row.text[8:-9]) for row, text in zip(plain, first, strict=True))


def test_gaps_are_the_policys_own_and_prompts_that_do_not_fit_are_counted() -> None:
    player, notes, table = played()
    scorer = PrivilegedScorer(player, PrivilegedConfig(temperature=1.0), notes)
    prompts, found = scorer.informed(table), scorer.scores(table)
    for row in range(0, len(table), 3):
        reply = table.replies[row]  # type: ignore[index]
        scored = player.score([prompts[row]], [reply.token_ids], 1.0, allowed=[reply.allowed]).logprobs[0].tolist()
        np.testing.assert_allclose(found[row, : len(scored)], np.subtract(scored, reply.logprobs), atol=1e-5)
    contrast = PrivilegedScorer(player, PrivilegedConfig(contrast=True, temperature=1.0), notes).scores(table)
    assert np.isfinite(contrast).all()
    assert not np.allclose(contrast, found)
    player, notes, table = played()
    reply = table.replies[0]  # type: ignore[index]
    player.model.config.max_position_embeddings = len(reply.prompt_ids) + len(reply.token_ids) + 2
    scorer = PrivilegedScorer(player, PrivilegedConfig(), notes)
    assert np.isnan(scorer.scores(table)).all()
    assert scorer.dropped == len(table)
    row = scorer.update(table, np.zeros(0), None, np.random.default_rng(0), 0.0)
    assert row == {"context_share": 0.0, "context_dropped": 1.0, "teacher_replies": 0.0}


def test_actions_and_wrong_settings() -> None:
    player, notes, table = played()
    found = PrivilegedScorer(player, PrivilegedConfig(tokens="action"), notes).action_tokens(table)
    assert found.all()  # <action> ends the prompt, the reply is the word
    ids = tuple(player.tokenizer("<think>apple</think><action>north</action>", add_special_tokens=False)["input_ids"])
    bare = player.with_settings(prefix="", suffix="")
    reply = dataclasses.replace(table.replies[0], token_ids=ids, allowed=(), logprobs=(0.0,) * len(ids))  # type: ignore[index]
    table = dataclasses.replace(table, replies=np.full(len(table), reply))
    marked = PrivilegedScorer(bare, PrivilegedConfig(tokens="action"), notes).action_tokens(table)[0]
    assert player.tokenizer.decode([token for token, flag in zip(ids, marked, strict=True) if flag]) == "north"
    refuses(ValueError, "wrap the environments in it", lambda: PrivilegedScorer(policy(), PrivilegedConfig()))
    refuses(ValueError, "frame must be a text with one", PrivilegedConfig, frame="no place")
    assert Distillation().weight == 0


class TwoRewards(CorridorEnv):
    def describe(self, valid: bool) -> Any:
        earned = {"progress": float(self._room), "answer": float(self._won)}
        return {**super().describe(valid), "reward_components": earned}


class TwoRewardsVector(TextVectorEnv):
    env_class = TwoRewards


def test_reward_components_reach_the_table_and_train() -> None:
    def made(places: int) -> Any:
        envs = TwoRewardsVector(places, length=3, autoreset_mode="Disabled")
        return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)

    table = collect(made(4), policy(), tasks=TASKS[:1], group_size=4, seed=0)
    np.testing.assert_array_equal(table.reward_components["answer"], table.reward)
    rooms = [3 if "end" in str(table.states[i]) else int(str(table.states[i])) for i in table.next_state]
    np.testing.assert_array_equal(table.reward_components["progress"], rooms)
    alone = gym.vector.SyncVectorEnv(
        [lambda: TwoRewards(length=3)] * 2, autoreset_mode=gym.vector.AutoresetMode.DISABLED
    )
    played = collect(VectorReplyParser(adapt(alone)), RandomPolicy(), tasks=TASKS[:1], group_size=2, seed=0)
    assert list(played.reward_components or ()) == ["progress", "answer"]
    assert Trainer(policy(), made(8), recipe("grpo:rewards=components"), TASKS, CONFIG).run()[-1]["signal"] > 0


def trained(name: str, limit: int | None = None, **changes: Any) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
    method, player = recipe(name), policy()
    config = method.configure(CONFIG).changed(**changes)
    rows = Trainer(player, corridor(limit=limit), method, TASKS, config).run()
    return rows, [value.detach().clone() for value in player.model.parameters()]


def test_without_a_context_every_method_is_grpo_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, expected = trained("grpo")
    assert rows[-1]["signal"] > 0
    nothing = lambda self, table, texts: [()] * len(table)  # noqa: E731
    monkeypatch.setattr(PrivilegedScorer, "prompts", nothing)
    for name in ("sdpo", "rlsd", "rlcsd"):
        _, found = trained(name)
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True)), name


def test_turn_credit_trains_with_a_critic_of_outcomes() -> None:
    rows, _ = trained("turn_credit:scores=values")
    assert rows[-1]["signal"] > 0
    assert 0 < rows[-1]["value_loss"] < 1
    table = filled(trajectory=["a", "a", "b"], next_state=[0, 1, 0], reward=[-0.5, 2, -0.5], won=[1, 1, 0])
    for outcome, expected in (("won", [1, 1, 0]), ("return", [1.5, 1.5, -0.5])):
        found = recipe(f"turn_credit:scores=values:outcome={outcome}").estimate(table, np.zeros(3)).targets
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:training, iteration 2")  # that nobody wins
@pytest.mark.parametrize(
    "terms", [{}, {"alpha": 0.0}, {"alpha": 1.0, "top": None}, {"sampled": True}, {"entry_cap": 0.05}], ids=str
)
def test_sdpo_moves_the_policy_where_all_lost(terms: dict[str, Any]) -> None:
    # In two steps nobody passes three rooms.
    rows, found = trained("sdpo:grpo=0", limit=2, **{f"distillation.{key}": value for key, value in terms.items()})
    start = list(policy().model.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(start, found, strict=True))
    assert [row["success"] for row in rows[1:]] == [0.0, 0.0]
    assert rows[-1]["updates"] > 0
    assert rows[-1]["context_share"] == 1.0
    assert np.isfinite(rows[-1]["distillation_loss"])


def test_teachers_of_their_own_follow_the_policy() -> None:
    player, notes, table = played()
    made = {
        kind: PrivilegedScorer(player, PrivilegedConfig(teacher=kind, every=2, average=0.25), notes)  # type: ignore[arg-type]
        for kind in ("rollout", "start", "averaged", "snapshot")
    }
    before = next(player.model.parameters()).detach().clone()
    with torch.no_grad():
        next(player.model.parameters()).add_(1.0)
    moved = []
    for _ in range(2):
        for scorer in made.values():
            scorer.update(table, np.zeros(0), None, np.random.default_rng(0), 0.0)
        moved.append({kind: next(s.teacher.model.parameters()).detach() - before for kind, s in made.items()})
        moved[-1] = {kind: round(float(change.mean()), 4) for kind, change in moved[-1].items()}
    assert moved[0] == {"rollout": 1.0, "start": 0.0, "averaged": 0.25, "snapshot": 0.0}
    assert moved[1] == {"rollout": 1.0, "start": 0.0, "averaged": 0.4375, "snapshot": 1.0}
    other = PrivilegedScorer(player, PrivilegedConfig(teacher="averaged"), notes)
    other.load_state_dict(made["averaged"].state_dict())
    assert torch.equal(next(other.teacher.model.parameters()), next(made["averaged"].teacher.model.parameters()))
