"""What the agent is told about its part, and examples of its commands."""

from __future__ import annotations

from agentgym.sotopia.acts import KINDS, LEAVE, NONE, Act, write

INSTRUCTIONS = (
    "You are one of the two people of the scenario, the one whose goal you can read. Talk with the other to reach that "
    "goal; the other does not know it, and has another one. Each turn, answer one JSON object with an action_type and "
    'an argument, such as {{"action_type": "speak", "argument": "What would you pay?"}}. Action types: "speak" (the '
    'argument is what you say), "non-verbal communication" (such as a nod), "action" (something you do), "none" (you '
    'wait) and "leave" (you end the conversation, when your goal is reached or there is no hope for it). After {turns} '
    "turns of both together the conversation is cut off."
)

#: Commands of every kind; there is no end of others.
COMMANDS = tuple(
    write(act)
    for act in (
        NONE, Act("speak", "Hello."), Act("speak", "What would you like?"), Act("speak", "I agree."),
        Act("speak", "I cannot agree to that."), Act(KINDS[2], "nods"), Act("action", "sits down"), LEAVE,
    )
)  # fmt: skip
