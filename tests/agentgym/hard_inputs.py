"""Boards, numbers and rooms that take long to read: tests ask what is made of them, the campaign how long."""

from collections.abc import Callable, Iterator

from agentgym.alfworld.player import ALFWorldPlayer


def maze(side: int) -> str:
    """A staircase that winds through the whole board: the longest way for a flood."""
    rows = [["#"] * side for _ in range(side)]
    for row in range(1, side - 1):
        for column in range(1, side - 1):
            if row % 2 or column == (side - 2 if row % 4 == 2 else 1):
                rows[row][column] = " "
    rows[1][1:4] = "@$."
    return "\n".join(map("".join, rows))


MAZES: dict[str, Callable[[int], str]] = {
    "maze": maze,
    "maze of boxes": lambda side: maze(side).replace("   ", "$ ."),
    "players": lambda side: "@" * side,
}
#: Numbers that Python's or numpy's hashing puts together.
NUMBERS: dict[str, Callable[[int], object]] = {
    "hash 0": lambda i: i * (2**61 - 1), "negative, hash 0": lambda i: -i * (2**61 - 1),
    "low bits 0": lambda i: i << 44, "large, low bits 0": lambda i: i << 4000, "floats": lambda i: float(i) * 2.0**61,
}  # fmt: skip
COMMANDS = (
    "open desk {}", "examine desk {}", "take pen {} from desk {}", "move pen 1 to desk {}", "go to desk {}", "{}",
    "take ",
)  # fmt: skip
TASKS = ("put a pen in desk", "find two pen and put them in desk", "heat some pen and put it in desk")


def turns_in_a_crowded_room(admissible: tuple[str, ...], held: bool, task: str) -> Iterator[str]:
    """Play three turns in a room with as many receptacles as there are commands; yields what the player says."""
    names = ", ".join(f"a desk {i}" for i in range(len(admissible)))
    player = ALFWorldPlayer()
    yield player.act(f"Looking quickly around you, you see {names}.\n\nYour task is to: {task}.", admissible)
    for text in ("You pick up the pen 1 from the desk 1.", f"On the desk 1, you see {names}."):
        yield player.act(text if held else "", admissible)


def admissible_in_a_crowded_room(command: str, n: int) -> tuple[str, ...]:
    return tuple(command.replace("{}", str(i)) for i in range(n))
