"""The SOTOPIA environment: one agent talks with a partner."""

import hashlib
import numbers
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from agentgym.checks import check_name, keywords_checked, whole
from agentgym.core import Info, TextEnv, TextSpace
from agentgym.outside.dialogue import NONE, Act, Failure, Player, View, converse, parse, write
from agentgym.sotopia import dialogue
from agentgym.sotopia.judge import make_judge
from agentgym.sotopia.players import make_player
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.rules import ORDERS, SocialWorld, draw_schedule
from agentgym.sotopia.tasks import choose_split, load_tasks
from agentgym.tasks import choose
from agentgym.vector import TextVectorEnv

_OPEN = dialogue.Result()


class SotopiaEnv(TextEnv[str]):
    """Two people with private goals talk; the agent is one of them, a partner the other, and a judge scores both.

    **Observation.** `TextSpace`: scenario, people and own goal; then the turns since the agent's last observation, one
    line each. The table in `profiles` shows what each side sees of the other.

    **Action.** `TextSpace`: a JSON object with `action_type` ("none", "speak", "non-verbal communication", "action",
    "leave") and `argument`, see `agentgym.outside.dialogue.parse`. Other texts are invalid actions and do nothing.

    **Reward.** At the end the goal score in 0..1; with `reward="success"` 0 or 1, with "overall" the mean of all seven
    dimensions (-30/7 to 37/7).

    **End.** `terminated` when someone leaves, or after three acts "none" in a row ("stale"); `truncated` after
    `max_turns` turns of both together, with the reward so far, or when a partner or judge fails: the episode is then
    `unscored` and its reward 0 has no meaning.

    **Luck.** A partner by rules draws from the task's seed. The order of later turns with `order="random"` and the
    seeds of a model as partner follow from `np_random`, except for the first episode of a group.

    **Info.** `admissible_actions`: examples; `state_key`: hash of all acts; `task_id`; `won`: goal score above
    `success_threshold`; `score`: goal score in 0..1; `goal`, `partner_goal` (0..10) and `dimensions`
    (`dialogue.DIMENSIONS`): 0 before the end; `ended`: "left", "stale", "turns", "failed" or ""; `agreement`: in words;
    `standing`: of the game; `turn`: turns played; `role`; `speaker`: the agent's person; `family`: of the game, or "";
    `source`: of the scenario; `unscored`, `failure`; with `expert=True`, `expert_action`: that of the negotiator.

    **Tasks.** `reset(options=...)` takes `task_id`, with or without `split`, or any of `split` and `index`; and `role`.

    Args:
        data: folder of the official files (`official.FILES`), with the splits "all", "hard" (SOTOPIA-hard) and
            "numeric" (computable goals; all others need models as `judge` and `partner`); None for generated tasks,
            with the splits "train", "validation" and "test".
        partner: see `players.make_player`; default: by rules, of a temperament drawn by the task's seed.
        judge: see `judge.make_judge`; default: computes the goal score from the agreement.
        role: 0, 1 or "random".
        families: names of families of games; None for all.
        split: default split; None for "train", or with data "numeric" or "all".
        order: "round-robin" (role 0 first), "simultaneous" or "random".
        max_turns: see above; more than 100 steps also need `gym.make(..., max_episode_steps=...)`.
        reward: "goal", "success" or "overall".
        success_threshold: the goal score has to be above it.
        world_seed: seed of the generated tasks.
        expert: add `expert_action` to the infos.
        render_mode: "ansi" (the observation) or None.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id", "role")
    no_hindsight = "the partner's replies depend on both goals, so another goal would change the dialogue"

    @keywords_checked
    def __init__(
        self,
        *,
        data: str | Path | None = None,
        partner: str | Player = "rules",
        judge: str | dialogue.Judge = "rules",
        role: int | str = 0,
        families: Iterable[str] | str | None = None,
        split: str | None = None,
        order: str = "round-robin",
        max_turns: int = 20,
        reward: str = "goal",
        success_threshold: float = 6,
        world_seed: int = 0,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        self.tasks = load_tasks(data, families, world_seed)
        self.partner, self.judge = make_player(partner), make_judge(judge)
        self.split = choose_split(self.tasks, split, computed=dialogue.needs_game(self.partner, self.judge))
        self.role = _check_role(role, ("random",))
        self.order = check_name(order, ORDERS, "order")
        self.max_turns = whole("max_turns", max_turns, 1)
        self.reward = check_name(reward, dialogue.REWARDS, "reward")
        self.success_threshold = dialogue.check_threshold(success_threshold)
        self.action_space = TextSpace(samples=dialogue.COMMANDS)
        self.instructions = dialogue.INSTRUCTIONS.format(turns=self.max_turns)
        self.alone = True
        self._submitted: str | None = None
        self._expert = make_player("negotiator") if expert else None

    def begin(self, options: dict[str, Any]) -> None:
        options = dict(options)
        role = options.pop("role", None)
        role = self.role if role is None else _check_role(role, ())
        task = choose(self.tasks, self.split, options, self.np_random)
        me = int(self.np_random.integers(2)) if role == "random" else int(role)
        self._load(task, me, draw_schedule(self.order, self.max_turns, self.np_random))
        if self.alone:
            _converse([self])

    def _load(self, task: Task, me: int, schedule: tuple[int, ...]) -> None:
        dialogue.check_playable(task, self.partner, self.judge)
        self.task, self.me = task, me
        self.world = SocialWorld(task, self.order, self.max_turns, schedule)
        self._key = _digest("", f"{task.id!r} {me} {schedule}")
        self._pending: Act | None = None
        self._mark = -1
        self._result: dialogue.Result | None = None
        self._valid = True
        self._submitted = None

    @property
    def view(self) -> View | None:
        """The partner's knowledge if it has to act, else None."""
        speakers, other = self.world.speakers, 1 - self.me
        waits = other in speakers and (self._pending is not None or self.me not in speakers)
        return self.world.view(other) if waits else None

    @property
    def unjudged(self) -> bool:
        """The dialogue has ended without a verdict so far."""
        return bool(self.world.ended) and self._result is None

    def submit(self, command: str) -> None:
        """Play the agent's act, for `act` with the same object; in simultaneous turns it waits for the partner's."""
        act, self._valid = parse(command)
        self._submitted, self._mark = command, self.world.turn
        speakers = self.world.speakers
        if not speakers:
            self._valid = False
        elif len(speakers) == 2:
            self._pending = act
        else:
            self._play(act, NONE)

    def hear(self, given: Act | Failure) -> None:
        """Play the partner's act, or cut the dialogue off for its failure."""
        mine, self._pending = self._pending or NONE, None
        if isinstance(given, Failure):
            self.world.fail()
            self._result = dialogue.failed("partner", given)
        else:
            self._play(mine, given)

    def _play(self, mine: Act, theirs: Act) -> None:
        turn = self.world.play((mine, theirs) if self.me == 0 else (theirs, mine))
        self._key = _digest(self._key, repr((*turn.acts[0], *turn.acts[1])))  # the repr of plain tuples is faster

    def take_verdict(self, given: dialogue.Verdict | Failure) -> None:
        self._result = dialogue.result_of(given, self.me)

    def act(self, command: str) -> tuple[float, bool, bool]:
        if self._submitted is not command:
            self.submit(command)
            _converse([self])
        self._submitted = None
        reward = 0.0 if self._result is None else self._result.reward(self.reward, self.success_threshold)
        return reward, self.world.terminated, self._valid

    def is_cut(self) -> bool:
        return self.world.truncated

    def observe(self) -> str:
        if self._mark < 0:
            return self.world.opening(self.me) + self.world.lines(0)
        return self.world.lines(self._mark)

    def describe(self, valid: bool) -> Info:
        task, world, result = self.task, self.world, self._result or _OPEN
        game, ended, standing, goal = task.game, world.ended, world.standing, result.goal
        info: Info = {
            "admissible_actions": () if ended else dialogue.COMMANDS, "is_action_valid": valid,
            "state_key": f"{self._key} {ended}" if ended else self._key, "task_id": task.id,
            "won": result.won(self.success_threshold), "score": goal / 10, "goal": goal,
            "partner_goal": result.partner_goal, "dimensions": result.dimensions, "ended": ended,
            "agreement": "" if game is None or standing.agreed is None else game.tell(standing.agreed),
            "standing": standing, "turn": world.turn, "role": self.me, "speaker": world.names[self.me],
            "family": "" if game is None else game.family, "source": task.scenario.source,
            "unscored": bool(result.failure), "failure": result.failure,
        }  # fmt: skip
        if self._expert is not None:
            act = None if ended else self._expert.act([world.view(self.me)])[0]
            info["expert_action"] = write(act) if isinstance(act, Act) else ""
        return info

    def content(self, task_id: str) -> Any:
        return self.tasks.by_id(task_id, None).content

    def get_state(self) -> Any:
        return self.task.id, self.me, self.world.get_state(), self._key, self._mark, self._result

    def set_state(self, state: Any) -> None:
        task_id, me, world, key, mark, result = state
        self._load(self.tasks.by_id(task_id, None), me, world[0])
        self.world.set_state(world)
        self._key, self._mark, self._result = key, mark, result

    def reseed(self, seed: int) -> None:
        """Seed the order of later turns (order "random"), a model partner's answers, and the next tasks."""
        super().reseed(seed)
        self.world.redraw(self.np_random)


