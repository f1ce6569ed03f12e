"""Reward models of Hugging Face as scorers of single steps, for `wrappers.process_reward`.

`ClassifierScorer` scores a conversation with a sequence classifier, `MarkerScorer` with the next-token probabilities of
a causal language model behind a marker token. Both take a list of `ScoredStep`, return one float for each, keep the
model in evaluation mode without gradients, and are deterministic. Steps are read in passes of rows of similar length,
padded at the end. If a conversation is longer than `max_tokens`, its beginning is cut off.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from agentgym.checks import check_value, whole
from agentgym.outside.text import clean
from policies.pretrained import most_positions, text_config
from policies.scoring.head import logits_at, pad
from wrappers.process_reward import ScoredStep

#: One chat message, `{"role": ..., "content": text}`.
Message = dict[str, str]
Conversation = Callable[[ScoredStep], Sequence[Message]]
After = Literal["reply", "observation"]
Output = Literal["probability", "logit"]

# Placeholder of a marker in rendered text: a private-use character.
_PLACE = "\ue000"
# Tokenizers without a limit of their own report something like 10**30.
_NO_LIMIT = 10**9


def conversation_of(step: ScoredStep, after: After = "reply") -> list[Message]:
    """Return the conversation that a step belongs to, as text-only chat messages.

    Args:
        step: its `messages` and `observation` are texts, which become user messages, chat messages, or dicts with a
            "text"; pictures are left out. Its `reply` is a text.
        after: end of the conversation: the reply, or the next observation. If that observation consists of chat
            messages, it is the whole conversation.

    Raises:
        TypeError: a part is not text.

    >>> step = ScoredStep("", "A door.", "open it", "open it", "A hall.", False)
    >>> [message["content"] for message in conversation_of(step, "observation")]
    ['A door.', 'open it', 'A hall.']
    """
    if after == "observation" and not isinstance(step.observation, (str, dict)):
        return _messages(step.observation)
    found = [*_messages(step.messages), {"role": "assistant", "content": _text(step.reply)}]
    return found + _messages(step.observation) if after == "observation" else found


class _Reader:
    _fill = 0

    def __init__(
        self, model: Any, tokenizer: Any, conversation: Conversation, max_tokens: int | None, batch_size: int
    ) -> None:
        for name, number in (("batch_size", batch_size), ("max_tokens", 1 if max_tokens is None else max_tokens)):
            whole(name, number, 1)
        if not callable(conversation):
            raise TypeError(f"conversation must be a function from a ScoredStep to messages, got {conversation!r:.200}")
        limits = (most_positions(model), getattr(tokenizer, "model_max_length", None))
        longest = min((limit for limit in limits if limit is not None and limit < _NO_LIMIT), default=None)
        if max_tokens is not None and longest is not None and max_tokens > longest:
            raise ValueError(
                f"max_tokens must be at most {longest}, what the model and its tokenizer read; got {max_tokens}"
            )
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_tokens: int | None = longest if max_tokens is None else max_tokens
        self.batch_size = batch_size
        self._conversation = conversation
        self._vocabulary: int | None = getattr(model.get_input_embeddings(), "num_embeddings", None)

    def _rendered(self, messages: Sequence[Message]) -> str:
        if self.tokenizer.chat_template:
            return self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=False)
        return "\n".join(message["content"] for message in messages)

    def _tokens(self, text: str) -> tuple[list[int], int, int]:
        # A chat template writes the special tokens itself.
        whole = not self.tokenizer.chat_template
        found = self.tokenizer(text, add_special_tokens=whole, return_special_tokens_mask=True)
        ids: list[int] = list(found["input_ids"])
        written = [place for place, added in enumerate(found["special_tokens_mask"]) if not (added and whole)]
        return (ids, written[0], len(ids) - 1 - written[-1]) if written else (ids, len(ids), 0)

    def _fitted(self, ids: list[int], front: int) -> list[int]:
        if self.max_tokens is not None and len(ids) > self.max_tokens:
            front = min(front, self.max_tokens - 1)
            ids = ids[:front] + ids[front - self.max_tokens :]
        if not ids:
            raise ValueError("a conversation without a token cannot be scored: there is no text in it")
        if self._vocabulary is not None and max(ids) >= self._vocabulary:
            raise ValueError(
                f"the tokenizer made token {max(ids)}, but the model knows {self._vocabulary} tokens: "
                "load the tokenizer that belongs to the model"
            )
        return ids

    @torch.no_grad()
    def __call__(self, steps: Sequence[ScoredStep]) -> list[float]:
        """Return a score for each step."""
        self.model.eval()
        sequences = [self._encoded(step) for step in steps]
        scores = [0.0] * len(steps)
        order = sorted(range(len(sequences)), key=lambda row: len(sequences[row]))
        device = next(self.model.parameters()).device
        for low in range(0, len(order), self.batch_size):
            rows = order[low : low + self.batch_size]
            ids, mask = pad([sequences[row] for row in rows], fill=self._fill, left=False, device=device)
            for row, score in zip(rows, self._scores(ids, mask).tolist(), strict=True):
                scores[row] = score
        return scores

    def _encoded(self, step: ScoredStep) -> list[int]:
        raise NotImplementedError

    def _scores(self, ids: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError


class ClassifierScorer(_Reader):
    """Scores of a sequence classifier for the conversation so far.

    It may be a reward model with one output, or a judge of steps with labels such as "bad" and "good".

    Args:
        model: such as `transformers.AutoModelForSequenceClassification` loads.
        tokenizer: its tokenizer. Without a chat template the contents are joined by newlines.
        label: the label whose score is returned, by name (`model.config.id2label`) or number; None: the only one.
        output: "probability", the softmax over the labels (the logistic function for a single one, and where the
            problem type is "multi_label_classification"), or the label's "logit".
        after: end of the conversation, see `conversation_of`: "observation" to score the state after the step (kind
            "value" of `wrappers.process_reward`).
        conversation: from a step to its chat messages, in place of `conversation_of` and `after`.
        max_tokens: most tokens that are read; a longer conversation loses its beginning, but not the tokenizer's
            leading special tokens. None: the limit of model and tokenizer, which the attribute then holds.
        batch_size: most conversations in one pass.

    Raises:
        ValueError: the model has no such label, or several and none is given; the limit is beyond the model's; or the
            model's config has no padding token, and a pass has more than one conversation.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, label: str | int | None = None, output: Output = "probability",
        after: After = "reply", conversation: Conversation | None = None, max_tokens: int | None = None,
        batch_size: int = 32,
    ) -> None:  # fmt: skip
        check_value("output", output, Output)
        check_value("after", after, After)
        super().__init__(
            model, tokenizer, conversation or (lambda step: conversation_of(step, after)), max_tokens, batch_size
        )
        config = model.config
        self.label = _label(config, label)
        self.output: Output = output
        self._alone = config.num_labels == 1 or config.problem_type == "multi_label_classification"
        fill = text_config(model).pad_token_id
        if fill is None and batch_size > 1:
            raise ValueError(
                "the model's config has no pad_token_id, by which a classifier finds the ends of padded texts: set "
                f"model.config.pad_token_id (the tokenizer's is {tokenizer.pad_token_id}), or pass batch_size=1"
            )
        self._fill = 0 if fill is None else int(fill)

    def _encoded(self, step: ScoredStep) -> list[int]:
        ids, front, _ = self._tokens(self._rendered(self._conversation(step)))
        return self._fitted(ids, front)

    def _scores(self, ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=ids, attention_mask=mask.long()).logits.double()
        if logits.shape != (len(ids), self.model.config.num_labels):
            raise TypeError(
                f"expected a sequence classifier, whose logits are (conversations, labels), got "
                f"{type(self.model).__name__} with logits {tuple(logits.shape)}: load it with "
                "transformers.AutoModelForSequenceClassification"
            )
        if self.output == "probability":
            logits = torch.sigmoid(logits) if self._alone else torch.softmax(logits, dim=-1)
        return logits[:, self.label]


