"""One episode as SPA, STeCa and HISR play it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from agentgym.virtualhome.household import OriginalError
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.script import PARAMETERS
from agentgym.virtualhome.spa.actions import TEMPLATES, action_of, open_line
from agentgym.virtualhome.spa.objects import Choose, Objects
from agentgym.virtualhome.spa.sight import Sight, look

#: An episode ends after this many turns, those with errors included.
MOST_STEPS: Final = 40
OK, NOTHING, ERROR = "ok", "nothing", "error"
_SAID: Final = {NOTHING: "Nothing happens.", ERROR: "Error Input. Your input must contains 'Action: '"}
_BRACKETS = re.compile(r"\[(.*?)\]")


def introduction(title: str, description: str) -> str:
    """Return the turn that begins an episode, after the instruction and an example."""
    return f"The task is {title}({description})."


class Turn(NamedTuple):
    """What came of a reply.

    Attributes:
        kind: `OK`, `NOTHING` (the action could not be done) or `ERROR` (there was none, or the original broke on it).
        line: the line of the script, or why there is none; None where nothing could be read.
        sight: what is shown after an action that was done.
        reached: the goal holds now; not looked at after an `ERROR`.
    """

    kind: str
    line: str | None = None
    sight: Sight | None = None
    reached: bool = False

    @property
    def observation(self) -> str:
        """The next turn of the user."""
        return f"Observation: {_SAID[self.kind] if self.sight is None else self.sight}"


class SpaEpisode:
    """An episode in the papers' protocol.

    Args:
        world: the simulator; the papers' is dialect "head" with the repair "find".
        reached: says of the cells of a state whether the goal holds.
        objects: class name -> id of what names stand for. The original hands on one dictionary from episode to episode
            of a task, filled from the published program; give a copy, or an empty one, to have none of that leak.
        choose: draws an id where a name may stand for several.

    Attributes:
        world: the simulator.
        steps: turns so far.
        won: the goal held after some action.
        finished: `won`, or `MOST_STEPS` turns are over.
    """

    def __init__(
        self, world: World, reached: Callable[[Sequence[int]], bool], objects: dict[str, int], choose: Choose
    ) -> None:
        self.world = world
        self.steps = 0
        self.won = False
        self._reached = reached
        self._objects = Objects(world, objects, choose)

    @property
    def finished(self) -> bool:
        """Say whether the episode is over."""
        return self.won or self.steps >= MOST_STEPS

    def reply(self, text: str) -> Turn:
        """Play a reply, which holds `Action: `."""
        action = action_of(text)
        return self._count(Turn(ERROR) if action is None else self._turn(action))

    def play(self, action: str) -> Turn:
        """Play an action string alone."""
        return self._count(self._turn(action))

    def get_state(self) -> Any:
        """Return the exact state as a picklable value."""
        objects = self._objects
        return self.world.get_state(), self.steps, self.won, tuple(objects.known.items()), objects.last

    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned; what names stand for is written into the dictionary that was given."""
        snapshot, self.steps, self.won, known, self._objects.last = state
        self.world.set_state(snapshot)
        self._objects.known.clear()
        self._objects.known.update(known)

    def _count(self, turn: Turn) -> Turn:
        self.steps += 1
        if turn.kind == ERROR:
            return turn
        reached = self._reached(self.world.cells)
        self.won = self.won or reached
        return turn._replace(reached=reached)

    def _turn(self, action: str) -> Turn:
        line = open_line(action)
        if line is None:
            return Turn(ERROR)
        try:  # the original lists its whole graph here, after an action, and for the goal
            line = self._objects.fill(line)
        except OriginalError:
            return Turn(ERROR)
        if "[" not in line:
            return self._refused(line)
        named = _BRACKETS.search(line)
        if named is None:
            return Turn(ERROR, line)
        if named[1] not in TEMPLATES or PARAMETERS[named[1]] != line.count("<"):
            return self._refused(line)
        result = self.world.step(line)
        if result.exception is not None:
            return Turn(ERROR, line)
        if not result.ok:
            return self._refused(line)
        self.world.asked_all()
        sight = look(self.world)
        if sight is None:
            return Turn(ERROR, line)
        self.world.asked_all()
        return Turn(OK, line, sight)

    def _refused(self, line: str) -> Turn:
        self.world.asked_all()
        return Turn(NOTHING, line)
