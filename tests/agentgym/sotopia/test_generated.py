"""Generated tasks: what they promise, and that any process makes the same."""

import pickle
import re

from agentgym.sotopia.generated import FAMILIES, generate
from agentgym.sotopia.profiles import ROLES, Relationship, Task, render
from tests.processes import printed
from tests.refusals import refuses


def sample(count: int = 150) -> list[Task]:
    return [generate(family, 0, index) for family in FAMILIES for index in range(count)]


def test_every_task_can_be_solved_by_two_people_who_differ_in_every_relationship() -> None:
    for task in sample():
        assert task.game is not None, task.id
        assert task.game.solvable, task.id
    for task in sample():
        first, second = task.people
        assert first.name != second.name, task.id
        assert first.secret != second.secret, task.id
        assert task.scenario.goals[0] != task.scenario.goals[1], task.id
    assert {task.scenario.relationship for task in sample()} == set(Relationship)


def test_goals_tell_the_private_numbers() -> None:
    for task in sample(40):
        for role in (0, 1):
            goal = render(task.scenario.goals[role], ROLES[role])
            side = task.game.sides[role]  # type: ignore[union-attr]
            if task.game.family == "bargain":
                assert f"${side.target:.0f}:" in goal  # type: ignore[attr-defined]
            elif task.game.family == "divide":
                values = tuple(int(value) for value in re.findall(r"worth (\d+)", goal))
                assert values == side.values  # type: ignore[attr-defined]
            elif task.game.family == "schedule":
                for number, cost in enumerate(side.costs):  # type: ignore[attr-defined]
                    assert f"{side.calendar.tell(number)} {cost}" in goal  # type: ignore[attr-defined]
            else:
                for friend in side.friends:  # type: ignore[attr-defined]
                    assert f"{friend.name}: " in goal
                    assert all(value in goal for value in friend.values)


def test_tasks_differ_and_so_do_seeds() -> None:
    tasks = sample(200)
    assert len({(task.scenario.text, task.scenario.goals, task.people) for task in tasks}) > 0.99 * len(tasks)
    assert generate("bargain", 0, 0).scenario != generate("bargain", 1, 0).scenario
    refuses(ValueError, "did you mean 'bargain'", generate, "bargains", 0, 0)
    refuses(ValueError, "at least 0, got 0 and -1", generate, "bargain", 0, -1)


def test_the_same_in_every_process_and_whatever_else_was_generated() -> None:
    made = "".join(repr(generate(family, 5, index)) for family in reversed(FAMILIES) for index in (7, 3))
    program = (
        "from agentgym.sotopia.generated import FAMILIES, generate\n"
        "print(''.join(repr(generate(f, 5, i)) for f in reversed(FAMILIES) for i in (7, 3)))"
    )
    assert printed(program, "1").strip() == made


def test_tasks_can_be_pickled_after_they_were_played() -> None:
    from agentgym.sotopia.players import RulesPlayer
    from tests.agentgym.sotopia.support import play

    for family in FAMILIES:
        task = generate(family, 0, 1)
        play(task, RulesPlayer(), RulesPlayer())
        copy = pickle.loads(pickle.dumps(task))
        assert copy == task
        assert copy.game == task.game
