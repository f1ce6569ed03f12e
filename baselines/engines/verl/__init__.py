"""verl's trainer with step credit, on a Ray cluster.

    python -m baselines.engines.verl --env AgentRL/Sokoban-v0 --model DIR --method NAME --output OUT \
        trainer.n_gpus_per_node=8 data.train_batch_size=16 actor_rollout_ref.rollout.n=8

verl draws the tasks, serves the model, clips and updates; episodes and credit are ours:

    HouseLoop       plays an episode with verl's servers; rows with the steps that they hold go into TransferQueue
    CreditTrainer   reads the rows of whole groups, gives credit, writes the advantages back

verl's processes find both, under the name "stepcredit", by the entry point of that name in the group `verl.plugins`.
Methods with a scorer, and those that play groups again, do not fit. Needs the extra `verl`.
"""

from baselines.engines.verl.loop import HouseLoop
from baselines.engines.verl.trainer import CreditTrainer

__all__ = ["CreditTrainer", "HouseLoop"]
