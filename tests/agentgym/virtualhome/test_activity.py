"""Episodes: what they show, offer, score and remember, against twins that try everything; commands; events; plans;
and the scripted player."""

import copy
import pickle
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rollout import collect
from agentgym.virtualhome.activity import Activity, Episode, Lexicon
from agentgym.virtualhome.admissible import OFFERED
from agentgym.virtualhome.commands import PARAMETERS, PLACE, TEMPLATES, Line, LineError, Words, parse_line
from agentgym.virtualhome.env import VirtualHomeEnv
from agentgym.virtualhome.expert import least, plan
from agentgym.virtualhome.generated.activities import GeneratedActivities
from agentgym.virtualhome.generated.houses import house
from agentgym.virtualhome.goals import Deed, Goal
from agentgym.virtualhome.keys import known_nodes, something_done
from agentgym.virtualhome.player import VirtualHomePlayer, read_task
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import CLOSE, Node, Scene
from policies.scripted import ExpertPolicy
from tests.agentgym.virtualhome.houses import EDGES, NODES, activity, do, replay
from tests.cases import cases
from tests.refusals import refuses
from wrappers import VectorReplyParser
from wrappers.credit.segments import by_event


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
    assert (list(offered), set(offered)) == (sorted(offered), tried(task, world))
    assert len(set(offered)) == len(offered)
    return offered


def test_doors_that_are_closed_or_in_no_room() -> None:
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
    # It is between the kitchen and the bedroom, and nobody said in which of them it stands.
    episode = Episode(activity(Goal(), scene=Scene(NODES, [edge for edge in EDGES if edge != (3, "INSIDE", 1)])))
    assert "walk to door 1" not in episode.admissible()
    assert not episode.act("walk to door 1")
    assert "walk to door 1" in Episode(activity(Goal())).admissible()


def shown(episode: Episode) -> tuple[Any, ...]:
    return episode.observe(), episode.admissible(), episode.report(), episode.won, episode.score


def wander(activity: Activity, rng: Random, steps: int, every: int) -> None:
    """Two episodes take turns in one scene, are saved, branch, go back and begin again."""
    episodes = [Episode(activity), Episode(activity)]
    saved: list[tuple[Any, tuple[Any, ...]]] = []
    for step in range(steps):
        episode = rng.choice(episodes)
        chance = rng.random()
        if chance < 0.15:
            saved.append((pickle.loads(pickle.dumps(episode.get_state())), shown(episode)))
        elif chance < 0.3 and saved:
            state, texts = rng.choice(saved)
            episode.set_state(state)
            assert shown(episode) == texts
        elif chance < 0.35:
            episodes[rng.randrange(2)] = Episode(activity)
        elif chance < 0.45:
            mark, before = episode.world.mark(), shown(episode)
            episode.distance_bounds()  # plans by acting in the world, and undoes it
            assert (episode.world.mark(), shown(episode)) == (mark, before)
        else:
            offered = episode.admissible()
            local = [command for command in offered if not command.startswith(("walk", "turn", "find", "wash"))]
            assert episode.act(rng.choice(local if local and rng.random() < 0.6 else offered))
        if step % every == 0:
            check(activity, episode.world)
            fresh = Episode(Activity("x", "x", "x", "x", Lexicon(activity.scene), activity.goal, ()))
            fresh.set_state(episode.get_state())
            assert shown(fresh) == shown(episode)


@given(st.integers(0, 10**9))
def test_episodes_are_what_plain_twins_say_in_a_small_house(seed: int) -> None:
    wander(activity(Goal(states=((20, "DIRTY"),))), Random(seed), steps=60, every=4)


def test_episodes_are_what_plain_twins_say_in_generated_houses() -> None:
    for number in range(3):
        task = Activity("x", "x", "x", "x", house("train", number).lexicon, Goal(), ())
        wander(task, Random(number), steps=80, every=8)


def seen(*commands: str) -> str:
    """What is shown after some commands, each of which succeeds."""
    episode = Episode(activity(Goal(states=((20, "DIRTY"),))))
    for command in commands:
        assert episode.act(command), command
    return episode.observe()


