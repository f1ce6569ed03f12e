"""Packages that are measured beside ours where they are installed: gym-sokoban 0.0.6 (extra `peers`), alfworld, others.

Those that cannot be installed beside this project have an interpreter of their own, which a variable names.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import random
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.alfworld.official.dataset import VARIABLE
from agentgym.outside.packages import install, install_package


def gym_sokoban() -> tuple[type[Any], Callable[..., Any]] | None:
    """Return gym-sokoban's environment class and level generator, or None where it is not installed."""
    if importlib.util.find_spec("gym_sokoban") is None or importlib.util.find_spec("gym") is None:
        return None
    # Setuptools dropped `pkg_resources` in 2025; gym-sokoban needs one function of it.
    if "pkg_resources" not in sys.modules and importlib.util.find_spec("pkg_resources") is None:
        stand_in = types.ModuleType("pkg_resources")
        stand_in.resource_filename = _resource_filename  # type: ignore[attr-defined]
        sys.modules["pkg_resources"] = stand_in
    # gym prints a notice about its successor to stderr.
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        from gym_sokoban.envs.room_utils import generate_room
        from gym_sokoban.envs.sokoban_env import SokobanEnv
    return SokobanEnv, generate_room


def _installed() -> tuple[type[Any], Callable[..., Any]]:
    found = gym_sokoban()
    if found is None:
        raise ModuleNotFoundError(f"gym-sokoban is not installed: {install('peers')}")
    return found


def _resource_filename(package: str, resource: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {package!r} to read {resource!r} from")
    return os.path.join(os.path.dirname(spec.origin), resource)


def sokoban_stepper(render: str, size: int, boxes: int) -> Callable[[int], int]:
    """Return a function that plays n random steps in gym-sokoban and returns n.

    `render` is "rgb_array" (its default), "tiny_rgb_array", or "none" (its rules alone, rendering taken out).
    """
    base, _ = _installed()

    class WithoutPicture(base):  # type: ignore[misc,valid-type]
        def render(self, mode: str = "", close: Any = None, scale: int = 1) -> None:
            return None

    with quiet_seeded(0):
        env = (WithoutPicture if render == "none" else base)(dim_room=(size, size), max_steps=2**62, num_boxes=boxes)
    mode = "tiny_rgb_array" if render == "none" else render
    # Actions 1 to 4 push or move, as ours do; a solved room is stepped on, which costs the same.
    actions = np.random.default_rng(0).integers(1, 5, 4096).tolist()

    def play(steps: int) -> int:
        for i in range(steps):
            env.step(actions[i % 4096], observation_mode=mode)
        return steps

    return play


def sokoban_generator(size: int, boxes: int) -> Callable[[int], int]:
    """Return a function that makes n gym-sokoban rooms (its own retries included) and returns n."""
    _, generate_room = _installed()
    walk = int(1.7 * (size + size))  # the length its environment uses

    def make(levels: int) -> int:
        with quiet_seeded(0):
            made = 0
            while made < levels:
                with contextlib.suppress(RuntimeError, RuntimeWarning):
                    generate_room(dim=(size, size), num_steps=walk, num_boxes=boxes)
                    made += 1
        return made

    return make


@contextlib.contextmanager
def quiet_seeded(seed: int) -> Any:
    """Seed the global generators that gym-sokoban draws from, and swallow what it prints; both are put back."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def alfworld_stepper() -> Callable[[int], int] | str:
    """Return a function that plays n random steps in the alfworld package's engine, or why there is none."""
    if importlib.util.find_spec("alfworld") is None or importlib.util.find_spec("textworld") is None:
        return f"the alfworld package is not installed: {install_package('alfworld==0.4.2')} and run again to compare"
    folder = os.environ.get(VARIABLE)
    games = sorted(Path(folder).glob("json_2.1.1/valid_*/*/*/game.tw-pddl")) if folder else []
    if not games:
        return f"the alfworld package plays official games: set {VARIABLE} to the folder that holds json_2.1.1"
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    rng = np.random.default_rng(0)
    with contextlib.redirect_stdout(io.StringIO()):
        wanted = textworld.EnvInfos(won=True, admissible_commands=True)
        env = AlfredDemangler()(textworld.start(str(games[0]), wanted))
        state: Any = env.reset()

    def play(steps: int) -> int:
        nonlocal state
        for _ in range(steps):
            commands = state["admissible_commands"]
            state, _, done = env.step(commands[int(rng.integers(len(commands)))])
            if done:
                state = env.reset()
        return steps

    return play


def in_interpreter(
    variable: str, script: str, repeats: int, *, needs: str, environment: Mapping[str, str] | None = None
) -> list[float] | None:
    """Return the numbers in the last line that a script prints in another interpreter; None where none is named."""
    python = os.environ.get(variable)
    if not python:
        return None
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, script, str(repeats)],
        capture_output=True,
        text=True,
        env={**known, **(environment or {})},
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"{variable}={python} cannot play: {last}; install {needs} there or unset it")
    return [float(word) for word in done.stdout.strip().rpartition("\n")[2].split()]
