"""A policy's folder: a Hugging Face model, its tokenizer, and what the policy adds to them, in `policy.json`."""

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import torch

from agentgym.checks import Size, Weight, check_fields
from agentgym.outside.text import DataError, read_json, read_text

SETTINGS_FILE = "policy.json"
#: Treatment of a prompt that does not fit.
Truncate = Literal["raise", "left", "end-episode"]
#: Architectures that read pictures, by `model_type` of their config; see `policies.vision.policy`.
SEEING = ("qwen2_5_vl", "qwen3_vl")
#: Number of parameters above which bfloat16 is faster on CPUs that support it; for smaller models casts cost more.
_LARGE = 50_000_000
#: Bytes; PyTorch allocates at multiples of it.
_ALIGNMENT = 64


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a policy in addition to its model; stored next to the weights as `policy.json`.

    Attributes:
        temperature: sampling temperature; 0 = greedy.
        prefix: text at the end of every prompt and at the start of every reply text; the model does not write it.
        suffix: text at the end of every reply text; if the model wrote it itself, the rest is dropped.
        stop: a reply ends when its sampled part contains one of these.
        batch_size: maximum number of prompts in one forward pass.
        template: arguments of the tokenizer's chat template, such as `{"enable_thinking": False}` for Qwen3;
            `chat_template` replaces the template, for models whose own adds a system message.
        admissible: write nothing but commands of `infos["admissible_actions"]`; log-probabilities are those among the
            tokens that can be drawn.
        max_prompt_tokens: longest prompt; None: what the model's positions leave beside `max_new_tokens`, always a
            limit.
        truncate: treatment of a longer prompt: "raise" a ValueError, "left" removes its beginning, "end-episode" writes
            nothing, and `agentgym.rollout.collect` truncates the episode there.
    """

    temperature: Weight = 1.0
    max_new_tokens: Size = 256
    prefix: str = ""
    suffix: str = ""
    stop: tuple[str, ...] = ("</action>",)
    batch_size: Size = 256
    template: dict[str, Any] = dataclasses.field(default_factory=dict)
    admissible: bool = False
    max_prompt_tokens: Size | None = None
    truncate: Truncate = "raise"

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            raise TypeError(f"stop must be a sequence of texts, got one text: write ({self.stop!r},)")
        object.__setattr__(self, "stop", tuple(self.stop))
        check_fields(self)
        if not isinstance(self.template, dict) or not all(isinstance(name, str) for name in self.template):
            raise TypeError(f"template must be a dict of arguments of the chat template, got {self.template!r}")


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings stored in a folder, as keyword arguments; empty if there is no file.

    Raises:
        DataError: the file is not JSON, or holds something else than settings.
    """
    file = folder / SETTINGS_FILE
    if not file.is_file():
        return {}
    known = {field.name for field in dataclasses.fields(Settings)}
    try:
        stored = read_json(read_text(file))
    except DataError as error:
        raise DataError(f"{file} is not valid JSON ({error}): save the policy again") from error
    if not isinstance(stored, dict):
        raise DataError(f"{file} must hold a JSON object, got {type(stored).__name__}: save the policy again")
    if unknown := sorted(set(stored) - known):
        raise DataError(f"{file} must hold an object with keys out of {sorted(known)}, got {unknown!r:.200}")
    try:
        Settings(**stored)
    except (TypeError, ValueError) as error:
        raise DataError(f"{file}: {error}") from error
    return stored


