"""IGPO's scorer: which tokens it asks for, behind which prompt, and where the answers come from."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401
from agentgym.rollout import collect
from agentgym.trajectory import Reply
from baselines.recipes import RECIPES
from baselines.scorers.answer_belief import AnswerBelief, AnswerBeliefConfig
from baselines.trainer import Trainer
from policies.prompts import FIRST_PICTURE
from policies.tiny import tiny_policy
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import CONFIG, TASKS, babbling_policy, corridor
from tests.baselines.test_trainer import trainer
from tests.refusals import refuses
from wrappers import VectorPromptWindow, VectorReplyParser
from wrappers.credit.igpo import igpo
from wrappers.credit.method import PENALTY

RIGHT = AnswerBeliefConfig(form="{}")


def test_the_belief_is_the_policys_probability_of_the_answer_behind_the_prompt() -> None:
    policy = babbling_policy()
    table = collect(corridor(), policy, tasks=TASKS, group_size=4, seed=0)
    beliefs = AnswerBelief(policy, lambda task: ("right",), RIGHT).scores(table)
    said = np.array(["right" in reply.text for reply in table.replies])  # type: ignore[union-attr]
    sampled = [np.exp(reply.logprobs[0]) for reply in table.replies]  # type: ignore[union-attr]
    np.testing.assert_allclose(beliefs[said], np.array(sampled)[said], atol=1e-5)
    assert ((beliefs > 0) & (beliefs < 1)).all()


def test_only_the_answers_own_tokens_count_and_several_are_a_geometric_mean() -> None:
    policy = tiny_policy(
        ["<answer> Ada Bell </answer>"], seed=0, max_new_tokens=4, pieces=(r" ?</?[a-z]+>", r" ?[A-Z][a-z]+")
    )
    encode = AnswerBelief(policy, lambda task: (), RIGHT).encode
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=1, seed=0)
    table = dataclasses.replace(table, replies=np.full(len(table), Reply("", encode(" Bell"), encode(" Ada"), (-1.0,))))
    config = AnswerBeliefConfig(form="<answer> {} </answer>", temperature=1.0)
    found = AnswerBelief(policy, lambda task: ("Ada Bell", "Bell"), config).scores(table)
    prompt, answer = encode(" Bell") + encode("<answer>"), encode(" Ada Bell")
    assert len(answer) == 2
    logprobs = policy.score([prompt], [answer], 1.0).logprobs[0].tolist()
    assert found == pytest.approx(np.exp(np.mean(logprobs)), abs=1e-5)
    log = AnswerBelief(policy, lambda task: ("Ada Bell",), dataclasses.replace(config, measure="log")).scores(table)
    assert log == pytest.approx(np.mean(logprobs), abs=1e-5)
    other = float(policy.score([prompt], [encode(" Bell")], 1.0).logprobs[0].exp().detach())
    best = AnswerBelief(policy, lambda task: ("Ada Bell", "Bell"), dataclasses.replace(config, golds="best"))
    assert best.scores(table) == pytest.approx(max(other, np.exp(np.mean(logprobs))), abs=1e-5)


def test_prompts_limits_and_tasks() -> None:
    policy = babbling_policy()
    scorer = AnswerBelief(policy, lambda task: ("right",), RIGHT)
    policy.model.config.max_position_embeddings = 3
    asked = scorer._asked(Reply("", (5, 6, 7, 8), (9,)), (1,), (2,))
    assert (asked.prompt_ids, asked.token_ids) == ((8, 1), (2,))
    # Two of a picture's three placeholders would be left.
    pictured = (5, *range(FIRST_PICTURE, FIRST_PICTURE + 3), 8)
    policy.model.config.max_position_embeddings = 5
    assert scorer._asked(Reply("", pictured, (9,)), (1,), (2,)).prompt_ids == (8, 1)
    pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike
    policy = tiny_vision_policy(["up"], seed=0, layers=1, width=16, heads=2, mlp=16, positions=96)
    assert AnswerBelief(policy, lambda task: ("up",), RIGHT).positions == 96
    scorer = AnswerBelief(babbling_policy(), {"start-1": ("right",)}.get, RIGHT)  # type: ignore[arg-type]
    assert scorer.golds_of("start-1 (2)") == ("right",)
    assert scorer.golds_of("start-1 (2), round 3") == ("right",)  # what dynamic sampling makes of it
    with pytest.raises(ValueError, match=r"the task 'start-2' has no golden answer: beliefs need one for every task"):
        scorer.golds_of("start-2")
    with pytest.raises(ValueError, match="a golden answer without tokens has no likelihood, got ''"):
        AnswerBelief(babbling_policy(), lambda task: ("",), RIGHT)._answer("")


def searchqa(**options: object) -> VectorPromptWindow:
    envs = gym.make_vec("AgentRL/SearchQA-v0", num_envs=2, autoreset_mode="Disabled", max_turns=1, **options)
    return VectorPromptWindow(VectorReplyParser(envs), instructions=False)


def test_search_qa_tells_the_trainer_and_nobody_else() -> None:
    envs = searchqa()
    observations, infos = envs.reset(seed=0, options=[{"index": 0}, {"index": 1}])
    for i, task in enumerate(infos["task_id"]):
        gold = envs.unwrapped.call("gold_answers", task)[0]
        assert gold == envs.unwrapped.envs[i].question.golds  # type: ignore[attr-defined]
        shown = repr([observations[i], [infos[name][i] for name in infos if not name.startswith("_")]])
        assert all(text not in shown for text in gold if text not in ("yes", "no"))
    assert envs.unwrapped.call("gold_answers", "no such question") == ((), ())
    policy = tiny_policy(["<answer>"], seed=0, max_new_tokens=2)
    scorer = AnswerBeliefConfig().make_in(policy, envs)
    assert scorer.config.form == "<answer> {} </answer>"
    assert scorer.golds_of(infos["task_id"][0]) == envs.unwrapped.envs[0].question.golds[:1]  # type: ignore[attr-defined]


def test_unknown_answers_and_wrong_settings_are_refused() -> None:
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=2, autoreset_mode="Disabled")
    window = VectorPromptWindow(VectorReplyParser(envs), instructions=False)
    with pytest.raises(ValueError, match=r"an environment that knows it, and .* has no `gold_answers\(task_id\)`"):
        Trainer(babbling_policy(), window, RECIPES["igpo"], [{"index": 0}], CONFIG)
    with pytest.raises(ValueError, match="an environment that knows it, and none was given"):
        AnswerBeliefConfig().make(babbling_policy())
    refuses(ValueError, r"form must be '' or a text with one \{\}", AnswerBeliefConfig, form="<answer>")
    refuses(ValueError, "golds must be 'first' or 'best', got 'all'", AnswerBeliefConfig, golds="all")
    with pytest.raises(ValueError, match="needs the form of an answer"):
        AnswerBelief(babbling_policy(), lambda task: ("right",), AnswerBeliefConfig())


def test_the_recipe_gives_the_functions_advantages_and_logs_the_beliefs() -> None:
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)
    beliefs = np.random.default_rng(0).random(len(table))
    found = RECIPES["igpo"].with_options(compare="separate").estimate(table, beliefs)
    np.testing.assert_array_equal(found.advantages, igpo(table, beliefs=beliefs, compare="separate", **PENALTY))
    assert found.figures == {
        "belief": pytest.approx(beliefs.mean()), "belief_last": pytest.approx(beliefs[table.last].mean())
    }  # fmt: skip
    rows = trainer(babbling_policy(), credit=RECIPES["igpo"], iterations=8, group_size=8, kl=0.0).run()
    assert rows[-1]["belief"] > rows[1]["belief"]  # the corridor's right answer is "right"
