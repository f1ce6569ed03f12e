"""SOTOPIA's environment, its rules, and its generated scenarios."""

import pickle
import re
from typing import Any

import numpy as np
import pytest

from agentgym.outside.dialogue import KINDS, LEAVE, NONE, Act, Failure, Turn, write
from agentgym.rollout import collect
from agentgym.sotopia.dialogue import Dialogue, Rating, Verdict
from agentgym.sotopia.env import SotopiaEnv, SotopiaVectorEnv
from agentgym.sotopia.generated import FAMILIES, generate
from agentgym.sotopia.keys import deal_key
from agentgym.sotopia.profiles import ROLES, Relationship, Task, render
from agentgym.sotopia.rules import SocialWorld, draw_schedule
from tests.agentgym.sotopia.support import Down, Fixed, Script, first, make_task, say, second
from tests.cases import cases
from tests.playing import Scripted
from tests.refusals import refuses

HI, WAIT, BYE = write(say("Hi")), write(NONE), write(LEAVE)


def make(*acts: Act | Failure, **kwargs: Any) -> tuple[SotopiaEnv, Script, Fixed]:
    partner, judge = Script(*acts), kwargs.pop("judge", Fixed())
    return SotopiaEnv(partner=partner, judge=judge, **kwargs), partner, judge


def test_a_dialogue_by_hand() -> None:
    env, partner, judge = make(say("Hello"), say("7 < 9 & <b>no</b>"))
    first, info = env.reset(seed=0)
    me, other = env.task.names
    assert first.endswith("Conversation Starts:\n")
    assert (info["speaker"], info["turn"], info["role"], info["ended"]) == (me, 0, 0, "")
    observation, *flags, info = env.step(HI)
    assert (observation, flags) == (f'Turn #0: {me} said: "Hi"\nTurn #1: {other} said: "Hello"\n', [0.0, False, False])
    observation, *_, info = env.step("Hello?")
    assert observation == f'Turn #2: \nTurn #3: {other} said: "7 < 9 & <b>no</b>"\n'
    assert (info["is_action_valid"], info["turn"], judge.calls) == (False, 4, [])
    observation, *flags, info = env.step(HI)
    assert observation == f'Turn #4: {me} said: "Hi"\nTurn #5: {other} left the conversation\n'
    assert flags == [0.8, True, False]
    assert (info["won"], info["goal"], info["partner_goal"], info["ended"]) == (True, 8.0, 3.0, "left")
    assert info["dimensions"] == (9.0, 2.0, 3.0, -1.0, 0.0, 1.0, 8.0)
    assert [len(call) for call in judge.calls] == [1]
    assert partner.calls[1][0].text == partner.calls[0][0].opening + "".join(
        f"{line}\n" for line in (f'Turn #0: {me} said: "Hi"', f'Turn #1: {other} said: "Hello"', "Turn #2: ")
    )


@cases(
    "kwargs, role, reward, won",
    ({}, 0, 0.8, True),
    ({}, 1, 0.3, False),
    ({"reward": "success"}, 0, 1.0, True),
    ({"reward": "success"}, 1, 0.0, False),
    ({"reward": "success", "success_threshold": 8}, 0, 0.0, False),
    ({"reward": "overall"}, 0, (9 + 2 + 3 - 1 + 0 + 1 + 8) / 7, True),
    ({"reward": "overall"}, 1, (9 + 2 + 3 - 1 + 0 + 1 + 3) / 7, False),
)
def test_rewards_of_both_roles(kwargs: dict, role: int, reward: float, won: bool) -> None:
    env, *_ = make(say("Hello"), **kwargs)
    env.reset(seed=0, options={"role": role})
    _, given, terminated, _, info = env.step(BYE)
    assert (given, terminated, info["won"], info["role"]) == (pytest.approx(reward), True, won, role)


