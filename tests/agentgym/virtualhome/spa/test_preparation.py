"""What the papers' wrapper takes out of a graph, against the loop that does it."""

from hypothesis import given
from hypothesis import strategies as st

from agentgym.virtualhome.scene import Edge
from agentgym.virtualhome.spa.preparation import prepared, taken_out
from tests.agentgym.virtualhome.micro_house import EDGES, FRIDGE, KITCHEN, MILK, TABLE, house

edges = st.tuples(st.integers(0, 4), st.sampled_from(["CLOSE", "INSIDE", "ON"]), st.integers(0, 4))


def naive(edges: list[Edge]) -> set[Edge]:
    """A list that gets shorter while one goes through it."""
    left = list(edges)
    for edge in left:
        inside = (edge[2], "INSIDE", edge[0])
        if inside in left:
            for each in {edge, inside}:
                left.remove(each)
    return set(edges) - set(left)


@given(st.lists(edges, unique=True, max_size=25))
def test_the_same_edges_are_taken_out(given: list[Edge]) -> None:
    assert set(taken_out(given)) == naive(given)


def test_a_house_without_what_lies_in_containers() -> None:
    scene = house((FRIDGE, "CLOSE", MILK), (TABLE, "INSIDE", FRIDGE), (FRIDGE, "INSIDE", TABLE))
    whole = set(scene.edges())
    assert whole - set(prepared(scene, removed=[(MILK, "INSIDE", KITCHEN)]).edges()) == {(MILK, "INSIDE", KITCHEN)}
    mutual = {(TABLE, "INSIDE", FRIDGE), (FRIDGE, "INSIDE", TABLE)}
    assert whole - set(prepared(scene, containment=True).edges()) == mutual
    gone = whole - set(prepared(scene).edges())
    assert {(FRIDGE, "CLOSE", MILK), (MILK, "INSIDE", FRIDGE)} <= gone
    assert set(prepared(house()).edges()) == set(EDGES)
