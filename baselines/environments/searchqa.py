"""Search-QA in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

from agentgym.searchqa.generated.encyclopaedia import make_encyclopaedia
from agentgym.searchqa.keys import documents_key
from agentgym.searchqa.player import SearchQAPlayer
from agentgym.searchqa.protocol import FAILED, INVALID
from agentgym.searchqa.retrieval.simulated import NoiseCurriculum
from baselines.environments.settings import REFERENCE, OwnEnv, OwnRow, read


def _words() -> list[str]:
    made = make_encyclopaedia()
    questions = [question.text for question in made.questions if question.split == "train"]
    years = [f" {year} {year}" for year in range(820, 2016)]
    passages = [f"(Title: {passage.title}) {passage.title} {passage.text}" for passage in made.passages]
    return [INVALID, FAILED, *questions, *passages, *years]


_ID = "AgentRL/SearchQA-v0"

SEARCHQA = read(
    __file__,
    # As in verl-agent, which these papers' runs are made with: the last turn is the one for the answer.
    papers_options={"steps": lambda turns: {"max_turns": turns, "last_turn": "counted"}},
    rows=(
        OwnRow(
            "r1", REFERENCE, "Group advantages without a search engine: what the policy knows by heart.",
            OwnEnv(_ID, {"max_turns": 0, "last_turn": "extra"}),
        ),
        OwnRow(
            "search_r1", REFERENCE, "Group advantages of the exact match of the answer, with a real search engine.",
            OwnEnv(_ID),
        ),
        OwnRow(
            "zerosearch", REFERENCE,
            "Group advantages of the answer's F1, with a simulated engine that grows noisy; tested with the real one.",
            OwnEnv(_ID, training={"simulator": "rule", "reward": "f1"}, schedule=NoiseCurriculum()),
        ),
        OwnRow(
            "stepsearch", "ppo",
            "Rewards of single searches, evidence gained less passages seen before, and of answer and queries.",
            OwnEnv(_ID, training={"reward": "stepsearch"}),
            {"gamma": 1.0, "lam": 1.0},
        ),
    ),
    words=_words,
    advisers={"reader": SearchQAPlayer},
    key=documents_key,
)  # fmt: skip
