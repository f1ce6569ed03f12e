"""Search-QA in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

from agentgym.searchqa.generated.encyclopaedia import make_encyclopaedia
from agentgym.searchqa.keys import documents_key
from agentgym.searchqa.player import SearchQAPlayer
from agentgym.searchqa.protocol import FAILED, INVALID
from agentgym.searchqa.retrieval.simulated import NoiseCurriculum
from baselines.environments.settings import (
    COPYING,
    SMOLLM2,
    SOKOBAN_PRETRAINED,
    SOKOBAN_TINY,
    EnvSettings,
    ModelSettings,
    OwnEnv,
    OwnRow,
    Scripted,
    Setup,
    Sizes,
)

#: Phrases that occur in every prompt are one token each; otherwise a word and the space before it are one.
_PIECES: tuple[str, ...] = (
    r"At the start you saw:\n",
    r"\n\nYou did:",
    r"\n\nNow you see:\n",
    r"\n*<information>Doc 1\(Title: \"",
    r"\.?</information>\n*",
    r"\"\)",
    r" ?</?[a-z]+>",
    r";(?= )",
    r" ?[A-Za-z]+",
    r" ?(?:1[0-9]{3}|20[0-9]{2}|[89][0-9]{2})(?![0-9,])",
)

#: Texts of the prompts, without questions and passages.
_SAID = (
    "At the start you saw:\n\n\nYou did: <search> a </search>; <answer> a </answer>",
    '\n\nNow you see:\n\n\n<information>Doc 1(Title: "A") a.</information>\n\n',
    "<search>a</search><answer>a</answer>",
)


def _words() -> list[str]:
    made = make_encyclopaedia()
    questions = [question.text for question in made.questions if question.split == "train"]
    years = [f" {year} {year}" for year in range(820, 2016)]
    passages = [f"(Title: {passage.title}) {passage.title} {passage.text}" for passage in made.passages]
    return [*_SAID, INVALID, FAILED, *questions, *passages, *years]


# Questions of two facts out of six, and one passage per search: prompts of some 80 tokens, episodes of three turns, few
# enough ways to ask that a CPU core learns to read them in minutes, and enough people that it pays to copy their names
# instead of knowing them by heart.
SEARCHQA_TINY = SOKOBAN_TINY.changed(
    iterations=250, groups=16, group_size=8, learning_rate=2e-4, temperature=0.7, validation={"every": 25}
)
_TO_PERSON = ("creator", "winner", "spouse", "teacher", "parent")
_FACTS = [
    f"{first}-{then}"
    for first in _TO_PERSON
    for then in ("birthplace", "spouse", "teacher", "parent")
    if first != then or first in ("teacher", "parent")
]

# SmolLM2 on a CPU: two facts of all 45 kinds. Cloning ends with the first look that finds 30 % of the validation
# questions answered: after 56 episodes read once, clones answered 20, 52 and 5 % (seeds 0, 1 and 2), and episodes read
# three times leave replies that hardly differ: six iterations then found nothing to choose from. 16 iterations of GRPO
# at a rate of 1e-5 and a temperature of 1 took the first clone from 53 to 59 %, its sampled play from 22 to 41 %.
SEARCHQA_SMOLLM2 = SOKOBAN_PRETRAINED.changed(
    iterations=20, groups=8, group_size=8, learning_rate=2e-5, temperature=0.7, loss={"kl": 0.0, "keep_zero": False},
    optimiser={"minibatch_rows": 256},
    memory={"microbatch_rows": None, "microbatch_tokens": 768, "share_prefixes": True}, validation={"every": 10},
)  # fmt: skip

_ID = "AgentRL/SearchQA-v0"

SEARCHQA = EnvSettings(
    name="searchqa",
    id=_ID,
    papers_play="published questions and passages",
    # As in verl-agent, which these papers' runs are made with: the last turn is the one for the answer.
    papers_options={"steps": lambda turns: {"max_turns": turns, "last_turn": "counted"}},
    rows=(
        OwnRow(
            "r1",
            "grpo",
            "GRPO without a search engine: what the policy knows by heart.",
            OwnEnv(_ID, {"max_turns": 0, "last_turn": "extra"}),
        ),
        OwnRow("search_r1", "grpo", "GRPO on the exact match of the answer, with a real search engine.", OwnEnv(_ID)),
        OwnRow(
            "zerosearch",
            "grpo",
            "GRPO on the F1 of the answer, with a simulated search engine that grows noisy; tested with the real one.",
            OwnEnv(_ID, training={"simulator": "rule", "reward": "f1"}, schedule=NoiseCurriculum()),
        ),
        OwnRow(
            "stepsearch",
            "ppo",
            "PPO on rewards of single searches, evidence gained less passages seen before, and of answer and queries.",
            OwnEnv(_ID, training={"reward": "stepsearch"}),
            {"gamma": 1.0, "lam": 1.0},
        ),
    ),
    tiny=SEARCHQA_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        SEARCHQA_TINY, clone_tasks=5000, clone_epochs=1, training_tasks=1300, eval_tasks=256, validation_tasks=128
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
    words=_words,
    pieces=_PIECES,
    data={"corpus": "", "questions": ""},
    made=("sources", "kinds"),
    advisers={"reader": SearchQAPlayer},
    key=documents_key,
    kind_names={
        "nq": "NQ", "triviaqa": "TriviaQA", "popqa": "PopQA", "hotpotqa": "HotpotQA", "2wikimultihopqa": "2Wiki",
        "musique": "MuSiQue", "bamboogle": "Bamboogle", "one_hop": "1 hop", "two_hop": "2 hops", "three_hop": "3 hops",
        "comparison": "Compare", "bridge": "Bridge",
    },
    models={
        SMOLLM2: ModelSettings(
            training=SEARCHQA_SMOLLM2,
            token_budget=60_000,
            full=Sizes.trained(
                SEARCHQA_SMOLLM2, clone_tasks=56, clone_epochs=2, training_tasks=1300, eval_tasks=256,
                validation_tasks=64,
            ),
            quick=Sizes(
                steps=2, groups=2, group_size=4, clone_tasks=4, clone_epochs=1, training_tasks=4, eval_tasks=4,
                validation_tasks=2, validation_every=2,
            ),
            setup=Setup(
                options={"sources": ["two_hop"], "top_k": 1, "max_turns": 3}, kinds="data_source",
                prompt={"keep_first": True, "shown": "actions"},
                policy={"max_new_tokens": 24, "stop": ["</search>", "</answer>"]},
                clone={"batch_size": 4, "warmup": 4, "weight_decay": 0.0}, clone_until=0.3,
            ),
            history=3,
            instructions=False,
        )
    },
    scripted=Scripted(32, (0.48, 0.72, 0.88)),
)  # fmt: skip
