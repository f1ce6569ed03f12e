"""Play a panel: choose its tasks, play the missing episodes side by side, keep finished ones, write the results.

The folder of a player holds

    config.json    the configuration; another one needs another folder
    episodes.jsonl finished episodes: the same command plays the others
    prompt.json    the first prompt
    answers.sqlite3 an endpoint's answers
    results.json   see `benchmarks.play.results`

An episode's result depends on its task, its sample and the seed, not on the number of places or on other episodes
(but for the last bits of a model's arithmetic, which depend on the size of a batch).
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import gymnasium as gym
import numpy as np

from agentgym.outside.chat.wire import ChatAnswer, ChatFailure
from agentgym.outside.files import fingerprint_of_content
from agentgym.outside.redaction import redact
from agentgym.outside.text import clean_json
from agentgym.panels import BESIDE_TASKS, OpenPanel, Panel, PanelTask, find_panel, open_panel
from agentgym.rollout import Policy, act_each
from agentgym.rollout.groups import infos_of, observations_of
from agentgym.trajectory import Reply
from baselines.environments.registry import settings_of
from baselines.environments.settings import SIDE_BY_SIDE, EnvSettings
from benchmarks.json_files import ResultsError, claimed, parse, read_json, write_json
from benchmarks.machine import describe_machine
from benchmarks.options import known_env
from benchmarks.play.results import RESULTS, PanelResults, PolicyInfo, results_of
from policies.engines.chat_api import sent_messages

if TYPE_CHECKING:
    from benchmarks.play.players import Player

JOURNAL, PROMPT = "episodes.jsonl", "prompt.json"
#: Arguments of environments that say where data are.
_DATA = ("data", "levels", "corpus", "questions", "prices", "cache")
#: Returns an endpoint's answers to the latest observations; an episode with a failure has no score.
Answers = Callable[[], Sequence[ChatAnswer | ChatFailure]]
#: Task and sample of an episode.
ToDo = Sequence[tuple[PanelTask, int]]


@dataclass
class Episode:
    """An episode, played here or replayed from another program's log; `begun`, then filled in step by step.

    `sample` counts repetitions of a task from 0; `score` is the environment's grade, 0..1, `total` the undiscounted sum
    of rewards; `invalid` of the `steps` were not accepted; `cut`: it was truncated. Tokens are read and written over
    all trials, `seconds` its share of the wall time, `generation` the part for the policy's replies. `actions` are
    commands, "" where a reply held none.
    """

    task: str
    sample: int
    kind: str
    won: bool
    score: float
    total: float
    steps: int
    invalid: int
    cut: bool
    prompt_tokens: float
    reply_tokens: float
    seconds: float
    generation: float
    actions: list[str]

    @classmethod
    def begun(cls, task: str, sample: int, kind: str) -> Episode:
        return cls(task, sample, kind, False, 0.0, 0.0, 0, 0, False, 0.0, 0.0, 0.0, 0.0, [])

    @property
    def key(self) -> tuple[str, int]:
        return self.task, self.sample

    def act(self, command: str, accepted: bool, reward: float = 0.0) -> None:
        """Add a step."""
        self.actions.append(command)
        self.steps += 1
        self.invalid += not accepted
        self.total += reward


@dataclass(frozen=True)
class Unscored:
    """An episode without a score: a partner, a judge or the player's endpoint did not answer."""

    task: str
    sample: int
    reason: str


T = TypeVar("T", bound=Any)


