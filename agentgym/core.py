"""The contract of every environment here: text in, text out, plain Gymnasium.

`TextSpace` is the space of strings, `TextEnv` the base class. An environment author writes `begin`, `act`,
`observe` and `describe`, and two small methods for snapshots; `reset`, `step`, argument checks and the vector form
(`agentgym.vector.TextVectorEnv`) follow from them.
"""

from __future__ import annotations

import string
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector.utils import create_shared_memory

from agentgym.branching.stack import load_random_state, random_state, seed_random_state
from agentgym.checks import keywords_checked, suggest
from agentgym.outside.text import clean
from agentgym.tasks import Tasks, check_split

ObsT = TypeVar("ObsT")
Info = dict[str, Any]

#: The info keys that every environment returns after every reset and step, with their Python types.
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

    Not a subclass of `gymnasium.spaces.Text`, whose character set lacks the space, and whose subclasses shared memory
    garbles. `AsyncVectorEnv` works with `shared_memory=False`, and else raises a `ValueError`.

    Args:
        max_length: longest string that belongs to the space, in characters.
        samples: what `sample` draws from; without it, random printable ASCII of at most 32 characters.
        seed: seed of `sample`.

    >>> space = TextSpace(samples=("up", "down"), seed=0)
    >>> space.sample() in {"up", "down"}, "√ any text" in space, 3 in space
    (True, True, False)
    """

    def __init__(
        self,
        max_length: int = 1_000_000,
        *,
        samples: Sequence[str] = (),
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if max_length < 1:
            raise ValueError(f"TextSpace: max_length must be at least 1, got {max_length}")
        too_long = [text for text in samples if len(text) > max_length]
        if too_long:
            raise ValueError(f"TextSpace: sample {too_long[0]!r} is longer than max_length={max_length}")
        self.max_length = int(max_length)
        self.samples = tuple(samples)
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no fixed-size array form."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Draw a string from the space's own generator (`mask` and `probability` are not supported)."""
        if mask is not None or probability is not None:
            raise ValueError("TextSpace.sample takes neither mask nor probability: sample without them")
        if self.samples:
            return self.samples[int(self.np_random.integers(len(self.samples)))]
        length = int(self.np_random.integers(0, min(32, self.max_length) + 1))
        return "".join(_PRINTABLE[i] for i in self.np_random.integers(0, len(_PRINTABLE), length))

    def contains(self, x: Any) -> bool:
        """Say whether `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        """Show the constructor's arguments."""
        return f"TextSpace({self.max_length}, samples={self.samples!r})"

    def __eq__(self, other: object) -> bool:
        """Spaces are equal when they hold and sample the same strings."""
        return isinstance(other, TextSpace) and (self.max_length, self.samples) == (
            other.max_length,
            other.samples,
        )

    __hash__ = None  # type: ignore[assignment]  # as other Gymnasium spaces: mutable through its generator


@create_shared_memory.register(TextSpace)
def _no_shared_memory(space: TextSpace, n: int = 1, ctx: Any = None) -> None:
    raise ValueError(
        "texts have no fixed size to share: make gymnasium.vector.AsyncVectorEnv with shared_memory=False (in "
        "gym.make_vec: vector_kwargs={'shared_memory': False}); or leave vectorization_mode out, one process then "
        "steps all sub-environments, which costs less than a process for each"
    )


def _overridden(cls: type, name: str, methods: Sequence[str]) -> bool:
    """Whether a class that comes before the one which defines `name` defines one of `methods`."""
    for each in cls.__mro__:
        if name in vars(each):
            return False
        if any(method in vars(each) for method in methods):
            return True
    return False