class SotopiaVectorEnv(TextVectorEnv):
    """Many `SotopiaEnv` in one process; partner and judge are asked once per step for all of them."""

    env_class = SotopiaEnv
    envs: list[SotopiaEnv]  # type: ignore[assignment]

    def __init__(self, num_envs: int = 1, **kwargs: Any) -> None:
        partner, judge = make_player(kwargs.pop("partner", "rules")), make_judge(kwargs.pop("judge", "rules"))
        super().__init__(num_envs, partner=partner, judge=judge, **kwargs)
        for env in self.envs:
            env.alone = False

    def prepare(self, running: Sequence[int], commands: Sequence[str]) -> None:
        for i in running:
            self.envs[i].submit(commands[i])
        _converse([self.envs[i] for i in running])

    def _restart(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> None:
        super()._restart(indices, *args, **kwargs)
        opened = [i for i in indices if self.envs[i].view is not None]
        _converse([self.envs[i] for i in opened])
        for i in opened:
            self._observations[i], self._infos[i] = self.envs[i].observe(), self.envs[i].describe(True)


def _converse(envs: Sequence[SotopiaEnv]) -> None:
    """Play partners until each agent is in turn or its dialogue is over, then judge the finished ones."""
    if envs:
        converse(envs, envs[0].partner)
    if over := [env for env in envs if env.unjudged]:
        for env, verdict in zip(
            over, dialogue.ask_judge(over[0].judge, [env.world.dialogue for env in over]), strict=True
        ):
            env.take_verdict(verdict)


def _check_role(role: Any, more: tuple[str, ...]) -> int | str:
    if isinstance(role, str) and role in more:
        return role
    if isinstance(role, bool) or not isinstance(role, numbers.Integral) or role not in (0, 1):
        raise ValueError(f"role must be 0 or 1{''.join(f' or {name!r}' for name in more)}, got {role!r}")
    return int(role)


def _digest(before: str, text: str) -> str:
    return hashlib.blake2b((before + text).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
