"""A sub-environment in a process of Gymnasium's `AsyncVectorEnv`, stepped and reset by itself."""

import re
from typing import Any, NoReturn

import gymnasium as gym
from gymnasium.error import ClosedEnvironmentError
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from agentgym.branching.stack import STOCK
from agentgym.core import Info

#: Seconds to wait for the exit code of a process that closed its pipe.
_PATIENCE = 5
_STOCK = frozenset(kind.__name__ for kind in STOCK)


class Worker:
    """A sub-environment behind the pipe of Gymnasium's async worker: all requests are sent before answers are read."""

    def __init__(self, envs: AsyncVectorEnv[Any, Any], index: int) -> None:
        self.envs, self.index = envs, index
        self.metadata, self.render_mode = envs.metadata, envs.render_mode
        self.observation_space, self.action_space = envs.single_observation_space, envs.single_action_space
        self._asked = ""
        self._has: dict[str, bool] = {}
        self._begun: tuple[Any, Info] | None = None  # SAME_STEP: the worker has reset already
        self._resets_next = False  # NEXT_STEP: the worker resets at its next step

    def __repr__(self) -> str:
        return f"sub-environment {self.index} of {self.envs}"

    def ask(self, command: str, data: Any) -> None:
        """Send a message; the unread answer of an interrupted call is discarded."""
        if self.envs.closed:
            raise ClosedEnvironmentError(f"{self.envs} is closed")
        if self._asked:
            self._answer()
        pipe = self.envs.parent_pipes[self.index]
        if pipe is None:
            raise RuntimeError(f"{self} has failed before and its process has ended: make a new vector environment")
        self._asked = command
        try:
            pipe.send((command, data))
        except ConnectionError:
            self._mourn()

    def start(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Request a reset unless the worker has begun an episode."""
        given = seed is not None or options is not None
        if self._begun is not None and not given:
            return
        self._begun = None
        if self._resets_next:
            self._resets_next = False
            self.ask("step", "")
            if not given:
                return
        self.ask("reset", {"seed": seed, "options": options})

    def reset(self, *, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, Info]:
        """Return the answer to `start`."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            return begun
        answer = self._answer()
        return answer[0], answer[-1]

    def step(self, action: str) -> tuple[Any, float, bool, bool, Info]:
        """Return the result of a requested step, before any reset."""
        observation, reward, terminated, truncated, info = self._answer()
        if terminated or truncated:
            if self.envs.autoreset_mode is AutoresetMode.SAME_STEP:
                own = ("final_obs", "final_info")
                self._begun = observation, {name: value for name, value in info.items() if name not in own}
                observation, info = info["final_obs"], info["final_info"]
            self._resets_next = self.envs.autoreset_mode is AutoresetMode.NEXT_STEP
        return observation, reward, terminated, truncated, info

    def has_wrapper_attr(self, name: str) -> bool:
        """Return whether the environment in the process or one of its wrappers has an attribute."""
        if name not in self._has:
            self._has[name] = bool(self._call("has_wrapper_attr", name))
        return self._has[name]

    def snapshot(self) -> Any:
        """Return the state of the environment and of `gym.make`'s wrappers; a TypeError names what is missing."""
        missing = [name for name in ("snapshot", "restore") if not self.has_wrapper_attr(name)]
        shown = str(self._call("__str__"))  # <Wrapper<Environment<id>>>, or <Wrapper<Environment instance>>
        names = re.findall(r"<([^<>]+)", shown)
        unknown = [
            name for name in names[: -1 if shown.rstrip(">").endswith(" instance") else -2] if name not in _STOCK
        ]
        if missing or unknown:
            reason = f"it is in {unknown[0]}" if unknown else f"it has no {missing[0]}()"
            raise TypeError(
                f"{shown} cannot be saved in a process of AsyncVectorEnv ({reason}): give the environment's class "
                "snapshot() and restore(snapshot) and leave other wrappers out; or make a SyncVectorEnv, in which all "
                "that can be copied can be saved"
            )
        counters = [name for kind in STOCK.values() for name in kind if self._call("has_wrapper_attr", name)]
        return self._call("snapshot"), self._call("np_random"), {name: self._call(name) for name in counters}

    def restore(self, state: Any) -> None:
        """Load a `snapshot` of this or another process."""
        saved, random, counters = state
        if self._resets_next:  # the next step would reset and lose what is restored
            self._resets_next = False
            self.ask("step", "")
        self._begun = None
        self._call("restore", saved)
        for name, value in {"np_random": random, **counters}.items():
            self._set(name, value)

    def reseed(self, seed: int) -> None:
        """Seed the environment's generator; parts that keep a reference to the old generator are not reached."""
        if self.has_wrapper_attr("reseed"):
            self._call("reseed", seed)
        else:
            self._set("np_random", np_random(seed)[0])

    def _call(self, name: str, *arguments: Any) -> Any:
        self.ask("_call", (name, arguments, {}))
        return self._answer()

    def _set(self, name: str, value: Any) -> None:
        self.ask("_setattr", (name, value))
        self._answer()

    def _answer(self) -> Any:
        try:
            answer, worked = self.envs.parent_pipes[self.index].recv()
        except (EOFError, ConnectionError):
            self._mourn()
        asked, self._asked = self._asked, ""
        if not worked:
            _, kind, value, trace = self.envs.error_queue.get()
            gym.logger.error(f"{self} has failed and is shut down:\n{trace}")
            self._hang_up()
            try:
                error: BaseException = kind(value)
            except Exception:  # the exception's constructor takes other arguments
                error = RuntimeError(f"{kind.__name__}: {value}")
            error.add_note(f"raised by {asked} of {self}")
            raise error
        return answer

    def _mourn(self) -> NoReturn:
        process, asked = self.envs.processes[self.index], self._asked
        process.join(_PATIENCE)
        self._hang_up()
        raise RuntimeError(
            f"{self}: its process ended with exit code {process.exitcode} when it was asked to {asked}, and gave no "
            "answer. The environment called sys.exit() or os._exit(), or the process was killed, for want of memory "
            "for instance; play the environment in a SyncVectorEnv to see where"
        )

    def _hang_up(self) -> None:
        self._asked = ""
        self.envs.parent_pipes[self.index].close()
        self.envs.parent_pipes[self.index] = None  # type: ignore[call-overload]  # as Gymnasium does it
