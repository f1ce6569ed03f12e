"""How many files and functions one training iteration enters: `python -m tests.architecture.route [--list]`.

The tiny policy plays four groups of four episodes of Sokoban and is trained on them, by default with GraphGPO, whose
credit needs the state graph. Counted is the second iteration: what is done once is done. Counted are the files and
the functions of the five folders; a lambda, a comprehension or a class body counts as its function.
"""

import argparse
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from tests.architecture.house import FOLDERS, LIMITS, ROOT, ROUTE

#: Names of code that is no function of its own.
_INSIDE = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")


class Route:
    """Notes the functions that are entered while it is on, in every thread that begins meanwhile too."""

    def __init__(self) -> None:
        self.entered: set[tuple[str, str]] = set()
        self._files: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call; `sys.setprofile` calls this."""
        if event != "call":
            return
        code = frame.f_code
        file = self._files.get(code.co_filename)
        if file is None:
            path = Path(code.co_filename)
            inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in FOLDERS
            file = self._files[code.co_filename] = str(path.relative_to(ROOT)) if inside else ""
        if file:
            name = code.co_qualname
            while name.rpartition(".")[2] in _INSIDE:
                name = name.rpartition(".<locals>.")[0] or "(module)"
            self.entered.add((file, name))

    def start(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def files(self) -> list[str]:
        """The files entered, in order."""
        return sorted({file for file, _ in self.entered})


def walk(method: str = "graphgpo") -> Route:
    """Train for two iterations and return the route of the second."""
    import gymnasium as gym

    from baselines.config import Checkpoints, Optimiser, TrainerConfig, Validation
    from baselines.recipes import recipe
    from baselines.trainer import Trainer
    from policies.tiny import tiny_policy
    from wrappers import VectorPromptWindow, VectorReplyParser

    envs: Any = gym.make_vec("AgentRL/Sokoban-v0", num_envs=16, autoreset_mode="Disabled", max_episode_steps=5)
    envs = VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)
    tasks = [{"split": "train", "index": index} for index in range(8)]
    # Every task is played once, so that no level is generated on the way.
    messages, infos = envs.reset(seed=0, options={"per_env": tasks * 2})
    words = sorted({word for actions in infos["admissible_actions"] for word in actions})
    policy = tiny_policy([message[-1]["content"] for message in messages], seed=0, extra_words=words)
    chosen, route = recipe(method), Route()
    config = TrainerConfig(
        iterations=2, groups=4, group_size=4, learning_rate=1e-3, seed=0, optimiser=Optimiser(minibatch_rows=32),
        validation=Validation(every=0), checkpoint=Checkpoints(every=0),
    )  # fmt: skip

    def watch(trainer: Any, table: Any, row: Any) -> None:
        route.stop()
        if row["iteration"] == 1:
            route.start()

    try:
        Trainer(policy, envs, chosen, tasks, chosen.configure(config)).run(watch)
    finally:
        route.stop()
    return route


def main(arguments: list[str] | None = None) -> int:
    """Print the counts, with `--list` also what was entered."""
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.route", description="Count what is entered.")
    parser.add_argument("--method", default="graphgpo", help="a recipe (default graphgpo)")
    parser.add_argument("--list", action="store_true", help="also print files and functions")
    given = parser.parse_args(arguments)
    route = walk(given.method)
    for file in route.files if given.list else ():
        print(file, *sorted(name for each, name in route.entered if each == file), sep="\n    ")
    limits = {limit.measure: limit.most for limit in LIMITS}
    for measure, count in zip(ROUTE, (len(route.files), len(route.entered)), strict=True):
        print(f"{measure}: {count} (limit {limits[measure]:g})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
