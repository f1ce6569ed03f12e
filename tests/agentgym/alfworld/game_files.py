"""Game files in the official form, small enough to write down, and a folder of them."""

import json
from pathlib import Path
from typing import Any

GRAMMAR = r'''grammar :: """
    {
        "intro": [ { "rhs": "-= Welcome to TextWorld, ALFRED! =-\n\n#look.feedback#\n\n#task#" } ],
        "task": [ { "rhs": "Your task is to: TASK." } ],
        "GotoLocation.feedback": [ { "rhs": "You arrive at {ARRIVAL.name}. #examineReceptacle.feedback#" } ],
        "OpenObject.feedback": [ { "rhs": "You open the {r.name}. #examineReceptacle.feedback#" } ],
        "CloseObject.feedback": [ { "rhs": "You close the {r.name}." } ],
        "PickupObject.feedback": [ { "rhs": "You pick up the {o.name} from the {r.name}." } ],
        "PutObject.feedback": [ { "rhs": "PUT" } ],
        "inventory.feedback": [
            { "rhs": "You are carrying: [{o.indefinite + ' ' + o.name | holds(a:agent, o:object)}]." },
            { "rhs": "You are not carrying anything." }
        ],
        "examineObject.feedback": [
            { "rhs": "This is a normal {o.name}. In it, you see [{o2.indefinite + ' ' + o2.name}]." },
            { "rhs": "There's nothing special about {o.name}." }
        ]
    }
""";
action PutObject { template :: "TEMPLATE"; }
"You turn on the {o.name}." "You heat the {o.name} using the {r.name}." "You clean the {o.name} using the {r.name}."
"You cool the {o.name} using the {r.name}." "You sliced the {co.name} with the {ko.name}."
"#look-variations#. Next to it, you see #list_objects_on_the_floor#."
'''
HELP = r"""
action help {
    template :: "help";
    feedback :: "
Available commands:
  look:                             look around your current location
  move (object) to (receptacle):  place an object in or on a receptacle
";
}
"""
PROBLEM = """
(define (problem plan_trial)
(:domain alfred)
(:objects
agent1 - agent
Apple - object
)
(:init
        (receptacleType Drawer_bar__plus_01 DrawerType)
        (receptacleType Drawer_bar__minus_02 DrawerType)
        (receptacleType Sink_bar_3_bar_SinkBasin SinkBasinType)
        (receptacleAtLocation Drawer_bar__plus_01 loc_bar_5)
        (receptacleAtLocation Drawer_bar__minus_02 loc_bar_5)
        (receptacleAtLocation Sink_bar_3_bar_SinkBasin loc_bar_2)
        (openable Drawer_bar__plus_01)
        (openable Drawer_bar__minus_02)
        (objectType Sink_bar_3 SinkType)
        (objectType Mug_bar_1 MugType)
        (objectType Mug_bar_2 MugType)
        (objectType Spoon_bar_1 SpoonType)
        (objectType Knife_bar_1 KnifeType)
        (objectType Egg_bar_7 EggType)
        (isReceptacleObject Mug_bar_1)
        (isReceptacleObject Mug_bar_2)
        (inReceptacleObject Spoon_bar_1 Mug_bar_1)
        (inReceptacle Mug_bar_1 Sink_bar_3_bar_SinkBasin)
        (inReceptacle Mug_bar_2 Drawer_bar__plus_01)
        (inReceptacle Mug_bar_2 Drawer_bar__minus_02)
        (inReceptacle Knife_bar_1 Drawer_bar__minus_02)
        (objectAtLocation Mug_bar_1 loc_bar_2)
        (objectAtLocation Egg_bar_7 loc_bar_9)
        (canContain SinkBasinType MugType)
        (canContain SinkBasinType MugType)
        (canContain DrawerType KnifeType)
        (canContain CabinetType EggType)
        (pickupable Mug_bar_1)
        (pickupable Mug_bar_2)
        (pickupable Knife_bar_1)
        (cleanable Mug_bar_1)
        (coolable Mug_bar_2)
        (sliceable Egg_bar_7)
        (isCool Mug_bar_2)
        (atLocation agent1 loc_bar_11)
        )
(:goal GOAL)
)
"""
GOALS = {
    "pick_and_place_simple": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (inReceptacle ?o ?r) (objectType ?o MugType) (receptacleType ?r DrawerType)))))""",
    "look_at_obj_in_light": """(and
        (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and
            (objectType ?ot DeskLampType) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)
            (atLocation ?a ?l) (inReceptacle ?ot ?r)))
        (exists (?o - object ?a - agent) (and (objectType ?o MugType) (holds ?a ?o))))""",
    "pick_clean_then_place_in_recep": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (cleanable ?o) (objectType ?o MugType) (receptacleType ?r DrawerType) (isClean ?o) (inReceptacle ?o ?r)))))""",
    "pick_heat_then_place_in_recep": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (heatable ?o) (objectType ?o MugType) (receptacleType ?r DrawerType) (isHot ?o) (inReceptacle ?o ?r)))))""",
    "pick_cool_then_place_in_recep": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (coolable ?o) (objectType ?o MugType) (receptacleType ?r DrawerType) (isCool ?o) (inReceptacle ?o ?r)))))""",
    "pick_two_obj_and_place": """(and (exists (?r - receptacle) (exists (?o1 - object) (and
        (objectType ?o1 MugType) (receptacleType ?r DrawerType) (inReceptacle ?o1 ?r)
        (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 MugType) (receptacleType ?r DrawerType)
            (inReceptacle ?o2 ?r)))))))""",
}


def grammar(task: str = "put a mug in drawer", *, old: bool = False) -> str:
    """The texts of a game, in the newer or older wording."""
    words = {
        "TASK": task,
        "ARRIVAL": "lend" if old else "r",
        "PUT": "You put the {o.name} in/on the {r.name}." if old else "You move the {o.name} to the {r.name}.",
        "TEMPLATE": "put {o} in/on {r}" if old else "move {o} to {r}",
    }
    result = GRAMMAR if old else GRAMMAR + HELP
    for word, replacement in words.items():
        result = result.replace(word, replacement)
    return result


def content(task_type: str = "pick_and_place_simple", *, old: bool = False, **changes: Any) -> dict[str, Any]:
    """What a `game.tw-pddl` holds; keys set to None are left out."""
    data: dict[str, Any] = {
        "pddl_domain": "(define (domain alfred))",
        "grammar": grammar(old=old),
        "pddl_problem": PROBLEM.replace("GOAL", GOALS[task_type]),
        "solvable": True,
    }
    data |= {} if old else {"walkthrough": ["go to drawer 1", "look"]}
    return {key: value for key, value in (data | changes).items() if value is not None}


def write_trial(
    split: Path, task_id: str, task_type: str = "pick_and_place_simple", *, game: object = ..., trajectory: object = ...
) -> Path:
    """Write a trial folder; `game` and `trajectory` are contents, texts that are no JSON, or None for no file."""
    folder = split / task_id
    folder.mkdir(parents=True)
    written = {
        "game.tw-pddl": content(task_type) if game is ... else game,
        "traj_data.json": {"scene": {}, "task_type": task_type} if trajectory is ... else trajectory,
    }
    for name, value in written.items():
        if value is not None:
            text = value if isinstance(value, (str, bytes)) else json.dumps(value)
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder
