"""Credit assignment: functions that give an advantage to every step of a table of finished groups.

Each function is named like its file: `from wrappers.credit import rewardflow` is the function; other names come from
the module (`from wrappers.credit.rewardflow import PRESETS`).
"""

from wrappers.credit.aem import aem
from wrappers.credit.agentprm import action_targets
from wrappers.credit.attribution import attribution
from wrappers.credit.bpo import BPO, bpo
from wrappers.credit.dapo import DAPO, dapo
from wrappers.credit.empg import empg
from wrappers.credit.fill_silent import fill_silent, graphgpo_filled
from wrappers.credit.frontier import Frontier, frontier
from wrappers.credit.gae import GAE, gae
from wrappers.credit.gigpo import GiGPO, gigpo
from wrappers.credit.graphgpo import GraphGPO, graphgpo
from wrappers.credit.grpo import GRPO, grpo
from wrappers.credit.hcapo import hcapo
from wrappers.credit.hgpo import HGPO, hgpo
from wrappers.credit.hisr import hisr, importance
from wrappers.credit.igpo import igpo
from wrappers.credit.istar import istar
from wrappers.credit.milegpo import MileGPO, milegpo
from wrappers.credit.potential import Potential, potential
from wrappers.credit.prime import prime
from wrappers.credit.process_reward import process_reward
from wrappers.credit.ragen2 import RAGEN2, ragen2
from wrappers.credit.reinforce_plus_plus import (
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
)
from wrappers.credit.rewardflow import RewardFlow, rewardflow
from wrappers.credit.rlcsd import rlcsd
from wrappers.credit.rloo import RLOO, rloo
from wrappers.credit.rlsd import rlsd
from wrappers.credit.salt import SALT, salt
from wrappers.credit.sdpo import sdpo
from wrappers.credit.spa import spa
from wrappers.credit.state_graph import StateGraph
from wrappers.credit.task_graph import TaskGraphs
from wrappers.credit.tigpo import TIGPO, tigpo
from wrappers.credit.token_gae import bi_level_gae, token_gae
from wrappers.credit.tree_grpo import TreeGRPO, tree_grpo
from wrappers.credit.turn_credit import turn_credit
from wrappers.credit.vetta import vetta
from wrappers.credit.vine import Vine, vine
from wrappers.credit.wrapper import CreditWrapper

__all__ = [
    "BPO", "DAPO", "GAE", "GRPO", "HGPO", "RAGEN2", "RLOO", "SALT", "TIGPO", "CreditWrapper", "Frontier", "GiGPO",
    "GraphGPO", "MileGPO", "Potential", "ReinforcePlusPlus", "ReinforcePlusPlusBaseline", "RewardFlow", "StateGraph",
    "TaskGraphs", "TreeGRPO", "Vine", "action_targets", "aem", "attribution", "bi_level_gae", "bpo", "dapo", "empg",
    "fill_silent", "frontier", "gae", "gigpo", "graphgpo", "graphgpo_filled", "grpo", "hcapo", "hgpo", "hisr", "igpo",
    "importance", "istar", "milegpo", "potential", "prime", "process_reward", "ragen2", "reinforce_plus_plus",
    "reinforce_plus_plus_baseline", "rewardflow", "rlcsd", "rloo", "rlsd", "salt", "sdpo", "spa", "tigpo", "token_gae",
    "tree_grpo", "turn_credit", "vetta", "vine",
]  # fmt: skip
