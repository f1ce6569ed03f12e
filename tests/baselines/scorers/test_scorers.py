"""What scorers have in common, and those without a network: distances, exact gains, beliefs."""

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from agentgym.rollout import collect
from agentgym.trajectory import Reply, StepTable
from baselines.config import TrainerConfig
from baselines.experience import adapted
from baselines.learner import Learner
from baselines.recipes import RECIPES, recipe
from baselines.scorers.action_value import ActionValue, ActionValueConfig
from baselines.scorers.answer_belief import AnswerBelief, AnswerBeliefConfig
from baselines.scorers.contribution import Contribution, ContributionConfig
from baselines.scorers.critic import Critic, CriticConfig
from baselines.scorers.exact_gain import ExactGain, ExactGainConfig
from baselines.scorers.hindsight import Hindsight, HindsightConfig
from baselines.scorers.implicit_reward import ImplicitReward, ImplicitRewardConfig
from baselines.scorers.reply_in_hindsight import ReplyInHindsightConfig
from baselines.scorers.scorer import ScorerConfig
from baselines.scorers.segmented_reward import SegmentedRewardConfig
from baselines.scorers.task_distance import TaskDistance, TaskDistanceConfig
from baselines.trainer import Trainer
from policies.lora import LoraSettings, add_lora
from policies.prompts import FIRST_PICTURE
from policies.scripted import RandomPolicy
from policies.tiny import tiny_policy
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import (
    CONFIG,
    TASKS,
    babbling_policy,
    corridor,
    digest,
    goes_on_exactly,
    small_policy,
    trainer,
)
from tests.baselines.scorers.fixed import Fixed
from tests.baselines.scorers.heads import learn, played
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers import VectorPromptWindow
from wrappers.credit import action_targets
from wrappers.credit.graphgpo import graphgpo
from wrappers.distance import Distances
from wrappers.reply import VectorReplyParser

RATE = 1e-3


@cases(
    "scorer, config",
    (ActionValue, ActionValueConfig(minibatch_rows=2)),
    (Contribution, ContributionConfig(minibatch_trajectories=5, head="mlp")),
    (Hindsight, HindsightConfig(minibatch_rows=4)),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1)),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1, reference="start", loss="ce")),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1, centre=True)),
    (ImplicitReward, ImplicitRewardConfig(minibatch_groups=1, centre="group", level="token")),
)
def test_a_loaded_state_goes_on_to_the_bit(scorer: Callable[..., Any], config: Any) -> None:
    tables = [played(seed=seed) for seed in range(4)]
    straight, rng = scorer(babbling_policy(), config), np.random.default_rng(1)
    expected = [learn(straight, table, RATE, rng) for table in tables]
    first, rng = scorer(babbling_policy(), config), np.random.default_rng(1)
    rows = [learn(first, table, RATE, rng) for table in tables[:2]]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    # Other weights than it began with, but where the policy itself is what it is compared with.
    second = scorer(babbling_policy() if scorer is ImplicitReward else small_policy(seed=1), config)
    second.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    assert rows + [learn(second, table, RATE, rng) for table in tables[2:]] == expected
    np.testing.assert_array_equal(second.scores(tables[0]), straight.scores(tables[0]))
    for name, value in straight.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name])


@cases(
    "scorer, config",
    (ActionValue, ActionValueConfig()), (Contribution, ContributionConfig()), (Critic, CriticConfig()),
    (Hindsight, HindsightConfig()), (ImplicitReward, ImplicitRewardConfig()),
    (ImplicitReward, ImplicitRewardConfig(reference="start")),
    (ImplicitReward, ImplicitRewardConfig(centre=True)),
)  # fmt: skip
def test_beside_an_adapter_the_base_is_shared_and_stands_still(scorer: Callable[..., Any], config: Any) -> None:
    policy = add_lora(babbling_policy(), LoraSettings(rank=2, alpha=4.0), seed=0)
    before = digest(policy)
    made, table = scorer(policy, config), played()
    theirs = {weight.data_ptr() for weight in policy.model.parameters() if not weight.requires_grad}
    headed = hasattr(made.model, "trunk")
    trunk = made.model.trunk if headed else made.model
    assert {weight.data_ptr() for weight in trunk.parameters() if not weight.requires_grad} <= theirs
    for _ in range(2):
        learn(made, table)
    assert (made.scores(table) != (1.0 if scorer is Hindsight else 0.0)).any()  # what a new one says
    assert digest(policy) == before
    state = made.state_dict()
    assert all("lora_" in name or (headed and not name.startswith("trunk")) for name in state["model"])
    assert "start" not in state


