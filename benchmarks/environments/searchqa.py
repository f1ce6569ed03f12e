"""Search-QA in the learning benchmark."""

from __future__ import annotations

import dataclasses

from baselines.recipes import SOKOBAN_PRETRAINED, SOKOBAN_TINY
from benchmarks.config import Setup, Sizes
from benchmarks.environments.searchqa_words import PIECES, encyclopaedia_words
from benchmarks.environments.settings import COPYING, EnvSettings
from wrappers.advice import Adviser
from wrappers.canonical import Key


def _reader() -> Adviser:
    from agentgym.searchqa.player import Reader

    return Reader()


def _documents() -> Key:
    from agentgym.searchqa.keys import documents_key

    return documents_key


# Questions of two facts out of six, and one passage per search: prompts of some 80 tokens, episodes of three turns, few
# enough ways to ask that a CPU core learns to read them in minutes, and enough people that it pays to copy their names
# instead of knowing them by heart.
SEARCHQA_TINY = dataclasses.replace(
    SOKOBAN_TINY, iterations=250, groups=16, group_size=8, learning_rate=2e-4, temperature=0.7, validate_every=25
)
_TO_PERSON = ("creator", "winner", "spouse", "teacher", "parent")
_FACTS = [
    f"{first}-{then}"
    for first in _TO_PERSON
    for then in ("birthplace", "spouse", "teacher", "parent")
    if first != then or first in ("teacher", "parent")
]

SEARCHQA = EnvSettings(
    name="searchqa",
    id="AgentRL/SearchQA-v0",
    tiny=SEARCHQA_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        SEARCHQA_TINY,
        clone_levels=5000,
        clone_epochs=1,
        training_levels=1300,
        eval_levels=256,
        validation_levels=128,
    ),
    setup=Setup(
        options={"sources": ["two_hop"], "kinds": _FACTS, "top_k": 1, "max_turns": 3},
        kinds="data_source",
        prompt={"keep_first": True, "shown": "actions"},
        policy=COPYING | {"max_new_tokens": 9, "stop": ["</search>", "</answer>"]},
    ),
    pretrained_setup=Setup(
        kinds="data_source",
        prompt={"keep_first": True},
        policy={"max_new_tokens": 64, "stop": ["</search>", "</answer>"]},
    ),
    history=3,
    words=encyclopaedia_words,
    pieces=PIECES,
    advisers={"reader": _reader},
    key=_documents,
    kind_names={
        "nq": "NQ",
        "triviaqa": "TriviaQA",
        "popqa": "PopQA",
        "hotpotqa": "HotpotQA",
        "2wikimultihopqa": "2Wiki",
        "musique": "MuSiQue",
        "bamboogle": "Bamboogle",
        "one_hop": "1 hop",
        "two_hop": "2 hops",
        "three_hop": "3 hops",
        "comparison": "Compare",
        "bridge": "Bridge",
    },
)
