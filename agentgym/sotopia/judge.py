"""A judge by rules; only the goal is meant as a reward.

The other rules check the form of a dialogue, on SOTOPIA's scales:

* believability, 0..10: 10, -2 for an empty or literally repeated utterance, -1 for a turn without any act;
* relationship, -5..5: 2 for an agreement, -1 for leaving without one, -3 for every insult;
* knowledge, 0..10: 1 for every different proposal, name and property heard from the other;
* secret, -10..0: -10 for revealing five words in a row of the own secret (all words of a shorter one), -5 for four;
* social rules, -10..0: -3 for every insult, -5 for an utterance with half of the own friends' names;
* financial and material benefits, -5..5: the goal minus 5 for an agreement about money or things, else 0;
* goal, 0..10: computed by the game.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from agentgym.outside.dialogue import Failure
from agentgym.sotopia.dialogue import Dialogue, Judge, Rating, Verdict, find
from agentgym.sotopia.games.friend import MutualFriend
from agentgym.sotopia.games.game import Game, Outcome

_INSULTS = (
    "idiot", "stupid", "moron", "fool", "liar", "jerk", "loser", "ass", "asshole", "bastard", "bitch", "shut up",
    "fuck", "go to hell", "dumb",
)  # fmt: skip
_INSULT = re.compile(rf"\b(?:{'|'.join(_INSULTS)}|fuck\w+)\b")  # of text in lower case
#: Marks the end of an utterance: runs of words do not cross it.
_STOP = "|"
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*|\|")
#: Words in a row that reveal a secret, and the cost.
_GIVEN_AWAY = ((5, -10), (4, -5))


class RulesJudge:
    """Scores dialogues with a game by the module's rules; fails on others."""

    #: Only dialogues with computable goals, see `dialogue.check_playable`.
    needs_game = True

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        return [_verdict(dialogue) for dialogue in dialogues]


def _verdict(dialogue: Dialogue) -> Verdict | Failure:
    game, outcome = dialogue.task.game, dialogue.outcome
    if game is None or outcome is None:
        return Failure(
            f"the outcome of task {dialogue.task.id!r} cannot be computed: name a model as judge (MODEL@URL), or play "
            "the split 'numeric'"
        )
    reasons = {"goal": "nothing was agreed" if outcome.agreed is None else f"agreed: {game.tell(outcome.agreed)}"}
    return Verdict((_rating(dialogue, game, outcome, 0), _rating(dialogue, game, outcome, 1)), (reasons, reasons))


def _rating(dialogue: Dialogue, game: Game, outcome: Outcome, role: int) -> Rating:
    spoken: list[str] = []
    flaws = silent = lists = 0
    left = False
    heard: set[object] = set()
    names = game.sides[role].names if isinstance(game, MutualFriend) else frozenset()
    other = 1 - role
    for _, acts in dialogue.turns:
        kind, text = acts[role]
        other_kind, other_text = acts[other]
        if other_kind == "speak":
            reading = game.hear(other, other_text)
            if reading.things:
                heard.update(reading.things)
            if reading.terms is not None:
                heard.add(reading.terms)
        if kind == "none":
            silent += other_kind == "none"
        elif kind == "leave":
            left = True
        else:
            flaws += not text.strip() or text in spoken
            spoken.append(text)
            if names:
                lists += 2 * len(names.intersection(game.hear(role, text).things)) >= len(names)
    said = f"\n{_STOP}\n".join(spoken).lower()
    # A search for each plain insult is many times as fast as the pattern, and insults are rare.
    insults = len(_INSULT.findall(said)) if any(insult in said for insult in _INSULTS) else 0
    agreed = outcome.agreed is not None
    goal = outcome.goals[role]
    return Rating(
        believability=max(0, 10 - 2 * flaws - silent),
        relationship=max(-5, 2 * agreed - (left and not agreed) - 3 * insults),
        knowledge=min(10, len(heard)),
        secret=_given_away(dialogue.task.people[role].secret, said),
        social_rules=max(-10, -3 * insults - 5 * lists),
        financial_and_material_benefits=goal - 5 if agreed and game.material else 0,
        goal=goal,
    )


def _given_away(secret: str, said: str) -> int:
    """Return the secret score of lower-case utterances joined by `_STOP`."""
    if not any(mark in said for mark in _marks(secret)):
        return 0
    words = f" {' '.join(_WORD.findall(said))} "
    return next((cost for each, cost in _runs(secret) if any(run in words for run in each)), 0)


@lru_cache(maxsize=4096)
def _marks(secret: str) -> frozenset[str]:
    """Return the longest word of each run: any revelation holds one of them."""
    return frozenset([max(run.split(), key=len) for each, _ in _runs(secret) for run in each])


@lru_cache(maxsize=4096)
def _runs(secret: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Return the runs of words that reveal a secret, with their cost, worst first."""
    words = _WORD.findall(secret.lower())
    return tuple(
        (tuple(f" {' '.join(words[i : i + length])} " for i in range(max(1, len(words) - length + 1)) if words), cost)
        for length, cost in _GIVEN_AWAY
    )


def make_judge(judge: str | Judge) -> Judge:
    """Return a judge: an object itself, "rules", or `MODEL@URL`; errors are those of `players.make_player`."""
    found: Judge = find("judge", judge, Judge, "score(dialogues)", {"rules": RulesJudge}, "ModelJudge")
    return found