def write_settings(folder: Path, settings: Settings) -> None:
    """Store the settings in a folder that exists."""
    text = json.dumps(dataclasses.asdict(settings), indent=2, sort_keys=True, default=lambda number: number.item())
    (folder / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")


def align(model: Any) -> Any:
    """Move weights on the CPU to addresses that PyTorch itself would choose.

    The rounding of matrix products depends on their operands' alignment: without this, a saved policy would not write
    exactly what the one in memory writes.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.data_ptr() % _ALIGNMENT:
            tensor.data = tensor.data.clone()
    return model


def precise_positions(model: Any) -> Any:
    """Recompute rotary frequencies of 16 bits, as loading does, and return the model.

    `model.to(torch.bfloat16)` rounds these buffers too, and they are in no file.
    """
    for module in model.modules():
        found = getattr(module, "inv_freq", None)
        if not isinstance(found, torch.Tensor) or found.dtype not in (torch.bfloat16, torch.float16):
            continue
        if hasattr(module, "config"):
            for name, value in type(module)(module.config).named_buffers():
                setattr(module, name, value.to(found.device))
    return model


def text_config(model: Any) -> Any:
    """Return the config of a model's text layers: its own, or that of the language model in a vision model."""
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def most_positions(model: Any) -> int | None:
    """Return the maximum context of a model, in tokens; None: no limit."""
    return getattr(text_config(model), "max_position_embeddings", None)


def mixed_precision(model: torch.nn.Module) -> torch.dtype | None:
    """Return the type to compute in: bfloat16 for large models on CPUs and CUDA devices that have it; else None."""
    weight = next(model.parameters())
    if weight.device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else None
    if weight.device.type != "cpu" or sum(each.numel() for each in model.parameters()) < _LARGE:
        return None
    able = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return torch.bfloat16 if any(getattr(torch.cpu, name, bool)() for name in able) else None


def load_model(
    path: str | Path,
    dtype: torch.dtype | str,
    download: bool,
    attn_implementation: str | None = None,
    *,
    weights: bool = True,
) -> tuple[Any, Any]:
    """Load a causal language model with its tokenizer; see `policies.huggingface.HuggingFacePolicy.from_pretrained`.

    Without its weights the model is on the "meta" device.
    """
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

    if not Path(path).is_dir() and not download and (Path(path).is_absolute() or str(path).startswith(".")):
        raise DataError(f"no model folder at {path}: train one first, or check the path")
    try:
        tokenizer = _tokenizer_class(Path(path)).from_pretrained(path, local_files_only=not download)
        config = AutoConfig.from_pretrained(path, local_files_only=not download)
        kind: Any = AutoModelForImageTextToText if config.model_type in SEEING else AutoModelForCausalLM
        if weights:
            loaded: Any = kind.from_pretrained(
                path, dtype=dtype, local_files_only=not download, output_loading_info=True,
                attn_implementation=attn_implementation,
            )  # fmt: skip
        else:
            with torch.device("meta"):
                loaded = kind.from_config(config), {"missing_keys": []}
            with contextlib.suppress(OSError):  # optional; it may name more end tokens than the tokenizer
                loaded[0].generation_config = GenerationConfig.from_pretrained(path, local_files_only=not download)
    except OSError as error:
        raise DataError(
            f"{str(path)!r} holds no complete Hugging Face model (config.json, weights and tokenizer files), "
            f"and the local cache has none of that name; pass download=True to fetch it. Cause: {error}"
        ) from error
    except (ValueError, RuntimeError, KeyError, TypeError, ImportError, SafetensorError) as error:
        # transformers 4 raises a TypeError for a tokenizer without its files.
        raise DataError(
            f"{str(path)!r} cannot be loaded as a causal language model with its tokenizer: {error}"
        ) from error
    model, loading = loaded
    # transformers replaces both without an error, by random weights and an empty tokenizer.
    if missing := sorted(loading["missing_keys"]):
        raise DataError(f"{str(path)!r} lacks {len(missing)} weights of its model, the first is {missing[0]!r}")
    if not tokenizer("a", add_special_tokens=False)["input_ids"]:
        raise DataError(f"{str(path)!r} holds no tokenizer that can read text: its tokenizer files are missing")
    return model, tokenizer


def _tokenizer_class(folder: Path) -> Any:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    file = folder / "tokenizer_config.json"
    saved = None
    if file.is_file():
        try:
            saved = json.loads(read_text(file)).get("tokenizer_class")  # with integers of 31 digits: not read_json
        except (ValueError, RecursionError, AttributeError) as error:
            raise DataError(f"{file} is no JSON object ({error}): save the tokenizer again") from error
    # AutoTokenizer chooses by the model's type: our own tokenizer with a Qwen2 model would split text as Qwen2 does.
    return PreTrainedTokenizerFast if saved in ("TokenizersBackend", "PreTrainedTokenizerFast") else AutoTokenizer


#: Attribute of a vision model with its `policies.vision.inputs.PictureInputs`.
PICTURES = "picture_inputs"


def pictures_of(model: torch.nn.Module) -> Any:
    """Return the `policies.vision.inputs.PictureInputs` of a model, None for text-only models."""
    return vars(model).get(PICTURES)
