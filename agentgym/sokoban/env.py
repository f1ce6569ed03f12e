"""The Sokoban environments, as text and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic

import gymnasium as gym
import numpy as np

from agentgym.core import Info, ObsT, TextEnv, TextSpace
from agentgym.sokoban import solver
from agentgym.sokoban.draw import Image, Painter
from agentgym.sokoban.generator import LevelSpec
from agentgym.sokoban.rules import DIRECTIONS, MOVES_OF_MASK, Board, Level
from agentgym.sokoban.splits import check_split
from agentgym.sokoban.tasks import FileLevels, GeneratedLevels, LevelSource, choose
from agentgym.sokoban.text import WITH_BOX, WITH_PLAYER, Style, board_text, static_cells
from agentgym.vector import TextVectorEnv

_DIRECTION = {name: i for i, name in enumerate(DIRECTIONS)}


class SokobanBase(TextEnv[ObsT], Generic[ObsT]):
    """What the text and the visual environment share; see `SokobanEnv`."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}  # noqa: RUF012
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id", "level")

    def __init__(
        self,
        *,
        size: int | tuple[int, int] = 6,
        boxes: int | Sequence[int] = (1, 2),
        min_length: int = 3,
        max_length: int = 12,
        levels: str | Path | None = None,
        split: str = "train",
        level_seed: int = 0,
        num_levels: int = 10_000,
        symbols: str = "default",
        separator: str = "",
        tile_size: int = 16,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        self.source: LevelSource
        if levels is None:
            self.source = GeneratedLevels(_spec(size, boxes, min_length, max_length, level_seed), num_levels)
            self.split = check_split(split)
        else:
            self.source = FileLevels(levels)
            self.split = check_split(split, also=("all",))
        self._style = Style(symbols, separator)
        self._painter = Painter(tile_size)
        self.action_space = TextSpace(samples=DIRECTIONS)
        self.instructions = (
            "You are playing Sokoban. Push every box onto a target. You move one cell at a time and can push a box "
            "that is ahead of you when the cell behind it is free; you cannot pull, and you cannot push two boxes at "
            f"once. Board symbols: {self._style.legend()}. Actions: up, down, left, right."
        )

    def begin(self, options: dict[str, Any]) -> None:
        """Load a level; without options its index is drawn from `self.np_random`."""
        task_id, level = choose(self.source, self.split, options, self.np_random)
        self._load(task_id, level, level.player, level.boxes)

    def _load(self, task_id: str, level: Level, player: int, boxes: int) -> None:
        self._task_id = task_id
        self._level = level
        self._board = Board(level)
        self._board.player, self._board.boxes = player, boxes
        self._count = level.targets.bit_count()
        self._static = static_cells(level)
        self._key = board_text(level, player, boxes)
        self._cells = list(self._key)

    def act(self, command: str) -> tuple[float, bool, bool]:
        """Play one command; see the class page for the reward."""
        direction = _DIRECTION.get(command)
        if direction is None:
            direction = _DIRECTION.get(command.strip().lower())
            if direction is None:
                return -0.1, False, False
        board, cells, static = self._board, self._cells, self._static
        left = board.player
        if not board.move(direction):
            return -0.1, False, False
        cells[left] = static[left]
        cell = board.player
        cells[cell] = WITH_PLAYER[static[cell]]
        beyond = board.pushed_to
        if beyond < 0:
            self._key = "".join(cells)
            return -0.1, False, True
        cells[beyond] = WITH_BOX[static[beyond]]
        self._key = "".join(cells)
        targets = self._level.targets
        reward = -0.1 + (targets >> beyond & 1) - (targets >> cell & 1)
        return (reward + 10.0, True, True) if board.solved else (reward, False, True)

    def describe(self, valid: bool) -> Info:
        """Return the info dict of the current state."""
        board = self._board
        on_target = (board.boxes & self._level.targets).bit_count()
        info: Info = {
            "admissible_actions": MOVES_OF_MASK[board.open_moves()],
            "is_action_valid": valid,
            "state_key": self._key,
            "task_id": self._task_id,
            "won": on_target == self._count,
            "score": on_target / self._count,
        }
        if self.expert:
            best = self.optimal_actions()
            info["expert_action"] = best[0] if best else ""
        return info

    def get_state(self) -> Any:
        """Return (task_id, level, player, boxes)."""
        return self._task_id, self._level, self._board.player, self._board.boxes

    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned."""
        self._load(*state)

    def render(self) -> Any:
        """Return the picture ("rgb_array") or the observation text ("ansi")."""
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode: make the environment with one")
            return None
        return self._style(self._key) if self.render_mode == "ansi" else self.picture()

    def picture(self) -> Image:
        """Draw the current board, uint8 (H, W, 3); smaller boards of a collection are framed with wall."""
        return self._painter(self._key, *self.source.size)

    def distance(self) -> float:
        """Exact number of moves from the current state to the solution, `inf` when it cannot be solved any more.

        Raises:
            LevelError: when the room has too many states for a table.
        """
        return solver.distance(self._level, self._board.player, self._board.boxes)

    def optimal_actions(self) -> tuple[str, ...]:
        """Every move that starts a shortest solution; () in a dead end and once solved."""
        return solver.optimal_moves(self._level, self._board.player, self._board.boxes)


class SokobanEnv(SokobanBase[str]):
    """Sokoban as text."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observation_space = TextSpace()

    def observe(self) -> str:
        """Return the board as text."""
        return self._key if self._style.plain else self._style(self._key)


class VisualSokobanEnv(SokobanBase[dict[str, Any]]):
    """Sokoban as pictures."""

    def __init__(self, *, show_board: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.show_board = bool(show_board)
        height, width = (cells * self._painter.tile_size for cells in self.source.size)
        self.observation_space = gym.spaces.Dict(
            {"text": TextSpace(), "image": gym.spaces.Box(0, 255, (height, width, 3), np.uint8)}
        )

    def observe(self) -> dict[str, Any]:
        """Return status line (and board) with the picture."""
        text = f"Boxes on targets: {self._board.on_target} of {self._count}."
        if self.show_board:
            text = f"{text}\n{self._style(self._key)}"
        return {"text": text, "image": self.picture()}


class SokobanVectorEnv(TextVectorEnv):
    """Many `SokobanEnv` in one process."""

    env_class = SokobanEnv


class VisualSokobanVectorEnv(TextVectorEnv):
    """Many `VisualSokobanEnv` in one process."""

    env_class = VisualSokobanEnv


def _spec(size: Any, boxes: Any, min_length: int, max_length: int, level_seed: int) -> LevelSpec:
    height, width = (size, size) if isinstance(size, int) else size
    counts = (boxes,) if isinstance(boxes, int) else tuple(boxes)
    return LevelSpec(int(height), int(width), counts, int(min_length), int(max_length), int(level_seed))
