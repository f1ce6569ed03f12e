"""What `tests/baselines/test_fake_device.py` runs in a process of its own: the training path on `device.cpp`.

    python -m tests.baselines.fake_device.parts        prints one JSON object: what each part found, or its error
    python -m tests.baselines.fake_device.parts cuda   the same on a GPU

The device is renamed and made known to PyTorch for the whole process, hence the process. "waits" are transfers to the
host and results whose size the device alone knows. Copies to the device are not counted; on a GPU they are, unless they
are marked as non-blocking.
"""

import collections
import contextlib
import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import transformers
from torch.utils.cpp_extension import load

import agentgym  # noqa: F401
from baselines.config import TrainerConfig
from baselines.imitation.cloning import imitate
from baselines.recipes import recipe
from baselines.trainer import Trainer
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora, merge_lora
from policies.tiny import tiny_policy, tiny_tokenizer
from wrappers import VectorPromptWindow, VectorReplyParser

OBSERVATIONS = ["go up", "####\n#PO#\n####", "go up to the ####", "go up"]
TEXT = "go up to the ####\n#PO#\n####"
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


class _Module:
    """`torch.fakegpu`."""

    _initialized = True
    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    set_device = staticmethod(lambda _: None)
    synchronize = staticmethod(lambda *_: None)
    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = staticmethod(lambda _: None)
    get_rng_state = staticmethod(lambda *_: torch.zeros(8, dtype=torch.uint8))
    set_rng_state = staticmethod(lambda *_: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])
    device = contextlib.nullcontext


def start() -> Any:
    """Build the device where it is not built yet, and make it known."""
    os.environ.setdefault("MAX_JOBS", "1")
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # ninja may be a package
    source = Path(__file__).parent / "device.cpp"
    native = load("stepcredit_fake_device", [str(source)], extra_cflags=["-O0", "-std=c++20"])
    torch.utils.rename_privateuse1_backend("fakegpu")
    torch._register_device_module("fakegpu", _Module)
    torch.utils.generate_methods_for_privateuse1_backend()
    torch.__future__.set_swap_module_params_on_conversion(True)  # tied weights stay tied when a model is moved
    return native


class _Cuda:
    """A GPU, with the functions of `device.cpp`."""

    def __init__(self) -> None:
        self._caught: Any = None

    def watch(self, note: Any) -> None:
        if note is not None:
            self._note, self._caught = note, warnings.catch_warnings(record=True)
            self._seen = self._caught.__enter__()
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
        else:
            torch.cuda.set_sync_debug_mode("default")
            self._caught.__exit__(None, None, None)
            for each in self._seen:
                if "synchronizing CUDA operation" in str(each.message):
                    self._note(f"{Path(each.filename).name}:{each.lineno}")
                elif "CUDA graphs" in str(each.message):
                    raise each.message  # type: ignore[misc]

    live = staticmethod(torch.cuda.memory_allocated)
    peak = staticmethod(torch.cuda.max_memory_allocated)
    reset_peak = staticmethod(torch.cuda.reset_peak_memory_stats)


NATIVE: Any = None
GPU = "fakegpu:0"


@contextlib.contextmanager
def waits() -> Any:
    """Count waits by kind within the block."""
    found: collections.Counter[str] = collections.Counter()
    NATIVE.watch(lambda kind: found.update([kind]))
    try:
        yield found
    finally:
        NATIVE.watch(None)
        del found["to device"]
        if GPU.startswith("cuda"):
            print(dict(found), file=sys.stderr)  # where


def moved(policy: HuggingFacePolicy, precision: torch.dtype | None) -> HuggingFacePolicy:
    """The policy on the device."""
    return HuggingFacePolicy(
        policy.model.to(GPU), policy.tokenizer, device=GPU, autocast=precision, **vars(policy.settings)
    )


def small(precision: torch.dtype | None = None, **settings: Any) -> HuggingFacePolicy:
    return moved(tiny_policy([TEXT], **{"max_new_tokens": 6, "seed": 0, **settings}), precision)


def act(policy: HuggingFacePolicy, infos: Any = None) -> Any:
    return policy.act(OBSERVATIONS, infos or {}, np.random.default_rng(0))


