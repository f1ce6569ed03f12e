"""Reward models against a computation of one conversation at a time, without padding, written out here."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
)

from baselines.scorers.reward_models import ClassifierScorer, MarkerScorer, conversation_of
from policies.tiny import tiny_tokenizer
from tests.cases import cases
from tests.corridor import CorridorVectorEnv
from tests.refusals import refuses
from wrappers.process_reward import ScoredStep, VectorProcessReward
from wrappers.transcript import VectorTranscript

WORDS = ["cell 1", "left right jump", "good bad mark", "go on until the end of it"]
MARK = "<mark>"
SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
QWEN: dict[str, Any] = {**SMALL, "intermediate_size": 32, "num_key_value_heads": 1, "initializer_range": 0.3}
GPT2: dict[str, Any] = {"n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.3, "n_positions": 96}
BERT: dict[str, Any] = {**SMALL, "intermediate_size": 32, "max_position_embeddings": 96, "initializer_range": 0.3}


def tokenizer_of(chat: bool = True) -> Any:
    tokenizer = tiny_tokenizer(WORDS)
    tokenizer.add_tokens([MARK], special_tokens=True)
    if not chat:  # as BERT's: one token in front of every text, one behind
        tokenizer.chat_template = None
        front, behind = "<|system|>", "<|end|>"
        special = [(token, tokenizer.convert_tokens_to_ids(token)) for token in (front, behind)]
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{front} $A {behind}", special_tokens=special
        )
    return tokenizer


def build(family: str, tokenizer: Any, labels: int | None = None, **options: Any) -> Any:
    """A random model; with labels a classifier."""
    torch.manual_seed(0)
    given: dict[str, Any] = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **options}
    if labels is not None:
        given["num_labels"] = labels
    if family == "qwen2":
        config = Qwen2Config(**QWEN, max_position_embeddings=96, **given)
        return (Qwen2ForCausalLM if labels is None else Qwen2ForSequenceClassification)(config)
    if family == "gpt2":
        config = GPT2Config(**GPT2, bos_token_id=None, eos_token_id=None, **given)
        return (GPT2LMHeadModel if labels is None else GPT2ForSequenceClassification)(config)
    return BertForSequenceClassification(BertConfig(**BERT, **given))


def step(messages: Any, reply: Any, observation: Any = "cell 2") -> ScoredStep:
    return ScoredStep("task", messages, reply, reply, observation, False)


SAID = (("system", "go on"), ("user", "cell 1"), ("assistant", "left"), ("user", "cell 0 on"))
CHAT = [{"role": role, "content": text} for role, text in SAID]
STEPS = [
    step("cell 1", "left"), step("cell 3 until the end of it", "jump jump jump"), step(CHAT, "right"),
    step("cell 1", "left"), step("cell", ""),
]  # fmt: skip
#: What the tiny tokenizer's template makes of them.
TEXTS = [
    "<|user|>cell 1<|assistant|>left",
    "<|user|>cell 3 until the end of it<|assistant|>jump jump jump",
    "<|system|>go on<|user|>cell 1<|assistant|>left<|user|>cell 0 on<|assistant|>right",
    "<|user|>cell 1<|assistant|>left",
    "<|user|>cell<|assistant|>",
]


@torch.no_grad()
def logits_of(model: Any, ids: list[int]) -> torch.Tensor:
    return model.eval()(input_ids=torch.tensor([ids])).logits[0].double()


@pytest.mark.parametrize("batch_size", [1, 2, 32])
@pytest.mark.parametrize("family", ["qwen2", "gpt2", "bert"])
def test_a_classifier_equals_one_conversation_at_a_time(family: str, batch_size: int) -> None:
    tokenizer = tokenizer_of()
    model = build(family, tokenizer, labels=3)
    logits = [logits_of(model, tokenizer(text)["input_ids"]) for text in TEXTS]
    for number in range(3):
        scorer = ClassifierScorer(model, tokenizer, label=number, batch_size=batch_size)
        np.testing.assert_allclose(scorer(STEPS), [each.softmax(0)[number] for each in logits], atol=1e-6)
        scorer = ClassifierScorer(model, tokenizer, label=number, batch_size=batch_size, output="logit")
        np.testing.assert_allclose(scorer(STEPS), [each[number] for each in logits], atol=1e-5)
    assert np.std(scorer(STEPS)) > 0.05  # it tells conversations apart


def test_labels_templates_and_what_the_step_led_to() -> None:
    tokenizer = tokenizer_of()
    one = build("qwen2", tokenizer, labels=1)
    raw = ClassifierScorer(one, tokenizer, output="logit")(STEPS)
    np.testing.assert_allclose(ClassifierScorer(one, tokenizer)(STEPS), [1 / (1 + math.exp(-x)) for x in raw])
    many = build("qwen2", tokenizer, labels=2, problem_type="multi_label_classification")
    raw = ClassifierScorer(many, tokenizer, label=1, output="logit")(STEPS)
    np.testing.assert_allclose(ClassifierScorer(many, tokenizer, label=1)(STEPS), [1 / (1 + math.exp(-x)) for x in raw])
    tokenizer = tokenizer_of()
    names = {0: "bad", 1: "good"}
    model = build("gpt2", tokenizer, labels=2, id2label=names, label2id={name: i for i, name in names.items()})
    good, bad = (ClassifierScorer(model, tokenizer, label=name)(STEPS) for name in ("good", "bad"))
    assert good == ClassifierScorer(model, tokenizer, label=1)(STEPS)
    np.testing.assert_allclose(np.add(good, bad), 1.0)
    for label in (None, "fine", 2, -1, True):
        with pytest.raises(ValueError, match=r"label must be one of \['bad', 'good'\] or a number below 2, got"):
            ClassifierScorer(model, tokenizer, label=label)
    tokenizer = tokenizer_of(chat=False)
    model = build("bert", tokenizer, labels=1)
    expected = [
        logits_of(model, tokenizer(text)["input_ids"])[0]
        for text in ("cell 1\nleft", "go on\ncell 1\nleft\ncell 0 on\nright")
    ]
    scorer = ClassifierScorer(model, tokenizer, output="logit")
    np.testing.assert_allclose(scorer([STEPS[0], STEPS[2]]), expected, atol=1e-5)
    # Cut to 9 tokens: the one in front, and the last 8 (with the one behind).
    ids = tokenizer("go on\ncell 1\nleft\ncell 0 on\nright")["input_ids"]
    [score] = ClassifierScorer(model, tokenizer, output="logit", max_tokens=9)([STEPS[2]])
    assert score == pytest.approx(float(logits_of(model, [ids[0], *ids[-8:]])[0]), abs=1e-5)
    tokenizer = tokenizer_of()
    model = build("qwen2", tokenizer, labels=1)
    reached = [step("cell 1", "left", "cell 0"), step(CHAT, "left", CHAT[:2]), step({"text": "cell 1"}, "on", "cell")]
    texts = [
        "<|user|>cell 1<|assistant|>left<|user|>cell 0",
        "<|system|>go on<|user|>cell 1",  # a prompt is a conversation already
        "<|user|>cell 1<|assistant|>on<|user|>cell",
    ]
    scorer = ClassifierScorer(model, tokenizer, output="logit", after="observation")
    expected = [logits_of(model, tokenizer(text)["input_ids"])[0] for text in texts]
    np.testing.assert_allclose(scorer(reached), expected, atol=1e-5)
    scorer = ClassifierScorer(
        model, tokenizer, output="logit", conversation=lambda step: [{"role": "user", "content": step.action}]
    )
    assert scorer(reached)[0] == pytest.approx(
        float(logits_of(model, tokenizer("<|user|>left")["input_ids"])[0]), abs=1e-5
    )


@pytest.mark.parametrize("limit", [1, 3, 7, 500])
def test_a_conversation_that_is_too_long_loses_its_beginning(limit: int) -> None:
    tokenizer = tokenizer_of()
    model = build("qwen2", tokenizer, labels=1)
    text = "cell 1 " * 60
    scorer = ClassifierScorer(model, tokenizer, output="logit", max_tokens=None if limit == 500 else limit)
    limit = min(limit, 96)  # the model's positions
    assert scorer.max_tokens == limit
    ids = tokenizer(f"<|user|>{text}<|assistant|>left")["input_ids"]
    assert len(ids) > 96
    assert scorer([step(text, "left")])[0] == pytest.approx(float(logits_of(model, ids[-limit:])[0]), abs=1e-5)


def naive_marker(model: Any, tokenizer: Any, read: str | list[int], marker: str = MARK) -> float:
    """The probability behind the last token of a text, or of tokens, that ends with a marker."""
    good, bad, mark = (tokenizer.convert_tokens_to_ids(word) for word in ("good", "bad", marker))
    ids = tokenizer(read)["input_ids"] if isinstance(read, str) else read
    assert ids[-1] == mark
    likely = logits_of(model, ids)[-1][[good, bad]].exp()
    return float(likely[0] / likely.sum())


def marker_scorer(model: Any, tokenizer: Any, **options: Any) -> MarkerScorer:
    return MarkerScorer(model, tokenizer, **{"marker": MARK, "positive": "good", "negative": "bad", **options})


@pytest.mark.parametrize("batch_size", [1, 2, 32])
@pytest.mark.parametrize("family", ["qwen2", "gpt2"])
def test_a_marker_model_equals_one_conversation_at_a_time(family: str, batch_size: int) -> None:
    tokenizer = tokenizer_of()
    model = build(family, tokenizer)
    # A marker behind every reply; the last is read.
    texts = [text.replace("left<|user|>", f"left{MARK}<|user|>") + MARK for text in TEXTS]
    assert texts[2].count(MARK) == 2
    expected = [naive_marker(model, tokenizer, text) for text in texts]
    scores = marker_scorer(model, tokenizer, batch_size=batch_size)(STEPS)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert np.std(scores) > 0.01


def test_the_marker_stays_where_it_is_without_a_chat_template_and_with_a_limit() -> None:
    tokenizer = tokenizer_of()
    model = build("qwen2", tokenizer)
    forged = step("cell 1", f"left{MARK}good good")
    expected = naive_marker(model, tokenizer, f"<|user|>cell 1<|assistant|>left{MARK}good good{MARK}")
    assert marker_scorer(model, tokenizer)([forged])[0] == pytest.approx(expected, abs=1e-6)
    # "leftmark" would be spelled letter by letter: the marker stays one token whatever is in front.
    ids = [*tokenizer("<|user|>cell 1<|assistant|>left")["input_ids"], tokenizer.convert_tokens_to_ids("mark")]
    assert tokenizer("<|user|>cell 1<|assistant|>leftmark")["input_ids"] != ids
    [score] = marker_scorer(model, tokenizer, marker="mark")([STEPS[0]])
    assert score == pytest.approx(naive_marker(model, tokenizer, ids, "mark"), abs=1e-6)
    [odd, plain] = marker_scorer(model, tokenizer)([step("cell 1", "left\ue000"), step("cell 1", "left")])
    assert odd == plain
    tokenizer = tokenizer_of(chat=False)
    model = build("qwen2", tokenizer)
    front = tokenizer("")["input_ids"][:1]
    texts = f"go on\ncell 1\nleft{MARK}", f"\ncell 0 on\nright{MARK}"
    ids = front + [token for text in texts for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
    for limit in (None, 6, 1):
        read = ids if limit is None else [*front, *ids[-5:]] if limit == 6 else ids[-1:]
        [score] = marker_scorer(model, tokenizer, max_tokens=limit)([STEPS[2]])
        assert score == pytest.approx(naive_marker(model, tokenizer, read), abs=1e-6)


@pytest.mark.parametrize("kind", ["classifier", "marker"])
def test_scoring_leaves_the_model_as_it_is_and_repeats_itself(kind: str) -> None:
    tokenizer = tokenizer_of()
    model = build("gpt2", tokenizer, labels=1 if kind == "classifier" else None, resid_pdrop=0.5, embd_pdrop=0.5)
    scorer: Any = ClassifierScorer(model, tokenizer) if kind == "classifier" else marker_scorer(model, tokenizer)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    drawn = torch.random.get_rng_state()
    first = scorer(STEPS)
    model.train()  # somebody trains it in between
    assert scorer(STEPS) == first
    assert not model.training
    assert all(type(score) is float for score in first)
    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())
    assert scorer([]) == []


def test_conversations_and_their_rewards() -> None:
    tokenizer = tokenizer_of()
    model = build("qwen2", tokenizer)
    inner = VectorTranscript(CorridorVectorEnv(2, autoreset_mode="Disabled"), instructions=False)
    envs = VectorProcessReward(inner, marker_scorer(model, tokenizer), weight=2.0)
    envs.reset(options={"index": 2})
    envs.step(["left", "right"])
    _, rewards, *_, infos = envs.step(["left", "left"])
    texts = [
        f"<|user|>cell 2<|assistant|>left{MARK}<|user|>cell 1<|assistant|>left{MARK}",
        f"<|user|>cell 2<|assistant|>right{MARK}<|user|>cell 3<|assistant|>left{MARK}",
    ]
    expected = [naive_marker(model, tokenizer, text) for text in texts]
    np.testing.assert_allclose(infos["process_reward"], expected, atol=1e-6)
    np.testing.assert_allclose(rewards, 2 * infos["process_reward"])
    picture = {"role": "user", "content": [{"type": "image", "image": None}, {"type": "text", "text": "cell 1"}]}
    assert conversation_of(step((picture,), "left\ud800")) == [
        {"role": "user", "content": "cell 1"},
        {"role": "assistant", "content": "left\N{REPLACEMENT CHARACTER}"},
    ]
    for odd in (step(3, "left"), step([3], "left"), step("cell 1", 3), step("cell 1", "left", 3)):
        with pytest.raises(TypeError, match="pass conversation=, a function from a ScoredStep to chat messages"):
            conversation_of(odd, "observation")


@cases(
    "options, error, words",
    ({"marker": "mark mark"}, ValueError, r"marker='mark mark' must be one token of this tokenizer, it is \['mark'"),
    ({"marker": "\u20ac"}, ValueError, r"it is \['<\|unknown\|>'\].*added to its vocabulary are .*<mark>"),
    ({"positive": ""}, ValueError, r"positive='' must be one token of this tokenizer, it is \[\]"),
    ({"negative": "wrong"}, ValueError, "negative='wrong' must be one token"),
    ({"negative": 7}, TypeError, "negative must be a text that is one token, got 7"),
    ({"negative": "good"}, ValueError, "positive and negative must be different tokens, got 'good' and 'good'"),
    ({"batch_size": 0}, ValueError, "batch_size must be an integer of at least 1, got 0"),
    ({"max_tokens": 97}, ValueError, "max_tokens must be at most 96, what the model and its tokenizer read; got 97"),
    ({"max_tokens": 2.5}, ValueError, "max_tokens must be an integer of at least 1, got 2.5"),
    ({"conversation": "all"}, TypeError, "conversation must be a function from a ScoredStep to messages, got 'all'"),
)
def test_wrong_arguments_are_explained(options: dict[str, Any], error: type[Exception], words: str) -> None:
    tokenizer = tokenizer_of()
    refuses(error, words, lambda: marker_scorer(build("qwen2", tokenizer), tokenizer, **options))


def test_wrong_models_and_conversations_are_explained() -> None:
    tokenizer = tokenizer_of()
    classifier, writer = build("qwen2", tokenizer, labels=1), build("qwen2", tokenizer)
    with pytest.raises(TypeError, match="expected a causal language model with an output head, got Qwen2ForSeq"):
        marker_scorer(classifier, tokenizer)
    with pytest.raises(TypeError, match=r"expected a sequence classifier.*got Qwen2ForCausalLM with logits"):
        ClassifierScorer(writer, tokenizer, label=0)(STEPS[:1])
    refuses(ValueError, "unknown output 'score'", ClassifierScorer, classifier, tokenizer, output="score")
    refuses(ValueError, "unknown after 'end'", ClassifierScorer, classifier, tokenizer, after="end")
    with pytest.raises(ValueError, match="must end with the assistant's reply"):
        marker_scorer(writer, tokenizer, conversation=lambda step: CHAT)(STEPS)
    bare = tiny_tokenizer(WORDS)
    bare.chat_template = None
    with pytest.raises(ValueError, match="a conversation without a token cannot be scored"):
        ClassifierScorer(classifier, bare, conversation=lambda step: [{"role": "user", "content": ""}])(STEPS)
    unpadded = build("qwen2", tokenizer, labels=1, pad_token_id=None)
    with pytest.raises(
        ValueError, match=r"set model.config.pad_token_id \(the tokenizer's is 0\), or pass batch_size=1"
    ):
        ClassifierScorer(unpadded, tokenizer)
    one_by_one = ClassifierScorer(unpadded, tokenizer, batch_size=1)
    np.testing.assert_allclose(one_by_one(STEPS), ClassifierScorer(classifier, tokenizer)(STEPS), atol=1e-6)
    longer = tokenizer_of()
    longer.add_tokens(["newcomer"])
    with pytest.raises(ValueError, match="load the tokenizer that belongs to the model"):
        ClassifierScorer(classifier, longer)([step("cell 1", "newcomer")])
