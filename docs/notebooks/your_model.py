# %% [markdown]
# # Your 7B with LoRA and vLLM
#
# The lines that train a 7B model, run here with a tiny random one so that they finish in seconds. For a real model
# replace `base` by a folder or a name in the hub's cache; the page "Train your model" describes the memory it needs.

# %%
import tempfile
from pathlib import Path

import gymnasium as gym

import agentgym  # noqa: F401  registers the AgentRL/* ids
from baselines.config import Memory, TrainerConfig, Validation
from baselines.evaluation import evaluate
from baselines.recipes import recipe
from baselines.trainer import Trainer
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora, merge_lora
from policies.tiny import tiny_policy
from wrappers import VectorPromptWindow, VectorReplyParser

folder = Path(tempfile.mkdtemp())


def make():
    """Boards as chat messages with the last two steps, as the papers' prompts have them."""
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=4, autoreset_mode="Disabled", max_episode_steps=4)
    return VectorPromptWindow(VectorReplyParser(envs), history=2, instructions=False)


messages, _ = make().reset(seed=0)
base = folder / "base"  # Path("models/Qwen2.5-7B-Instruct") in earnest
tiny_policy([message[-1]["content"] for message in messages], seed=0, width=64, layers=2, mlp=128).save_pretrained(base)

# %% [markdown]
# ## An adapter
#
# The base is frozen and is the reference of the KL term; only the adapter is trained, saved and resumed.

# %%
policy = HuggingFacePolicy.from_pretrained(base, max_new_tokens=8)
policy = add_lora(policy, LoraSettings(rank=8, alpha=16.0), seed=0)
moving = sum(weight.numel() for weight in policy.model.parameters() if weight.requires_grad)
print(f"{moving:,} of {sum(weight.numel() for weight in policy.model.parameters()):,} weights move")

# %%
config = TrainerConfig(
    iterations=1,
    groups=2,
    group_size=2,
    learning_rate=1e-3,
    memory=Memory(microbatch_tokens=4096, activation_checkpointing=True),
    validation=Validation(every=0),
)
train = [{"split": "train", "index": index} for index in range(8)]
rows = Trainer(policy, make(), recipe("rewardflow"), train, config, folder=folder / "run").run()
print({key: round(float(rows[-1][key]), 4) for key in ("success", "kl", "grad_norm") if key in rows[-1]})

# %% [markdown]
# ## Results of a run
#
# An adapter of some megabytes, or an ordinary model folder for any program. (A random model does not win, of course.)

# %%
policy.save_pretrained(folder / "adapter")
merge_lora(policy).save_pretrained(folder / "merged")
player = HuggingFacePolicy.from_pretrained(folder / "merged", temperature=0.0, max_new_tokens=8)
print("files:", *sorted(path.name for path in (folder / "adapter").iterdir()))
print("greedy success on two levels:", evaluate(make(), player, train[:2], seed=0).success_rate)

# %% [markdown]
# ## With vLLM, in one command
#
# On a machine with a GPU and the extra `vllm`, the engine writes the replies and gets each new adapter as a file:
#
#     python -m benchmarks.run train --env alfworld --model models/Qwen2.5-7B-Instruct --method rewardflow --paper \
#         --lora 32 --engine vllm --out runs/alfworld-7b
#
# After Ctrl-C the same command resumes the run. After every change of weights the trainer also scores the first
# replies: an engine with old weights ends the run with an error.
