"""TRL's GRPOTrainer with step credit, on as many cards as accelerate has.

    accelerate launch -m baselines.engines.trl --env AgentRL/Sokoban-v0 --model DIR --method NAME \
        --output_dir OUT --num_generations 8 --per_device_train_batch_size 8 --learning_rate 1e-6

TRL draws the tasks, clips and updates; rollouts and credit are ours. A rollout is one sequence, so the environments
show transcripts. Methods with a scorer, and those that play groups again, do not fit. Needs the extra `trl`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from transformers import HfArgumentParser
from trl import GRPOConfig, GRPOTrainer
from trl.models import unwrap_model_for_generation

from agentgym.rollout import collect
from agentgym.trajectory import Reply, Step, StepTable, Trajectory
from baselines.engines import METHOD, check_credit, check_release, prompting
from baselines.engines.engine_rows import EngineRow, credited, steps_of
from baselines.engines.sequences import TokenSequence, token_sequences
from baselines.play.reply_costs import written
from baselines.recipes import recipe
from baselines.recipes.definition import Recipe
from policies.huggingface import HuggingFacePolicy
from wrappers.tools import tool_environment


def check(credit: Recipe, args: GRPOConfig) -> None:
    """Raise an error unless release and method fit."""
    check_release("trl", "1.16")
    check_credit(credit)
    if credit.name.startswith("reinforce_plus_plus") and args.world_size > 1:
        raise ValueError(f"{credit.name} scales by the whole batch, which {args.world_size} processes do not see")


class CreditGRPO(GRPOTrainer):
    """A `GRPOTrainer` whose advantages are a credit method's: one per step of an episode, on the step's tokens.

    Args:
        policy: the model with its tokenizer; weights fp32, or an adapter. It plays at `args.temperature`.
        envs: vector environments with autoreset `DISABLED`, reply parser and `VectorTranscript` included.
        credit: a recipe without scorer and resampling.
        tasks: reset options to draw from, as for `agentgym.rollout.collect`.
        args: TRL's configuration; `num_generations` is the group's size. `loss_type="dapo"` and `beta=0` is the
            house's loss with `aggregation="token-mean"` and no KL term.
        **trl_arguments: of `GRPOTrainer`, for example `callbacks`.

    Raises:
        RuntimeError: another release of TRL than the one tested with, whose hooks are experimental.
        ValueError: a method that does not fit, or a batch per process that splits groups.
    """

    def __init__(
        self, *, policy: HuggingFacePolicy, envs: gym.vector.VectorEnv[Any, Any, Any], credit: Recipe,
        tasks: Sequence[Mapping[str, Any]], args: GRPOConfig, **trl_arguments: Any,
    ) -> None:  # fmt: skip
        check(credit, args)
        self._policy = policy.with_settings(temperature=args.temperature)
        self._envs, self._credit = envs, credit
        super().__init__(
            model=policy.model,
            reward_funcs=lambda returns, **_: returns,  # for TRL's log: its advantages are replaced
            args=args,
            train_dataset=Dataset.from_list([{"prompt": json.dumps(dict(task))} for task in tasks]),
            processing_class=policy.tokenizer,
            rollout_func=lambda prompts, trainer: trainer.rollout(prompts),
            **trl_arguments,
        )

    def play(self, tasks: list[dict[str, Any]], size: int, seed: int) -> StepTable:
        """Play a group of so many episodes of each task."""
        with unwrap_model_for_generation(self.model_wrapped, self.accelerator):
            return collect(self._envs, self._policy, tasks=tasks, group_size=size, seed=seed)

    def rollout(self, prompts: list[str]) -> dict[str, list[Any]]:
        """Play TRL's batch, whole groups in a row, and return a sequence with advantages for each prompt."""
        training = self.model.training
        size = self.num_generations if training else self.num_generations_eval
        groups = [prompts[start : start + size] for start in range(0, len(prompts), size)]
        if any(len(group) < size or len(set(group)) > 1 for group in groups):
            raise ValueError(f"TRL's batch splits groups of {size}: make it a multiple of num_generations")
        draw = (self.args.seed, self.state.global_step, self.accelerator.process_index, int(training))
        seed = int(np.random.SeedSequence(draw).generate_state(1)[0])
        # In training mode activation checkpointing would drop the cache of the decoding loop.
        self.model.eval()
        try:
            table = self.play([json.loads(group[0]) for group in groups], size, seed)
        finally:
            self.model.train(training)
        table = written(table)  # without rows in which a prompt did not fit
        sequences = token_sequences(table, self._credit(table))
        # One a trajectory, the longest: where two replies are the same text in other tokens, a transcript breaks.
        longest = {table.trajectories[one.trajectory]: one for one in sorted(sequences, key=lambda one: len(one.rows))}
        steps, kept = (sum(len(one.rows) for one in some) for some in (sequences, longest.values()))
        if 2 * kept < steps:
            raise ValueError("a rollout must be one sequence for TRL: wrap the environments in VectorTranscript")
        figures = {"success": table.trajectory_won.mean(), "steps": len(table) / table.n_trajectories}
        for name, value in (figures | {"left_out": 1 - kept / max(steps, 1)}).items():
            self._log_metric(f"rollout/{name}", float(value))
        returns = dict(zip(table.trajectories, table.trajectory_return.tolist(), strict=True))
        # An episode without a scored step is a row that teaches nothing.
        prompt = sequences[0].prompt_ids
        nothing = TokenSequence(prompt, prompt[-1:], (False,), (0.0,), (0.0,), (), 0, 0)
        played = [longest.get(episode, nothing) for episode in range(len(prompts))]
        return {
            "prompt_ids": [list(one.prompt_ids) for one in played],
            "completion_ids": [list(one.completion_ids) for one in played],
            "logprobs": [list(one.logprobs) for one in played],
            "env_mask": [list(map(int, one.mask)) for one in played],
            "step_advantages": [list(one.advantages) for one in played],
            "returns": [returns.get(episode, 0.0) for episode in range(len(prompts))],
        }

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        advantages = _padded([one["step_advantages"] for one in inputs], batch["completion_ids"])
        return {**batch, "advantages": advantages}


