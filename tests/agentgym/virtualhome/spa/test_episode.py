"""Episodes of the papers' protocol, in a house written by hand and in one that a paper printed."""

import pickle
from collections.abc import Callable, Sequence

import pytest

from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import INSIDE, WIDTH, Node, Scene
from agentgym.virtualhome.spa.episode import ERROR, NOTHING, OK, SpaEpisode, introduction, prepared, visible
from agentgym.virtualhome.spa.names import TEMPLATES
from tests.agentgym.virtualhome import official_houses
from tests.agentgym.virtualhome.micro_house import (
    BEDROOM,
    CHAIR,
    CHARACTER,
    CUP,
    EDGES,
    FRIDGE,
    KITCHEN,
    MILK,
    NODES,
    SOFA,
    TABLE,
    house,
)  # fmt: skip

ERROR_TEXT = "Observation: Error Input. Your input must contains 'Action: '"


def never(cells: Sequence[int]) -> bool:
    return False


def episode(
    scene: Scene | None = None,
    reached: Callable[[Sequence[int]], bool] = never,
    objects: dict[str, int] | None = None,
    repairs: tuple[str, ...] = ("find",),
    choose: Callable[[Sequence[int]], int] = min,
) -> SpaEpisode:
    world = World(scene or house(), "head", repairs)
    return SpaEpisode(world, reached, {} if objects is None else objects, choose)


def test_what_is_shown() -> None:
    """All things of a class that is close and visible are shown, by class, wherever they are, and none twice."""
    twins = [Node(50, "cup", "", (), ("DIRTY",)), Node(51, "cup", "", (), ("CLEAN",))]
    scene = Scene([*NODES, *twins], [*EDGES, (50, "INSIDE", BEDROOM), (51, "INSIDE", BEDROOM)])
    played = episode(scene)
    assert played.play("walk to table").observation == "Observation: hair, table is DIRTY. "
    turn = played.play("find cup")
    assert (turn.kind, turn.line) == (OK, "[FIND] <cup> (6)")
    shown = "cup is CLEAN, cup is DIRTY, hair, table is DIRTY, cup ON table. "
    assert turn.observation == f"Observation: {shown}"
    turn = played.play("grab cup")
    things = "cup is CLEAN, cup is DIRTY, hair, table is DIRTY"
    assert turn.observation == f"Observation: {things}. You have cup. "
    assert played.play("walk to kitchen").observation == "Observation: cup is CLEAN, cup is DIRTY. You have cup. "


def test_what_is_not_done() -> None:
    played = episode()
    nothing = "Observation: Nothing happens."
    for action, line in (
        ("fly to moon", "to not in hand. Robot agent should hold to firstly."),
        ("grab unicorn", "unicorn isn't available in the environment."),
        ("walk to unicorn", "unicorn isn't available in the environment."),
        ("grab table", "[GRAB] <table> (5)"),
        ("put cup on table", "cup not in hand. Robot agent should hold cup firstly."),
        ("dance", "[DANCE]"),
        ("release", "[RELEASE]"),
        ("sleep table", "[SLEEP] <table> (5)"),
        (":", "[EMPTY]"),
    ):
        turn = played.play(action)
        assert (turn.kind, turn.line, turn.observation) == (NOTHING, line, nothing), action
    played.reply("Action: walk to cup")
    played.reply("Action: grab cup")
    assert played.play("put cup on cup").line == "cup can't be put or pour into itself."
    assert played.play("put cup on moon").line == "moon isn't available in the environment."


def test_what_the_original_breaks_on() -> None:
    for reply in ("grab cup", "Action: ", "", "Action: walk to a<b<c", "Action: walk to <", "Action: walk [x"):
        turn = episode().reply(reply)
        assert (turn.kind, turn.observation) == (ERROR, ERROR_TEXT), reply
    assert episode(repairs=()).play("find sofa").kind == ERROR
    assert episode().play("take off clothes shirt").kind == ERROR
    nowhere = Scene(NODES, [edge for edge in EDGES if edge[0] != CHARACTER])
    assert episode(nowhere).play("turn to cup").kind == ERROR