def apart(policy: HuggingFacePolicy, replies: Any, **options: Any) -> float:
    """Largest difference of sampled and scored log-probabilities; the gradient is computed as well."""
    given = {"allowed": [reply.allowed for reply in replies]} if any(reply.allowed for reply in replies) else {}
    scores = policy.score(
        [reply.prompt_ids for reply in replies], [reply.token_ids for reply in replies], **options, **given
    )
    scores.logprobs.sum().backward()
    sampled = torch.zeros(scores.logprobs.shape)
    for row, reply in enumerate(replies):
        sampled[row, : len(reply.logprobs)] = torch.tensor(reply.logprobs)
    return float((scores.logprobs.detach().cpu() - sampled).abs().max())


def rollout(precision: torch.dtype | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"max_new_tokens": 12, "stop": ()}
    policy, found = small(precision, **settings), {}
    act(policy)
    with waits() as counted:
        replies = act(policy)
    found["tokens"] = [reply.token_ids for reply in replies]
    found["on_cpu"] = [reply.token_ids for reply in act(tiny_policy([TEXT], seed=0, **settings))]
    # One transfer a token, and one for the state of the weights; the rest belongs to reading the prompts.
    found["waits_of_a_token"] = (sum(counted.values()) - 1) / max(map(len, found["tokens"]))
    queue = policy.reply_queue()
    queue.put(range(4), OBSERVATIONS, {}, [np.random.default_rng(i) for i in range(4)])
    done: list[Any] = []
    with waits() as counted:
        while len(done) < 4:
            done += queue.get()
    found["waits_of_a_token_in_lanes"] = sum(counted.values()) / max(len(reply.token_ids) for _, reply in done)
    keeping = small(precision, **settings, reuse=True)
    found["kept"] = [[reply.token_ids for reply in act(keeping)] for _ in range(2)]
    infos = {"admissible_actions": np.array([["go up", "go to"], ["up"], ["go", "up"], ["the"]], object)}
    restricted = small(precision, admissible=True)
    act(restricted, infos)
    with waits() as counted:
        replies = act(restricted, infos)
    longest = max(len(reply.token_ids) for reply in replies)
    found["waits_of_a_restricted_token"] = (sum(counted.values()) - 1) / longest, longest
    found["restricted"] = max(apart(restricted, replies), apart(restricted, replies, tokens_per_pass=64))
    return found


def scoring(precision: torch.dtype | None) -> dict[str, Any]:
    policy, found = small(precision), {}
    replies = act(policy)
    for name, options in {
        "rectangles": {}, "packed": {"tokens_per_pass": 64}, "trees": {"tokens_per_pass": 64, "share_prefixes": True},
    }.items():  # fmt: skip
        apart(policy, replies, **options)  # the first look at the model
        with waits() as counted:
            policy.score([r.prompt_ids for r in replies], [r.token_ids for r in replies], entropy=None, **options)
        found[name] = {"apart": apart(policy, replies, **options), "waits": sum(counted.values())}
    return found


def architectures(precision: torch.dtype | None) -> dict[str, float]:
    """Layers with a recurrent state, sliding windows, soft caps: sampled against scored."""
    linear = {
        "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    }  # fmt: skip
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "Qwen3_5Text": ("Qwen3_5", linear),
        "Qwen3Next": ("Qwen3Next", {**linear, "num_experts": 0, "mlp_only_layers": [0, 1]}),
        "Lfm2": ("Lfm2", {"layer_types": ["conv", "full_attention"], "block_ff_dim": 64}),
        "Qwen3": ("Qwen3", {}), "Gemma2": ("Gemma2", {"sliding_window": 4}), "Llama": ("Llama", {}),
    }  # fmt: skip
    tokenizer, found = tiny_tokenizer([TEXT], ["up", "down"]), {}
    for kind, (name, changes) in kinds.items():
        config = getattr(transformers, f"{kind}Config")(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=8,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, eos_token_id=1,
            bos_token_id=None, tie_word_embeddings=False, initializer_range=0.15, **changes,
        )  # fmt: skip
        torch.manual_seed(0)
        model = getattr(transformers, f"{name}ForCausalLM")(config)
        policy = HuggingFacePolicy(model, tokenizer, device=GPU, max_new_tokens=6, autocast=precision)
        found[kind] = apart(policy, act(policy))
    return found


