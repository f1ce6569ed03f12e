"""Text boards as numbers for any RL library: planes of symbols as observations, numbered commands as actions.

    DiscreteActions(SymbolPlanes(gym.make("AgentRL/Sokoban-v0")))

has a `Box` of shape (symbols, height, width) and a `Discrete` of commands.
"""

from collections.abc import Sequence
from typing import Any, SupportsInt

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import DTypeLike, NDArray

from agentgym.branching import BranchingWrapper
from agentgym.core import TextSpace


class SymbolPlanes(BranchingWrapper, gym.ObservationWrapper[NDArray[Any], Any, Any], RecordConstructorArgs):
    r"""Show a text board as one-hot planes: `planes[k, row, column]` is 1 where the board has the k-th symbol.

    The observation space is `Box(0, 1, (symbols, height, width), dtype)`. Defaults (None) are a Sokoban environment's.

    Args:
        env: an environment whose observation is a board as text, rows separated by line breaks.
        symbols: the alphabet, distinct characters in the order of the planes.
        separator: text between the cells of a row; None: Sokoban's, else nothing.
        fill: symbol that pads a smaller board below and to the right; None: every board must have the shape.
        dtype: of the planes, an unsigned integer or a float.

    Raises:
        ValueError: at once, for a missing or malformed alphabet or shape; by `reset` and `step`, for another board.

    >>> import agentgym
    >>> env = SymbolPlanes(gym.make("AgentRL/Sokoban-v0", size=(4, 5), boxes=1))
    >>> planes, _ = env.reset(options={"level": "#####\n#__O#\n#PX_#\n#####"})
    >>> env.symbols, planes.shape, planes[:, 2, 1].tolist()
    ('#_OX√PS', (7, 4, 5), [0, 0, 0, 0, 0, 1, 0])
    """

    def __init__(
        self, env: gym.Env[Any, Any], *, symbols: str | None = None, shape: tuple[int, int] | None = None,
        separator: str | None = None, fill: str | None = None, dtype: DTypeLike = np.uint8,
    ) -> None:  # fmt: skip
        RecordConstructorArgs.__init__(
            self, symbols=symbols, shape=shape, separator=separator, fill=fill, dtype=np.dtype(dtype).name
        )
        gym.ObservationWrapper.__init__(self, env)
        known = _sokoban_board(env) if symbols is None or shape is None or separator is None else None
        if (symbols is None or shape is None) and known is None:
            raise ValueError(
                f"{env}: alphabet and shape of its boards are not known; pass symbols='...' (all characters that "
                "occur) and shape=(height, width)"
            )
        if known is not None:
            symbols, shape = symbols or known[0], shape or known[1]
            separator = known[2] if separator is None else separator
        assert symbols is not None and shape is not None  # noqa: PT018
        if not symbols or len(set(symbols)) < len(symbols) or "\n" in symbols:
            raise ValueError(f"symbols must be distinct characters other than the line break, got {symbols!r}")
        if len(shape) != 2 or not all(isinstance(side, (int, np.integer)) and side > 0 for side in shape):
            raise ValueError(f"shape must be (height, width), both at least 1, got {shape!r}")
        if fill is not None and (len(fill) != 1 or fill not in symbols):
            raise ValueError(f"fill must be one of the symbols {symbols!r}, got {fill!r}")
        if np.dtype(dtype).kind not in "uf":
            raise ValueError(f"dtype must be an unsigned integer or a float, got {np.dtype(dtype)}")
        self.symbols, self.separator, self.fill = symbols, separator or "", fill
        self.height, self.width = int(shape[0]), int(shape[1])
        self._codes = np.array([ord(symbol) for symbol in symbols], np.uint32)[:, None, None]
        self._dtype = np.dtype(dtype)
        self.observation_space = gym.spaces.Box(0, 1, (len(symbols), self.height, self.width), self._dtype.type)

    def observation(self, observation: Any) -> NDArray[Any]:
        if not isinstance(observation, str):
            raise TypeError(f"SymbolPlanes reads text boards, got {type(observation).__name__}")
        rows = observation.split("\n")
        if self.separator:
            rows = [self._cells(row) for row in rows]
        if self.fill is not None:
            rows = [row.ljust(self.width, self.fill) for row in rows]
            rows += [self.fill * self.width] * (self.height - len(rows))
        if len(rows) != self.height or any(len(row) != self.width for row in rows):
            hint = "" if self.fill is not None else "; pass fill= to allow smaller boards"
            lengths = f"{[len(row) for row in rows[:100]]}{f' and {len(rows) - 100} more' if len(rows) > 100 else ''}"
            raise ValueError(
                f"expected a board of {self.height} rows of {self.width} cells, got rows of lengths "
                f"{lengths}{hint}:\n{observation[:1000]}"
            )
        cells = np.frombuffer("".join(rows).encode("utf-32-le"), np.uint32).reshape(self.height, self.width)
        planes = cells == self._codes
        if int(planes.sum()) != cells.size:
            unknown = sorted(set("".join(rows)) - set(self.symbols))
            raise ValueError(f"symbol {unknown[0]!r} is not in the alphabet {self.symbols!r}; pass symbols= with it")
        found: NDArray[Any] = planes.astype(self._dtype)
        return found

    def shown(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return self.observation(observation), info

    def _cells(self, row: str) -> str:
        cells = row[:: 1 + len(self.separator)]
        if self.separator.join(cells) != row:
            raise ValueError(f"expected cells of one character with {self.separator!r} between them, got {row!r:.200}")
        return cells


class DiscreteActions(BranchingWrapper, gym.ActionWrapper[Any, Any, Any], RecordConstructorArgs):
    """Take the number of a command as action.

    Args:
        commands: the commands, numbered from 0; None: samples of the environment's `TextSpace`.

    Raises:
        ValueError: at once, without commands or with equal ones; by `step`, when no command has the action's number.

    >>> import agentgym
    >>> env = DiscreteActions(gym.make("AgentRL/Sokoban-v0"))
    >>> env.action_space, env.commands, env.action(3)
    (Discrete(4), ('up', 'down', 'left', 'right'), 'right')
    """

    def __init__(self, env: gym.Env[Any, Any], commands: Sequence[str] | None = None) -> None:
        RecordConstructorArgs.__init__(self, commands=commands)
        gym.ActionWrapper.__init__(self, env)
        if commands is None:
            commands = env.action_space.samples if isinstance(env.action_space, TextSpace) else ()
            if not commands:
                raise ValueError(f"{env}: its commands are not known; pass commands=('...', ...)")
        if isinstance(commands, str) or not commands or len(set(commands)) < len(commands):
            raise ValueError(f"commands must be a sequence of distinct strings, got {commands!r}")
        self.commands = tuple(commands)
        self.action_space = gym.spaces.Discrete(len(self.commands))

    def action(self, action: SupportsInt) -> str:
        try:
            number = int(action)
        except (TypeError, ValueError):
            number = -1
        if not 0 <= number < len(self.commands):
            raise ValueError(f"expected an action 0..{len(self.commands) - 1} ({self.commands}), got {action!r}")
        return self.commands[number]


def _sokoban_board(env: gym.Env[Any, Any]) -> tuple[str, tuple[int, int], str] | None:
    from agentgym.sokoban.env import SokobanBase

    inner = env.unwrapped
    if not isinstance(inner, SokobanBase):
        return None
    style = inner.style
    return "".join(style.symbols), inner.tasks.size, style.separator