def test_a_name_means_the_last_of_what_is_near_then_any() -> None:
    twins = [Node(50, "cup", ""), Node(51, "cup", "")]
    more = [(50, "INSIDE", BEDROOM), (51, "INSIDE", BEDROOM), (SOFA, "CLOSE", 50), (51, "INSIDE", SOFA)]
    scene = Scene([*NODES, *twins], [*EDGES, *more])
    asked: list[list[int]] = []

    def choose(ids: Sequence[int]) -> int:
        asked.append(list(ids))
        return ids[len(ids) // 2]

    played = episode(scene, choose=choose)
    assert played.play("look at cup").line == "[LOOKAT] <cup> (50)"  # of all
    assert asked == [[CUP, 50, 51]]
    known = {"cup": CUP}
    played = episode(scene, objects=known, choose=choose)
    assert played.play("find cup").line == "[FIND] <cup> (6)"  # known: the leak
    assert known == {"cup": CUP}
    played = episode(scene, choose=choose)
    played.play("walk to sofa")
    assert played.play("look at cup").line == "[LOOKAT] <cup> (51)"  # in the thing meant last, rather than close to it
    assert asked[1:] == [[SOFA]]


def test_the_digits_of_a_name_are_replaced_too() -> None:
    assert episode().play("walk to sofa2").line == "sofa2 isn't available in the environment."
    assert episode(objects={"sofa2": 15}).play("look at sofa2").line == "[LOOKAT] <sofa15> (15)"


def test_the_goal_is_looked_at_after_refused_actions_and_at_the_last_step() -> None:
    scene = house()
    slot, bedroom = scene.character * WIDTH + INSIDE, 1 << scene.index[BEDROOM]
    played = episode(scene, lambda cells: cells[slot] == bedroom)
    for _ in range(39):
        assert not played.reply("nonsense").reached
    assert not played.finished
    assert played.play("walk to sofa").reached
    assert (played.won, played.finished, played.steps) == (True, True, 40)
    played = episode(scene, lambda cells: True)
    assert not played.reply("nonsense").reached
    assert played.play("fly").reached
    played = episode(scene)
    for _ in range(40):
        played.play("fly")
    assert (played.won, played.finished) == (False, True)


def test_the_first_turn() -> None:
    assert introduction("Drink", "Take a cup.") == "The task is Drink(Take a cup.)."


def test_what_is_visible() -> None:
    """Things in what is no room are seen where that is open; things inside each other do not end in a loop."""
    scene = house((CHAIR, "INSIDE", TABLE), (TABLE, "INSIDE", CHAIR))
    world = World(scene, "head")

    def seen() -> set[int]:
        nodes = visible(world, (1 << scene.size) - 1)
        assert nodes is not None
        return {scene.ids[node] for node in range(scene.size) if nodes >> node & 1}

    hidden = {13, MILK, SOFA, 10, 12} | {CHAIR, TABLE}
    assert seen() == {node.id for node in NODES} - hidden | {13}
    for line in ("[WALK] <refrigerator> (7)", "[OPEN] <fridge> (7)"):
        assert world.step(line).ok
    assert MILK in seen()
    assert FRIDGE in seen()
    assert KITCHEN in seen()


def test_snapshots_hold_what_names_stand_for() -> None:
    one, other = episode(), episode()
    one.play("walk to table")
    one.play("grab cup")
    state = pickle.loads(pickle.dumps(one.get_state()))
    other.play("walk to sofa")
    other.set_state(state)
    assert other.play("put cup on table") == one.play("put cup on table")
    assert other.get_state() == one.get_state()


@pytest.mark.parametrize("repairs", [("find",), ("find", "grab_place")])
def test_the_episode_that_hisr_prints(repairs: tuple[str, ...]) -> None:
    """Wash clothes (arXiv 2603.18683): what is said there, with things and states in alphabetical order."""
    removed = official_houses.read("traces/wrapper_removed.json.xz")["475_1"]
    scene = prepared(official_houses.scene_of("475_1"), removed=map(tuple, removed))
    played = episode(scene, repairs=repairs)
    basket = "basket_for_clothes is CLEAN and CLOSED"
    on, held = "basket_for_clothes ON washing_machine. ", "You have basket_for_clothes. "
    said = [
        f"{basket}. ",
        f"{basket}, character. {held}",
        f"{basket}. {held}",
        f"{basket}, washing_machine is CLEAN and CLOSED and OFF and PLUGGED_IN. {held}",
        f"{basket}, washing_machine is CLEAN and OFF and OPEN and PLUGGED_IN. {held}",
        f"{basket}, washing_machine is CLEAN and OFF and OPEN and PLUGGED_IN, {on}",
        f"{basket}, washing_machine is CLEAN and CLOSED and OFF and PLUGGED_IN, {on}",
        f"{basket}, washing_machine is CLEAN and CLOSED and ON and PLUGGED_IN, {on}",
    ]
    lines = official_houses.lines_of("475_1")
    for line, observation in zip(lines, said, strict=True):
        action, *things = line.replace("[", "").replace("]", "").split(" <")
        words = TEMPLATES[action].format(*[thing.partition(">")[0].replace("_", " ") for thing in things])
        turn = played.reply(f"Thought: next.\nAction: {words.capitalize()}")
        assert (turn.line, turn.observation) == (line, f"Observation: {observation}")
    assert episode(scene, repairs=()).play("find basket for clothes").observation == ERROR_TEXT
