"""The vocabulary of ALFWorld's tiny policy: which texts are one token, and which words it must know."""

from __future__ import annotations

#: Phrases that occur in every prompt are one token each. In a list, a number and the comma behind it are one token.
PIECES: tuple[str, ...] = (
    r"-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room\. Looking quickly around you, "
    r"you see a(?= )",
    r"(?:,(?: and)?| you see) a(?= [a-z]+ \d)",
    r"\.?\n\nYour task is to:",
    r"At the start you saw:\n",
    r"\.?\n\nYou did: ",
    r"\.?\n\nNow you see:\n",
    r"\.?\n\nlocation:",
    r"\ninventory:",
    r"You (?:arrive at|(?:pick up|put|move|open|close|clean|heat|cool|turn on) the)",
    r" (?:from|to|using) the(?= )",
    r"(?:\. |\A|(?<=\n))(?:On|The) the",
    r"\. The(?= )",
    r" is open\. In it, you see",
    r" is closed\.",
    r"(?:; )?go to",
    r", you see nothing\.",
    r", you see a(?= )",
    r"Nothing happens\.",
    r" \d+,(?: and)? a(?= [a-z]+ \d)",
    r"; [a-z]+",
    r" ?[a-z]+",
    r" ?\d+",
)


#: What is said in ALFWorld and in its prompts, apart from names and numbers.
_SAID = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
    "bed 1, a bed 2, and a bed 3.\n\nYour task is to: put some bed on bed.",
    *(f"{end}\n\n{next}" for end in ("", ".") for next in ("You did: ", "Now you see:\n", "location: x\ninventory: y")),
    "At the start you saw:\n",
    "On the bed 1, you see nothing.",
    "On the bed 1, you see a bed 1, and a bed 1.",
    "The bed 1 is closed.",
    "You arrive at bed 1. On the bed 1, you see a bed 1.",
    "You open the bed 1. The bed 1 is open. In it, you see a bed 1.",
    "You arrive at bed 1. The bed 1 is closed.",
    *(
        f"You {verb} the bed 1"
        for verb in ("pick up", "put", "move", "open", "close", "clean", "heat", "cool", "turn on")
    ),
    " from the bed 1 to the bed 1 using the bed 1. Nothing happens.",
    *(
        f"{before}{verb}"
        for before in ("", " ", "; ")
        for verb in (
            "go to", "take", "move", "put", "open", "close", "clean", "heat", "cool", "use", "slice", "examine",
            "look", "inventory", "help",
        )
    ),
    " from to with on in and a some two them it hot clean cool look at under the examine find heat with put",
    " the middle of the room nothing, and (cleaned) (heated) (cooled)",
    " facing. Next You are carrying: not anything in front of special about There's",
)  # fmt: skip


def household_words() -> list[str]:
    """Return texts that hold every word, every kind of receptacle and object, and the numbers of names up to 30."""
    from agentgym.alfworld.things import OBJECT_TYPES, RECEPTACLE_TYPES

    kinds = sorted({kind.lower() for kind in (*RECEPTACLE_TYPES, *OBJECT_TYPES)})
    numbers = [f" {number}{mark} bed 1" for number in range(1, 31) for mark in ("", ", a", ", and a")]
    return [*_SAID, *(f" {kind}" for kind in kinds), *numbers]
