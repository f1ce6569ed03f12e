"""Write the tasks of a registered environment where verl reads them, and start verl; see `baselines.engines.verl`."""

import importlib.metadata
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset
from transformers import HfArgumentParser
from verl.trainer.main_ppo import main as start

from agentgym.outside.packages import install
from baselines.engines import METHOD, check_credit, check_release
from baselines.recipes import recipe


@dataclass
class Run:
    """A run: a registered id, a model folder, a recipe's name, and the number of tasks of each split.

    Every machine of the cluster has to read `model` and `output`, where tasks and checkpoints are. `env_options` are
    arguments of the environment, `policy` settings of `policies.huggingface`, both JSON.
    """

    env: str
    model: str
    output: str
    method: str = METHOD
    split: str = "train"
    tasks: int = 1000
    validation_split: str = "validation"
    validation_tasks: int = 64
    env_options: str = "{}"
    policy: str = "{}"
    windows: bool = False


def write_tasks(file: Path, env: str, split: str, tasks: int, env_options: str = "{}") -> None:
    """Write a file of tasks for verl: one group each, played by `HouseLoop`."""
    rows = [
        {
            "agent_name": "stepcredit",
            "env": env,
            "env_options": env_options,
            "task": json.dumps({"split": split, "index": index}),
            # What verl asks of every data set:
            "prompt": [{"role": "user", "content": f"{env}, {split} {index}"}],
            "data_source": env,
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": index},
        }
        for index in range(tasks)
    ]
    Dataset.from_list(rows).to_parquet(file)


def _quoted(text: str | Path) -> str:
    return "'" + str(text).replace("'", r"\'") + "'"


def main() -> None:
    """Train from the command line; what follows the options is verl's configuration, as `name=value`."""
    run, settings = HfArgumentParser(Run).parse_args_into_dataclasses(return_remaining_strings=True)  # type: ignore[arg-type]
    check_release("verl", "0.9.1")
    check_credit(recipe(run.method).anywhere())
    if "stepcredit" not in importlib.metadata.entry_points(group="verl.plugins").names:
        raise RuntimeError(
            f"verl's processes would not find stepcredit: install it ({install('verl')}), as on every machine"
        )
    output = Path(run.output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    write_tasks(output / "train.parquet", run.env, run.split, run.tasks, run.env_options)
    write_tasks(output / "validation.parquet", run.env, run.validation_split, run.validation_tasks, run.env_options)
    model = Path(run.model).resolve() if Path(run.model).is_dir() else run.model
    json.loads(run.policy), json.loads(run.env_options)  # an error now, not in another process
    sys.argv[1:] = [
        "trainer.v1.trainer_mode=stepcredit",
        f"+credit.method={_quoted(run.method)}",
        f"+credit.policy={_quoted(run.policy)}",
        f"+credit.transcript={not run.windows}",
        "algorithm.adv_estimator=grpo",
        f"actor_rollout_ref.model.path={_quoted(model)}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        f"data.train_files={_quoted(output / 'train.parquet')}",
        f"data.val_files={_quoted(output / 'validation.parquet')}",
        f"trainer.default_local_dir={_quoted(output)}",
        "trainer.logger=[console,tensorboard]",
        *settings,
    ]
    start()


if __name__ == "__main__":
    main()