def sokoban(count: int = 4) -> Any:
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=count, autoreset_mode="Disabled", max_episode_steps=4)
    return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)


def trained(policy: HuggingFacePolicy, method: str = "grpo", envs: Any = None, **changes: Any) -> Trainer:
    folder = changes.pop("folder", None)
    config = TrainerConfig(iterations=2, groups=2, group_size=2, learning_rate=1e-3).changed(
        **{"validation.every": 0, "checkpoint.every": 1, **changes}
    )
    tasks = [{"split": "train", "index": i} for i in range(4)]
    trainer = Trainer(policy, envs or sokoban(), recipe(method), tasks, config, folder=folder, resume=True)
    trainer.run()
    return trainer


def training(precision: torch.dtype | None) -> dict[str, Any]:
    policy = small(precision)
    lines: list[tuple[int, ...]] = []
    hook = policy.model.model.register_forward_pre_hook(
        lambda model, _, given: (
            lines.append((*given["input_ids"].shape, model.training)) if torch.is_grad_enabled() else None
        ),
        with_kwargs=True,
    )
    trainer = trained(policy)
    hook.remove()
    row = trainer.log.rows[-1]
    found = {
        "packed": all(rows == 1 for rows, _, _ in lines) and bool(lines),
        "recomputed": all(training for _, _, training in lines),
        "gradients_kept": sum(weight.grad is not None for weight in policy.model.parameters()),
        "mismatch_logged": "mismatch_mean" in row,
        "moved": row["updates"] > 0,
    }
    for changes in (
        {"memory.microbatch_tokens": 128, "loss.entropy": 0.01, "loss.reference": "bfloat16", "loss.kl_in": "reward"},
        {"memory.microbatch_tokens": 128, "memory.share_prefixes": True, "loss.objective": "cispo"},
        {"memory.microbatch_rows": 2, "loss.old_logprobs": "recompute", "loss.tis": 2.0, "loss.ratio": "step"},
    ):  # fmt: skip
        trained(small(precision), **changes)
    trained(
        small(precision), envs=[sokoban(1) for _ in range(4)],
        **{"rollout.staleness": 1, "loss.old_logprobs": "recompute", "loss.tis": 2.0, "loss.kl": 0.0},
    )  # fmt: skip
    return found


def scorers(precision: torch.dtype | None) -> dict[str, bool]:
    found = {}
    for name in ("ppo", "istar", "agentprm", "spa", "hcapo"):
        run = trained(small(precision), name)
        model = getattr(run.learner.scorer, "model", None)  # in training mode activations are recomputed
        found[name] = run.iteration == 2 and (model is None or getattr(model, "trunk", model).training)
    return found


def distillation(precision: torch.dtype | None) -> dict[str, Any]:
    """Waits of an iteration's learning, in passes of few tokens, by steps of the optimiser and looks of the scorer."""
    found = {}
    for name, sampled in (("sdpo", False), ("sdpo", True), ("rlsd", False), ("rlcsd", False)):
        changes = {"distillation.weight": float(name == "sdpo"), "distillation.sampled": sampled}
        changes |= {"memory.microbatch_tokens": 64}
        run = trained(small(precision), f"{name}:context=outcome", **{"optimiser.minibatch_rows": 4, **changes})
        table, passes = run._gather(run._sampler, 2).table, list[None]()
        hook = run.policy.model.register_forward_pre_hook(lambda *_, passes=passes: passes.append(None))
        with waits() as counted:
            figures = run.learner.learn(table, 2, np.random.default_rng(0)).figures
        hook.remove()
        found[f"{name} sampled" if sampled else name] = {
            "waits": sum(counted.values()), "updates": figures["updates"], "taught": figures["context_share"],
            "loss": figures.get("distillation_loss", 0.0), "kinds": dict(counted), "passes": len(passes),
        }  # fmt: skip
    return found


