"""The Sokoban environments, as text and as pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic

import gymnasium as gym
import numpy as np

from agentgym.checks import keywords_checked
from agentgym.core import Info, ObsT, TextEnv, TextSpace
from agentgym.sokoban.expert.solver import Solver
from agentgym.sokoban.picture import Image, Painter
from agentgym.sokoban.rules import DIRECTIONS, MOVES_OF_MASK, Board
from agentgym.sokoban.tasks import Levels, choose_level, find_levels, level_id
from agentgym.sokoban.text import Level, Style, board_text, split_of
from agentgym.tasks import check_split
from agentgym.vector import TextVectorEnv

_DIRECTION = {name: i for i, name in enumerate(DIRECTIONS)}


class SokobanBase(TextEnv[ObsT], Generic[ObsT]):
    """The part that the text and the visual environment share; see `SokobanEnv`."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}  # noqa: RUF012
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id", "level")
    SETTLED = ("task_id", "won")

    @keywords_checked
    def __init__(
        self,
        *,
        size: int | tuple[int, int] = 6,
        boxes: int | Sequence[int] = (1, 2),
        min_length: int = 3,
        max_length: int = 12,
        levels: str | Path | None = None,
        split: str | None = None,
        level_seed: int = 0,
        num_levels: int = 1000,
        symbols: str = "default",
        separator: str = "",
        tile_size: int = 16,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        generator = {"size": size, "boxes": boxes, "min_length": min_length, "max_length": max_length}
        generator |= {"level_seed": level_seed, "num_levels": num_levels}
        self.tasks: Levels = find_levels(levels, generator)
        self.split = self.tasks.first if split is None else check_split(self.tasks, split)
        self.style = Style(symbols, separator)
        self._plain = self.style.plain
        self._painter = Painter(tile_size)
        self.action_space = TextSpace(samples=DIRECTIONS)
        self.instructions = (
            "You are playing Sokoban. Push every box onto a target. You move one cell at a time and can push a box "
            "that is ahead of you when the cell behind it is free; you cannot pull, and you cannot push two boxes at "
            f"once. Board symbols: {self.style.legend()}. Actions: up, down, left, right."
        )

    def begin(self, options: dict[str, Any]) -> None:
        task_id, level = choose_level(self.tasks, self.split, options, self.np_random)
        self._load(task_id, level, level.player, level.boxes)

    def _load(self, task_id: str, level: Level, player: int, boxes: int) -> None:
        self._task_id = task_id
        self._level = level
        self._board = Board(level, player, boxes)
        self._solver: Solver | None = None
        self._count = level.targets.bit_count()
        self._key = self._board.text()

    def act(self, command: str) -> tuple[float, bool, bool]:
        direction = _DIRECTION.get(command)
        if direction is None:
            direction = _DIRECTION.get(command.strip().lower())
            if direction is None:
                return -0.1, False, False
        board = self._board
        before = board.on_target
        if not board.move(direction):
            return -0.1, False, False
        self._key = board.text()
        if board.pushed_to < 0:
            return -0.1, False, True
        now = board.on_target
        reward = -0.1 + (now - before)
        return (reward + 10.0, True, True) if now == self._count else (reward, False, True)

    def describe(self, valid: bool) -> Info:
        start = {"admissible_actions": (), "is_action_valid": valid, "state_key": "", "task_id": self._task_id}
        return self._describe(start)

    def _describe(self, info: Info) -> Info:
        board, count = self._board, self._count
        on_target = board.on_target
        info["admissible_actions"] = MOVES_OF_MASK[board.open_moves()]
        info["state_key"] = self._key
        info["won"] = on_target == count
        info["score"] = on_target / count
        if self.expert:
            best = self.optimal_actions()
            info["expert_action"] = best[0] if best else ""
        return info

    def get_state(self) -> Any:
        """Return (task_id, level, player, boxes)."""
        return self._task_id, self._level, self._board.player, self._board.boxes

    def set_state(self, state: Any) -> None:
        self._load(*state)

    def draw(self) -> Any:
        return self.style(self._key) if self.render_mode == "ansi" else self.picture()

    def picture(self) -> Image:
        """Return the current board as uint8 (H, W, 3); smaller boards of a collection are padded with wall."""
        return self._painter(self._key, *self.tasks.size)

    def content(self, task_id: str) -> Any:
        return board_text(self.tasks.by_id(task_id, None)[1])

    def fulfilled(self) -> tuple[str, ...]:
        """Return the task_id of the level whose targets hold the boxes now, if it is another one of this split."""
        self.need_episode("fulfilled")
        level, boxes = self._level, self._board.boxes
        if boxes in (level.boxes, level.targets):
            return ()
        done = replace(level, targets=boxes)
        return (level_id(done),) if split_of(done) == split_of(level) else ()

    def distance(self) -> float:
        """Return the moves to the solution; `inf` in a dead end, `nan` when the search of a very large room gave up."""
        self.need_episode("distance")
        return self._solve().distance(self._board.player, self._board.boxes)

    def optimal_actions(self) -> tuple[str, ...]:
        """Return every move that starts a shortest solution (one in a room with more than 33 million states)."""
        self.need_episode("optimal_actions")
        return self._solve().optimal_moves(self._board.player, self._board.boxes)

    def _solve(self) -> Solver:
        if self._solver is None:
            self._solver = Solver(self._level)
        return self._solver


class SokobanEnv(SokobanBase[str]):
    r"""Sokoban as text: push every box onto a target.

    **Task.** A room with walls, targets and as many boxes. The player moves one cell at a time and pushes the box in
    front of it when the cell behind that box is free. Boxes cannot be pulled, and two cannot be pushed at once, so a
    push can make the level unsolvable.

    **Observation.** `TextSpace`: the board, one symbol per cell, rows joined by line breaks. Symbols "default": `#`
    wall, `_` floor, `O` target, `X` box, `√` box on a target, `P` player, `S` player on a target; symbols "xsb": `#`,
    space, `.`, `$`, `*`, `@`, `+`.

    **Action.** `TextSpace`: "up", "down", "left" or "right"; case and surrounding spaces are ignored. Any other text,
    and a move that would not change the board, is an invalid action: nothing moves.

    **Reward** of a step: -0.1, +1 for pushing a box onto a target, -1 for pushing one off a target (from target to
    target: both), +10 when all boxes are on targets afterwards. An invalid action also costs 0.1.

    **End.** `terminated` when all boxes are on targets (`won`). The registered time limit is 20 steps (`truncated`).

    **Luck.** None: a move has one outcome.

    **Info.** `admissible_actions`: the moves that change the board, in the order up, down, left, right; `state_key`:
    the board in default symbols; `task_id`: "train/17" for generated levels, "<file name>#<number>" for files,
    "level:<rows joined by />" for a level given as text; `won`; `score`: share of the boxes that are on targets; with
    `expert=True`, `expert_action`: the first move of a shortest solution, "" when there is none. `distance()` and
    `optimal_actions()` are exact.

    **Tasks.** `reset(options=...)` takes `split` and/or `index`, or `task_id`, or `level` (a level as text in either
    symbol set); without options the index is drawn from `np_random`. Generated levels are solvable in
    `min_length`..`max_length` moves. The splits "train", "validation" and "test" share no level, not even a rotated,
    mirrored or shifted copy, for all seeds and sizes: a hash of the level decides (6/8, 1/8, 1/8).

    **Data.** None needed. `levels=` reads files in Boxoban or XSB format (.txt or .xsb, plain or .xz), with the same
    splits by hash, or the split "all" for collections with split folders. Such levels need more than 20 steps: pass
    `max_episode_steps` to `gym.make`.

    **Ids.** `AgentRL/Sokoban-v0`, and with pictures `AgentRL/VisualSokoban-v0` (`VisualSokobanEnv`).

    Args:
        size: rows and columns with the walls, one integer or (height, width); at least 4.
        boxes: number of boxes, or several numbers of which each level draws one.
        min_length: smallest optimal solution length of generated levels, in moves.
        max_length: largest optimal solution length of generated levels, in moves.
        levels: path of a level file or folder; replaces the generator and its arguments.
        split: default split; None for "train", or "all" where no level of a file is in "train".
        level_seed: each value gives another family of generated levels.
        num_levels: levels of each split (generator only), generated on first use. It changes no level.
        symbols: "default" or "xsb".
        separator: text between the cells of a row in the observation.
        tile_size: pixels per cell of pictures, at least 4.
        expert: put `expert_action` into info.
        render_mode: "rgb_array" (a picture), "ansi" (the observation text) or None.

    >>> env = SokobanEnv()
    >>> observation, info = env.reset(options={"level": "#####\n#PXO#\n#####"})
    >>> print(observation)
    #####
    #PXO#
    #####
    >>> env.step("right")[1:3]
    (10.9, True)
    """

    def observe(self) -> str:
        return self._key if self._plain else self.style(self._key)

    def advance(self, command: str, info: Info) -> tuple[str, float, bool, Info]:
        """Play one command; an episode reuses one info dict."""
        reward, over, valid = self.act(command)
        info["is_action_valid"] = valid
        if valid:
            self._describe(info)
        return self._key if self._plain else self.style(self._key), reward, over, info


class VisualSokobanEnv(SokobanBase[dict[str, Any]]):
    r"""Sokoban with pictures: the task, actions, rewards and info of `SokobanEnv`.

    **Observation.** `Dict` of `text`, a status line (followed by the board with `show_board=True`), and `image`, RGB,
    uint8 of shape (height * tile_size, width * tile_size, 3). With level files, every picture has the size of the
    largest board; smaller boards are padded with wall. Other arguments are those of `SokobanEnv`.

    Args:
        show_board: add the board to the text.
        **kwargs: as for `SokobanEnv`.

    >>> env = VisualSokobanEnv(tile_size=8, boxes=2)
    >>> observation, info = env.reset(options={"level": "######\n#PX_O#\n#_√__#\n######"})
    >>> observation["text"], observation["image"].shape
    ('Boxes on targets: 1 of 2.', (48, 48, 3))
    """

    def __init__(self, *, show_board: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.show_board = bool(show_board)
        height, width = (cells * self._painter.tile_size for cells in self.tasks.size)
        self.observation_space = gym.spaces.Dict(
            {"text": TextSpace(), "image": gym.spaces.Box(0, 255, (height, width, 3), np.uint8)}
        )

    def _load(self, task_id: str, level: Level, player: int, boxes: int) -> None:
        height, width = self.tasks.size
        if level.height > height or level.width > width:
            raise ValueError(
                f"VisualSokobanEnv: pictures of this environment have {height}x{width} cells, the level has "
                f"{level.height}x{level.width}; make the environment with size=({level.height}, {level.width})"
            )
        super()._load(task_id, level, player, boxes)

    def observe(self) -> dict[str, Any]:
        text = f"Boxes on targets: {self._board.on_target} of {self._count}."
        if self.show_board:
            text = f"{text}\n{self.style(self._key)}"
        return {"text": text, "image": self.picture()}


class SokobanVectorEnv(TextVectorEnv):
    """Many `SokobanEnv` in one process."""

    env_class = SokobanEnv


class VisualSokobanVectorEnv(TextVectorEnv):
    """Many `VisualSokobanEnv` in one process."""

    env_class = VisualSokobanEnv
