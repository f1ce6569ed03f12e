import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.virtualhome.activity import Activity, Episode
from agentgym.virtualhome.admissible import OFFERED
from agentgym.virtualhome.commands import TEMPLATES
from agentgym.virtualhome.generated.houses import house
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.keys import known_nodes
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import CLOSE, Node, Scene
from tests.agentgym.virtualhome.small_houses import EDGES, NODES, activity, do


def tried(task: Activity, world: World) -> set[str]:
    """Every offered command that succeeds, found by trying them all."""
    scene, words, found = task.scene, task.lexicon.words, set()
    known = known_nodes(world)
    nodes = [node for node in range(scene.size) if node != scene.character]
    held = [node for node in nodes if world.holds(node)]
    for action in OFFERED:
        count = TEMPLATES[action].count("{}")
        if count < 2:
            choices = [(node,) for node in nodes] if count else [()]
        else:
            choices = [(thing, node) for thing in held for node in nodes if node != thing]
        for chosen in choices:
            if action == "GRAB" and chosen[0] in held:
                continue
            if action == "FIND":
                direct = world.related(scene.character, CLOSE) >> chosen[0] & 1
                if not world.near(chosen[0]) or (direct and known >> chosen[0] & 1):
                    continue
            line = words.line(words.say(action, *chosen))
            assert line is not None
            mark = world.mark()
            if world.act(line).ok:
                found.add(words.say(action, *chosen))
            world.undo(mark)
    return found


def check(task: Activity, world: World) -> tuple[str, ...]:
    offered = task.lexicon.offers.admissible(world, known_nodes(world))
    assert list(offered) == sorted(offered)
    assert set(offered) == tried(task, world)
    assert len(set(offered)) == len(offered)
    return offered


def play(task: Activity, seed: int, steps: int, every: int) -> None:
    world, rng = task.world(), random.Random(seed)
    for step in range(steps):
        offered = task.lexicon.offers.admissible(world, known_nodes(world))
        if step % every == 0:
            assert check(task, world) == offered
        # most commands lead elsewhere; what is done here is what is to be seen
        local = [command for command in offered if not command.startswith(("walk", "turn", "find", "wash", "touch"))]
        do(task, world, rng.choice(local if local and rng.random() < 0.7 else offered))


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_what_is_offered_is_what_succeeds_in_a_small_house(seed: int) -> None:
    play(activity(Goal()), seed, steps=60, every=2)


@pytest.mark.parametrize("number", range(3))
def test_what_is_offered_is_what_succeeds_in_generated_houses(number: int) -> None:
    task = Activity("x", "x", "x", "x", house("train", number).lexicon, Goal(), ())
    play(task, number, steps=80, every=8)


def test_a_closed_door_can_be_walked_to_and_what_is_behind_it_cannot() -> None:
    nodes = [Node(3, "door", "Doors", ("CAN_OPEN",), ("CLOSED",)) if node.id == 3 else node for node in NODES]
    task = activity(Goal(), scene=Scene(nodes, EDGES))
    world = task.world()
    offered = check(task, world)
    assert "walk to door 1" in offered
    assert "walk to mug 1" in offered
    assert "walk to bed 1" not in offered
    for command in ("walk to door 1", "open door 1"):
        do(task, world, command)
    assert "walk to bed 1" in check(task, world)


def test_a_door_in_no_room_is_not_walked_to() -> None:
    """It is between the kitchen and the bedroom, and nobody said in which of them it stands."""
    task = activity(Goal(), scene=Scene(NODES, [edge for edge in EDGES if edge != (3, "INSIDE", 1)]))
    episode = Episode(task)
    assert "walk to door 1" not in episode.admissible()
    assert not episode.act("walk to door 1")
    assert "walk to door 1" in Episode(activity(Goal())).admissible()