class ToolCreditGRPO(GRPOTrainer):
    """A `GRPOTrainer` that plays by its own tool calls, with the advantages of a credit method.

    A turn with one or several calls is a step. A turn without a call, while the episode runs, is a step that the
    environment does not accept, and ends it; turns after the end are not trained.

    Args:
        env: makes an environment, see `wrappers.tools.tool_environment`.
        credit, **trl_arguments: see `CreditGRPO`; the data set's columns `split`, `index`, `task_id` and `seed` choose
            the task. What the environment shows comes after the last message of `prompt`.

    Raises:
        RuntimeError, ValueError: see `CreditGRPO`.
    """

    def __init__(
        self, *, env: Callable[[], gym.Env[Any, Any]], credit: Recipe, args: GRPOConfig, **trl_arguments: Any
    ) -> None:
        check(credit, args)
        self._credit = credit
        super().__init__(environment_factory=tool_environment(env), args=args, **trl_arguments)

    def _generate(self, prompts: list[Any]) -> Any:
        size = self.num_generations if self.model.training else self.num_generations_eval
        if len(prompts) % size:
            raise ValueError(f"TRL's batch splits groups of {size}: make it a multiple of num_generations")
        played = super()._generate(prompts)
        _, tokens, masks, messages, *_ = played
        found = zip(self.environments, tokens, masks, messages, strict=True)
        rows = [
            EngineRow(str(number // size), str(number), ids, _steps(env, ids, _turns(mask), said))
            for number, (env, ids, mask, said) in enumerate(found)
        ]
        table, self._advantages, self._scored = credited(rows, self._credit)
        self._log_metric("rollout/success", float(table.trajectory_won.mean()))
        return played

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        own = batch["tool_mask"]
        advantages, mask = _padded(self._advantages, own), _padded(self._scored, own).to(own.dtype)
        count = self.accelerator.gather((batch["completion_mask"] * mask).sum()).sum()
        return {**batch, "advantages": advantages, "tool_mask": mask, "num_items_in_batch": count}


def _padded(rows: Sequence[Sequence[float] | NDArray[Any]], like: torch.Tensor) -> torch.Tensor:
    """Return numbers of completion tokens, float32 in the shape (B, C) and on the device of `like`; 0 behind a row."""
    found = torch.zeros(like.shape)
    for place, row in zip(found, rows, strict=True):
        place[: len(row)] = torch.as_tensor(row)
    return found.to(like.device)


def _turns(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Return the beginning and the end of each run of ones."""
    edges = np.flatnonzero(np.diff([0, *mask, 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _steps(
    env: Any, tokens: Sequence[int], turns: Sequence[tuple[int, int]], messages: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the steps of an episode that TRL has played, see `baselines.engines.engine_rows.steps_of`."""
    said, calls = list[str](), list[int]()
    for message in messages:
        if message["role"] == "tool":
            calls[-1] += hasattr(type(env), message.get("name", ""))
        else:
            said.append(str(message.get("content") or ""))
            calls.append(0)
    made, found = iter(env._steps), list[Step]()
    for number, ((start, stop), count) in enumerate(zip(turns, calls, strict=False)):
        last = number == len(turns) - 1
        done = [step for step in (made if last else itertools.islice(made, count)) if step is not None]
        if done:
            action = "\n".join(str(step.action) for step in done)
            reward, valid = sum(step.reward for step in done), all(step.valid for step in done)
            step = Step(len(found), done[0].state, action, done[-1].next_state, reward, valid)
        elif last and not any(env._ended):
            step = Step(len(found), env._key, "", env._key, 0.0, valid=False)
        else:
            continue
        reply = Reply(said[number], tuple(tokens[:start]), tuple(tokens[start:stop]))
        found.append(replace(step, reply=reply))
    won, terminated, truncated = env._ended
    episode = Trajectory("", "", won, terminated, truncated or not terminated, tuple(found))
    return steps_of(episode, range(len(found)), prompt=0)


@dataclass
class Run:
    """A run: a registered id, a model folder, a recipe's name, and the number of tasks of a split."""

    env: str = field(metadata={"help": "registered id, such as AgentRL/Sokoban-v0 or my_module:Env-v0"})
    model: str = field(metadata={"help": "folder of a Hugging Face causal language model"})
    method: str = field(default=METHOD, metadata={"help": "credit method: a name in baselines.recipes"})
    split: str = field(default="train", metadata={"help": "split of the environment that tasks are drawn from"})
    tasks: int = field(default=1000, metadata={"help": "how many tasks of the split, from index 0"})
    num_envs: int = field(default=32, metadata={"help": "episodes that a process plays side by side"})


def main() -> None:
    """Train from the command line; every field of `GRPOConfig` is an option."""
    run, args = HfArgumentParser([Run, GRPOConfig]).parse_args_into_dataclasses()  # type: ignore[list-item]
    trainer = CreditGRPO(
        policy=HuggingFacePolicy.from_pretrained(run.model, dtype=torch.float32, device="cpu"),
        envs=prompting(run.env, run.num_envs),
        credit=recipe(run.method).anywhere(),
        tasks=[{"split": run.split, "index": index} for index in range(run.tasks)],
        args=args,
    )
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()
