from collections import Counter
from functools import cache

import pytest

from agentgym.virtualhome.generated.houses import SPLITS, House, house
from agentgym.virtualhome.scene import BETWEEN, INSIDE, WIDTH, members
from tests.processes import printed


@cache
def houses() -> list[House]:
    return [house(split, number) for split in SPLITS for number in range(60)]


def furnishing(home: House) -> tuple[str, ...]:
    """Rooms and fixtures of a house; things that lie around are left out."""
    scene = home.scene
    return tuple(sorted(name for name, kind in zip(scene.names, scene.categories, strict=True) if kind != "Things"))


def test_sizes_states_and_places_of_houses() -> None:
    for home in houses():
        assert 45 <= home.scene.size <= 110
        assert 3 <= home.scene.rooms.bit_count() <= 5
        assert 200 <= sum(1 for _ in home.scene.edges()) <= 700
        assert list(home.scene.ids) == list(range(1, home.scene.size + 1))
    for home in houses():
        for states in home.states.values():
            assert len({"ON", "OFF"} & set(states)) < 2
            assert "ON" not in states or not {"OPEN", "PLUGGED_OUT"} & set(states)
    for home in houses()[::10]:
        edges = set(home.scene.edges())
        for thing, (relation, fixture) in home.places.items():
            assert {(thing, relation, fixture), (thing, "CLOSE", fixture), (fixture, "CLOSE", thing)} <= edges
            assert home.rooms[thing] == home.rooms[fixture]
            for other, (_, place) in home.places.items():
                assert place != fixture or other == thing or (thing, "CLOSE", other) in edges


@pytest.mark.parametrize("number", range(9))
def test_everything_is_in_one_room_and_every_room_can_be_reached(number: int) -> None:
    home = houses()[20 * number]
    scene = home.scene
    for node in range(scene.size):
        inside = scene.cells[node * WIDTH + INSIDE] & scene.rooms
        assert inside.bit_count() == (0 if scene.rooms >> node & 1 else 1)
    joined = {next(members(scene.rooms))}
    for _ in range(5):
        for door in members(scene.classes["door"]):
            pair = set(members(scene.cells[door * WIDTH + BETWEEN]))
            assert len(pair) == 2
            joined |= pair if pair & joined else set()
    assert joined == set(members(scene.rooms))


def test_splits_share_no_house_and_everything_occurs() -> None:
    first, second, third = ({furnishing(home) for home in houses()[60 * n : 60 * n + 60]} for n in range(len(SPLITS)))
    assert not first & second
    assert not (first | second) & third
    assert min(map(len, (first, second, third))) > 40
    seen = Counter(name for home in houses() for name in home.of_class)
    assert len(seen) > 85
    assert min(seen.values()) >= 3


def test_a_house_is_a_function_of_split_number_and_seed() -> None:
    script = (
        "from agentgym.virtualhome.generated.houses import house; import hashlib\n"
        "text = repr([(list(h.scene.edges()), h.states) for h in (house('train', 5), house('valid_seen', 2, 3))])\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    seen = {printed(script, seed) for seed in ("0", "1")}
    assert len(seen) == 1
    assert house("train", 5, 1).states != house("train", 5).states
