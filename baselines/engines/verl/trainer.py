"""verl's synchronous trainer, with the advantages of a credit method."""

from __future__ import annotations

from typing import Any

import torch
import transfer_queue
from omegaconf import OmegaConf, open_dict
from tensordict import TensorDict
from verl.trainer.ppo.utils import need_critic
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer

from baselines.engines import check_credit, check_release
from baselines.engines.engine_rows import EngineRow, credited
from baselines.recipes import recipe


@register_trainer("stepcredit")
class CreditTrainer(PPOTrainerSync):
    """verl's synchronous trainer whose advantages are a credit method's: `+credit.method=NAME`.

    Raises:
        RuntimeError: another release of verl than the one tested with.
        ValueError: a method, or a setting of verl's, that does not fit.
    """

    def __init__(self, config: Any) -> None:
        check_release("verl", "0.9.1")
        method = OmegaConf.select(config, "credit.method")
        if method is None or need_critic(config) or config.algorithm.use_kl_in_reward:
            raise ValueError(
                "expected +credit.method=NAME, no critic (algorithm.adv_estimator=grpo) and "
                f"algorithm.use_kl_in_reward=false, as credit sees the environment's rewards; got the method {method}, "
                f"{config.algorithm.adv_estimator}, {config.algorithm.use_kl_in_reward}"
            )
        self._credit = recipe(method)
        check_credit(self._credit)
        with open_dict(config):  # verl chooses buffer and data loader by this name
            config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)  # also verl's correction for the servers' other kernels
        names = ["extra_fields", "responses", "response_mask"]
        data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        rows = []
        for key, extra, tokens in zip(batch.keys, data["extra_fields"], data["responses"], strict=True):
            group, _, _ = key.rsplit("_", 2)
            steps = [] if key.startswith("pad") else getattr(extra, "data", extra).get("step")  # padding is a copy
            if steps is None:
                raise ValueError(f"row {key} holds no steps: expected agent_name 'stepcredit' in the data")
            rows.append(EngineRow(group, key.rpartition("_")[0], tokens.tolist(), steps))
        table, advantages, scored = credited(rows, self._credit)
        metrics |= {"credit/success": float(table.trajectory_won.mean()), "credit/episodes": table.n_trajectories}
        values = [torch.as_tensor(one, dtype=torch.float32) for one in advantages]
        masks = [mask * torch.as_tensor(one) for mask, one in zip(data["response_mask"], scored, strict=True)]
        written = {"advantages": values, "returns": values, "response_mask": masks, "loss_mask": masks}
        nested = {name: torch.nested.as_nested_tensor(one, layout=torch.jagged) for name, one in written.items()}
        return transfer_queue.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(nested, batch_size=len(batch))
        )