class TextEnv(gym.Env[ObsT, str], Generic[ObsT]):
    """Base class of the environments: actions are strings, and so are observations unless there is a picture.

    A subclass sets `observation_space`, `action_space`, `instructions`, `OPTIONS`, `tasks` and writes

    * `begin(options)`: choose and load the task of a new episode; randomness only from `self.np_random`;
    * `act(command)`: play one command and return `(reward, terminated, is_action_valid)`. A command the world does
      not accept is an invalid action: it is never an exception;
    * `observe()`: the current observation;
    * `describe(valid)`: the info dict, with at least the keys of `INFO_TYPES`, the same keys at every step;
    * `get_state()` / `set_state(state)`: the exact latent state as a small picklable value.

    Info keys: `admissible_actions` (commands that the world accepts now), `is_action_valid` (the last command was
    accepted; `True` after a reset), `state_key` (exact latent state), `task_id` (accepted back by
    `reset(options={"task_id": ...})`), `won` (success; `terminated` alone is not success), `score` (progress in 0..1
    or the environment's own grade).

    Args:
        render_mode: one of `metadata["render_modes"]`, or None.
        expert: put the key `expert_action` (an optimal or demonstration command, `""` when there is none) into info.
            Privileged: for cloning and evaluation only.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012  # Gymnasium's own declaration
    instructions: str = ""
    """Rules and action format of the task, in words, for the prompt."""
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id")
    """Names that `reset(options=...)` accepts."""
    tasks: Tasks[Any]
    """What episodes are drawn from, see `agentgym.tasks`."""
    SETTLED: ClassVar[tuple[str, ...]] = ()
    """Info keys whose values change when an episode begins or terminates, and at no step between."""
    no_hindsight: ClassVar[str] = "it does not say which tasks its states fulfil (TextEnv.fulfilled)"
    """Why `fulfilled` raises."""
    command_tags: ClassVar[tuple[str, ...]] = ()
    """Tags whose whole block is a command, such as `<search>...</search>`; `wrappers.reply` finds them in replies."""
    tools: Sequence[dict[str, Any]] = ()
    """JSON schemas of the tools that commands call; `wrappers.reply` reads calls, `wrappers.prompt` shows schemas."""
    checks_calls: ClassVar[bool] = False
    """Whether the environment itself answers calls that do not fit its tools; else `wrappers.reply` does."""

    @keywords_checked
    def __init__(self, *, render_mode: str | None = None, expert: bool = False) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ValueError(
                f"{type(self).__name__}: unknown render_mode {render_mode!r}; {suggest(render_mode, modes)}"
            )
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
        """Return the ids of other tasks that this episode has done as it stands, for `agentgym.rollout.hindsight`.

        They are tasks of this world and split with the same beginning, in which the commands played so far come to the
        same state, and win. What was so at the beginning counts for none. Easier ones come first. Privileged.

        Raises:
            TypeError: the environment has no such tasks; the message says why.
        """
        raise TypeError(f"{type(self).__name__} has no exact hindsight: {self.no_hindsight}")

    def is_cut(self) -> bool:
        """Say whether the last command cut the episode off: an end, `truncated`, that belongs to the task.

        Most environments never do: time limits are a wrapper's business.
        """
        return False

    @abstractmethod
    def observe(self) -> ObsT:
        """Return the observation of the current state."""

    @abstractmethod
    def describe(self, valid: bool) -> Info:
        """Return a fresh info dict for the current state."""

    def advance(self, command: str, info: Info) -> tuple[ObsT, float, bool, Info]:
        """Play one command of a vector environment: `act`, `observe` and `describe` at once.

        A subclass may override it to write only what has changed into `info`, the dict that it returned before; in a
        subclass of that which overrides one of the three, they are called again.

        Returns:
            observation, reward, terminated, info.
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
        """Return the exact latent state as a small picklable value that later steps do not change."""

    @abstractmethod
    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned, of any episode of an environment built with the same arguments."""

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks in a split: what a reset without index draws from, and indices from 0 on."""
        return self.tasks.count(check_split(self.tasks, split))

    def task_ids(self, split: str) -> Iterator[str]:
        """Yield the ids of a split's tasks, in the order of their indices."""
        return self.tasks.ids(check_split(self.tasks, split))

    def content(self, task_id: str) -> Any:
        """Return what makes a task the task that it is, as values that JSON can hold: the panels' tasks go by it.

        It holds all that decides how an episode of the task goes and looks at the start, but no ids, paths or
        solutions. It must never change; here it is the id.
        """
        return task_id

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ObsT, Info]:
        """Start an episode.

        Args:
            seed: seeds `self.np_random`; the same seed and options give the same episode in any process.
            options: which task; names in `OPTIONS`. Without options the task is drawn from `self.np_random`.

        Raises:
            ValueError: on an unknown option or a task that does not exist.
        """
        super().reset(seed=int(seed) if isinstance(seed, np.integer) else seed)
        options = {} if options is None else options
        for name in options:
            if name not in self.OPTIONS:
                raise ValueError(f"{type(self).__name__}.reset: unknown option {name!r}; {suggest(name, self.OPTIONS)}")
        self.begin(options)
        self._begun = self._running = self._accepted = True
        return self.observe(), self.describe(True)

    def step(self, action: str) -> tuple[ObsT, float, bool, bool, Info]:
        """Play one command, cleaned (`agentgym.outside.text.clean`); `truncated` is what `is_cut` says.

        Raises:
            TypeError: when the action is not a string (any string is fine, the worst it can be is invalid).
            ResetNeeded: before the first reset, and after the end of the episode.
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
        """Mark the episode as over: `step` raises until the next `reset` (called by the vector form)."""
        self._running = False

    def need_episode(self, method: str) -> None:
        """Raise `ResetNeeded` before the first episode, naming the method that needs one."""
        if not self._begun:
            raise ResetNeeded(f"{type(self).__name__}.{method}: no episode yet; call reset() first")

    def render(self) -> Any:
        """Return what `draw` shows; None, with a warning, without a render mode."""
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode: make the environment with one")
            return None
        self.need_episode("render")
        return self.draw()

    def draw(self) -> Any:
        """Return the current state in the render mode: the observation, unless a subclass has more to show."""
        return self.observe()

    def snapshot(self) -> Any:
        """Return the episode as it stands as a small picklable value, for branching and tree search.

        It holds the exact state and that of `np_random`; `agentgym.branching.snapshot` saves the wrappers too.
        """
        self.need_episode("snapshot")
        return self.get_state(), self._running, self._accepted, random_state(self)

    def restore(self, snapshot: Any, seed: int | None = None) -> tuple[ObsT, Info]:
        """Continue from a `snapshot`, and return observation and info of that state.

        Args:
            snapshot: of any episode of an environment built with the same arguments.
            seed: of what is drawn from there on; None to draw what was drawn after the snapshot.
        """
        self.resume(snapshot, seed)
        return self.seen()

    def seen(self) -> tuple[ObsT, Info]:
        """Return observation and info as the last reset or step did."""
        return self.observe(), self.describe(self._accepted)

    def resume(self, snapshot: Any, seed: int | None = None) -> None:
        """Continue from a `snapshot` as `restore` does, and show nothing."""
        state, running, valid, random = snapshot
        self.set_state(state)
        self._begun, self._running, self._accepted = True, running, valid
        if seed is None:
            load_random_state(self, random)
        else:
            self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Seed what is drawn from here on; the state, and what it looks like now, stay as they are.

        A subclass that draws from something else than `np_random` after `begin` adds to this.
        """
        seed_random_state(self, seed)
