"""The graph of an episode, its log and its snapshots, against a set of edges."""

import pickle

from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.virtualhome.scene import CLOSE, HOLDS_RH, INSIDE, IS, RELATION_NAMES, members
from agentgym.virtualhome.state import State
from tests.agentgym.virtualhome.micro_house import CUP, EDGES, MILK, TABLE, graph, house
from tests.refusals import refuses

HOUSE = house()
positions = st.integers(0, HOUSE.size - 1)
relations = st.integers(0, len(RELATION_NAMES) - 1)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), positions, relations, positions),
        st.tuples(st.just("remove"), positions, relations, positions),
        st.tuples(st.just("remove_all"), positions, relations),
        st.tuples(st.just("set_states"), positions, st.integers(0, 1023)),
        st.tuples(st.just("note"), positions, positions),
        st.tuples(st.just("asked"), positions, relations),
        st.tuples(st.just("renew_sets")),
        st.tuples(st.just("come_close"), positions, st.integers(0, (1 << HOUSE.size) - 1)),
        st.tuples(st.just("relate_to"), positions, relations, positions),
        st.tuples(st.just("fingerprint")),
    ),
    max_size=25,
)
orders = st.sampled_from(["lowest id", "cpython"])


def play(state: State, played: list[tuple], at_once: bool = True) -> None:
    """Play changes; what changes several edges at once can be done one edge after the other."""
    for name, *arguments in played:
        if name == "note":
            state.note(state.places, arguments[0], (arguments[1], INSIDE))
        elif name == "come_close" and (state.exact_order or not at_once):
            state.remove_all(arguments[0], CLOSE)
            for other in members(arguments[1]):
                state.add(arguments[0], CLOSE, other)
                state.add(other, CLOSE, arguments[0])
        elif name == "relate_to" and (state.exact_order or not at_once):
            node, relation, other = arguments
            for each in list(members(state.related(node, relation))):
                state.remove(node, relation, each)
            state.add(node, relation, other)
        else:
            getattr(state, name)(*arguments)


def listing(state: State) -> list[list[int]]:
    return [state.in_order(node, relation) for node in range(HOUSE.size) for relation in range(len(RELATION_NAMES))]


@given(changes)
def test_edges_are_a_set(played: list[tuple]) -> None:
    state, ids = State(HOUSE), HOUSE.ids
    edges = set(EDGES)
    for change in played:
        play(state, [change])
        name, *arguments = change
        if name in ("add", "remove"):
            a, relation, b = arguments
            edge = (ids[a], RELATION_NAMES[relation], ids[b])
            edges = edges | {edge} if name == "add" else edges - {edge}
        elif name == "relate_to":
            node, relation = ids[arguments[0]], RELATION_NAMES[arguments[1]]
            edges = {edge for edge in edges if edge[:2] != (node, relation)} | {(node, relation, ids[arguments[2]])}
        elif name in ("remove_all", "come_close"):
            node, relation = ids[arguments[0]], "CLOSE" if name == "come_close" else RELATION_NAMES[arguments[1]]
            edges = {edge for edge in edges if edge[1] != relation or node not in (edge[0], edge[2])}
            for other in members(arguments[1]) if name == "come_close" else ():
                edges |= {(node, "CLOSE", ids[other]), (ids[other], "CLOSE", node)}
    assert sorted(state.edges()) == sorted(edges)
    backward = {
        (ids[source], name, ids[node])
        for node in range(HOUSE.size)
        for relation, name in enumerate(RELATION_NAMES)
        for source in members(state.sources(node, relation))
    }
    assert backward == edges


@example([("come_close", 4, 0b1100000)], [])
@given(changes, changes)
def test_many_edges_at_once_are_one_after_the_other(before: list[tuple], after: list[tuple]) -> None:
    quick, slow = State(HOUSE), State(HOUSE)
    found = []
    for state, at_once in ((quick, True), (slow, False)):
        play(state, before, at_once)
        mark = state.mark()
        play(state, after, at_once)
        changed = {slot: old for slot, old in state.changes_since(mark).items() if old != state.cells[slot]}
        found.append((state.cells, state.fingerprint(), graph(state), state.get_state(), changed))
    assert found[0] == found[1]


@given(orders, changes, changes)
def test_undo_returns_to_the_mark(order: str, before: list[tuple], after: list[tuple]) -> None:
    state = State(HOUSE, set_order=order)
    first = graph(state), state.fingerprint(), state.get_state()
    play(state, before)
    twin = State(HOUSE, set_order=order)
    play(twin, before)
    mark, there = state.mark(), (state.get_state(), graph(state), state.fingerprint())
    play(state, after)
    state.undo(mark)
    assert (state.get_state(), graph(state), state.fingerprint()) == there
    play(state, after)
    play(twin, after)
    assert listing(state) == listing(twin)
    state.undo()
    assert (graph(state), state.fingerprint(), state.get_state()) == first


@given(orders, changes, changes, changes)
def test_snapshots_are_exact_and_can_be_stored(
    order: str, before: list[tuple], elsewhere: list[tuple], after: list[tuple]
) -> None:
    state = State(HOUSE, set_order=order)
    play(state, before)
    snapshot = pickle.loads(pickle.dumps(state.get_state()))
    assert hash(snapshot) == hash(state.get_state())
    twin = State(HOUSE, set_order=order)
    play(twin, elsewhere)
    twin.set_state(snapshot)
    assert twin.get_state() == snapshot
    assert (twin.fingerprint(), graph(twin)) == (state.fingerprint(), graph(state))
    play(state, after)
    play(twin, after)
    assert twin.get_state() == state.get_state()
    assert listing(twin) == listing(state)
    assert twin.nodes_in_order() == state.nodes_in_order()


@given(changes, changes)
def test_fingerprints_differ_where_graphs_do(one: list[tuple], other: list[tuple]) -> None:
    first, second = State(HOUSE), State(HOUSE)
    play(first, one)
    first.fingerprint()
    play(second, other)
    assert (first.fingerprint() == second.fingerprint()) == (graph(first) == graph(second))


def test_nodes_and_edges_are_those_of_the_recordings() -> None:
    state = State(HOUSE)
    cup = HOUSE.index[CUP]
    state.set_states(cup, IS.CLEAN | IS.ON)
    state.add(cup, CLOSE, HOUSE.index[MILK])
    assert list(state.nodes())[cup] == (CUP, "cup", ["CLEAN", "ON"])
    assert sorted(state.edges()) == sorted([*EDGES, (CUP, "CLOSE", MILK)])


def test_changes_since_a_mark_and_orders_by_id() -> None:
    state = State(HOUSE)
    cup, table = HOUSE.index[CUP], HOUSE.index[TABLE]
    mark = state.mark()
    state.remove(cup, CLOSE, table)
    state.add(cup, CLOSE, table)
    state.add(table, HOLDS_RH, cup)
    assert sorted(state.changes_since(mark).values()) == sorted([1 << table, 0])
    state = State(HOUSE)
    for node in (9, 2, 5):
        state.add(0, CLOSE, node)
    assert state.in_order(0, CLOSE) == [2, 5, 9]
    refuses(ValueError, "lowest id", State, HOUSE, set_order="sorted")
