import numpy as np

from agentgym.trajectory import StepTable
from tests.wrappers.credit.random_tables import rebuild
from wrappers.credit.pruning import transitions

# One ALFWorld-like episode. After the refused action the world is still at the desk, whatever the text says.
EPISODE = [
    # state, action, next state, valid
    ("hall", "go to desk 1", "desk", True),
    ("desk", "fly", "Nothing happens.", False),
    ("Nothing happens.", "examine desk 1", "On the desk you see a mug.", True),
    ("On the desk you see a mug.", "take mug 1", "desk with mug", True),
    ("desk with mug", "go to desk 1", "desk with mug", True),
    ("desk with mug", "lookup mug", "shelf", True),  # its first word only begins like "look"
]


def _table(order=None):
    rows = [("g", "e", t, *step) for t, step in enumerate(EPISODE)]
    rows += [("g", "f", 0, "Nothing happens.", "go to desk 1", "desk", True)]
    rows = [rows[i] for i in (order if order is not None else range(len(rows)))]
    group, trajectory, t, state, action, next_state, valid = zip(*rows, strict=True)
    return StepTable.from_arrays(
        group=group, trajectory=trajectory, t=t, state=state, action=action, next_state=next_state, valid=valid,
        reward=np.zeros(len(rows)), won=[False] * len(rows),
    )  # fmt: skip


def _named(table, steps):
    return [(table.states[a], table.states[b], bool(c)) for a, b, c in zip(*steps, strict=True)]


def test_bypass():
    table = _table()
    assert _named(table, transitions(table, "bypass")) == [
        ("hall", "desk", True),
        ("desk", "desk", False),
        ("desk", "desk", False),
        ("desk", "desk with mug", True),
        ("desk with mug", "desk with mug", False),
        ("desk with mug", "shelf", True),
        ("Nothing happens.", "desk", True),  # a first state is taken as it is
    ]


def test_self_loops_stay_in_their_group():
    table = _table()
    bypassed, looped = transitions(table, "bypass"), transitions(table, "self_loop")
    assert (looped.source == bypassed.source).all()
    assert (looped.target == bypassed.target).all()
    assert looped.scored.all()


def test_keep_is_as_recorded():
    table = _table()
    steps = transitions(table, "keep")
    assert (steps.source == table.state).all()
    assert (steps.target == table.next_state).all()
    assert steps.scored.all()


def test_where_rows_are_missing_the_next_one_is_taken_as_it_is():
    # Without the step from desk to desk with mug (row 3), the next row begins where no row has led.
    full = _table()
    rows = [0, 1, 2, 4, 5]
    table = rebuild(full, np.array(rows))
    steps = _named(table, transitions(table))
    assert steps == [_named(full, transitions(full))[row] for row in rows]
    # Missing from its look on, it begins in a text of which nothing else is known.
    table = rebuild(full, np.array([0, 3]))
    assert _named(table, transitions(table))[1] == ("On the desk you see a mug.", "desk with mug", True)


def test_other_looking_actions():
    table = _table()
    steps = transitions(table, "bypass", no_change_actions=("take",))
    assert steps.scored.tolist() == [True, False, True, False, True, True, True]


def test_row_order_does_not_matter():
    order = [4, 0, 6, 3, 1, 5, 2]
    table, shuffled = _table(), _table(order)
    expected = _named(table, transitions(table))
    assert _named(shuffled, transitions(shuffled)) == [expected[i] for i in order]


def test_noise_states_change_nothing_even_where_the_step_counts_as_valid():
    # Published environments call every well-formed reply valid: the refused "fly" looks like a move to the noise.
    table = _table()
    table.valid[1] = True
    fooled = _named(table, transitions(table))
    assert fooled[1] == ("desk", "Nothing happens.", True)
    assert fooled[3] == ("Nothing happens.", "desk with mug", True)
    for invalid in ("bypass", "self_loop"):
        seen = transitions(table, invalid, noise_states=("Nothing happens.",))
        assert _named(table, seen) == _named(_table(), transitions(_table(), invalid))


def test_noise_states_are_compared_whole_and_a_first_state_is_no_noise():
    table = _table()
    table.valid[1] = True
    assert transitions(table, "bypass", noise_states=("Nothing",)).scored[1]
    # The last row begins in the noise text: there is no state before it, so it is taken as one.
    steps = transitions(table, "bypass", noise_states=("Nothing happens.",))
    assert _named(table, steps)[-1] == ("Nothing happens.", "desk", True)


def test_states_of_any_hashable_kind():
    table = StepTable.from_arrays(
        group=[0, 0], trajectory=[0, 0], t=[0, 1], state=[(0, 1), "Nothing happens."], action=[1, 2],
        next_state=["Nothing happens.", frozenset({3})], reward=[0, 0], won=[False, False],
    )  # fmt: skip
    steps = transitions(table, noise_states=("Nothing happens.",))
    assert _named(table, steps) == [((0, 1), (0, 1), False), ((0, 1), frozenset({3}), True)]


def test_keep_keeps_noise():
    table = _table()
    steps = transitions(table, "keep", noise_states=("Nothing happens.",))
    assert (steps.target == table.next_state).all()