def resume(precision: torch.dtype | None) -> dict[str, float]:
    """Largest difference of the weights after three iterations at once, and after two and one."""
    found = {}
    for method, rank in (("grpo", 0), ("ppo", 0), ("grpo", 4)):
        with tempfile.TemporaryDirectory() as place:
            ends = []
            for cuts in ((3,), (2, 3)):
                for iterations in cuts:
                    policy = small(precision)
                    if rank:
                        policy = add_lora(policy, LoraSettings(rank, 8.0), seed=0)
                    trained(policy, method, folder=Path(place) / str(cuts), iterations=iterations)
                ends.append(policy.model.state_dict())
            found[f"{method} {rank}"] = max(float((ends[0][name] - ends[1][name]).abs().max()) for name in ends[0])
    return found


def lora(precision: torch.dtype | None) -> dict[str, Any]:
    base = tiny_policy([TEXT], seed=0, max_new_tokens=6)
    base.model.to(torch.bfloat16)
    policy = add_lora(moved(base, precision), LoraSettings(4, 8.0), seed=0)
    trained(policy)
    played = policy.sampler.playing(precision)
    ours = dict(policy.model.named_parameters())
    named = [(f"base_model.model.{name}", weight) for name, weight in played.named_parameters()]
    bases = [(name, weight) for name, weight in named if name in ours]  # the others are sums of base and adapter
    with tempfile.TemporaryDirectory() as place:
        policy.save_pretrained(place)
        again = HuggingFacePolicy.from_pretrained(place, device=GPU, autocast=precision)
        same = [reply.token_ids for reply in act(again)] == [reply.token_ids for reply in act(policy)]
    before = NATIVE.live()
    merged = merge_lora(policy)
    return {
        "base_shared": len(bases) > 2 and all(weight.data_ptr() == ours[name].data_ptr() for name, weight in bases),
        "read_again_plays_the_same": same,
        "merged_on": str(merged.device),
        "merged_bytes_on_the_device": NATIVE.live() - before,
    }  # fmt: skip


def cloning(precision: torch.dtype | None) -> dict[str, Any]:
    policy = small(precision)
    replies = (f"<action>{text}</action>" for text in ("up", "go up", "to", "up"))
    rows = [policy.demonstrate(*pair) for pair in zip(OBSERVATIONS, replies, strict=True)]
    imitate(policy, rows, epochs=1, seed=0, batch_size=4)
    modes: set[bool] = set()
    policy.model.register_forward_pre_hook(lambda model, _: modes.add(model.training))
    with waits() as counted:
        found = imitate(policy, rows, epochs=4, seed=0, batch_size=4)
    return {
        "losses": [each["loss"] for each in found.history], "waits_of_an_update": sum(counted.values()) / 4,
        "recomputed": modes == {True},
    }  # fmt: skip


def memory(precision: torch.dtype | None) -> dict[str, float]:
    """Bytes at the peak of scoring, in tokens x vocabulary x 4."""
    size, rng = 30_000, np.random.default_rng(0)
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=size, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=2048,
    )  # fmt: skip
    policy = HuggingFacePolicy(
        transformers.Qwen2ForCausalLM(config), tiny_tokenizer(["go up"]), device=GPU, autocast=precision
    )
    rows = [[tuple(rng.integers(5, size, length).tolist()) for _ in range(64)] for length in (8, 64)]
    policy.score(*rows, 1.0)
    found = {}
    for entropy in (None, False):
        before = NATIVE.live()
        NATIVE.reset_peak()
        policy.score(*rows, 1.0, entropy=entropy).logprobs.sum().backward()
        found[str(entropy)] = (NATIVE.peak() - before) / (64 * 64 * size * 4)
    return found


PARTS = (rollout, scoring, architectures, training, scorers, distillation, resume, lora, cloning, memory)


def main() -> None:
    global NATIVE, GPU
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    asked, found = set(sys.argv[1:]), dict[str, Any]()
    if "cuda" in asked:
        GPU, NATIVE = "cuda:0", _Cuda()
    else:
        NATIVE = start()
    names = asked & {part.__name__ for part in PARTS} or {part.__name__ for part in PARTS}
    precisions = asked & PRECISIONS.keys() or PRECISIONS.keys()
    for part in PARTS:
        if part.__name__ not in names:
            continue
        for name in sorted(precisions):
            precision = PRECISIONS[name]
            try:
                found[f"{part.__name__} {name}"] = part(precision)
            except Exception:
                found[f"{part.__name__} {name}"] = {"error": traceback.format_exc()[-3000:]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
