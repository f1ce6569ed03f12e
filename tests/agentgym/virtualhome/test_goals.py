from agentgym.virtualhome.goals import Deed, Goal
from agentgym.virtualhome.scene import Scene
from tests.agentgym.virtualhome.small_houses import EDGES, NODES, activity, do
from tests.refusals import refuses

ON_TABLE = ((22, "ON", 10),)


def play(goal: Goal, *commands: str) -> list[tuple[int, float]]:
    """Deeds done and score after each command; all of them succeed."""
    task = activity(goal)
    world, done, seen = task.world(), 0, []
    for command in commands:
        line = do(task, world, command)
        node = task.scene.index[line.things[0][1]] if line.things else -1
        done = task.tests.advance(world.cells, done, line.action, node)
        seen.append((done, round(task.tests.share(task.tests.missing(world.cells, done)), 3)))
    return seen


def test_the_score_counts_what_is_achieved_beyond_the_start() -> None:
    # the fridge is closed at the start, so two of the three conjuncts are to be achieved
    goal = Goal(states=((11, "CLOSED"), (20, "DIRTY")), edges=ON_TABLE)
    assert activity(goal).tests.at_start == 1
    opened, *_, put, closed = play(
        goal, "walk to fridge 1", "open fridge 1", "find milk 1", "grab milk 1", "walk to kitchen table 1",
        "put milk 1 on kitchen table 1", "walk to fridge 1", "close fridge 1",
    )[1:]  # fmt: skip
    assert opened == (0, 0.0)  # less than at the start is not less than nothing
    assert put == (0, 0.0)
    assert closed == (0, 0.5)


def test_goals_by_hand() -> None:
    goal = Goal(exact=((21, frozenset({"CLEAN"})),), without=((21, "ON", 10),))
    assert [score for _, score in play(goal, "walk to mug 2", "wash mug 2", "grab mug 2")] == [0.0, 0.5, 1.0]
    assert activity(Goal(exact=((23, frozenset({"OFF"})),))).tests.missing(Scene(NODES, EDGES).cells, 0) == 1
    lit = Goal(states=((23, "ON"),))
    goal = Goal(deeds=(Deed(("TOUCH", "GRAB"), 23, lit), Deed(("WASH",))))
    steps = ["walk to lamp 1", "wash lamp 1", "touch lamp 1", "plug in lamp 1", "switch on lamp 1", "touch lamp 1"]
    assert [done for done, _ in play(goal, *steps, "touch lamp 1", "wash lamp 1")] == [0, 0, 0, 0, 0, 1, 1, 2]
    goal = Goal(states=((4, "LYING"),), deeds=(Deed(("SLEEP",)),))
    assert play(goal, "walk to bed 1", "lie on bed 1", "sleep") == [(0, 0.0), (0, 0.5), (1, 1.0)]
    for goal in (Goal(states=((99, "ON"),)), Goal(edges=((20, "ON", 99),)), Goal(deeds=(Deed(("GRAB",), 99),))):
        refuses(ValueError, "the id 99", goal.tests, Scene(NODES, EDGES))