def test_the_partner_opens_for_role_1_and_the_limit_is_truncation_with_the_reward_paid() -> None:
    env, partner, _ = make(say("Good day"), role=1)
    first, info = env.reset(seed=0)
    other, me = env.task.names
    assert first.endswith(f'Conversation Starts:\nTurn #0: {other} said: "Good day"\n')
    assert (info["speaker"], info["turn"]) == (me, 1)
    observation, *_ = env.step(BYE)
    assert observation == f"Turn #1: {me} left the conversation\n"
    assert [view.role for call in partner.calls for view in call] == [0]
    for role, turns, reward in ((0, 20, 0.8), (1, 3, 0.3)):
        env, *_ = make(*[say(str(i)) for i in range(10)], role=role, max_turns=turns)
        env.reset(seed=0)
        for _ in range(turns // 2):
            _, *flags, info = env.step(HI)
            ended = info["turn"] == turns
            assert flags == [reward * ended, False, ended]
        assert (info["ended"], info["won"]) == ("turns", role == 0)


def test_silence_and_failures_before_the_agent_end_it() -> None:
    silent = SotopiaEnv(partner="silent", judge=Fixed())
    silent.reset(seed=0)
    assert silent.step(WAIT)[1:4] == (0.0, False, False)
    _, reward, terminated, truncated, info = silent.step("nonsense")
    assert (reward, terminated, truncated, info["ended"], info["turn"]) == (0.8, True, False, "stale", 3)
    env = SotopiaEnv(partner=Down(), judge=Fixed(), role=1)
    _, info = env.reset(seed=0)
    assert (info["ended"], info["unscored"], info["admissible_actions"]) == ("failed", True, ())
    observation, reward, terminated, truncated, info = env.step(HI)
    assert (observation, reward, terminated, truncated) == ("", 0.0, False, True)
    assert not info["is_action_valid"]


def test_both_at_once_and_by_chance() -> None:
    env, partner, _ = make(say("Hello"), order="simultaneous")
    env.reset(seed=0)
    observation, *_ = env.step(HI)
    me, other = env.task.names
    assert observation == f'Turn #0: {me} said: "Hi";{other} said: "Hello"\n'
    assert partner.calls[0][0].turns == ()
    by_chance = SotopiaEnv(partner=Script(*[say(str(i)) for i in range(20)]), judge=Fixed(), order="random")
    turns = set()
    for seed in range(20):
        first, info = by_chance.reset(seed=seed)
        assert first.count("Turn #") == info["turn"]
        over, speakers = False, [1] * info["turn"]
        while not over:
            observation, _, terminated, truncated, info = by_chance.step(HI)
            speakers += [0] + [1] * (observation.count("Turn #") - 1)
            over = terminated or truncated
        assert len(speakers) == info["turn"] == 20
        turns.add(tuple(speakers))
    assert len(turns) == 20


def _verdict(goal: Any) -> Any:
    rating = Rating(1, 1, 1, 0, 0, 1, goal)
    return Verdict((rating, rating))


@cases(
    "kwargs, reason, ended",
    ({"judge": Fixed(failure=Failure("no answer in 30 s", 3))}, "judge: no answer in 30 s (tried 3 times)", "left"),
    ({"judge": Down()}, "judge: Down: ConnectionError: connection refused", "left"),
    ({"partner": Script(Failure("rate limit"))}, "partner: rate limit", "failed"),
    ({"partner": Down()}, "partner: Down: ConnectionError: connection refused", "failed"),
    ({"partner": Script(Act("shout", "x"))}, "partner: Script: kind shout is no act", "failed"),
    *(({"partner": Script(given)}, "is no act", "failed") for given in ("Hello", None, Act("speak", 10**5_000))),
    *(
        ({"judge": Fixed(failure=_verdict(goal))}, "no finite number", "left")
        for goal in (float("nan"), 10**5_000, None)
    ),
    ({"judge": Fixed(failure=_verdict(1_000))}, "its score of goal, 1000, is not in 0 to 10", "left"),
    ({"judge": Fixed(failure=Verdict(((1, 1, 7), (1, 1, 7))))}, "3 scores a side, expected 7", "left"),
    ({"judge": Fixed(failure="10")}, "a str, is no verdict", "left"),
)
def test_a_judge_or_partner_that_fails_is_no_reward_of_0(kwargs: dict, reason: str, ended: str) -> None:
    env = SotopiaEnv(**{"partner": Script(), "judge": Fixed(), **kwargs})
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(HI)
    assert (reward, terminated, truncated) == (0.0, ended == "left", ended == "failed")
    assert (info["unscored"], info["won"], info["ended"]) == (True, False, ended)
    assert reason in info["failure"]


class Moody(Fixed):
    """Answers for every other dialogue only."""

    def score(self, dialogues: Any) -> Any:
        return [each if i % 2 == 0 else Failure("asleep") for i, each in enumerate(super().score(dialogues))]


def test_episodes_without_a_verdict_do_not_reach_the_table() -> None:
    envs = SotopiaVectorEnv(4, partner=Script(), judge=Moody(), autoreset_mode="Disabled")
    with pytest.warns(RuntimeWarning, match="4 of 8 episodes have no score.*judge: asleep"):
        table = collect(envs, Scripted(BYE), tasks=[{"index": 0}, {"index": 1}], group_size=4, seed=0)
    assert table.n_trajectories == 4
    assert table.trajectory_won.all()


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_a_step_of_all_places_is_one_call(mode: str, role: int) -> None:
    partner, judge = Script(say("a"), say("b"), say("c")), Fixed()
    envs = SotopiaVectorEnv(16, partner=partner, judge=judge, role=role, autoreset_mode=mode)
    envs.reset(seed=0)
    assert [len(call) for call in partner.calls] == [16] * role
    partner.calls.clear()
    for _ in range(2):
        envs.step([HI] * 16)
    assert [len(call) for call in partner.calls] == [16, 16]
    partner.calls.clear()
    _, rewards, terminated, *_ = envs.step([BYE] * 15 + [HI])
    assert (terminated.tolist(), rewards.tolist()[:15]) == ([True] * 15 + [role == 1], [0.8 if role == 0 else 0.3] * 15)
    opened = [15 + role] if role == 1 and mode == "SameStep" else []
    assert [len(call) for call in partner.calls] == [1, *opened]
    assert [len(call) for call in judge.calls] == [15 + role]


def test_state_keys_are_equal_exactly_for_equal_transcripts() -> None:
    env = SotopiaEnv(partner=Script(*[say("ok")] * 9), judge=Fixed())
    keys: dict[str, tuple] = {}
    rng = np.random.default_rng(0)
    for _ in range(300):
        _, info = env.reset(options={"split": "test", "index": int(rng.integers(2)), "role": int(rng.integers(2))})
        over = False
        while not over:
            played = info["task_id"], info["role"], info["ended"], env.world.lines(0)
            assert keys.setdefault(info["state_key"], played) == played
            *_, terminated, truncated, info = env.step((HI, WAIT, BYE, write(say("Hi ")))[rng.integers(4)])
            over = terminated or truncated
    assert len(set(keys.values())) == len(keys) > 50


def test_the_deal_key_follows_the_game_and_not_the_words() -> None:
    env = SotopiaEnv(partner=Script(*[say("Well.")] * 9), judge=Fixed(), families="bargain")
    found = []
    for words in ("How about $40?", "I say $40.", "I say $41."):
        _, info = env.reset(options={"split": "test", "index": 0})
        observation, *_, info = env.step(write(say(words)))
        found.append(deal_key(observation, info))
    assert found[0] == found[1] != found[2]
    assert found[0].startswith("bargain-0-0 | 0 | Standing(offers=(40.0, None)")


def test_roles_by_chance_and_splits_follow_the_seed() -> None:
    env, *_ = make(say("Hello"), say("Hello"), role="random")
    roles = [env.reset(seed=seed)[1]["role"] for seed in range(40)]
    assert roles == [env.reset(seed=seed)[1]["role"] for seed in range(40)]
    assert 10 < sum(roles) < 30
    env, *_ = make()
    ids = {split: {env.tasks.by_index(split, i).id for i in range(40)} for split in env.tasks.splits}
    assert [env.num_tasks(split) for split in ids] == [400_000, 4_000, 4_000]
    assert len(set.union(*ids.values())) == 120
    for options, message in (
        ({"role": "random"}, "role must be 0 or 1, got 'random'"),
        ({"task_id": "bargain-0-0", "split": "train"}, "of split 'train'"),
        ({"task_id": "bargain-1-0"}, "world_seed is 0"),
    ):
        refuses(ValueError, message, env.reset, options=options)
    last = env.tasks.by_index("validation", 3_999)
    assert env.tasks.by_id(last.id) is env.tasks.by_id(last.id, "validation")
    assert len({env.tasks.by_index("train", i).game.family for i in range(4)}) == 4  # type: ignore[union-attr]


@cases(
    "kwargs, message",
    ({"order": "roundrobin"}, "did you mean 'round-robin'"),
    ({"role": 2}, "0 or 1 or 'random', got 2"),
    ({"max_turns": 0}, "at least 1"),
    ({"reward": "gaol"}, "did you mean 'goal'"),
    ({"success_threshold": 10}, "below 10"),
    ({"families": "barter"}, "unknown family 'barter'"),
    *(({"world_seed": seed}, "world_seed must be an integer of at least 0") for seed in (True, 1.0, -1, "1", [1])),
    ({"split": "trian"}, "did you mean 'train'"),
    ({"judge": 3}, "must have score"),
)
def test_wrong_arguments_are_explained(kwargs: dict, message: str) -> None:
    SotopiaEnv(world_seed=1)  # its tasks are known, and True and 1.0 are equal to it
    refuses(ValueError, message, SotopiaEnv, **kwargs)


@pytest.mark.parametrize("order", ["round-robin", "simultaneous", "random"])
def test_the_standing_that_is_followed_is_the_one_that_is_read_again(order: str) -> None:
    envs = SotopiaVectorEnv(60, order=order, expert=True, autoreset_mode="Disabled", max_turns=12)
    rng = np.random.default_rng(0)
    _, infos = envs.reset(seed=2)
    for _ in range(12):
        infos = envs.step([act if rng.random() < 0.8 else HI for act in infos["expert_action"]])[-1]
    agreed = 0
    for env, goal, theirs in zip(envs.envs, infos["goal"], infos["partner_goal"], strict=True):
        game, dialogue = env.task.game, env.world.dialogue
        assert game is not None
        outcome = Dialogue(env.task, dialogue.turns).outcome
        assert outcome == dialogue.outcome
        assert outcome.goals == (goal, theirs)
        agreed += outcome.agreed is not None
        # Scripted players get the game's reading; what one side alone hears is the same where terms are public.
        if game.family != "friend":
            assert [side.follow(dialogue.turns) for side in game.sides] == [dialogue.standing] * 2
    assert 20 < agreed < 60


def test_another_seed_changes_who_is_in_turn_later_and_what_a_model_is_sampled_with() -> None:
    env, partner, _ = make(*[say("ok")] * 30, order="random", max_turns=60)
    shown, played = env.reset(seed=4), dict[int | None, list[Any]]()
    saved = env.snapshot()
    assert len(pickle.dumps(saved)) < 2_000
    for seed in (None, 0, 0, None):
        assert env.restore(saved, seed) == shown
        here = pickle.loads(pickle.dumps(env.snapshot()))
        for _ in range(2):
            on = [*(env.step(HI)[0] for _ in range(4)), partner.calls[-1][0].draw]
            assert on == played.setdefault(seed, on)
            env.restore(here)
    assert played[0][:-1] != played[None][:-1]
    assert (played[None][-1], type(played[0][-1])) == (None, int)


SAID = say("Hi")


def play(world: SocialWorld, *acts: tuple[Act, Act]) -> str:
    for each in acts:
        world.play(each)
    return world.ended


def test_orders_take_the_acts_of_who_is_in_turn() -> None:
    world = SocialWorld(make_task())
    assert (world.speakers, world.kinds(0), world.kinds(1)) == ((0,), KINDS, ("none",))
    assert world.play((say("a"), LEAVE)) == Turn(0, (say("a"), NONE))
    assert (world.speakers, world.kinds(0), world.kinds(1)) == ((1,), ("none",), KINDS)
    assert world.play((LEAVE, say("b"))) == Turn(1, (NONE, say("b")))
    assert world.ended == ""
    assert world.lines(0) == 'Turn #0: Ada Lund said: "a"\nTurn #1: Ben Noor said: "b"\n'
    world = SocialWorld(make_task(), "simultaneous")
    assert world.speakers == (0, 1)
    world.play((say("a;b"), Act("action", "waves")))
    world.play((NONE, Act("non-verbal communication", "nods")))
    world.play((NONE, NONE))
    assert world.lines(0) == (
        'Turn #0: Ada Lund said: "a;b";Ben Noor [action] waves\n'
        "Turn #1: Ben Noor [non-verbal communication] nods\n"
        "Turn #2: \n"
    )
    schedule = draw_schedule("random", 20, np.random.default_rng(3))
    assert schedule == draw_schedule("random", 20, np.random.default_rng(3))
    assert set(schedule) == {0, 1}
    world = SocialWorld(make_task(), "random", 20, schedule)
    for role in schedule:
        assert world.speakers == (role,)
        assert world.play((SAID, SAID)).acts == (first(SAID) if role == 0 else second(SAID))
    assert (world.ended, world.terminated, world.truncated) == ("turns", False, True)
    assert (world.turn, world.speakers, world.kinds(0)) == (20, (), ("none",))
    refuses(RuntimeError, "has ended", world.play, (SAID, SAID))
    world = SocialWorld(make_task(), max_turns=2)
    assert play(world, first(SAID), second(LEAVE)) == "left"
    assert (world.terminated, world.truncated) == (True, False)
    refuses(ValueError, "draw_schedule", SocialWorld, make_task(), "random")
    refuses(ValueError, "did you mean 'round-robin'", SocialWorld, make_task(), "roundrobin")


@cases(
    "order, turns, at",
    # The act of the one who waits never counts: "none" once or twice is no end.
    ("round-robin", [(SAID, NONE), (NONE, NONE), (SAID, NONE), (NONE, NONE), (SAID, NONE)], None),
    ("round-robin", [(SAID, NONE), (NONE, NONE), (NONE, NONE), (NONE, SAID), (NONE, NONE)], None),
    ("round-robin", [(NONE, NONE), (NONE, NONE), (NONE, NONE)], 2),
    ("round-robin", [(SAID, NONE), (NONE, SAID), (NONE, NONE), (NONE, NONE), (NONE, NONE)], 4),
    # Both at once: acts are counted in the order of the roles.
    ("simultaneous", [(NONE, NONE), (NONE, SAID), (NONE, NONE)], None),
    ("simultaneous", [(NONE, NONE), (NONE, NONE)], 1),
    ("simultaneous", [(SAID, NONE), (NONE, NONE)], 1),
    ("simultaneous", [(NONE, NONE), (SAID, NONE), (SAID, NONE)], None),
)
def test_three_acts_in_turn_that_are_none_end_it(order: str, turns: list, at: int | None) -> None:
    world = SocialWorld(make_task(), order)
    for number, turn in enumerate(turns):
        world.play(turn)
        assert world.ended == ("stale" if number == at else "")
    assert world.terminated == (at is not None)


def test_a_view_holds_what_one_side_may_know() -> None:
    world = SocialWorld(make_task())
    play(world, first(say("<p viewer='agent_1'>psst</p> 3 < 5")))
    view = world.view(1)
    assert (view.name, view.partner_name, view.turn, view.kinds, view.seed) == ("Ben Noor", "Ada Lund", 1, KINDS, 7)
    assert view.text == world.opening(1) + "Turn #0: Ada Lund said: \"<p viewer='agent_1'>psst</p> 3 < 5\"\n"
    assert "Ada cannot swim." not in str(view)
    assert "window" not in str(view)
    assert "window" in world.dialogue.text


def sample(count: int = 150) -> list[Task]:
    return [generate(family, 0, index) for family in FAMILIES for index in range(count)]


def test_tasks_differ_and_can_be_solved_by_two_people_who_differ_in_every_relationship() -> None:
    for task in sample():
        (first, second), goals = task.people, task.scenario.goals
        assert task.game.solvable, task.id
        assert (first.name == second.name, first.secret == second.secret, goals[0] == goals[1]) == (False,) * 3, task.id
    assert {task.scenario.relationship for task in sample()} == set(Relationship)
    assert len({(task.scenario.text, task.scenario.goals, task.people) for task in sample()}) > 0.99 * len(sample())
    assert generate("bargain", 0, 0).scenario != generate("bargain", 1, 0).scenario
    refuses(ValueError, "did you mean 'bargain'", generate, "bargains", 0, 0)
    refuses(ValueError, "at least 0, got 0 and -1", generate, "bargain", 0, -1)


def test_goals_tell_the_private_numbers() -> None:
    for task in sample(40):
        for role, side in enumerate(task.game.sides):
            goal = render(task.scenario.goals[role], ROLES[role])
            if task.game.family == "bargain":
                facts = [f"${side.target:.0f}:"]
            elif task.game.family == "divide":
                facts = []
                assert tuple(int(value) for value in re.findall(r"worth (\d+)", goal)) == side.values
            elif task.game.family == "schedule":
                facts = [f"{side.calendar.tell(number)} {cost}" for number, cost in enumerate(side.costs)]
            else:
                facts = [each for friend in side.friends for each in (f"{friend.name}: ", *friend.values)]
            assert all(each in goal for each in facts)
