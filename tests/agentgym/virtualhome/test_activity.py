"""Episodes: what they show, offer, score and remember, against twins that try everything; commands; events."""

import pickle
import re
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
from agentgym.virtualhome.generated.houses import house
from agentgym.virtualhome.goals import Deed, Goal
from agentgym.virtualhome.keys import known_nodes, something_done
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import CLOSE, Node, Scene
from policies.scripted import ExpertPolicy
from tests.agentgym.virtualhome.naive_view import NaiveView
from tests.agentgym.virtualhome.small_houses import EDGES, NODES, activity, do
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


def play(activity: Activity, rng: Random, steps: int, every: int) -> None:
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
            view = NaiveView(episode.world)
            assert episode.observe().endswith(view.surroundings())
            assert episode.report()[0] == view.location()


@given(st.integers(0, 10**9))
def test_episodes_are_what_plain_twins_say_in_a_small_house(seed: int) -> None:
    play(activity(Goal(states=((20, "DIRTY"),))), Random(seed), steps=60, every=4)


def test_episodes_are_what_plain_twins_say_in_generated_houses() -> None:
    for number in range(3):
        task = Activity("x", "x", "x", "x", house("train", number).lexicon, Goal(), ())
        play(task, Random(number), steps=80, every=8)


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


ON_TABLE = ((22, "ON", 10),)


def goals_play(goal: Goal, *commands: str) -> list[tuple[int, float]]:
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
    opened, *_, put, closed = goals_play(
        goal, "walk to fridge 1", "open fridge 1", "find milk 1", "grab milk 1", "walk to kitchen table 1",
        "put milk 1 on kitchen table 1", "walk to fridge 1", "close fridge 1",
    )[1:]  # fmt: skip
    assert opened == (0, 0.0)  # less than at the start is not less than nothing
    assert (put, closed) == ((0, 0.0), (0, 0.5))


def test_goals_by_hand() -> None:
    goal = Goal(exact=((21, frozenset({"CLEAN"})),), without=((21, "ON", 10),))
    assert [score for _, score in goals_play(goal, "walk to mug 2", "wash mug 2", "grab mug 2")] == [0.0, 0.5, 1.0]
    assert activity(Goal(exact=((23, frozenset({"OFF"})),))).tests.missing(Scene(NODES, EDGES).cells, 0) == 1
    goal = Goal(deeds=(Deed(("TOUCH", "GRAB"), 23, Goal(states=((23, "ON"),))), Deed(("WASH",))))
    steps = ["walk to lamp 1", "wash lamp 1", "touch lamp 1", "plug in lamp 1", "switch on lamp 1", "touch lamp 1"]
    assert [done for done, _ in goals_play(goal, *steps, "touch lamp 1", "wash lamp 1")] == [0, 0, 0, 0, 0, 1, 1, 2]
    goal = Goal(states=((4, "LYING"),), deeds=(Deed(("SLEEP",)),))
    assert goals_play(goal, "walk to bed 1", "lie on bed 1", "sleep") == [(0, 0.0), (0, 0.5), (1, 1.0)]
    for goal in (Goal(states=((99, "ON"),)), Goal(edges=((20, "ON", 99),)), Goal(deeds=(Deed(("GRAB",), 99),))):
        refuses(ValueError, "the id 99", goal.tests, Scene(NODES, EDGES))


THINGS = re.compile(r"<(.+?)>\s*\((.+?)\)")


def naive(text: str) -> list[tuple[str, str]]:
    found = []
    match = THINGS.search(text)
    while match:
        found.append((match[1], match[2]))
        text = text[match.end(2) :]
        match = THINGS.search(text)
    return found


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
    found = naive(text)
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
