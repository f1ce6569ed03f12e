"""Shortest plans from any state; tests compare them with a search over all states of small games.

Any two locations are one `go to` apart, so a plan costs one per action, one per change of location, and one per closed
receptacle that is used. `Planner` compares all choices of objects and receptacles. Plans are shortest if no lamp can be
picked up, as in official games. A state has no plan when the hand holds an object that is not of the goal and that no
receptacle accepts (872 of the 3,553 official train games have one in sight).
"""

from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, TWO, Game, bits, put_command
from agentgym.alfworld.rules import World

#: Larger than the cost of any plan.
_NEVER = 1_000

#: An action on (object, receptacle), and the rest of the plan.
Acts = tuple[tuple[str, int, int], Any] | None
Priced = tuple[int, Acts]

_NO_PLAN: Priced = (_NEVER, None)
_TREATMENT = {CLEAN: "clean", HEAT: "heat", COOL: "cool"}


class Situation(NamedTuple):
    """The part of a state that plans depend on; sets are bit masks as in `Game`.

    `reach`: receptacles that hands can reach into; `done`: objects that are clean, hot or cool, as the task requires;
    `one_copy`: taking an object removes it from every receptacle (a repair).
    """

    loc: int
    held: int
    reach: int
    contents: tuple[int, ...]
    done: int
    lit: int
    one_copy: bool


