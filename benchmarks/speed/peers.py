"""Packages that ours is compared with: gym-sokoban 0.0.6 (extra `peers`), and tau2-bench.

A package that conflicts with this project has an interpreter of its own, which a variable names.
"""

import contextlib
import importlib.util
import io
import os
import random
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from agentgym.outside.packages import install


def gym_sokoban() -> Any:
    """Return gym-sokoban's environment class, or None where it is not installed."""
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
        from gym_sokoban.envs.sokoban_env import SokobanEnv
    return SokobanEnv


def missing_gym_sokoban() -> str:
    """Return what to install if it is missing."""
    return "" if gym_sokoban() else f"gym-sokoban is not installed: {install('peers')} and run again to compare"


def missing_interpreter(variable: str, needs: str) -> str:
    """Return which variable has to name an interpreter with a package, if it names none."""
    return "" if os.environ.get(variable) else f"{needs} is missing: name an interpreter that has it in {variable}"


def _resource_filename(package: str, resource: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {package!r} to read {resource!r} from")
    return os.path.join(os.path.dirname(spec.origin), resource)


def sokoban_stepper(base: Any, render: str, size: int, boxes: int) -> Callable[[int], int]:
    """Return a function that plays n random steps in gym-sokoban's environment class and returns n.

    `render` is "rgb_array" (its default), or "none" (its rules alone, rendering taken out).
    """

    class WithoutPicture(base):
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


def in_interpreter(variable: str, script: str, repeats: int, *, needs: str) -> list[float] | None:
    """Return the numbers in the last line that a script prints in another interpreter; None where none is named."""
    python = os.environ.get(variable)
    if not python:
        return None
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, script, str(repeats)], capture_output=True, text=True, env=known, check=False)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"{variable}={python} cannot play: {last}; install {needs} there or unset it")
    return [float(word) for word in done.stdout.strip().rpartition("\n")[2].split()]
