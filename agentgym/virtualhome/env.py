"""The VirtualHome environments."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from agentgym.checks import check_name, check_repairs, keywords_checked, real
from agentgym.core import Info, TextEnv, TextSpace
from agentgym.tasks import check_split, choose
from agentgym.vector import TextVectorEnv
from agentgym.virtualhome.activity import Activity, Episode
from agentgym.virtualhome.commands import TEXTS
from agentgym.virtualhome.hindsight import chores_done, id_with
from agentgym.virtualhome.rules import REPAIRS
from agentgym.virtualhome.spa import episode as spa
from agentgym.virtualhome.tasks import Activities, find_activities


class VirtualHomeEnv(TextEnv[str]):
    """VirtualHome as text: do a chore in a house, `walk to mug 1`, `grab mug 1`, `put mug 1 on desk 1`, ...

    **Task.** A house of rooms, doors, furniture and things with states (open, on, dirty, ...): a graph that actions
    change. The first observation states the task. Generated activities belong to 17 families (`task_type`), from
    carrying things to cooking; published ones have titles such as "Wash clothes".

    **Observation.** `TextSpace`: the room, near things with states and places, and what is held and worn; after a
    failed command, first the reason. Things have numbers (`chair 2`) in the order of their ids and are listed
    alphabetically. It is not the whole state: other rooms and previous discoveries are not shown.

    **Action.** `TextSpace`: a command of `agentgym.virtualhome.commands.TEMPLATES` with names of things. Any other
    text, and a command that the rules refuse, is an invalid action; it changes nothing and counts as a step.

    **Rules.** Exactly those of the simulator that made the published programs (dialect "v1" of
    `agentgym.virtualhome.rules`): a thing can be used only after it was walked to or found, and only while it is near.
    Two repairs are always on, "cycles" and "grab_place"; without them texts depend on the order of Python's sets.

    **Reward** of a step: `reward` (1) when the goal is achieved, else 0.

    **End.** `terminated` when the goal is achieved (`won`). The registered time limit is 40 steps (`truncated`), as in
    the papers. There are dead ends: a seat stays occupied after the character sat on it.

    **Luck.** None, except with `protocol="spa"`: `np_random` resolves ambiguous names (in `collect`, one generator per
    episode).

    **Info.** `admissible_actions`: sorted; each succeeds, and the list is complete except as
    `agentgym.virtualhome.admissible` states; `state_key`: equal exactly for equal states of a task; `task_id`; `won`;
    `score`: share of the goal that is achieved, 0 at the start; `task_type`; `location`: room and posture; `inventory`:
    what is held; with `expert=True`, `expert_action`: the task's program while it is followed, else the first command
    of a plan, "" if none is found. `distance()` and `distance_bounds()` return the number of commands to the goal.

    **Tasks.** `reset(options=...)` takes `task_id`, with or without `split`, or any of `split`, `index` and `task_type`
    (`index` then counts tasks of that type); without options the index is drawn from `np_random`.

    **Data.** None needed: houses and activities are generated. "train", "valid_seen" and "valid_unseen" share no house;
    "valid_unseen" has pairs of family and main class of objects that the others do not have. Published tasks are read
    from `data`, or from the variable VIRTUALHOME_DATA, a folder with the scenes and each task's differences to them:
    518 tasks in scene 1, others in scenes 2 to 7. Their "valid_unseen" has its own titles, "valid_seen" its own
    environments, "all" is everything. An unreadable file is a `DataError` with file, row and field.

    **Id.** `AgentRL/VirtualHome-v0`.

    Args:
        data: folder of the published tasks; None for the variable VIRTUALHOME_DATA, and for generated activities
            without it; "generated" for generated activities in any case.
        split: default split; None for "train".
        task_types: families or titles to play; None for all.
        goal: goals of published tasks: "strict" (the whole difference between the first and the last graph), "loose"
            (without CLOSE and FACING), "object" (also without the character), "eai" (those of EmbodiedAgentInterface),
            "either" ("eai" if it can be played, else "object"). Tasks with an empty goal, or one that is true at the
            start, are left out: `tasks.degenerate()` names them.
        reward: reward for achieving the goal.
        protocol: "numbered" (above), or "spa", that of SPA and STeCa, see `agentgym.virtualhome.spa.episode`:
            simulator "head" with the repairs "find", "cycles" and "grab_place"; action strings or whole replies with
            `Action: `; things by class alone, resolved as in the papers; observations of close and held things; goal
            "strict".
        repairs: names of repairs of the rules (`agentgym.virtualhome.rules.REPAIRS`; with `protocol="spa"`
            `agentgym.virtualhome.spa.episode.REPAIRS`), or "all".
        house_seed: each value gives other generated houses and activities; an error with published tasks, as the next.
        num_activities: generated activities of each split; None for 4,080 and 204. It changes no activity.
        expert: put `expert_action` into info.
        render_mode: "ansi" (the observation text) or None.

    >>> env = VirtualHomeEnv(data="generated", expert=True)
    >>> observation, info = env.reset(seed=0)
    >>> while not info["won"]:
    ...     observation, reward, terminated, truncated, info = env.step(info["expert_action"])
    >>> reward, terminated, info["score"]
    (1.0, True, 1.0)
    """

    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id", "task_type")
    SETTLED = ("task_id", "task_type")

    @keywords_checked
    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        split: str | None = None,
        task_types: Iterable[str] | str | None = None,
        goal: str = "either",
        reward: float = 1.0,
        protocol: str = "numbered",
        repairs: Iterable[str] | str = (),
        house_seed: int = 0,
        num_activities: int | None = None,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        generator = {"house_seed": house_seed, "num_activities": num_activities}
        self.tasks: Activities = find_activities(data, goal, generator)
        self.split = self.tasks.first if split is None else check_split(self.tasks, split)
        if task_types is not None:
            self.tasks = self.tasks.of_types(task_types)
        self.reward = real("reward", reward, expected="a finite number")
        self.protocol = check_name(protocol, ("numbered", "spa"), "protocol")
        self.repairs = check_repairs(repairs, spa.REPAIRS if protocol == "spa" else REPAIRS)
        self.action_space = TextSpace(samples=("stand up", "sleep"))
        self.instructions = TEXTS["spa_instructions" if protocol == "spa" else "instructions"]

    def begin(self, options: dict[str, Any]) -> None:
        self.episode = self._episode(choose(self.tasks, self.split, options, self.np_random))

    def act(self, command: str) -> tuple[float, bool, bool]:
        valid = self.episode.act(command)
        return (self.reward, True, valid) if self.episode.won else (0.0, False, valid)

    def observe(self) -> str:
        return self.episode.observe()

    def describe(self, valid: bool) -> Info:
        activity = self.episode.activity
        constant = {"task_id": activity.task_id, "won": False, "score": 0.0, "task_type": activity.task_type}
        return self._describe({"admissible_actions": (), "is_action_valid": valid, "state_key": "", **constant}, valid)

    def _describe(self, info: Info, valid: bool) -> Info:
        episode = self.episode
        info["admissible_actions"] = episode.admissible()
        info["is_action_valid"] = valid
        info["location"], info["inventory"], info["state_key"] = episode.report()
        info["won"], info["score"] = episode.won, episode.score
        if self.expert:
            info["expert_action"] = episode.expert_action()
        return info

    def advance(self, command: str, info: Info) -> tuple[str, float, bool, Info]:
        episode = self.episode
        valid = episode.act(command)
        observation = episode.observe()
        self._describe(info, valid)
        return (observation, self.reward, True, info) if episode.won else (observation, 0.0, False, info)

    def content(self, task_id: str) -> Any:
        return self.tasks.by_id(task_id, None).content

    def get_state(self) -> Any:
        return self.episode.activity.task_id, self.episode.get_state()

    def set_state(self, state: Any) -> None:
        task_id, episode = state
        if not self._begun or self.episode.activity.task_id != task_id:
            self.episode = self._episode(self.tasks.by_id(task_id, None))
        self.episode.set_state(episode)

    def _episode(self, activity: Activity) -> Episode | spa.SpaActivity:
        if self.protocol == "spa":
            return spa.SpaActivity(activity, self.repairs, self._draw)
        return Episode(activity, self.repairs)

    def _draw(self, ids: Sequence[int]) -> int:
        return ids[int(self.np_random.integers(len(ids)))]

    def fulfilled(self) -> tuple[str, ...]:
        """Return the task_ids of the house with every other chore that is done now and was not done at the start."""
        self.need_episode("fulfilled")
        if self.protocol == "spa":
            raise TypeError(
                f"{type(self).__name__} has no exact hindsight with protocol='spa': a name means any thing of its "
                "class, and the chore would be about one of them; use protocol='numbered'"
            )
        activity = self.episode.activity
        done = chores_done(activity, self.episode.world.cells)
        return tuple([id_with(activity, chore) for chore in done if self.tasks.same_split(activity, chore)])

    def distance(self) -> float:
        """Return the length of the shortest plan found, an upper bound, `inf` without one; see `distance_bounds`."""
        return self.distance_bounds()[1]

    def distance_bounds(self) -> tuple[float, float]:
        """Return a lower and an upper bound of the number of commands to the goal; equal when it is exact."""
        self.need_episode("distance_bounds")
        return self.episode.distance_bounds()


class VirtualHomeVectorEnv(TextVectorEnv):
    """Many `VirtualHomeEnv` in one process; houses and scenes are shared."""

    env_class = VirtualHomeEnv
