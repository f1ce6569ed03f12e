"""Gymnasium wrappers around text environments: replies, prompts, invalid actions, state keys, credit.

The functions behind the credit wrappers are named like their files and imported from there
(`from wrappers.rewardflow import rewardflow`): exported here, they would hide their modules.
"""

from wrappers.advice import VectorAdvice
from wrappers.canonical import (
    CanonicalStates,
    enriched_key,
    graphgpo_key,
    observation_key,
    relabel_states,
    rewardflow_key,
)
from wrappers.clusters import cosine_clusters, merge_similar_states
from wrappers.dapo import DAPO
from wrappers.gae import GAE
from wrappers.gigpo import GiGPO
from wrappers.graphgpo import GraphGPO
from wrappers.grpo import GRPO
from wrappers.hgpo import HGPO
from wrappers.invalid_action import InvalidActionPenalty, VectorInvalidActionPenalty
from wrappers.messages import MessageSpace
from wrappers.prompt import PromptStyle, PromptWindow, VectorPromptWindow
from wrappers.reinforce_plus_plus import ReinforcePlusPlus, ReinforcePlusPlusBaseline
from wrappers.reply import ParsedReply, ReplyError, ReplyParser, VectorReplyParser, parse_reply
from wrappers.rewardflow import RewardFlow
from wrappers.rloo import RLOO
from wrappers.shaping import GraphShaping, VectorGraphShaping
from wrappers.state_graph import StateGraph
from wrappers.symbols import DiscreteActions, SymbolPlanes
from wrappers.task_graph import TaskGraphs

__all__ = [
    "DAPO",
    "GAE",
    "GRPO",
    "HGPO",
    "RLOO",
    "CanonicalStates",
    "DiscreteActions",
    "GiGPO",
    "GraphGPO",
    "GraphShaping",
    "InvalidActionPenalty",
    "MessageSpace",
    "ParsedReply",
    "PromptStyle",
    "PromptWindow",
    "ReinforcePlusPlus",
    "ReinforcePlusPlusBaseline",
    "ReplyError",
    "ReplyParser",
    "RewardFlow",
    "StateGraph",
    "SymbolPlanes",
    "TaskGraphs",
    "VectorAdvice",
    "VectorGraphShaping",
    "VectorInvalidActionPenalty",
    "VectorPromptWindow",
    "VectorReplyParser",
    "cosine_clusters",
    "enriched_key",
    "graphgpo_key",
    "merge_similar_states",
    "observation_key",
    "parse_reply",
    "relabel_states",
    "rewardflow_key",
]