class Lines(Generic[T]):
    """A file of JSON lines of dataclasses with a `key`, `entries` by key; a last line that is cut off is dropped.

    `ResultsError` names a line of another form, or a repeated key.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self.entries: dict[Any, T] = {}
        content = path.read_bytes() if path.is_file() else b""
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("r+b") as file:
                file.truncate(whole)
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            entry = parse(kind, line, f"{path}, line {number}", "remove the line, its episode is played again")
            if entry.key in self.entries:
                task, sample = entry.key[:2]
                raise ResultsError(f"{path}, line {number}: sample {sample} of {task!r} is repeated")
            self.entries[entry.key] = entry

    def add(self, entry: T) -> None:
        self.entries[entry.key] = entry
        line = json.dumps(clean_json(dataclasses.asdict(entry)), ensure_ascii=False) + "\n"
        with self.path.open("ab") as file:
            file.write(line.encode())


def play(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    todo: ToDo,
    *,
    seed: int,
    kinds: str = "",
    answers: Answers | None = None,
    seen: Callable[[Any], None] = lambda observation: None,
    pause: Callable[[], None] = lambda: None,
    trial: int = 0,
    observe: Callable[[str, int, Any], Any] = lambda task, sample, observation: observation,
    ended: Callable[[Episode, Any], None] = lambda episode, observation: None,
) -> Iterator[Episode | Unscored]:
    """Yield episodes as they end, in environments with autoreset DISABLED and the policy's reply parser and prompts.

    The policy is shown what `observe` returns from task, sample and observation; `seen` is called with the first of it,
    `pause`, which may raise, before each request, when everything is kept, and `ended` with each scored episode and its
    last observation. Another `trial` of the same episodes has the same beginnings and other draws. `kinds` is the info
    entry of a task's kind; `answers` of an endpoint count tokens and hold failures.
    """
    waiting = deque(todo)
    running: list[Episode | None] = [None] * envs.num_envs
    rngs: dict[tuple[str, int], np.random.Generator] = {}
    observations: Any = None
    infos: Mapping[str, Any] = {}
    first = True
    while waiting or any(running):
        began = time.perf_counter()
        free = [i for i, episode in enumerate(running) if episode is None][: len(waiting)]
        if free:
            seeds, options = [0] * envs.num_envs, list[dict[str, str]]({} for _ in running)
            for i in free:
                task, sample = waiting.popleft()
                numbers = np.random.SeedSequence([seed, int(task.digest[:16], 16), sample])
                running[i] = Episode.begun(task.id, sample, "")
                rngs[task.id, sample] = np.random.default_rng(numbers.spawn(trial + 1)[trial])
                seeds[i], options[i] = int(numbers.generate_state(1)[0]), {"task_id": task.id}
            mask = np.isin(np.arange(envs.num_envs), free)
            observations, infos = envs.reset(seed=seeds, options={"reset_mask": mask, "per_env": options})  # type: ignore[arg-type]
            for i in free if kinds else ():
                running[i].kind = str(infos[kinds][i])  # type: ignore[union-attr]
        playing = np.array([i for i, episode in enumerate(running) if episode is not None])
        there = [episode for episode in running if episode is not None]
        bare = observations_of(observations, playing)
        shown = [observe(*each.key, one) for each, one in zip(there, bare, strict=True)]
        if first:
            seen(shown[0])
            first = False
        pause()
        started = time.perf_counter()
        replies = act_each(policy, shown, infos_of(infos, playing), [rngs[episode.key] for episode in there])
        generation = (time.perf_counter() - started) / len(there)
        said: Sequence[ChatAnswer | ChatFailure | None] = answers() if answers else [None] * len(there)
        actions = [""] * envs.num_envs
        for i, reply in zip(playing.tolist(), replies, strict=True):
            actions[i] = reply.text
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        spent = (time.perf_counter() - began) / len(there)
        after = observations_of(observations, playing)
        for k, (i, episode, reply) in enumerate(zip(playing.tolist(), there, replies, strict=True)):
            read, written = tokens(reply, said[k])
            episode.prompt_tokens += read
            episode.reply_tokens += written
            episode.generation += generation
            episode.seconds += spent
            answer, last = said[k], after[k]
            done: Episode | Unscored | None = None
            if reply.finish == "prompt-too-long":  # nothing was written: the step that followed does not count
                episode.act("", False)
                episode.cut, done, last = True, episode, bare[k]
            elif isinstance(answer, ChatFailure):
                done = Unscored(*episode.key, f"{answer.reason} (tries: {answer.attempts})")
            else:
                episode.act(str(infos["command"][i]), bool(infos["is_action_valid"][i]), float(rewards[i]))
                if terminated[i] or truncated[i]:
                    if "unscored" in infos and infos["unscored"][i]:
                        done = Unscored(*episode.key, str(infos["failure"][i]))
                    else:
                        episode.won, episode.score = bool(infos["won"][i]), float(infos["score"][i])
                        episode.cut, done = not terminated[i], episode
            if done is not None:
                running[i] = None
                if isinstance(done, Episode):
                    ended(done, last)
                yield done


def tokens(reply: Reply, answer: ChatAnswer | ChatFailure | None) -> tuple[int, int]:
    """Return the tokens read and written for a reply: its own, or those that an endpoint counted."""
    if isinstance(answer, ChatAnswer):
        return answer.prompt_tokens, answer.completion_tokens
    return len(reply.prompt_ids), len(reply.token_ids)


@dataclass(frozen=True)
class PanelConfig:
    """The configuration; a folder holds the results of one.

    `added` are arguments of the environment beside the panel's; `weights` the fingerprint of a model's weights, `world`
    those of data beside the tasks (`agentgym.panels.BESIDE_TASKS`); `prompting` is None for the panel's own prompts.
    """

    panel: str
    hash: str
    added: dict[str, Any]
    policy: str
    temperature: float | None
    max_tokens: int | None
    seed: int
    weights: str | None
    world: dict[str, str] | None
    prompting: dict[str, Any] | None


def env_and_split(name: str) -> tuple[str, str]:
    """Cut a name into an environment and a split, "" where none is named.

    >>> env_and_split("sokoban/test"), env_and_split("my_module:Mine/Env-v0"), env_and_split("AgentRL/Sokoban-v0/test")
    (('sokoban', 'test'), ('my_module:Mine/Env-v0', ''), ('AgentRL/Sokoban-v0', 'test'))
    """
    versioned = re.match(r".*?-v\d+(?=/|$)|AgentRL/[^/]*", name)
    env = versioned[0] if versioned else name.partition("/")[0]
    return env, name[len(env) + 1 :]


def choose_panel(
    name: str, given: Mapping[str, Any], count: int | None = None, *, pictures: bool = False
) -> tuple[OpenPanel, EnvSettings]:
    """Return a panel by its name, or a split of an environment as a panel ("sokoban", "sokoban/test").

    `given` are arguments of the environment, `count` keeps the first tasks only.
    """
    if "@" in name:
        row = settings_of(find_panel(name).env)
        found = open_panel(name, given)
        return (found if count is None else found.first(count)), row
    env, split = env_and_split(name)
    row = settings_of(known_env(env, pictures=pictures))
    options = {**(row.pretrained_setup or row.setup).options, **given}
    data = {each: options.pop(each) for each in _DATA if each in options}
    split = split or row.setup.test
    rule = Panel(f"{row.name}/{split}", row.id, split, options, dict.fromkeys(data, ""), count)
    try:
        found = open_panel(rule, data)
    except TypeError as error:
        raise ResultsError(f"{row.id}: {error}") from error
    except AttributeError as error:
        if error.name not in ("tasks", "task_ids"):
            raise
        raise ResultsError(
            f"{row.id} has no list of tasks, which a panel is made of: give it `tasks`, see agentgym.tasks; "
            "without one it can be played by hand, by `play` without --player"
        ) from None
    if not found.tasks:
        raise ResultsError(f"split {split!r} has no task for these arguments: {options | data}")
    return found, row


def play_panel(
    found: OpenPanel,
    player: Player,
    folder: Path,
    *,
    samples: int = 1,
    seed: int = 0,
    places: int = SIDE_BY_SIDE,
    tell: Callable[[str], None] = lambda words: None,
    pause: Callable[[], None] = lambda: None,
) -> PanelResults:
    """Play the missing episodes of a player's folder, at most `places` side by side, and write its results."""
    data = data_of(found)
    config = PanelConfig(
        found.panel.name, found.hash, dict(found.added), player.name, player.sampling.temperature,
        player.sampling.max_tokens, seed, player.settings.get("weights"),
        {name: data[name] for name in BESIDE_TASKS if name in data} or None, player.prompting,
    )  # fmt: skip
    with claimed(folder, config):
        kept, unscored = Lines(folder / JOURNAL, Episode), list[Unscored]()
        todo = [(task, k) for k in range(samples) for task in found.tasks if (task.id, k) not in kept.entries]
        total = len(found.tasks) * samples

        def seen(observation: Any) -> None:
            if not (folder / PROMPT).is_file():
                write_json(sent_messages(observation), folder / PROMPT)

        way: Callable[..., Iterator[Episode | Unscored]] = player.play or play
        episodes = way(
            player.make(min(len(todo), places)), player.policy, todo, seed=seed, kinds=player.config.setup.kinds,
            answers=player.answers, seen=seen, pause=pause,
        ) if todo else ()  # fmt: skip
        for episode in episodes:
            if isinstance(episode, Unscored):
                unscored.append(episode)
            else:
                kept.add(episode)
            tell(f"{player.name}: {len(kept.entries)} of {total} episodes")
        if unscored:
            raise RuntimeError(
                f"{len(unscored)} of {total} episodes could not be scored, the first: {unscored[0].task!r}, "
                f"{unscored[0].reason}"
            )
        who = PolicyInfo(player.name, dict(player.settings), read_json(folder / PROMPT))
        results = results_of(
            found, kept.entries, samples, policy=who, data=data, seed=seed, machine=describe_machine()
        )  # fmt: skip
        write_json(results, folder / RESULTS)
    return results


def data_of(found: OpenPanel) -> dict[str, str]:
    """Return a fingerprint of each of the panel's files or folders of data."""
    paths = {name: found.arguments.get(name) or os.environ.get(found.panel.data[name], "") for name in found.panel.data}
    there = {name: Path(str(path)).expanduser() for name, path in paths.items() if path and name != "cache"}
    return {name: fingerprint_of_content(path) for name, path in there.items() if path.exists()}


def folder_of(out: Path, panel: str, policy: str) -> Path:
    """Return the folder of a player.

    >>> folder_of(Path("runs"), "alfworld/valid_seen@1[:5]", "qwen@http://127.0.0.1/v1").as_posix()
    'runs/alfworld-valid_seen@1-5/qwen@http-127.0.0.1-v1'
    """
    name = redact(policy) if "@http" in policy else Path(policy).name or policy
    return out.joinpath(*(re.sub(r"[^\w.@]+", "-", each).strip("-.") for each in (panel, name)))
