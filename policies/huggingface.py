"""Any Hugging Face causal language model as a policy: render, sample, score, save."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch

from agentgym.outside.text import clean
from agentgym.rollout.groups import Infos
from agentgym.trajectory import Reply
from policies.decode.cache import WeightsCount, weights_version
from policies.decode.loop import LoopSampler, Reuse
from policies.decode.queue import PolicyQueue
from policies.decode.reply import CommandTokens, ReplyEnd, ReplyText
from policies.decode.sampler import Completion, Decoding, Restriction, Sampler
from policies.lora import ADAPTER_FILE, has_adapter, load_adapter, save_adapter
from policies.pretrained import (
    SETTINGS_FILE,
    Settings,
    align,
    load_model,
    mixed_precision,
    most_positions,
    pictures_of,
    precise_positions,
    read_settings,
    write_settings,
)
from policies.prompts import Prompt, PromptEncoder, PromptTooLongError
from policies.scoring import TokenScores, score_replies
from policies.scoring.head import Rows, check_finite
from policies.scoring.packed import can_pack, score_packed
from policies.scoring.prefix_tree import score_trees
from policies.training import memory_explained, on_gpu

# Reply to a prompt that does not fit.
_NOTHING = Reply("", finish="prompt-too-long")

__all__ = ["SETTINGS_FILE", "HuggingFacePolicy", "Settings"]


class HuggingFacePolicy:
    """A causal language model that reads chat messages and writes replies.

    A worked example, with `prefix="<action>"`, `suffix="</action>"` and `max_new_tokens=1`: the messages
    are rendered by the tokenizer's chat template, `<action>` is appended, the model draws one token, say
    `up`, and the reply is `Reply(text="<action>up</action>", prompt_ids=(..., <action>), token_ids=(up,))`.

    The model is kept in evaluation mode (no dropout), also while it is trained, so that the log-probabilities of
    sampling and scoring agree.

    Args:
        model: a Hugging Face causal language model.
        tokenizer: its tokenizer. Without a chat template the messages' contents are joined by newlines.
        device: device to which the model is moved; None: it is not moved.
        sampler: generates the replies; None: the loop of `policies.decode.loop` over this model.
        autocast: mixed-precision type; "auto" is bfloat16 on a CUDA device, and for models of 50 million parameters
            on CPUs that multiply it (two to three times faster there); None computes in the weights' own type.
        reuse: keys and values of earlier turns that are kept, see `policies.decode.loop.LoopSampler`.
        **settings: fields of `Settings`.

    Raises:
        TypeError: the model has no output head, or the settings have wrong types.
        ValueError: a setting is out of range.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, device: str | torch.device | None = None, sampler: Sampler | None = None,
        autocast: torch.dtype | Literal["auto"] | None = "auto", reuse: Reuse = "auto", **settings: Any,
    ) -> None:  # fmt: skip
        if getattr(model, "get_output_embeddings", lambda: None)() is None:
            raise TypeError(
                f"expected a causal language model with an output head, got {type(model).__name__}: "
                "load it with transformers.AutoModelForCausalLM"
            )
        self.settings = given = Settings(**settings)
        self.model = precise_positions(model if device is None else model.to(device)).eval()
        self.tokenizer = tokenizer
        self.precision: torch.dtype | None = mixed_precision(self.model) if autocast == "auto" else autocast
        ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
        ends = [ends] if isinstance(ends, int) else list(ends or ())
        self._ends = frozenset([*ends, *([] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id])])
        self._fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.sampler: Sampler = LoopSampler(self.model, reuse) if sampler is None else sampler
        self._reuse = reuse
        self._count = WeightsCount()
        frame = (given.prefix or "<action>", given.suffix or "</action>")
        self._text = ReplyText(tokenizer, given)
        self._commands = CommandTokens(self._text.tokens, frame) if given.admissible else None
        self._encoder = self._make_encoder(
            tokenizer=tokenizer, prefix=given.prefix, suffix=given.suffix, ends=self._ends,
            new_tokens=given.max_new_tokens, positions=most_positions(model), template=given.template,
            vocabulary=getattr(model.get_input_embeddings(), "num_embeddings", None),
            longest=given.max_prompt_tokens, cut=given.truncate == "left",
        )  # fmt: skip
        self._is_end = ReplyEnd(tokenizer, self._ends, given.stop)

    def _make_encoder(self, **given: Any) -> PromptEncoder:
        return PromptEncoder(**given)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def with_settings(self, **changes: Any) -> HuggingFacePolicy:
        """Return the same model and tokenizer (shared, not copied) under other settings.

        `policy.with_settings(temperature=0.0)` is the greedy player.
        """
        known = {field.name for field in dataclasses.fields(Settings)}
        if unknown := sorted(set(changes) - known):
            raise TypeError(f"unknown settings {unknown}; a policy has {sorted(known)}")
        settings = dataclasses.asdict(self.settings) | changes
        changed = self._other(self.model, self.sampler, settings)
        changed._count = self._count
        if type(self.sampler) is LoopSampler and type(changed.sampler) is LoopSampler:
            changed.sampler.share(self.sampler)
        return changed

    def with_model(self, model: Any) -> HuggingFacePolicy:
        """Return a policy over another model, with the same tokenizer, settings and sampler (which follows it).

        Raises:
            TypeError: the sampler is a subclass of `LoopSampler`, which reads the model that it was made with.
        """
        if isinstance(self.sampler, LoopSampler) and type(self.sampler) is not LoopSampler:
            raise TypeError(f"{self.sampler} writes with the model it was made with: give another to a new policy")
        other = self._other(model, self.sampler, dataclasses.asdict(self.settings))
        if other.sampler is self.sampler:  # the sampler must not take the other model's weights for this model's
            self._count(weights_version(self.model))
            other._count = self._count
        return other

    def with_sampler(self, sampler: Sampler) -> HuggingFacePolicy:
        """Return a policy over the same model, shared, with another sampler."""
        return self._other(self.model, sampler, dataclasses.asdict(self.settings))

    def _other(self, model: Any, sampler: Sampler, settings: Mapping[str, Any]) -> HuggingFacePolicy:
        kept = None if type(sampler) is LoopSampler else sampler  # whose cache belongs to model and settings
        return self._like(model, autocast=self.precision, sampler=kept, reuse=self._reuse, **settings)

    def _like(self, model: Any, **given: Any) -> HuggingFacePolicy:
        return HuggingFacePolicy(model, self.tokenizer, **given)

    def forget(self) -> None:
        """Drop logits, keys and values of earlier prompts; weights that change are noticed without this call.

        It frees memory. Runs that met the same prompts in other batches then agree to the last bit.
        """
        if isinstance(self.sampler, LoopSampler):
            self.sampler.forget()

    # -- prompts ----------------------------------------------------------------------------------------------

    def encode(self, observation: Any) -> Prompt:
        """Return the token ids of the prompt for one observation, prefix included.

        Args:
            observation: a str (taken as one user message) or a sequence of `{"role": ..., "content": ...}`.

        Raises:
            TypeError: the observation is neither.
            PromptTooLongError: (a ValueError) prompt and reply do not fit, and `truncate` is "raise".
        """
        return self._encoder(observation)

    def encode_or_end(self, observation: Any) -> Prompt | None:
        """Return the prompt, or None if it does not fit and ends the episode."""
        try:
            return self.encode(observation)
        except PromptTooLongError:
            if self.settings.truncate != "end-episode":
                raise
            return None

    # -- acting -----------------------------------------------------------------------------------------------

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        return self.act_each(observations, infos, [rng] * len(observations))

    def act_each(self, observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]) -> list[Reply]:
        """Return one reply per running sub-environment; of infos at most "admissible_actions" is read.

        A reply depends only on its observation and its own generator, which draws `max_new_tokens` uniform numbers for
        every reply, independent of its length; none if greedy.

        Raises:
            FloatingPointError: a weight, named by the message, or the model's logits are not numbers.
            KeyError: replies are restricted to admissible commands, and the infos hold none.
        """
        if not len(observations):
            return []
        state = self._finite_state()
        settings = self.settings
        found = [self.encode_or_end(observation) for observation in observations]
        draws = np.stack([rng.random(settings.max_new_tokens) for rng in rngs]) if settings.temperature > 0 else None
        restrictions = self.restrictions(infos)
        version = self._count(state)
        self.sampler.follow(self.model, version)
        replies = [self.reply(None, Completion(), version)] * len(found)
        fitting = {place: prompt for place, prompt in enumerate(found) if prompt is not None}
        if not fitting:
            return replies
        if len(fitting) < len(found):
            draws = None if draws is None else draws[list(fitting)]
            restrictions = None if restrictions is None else [restrictions[place] for place in fitting]
        with self.memory_explained():
            written = self.sampler.write(list(fitting.values()), draws, self.decoding, restrictions)
        for (place, prompt), one in zip(fitting.items(), written, strict=True):
            replies[place] = self.reply(prompt, one, version)
        return replies

    def reply_queue(self) -> PolicyQueue:
        """Return a queue that answers single requests (`agentgym.rollout.lanes`), with the replies of `act_each`.

        The weights must not change while it is used.
        """
        version = self._count(self._finite_state())
        self.sampler.follow(self.model, version)
        with self.memory_explained():
            return PolicyQueue(self, version)

    def _finite_state(self) -> tuple[float, ...]:
        state = weights_version(self.model)
        if not all(map(math.isfinite, state)):  # attention may hide a nan in the weights from the logits
            check_finite(self.model, "the policy cannot act, the model's")
        return state

    def memory_explained(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that adds advice to an out-of-memory error of generation."""
        settings = self.settings
        return memory_explained(
            lambda: (
                f"writing replies does not fit the device's memory: lower batch_size ({settings.batch_size} replies at "
                f"a time), max_new_tokens ({settings.max_new_tokens}) or max_prompt_tokens "
                f"({settings.max_prompt_tokens})"
            )
        )

    def restrictions(self, infos: Infos) -> Sequence[Restriction | None] | None:
        """Return the restriction of each reply; None without any."""
        return None if self._commands is None else self._commands.of(infos)

    def reply(self, prompt: Prompt | None, one: Completion, version: int) -> Reply:
        """Return the reply of a completion; without a prompt, the reply to a prompt that did not fit."""
        if prompt is None:
            return dataclasses.replace(_NOTHING, version=version)
        tokens, allowed = tuple(one.token_ids), tuple(one.allowed)
        text = self._text(tokens)
        self._encoder.remember(prompt, text, tokens)
        return Reply(text, prompt, tokens, tuple(one.logprobs), one.finish, version, allowed)

    @property
    def decoding(self) -> Decoding:
        """Options of sampling."""
        settings = self.settings
        return Decoding(
            settings.temperature, settings.max_new_tokens, self._is_end, self._fill, settings.batch_size,
            self.precision, self._ends, settings.stop,
        )  # fmt: skip

    # -- learning ---------------------------------------------------------------------------------------------

    def demonstrate(self, observation: Any, text: str) -> Reply:
        """Return the reply this policy would have given, had it written the complete reply `text`.

        The tokens are those that the model has to produce: without prefix and suffix, and with the end token if no stop
        text ends the reply and the length limit leaves room. There are no log-probabilities; with
        truncate="end-episode" there are no tokens if the prompt does not fit.

        Raises:
            ValueError: the text does not start with the prefix and end with the suffix, or is too long.
        """
        text = clean(text)
        prompt, ids = self.encode_or_end(observation), self._text.tokens(text)
        if prompt is None:
            return _NOTHING
        self._encoder.remember(prompt, text, ids)
        return Reply(text, prompt, ids)

    def score(
        self, prompts: Rows, replies: Rows, temperature: float | None = None, *, tokens_per_pass: int | None = None,
        share_prefixes: bool = False, entropy: bool | None = True, allowed: Sequence[Rows] | None = None,
        distributions: bool = False,
    ) -> TokenScores:  # fmt: skip
        """Return log-probabilities and entropies of reply tokens, differentiable in the weights.

        Args:
            prompts: n token sequences, as in `Reply.prompt_ids`.
            replies: n token sequences, as in `Reply.token_ids`.
            temperature: None = the policy's own (1 for a greedy policy, as in `act`).
            tokens_per_pass: pack the rows, see `policies.scoring.packed.score_packed`; None: rectangles.
            share_prefixes: see `policies.scoring.prefix_tree.score_trees`, of packed rows.
            entropy: see `policies.scoring.score_replies`, as `allowed`.
            allowed: of restricted replies.
            distributions: whether those at all reply tokens are returned, which packed rows do not have.
        """
        if temperature is None:
            temperature = self.settings.temperature or 1.0
        given: dict[str, Any] = {
            "temperature": temperature, "entropy": entropy, "precision": self.precision, "allowed": allowed,
        }  # fmt: skip
        if tokens_per_pass is not None and distributions:
            raise ValueError("packed replies have no distributions: leave tokens_per_pass out")
        if tokens_per_pass is not None:
            packed = score_trees if share_prefixes else score_packed
            return packed(self.model, prompts, replies, tokens_per_pass=tokens_per_pass, **given)
        runs = on_gpu(self.model) and pictures_of(self.model) is None
        given |= {"runs": runs and can_pack(self.model, self.precision, by_runs=True), "distributions": distributions}
        return score_replies(self.model, prompts, replies, fill=self._fill, **given)

    # -- files ------------------------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | Path) -> None:
        """Write model, tokenizer and settings; any Hugging Face tool can read the folder.

        For a policy with an adapter, only the adapter and the place of its base are written; `policies.lora.merge_lora`
        returns an ordinary model.

        Raises:
            FileExistsError: the folder holds an adapter, which would be read instead of this model.
        """
        folder = Path(folder)
        if not has_adapter(self.model) and (folder / ADAPTER_FILE).exists():
            raise FileExistsError(
                f"{folder} holds an adapter ({ADAPTER_FILE}), which would be read in the place of this model: "
                "name another folder, or remove it"
            )
        folder.mkdir(parents=True, exist_ok=True)
        if has_adapter(self.model):
            save_adapter(folder, self)
        else:
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_settings(folder, self.settings)

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, device: str | torch.device | None = None, dtype: torch.dtype | str = "auto",
        download: bool = False, base: str | Path | None = None, attn_implementation: str | None = None, **settings: Any,
    ) -> Self:  # fmt: skip
        """Read a folder written by `save_pretrained`, any other Hugging Face model, or an adapter of peft.

        Args:
            path: a folder, or a model name on the Hugging Face Hub.
            device: None = CUDA if available, else the CPU. "meta": the weights are not loaded, for a policy with a
                `sampler` that has them.
            dtype: type of the weights; "auto" = as stored.
            download: fetch the model when `path` is a name that is not in the local cache.
            base: folder of an adapter's base; None: the place that the adapter records.
            attn_implementation: transformers' name of an attention, such as "flash_attention_2"; None: its choice.
            **settings: override the stored `Settings` (or `autocast`, `sampler`).

        Raises:
            DataError: there is no such model here; or the folder does not hold a usable causal language model, all of
                its weights included, or an adapter of another base.
        """
        stored = read_settings(Path(path))
        if (Path(path) / ADAPTER_FILE).is_file():
            model, tokenizer = load_adapter(Path(path), dtype, download, base, attn_implementation)
        else:
            model, tokenizer = load_model(path, dtype, download, attn_implementation, weights=str(device) != "meta")
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return cls(align(model) if str(device) == "cpu" else model, tokenizer, device=device, **(stored | settings))