def won(table: StepTable) -> float:
    return float(table.trajectory_won.mean())


def worth(table: StepTable) -> float:
    return float(np.mean(action_targets(table, gamma=0.95, outcome="won") ** 2))


@cases(
    "scorer, config, unlearned",
    (ActionValue, ActionValueConfig(loss="cross-entropy", minibatch_rows=1000), lambda table: np.log(2)),
    (ActionValue, ActionValueConfig(loss="squared", minibatch_rows=1000), worth),
    (Contribution, ContributionConfig(head="linear"), won),
    (Contribution, ContributionConfig(head="mlp"), won),
    (Hindsight, HindsightConfig(hindsight="outcome"), None),
    (Hindsight, HindsightConfig(hindsight="cloze"), None),
    (ImplicitReward, ImplicitRewardConfig(loss="pair", beta=0.5), lambda table: np.log(2)),  # of ratios that are 1
    (ImplicitReward, ImplicitRewardConfig(loss="ce", beta=0.5), lambda table: np.log(2)),
)
def test_a_new_one_says_nothing_and_one_update_moves_it_and_lowers_its_loss(
    scorer: Callable[..., Any], config: Any, unlearned: Callable[..., float] | None
) -> None:
    table, policy = played(), babbling_policy() if scorer in (Hindsight, ImplicitReward) else small_policy()
    made, kept = scorer(policy, config), digest(policy)
    before = {name: weight.clone() for name, weight in made.model.named_parameters()}
    assert np.array_equal(made.scores(table), np.full(len(table), float(scorer is Hindsight)))
    first, second, third = (learn(made, table, RATE) for _ in range(3))
    assert unlearned is None or first["prm_loss"] == pytest.approx(unlearned(table), abs=1e-5)
    assert third["prm_loss"] < second["prm_loss"] < first["prm_loss"]
    moved = {name.split(".")[0] for name, weight in made.model.named_parameters() if (weight != before[name]).any()}
    assert moved == ({"trunk", "head"} if hasattr(made.model, "trunk") else {"model"})
    assert digest(policy) == kept
    assert first.get("explained_variance", 0.0) == 0.0  # it said the same everywhere
    if getattr(config, "loss", "") == "cross-entropy":
        assert ((made.scores(table) > 0) & (made.scores(table) < 1)).all()