class Planner:
    """Shortest plans of one game."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._kind = game.task_type
        self._wanted = game.goal_objects
        room = game.room
        self._at = room.reach
        self._goals = sum(1 << receptacle for receptacle in game.goal_receptacles)
        self._machines = {CLEAN: room.sinks, HEAT: room.microwaves, COOL: room.fridges}.get(self._kind, 0)
        self._stands = tuple({game.places[receptacle]: receptacle for receptacle in bits(self._machines)}.items())
        self._accepting: dict[int, int] = {}

    def situation(self, state: World) -> Situation:
        done = {CLEAN: state.clean, HEAT: state.hot, COOL: state.cool}.get(self._kind, -1)
        reach = state.open | ~self.game.openable
        return Situation(state.loc, state.held, reach, tuple(state.contents), done, state.toggled, state.one_copy)

    def best(self, now: Situation) -> Priced:
        """Return (commands of a shortest plan, its actions); the cost is at least 1000 in a dead end."""
        if self._won(now):
            return 0, None
        if now.held < 0:
            return self._fetch(now)
        use = self._use(now) if self._wanted >> now.held & 1 else _NO_PLAN
        # dropping, taking and at least one further command
        return use if use[0] < 3 else min([use, *(priced for _, priced in self._drops(now))], key=itemgetter(0))

    def commands(self, now: Situation, acts: Acts) -> tuple[str, ...]:
        game, loc, reach = self.game, now.loc, now.reach
        names, things = game.receptacles, game.objects
        commands = []
        while acts is not None:
            (verb, item, receptacle), acts = acts
            if game.places[receptacle] != loc:
                loc = game.places[receptacle]
                commands.append(f"go to {names[receptacle]}")
            if verb in ("take", "move"):
                if not reach >> receptacle & 1:
                    reach |= 1 << receptacle
                    commands.append(f"open {names[receptacle]}")
                commands.append(self._hand(verb, item, receptacle))
            elif verb == "use":
                commands.append(f"use {things[item]}")
            elif verb:
                commands.append(f"{verb} {things[item]} with {names[receptacle]}")
        if [command.partition(" ")[0] for command in commands[-2:]] == ["take", "use"]:
            commands[-2:] = commands[:-3:-1]  # as in official walkthroughs: first the lamp, then the object
        return tuple(commands)

    def first(self, now: Situation) -> tuple[str, ...]:
        """Return every command that starts a shortest plan, sorted; () when there is none or the game is won."""
        price = self.best(now)[0]
        if not 0 < price < _NEVER:
            return ()
        starts = {command for command, after in self._here(now) if self.best(after)[0] == price - 1}
        for loc in self._ways(now, price):
            starts.update(f"go to {self.game.receptacles[receptacle]}" for receptacle in self.game.room.local[loc])
        return tuple(sorted(starts))

    # Commands at this location, and the next location

    def _here(self, now: Situation) -> Iterator[tuple[str, Situation]]:
        game, wanted, held = self.game, self._wanted, now.held
        for receptacle in game.room.local[now.loc]:
            bit, name, content = 1 << receptacle, game.receptacles[receptacle], now.contents[receptacle]
            if self._kind == LOOK:
                for lamp in bits(content & game.goal_lamps & ~now.lit):
                    yield f"use {game.objects[lamp]}", now._replace(lit=now.lit | 1 << lamp)
            if held >= 0 and wanted >> held & 1 and self._machines & bit:
                command = f"{_TREATMENT[self._kind]} {game.objects[held]} with {name}"
                yield command, now._replace(done=now.done | 1 << held)
            if not now.reach & bit:
                yield f"open {name}", now._replace(reach=now.reach | bit)
            elif held < 0:
                for item in bits(content & wanted & game.pickupable):
                    yield self._hand("take", item, receptacle), self._taken(now, item, receptacle)
            elif game.fits[receptacle] >> held & 1:
                contents = _with(now.contents, receptacle, content | 1 << held)
                yield self._hand("move", held, receptacle), now._replace(held=-1, contents=contents)

    def _ways(self, now: Situation, price: int) -> set[int]:
        places = self.game.places
        if now.held < 0:
            near = {places[receptacle] for receptacle, content in enumerate(now.contents) if content & self._wanted}
            return {loc for loc in near - {now.loc} if self._fetch(now._replace(loc=loc))[0] == price - 1}
        ways = set()
        if self._wanted >> now.held & 1:
            near = {places[lamp] for lamp in self._lamps(now.contents)} | {loc for loc, _ in self._stands}
            near.update(map(places.__getitem__, self.game.goal_receptacles))
            ways = {loc for loc in near - {now.loc} if self._use(now._replace(loc=loc))[0] == price - 1}
        if price > 2:
            drops = ((places[receptacle], priced) for receptacle, priced in self._drops(now))
            ways.update(loc for loc, (full, _) in drops if loc != now.loc and full == price)
        return ways

    # Each of these methods returns (number of commands, actions) from a situation on

    def _won(self, now: Situation) -> bool:
        wanted = self._wanted
        if self._kind == LOOK:
            lit = self.game.goal_lamps & now.lit
            return now.held >= 0 and bool(wanted >> now.held & 1) and self._holds(now, self._at[now.loc], lit)
        if self._kind == TWO:
            return any((now.contents[i] & wanted).bit_count() > 1 for i in self.game.goal_receptacles)
        return self._holds(now, self._goals, wanted & now.done)

    @staticmethod
    def _holds(now: Situation, receptacles: int, objects: int) -> bool:
        return bool(objects) and any(now.contents[receptacle] & objects for receptacle in bits(receptacles))

    def _drops(self, now: Situation) -> Iterator[tuple[int, Priced]]:
        """Yield (receptacle, plan) for every receptacle that accepts the object in hand (not used afterwards)."""
        places, loc = self.game.places, now.loc
        counts = self._goals | sum(1 << i for i, content in enumerate(now.contents) if content & self._wanted)
        matters = {places[receptacle] for receptacle in bits(counts)} | {place for place, _ in self._stands}
        matters.update(places[receptacle] for receptacle in self._lamps(now.contents))
        known: dict[tuple[int, int], Priced] = {}
        for receptacle in bits(self._homes(now.held)):
            place, bit = places[receptacle], 1 << receptacle
            price = 1 + (place != loc) + (not now.reach & bit)
            key = (place if place in matters else -1, bit & counts & ~now.reach)
            rest = known.get(key)
            if rest is None:
                rest = known[key] = self._fetch(now._replace(loc=place, held=-1, reach=now.reach | bit))
            yield receptacle, (price + rest[0], (("move", now.held, receptacle), rest[1]))

    def _fetch(self, now: Situation) -> Priced:
        best, wanted, places = _NO_PLAN, self._wanted & self.game.pickupable, self.game.places
        for receptacle, content in enumerate(now.contents):
            if not content & wanted:
                continue
            price = 1 + (places[receptacle] != now.loc) + (not now.reach >> receptacle & 1)
            for item in bits(content & wanted):
                rest = self._use(self._taken(now, item, receptacle))
                if price + rest[0] < best[0]:
                    best = price + rest[0], (("take", item, receptacle), rest[1])
        return best

    def _taken(self, now: Situation, item: int, receptacle: int) -> Situation:
        bit = 1 << item
        if now.one_copy:
            contents = tuple([content & ~bit for content in now.contents])
        else:
            contents = _with(now.contents, receptacle, now.contents[receptacle] & ~bit)
        reach = now.reach | 1 << receptacle
        return Situation(self.game.places[receptacle], item, reach, contents, now.done, now.lit, now.one_copy)

    def _use(self, now: Situation) -> Priced:
        if self._kind == LOOK:
            return self._light(now)
        if self._kind == TWO:
            return self._pair(now)
        if now.done >> now.held & 1:
            return self._place(now, self._goals)
        there = self._holds(now, self._goals, 1 << now.held)
        best = _NO_PLAN
        for place, receptacle in self._stands:
            rest = (0, None) if there else self._place(now._replace(loc=place), self._goals)
            price = 1 + (place != now.loc) + rest[0]
            if price < best[0]:
                best = price, ((_TREATMENT[self._kind], now.held, receptacle), rest[1])
        return best

    def _homes(self, item: int) -> int:
        homes = self._accepting.get(item)
        if homes is None:
            homes = sum(1 << receptacle for receptacle, fit in enumerate(self.game.fits) if fit >> item & 1)
            self._accepting[item] = homes
        return homes

    def _lamps(self, contents: tuple[int, ...]) -> list[int]:
        lamps = self.game.goal_lamps
        return [receptacle for receptacle, content in enumerate(contents) if content & lamps] if lamps else []

    def _light(self, now: Situation) -> Priced:
        best = _NO_PLAN
        for receptacle in self._lamps(now.contents):
            lamps = now.contents[receptacle] & self.game.goal_lamps
            on = lamps & now.lit
            price = (self.game.places[receptacle] != now.loc) + (not on)
            if price < best[0]:
                verb = "" if on else "use"
                best = price, ((verb, (on or lamps).bit_length() - 1, receptacle), None)
        return best

    def _place(self, now: Situation, receptacles: int) -> Priced:
        receptacles &= self._homes(now.held)
        if not receptacles:
            return _NO_PLAN
        here, open_ = receptacles & self._at[now.loc], receptacles & now.reach
        for price, choice in ((1, here & open_), (2, here), (2, open_)):
            if choice:
                return price, (("move", now.held, _lowest(choice)), None)
        return 3, (("move", now.held, _lowest(receptacles)), None)

    def _pair(self, now: Situation) -> Priced:
        game, others = self.game, self._wanted & ~(1 << now.held)
        half = sum(1 << i for i in game.goal_receptacles if now.contents[i] & others)
        best = self._place(now, half)
        empty = self._goals & ~half & self._homes(now.held)
        if best[0] <= 3 or not empty:  # fetching a second object costs at least three commands
            return best
        at = self._at
        for source, content in enumerate(now.contents):
            second = content & others & game.pickupable
            if not second:
                continue
            item, place, closed = second.bit_length() - 1, game.places[source], not now.reach >> source & 1
            near, there = empty & at[now.loc], empty & at[place]
            for choice in (near, there & ~near, empty & ~near & ~there):
                if not choice:
                    continue
                target = _lowest(choice & now.reach or choice)
                goal = game.places[target]
                price = 3 + (goal != now.loc) + (not now.reach >> target & 1) + 2 * (goal != place) + closed
                if price < best[0]:
                    last = (("take", item, source), (("move", item, target), None))
                    best = price, (("move", now.held, target), last)
        return best

    def _hand(self, verb: str, item: int, receptacle: int) -> str:
        thing, name = self.game.objects[item], self.game.receptacles[receptacle]
        return f"take {thing} from {name}" if verb == "take" else put_command(self.game.dialect, thing, name)


def plan(state: World) -> tuple[str, ...] | None:
    """Return a shortest sequence of commands that wins from here; () when won, None in a dead end."""
    planner = planner_of(state.game)
    now = planner.situation(state)
    price, acts = planner.best(now)
    return None if price >= _NEVER else planner.commands(now, acts)


def distance(state: World) -> int | None:
    """Return the length of a shortest plan, in commands; None in a dead end."""
    planner = planner_of(state.game)
    price = planner.best(planner.situation(state))[0]
    return None if price >= _NEVER else price


def optimal_commands(state: World) -> tuple[str, ...]:
    """Return every command that starts a shortest plan, sorted; () when won or in a dead end."""
    planner = planner_of(state.game)
    return planner.first(planner.situation(state))


@lru_cache(maxsize=512)
def planner_of(game: Game) -> Planner:
    """Return the planner of a game; recent ones are cached."""
    return Planner(game)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _with(contents: tuple[int, ...], receptacle: int, content: int) -> tuple[int, ...]:
    return (*contents[:receptacle], content, *contents[receptacle + 1 :])
