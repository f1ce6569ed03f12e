"""The Corridor environments."""

import math
import zlib
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from agentgym.checks import check_name, keywords_checked, real, whole
from agentgym.core import Info, TextEnv, TextSpace
from agentgym.tasks import Draws, NumberedTasks, check_split, choose
from agentgym.vector import TextVectorEnv

DIRECTIONS = ("north", "east", "south", "west")
#: The cue words; the i-th means the direction i modulo 4, in every task.
WORDS = (
    "apple", "bread", "chair", "dance", "eagle", "flame", "glass", "horse", "island", "jacket", "knife", "lemon",
    "music", "night", "ocean", "paper", "queen", "river", "stone", "table", "uncle", "voice", "water", "youth",
)  # fmt: skip
MEANING = {word: DIRECTIONS[i % 4] for i, word in enumerate(WORDS)}
#: Effects of a wrong direction, see `CorridorEnv`.
Wrong = Literal["stay", "back", "start", "end"]
#: Shares of all corridors, in eighths: a hash of the words decides the split.
_SPLITS = {"train": range(6), "validation": range(6, 7), "test": range(7, 8)}


class Corridor(NamedTuple):
    """A task: its id, and the word of each room."""

    task_id: str
    words: tuple[str, ...]


class Corridors(NumberedTasks[Corridor]):
    """Corridors of one `length`; `num_tasks` in each split."""

    name = "the generated corridors"
    splits = tuple(_SPLITS)
    kind = "corridor"

    def __init__(self, length: int, num_tasks: int) -> None:
        self.length, self.num_tasks = length, num_tasks

    def make(self, split: str, index: int) -> Corridor:
        return _corridor(self.length, split, index)


@lru_cache(maxsize=100_000)
def _corridor(length: int, split: str, index: int) -> Corridor:
    draws = Draws.seeded(length, list(_SPLITS).index(split), index)
    while True:
        words = tuple(draws.pick(WORDS) for _ in range(length))
        if zlib.crc32(" ".join(words).encode()) % 8 in _SPLITS[split]:
            return Corridor(f"{split}/{index}", words)