class MarkerScorer(_Reader):
    """Scores of a causal language model that was trained to judge steps, read at a marker token.

    The marker stands behind every reply of the conversation and is always one token. The score of a step is the
    probability of the positive token among the two, at the marker behind the step's reply.

    Args:
        model: such as `transformers.AutoModelForCausalLM` loads.
        tokenizer: its tokenizer. Without a chat template the contents are joined by newlines.
        conversation: from a step to its chat messages; the last is the reply, an assistant's. By default
            `conversation_of`.
        max_tokens: most tokens that are read, marker included; a longer conversation loses its beginning. None: the
            limit of model and tokenizer, which the attribute then holds.
        batch_size: most conversations in one pass.

    Raises:
        TypeError: the model has no output head.
        ValueError: marker, positive or negative is not one token of the tokenizer, or the last two are the same; or the
            limit is beyond the model's.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, marker: str, positive: str, negative: str,
        conversation: Conversation | None = None, max_tokens: int | None = None, batch_size: int = 32,
    ) -> None:  # fmt: skip
        if getattr(model, "get_output_embeddings", lambda: None)() is None:
            raise TypeError(
                f"expected a causal language model with an output head, got {type(model).__name__}: "
                "load it with transformers.AutoModelForCausalLM"
            )
        super().__init__(model, tokenizer, conversation or conversation_of, max_tokens, batch_size)
        self.marker = _one_token(tokenizer, "marker", marker)
        self.positive = _one_token(tokenizer, "positive", positive)
        self.negative = _one_token(tokenizer, "negative", negative)
        if self.positive == self.negative:
            raise ValueError(f"positive and negative must be different tokens, got {positive!r} and {negative!r}")

    def _scores(self, ids: Tensor, mask: Tensor) -> Tensor:
        at = torch.arange(len(ids), device=ids.device)
        logits = logits_at(self.model, ids, at, mask.sum(1) - 1, use_cache=False).double()
        return torch.sigmoid(logits[:, self.positive] - logits[:, self.negative])

    def _encoded(self, step: ScoredStep) -> list[int]:
        messages = [dict(message) for message in self._conversation(step)]
        if not messages or messages[-1]["role"] != "assistant":
            raise ValueError("a conversation must end with the assistant's reply, which the marker is put behind")
        for message in messages:
            message["content"] = message["content"].replace(_PLACE, "")
            if message["role"] == "assistant":
                message["content"] += _PLACE
        first, *others = self._rendered(messages).split(_PLACE)
        if not others:
            raise ValueError("the tokenizer's chat template leaves replies out: pass a tokenizer with another one")
        # The ids are joined, not the text: beside other characters the marker might be tokenized differently.
        ids, front, behind = self._tokens(first)
        ids = ids[: len(ids) - behind]
        for piece in others[:-1]:
            ids += [self.marker, *self.tokenizer(piece, add_special_tokens=False)["input_ids"]]
        return self._fitted([*ids, self.marker], front)


def _messages(shown: Any) -> list[Message]:
    if isinstance(shown, dict) and isinstance(shown.get("text"), str):
        shown = shown["text"]
    if isinstance(shown, str):
        return [{"role": "user", "content": _text(shown)}]
    try:
        return [{"role": message["role"], "content": _text(message["content"])} for message in shown]
    except (TypeError, KeyError, IndexError):
        raise TypeError(
            f"a reward model reads texts or chat messages, got {shown!r:.200}: pass conversation=, a function from a "
            "ScoredStep to chat messages"
        ) from None


def _text(content: Any) -> str:
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if part["type"] == "text")
    if not isinstance(content, str):
        raise TypeError(
            f"a reward model reads text, got {content!r:.200}: pass conversation=, a function from a ScoredStep to "
            "chat messages"
        )
    # Half a surrogate pair would raise in the tokenizer.
    return clean(content, len(content))


def _label(config: Any, label: str | int | None) -> int:
    names = [str(config.id2label.get(number, number)) for number in range(config.num_labels)]
    if label is None and len(names) == 1:
        return 0
    if isinstance(label, str) and label in names:
        return names.index(label)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(names):
        return label
    raise ValueError(f"label must be one of {names} or a number below {len(names)}, got {label!r}")


def _one_token(tokenizer: Any, name: str, text: str) -> int:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a text that is one token, got {text!r}")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
        return int(ids[0])
    raise ValueError(
        f"{name}={text!r} must be one token of this tokenizer, it is {tokenizer.convert_ids_to_tokens(ids)}: pass the "
        "one that the model was taught with (a blank in front can matter); the tokens added to its vocabulary are "
        f"{list(tokenizer.get_added_vocab())!r:.400}"
    )
