import numpy as np

from agentgym.trajectory import StepTable
from wrappers.pruning import transitions

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


def test_other_looking_actions():
    table = _table()
    steps = transitions(table, "bypass", no_change_actions=("take",))
    assert steps.scored.tolist() == [True, False, True, False, True, True, True]


def test_row_order_does_not_matter():
    order = [4, 0, 6, 3, 1, 5, 2]
    table, shuffled = _table(), _table(order)
    expected = _named(table, transitions(table))
    assert _named(shuffled, transitions(shuffled)) == [expected[i] for i in order]