@cases(
    "config, changes, words",
    (ScorerConfig, {"level": "word"}, "level 'word'; known: 'turn', 'token'"),
    (ScorerConfig, {"rate": 0.0}, "rate must be above 0"),
    (ScorerConfig, {"microbatch_tokens": 0}, "microbatch_tokens must be None or at least 1"),
    (ActionValueConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (ActionValueConfig, {"loss": "hinge"}, "loss 'hinge'; known: 'cross-entropy', 'squared'"),
    (ActionValueConfig, {"gamma": 1.5}, "gamma must be between 0 and 1"),
    (ActionValueConfig, {"unit": "board"}, "unit .*; known: 'history', 'state'"),
    (ContributionConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (ContributionConfig, {"head": "deep"}, "head 'deep'; known: 'linear', 'mlp'"),
    (ContributionConfig, {"segments": 4}, "segments must be a function"),
    (SegmentedRewardConfig, {"alpha": 1.5}, "alpha must be between 0 and 1, got 1.5"),
    (SegmentedRewardConfig, {"scale": "two"}, "scale .*; known: 'outcome', 'one', 'predicted'"),
    (SegmentedRewardConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (CriticConfig, {"epochs": 0}, "epochs must be at least 1"),
    (CriticConfig, {"value_clip": 0.0}, "value_clip must be None or above 0"),
    (ImplicitRewardConfig, {"beta": 0.0}, "ImplicitRewardConfig.beta must be above 0, got 0.0"),
    (ImplicitRewardConfig, {"loss": "dpo"}, "loss 'dpo'; known: 'pair', 'ce'"),
    (ImplicitRewardConfig, {"centre": "all"}, "centre 'all'; known: 'False', 'True', 'group'"),
    (ImplicitRewardConfig, {"centre": True, "reference": "start"}, "centre must be False or 'group' with reference='s"),
    (ImplicitRewardConfig, {"margin": -1.0}, "margin must be None or at least 0"),
    (HindsightConfig, {"level": "token"}, r"HindsightConfig\.level .*; known: 'turn'"),
    (ReplyInHindsightConfig, {"final": "end"}, "final 'end'; known: 'state', 'outcome'"),
    (ReplyInHindsightConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (ReplyInHindsightConfig, {"temperature": 0.0}, "temperature must be None or above 0"),
    (TaskDistanceConfig, {"gamma": 0.0}, "gamma must be above 0 and at most 1"),
    (TaskDistanceConfig, {"level": "token"}, "level .*; known: 'turn'"),
    (TaskDistanceConfig, {"max_tasks": 0}, "max_tasks must be None or at least 1"),
)
def test_a_wrong_setting_is_named(config: Callable[..., Any], changes: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, config, **changes)


def test_scorers_are_given_and_learn_after_or_before() -> None:
    after, before = Fixed(), Fixed("before")
    for scorer in (after, before):
        rows = trainer(iterations=1, credit=RECIPES["judge"], scorer=scorer).run()
        assert rows[-1]["asked"] > 0
        assert rows[-1]["prm_pair_accuracy"] in (0.5, 1.0)  # won episodes are those it scores
    assert after.seen == [("scores", None), ("update", None)]
    assert before.seen == [("scores", None), ("update", None), ("scores", None)]
    with pytest.raises(ValueError, match=r"judge needs scores and makes no scorer: pass one, Trainer\(..., scorer="):
        trainer(credit=RECIPES["judge"])
    refuses(NotImplementedError, "ScorerConfig makes no scorer", lambda: ScorerConfig().make(small_policy()))


def test_its_state_is_in_the_checkpoint_and_so_are_its_settings(tmp_path: Path) -> None:
    trainer(iterations=2, credit=RECIPES["judge"], scorer=Fixed(), folder=tmp_path).run()
    resumed = Fixed()
    trainer(iterations=2, credit=RECIPES["judge"], scorer=resumed, folder=tmp_path, resume=True)
    assert resumed.seen == [("loaded", None)] * 4
    with pytest.raises(ValueError, match=r"scorer\.order: checkpoint after, here before"):
        trainer(iterations=2, credit=RECIPES["judge"], scorer=Fixed("before"), folder=tmp_path, resume=True)


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.scorer is not None])
def test_a_stopped_run_goes_on_exactly(name: str, tmp_path: Path) -> None:
    goes_on_exactly(tmp_path, 1, credit=RECIPES[name], iterations=2)


WON = episodes("s -right-> u -up-> goal +", "s -left-> pit")
LOST = episodes("s -right-> u -down-> pit", "s -left-> pit")


def learn_distances(scorer: TaskDistance, table) -> dict[str, float]:
    return scorer.update(table, scorer.scores(table), None, np.random.default_rng(0), 1e-3)


def test_distances_gains_and_dead_ends_by_hand() -> None:
    scorer = TaskDistance(TaskDistanceConfig(gamma=0.5))
    assert scorer.scores(LOST).tolist() == [0, 0, 0]
    assert scorer.scores(WON).tolist() == [0.5, 1, 0]
    assert scorer.scores(LOST).tolist() == [0, 0, 0]  # nothing is learned from being asked
    assert learn_distances(scorer, WON) == {"tasks_seen_before": 0, "tasks_known": 1, "states_known": 4}
    assert scorer.scores(LOST).tolist() == [0.5, 0, 0]
    assert learn_distances(scorer, LOST)["tasks_seen_before"] == 1
    won = dataclasses.replace(WON, groups=("level 7",))
    again = dataclasses.replace(LOST, groups=("level 7, round 2",))  # what dynamic sampling calls it
    scorer = TaskDistance(TaskDistanceConfig(gamma=0.5))
    learn_distances(scorer, won)
    assert scorer.scores(again).tolist() == [0.5, 0, 0]
    assert learn_distances(scorer, again) == {"tasks_seen_before": 1, "tasks_known": 1, "states_known": 4}
    found = recipe("tigpo").estimate(WON, TaskDistance().scores(WON)).advantages
    assert found == pytest.approx(graphgpo(WON, omega=0.8, unit="visit", exponent="next", unreachable="infinite"))
    envs, table = played_at_random("back")
    scores = ExactGain(envs.found).scores(table)
    room = np.array([3 if str(s).startswith("end") else int(s) for s in table.states])
    np.testing.assert_array_equal(scores, room[table.next_state] - room[table.state])
    assert {-1.0, 0.0, 1.0} == set(scores)  # 0: back in the first room
    envs, table = played_at_random("end")
    scores = ExactGain(envs.found, ExactGainConfig(dead_end=-2.0)).scores(table)
    lost = np.array(["[failure]" in str(table.states[state]) for state in table.next_state])
    assert lost.any()
    np.testing.assert_array_equal(scores, np.where(lost, -2.0, 1.0))
    table = filled(group=["g", "g"], state=["s", "pit"], next_state=["pit", "pit"], truncated=[0, 1])
    found = {("g", "s"): (2.0, 2.0), ("g", "pit"): (np.inf, np.inf)}
    np.testing.assert_array_equal(ExactGain(found).scores(table), [-3.0, np.nan])
    table = filled(group=["g, round 2"], state=["s"], next_state=["u"])
    assert ExactGain({("g", "s"): (2.0, 2.0), ("g", "u"): (1.0, 1.0)}).scores(table) == [1.0]


def corridors(num_envs, **options):
    return VectorReplyParser(
        gym.make_vec("AgentRL/Corridor-v0", num_envs, autoreset_mode="Disabled", length=3, **options)
    )


def played_at_random(wrong, **options):
    envs = Distances(corridors(8, wrong=wrong, **options))
    return envs, collect(envs, RandomPolicy(), tasks=[{"split": "train", "index": 0}], group_size=8, seed=0)


def test_a_trainer_wraps_its_environments_for_the_oracle_and_needs_their_distances():
    envs = corridors(4)
    oracle, config = recipe("oracle"), TrainerConfig(groups=1, group_size=4)
    wrapped, first = adapted(envs, None, oracle, config)
    assert isinstance(wrapped, Distances)
    learner = Learner(babbling_policy(), oracle, config, None, first)
    table = collect(wrapped, RandomPolicy(), tasks=[{"split": "train", "index": 1}], group_size=4, seed=0)
    scores, estimate = learner.estimate(table)
    right = scores == 1.0
    assert right.any()
    assert estimate.advantages[right].min() > estimate.advantages[~right].max()
    assert estimate.advantages.mean() == pytest.approx(0.0, abs=1e-9)  # all of the actions were valid
    refuses(ValueError, "expected one lane, got 2", adapted, [envs, envs], None, oracle, config)
    with pytest.raises(ValueError, match=r"WebShopEnv has no distance\(\)"):
        ExactGainConfig().check_envs(lambda: gym.make_vec("AgentRL/WebShop-v0", 1, autoreset_mode="Disabled"))
    refuses(ValueError, "come from environments", lambda: ExactGainConfig().make(None))
    found = recipe("grpo:resample_rounds=4:std=none")
    assert found.name == "grpo:std=none:resample_rounds=4"
    assert found.configure(TrainerConfig()).rollout.resample_rounds == 4
    refuses(ValueError, "resample_rounds must be a number, got 'x'", recipe, "grpo:resample_rounds=x")


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


def test_prompts_limits_tasks_and_unknown_answers() -> None:
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
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=2, autoreset_mode="Disabled")
    window = VectorPromptWindow(VectorReplyParser(envs), instructions=False)
    with pytest.raises(ValueError, match=r"an environment that knows it, and .* has no `gold_answers\(task_id\)`"):
        Trainer(babbling_policy(), window, RECIPES["igpo"], [{"index": 0}], CONFIG)
    with pytest.raises(ValueError, match="an environment that knows it, and none was given"):
        AnswerBeliefConfig().make(babbling_policy())
    refuses(ValueError, r"form must be '' or a text with one \{\}", AnswerBeliefConfig, form="<answer>")
    refuses(ValueError, "golds 'all'; known: 'first', 'best'", AnswerBeliefConfig, golds="all")
    with pytest.raises(ValueError, match="needs the form of an answer"):
        AnswerBelief(babbling_policy(), lambda task: ("right",), AnswerBeliefConfig())


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
