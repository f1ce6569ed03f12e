"""SOTOPIA in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

import re

from agentgym.outside.dialogue import LEAVE, Act, write
from agentgym.sotopia import generated
from agentgym.sotopia.keys import deal_key
from agentgym.sotopia.profiles import opening
from baselines.environments.settings import read

_DAYS, _MEETINGS = "|".join(generated.DAYS), "|".join(map(re.escape, generated.MEETINGS))
_OCCUPATIONS = "|".join(occupation.lower() for occupation, _ in generated.OCCUPATIONS)
#: Traits of persons have nothing to do with times; each is one token.
_KNOWN = "|".join(
    map(re.escape, (*(known for _, known in generated.OCCUPATIONS), *generated.PERSONALITIES, *generated.SECRETS))
)
_ASKED = r"'s goal: Agree on a time that suits you \(What each costs you, from 0 \(suits you\) to 10 \(impossible\): "

#: Phrases that occur in every prompt are one token each, and so are a cost and the comma behind it.
_PIECES: tuple[str, ...] = (
    r"At the start you saw:\n\nHere is the context of this interaction:\nScenario: ",
    r"\n?Here is the context of this interaction:\nScenario: ",
    rf"Two people want to meet (?:{_MEETINGS})\. Free are ",
    r"\.\nParticipants: ",
    r"'s background: (?:Unknown)?",
    r" Personality and values description:",
    r"'s secrets:",
    r" is a \d+-year-old",
    r" (?:male|female|nonbinary)",
    rf" (?:{_OCCUPATIONS})",
    r"\. (?:She/her|He/him|They/them) pronouns\.",
    rf" (?:{_KNOWN})",
    _ASKED,
    r"\. Not meeting at all is worst\.\)",
    r"'s goal: Unknown",
    r"\nConversation Starts:\n",
    r"\n*You did: ",
    r"\n+Now you see:\n",
    r"(?:; )?\{\"action_type\": \"speak\", \"argument\": \"",
    r"\"\}",
    r"(?:; )?\{\"action_type\": \"leave\", \"argument\": \"\"\}",
    r"Turn #\d+: ",
    r" said: \"",
    r" left the conversation",
    r"\"\n",
    r"How about ",
    r"I could do ",
    r"Let us meet on ",
    r"Deal\.|Agreed\.|That works for me\.",
    rf"(?:{_DAYS})(?: at noon| morning| evening)",
    r" \d+(?:, )?",
    r", ",
    r" and",
    r" ?[A-Z][a-z]+",
)
#: Meetings whose prompts are read for words.
_SAMPLE = 400


def _words() -> list[str]:
    slots = [
        f"{day} at {time}" if time == "noon" else f"{day} {time}" for day in generated.DAYS for time in generated.TIMES
    ]
    spoken = [f"{form}{slot}{end}" for form, end in _FORMS for slot in slots] + list(_ANSWERS)
    commands = [write(Act("speak", text)) for text in spoken] + [write(LEAVE)]
    openings = [
        opening(generated.generate("schedule", 0, 2_000 + index), role) for index in range(_SAMPLE) for role in (0, 1)
    ]
    return [
        *openings,
        *(f"At the start you saw:\n{text}" for text in openings[:2]),
        *commands,
        *(f"; {command}" for command in commands[:1] + commands[-1:]),
        f"\n\nYou did: {commands[0]}\n\nNow you see:\n",
        *(f"Turn #{turn}: Ada Lund said: \"{text}\"\nTurn #{turn}: Ada Lund left the conversation" for turn in range(20)
          for text in spoken[:1]),
        *(f" {cost}, x {cost}. " for cost in range(11)),
        *(f"Ada is a {age}-year-old {gender}" for age in range(20, 70) for gender in ("male", "female", "nonbinary")),
        *(f" {first} x {first}" for first, _, _ in generated.FIRST_NAMES),
        *(f" {last} and Ada" for last in generated.LAST_NAMES),
        *(f" {name.lower()}. {pronoun} pronouns." for name, _ in generated.OCCUPATIONS for pronoun in _PRONOUNS),
    ]  # fmt: skip


_FORMS = (("How about ", "?"), ("I could do ", "."), ("Let us meet on ", "."))
_PRONOUNS = tuple(dict.fromkeys(pronoun for _, _, pronoun in generated.FIRST_NAMES))
_ANSWERS = ("Deal.", "Agreed.", "That works for me.")

SOTOPIA = read(__file__, words=_words, pieces=_PIECES, key=deal_key)
