"""Low-rank adapters (LoRA, Hu et al. 2021) through peft: a few trained matrices beside frozen weights.

With rank 32 on every linear layer a model of 7.6 billion parameters has 81 million trained ones. They are always
float32, so the base may be in bfloat16. With the adapter switched off the model equals its base bit for bit, so the
reference model of a KL penalty needs no memory (`policies.training.frozen`).
"""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from agentgym.outside.packages import install, needed
from agentgym.outside.text import DataError, read_json, read_text
from policies.pretrained import load_model
from policies.training import fingerprint

Policy = TypeVar(
    "Policy", bound=Any
)  # a policies.huggingface.HuggingFacePolicy, which reads and writes adapters itself
ADAPTER_FILE = "adapter_config.json"
#: File beside an adapter: a fingerprint of the weights it was trained on.
BASE_FILE = "adapter_base.json"
#: Folder beside an adapter whose base was never in a folder: the base.
BASE_FOLDER = "base"


@dataclass(frozen=True)
class LoraSettings:
    """Settings of an adapter.

    Attributes:
        alpha: the updates are scaled by alpha / rank.
        targets: names of the layers that get one, or "all-linear": every linear layer but the output head.
        dropout: of the adapter's inputs. It must be 0: the model that is trained has to be the one that samples.
    """

    rank: int = 32
    alpha: float = 64.0
    targets: str | tuple[str, ...] = "all-linear"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.rank, int) or self.rank < 1:
            raise ValueError(f"the rank must be an integer of at least 1, got {self.rank!r}")
        if not self.alpha > 0:
            raise ValueError(f"alpha must be above 0, got {self.alpha!r}")
        if not self.targets or not all(isinstance(name, str) for name in self.targets):
            raise ValueError(f"targets must be names of layers or 'all-linear', got {self.targets!r}")
        if self.dropout != 0:
            raise ValueError(
                f"dropout must be 0, got {self.dropout!r}: with it, replies have other log-probabilities when they are "
                "scored than when they were sampled"
            )


def add_lora(policy: Policy, settings: LoraSettings | None = None, *, seed: int) -> Policy:
    """Return the policy with a new adapter; its outputs do not change until the adapter is trained.

    The base is not copied: its layers are wrapped in place, and only the adapter is trainable.

    Args:
        settings: None: the defaults of `LoraSettings`.
        seed: of the adapter's random half (the other half is 0).

    Raises:
        ImportError: peft is not installed.
        ValueError: the policy already has an adapter, or no layer has a name in `targets`.
    """
    peft = _peft()
    settings = settings or LoraSettings()
    if has_adapter(policy.model):
        raise ValueError("the policy has an adapter already: merge it with policies.lora.merge_lora first")
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    config = peft.LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=targets, lora_dropout=settings.dropout,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    devices = [policy.device] if policy.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):  # peft draws from the global generators
        torch.manual_seed(seed)
        try:
            model = peft.get_peft_model(policy.model, config)
        except ValueError as error:
            raise ValueError(f"no adapter can be added for targets={settings.targets!r}: {error}") from error
    return policy.with_model(model)


def has_adapter(model: Any) -> bool:
    """Return whether a model is one of peft's."""
    return hasattr(model, "peft_config") and hasattr(model, "disable_adapter")


def merged_weights(model: Any) -> dict[int, torch.Tensor] | None:
    """Return the sums of base weights and adapters, in the base's type, by the `id` of the base weight.

    None if the sums would not equal the model: there is no adapter, it is switched off or already merged, the base is
    quantised, or the adapter is more than a sum (biases, magnitudes of DoRA).
    """
    if not has_adapter(model) or getattr(model.get_base_model(), "hf_quantizer", None) is not None:
        return None
    found: dict[int, torch.Tensor] = {}
    for layer in (module for module in model.modules() if hasattr(module, "get_delta_weight")):
        weight = getattr(layer.get_base_layer(), "weight", None)
        active = [name for name in layer.active_adapters if name in layer.lora_A]
        more = getattr(layer, "lora_variant", None) or any(getattr(layer, "lora_bias", {}).values())
        if layer.disable_adapters or layer.merged or more or weight is None or not weight.is_floating_point():
            return None
        total = weight.detach().float()
        for name in active:
            total = total + layer.get_delta_weight(name).detach().float()
        found[id(weight)] = total.to(weight.dtype)
    return found


def merge_lora(policy: Policy) -> Policy:
    """Return a policy whose weights are the sums of base and adapter: an ordinary model, on the CPU.

    The given policy does not change, and the result uses no memory of its device. A base in 16 bits rounds the sum;
    load it in float32 for an exact one.

    Raises:
        ValueError: the policy has no adapter.
    """
    if not has_adapter(policy.model):
        raise ValueError("the policy has no adapter to merge: policies.lora.add_lora makes one")
    on_cpu = {id(each): each.detach().cpu().clone() for each in policy.model.buffers()}
    on_cpu |= {
        id(each): torch.nn.Parameter(each.detach().cpu().clone(), each.requires_grad)
        for each in policy.model.parameters()
    }
    return policy.with_model(copy.deepcopy(policy.model, on_cpu).merge_and_unload())


