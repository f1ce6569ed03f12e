"""Gymnasium wrappers of text environments: replies, prompts, invalid actions, state keys, credit."""

from wrappers.advice import VectorAdvice
from wrappers.canonical import (
    CanonicalStates,
    enriched_key,
    graphgpo_key,
    observation_key,
    relabel_states,
    rewardflow_key,
)
from wrappers.credit import (
    BPO,
    DAPO,
    GAE,
    GRPO,
    HGPO,
    RAGEN2,
    RLOO,
    SALT,
    TIGPO,
    Frontier,
    GiGPO,
    GraphGPO,
    MileGPO,
    Potential,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    RewardFlow,
    StateGraph,
    TaskGraphs,
    TreeGRPO,
    Vine,
)
from wrappers.invalid_action import InvalidActionPenalty, VectorInvalidActionPenalty
from wrappers.process_reward import ProcessReward, ScoredStep, VectorProcessReward
from wrappers.prompt import MessageSpace, PromptStyle, PromptWindow, VectorPromptWindow
from wrappers.reply import ParsedReply, ReplyError, ReplyParser, VectorReplyParser, parse_reply
from wrappers.shaping import GraphShaping, VectorGraphShaping
from wrappers.similar_states import SentenceEncoder, cosine_clusters, merge_similar_states
from wrappers.snapshots import VectorSnapshots
from wrappers.symbols import DiscreteActions, SymbolPlanes
from wrappers.transcript import Transcript, VectorTranscript
from wrappers.vector_wrapper import SubEnvWrapper

__all__ = [
    "BPO", "DAPO", "GAE", "GRPO", "HGPO", "RAGEN2", "RLOO", "SALT", "TIGPO", "CanonicalStates", "DiscreteActions",
    "Frontier", "GiGPO", "GraphGPO", "GraphShaping", "InvalidActionPenalty", "MessageSpace", "MileGPO", "ParsedReply",
    "Potential", "ProcessReward", "PromptStyle", "PromptWindow", "ReinforcePlusPlus", "ReinforcePlusPlusBaseline",
    "ReplyError", "ReplyParser", "RewardFlow", "ScoredStep", "SentenceEncoder", "StateGraph", "SubEnvWrapper",
    "SymbolPlanes", "TaskGraphs", "Transcript", "TreeGRPO", "VectorAdvice", "VectorGraphShaping",
    "VectorInvalidActionPenalty", "VectorProcessReward", "VectorPromptWindow", "VectorReplyParser", "VectorSnapshots",
    "VectorTranscript", "Vine", "cosine_clusters", "enriched_key", "graphgpo_key", "merge_similar_states",
    "observation_key", "parse_reply", "relabel_states", "rewardflow_key",
]  # fmt: skip
