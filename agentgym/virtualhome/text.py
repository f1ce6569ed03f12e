"""Observations: location, near things, inventory, and why a command failed."""

import re
from collections.abc import Iterable
from functools import cache

from agentgym.virtualhome.commands import Names
from agentgym.virtualhome.scene import CLOSE, INSIDE, IS, ON, SOURCES, STATES, WIDTH, Scene, members
from agentgym.virtualhome.state import State

#: States that are mentioned; clean and plugged in are not.
_WORDS = (
    (IS.OPEN, "open"), (IS.CLOSED, "closed"), (IS.ON, "on"), (IS.OFF, "off"), (IS.PLUGGED_OUT, "unplugged"),
    (IS.DIRTY, "dirty"),
)  # fmt: skip
#: Maximum number of cached descriptions of things, and of rooms with postures, per scene.
_MOST_LOOKS, _MOST_PLACES = 256, 64
_SHOWN = sum(bit for bit, _ in _WORDS)
NOT_UNDERSTOOD = "Nothing happens: that is no command for a thing of this house."
_THING = re.compile(r"<[^<>]{1,100}> \((\d{1,10})\)")


def introduction(title: str, description: str) -> str:
    """Return the task as the first observation states it."""
    return f"Your task is to: {description if title == description else f'{title}: {description}'}"


def room_of(state: State, node: int) -> int:
    """Return the room of a node, the one with the lowest id if it is in several; -1 for none."""
    rooms = state.cells[node * WIDTH + INSIDE] & state.scene.rooms
    if rooms & (rooms - 1):
        return min(members(rooms), key=state.scene.ids.__getitem__)
    return rooms.bit_length() - 1


class View:
    """Observations of the states of one scene; descriptions are cached."""

    def __init__(self, names: Names, scene: Scene) -> None:
        self._names = names
        self._me = scene.character * WIDTH
        self._rooms, self._clothes = scene.rooms, scene.having["CLOTHES"]
        self._seen = ~(scene.having["BODY_PART"] | scene.rooms | 1 << scene.character)
        self._looks: dict[tuple[int, ...], str] = {}
        self._at_first: dict[int, str] = {}
        self._places: dict[tuple[int, int], str] = {}

    def surroundings(self, state: State, where: str) -> str:
        cells, own = state.cells, self._me
        held, looks = state.in_hands(), "nothing"
        near = cells[own + CLOSE] & self._seen & ~held
        if near & (near - 1):
            looks = "; ".join([self._look(state, node) for node in self._names.in_order(near)])
        elif near:
            looks = self._look(state, near.bit_length() - 1)
        hands = "nothing"
        if held:
            states = [(node, cells[node * WIDTH + STATES] & _SHOWN) for node in self._names.in_order(held)]
            hands = ", ".join([self._remembered(node, bits, 0, 0, -1) for node, bits in states])
        worn = cells[own + SOURCES + ON] & self._clothes
        wearing = f" You wear {self._names.listed(worn)}." if worn else ""
        if cells[own + STATES] & (IS.SITTING | IS.LYING) and cells[own + ON]:
            where = f"{where} on {self._names.listed(cells[own + ON])}"
        return f"You are in {where}.\nNear you: {looks}.\nYou hold {hands}.{wearing}"

    def location(self, state: State) -> str:
        """Return the character's room, and its posture unless it stands: "kitchen 1", "bedroom 1, lying"."""
        cells, own = state.cells, self._me
        key = cells[own + INSIDE] & self._rooms, cells[own + STATES] & (IS.SITTING | IS.LYING)
        place = self._places.get(key)
        if place is None:
            room = room_of(state, state.scene.character)
            place = self._names.of[room] if room >= 0 else "no room"
            if key[1]:
                place = f"{place}, {'sitting' if key[1] & IS.SITTING else 'lying'}"
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[key] = place
        return place

    def inventory(self, state: State) -> str:
        held = state.in_hands()
        return self._names.listed(held) if held else "nothing"

    def _look(self, state: State, node: int) -> str:
        touched = state.touched >> node & 1
        look = None if touched else self._at_first.get(node)
        if look is not None:
            return look
        cells, base = state.cells, node * WIDTH
        bits = cells[base + STATES] & _SHOWN
        opened = bits & IS.OPEN and state.scene.having["CONTAINERS"] >> node & 1
        content = cells[base + SOURCES + INSIDE] if opened else -1
        around = cells[base + INSIDE] & ~state.scene.rooms
        if not touched:
            look = self._at_first[node] = self._described(node, bits, cells[base + ON], around, content)
            return look
        return self._remembered(node, bits, cells[base + ON], around, content)

    def _remembered(self, *looked_at: int) -> str:
        look = self._looks.get(looked_at)
        if look is None:
            if len(self._looks) >= _MOST_LOOKS:
                self._looks.clear()
            look = self._looks[looked_at] = self._described(*looked_at)
        return look

    def _described(self, node: int, bits: int, under: int, around: int, content: int) -> str:
        text = self._names.of[node]
        if bits:
            text = f"{text} ({_words(bits)})"
        if under:
            text = f"{text} on {self._names.listed(under)}"
        if around:
            text = f"{text} in {self._names.listed(around)}"
        if content >= 0:
            text = f"{text} with {self._names.listed(content) or 'nothing'} in it"
        return text


@cache
def _words(bits: int) -> str:
    return ", ".join([word for bit, word in _WORDS if bits & bit])


def failure(messages: Iterable[str], names: Names, scene: Scene) -> str:
    """Return why nothing happened: the messages ("<character> (65) is not close to <mug> (7)") with our names."""

    def called(found: re.Match[str]) -> str:
        position = scene.index.get(int(found[1]))
        return found[0] if position is None else names.of[position]

    said = "; ".join([_THING.sub(called, message) for message in messages]) or "that is not possible"
    return f"Nothing happens: {said.replace('you is', 'you are').replace('you does', 'you do')}."