class CorridorEnv(TextEnv[str]):
    """Rooms in a row; a word in each room names the direction that leads to the next one.

    **Task.** Reach the end of the corridor. Each of 24 words means one of four directions, the same in all tasks. No
    text explains the words: the agent has to learn them. A task is a sequence of words. Only success is rewarded, so
    the return does not show which step was right. States recur, and the distance to the end is exact.

    **Observation.** `TextSpace`: "Room 3 of 12. The sign says: lemon."

    **Action.** `TextSpace`: "north", "east", "south" or "west"; case and surrounding spaces are ignored. Any other text
    is an invalid action: nothing moves, and it uses up a step.

    **Reward.** 1 for reaching the end, 0 for every other step.

    **End.** `terminated` at the end of the corridor (`won`), and with `wrong="end"` after a wrong direction.
    `truncated` after `limit` steps; without a limit, guessing would always reach the end. The registered time limit of
    1,000 steps is for longer corridors.

    **Luck.** None by default. With `slip`, a right step fails with that probability, drawn from `np_random`.

    **Info.** `admissible_actions`: the four directions; `state_key`: the number of the room from 0, "end", or "lost"
    after a wrong direction with `wrong="end"` (without the number of steps); `task_id`: "train/17"; `won`; `score`:
    share of the rooms passed; with `expert=True`, `expert_action`: the right direction, "" once the episode is over.
    `distance()` is the expected number of steps to the end without a mistake.

    **Tasks.** Splits "train", "validation" and "test" share no corridor: a hash of its words decides (6/8, 1/8, 1/8).

    Args:
        length: number of rooms.
        wrong: effect of a wrong direction: "stay" (none), "back" (a room), "start" (first room), "end" (episode lost).
        slip: probability that a right step fails, 0 to .999.
        limit: steps after which an episode is truncated; None for `ceil(1.5 * length)`.
        num_tasks: tasks of each split.
        split: default split.
        expert: put `expert_action` into info.
        render_mode: "ansi" or None.

    >>> env = CorridorEnv(length=2)
    >>> env.reset(options={"split": "test", "index": 0})[0]
    'Room 1 of 2. The sign says: river.'
    >>> env.step("east")[0], env.distance()
    ('Room 2 of 2. The sign says: stone.', 1.0)
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    SETTLED = ("admissible_actions", "task_id", "won")
    no_hindsight: ClassVar[str] = "the end of another corridor is another sequence of words"

    @keywords_checked
    def __init__(
        self,
        *,
        length: int = 6,
        wrong: Wrong = "stay",
        slip: float = 0.0,
        limit: int | None = None,
        num_tasks: int = 1000,
        split: str = "train",
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        self.length = whole("CorridorEnv: length", length, 1)
        self.limit = math.ceil(1.5 * self.length) if limit is None else whole("CorridorEnv: limit", limit, 1)
        self.wrong = check_name(wrong, get_args(Wrong), "wrong")
        self.slip = real("CorridorEnv: slip", slip, 0.0, 0.999, expected="a probability of at most .999")
        self.tasks = Corridors(self.length, whole("CorridorEnv: num_tasks", num_tasks, 1))
        self.split = check_split(self.tasks, split)
        self.action_space = TextSpace(samples=DIRECTIONS)
        self.instructions = (
            "You walk through a corridor of rooms. In each room a sign shows a word, and each word means one "
            "direction, always the same. The right direction leads to the next room. Actions: north, east, south, west."
        )

    def begin(self, options: dict[str, Any]) -> None:
        self._task = choose(self.tasks, self.split, options, self.np_random)
        self._room = self._steps = 0

    def act(self, command: str) -> tuple[float, bool, bool]:
        self._steps += 1
        direction = command.strip().lower()
        if direction not in DIRECTIONS:
            return 0.0, False, False
        room = self._room
        if direction == MEANING[self._task.words[room]]:
            if not self.slip or self.np_random.random() >= self.slip:
                self._room += 1
        elif self.wrong == "back":
            self._room = max(room - 1, 0)
        elif self.wrong == "start":
            self._room = 0
        elif self.wrong == "end":
            self._room = -1
        return float(self._won), self._won or self._room < 0, True

    @property
    def _won(self) -> bool:
        return self._room == self.length

    def is_cut(self) -> bool:
        return self._steps >= self.limit and 0 <= self._room < self.length

    def observe(self) -> str:
        if 0 <= self._room < self.length:
            return f"Room {self._room + 1} of {self.length}. The sign says: {self._task.words[self._room]}."
        return "You have reached the end of the corridor." if self._won else "A wrong door: you are lost."

    def describe(self, valid: bool) -> Info:
        room = self._room
        info: Info = {
            "admissible_actions": DIRECTIONS if 0 <= room < self.length else (), "is_action_valid": valid,
            "state_key": "end" if self._won else str(room) if room >= 0 else "lost", "task_id": self._task.task_id,
            "won": self._won, "score": max(room, 0) / self.length,
        }  # fmt: skip
        if self.expert:
            info["expert_action"] = "".join(self.optimal_actions())
        return info

    def get_state(self) -> Any:
        """Return (corridor, room, steps)."""
        return self._task, self._room, self._steps

    def set_state(self, state: Any) -> None:
        self._task, self._room, self._steps = state

    def content(self, task_id: str) -> Any:
        return list(self.tasks.by_id(task_id, None).words)

    def distance(self) -> float:
        """Return the expected number of steps to the end without a mistake; `inf` once the episode is lost."""
        self.need_episode("distance")
        return (self.length - self._room) / (1.0 - self.slip) if self._room >= 0 else math.inf

    def optimal_actions(self) -> tuple[str, ...]:
        """Return the right direction; () once the episode is over."""
        self.need_episode("optimal_actions")
        return (MEANING[self._task.words[self._room]],) if 0 <= self._room < self.length else ()


class CorridorVectorEnv(TextVectorEnv):
    """Many `CorridorEnv` in one process."""

    env_class = CorridorEnv