def test_what_is_shown_by_hand() -> None:
    assert seen() == (
        "Your task is to: Small: do it\n\nYou are in kitchen 1.\nNear you: nothing.\nYou hold nothing."
    )  # fmt: skip
    # the table is a surface: what is on it is near as well
    assert seen("walk to kitchen table 1") == (
        "You are in kitchen 1.\n"
        "Near you: kitchen table 1; mug 1 on kitchen table 1; mug 2 (dirty) on kitchen table 1.\n"
        "You hold nothing."
    )
    assert "Near you: fridge 1 (open) with milk 1 in it." in seen("walk to fridge 1", "open fridge 1")
    worn = seen("walk to jacket 1", "grab jacket 1", "put on jacket 1", "find lamp 1", "grab lamp 1")
    assert worn.endswith("You hold lamp 1 (off, unplugged). You wear jacket 1.")
    assert seen("walk to bed 1", "lie on bed 1").startswith("You are in bedroom 1, lying on bed 1.\n")


def test_why_a_command_failed() -> None:
    episode = Episode(activity(Goal(states=((20, "DIRTY"),))))
    for command, words in (
        ("grab mug 1", "mug 1 cannot be found"),
        ("fly", "that is no command for a thing of this house"),
        ("open fridge 1", "fridge 1 cannot be found"),
    ):
        assert not episode.act(command)
        assert episode.observe().startswith(f"Nothing happens: {words}.\nYou are in kitchen 1.")
    assert episode.act("walk to milk 1")
    assert not episode.act("grab milk 1")
    assert episode.observe().startswith("Nothing happens: milk 1 is inside other closed thing.\n")
    assert episode.act("walk to bed 1")
    assert not episode.act("grab milk 1")
    assert episode.observe().startswith("Nothing happens: you are not close to milk 1.\n")


def test_the_score_counts_what_is_achieved_beyond_the_start() -> None:
    # the fridge is closed at the start, so two of the three conjuncts are to be achieved
    goal = Goal(states=((11, "CLOSED"), (20, "DIRTY")), edges=((22, "ON", 10),))
    assert activity(goal).tests.at_start == 1
    scores = replay(
        activity(goal),
        ("walk to fridge 1", "open fridge 1", "find milk 1", "grab milk 1", "walk to kitchen table 1",
         "put milk 1 on kitchen table 1", "walk to fridge 1", "close fridge 1"),
    )  # fmt: skip
    # less than at the start is not less than nothing
    assert scores == [0.0] * 7 + [0.5]


def test_goals_by_hand() -> None:
    goal = Goal(exact=((21, frozenset({"CLEAN"})),), without=((21, "ON", 10),))
    assert replay(activity(goal), ("walk to mug 2", "wash mug 2", "grab mug 2")) == [0.0, 0.5, 1.0]
    assert activity(Goal(exact=((23, frozenset({"OFF"})),))).tests.missing(Scene(NODES, EDGES).cells, 0) == 1
    goal = Goal(deeds=(Deed(("TOUCH", "GRAB"), 23, Goal(states=((23, "ON"),))), Deed(("WASH",))))
    steps = ("walk to lamp 1", "wash lamp 1", "touch lamp 1", "plug in lamp 1", "switch on lamp 1", "touch lamp 1")
    assert replay(activity(goal), (*steps, "touch lamp 1", "wash lamp 1")) == [0, 0, 0, 0, 0, 0.5, 0.5, 1]
    goal = Goal(states=((4, "LYING"),), deeds=(Deed(("SLEEP",)),))
    assert replay(activity(goal), ("walk to bed 1", "lie on bed 1", "sleep")) == [0.0, 0.5, 1.0]
    for goal in (Goal(states=((99, "ON"),)), Goal(edges=((20, "ON", 99),)), Goal(deeds=(Deed(("GRAB",), 99),))):
        refuses(ValueError, "the id 99", goal.tests, Scene(NODES, EDGES))


def test_every_action_has_a_command_and_numbers_follow_the_ids() -> None:
    assert set(TEMPLATES) == set(PARAMETERS) - {"LOOKAT_SHORT", "LOOKAT_LONG"}
    assert (str(WORDS.line("grab mug 1")), str(WORDS.line("grab mug 2"))) == ("[GRAB] <mug> (20)", "[GRAB] <mug> (21)")
    assert str(WORDS.line("put mug 2 on kitchen table 1")) == "[PUTBACK] <mug> (21) <kitchen_table> (10)"


