"""Two made-up people, dialogues between them, players and judges that count how they are asked; official files."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym.outside.dialogue import NONE, Act, Failure, Player, Turn, View
from agentgym.sotopia.dialogue import Dialogue, Rating, Verdict
from agentgym.sotopia.games.game import Game, Outcome, Standing
from agentgym.sotopia.official import FILES
from agentgym.sotopia.profiles import Person, Relationship, Scenario, Task
from agentgym.sotopia.rules import SocialWorld
from tests.oracles import FOLDER as DATA

ADA = Person(
    id="ada", first_name="Ada", last_name="Lund", age=31, occupation="Sea Captain", gender="Woman",
    gender_pronoun="She/her", public_info="Ada keeps bees.", personality_and_values="Ada is stubborn.",
    secret="Ada cannot swim.",
)  # fmt: skip
BEN = Person(
    id="ben", first_name="Ben", last_name="Noor", age=64, occupation="Clown", gender="Man", gender_pronoun="He/him",
    public_info="Ben juggles.", personality_and_values="Ben is shy.", secret="Ben fears balloons.",
)  # fmt: skip


def make_task(
    relationship: int = 3,
    text: str = "Two people wait for a train.",
    goals: tuple[str, str] = ("Get the window seat", "Get some sleep"),
) -> Task:
    scenario = Scenario("wait", "wait", "made up", text, goals, Relationship(relationship))
    return Task("wait-0", scenario, (ADA, BEN), None, 7)


def say(text: str) -> Act:
    return Act("speak", text)


def first(act: Act) -> tuple[Act, Act]:
    """A turn in which role 0 acts."""
    return act, NONE


def second(act: Act) -> tuple[Act, Act]:
    """A turn in which role 1 acts."""
    return NONE, act


class Script:
    """Says its lines one after the other, then leaves; keeps what it was asked."""

    def __init__(self, *acts: Act | Failure) -> None:
        self.acts = acts
        self.calls: list[list[View]] = []

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        self.calls.append(list(views))
        answers: list[Act | Failure] = []
        for view in views:
            done = sum(turn.acts[view.role] != NONE for turn in view.turns)
            answers.append(self.acts[done] if done < len(self.acts) else Act("leave"))
        return answers


class Fixed:
    """Gives everyone the same scores; keeps what it was asked."""

    def __init__(self, goals: tuple[float, float] = (8, 3), failure: Failure | None = None) -> None:
        ratings = tuple(Rating(9, 2, 3, -1, 0, 1, goal) for goal in goals)
        self.verdict = failure or Verdict((ratings[0], ratings[1]))
        self.calls: list[list[Dialogue]] = []

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        self.calls.append(list(dialogues))
        return [self.verdict] * len(dialogues)


class Down:
    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        raise ConnectionError("connection refused")

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        raise ConnectionError("connection refused")


def turns(*spoken: str | Act, first: int = 0) -> list[Turn]:
    """Turns of a dialogue in which both speak by turns, beginning with `first`."""
    acts = [each if isinstance(each, Act) else Act("speak", each) for each in spoken]
    return [Turn(i, (act, NONE) if (i + first) % 2 == 0 else (NONE, act)) for i, act in enumerate(acts)]


def standing(game: Game, *spoken: str | Act, first: int = 0) -> Standing:
    found = Standing()
    for turn in turns(*spoken, first=first):
        found = game.read(found, turn)
    return found


def outcome(game: Game, *spoken: str | Act, first: int = 0) -> Outcome:
    return game.settle(standing(game, *spoken, first=first))


def play(task: Task, first: Player, second: Player) -> Dialogue:
    """Let two players talk until the end."""
    world = SocialWorld(task)
    while not world.ended:
        acts = [NONE, NONE]
        for role in world.speakers:
            act = (first, second)[role].act([world.view(role)])[0]
            assert not isinstance(act, Failure), act
            acts[role] = act
        world.play((acts[0], acts[1]))
    return world.dialogue


FOLDER = DATA / "sotopia"

needs_data = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason=f"no official profiles: {FOLDER} is absent (set AGENTGYM_ORACLES to the folder around it)",
)

SCENARIO = {
    "env_id": "e1", "codename": "wait", "source": "ours", "scenario": "Two wait.", "agent_goals": ["Sit", "Sleep"],
    "relationship": "3",
}  # fmt: skip
PERSON = {
    "agent_id": "a1", "first_name": "Ada", "last_name": "Lund", "age": 31, "occupation": "Captain", "gender": "Woman",
    "gender_pronoun": "She/her", "public_info": "Bees.", "personality_and_values": "Stubborn.",
    "secret": "Cannot swim.", "moral_values": ["Care", " Fairness"],
}  # fmt: skip
PAIRING = {"combo_id": "c1", "env_id": "e1", "agent_ids": ["a1", "a2"]}
ROWS = ([SCENARIO], [PERSON, {**PERSON, "agent_id": "a2", "first_name": "Bo"}], [PAIRING])


def write_files(folder: Path, rows: tuple = ROWS) -> Path:
    for name, records in zip(FILES, rows, strict=True):
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return folder
