"""The contract of all environments: `TextSpace`, the space of strings, and `TextEnv`, the base class."""

import string
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector.utils import create_shared_memory

from agentgym.branching.stack import load_random_state, random_state, seed_random_state
from agentgym.checks import check_name, keywords_checked, suggest, whole
from agentgym.outside.text import clean
from agentgym.tasks import Tasks, check_split, generator

ObsT = TypeVar("ObsT")
Info = dict[str, Any]

#: Info keys of every reset and step, with their Python types.
INFO_TYPES: dict[str, type] = {
    "admissible_actions": tuple,
    "is_action_valid": bool,
    "state_key": str,
    "task_id": str,
    "won": bool,
    "score": float,
}

_PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " \n"


class TextSpace(gym.Space[str]):
    """All strings of at most `max_length` characters, of any script.

    It is no subclass of `gymnasium.spaces.Text`: that character set lacks the space, and shared memory garbles
    subclasses. `AsyncVectorEnv` needs `shared_memory=False`, else it raises a `ValueError`. `sample` draws from
    `samples`, by default random printable ASCII of at most 32 characters.
    """

    def __init__(
        self, max_length: int = 1_000_000, *, samples: Sequence[str] = (), seed: int | np.random.Generator | None = None
    ) -> None:
        self.max_length = whole("TextSpace: max_length", max_length, 1)
        too_long = [text for text in samples if len(text) > max_length]
        if too_long:
            raise ValueError(f"TextSpace: sample {too_long[0]!r} is longer than max_length={max_length}")
        self.samples = tuple(samples)
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        if mask is not None or probability is not None:
            raise ValueError("TextSpace.sample takes neither mask nor probability: sample without them")
        if self.samples:
            return self.samples[int(self.np_random.integers(len(self.samples)))]
        length = int(self.np_random.integers(0, min(32, self.max_length) + 1))
        return "".join(_PRINTABLE[i] for i in self.np_random.integers(0, len(_PRINTABLE), length))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length}, samples={self.samples!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and (self.max_length, self.samples) == (other.max_length, other.samples)

    __hash__ = None  # type: ignore[assignment]  # as other Gymnasium spaces: mutable through its generator


@create_shared_memory.register(TextSpace)
def _no_shared_memory(space: TextSpace, n: int = 1, ctx: Any = None) -> None:
    raise ValueError(
        "texts have no fixed size to share: make gymnasium.vector.AsyncVectorEnv with shared_memory=False (in "
        "gym.make_vec: vector_kwargs={'shared_memory': False}); or leave vectorization_mode out, one process then "
        "steps all sub-environments, which costs less than a process for each"
    )


def _overridden(cls: type, name: str, methods: Sequence[str]) -> bool:
    for each in cls.__mro__:
        if name in vars(each):
            return False
        if any(method in vars(each) for method in methods):
            return True
    return False


class TextEnv(gym.Env[ObsT, str], Generic[ObsT]):
    """Base class: actions are strings, and so are observations unless there is a picture.

    A subclass sets `action_space`, `instructions`, `OPTIONS`, `tasks`, `observation_space` if that is no text, and has

    * `begin(options)`: choose and load the task of a new episode; randomness only from `self.np_random`;
    * `act(command)`: play one command; a command that the world refuses is invalid and never raises;
    * `observe()`: the current observation;
    * `describe(valid)`: the info dict, the same keys at every step, at least those of `INFO_TYPES`;
    * `get_state()` / `set_state(state)`: the exact latent state as a small picklable value.

    Info keys: `admissible_actions` (commands that the world accepts now), `is_action_valid` (the last command was
    accepted; `True` after a reset), `state_key` (exact latent state), `task_id` (accepted by `reset`), `won` (success),
    `score` (progress in 0..1 or the environment's own grade), and with `expert=True` the privileged `expert_action` (an
    optimal or demonstration command, `""` if there is none).
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  # Gymnasium's declaration
    instructions: str = ""
    """Rules and action format of the task, for the prompt."""
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id")
    """Names that `reset(options=...)` accepts."""
    tasks: Tasks[Any]
    """The task collection, see `agentgym.tasks`."""
    SETTLED: ClassVar[tuple[str, ...]] = ()
    """Info keys whose values change only when an episode begins or terminates."""
    no_hindsight: ClassVar[str] = "it does not say which tasks its states fulfil (TextEnv.fulfilled)"
    """Why `fulfilled` raises a TypeError."""
    command_tags: ClassVar[tuple[str, ...]] = ()
    """Tags whose whole block is a command, such as `<search>...</search>`; `wrappers.reply` looks for them."""
    tools: Sequence[dict[str, Any]] = ()
    """JSON schemas of the tools that commands call; `wrappers.reply` reads calls, `wrappers.prompt` shows schemas."""
    checks_calls: ClassVar[bool] = False
    """Whether the environment itself answers calls that do not fit its tools; else `wrappers.reply` does."""

    @keywords_checked
    def __init__(self, *, render_mode: str | None = None, expert: bool = False) -> None:
        if render_mode is not None:
            check_name(render_mode, self.metadata["render_modes"], "render_mode")
        self.observation_space: gym.Space[Any] = TextSpace()
        self.render_mode = render_mode
        self.expert = bool(expert)
        self._begun = False
        self._running = False
        self._accepted = True

    @abstractmethod
    def begin(self, options: dict[str, Any]) -> None:
        """Choose and load the task of a new episode."""

    @abstractmethod
    def act(self, command: str) -> tuple[float, bool, bool]:
        """Play one command and return `(reward, terminated, is_action_valid)`."""

    def fulfilled(self) -> tuple[str, ...]:
        """Return the ids of other tasks that the commands played so far solve, easier ones first. Privileged.

        They share world, split and beginning; goals that held at the beginning do not count. See
        `agentgym.rollout.hindsight`. Raises a TypeError (`no_hindsight`) if the environment has no such tasks.
        """
        raise TypeError(f"{type(self).__name__} has no exact hindsight: {self.no_hindsight}")

    def is_cut(self) -> bool:
        """Say whether the task itself truncated the episode at the last command; time limits are wrappers."""
        return False

    @abstractmethod
    def observe(self) -> ObsT:
        """Return the observation of the current state."""

    @abstractmethod
    def describe(self, valid: bool) -> Info:
        """Return a fresh info dict for the current state."""

    def advance(self, command: str, info: Info) -> tuple[ObsT, float, bool, Info]:
        """Play one command in a vector environment; return observation, reward, terminated and info.

        An override may change `info`, its previous dict. Subclasses that override its parts do not inherit it.
        """
        reward, terminated, valid = self.act(command)
        return self.observe(), reward, terminated, self.describe(valid)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if _overridden(cls, "advance", ("act", "observe", "describe")):
            cls.advance = TextEnv.advance  # type: ignore[method-assign]
        if _overridden(cls, "SETTLED", ("describe",)):
            cls.SETTLED = ()

    @abstractmethod
    def get_state(self) -> Any:
        """Return the exact latent state as a small picklable value; later steps do not change it."""

    @abstractmethod
    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned, from any environment with the same arguments."""

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks in a split; valid indices are below it."""
        return self.tasks.count(check_split(self.tasks, split))

    def task_ids(self, split: str) -> Iterator[str]:
        """Yield the ids of a split's tasks in index order."""
        return self.tasks.ids(check_split(self.tasks, split))

    def content(self, task_id: str) -> Any:
        """Return what decides a task's episodes, as JSON values without ids, paths or solutions; default: the id.

        Panels identify tasks by it, so it must never change.
        """
        return task_id

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ObsT, Info]:
        """Start an episode; equal seeds and options give equal episodes in any process.

        Without options (`OPTIONS`) the task is drawn from `self.np_random`. ValueError for an unknown option or task.
        """
        seed = int(seed) if isinstance(seed, np.integer) else seed
        if type(seed) is int and seed >= 0:
            self._np_random, self._np_random_seed = generator(seed), seed  # as Gymnasium does, in less time
        else:
            super().reset(seed=seed)
        options = {} if options is None else options
        for name in options:
            if name not in self.OPTIONS:
                raise ValueError(f"{type(self).__name__}.reset: unknown option {name!r}; {suggest(name, self.OPTIONS)}")
        self.begin(options)
        self._begun = self._running = self._accepted = True
        return self.observe(), self.describe(True)

    def step(self, action: str) -> tuple[ObsT, float, bool, bool, Info]:
        """Play one command, cleaned by `agentgym.outside.text.clean`; `truncated` is `is_cut()`.

        Raises a TypeError if the action is no string, ResetNeeded before the first reset or after the end.
        """
        if not isinstance(action, str):
            raise TypeError(
                f"{type(self).__name__}.step: expected a str command, got {type(action).__name__} ({action!r:.200}); "
                f"wrap the environment (wrappers.reply) to turn other actions into commands"
            )
        if not self._running:
            raise ResetNeeded(f"{type(self).__name__}.step: the episode is over or never began; call reset() first")
        reward, terminated, self._accepted = self.act(clean(action))
        truncated = self.is_cut()
        self._running = not (terminated or truncated)
        return self.observe(), reward, terminated, truncated, self.describe(self._accepted)

    def finish(self) -> None:
        """Mark the episode as over (called by the vector form)."""
        self._running = False

    def need_episode(self, method: str) -> None:
        """Raise `ResetNeeded`, which names the method, before the first episode."""
        if not self._begun:
            raise ResetNeeded(f"{type(self).__name__}.{method}: no episode yet; call reset() first")

    def render(self) -> Any:
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode: make the environment with one")
            return None
        self.need_episode("render")
        return self.draw()

    def draw(self) -> Any:
        """Return the state in the render mode; default: the observation."""
        return self.observe()

    def snapshot(self) -> Any:
        """Return the exact state and that of `np_random`, without wrappers, as a small picklable value."""
        self.need_episode("snapshot")
        return self.get_state(), self._running, self._accepted, random_state(self)

    def restore(self, snapshot: Any, seed: int | None = None) -> tuple[ObsT, Info]:
        """Continue from a `snapshot` of an equal environment; return observation and info of that state.

        `seed` seeds later draws; with None they are those after the snapshot.
        """
        self.resume(snapshot, seed)
        return self.seen()

    def seen(self) -> tuple[ObsT, Info]:
        """Return the observation and info of the last reset or step."""
        return self.observe(), self.describe(self._accepted)

    def resume(self, snapshot: Any, seed: int | None = None) -> None:
        """Continue from a `snapshot` as `restore` does, without observing."""
        state, running, valid, random = snapshot
        self.set_state(state)
        self._begun, self._running, self._accepted = True, running, valid
        if seed is None:
            load_random_state(self, random)
        else:
            self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Seed later draws; the current state stays. Override it if `np_random` is not all that is drawn from."""
        seed_random_state(self, seed)
