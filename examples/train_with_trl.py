"""TRL plays an environment by tool calls and trains on credit for each step: python examples/train_with_trl.py.

Needs `pip install "stepcredit[trl]"`. A model that calls tools, such as Qwen3, needs no cloning.
"""

import gymnasium as gym
from datasets import Dataset
from trl import GRPOConfig
from trl.chat_template_utils import qwen3_chat_template

import agentgym  # noqa: F401  registers the environments
from baselines.engines.trl import ToolCreditGRPO
from baselines.imitation.cloning import imitate
from baselines.recipes import recipe
from policies.tiny import tiny_policy
from wrappers.tools import tool_environment

CALL = '<tool_call>\n{"name": "act", "arguments": {"command": "WAY"}}\n</tool_call>'
CALLS = [CALL.replace("WAY", way) for way in ("north", "east", "south", "west")]


def make() -> gym.Env[str, str]:
    """Make a corridor of one room, with one try to find the way out."""
    return gym.make("AgentRL/Corridor-v0", length=1, limit=1)


# A model of 0.2 million parameters, for which a call is a token, and which has learned to make any call.
env = tool_environment(make)()
asked = [{"role": "user", "content": env.reset(split="train", index=0)}]
texts = [asked[0]["content"], str(env._tools), qwen3_chat_template]
policy = tiny_policy(
    texts, seed=0, extra_words=CALLS, pieces=[r"<tool_call>\n\{.*\}\n</tool_call>"], positions=4096, prefix="",
    suffix="", stop=[], max_new_tokens=2, template={"tools": [env.act], "chat_template": qwen3_chat_template},
)  # fmt: skip
policy.tokenizer.chat_template = qwen3_chat_template
imitate(policy, [policy.demonstrate(asked, call) for call in CALLS], epochs=100, seed=0)
rows = [{"prompt": [{"role": "user", "content": ""}], "split": "train", "index": 0}] * 3
args = GRPOConfig(
    "runs/trl", per_device_train_batch_size=16, num_generations=16, max_steps=3, learning_rate=1e-3, loss_type="dapo",
    max_completion_length=200, max_tool_calling_iterations=2, logging_steps=1, save_strategy="no", report_to=[],
    use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True,
)  # fmt: skip
trainer = ToolCreditGRPO(
    env=make, credit=recipe("gigpo"), model=policy.model, processing_class=policy.tokenizer,
    train_dataset=Dataset.from_list(rows), args=args,
)  # fmt: skip
trainer.train()
for row in trainer.state.log_history[:3]:
    print(f"success {row['rollout/success']:.2f}, calls {row['tools/call_frequency']:.2f}")