@cases(
    "text, line",
    ("[WALK] <dining_room> (201)", Line("WALK", (("dining_room", 201),))),
    ("  [putin] <Food Food> ( 7 )<freezer>(8) [0] ", Line("PUTIN", (("food_food", 7), ("freezer", 8)))),
    ("[LOOKAT_MEDIUM] <tv> (1)", Line("LOOKAT", (("tv", 1),))),
    ("[SLEEP]", Line("SLEEP")),
    ("[WALK] <a> b> (1_0)", Line("WALK", (("a>_b", 10),))),
    ("[WALK] <a>\n(3)", Line("WALK", (("a", 3),))),
)
def test_what_lines_say(text: str, line: Line) -> None:
    assert (parse_line(text), parse_line(str(line))) == (line, line)


@cases(
    "text, said",
    ("walk to sink 4", "ScriptParseException: Cannot parse action"),
    ("", "ScriptParseException: Cannot parse action"),
    ("[FLY] <cup> (1)", 'ScriptParseException: Unknown action "FLY"'),
    ("[walk]", 'ScriptParseException: Wrong number of parameters for "WALK". Got 0, expected 1'),
    ("[STANDUP] <a> (1)", 'ScriptParseException: Wrong number of parameters for "STANDUP". Got 1, expected 0'),
    ("[PUTIN] <a> (1)", 'ScriptParseException: Wrong number of parameters for "PUTIN". Got 1, expected 2'),
    ("[WALK] <a\nb> (1)", 'ScriptParseException: Wrong number of parameters for "WALK". Got 0, expected 1'),
    ("[WALK] <cup> (1.6)", "ValueError"),
    ("[SLEEP] <cup> (one)", "ValueError"),
    (f"[WALK] <cup> ({'9' * 5000})", "ValueError"),
)
def test_what_lines_do_not_say(text: str, said: str) -> None:
    with pytest.raises(LineError) as error:
        parse_line(text)
    assert str(error.value) == said


@given(st.text("<>() 1a\n", max_size=30))
def test_things_are_found_as_the_pattern_finds_them(text: str) -> None:
    found = re.findall(r"<(.+?)>\s*\((.+?)\)", text)
    try:
        things = parse_line(f"[PUTIN]{text}").things
    except LineError as error:
        assert str(error) == "ValueError" or len(found) != 2  # noqa: PT017  # an error is one of two answers
    else:
        assert things == tuple((name.lower().replace(" ", "_"), int(number)) for name, number in found)


