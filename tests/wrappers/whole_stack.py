"""Every vector wrapper of ours, one in the other, and ways to play such a stack and to write down what it shows."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

import agentgym  # noqa: F401  # registers the ids
import wrappers
from tests.playing import Twin
from wrappers.prompt import text_of


class Keeping(wrappers.TaskGraphs):
    """Graphs that stop growing when they are results to: they are shared by all branches."""

    grows = True

    def add(self, task: Hashable, state: Hashable, next_state: Hashable, success: bool = False) -> None:
        if self.grows:
            super().add(task, state, next_state, success)


class Parrot:
    """Advises what it has seen least often, in the order of the list."""

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    def act(self, observation: str, admissible: Collection[str]) -> str:
        if not admissible:
            return f"nothing in {len(observation)} letters"
        chosen = min(admissible, key=lambda command: self.times.get(command, 0))
        self.times[chosen] = self.times.get(chosen, 0) + 1
        return chosen


def scores(steps: Sequence[wrappers.ScoredStep]) -> list[float | None]:
    return [None if len(step.reply) % 3 == 0 else float(len(str(step.action))) for step in steps]


def state_of(observation: Any, info: dict[str, Any]) -> str:
    return f"{len(text_of(observation))} {info['state_key']}"


def make_stack(
    env_id: str, count: int, mode: AutoresetMode, limit: int, transcript: bool, **kwargs: Any
) -> tuple[Any, Keeping]:
    """Return the stack and the graphs of its shaping."""
    envs: Any = gym.make_vec(
        env_id, count, autoreset_mode=mode, max_episode_steps=limit, expert=not transcript, **kwargs
    )
    graphs = Keeping()
    if transcript:
        envs = wrappers.VectorAdvice(envs, Parrot)
    envs = wrappers.VectorInvalidActionPenalty(wrappers.VectorReplyParser(envs))
    envs = wrappers.VectorGraphShaping(wrappers.CanonicalStates(envs, key=state_of), gamma=0.9, graphs=graphs)
    envs = (
        wrappers.VectorTranscript(envs) if transcript else wrappers.VectorPromptWindow(envs, history=3, keep_first=True)
    )
    return wrappers.GRPO(wrappers.VectorProcessReward(envs, scores, kind="value", gamma=0.9)), graphs


class Player:
    """Plays a stack: advice, admissible commands and nonsense, as its own generator says.

    Args:
        envs: the stack, just reset.
        infos: what it showed.
        over: whose episode has ended.
    """

    def __init__(self, envs: Any, infos: Mapping[str, Any], over: Sequence[bool] | None = None) -> None:
        self.envs, self.infos = envs, infos
        self.over = [False] * envs.num_envs if over is None else list(over)

    def reply(self, i: int, rng: np.random.Generator) -> str:
        if self.over[i] and self.envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            return ""
        commands, kind = self.infos["admissible_actions"][i], rng.random()
        if kind < 0.15 or not commands:
            return ("no tag", "<action>fly to the moon</action>", "<action></action>")[rng.integers(3)]
        command = self.infos["expert_action"][i] if kind < 0.6 else commands[rng.integers(len(commands))]
        return command if command.startswith("<") else f"<action>{command}</action>"

    def play(self, steps: int, seed: int, like: Mapping[int, int] | None = None) -> list[list[Any]]:
        """Return for each step what each sub-environment showed; `like`: who draws the numbers of whom."""
        rngs = [np.random.default_rng([seed, (like or {}).get(i, i)]) for i in range(self.envs.num_envs)]
        shown = []
        for _ in range(steps):
            replies = [self.reply(i, rng) for i, rng in enumerate(rngs)]
            observations, rewards, terminated, truncated, infos = self.envs.step(replies)
            self.infos, self.over = infos, (terminated | truncated).tolist()
            results = zip(rewards, terminated, truncated, strict=True)
            shown.append([[*seen(observations, infos, i), frozen(parts)] for i, parts in enumerate(results)])
        return shown


#: What a wrapper says of one that has not played.
IDLE = {"shaping": 0.0, "unshaped_reward": 0.0, "process_reward": float("nan"), "env_reward": 0.0}


class Singles(Twin):
    """A twin that is just reset and writes down what it does as `seen` does."""

    def __init__(self, envs: list[gym.Env[Any, Any]], mode: AutoresetMode, seed: int) -> None:
        super().__init__(envs, mode)
        for i in range(len(envs)):
            self.reset(i, seed + i)

    def written(self) -> list[list[Any]]:
        """Return for each what `seen` says of a sub-environment, where none has just ended."""
        return [[frozen(observation), frozen(info), False, {}, None] for observation, info in self.rows]

    def played(self, actions: Sequence[Any]) -> list[list[Any]]:
        """Play, and return for each what `seen` says of a sub-environment, and its reward and flags."""
        idle, answers = [any(flags) for flags in self.flags], self.step(actions)
        for i, (observation, info) in enumerate(self.rows):
            if idle[i] and self.mode is AutoresetMode.DISABLED:
                self.rows[i] = observation, {name: IDLE.get(name, value) for name, value in info.items()}
        rows = []
        for row, (*outcome, final) in zip(self.written(), answers, strict=True):
            ended = [True, frozen(final[1]), frozen(final[0])] if final else row[2:]
            rows.append([*row[:2], *ended, *map(frozen, outcome)])
        return rows


def seen(observations: Any, infos: Mapping[str, Any], i: int) -> list[Any]:
    """What sub-environment i shows, as values that can be compared."""
    plain = {name: column for name, column in infos.items() if not isinstance(column, dict)}
    final = infos.get("final_info", {})
    ended = "_final_info" in infos and bool(infos["_final_info"][i])
    own = {name: frozen(column[i]) for name, column in plain.items() if "final" not in name and name[0] != "_"}
    last = {name: frozen(column[i]) for name, column in final.items() if name[0] != "_"} if ended else {}
    return [frozen(observations[i]), own, ended, last, frozen(infos["final_obs"][i]) if ended else None]


def frozen(value: Any) -> Any:
    """Return a value that is equal for what is equal to the bit."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, (float, np.floating)):
        return np.float64(value).tobytes()
    if isinstance(value, Mapping):
        return {key: frozen(part) for key, part in value.items()}
    return [frozen(part) for part in value] if isinstance(value, (list, tuple)) else value