def save_adapter(folder: Path, policy: Any) -> None:
    """Write the adapter alone, as peft does, with the name and the fingerprint of its base.

    A base that was built in this process has no name, so it is written beside the adapter.
    """
    model = policy.model
    base = model.get_base_model()
    place = str(getattr(base.config, "_name_or_path", "") or "")
    if Path(place).is_dir() and place:
        place = str(Path(place).resolve())
    elif not place:
        place = str((folder / BASE_FOLDER).resolve())
        bare = copy.deepcopy(model).unload()  # only to know the layers' own names
        bare.save_pretrained(folder / BASE_FOLDER)
        policy.tokenizer.save_pretrained(folder / BASE_FOLDER)
    model.peft_config[model.active_adapter].base_model_name_or_path = place
    model.save_pretrained(folder, save_embedding_layers=False)
    mark = {"base": place, "fingerprint": fingerprint(_base_weights(model))}
    (folder / BASE_FILE).write_text(json.dumps(mark, indent=2) + "\n", encoding="utf-8")


def load_adapter(
    folder: Path,
    dtype: torch.dtype | str,
    download: bool,
    base: str | Path | None = None,
    attn_implementation: str | None = None,
) -> tuple[Any, Any]:
    """Load an adapter on its base, trainable, with the tokenizer.

    Args:
        folder: what `save_adapter`, or peft, wrote.
        dtype: type of the base's weights; the adapter's are float32.
        download: fetch the base when it is a name that is not in the local cache.
        base: path of the base; None: the path it had, or beside the adapter.
        attn_implementation: see `policies.huggingface.HuggingFacePolicy.from_pretrained`.

    Raises:
        ImportError: peft is not installed.
        DataError: the base is missing, or the adapter belongs to another base, is damaged, or is no LoRA adapter.
    """
    _peft()
    described = _read(folder / ADAPTER_FILE)
    if described.get("peft_type") != "LORA":
        raise DataError(f"{folder} holds an adapter of type {described.get('peft_type')!r}, expected 'LORA'")
    base = adapter_base(folder, base)
    try:
        model, tokenizer = load_model(base, dtype, download, attn_implementation)
    except DataError as error:
        raise DataError(f"the adapter in {folder} needs its base {str(base)!r}: pass base=... ({error})") from error
    return _read_onto(model, folder, base), tokenizer


def begin_with(policy: Policy, folder: Path) -> Policy:
    """Return the policy with a copy of the adapter in a folder, which is trained further; see `add_lora`.

    What it says is the start of training (`policies.training.frozen`), and not what its base says.

    Raises:
        DataError: the adapter was trained on other weights, is damaged, or is no LoRA adapter.
    """
    model = _read_onto(policy.model, folder, adapter_base(folder))
    model.begins_adapted = True
    return policy.with_model(model)


def _read_onto(model: Any, folder: Path, base: str | Path) -> Any:
    from safetensors import SafetensorError

    mark = _read(folder / BASE_FILE) if (folder / BASE_FILE).is_file() else {}
    if mark and mark.get("fingerprint") != fingerprint(model.named_parameters()):
        raise DataError(
            f"the adapter in {folder} was trained on other weights than those in {str(base)!r} (it says "
            f"{mark.get('base')!r}): pass base=... with the model it was trained on"
        )
    try:
        return _peft().PeftModel.from_pretrained(model, str(folder), is_trainable=True)
    except (RuntimeError, ValueError, OSError, KeyError, TypeError, SafetensorError) as error:
        raise DataError(f"the adapter in {folder} does not fit the model in {str(base)!r}: {error}") from error


def adapter_base(folder: Path, base: str | Path | None = None) -> str | Path:
    """Return the path of an adapter's base; arguments as of `load_adapter`.

    Raises:
        DataError: the adapter does not name it.
    """
    beside = folder / BASE_FOLDER
    found: Any = base or (beside if beside.is_dir() else _read(folder / ADAPTER_FILE).get("base_model_name_or_path"))
    if not isinstance(found, (str, Path)) or not found:
        raise DataError(f"{folder / ADAPTER_FILE} does not name the adapter's base: pass base=...")
    return found


def _base_weights(model: Any) -> list[tuple[str, torch.Tensor]]:
    return [
        (name.removeprefix("base_model.model.").replace(".base_layer", ""), weight)
        for name, weight in model.named_parameters()
        if not weight.requires_grad
    ]


def _read(file: Path) -> dict[str, Any]:
    try:
        found = read_json(read_text(file))
    except (DataError, OSError) as error:
        raise DataError(f"{file} cannot be read as JSON ({error}): save the policy again") from error
    if not isinstance(found, dict):
        raise DataError(f"{file} must hold a JSON object, got {type(found).__name__}: save the policy again")
    return found


def _peft() -> Any:
    return needed("peft", f"adapters need peft: {install('train')}")
