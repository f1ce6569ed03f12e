"""Lessons of lost episodes, and reflexion."""

import numpy as np
import pytest

from agentgym.rollout.recorder import UnscoredError
from agentgym.trajectory import Ending, StepTable
from policies.scripted import tagged
from policies.search.lessons import demonstrations, preferences, to_table
from policies.search.methods import MCTS, BestOfN
from policies.search.reflexion import reflection_prompt, story_of, with_notes
from policies.search.tree import Budget, Value
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.policies.search import searching
from tests.policies.search.searching import Priors, saying, search
from tests.policies.search.test_methods import BY_HAND, HALVES
from tests.refusals import refuses


def six():
    """The six simulations of test_mcts: l, r, ll, rl, lr, rr."""
    return search(BY_HAND, budget=Budget(steps=6), value=HALVES, listed=Priors(0.55))


def test_every_simulated_step_stands_in_the_table_once() -> None:
    table = to_table(six())
    rows = [
        (table.states[s], table.actions[a], table.states[n], t)
        for s, a, n, t in zip(table.state, table.action, table.next_state, table.t, strict=True)
    ]
    assert rows == [
        ("2", "left", "1", 0), ("2", "right", "3", 0), ("1", "left", "0 [failure]", 1),
        ("3", "left", "2", 1), ("1", "right", "2", 1), ("3", "right", "4 [success]", 1),
    ]  # fmt: skip
    assert table.parent.tolist() == [-1, -1, 0, 1, 0, 1]
    assert table.endings == (
        Ending.CUT, Ending.CUT, Ending.FAILURE, Ending.CUT, Ending.CUT, Ending.SUCCESS,
    )  # fmt: skip
    assert table.groups == ("start-2",)


def test_rollouts_are_rows_too_and_tables_of_several_searches_keep_them_apart(tmp_path) -> None:
    trees = search(MCTS(), trees=2, num_envs=2, budget=Budget(steps=30), listed=Priors(0.4))
    table = to_table(trees)
    assert len(table) == sum(tree.cost.steps for tree in trees)
    assert table.n_trajectories == sum(tree.cost.simulations for tree in trees)
    table.to_jsonl(tmp_path / "table.jsonl")
    assert StepTable.from_jsonl(tmp_path / "table.jsonl").parent.tolist() == table.parent.tolist()
    won = [i for i in range(table.n_trajectories) if table.trajectory_won[i]]
    assert won
    for trajectory in won:
        chain = table.chain(trajectory)
        assert (table.t[chain].tolist(), table.states[table.state[chain[0]]]) == (list(range(len(chain))), "2")


class Unjudged(CorridorVectorEnv):
    """Nobody knows how good it is to end in cell 0."""

    class env_class(CorridorEnv):  # noqa: N801
        def describe(self, valid):
            return super().describe(valid) | {"unscored": self.cell == 0}


def test_what_could_not_be_scored_is_in_no_table_but_for_what_others_went_on_from(monkeypatch) -> None:
    monkeypatch.setattr(searching, "CorridorVectorEnv", Unjudged)
    (tree,) = search(MCTS(), budget=Budget(steps=60), listed=Priors(0.5))
    unscored = [number for number, end in enumerate(tree.ends) if end.label == "0"]
    went_on = {node.before.simulation for end in tree.ends for node in end.path if node.before.parent is not None}
    assert went_on & set(unscored)  # others were cut from one of them
    table = to_table([tree])
    assert set(table.endings) <= {Ending.SUCCESS, Ending.CUT}
    assert table.trajectories == tuple(number for number in range(len(tree.ends)) if number not in unscored)
    for trajectory, number in enumerate(table.trajectories):
        path = [node.before.label for node in tree.ends[number].path]
        assert [table.states[state] for state in table.state[table.chain(trajectory)]] == path
    with pytest.raises(UnscoredError, match="none of the 2 simulations could be scored"):
        to_table(search(BestOfN(2), policy=saying("left")))


def test_demonstrations_and_pairs() -> None:
    assert [reply.text for reply in demonstrations(six())] == [tagged("right")] * 2
    assert demonstrations(search(BestOfN(1), policy=saying("left"))) == []

    class Student:
        def demonstrate(self, observation, text):
            return f"{observation}: {text}"

    assert demonstrations(six(), Student()) == [f"cell 2: {tagged('right')}", f"cell 3: {tagged('right')}"]
    # In the root left is worth 0, right .5 * .5 / 3 = .083; in cell 3 left is worth 0, right .5; in cell 1 nothing won.
    pairs = preferences(six(), gap=0.05)
    assert [(pair.state, pair.chosen.text, pair.rejected.text) for pair in pairs] == [
        ("2", tagged("right"), tagged("left")), ("3", tagged("right"), tagged("left")),
    ]  # fmt: skip
    assert [pair.gap for pair in pairs] == pytest.approx([0.25 / 3, 0.5])
    assert pairs[0].observation == "cell 2"
    assert [pair.state for pair in preferences(six(), gap=0.1)] == ["3"]
    assert [pair.state for pair in preferences(six(), gap=0.05, visits=2)] == ["2"]
    (tree,) = search(MCTS(), budget=Budget(steps=6), value=Value(rollout=0), listed=Priors(0.5))
    assert all(pair.gap > 0 for pair in preferences([tree], gap=0.01))
    merged = [node for node in tree.root.walk() if node.closed and not node.ended and not node.visits]
    assert merged  # back in cell 2
    refuses(ValueError, "simulated nothing", lambda: to_table(search(MCTS(), budget=Budget(steps=0))))


@pytest.mark.parametrize("options", [{"gap": 0.0}, {"gap": 0.1, "visits": 0}])
def test_pairs_without_a_gap_are_an_error(options) -> None:
    refuses(ValueError, "a gap above 0", preferences, [], **options)


def said(*words):
    return tuple({"role": role, "content": text} for role, text in zip(words[::2], words[1::2], strict=True))


def test_notes_stand_before_what_is_seen() -> None:
    messages = (
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    )
    shown = with_notes(messages, ["one", "two", " ", "three\nlines", "four"])
    assert (shown[0], shown[2]) == (messages[0], messages[2])
    assert shown[1]["content"].splitlines()[1:] == ["- two", "- three lines", "- four", "", "a"]
    assert with_notes(messages, [""]) == messages
    assert messages[1]["content"] == "a"
    content = [{"type": "image", "image": np.zeros((1, 1, 3), np.uint8)}, {"type": "text", "text": "a"}]
    shown = with_notes(({"role": "user", "content": content},), ["one"])[0]["content"]
    assert [part["type"] for part in shown] == ["text", "image", "text"]
    assert story_of(({"role": "user", "content": content},)) == "Observation: a"


def test_a_note_is_asked_for_with_the_attempt_its_end_and_the_notes_before_it():
    story = story_of(said("system", "rules", "user", "a", "assistant", "b"))
    assert story == "Observation: a\nReply: b"
    system, user = reflection_prompt(story, ["one", "two", "three", "four"])
    assert (system["role"], user["role"]) == ("system", "user")
    places = [user["content"].index(part) for part in (story, "- two", "- four", "FAILED")]
    assert places == sorted(places)
    assert "- one" not in user["content"]
    assert "- " not in reflection_prompt(story, [])[1]["content"]