@pytest.mark.parametrize("part", ["<", "<a>(", "<a> ", "<a>(\n", "<a\n", ">(", "<a>\n\n\n", "<a> (1)"])
def test_long_lines_are_read_at_once(part: str) -> None:
    """A quadratic reader needs minutes for these."""
    with pytest.raises(LineError):
        parse_line("[WALK]" + part * (1_000_000 // len(part)))


WORDS = Words(Scene(NODES, EDGES))


@pytest.mark.parametrize("action", TEMPLATES)
def test_a_command_says_what_it_was_made_of(action: str) -> None:
    scene = WORDS.scene
    nodes = [node for node in range(scene.size) if node != scene.character]
    for first in nodes:
        for second in nodes if PARAMETERS[action] > 1 else nodes[:1]:
            chosen = (first, second)[: PARAMETERS[action]]
            command = WORDS.say(action, *chosen)
            line = WORDS.line(f" {command}\n")
            assert line.action == action
            assert line.things == tuple((scene.names[node], scene.ids[node]) for node in chosen)
            assert WORDS.said(line) == command
            if len(chosen) == 1:
                assert WORDS.phrases[first].each[PLACE[action]] == command


@pytest.mark.parametrize(
    "text",
    ["", "grab", "grab ", "grab mug", "grab mug 3", "GRAB mug 1", "grab  mug 1", "grab you", "walk to you", "sleep now",
     "put mug 1 on", "put on", "put mug 1 on mug 1 on mug 1", "fly to mug 1", "[GRAB] <mug> (20)", "put  on mug 1"],
)  # fmt: skip
def test_what_is_no_command(text: str) -> None:
    assert WORDS.line(text) is None


@given(st.text(max_size=60) | st.sampled_from(sorted(TEMPLATES.values())).map(lambda text: text.replace("{}", "mug 1")))
def test_any_text_is_read(text: str) -> None:
    line = WORDS.line(text)
    assert line is None or WORDS.said(line) == text.strip()


def test_segments_end_where_something_is_done() -> None:
    given: Any = {"data": "generated", "task_types": ["fetch", "watch"], "expert": True}
    envs = gym.make_vec("AgentRL/VirtualHome-v0", 6, autoreset_mode="Disabled", **given)
    tasks = [{"split": "train", "index": index} for index in range(6)]
    table = collect(VectorReplyParser(envs), ExpertPolicy(), tasks=tasks, seed=0)
    segments = by_event(table, something_done)
    ends = {
        "grab": True, "put": True, "open": True, "close": True, "switch": True, "plug": True, "sit": True,
        "walk": False, "find": False, "turn": False,
    }  # fmt: skip
    seen = set()
    for i in range(table.n_trajectories):
        rows = table.chain(i)
        for row, following in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True):
            verb = str(table.actions[table.action[row]]).split()[0]
            assert segments[following] - segments[row] == ends[verb], verb
            seen.add(verb)
        # watching changes nothing in the house, but it is what was to be done
        assert str(table.actions[table.action[rows[-1]]]).startswith(("watch ", "put ", "close "))
    assert {"walk", "find", "grab", "switch", "sit", "open", "close"} <= seen
    assert table.won[table.last].all()


def test_a_walk_counts_where_it_is_what_was_to_be_done() -> None:
    standing = "hall 1; nothing; 00ff; 3; ; 0"
    walked = "kitchen 1; nothing; 01aa; 7; ; 0"
    assert not something_done(standing, "walk to sink 1", walked)
    assert something_done(standing, "walk to sink 1", walked.removesuffix("0") + "1 [success]")
    assert not something_done(standing, "walk to sink 1", walked + " [failure]")
    assert not something_done(standing, "sleep", standing)
    assert not something_done(standing, "sleep", standing + " [failure]")
    assert something_done(standing, "sleep", standing.removesuffix("0") + "1 [success]")
    assert something_done(standing, "grab mug 1", standing.replace("nothing", "mug 1"))


ALL = GeneratedActivities()
#: Goals in the small house, and the fewest commands that achieve them, worked out by hand.
GOALS = {
    # walk, grab, walk, put
    "carry": (Goal(edges=((24, "ON", 10),)), 4),
    # walk to the fridge, open, find, grab, walk, put
    "fetch": (Goal(edges=((22, "ON", 12),)), 6),
    # both hands: walk, grab, find, grab, walk, put, put
    "two": (Goal(edges=((20, "ON", 12), (21, "ON", 12))), 7),
    # walk, plug in, switch on
    "light": (Goal(states=((23, "ON"),)), 3),
    # walk, grab, put on
    "dress": (Goal(edges=((24, "ON", 4),)), 3),
    # the mug in hand before the milk: walk, grab, walk, open, find, grab, pour, drink
    "drink": (Goal(edges=((22, "INSIDE", 20),), deeds=(Deed(("DRINK",), 20, Goal(edges=((22, "INSIDE", 20),))),)), 8),
    # walk, lie down, sleep
    "sleep": (Goal(states=((4, "LYING"),), edges=((4, "ON", 12),), deeds=(Deed(("SLEEP",)),)), 3),
    # walk, wash
    "wash": (Goal(states=((21, "CLEAN"),)), 2),
    # something in hand, which may be the jacket: walk, grab, find the lamp, wipe it
    "wipe": (Goal(deeds=(Deed(("WIPE",), 23),)), 4),
    # walk, grab, then the box is closed again before going on: walk, open, find, grab, close, walk, put
    "close": (
        Goal(edges=((22, "ON", 12),), deeds=(Deed(("CLOSE",), 11, Goal(without=((22, "INSIDE", 11),))),)), 7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOALS)
def test_plans_are_as_short_as_by_hand(name: str) -> None:
    goal, length = GOALS[name]
    task = activity(goal)
    commands = plan(task, task.world())
    assert len(commands) == length
    scores = replay(task, commands)
    assert scores[-1] == 1.0
    assert max(scores[:-1], default=0) < 1.0


#: A basket that is shut, with the mug in it, and can be carried; a shelf that faces the bed; a jacket that is worn.
_BASKET = (
    *NODES,
    Node(30, "basket", "Things", ("GRABBABLE", "CAN_OPEN", "CONTAINERS"), ("CLOSED",)),
    Node(31, "shelf", "Furniture", ("SURFACES", "LOOKABLE")),
)
_BASKET_EDGES = (
    *[edge for edge in EDGES if edge[:2] != (20, "ON") and edge[:2] != (24, "ON")],
    (20, "INSIDE", 30), (30, "ON", 10), (30, "INSIDE", 1), (31, "INSIDE", 2), (12, "FACING", 31), (24, "ON", 4),
)  # fmt: skip


def test_a_shut_box_that_can_be_carried_need_not_be_opened() -> None:
    # both in hand: walk to the basket, grab it (the mug is no longer in it then), find the mug, grab it
    task = activity(Goal(edges=((4, "HOLDS_RH", 30), (4, "HOLDS_LH", 20))), scene=Scene(_BASKET, _BASKET_EDGES))
    commands = ("walk to basket 1", "grab basket 1", "find mug 1", "grab mug 1")
    assert replay(task, commands)[-1] == 1.0
    assert least(task, task.world(), 0, 0) == 4


def test_no_play_is_shorter_than_the_bound() -> None:
    """Goals made of what some random commands brought about are not further away than these commands."""
    rng, far = Random(0), 0
    for _ in range(1500):
        task = activity(Goal(), scene=Scene(_BASKET, _BASKET_EDGES) if rng.random() < 0.6 else None)
        world, played = task.world(), []
        waits, counts = rng.randrange(20), 1 + rng.randrange(9)
        before, known = world.get_state(), 0
        for number in range(waits + counts):
            if number == waits:
                before, known, edges, states = world.get_state(), known_nodes(world), set(world.edges()), _states(world)
            offered = task.lexicon.offers.admissible(world, known_nodes(world))
            here = [command for command in offered if not command.startswith(("walk", "turn"))] or offered
            line = do(task, world, rng.choice(offered if rng.random() < 0.4 else here))
            if number >= waits:
                played.append(Deed((line.action,), line.things[0][1] if line.things and rng.random() < 0.7 else None))
        share = rng.random()
        now = set(world.edges())
        goal = Goal(
            states=tuple(each for each in sorted(_states(world) - states) if rng.random() < share),
            edges=tuple(edge for edge in sorted(now - edges) if rng.random() < share),
            without=tuple(edge for edge in sorted(edges - now) if rng.random() < share / 2),
            deeds=tuple(deed for deed in played if rng.random() < share / 2),
        )
        aim = activity(goal, scene=task.scene)
        world.set_state(before)
        bound = least(aim, world, known, 0)
        assert bound <= counts, (goal, played)
        far += bound >= 3
    assert far > 200


def _states(world: World) -> set[tuple[int, str]]:
    return {(node, state) for node, _, states in world.nodes() for state in states}


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_from_wherever_one_has_got_to_a_plan_leads_to_the_goal(split: str) -> None:
    rng, stuck = Random(split), 0
    for index in range(48):
        episode = Episode(ALL.by_index(split, index))
        for _ in range(rng.randrange(12)):
            if not episode.won:
                assert episode.act(rng.choice(episode.admissible()))
        for _ in range(40):
            least_left, most_left = episode.distance_bounds()
            command = episode.expert_action()
            if not command:
                break
            assert least_left <= most_left
            assert episode.act(command), command
            # a command takes no more than one off what is needed
            assert episode.distance_bounds()[0] >= least_left - 1
        stuck += not episode.won
    assert stuck <= 3  # a seat that somebody sat on is full


def test_doors_are_opened_and_what_cannot_be_done_has_no_plan() -> None:
    nodes = [Node(3, "door", "Doors", ("CAN_OPEN",), ("CLOSED",)) if node.id == 3 else node for node in NODES]
    task = activity(Goal(edges=((20, "ON", 12), (21, "ON", 12))), scene=Scene(nodes, EDGES))
    commands = plan(task, task.world())
    assert commands is not None
    assert "open door 1" in commands
    assert replay(task, commands)[-1] == 1.0
    task = activity(Goal(states=((20, "ON"),)))
    assert plan(task, task.world()) is None
    assert Episode(task).expert_action() == ""
    assert Episode(task).distance_bounds() == (2.0, float("inf"))
    task = activity(Goal(deeds=(Deed(("POUR",), 22),)), ("grab milk 1",))
    assert plan(task, task.world()) is None
    doorless = Scene(NODES, [edge for edge in EDGES if edge[1] != "BETWEEN"])
    task = activity(GOALS["carry"][0], scene=doorless)
    assert plan(task, task.world()) is None
    assert plan(activity(Goal(edges=((21, "ON", 10),)), scene=doorless), task.world()) == ()


@pytest.mark.parametrize("node", [None, 22])
def test_what_is_poured_goes_where_the_program_pours_it(node: int | None) -> None:
    program = ("open fridge 1", "grab milk 1", "walk to mug 2", "pour milk 1 into mug 2")
    task = activity(Goal(deeds=(Deed(("POUR",), node),)), program)
    commands = plan(task, task.world())
    assert commands[-1] == "pour milk 1 into mug 2"
    assert replay(task, commands)[-1] == 1.0
    assert Episode(task).distance_bounds()[1] == len(commands)


@cases(
    "sentence, kind, things",
    ("Put a 1, b 2 and pan 3 on desk 1.", "place", {"things": ["a 1", "b 2", "pan 3"], "target": ["desk 1"]}),
    ("Switch fan 1 off, and plug fan 1 out.", "switch_off", {"devices": ["fan 1"], "plugs": ["fan 1"]}),
    ("Put on hat 1 and scarf 1.", "dress", {"clothes": ["hat 1", "scarf 1"]}),
    ("Do something else.", "", {}),
)  # fmt: skip
def test_sentences(sentence: str, kind: str, things: dict[str, list[str]]) -> None:
    assert read_task(f"Your task is to: {sentence}\n\nYou are in hall 1.") == (kind, things)


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_it_does_what_it_is_told(split: str) -> None:
    env, player, won = VirtualHomeEnv(data="generated"), VirtualHomePlayer(), Counter[str]()
    for index in range(68):
        text, info = env.reset(seed=0, options={"split": split, "index": index})
        kind, things = read_task(text)
        assert kind == info["task_type"]
        assert {name for each in things.values() for name in each} <= env.episode.activity.lexicon.names.position.keys()
        for _ in range(40):
            if info["won"]:
                break
            command = player.act(text, info["admissible_actions"])
            assert command in info["admissible_actions"]
            text, *_, info = env.step(command)
        won[split] += info["won"]
    assert won[split] >= 66


def test_without_a_task_a_copy_or_a_plan_it_goes_on() -> None:
    player = VirtualHomePlayer()
    assert player.act("", ("wash mug 1",)) == "wash mug 1"
    assert player.act("You hold mug 1.", ()) == ""
    player, offered = VirtualHomePlayer(), ("a", "b", "c")
    # It goes through what is offered: b, c, a, b; and holds on to nothing that it was shown.
    assert [player.act("no task", offered) for _ in range(4)] == ["b", "c", "a", "b"]
    assert copy.deepcopy(player).act("no task", offered) == player.act("no task", offered) == "c"
    assert player.__getstate__() == ([], 5)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda player: pickle.loads(pickle.dumps(player))])
def test_a_copy_plays_on_as_the_player_does(again: Callable[[VirtualHomePlayer], VirtualHomePlayer]) -> None:
    env, player = VirtualHomeEnv(data="generated"), again(VirtualHomePlayer())
    for index in range(4):
        text, info = env.reset(seed=0, options={"index": index})
        while not info["won"]:
            copied, offered = again(player), info["admissible_actions"]
            command = player.act(text, offered)
            assert copied.act(text, offered) == command
            player = again(copied)
            text, _, _, _, info = env.step(command)
