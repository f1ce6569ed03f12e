"""The household once more, as plainly as possible: names and sets of pairs, and every command tried one by one."""

from agentgym.alfworld.game import Game, bits


class NaiveWorld:
    """Same rules as `World`, read from the description of the original engine, without repairs."""

    def __init__(self, game: Game) -> None:
        self.receptacles = list(game.receptacles)
        self.objects = list(game.objects)
        self.kind = dict(zip(self.receptacles, game.receptacle_types, strict=True))
        self.object_kind = dict(zip(self.objects, game.object_types, strict=True))
        self.at = {name: game.locations[place] for name, place in zip(self.receptacles, game.places, strict=True)}
        self.openable = {self.receptacles[i] for i in bits(game.openable)}
        self.flags = {
            flag: {self.objects[i] for i in bits(getattr(game, flag))}
            for flag in ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "vessels")
        }
        self.accepts = {
            (name, self.objects[i]) for name, fit in zip(self.receptacles, game.fits, strict=True) for i in bits(fit)
        }
        self.inner = {(self.objects[i], self.objects[v]) for v, objects in game.inner for i in bits(objects)}
        self.old = game.dialect == "put"
        self.task_type = game.task_type
        self.goal_objects = {self.objects[i] for i in bits(game.goal_objects)}
        self.goal_receptacles = {self.receptacles[i] for i in game.goal_receptacles}
        self.goal_lamps = {self.objects[i] for i in bits(game.goal_lamps)}
        self.loc = game.locations[game.start]
        self.held: set[str] = set()
        self.open: set[str] = set()
        self.inside = {
            (self.objects[i], name)
            for name, content in zip(self.receptacles, game.contents, strict=True)
            for i in bits(content)
        }
        self.seen = {
            (self.objects[i], place)
            for place, content in zip(game.locations, game.seen_from, strict=True)
            for i in bits(content)
        }
        self.taken: set[tuple[str, str]] = set()
        self.clean: set[str] = set()
        self.hot: set[str] = set()
        self.cool = {self.objects[i] for i in bits(game.cool)}
        self.toggled: set[str] = set()
        self.sliced: set[str] = set()

    def state(self) -> tuple[object, ...]:
        """Everything that changes."""
        sets = self.held, self.open, self.clean, self.hot, self.cool, self.toggled, self.sliced
        pairs = self.inside, self.seen, self.taken
        return (self.loc, *map(frozenset, sets), *map(frozenset, pairs))

    def here(self) -> list[str]:
        return [name for name in self.receptacles if self.at[name] == self.loc]

    def commands(self) -> list[str]:
        """All commands there could be, of which those that can be done are kept."""
        pairs = [(o, r) for o in self.objects for r in self.receptacles]
        found = ["look", "inventory"] + ([] if self.old else ["help"])
        found += [f"go to {r}" for r in self.receptacles if self.at[r] != self.loc]
        found += [f"open {r}" for r in self.here() if r in self.openable - self.open]
        found += [f"close {r}" for r in self.here() if r in self.openable & self.open]
        found += [f"examine {r}" for r in self.here()] + [f"examine {o}" for o in self.held]
        found += [f"take {o} from {r}" for o, r in pairs if self.can_take(o, r)]
        word, to = ("put", "in/on") if self.old else ("move", "to")
        found += [f"{word} {o} {to} {r}" for o, r in pairs if self.can_put(o, r)]
        for verb, flag, kinds in (
            ("clean", "cleanable", ("sinkbasin", "sink")),
            ("heat", "heatable", ("microwave",)),
            ("cool", "coolable", ("fridge",)),
        ):
            machines = [r for r in self.here() if self.kind[r] in kinds]
            found += [f"{verb} {o} with {r}" for o in self.held & self.flags[flag] for r in machines]
        found += [f"use {o}" for o in self.flags["toggleable"] if any((o, r) in self.inside for r in self.here())]
        found += [
            f"slice {o} with {knife}"
            for knife in self.held
            if self.object_kind[knife] in ("knife", "butterknife")
            for o in self.flags["sliceable"]
            if (o, self.loc) in self.seen
        ]
        return sorted(set(found))

    def can_reach_into(self, r: str) -> bool:
        return self.at[r] == self.loc and (r not in self.openable or r in self.open)

    def can_take(self, o: str, r: str) -> bool:
        free = not self.held and o in self.flags["pickupable"]
        return free and (o, r) in self.inside and self.can_reach_into(r)

    def can_put(self, o: str, r: str) -> bool:
        return o in self.held and (r, o) in self.accepts and self.can_reach_into(r)

    def step(self, command: str) -> str:
        """Play a command of any kind."""
        command = command.strip()
        if command not in self.commands():
            return "Nothing happens."
        verb, _, rest = command.partition(" ")
        if verb == "go":
            r = rest.removeprefix("to ")
            self.loc = self.at[r]
            return f"You arrive at {self.loc if self.old else r}. {self.describe(r)}"
        if verb == "open":
            self.open |= {rest}
            return f"You open the {rest}. {self.describe(rest)}"
        if verb == "close":
            self.open -= {rest}
            return f"You close the {rest}."
        if verb == "take":
            o, r = rest.split(" from ")
            self.inside -= {(o, r)}
            self.taken |= {(o, r)}
            self.held = {o}
            self.seen -= {(o, self.loc)}
            return f"You pick up the {o} from the {r}."
        if verb in ("move", "put"):
            o, r = rest.split(" in/on " if self.old else " to ")
            self.inside |= {(o, r)}
            self.taken -= {(o, r)}
            self.held = set()
            self.seen |= {(o, self.loc)}
            return f"You put the {o} in/on the {r}." if self.old else f"You move the {o} to the {r}."
        if verb in ("clean", "heat", "cool"):
            o, r = rest.split(" with ")
            gained, lost = {"clean": (self.clean, set()), "heat": (self.hot, self.cool), "cool": (self.cool, self.hot)}[
                verb
            ]
            gained.add(o)
            lost.discard(o)
            return f"You {verb} the {o} using the {r}."
        if verb == "use":
            self.toggled |= {rest}
            return f"You turn on the {rest}."
        if verb == "slice":
            o, knife = rest.split(" with ")
            self.sliced |= {o}
            return f"You sliced the {o} with the {knife}."
        if verb == "inventory":
            return f"You are carrying: a {min(self.held)}." if self.held else "You are not carrying anything."
        if verb == "look":
            return self.look()
        if verb == "help":
            return "help"
        return self.describe(rest) if rest in self.receptacles else self.inspect(rest)

    def describe(self, r: str) -> str:
        inside = [f"a {o}" for o in self.objects if (o, r) in self.inside]
        if r not in self.openable:
            return f"On the {r}, you see {render(inside)}."
        return f"The {r} is open. In it, you see {render(inside)}." if r in self.open else f"The {r} is closed."

    def look(self) -> str:
        if not self.here():
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        visible = [o for o in self.objects if (o, self.loc) in self.seen]
        floor = [f"a {o}" for o in visible for r in self.here() if (o, r) in self.taken]
        return f"You are facing the {render(self.here())}. Next to it, you see {render(floor)}."

    def inspect(self, o: str) -> str:
        if o in self.flags["vessels"]:
            inner = [f"a {other}" for other in self.objects if (other, o) in self.inner]
            return f"This is a normal {o}. In it, you see {render(inner)}."
        status = (o in self.clean, o in self.hot, o in self.cool, o in self.sliced)
        for wanted, words in (
            ("chs", "hot and clean sliced"), ("cks", "cool and clean sliced"), ("cs", "clean sliced"),
            ("hs", "hot sliced"), ("ks", "cool sliced"), ("ch", "hot and clean"), ("ck", "cool and clean"),
            ("h", "hot"), ("c", "clean"), ("k", "cold"),
        ):  # fmt: skip
            if all(status["chks".index(letter)] for letter in wanted):
                return f"This is a {words} {o}."
        if o in self.sliced:
            return f"This is a sliced {o}."
        return f"There's nothing special about {o}."

    def won(self) -> bool:
        if self.task_type == "look_at_obj_in_light":
            lit = any((o, r) in self.inside for o in self.toggled & self.goal_lamps for r in self.here())
            return bool(self.held & self.goal_objects) and lit
        done = self.goal_objects & {
            "pick_clean_then_place_in_recep": self.clean,
            "pick_heat_then_place_in_recep": self.hot,
            "pick_cool_then_place_in_recep": self.cool,
        }.get(self.task_type, self.goal_objects)
        needed = 2 if self.task_type == "pick_two_obj_and_place" else 1
        return any(sum((o, r) in self.inside for o in done) >= needed for r in self.goal_receptacles)


def render(things: list[str]) -> str:
    """A list in the engine's English."""
    if not things:
        return "nothing"
    return things[0] if len(things) == 1 else ", ".join(things[:-1]) + f", and {things[-1]}"
