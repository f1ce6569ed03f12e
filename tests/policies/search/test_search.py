"""Methods of search over branches, trees by hand, and the lessons of lost episodes, in a corridor."""

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rollout.recorder import UnscoredError
from agentgym.trajectory import Ending, Reply, StepTable
from policies.scripted import RandomPolicy, tagged
from policies.search.lessons import demonstrations, preferences, to_table
from policies.search.methods import MCTS, Beam, BestOfN
from policies.search.reflexion import reflection_prompt, story_of, with_notes
from policies.search.simulator import Listed, Simulator
from policies.search.tree import Budget, Cost, Tree, Value
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import Scripted
from tests.refusals import refuses
from wrappers import VectorReplyParser


def make(num_envs: int = 1, limit: int | None = 20) -> Any:
    """The corridor, which takes replies."""
    return VectorReplyParser(CorridorVectorEnv(num_envs, max_episode_steps=limit, autoreset_mode="Disabled"))


def saying(*words: str) -> Scripted:
    """A policy that says these commands one after the other, whoever is asked."""
    return Scripted(*map(tagged, words), by="reply")


def asked(policy: Scripted) -> int:
    """How many replies a policy was asked for."""
    return sum(map(len, policy.seen))


class Priors:
    """Lists left and right with given probabilities; stands for `policies.search.simulator.Listed`.

    Args:
        left: probability of "left".
        cells: in which it lists something at all.
    """

    def __init__(self, left: float, cells: str = "01234") -> None:
        self.left, self.cells = left, cells

    def replies(self, observations: Any, infos: Any) -> tuple[Any, Any, list[int]]:
        both, priors = [Reply(tagged("left")), Reply(tagged("right"))], [self.left, 1 - self.left]
        listed = [text[-1] in self.cells for text in observations]
        return [[*both] * each for each in listed], [priors * each for each in listed], [0] * len(listed)


def search(
    method: Any, *, start: int = 2, num_envs: int = 1, trees: int = 1, budget: Budget | None = None,
    value: Value | None = None, policy: Any = None, seed: int = 0, until_won: bool = False, limit: int | None = 20,
    **options: Any,
) -> list[Tree]:  # fmt: skip
    """Search from the first state of episodes that begin in a cell; options are those of `Simulator`."""
    played = make(trees, limit)
    played.reset(seed=0, options={"index": start})
    value, budget = value or Value(), budget or Budget(steps=50)
    simulator = Simulator(make(num_envs, limit), policy or RandomPolicy(), value=value, **options)

    def plant(root: Any, task: str) -> Tree:
        return method.tree(root, task, value, budget, np.random.default_rng(seed))

    return simulator.run([played.snapshot(i) for i in range(trees)], plant, until_won=until_won)


def commands(nodes: Any) -> list[str]:
    """What is played on a path."""
    return [node.action for node in nodes]


def test_attempts_by_hand() -> None:
    # From cell 3: lost in three steps, won in three, won in one, won in three: gamma^3 < gamma^1.
    policy = saying(*["left"] * 3, *["left", "right", "right"], "right", *["left", "right", "right"])
    (tree,) = search(BestOfN(4), start=3, budget=Budget(steps=50), policy=policy)
    assert [(end.t, end.won) for end in tree.ends] == [(3, False), (3, True), (1, True), (3, True)]
    assert commands(tree.plan()) == ["right"]
    assert (tree.cost.steps, tree.cost.simulations) == (10, 4)
    assert (tree.root.visits, tree.root.value) == (4, pytest.approx((0 + 0.99**3 + 0.99 + 0.99**3) / 4))
    # A limit of two steps: cells 0 (score 0), 2 (score 1/2), then a budget of five steps ends the third in cell 3.
    policy = saying("left", "left", "right", "left", "right", "right")
    (tree,) = search(BestOfN(9), start=2, budget=Budget(steps=5), policy=policy, limit=2)
    assert [(end.key, end.ended) for end in tree.ends] == [("0", True), ("2", True), ("3", False)]
    assert tree.cost.steps == 5
    assert tree.best.key == "3"  # .99 * 3/4 against .99^2 * 1/2
    policy = saying("left", "left", "right", "right")
    (tree,) = search(BestOfN(9), policy=policy, until_won=True)
    assert (tree.cost.simulations, tree.cost.steps) == (2, 4)
    (tree,) = search(BestOfN(3), value=Value(rollout=0))
    assert all(end.ended for end in tree.ends)


def test_beams_by_hand() -> None:
    # From cell 2: cells 1 and 3, scores 1/4 and 3/4; a beam of one keeps 3. From there 2 was met before, and 4 wins.
    (tree,) = search(Beam(width=1, samples=2), value=Value(rollout=0), listed=Listed())
    assert commands(tree.plan()) == ["right", "right"]
    assert tree.cost.steps == 4
    assert sorted(child.key for child in tree.root.children) == ["1", "3"]
    kept = next(child for child in tree.root.children if child.key == "3")
    assert sorted((child.key, child.visits) for child in kept.children) == [("2", 0), ("4", 1)]
    assert next(child for child in tree.root.children if child.key == "1").children == []
    # Level 1: two steps. Level 2: from 3 and from 1, four steps; 0 and 4 end, 2 was met before: nothing is left.
    (tree,) = search(Beam(width=2, samples=2), value=Value(rollout=0), listed=Listed(), budget=Budget(steps=100))
    assert tree.cost.steps == 6
    assert sorted(child.t for child in tree.root.walk()) == [0, 1, 1, 2, 2, 2, 2]
    # By return, after a refused command (-.5) a state is behind one without; both are worth 0 themselves.
    policy = saying("jump", "left", "left", "left")
    value = Value("return", gamma=1.0, rollout=0)
    (tree,) = search(Beam(width=1, samples=2, merge=False), start=3, value=value, budget=Budget(steps=3), policy=policy)
    assert [child.action for child in tree.root.children] == ["jump", "left"]
    assert [len(child.children) for child in tree.root.children] == [0, 1]
    (tree,) = search(Beam(width=1, samples=1), value=Value(rollout=0), listed=Priors(0.2))
    assert commands(tree.plan()) == ["right", "right"]
    assert tree.cost.steps == 2
    (tree,) = search(Beam(width=2, samples=2), value=Value(rollout=0), listed=Listed(), budget=Budget(steps=3))
    assert tree.cost.steps == 3


#: Paths as words: "lr" is left, then right.
LETTER = {"left": "l", "right": "r"}
BY_HAND = MCTS(exploration=1.0, merge=False)
HALVES = Value("won", gamma=0.5, rollout=0)


def statistics(tree: Tree) -> dict[str, tuple[int, float]]:
    """Visits and sum of returns of every state by the way to it."""
    return {
        "".join(LETTER[node.action] for node in node.path): (node.visits, round(node.total, 9))
        for node in tree.root.walk()
    }


def test_tree_searches_by_hand() -> None:
    after = {1: "l", 2: "r", 3: "ll", 4: "rl", 5: "lr", 6: "rr"}
    for count in after:
        (tree,) = search(BY_HAND, budget=Budget(steps=count), value=HALVES, listed=Priors(0.55))
        assert [node for node in statistics(tree) if node] == sorted(
            (after[i] for i in range(1, count + 1)), key=lambda path: [*map("lr".index, path)]
        )
    assert statistics(tree) == {
        "": (6, 0.25), "l": (3, 0.0), "ll": (1, 0.0), "lr": (1, 0.0), "r": (3, 0.5), "rl": (1, 0.0), "rr": (1, 1.0),
    }  # fmt: skip
    assert commands(tree.plan()) == ["right", "right"]
    right = tree.root.children[1]
    assert tree.action_value(right) == pytest.approx(0.5 * 0.5 / 3)  # gamma times the mean of 0, 0 and .5
    # N = 6: left .55 * 2.449 / 4 = .337, right .083 + .45 * 2.449 / 4 = .359; in cell 3 right is closed, so left; there
    # nothing was played: left, .55.
    (tree,) = search(BY_HAND, budget=Budget(steps=7), value=HALVES, listed=Priors(0.55))
    assert (statistics(tree)["rll"], statistics(tree)["r"]) == ((1, 0.0), (4, 0.5))


class Naive:
    """The same search once more: no virtual loss, nothing kept but visits and returns by the way to a state."""

    def __init__(self, start: int, left: float, exploration: float, gamma: float, outcome: str, merge: bool) -> None:
        self.start, self.priors, self.c, self.gamma = start, {"l": left, "r": 1 - left}, exploration, gamma
        self.outcome, self.merge = outcome, merge
        self.visits, self.totals, self.met = {"": 0}, {"": 0.0}, {start: 0}
        self.dead: set[str] = set()

    def cell(self, path: str) -> int:
        return self.start + path.count("r") - path.count("l")

    def closed(self, path: str) -> bool:
        if path in self.dead or self.cell(path) in (0, 4):
            return True
        return all(path + step in self.visits and self.closed(path + step) for step in "lr")

    def chosen(self, path: str) -> str:
        """The best step: of equal ones a played one, of two played ones the first, of two new ones the likelier."""
        found, count, played = [], max(1, self.visits[path]), list(self.visits)
        for step, prior in self.priors.items():
            child, bonus = path + step, self.c * math.sqrt(count) * prior
            if child not in self.visits:
                mean = self.totals[path] / self.visits[path] if self.visits[path] else 0.0
                found.append((-mean - bonus, True, -prior, step))
            elif not self.closed(child):
                value = self.gamma * (self.totals[child] / self.visits[child])
                found.append((-value - bonus / (1 + self.visits[child]), False, played.index(child), step))
        return min(found)[-1]

    def step(self) -> None:
        path = ""
        while path in self.visits:
            path += self.chosen(path)
        self.visits[path], self.totals[path] = 0, 0.0
        cell = self.cell(path)
        if self.merge and cell not in (0, 4):
            if self.met.get(cell, 1000) <= len(path):
                self.dead.add(path)
                return
            self.met[cell] = len(path)
        gain = float(cell == 4) if self.outcome == "won" else cell / 4
        for length in range(len(path), -1, -1):
            self.visits[path[:length]] += 1
            self.totals[path[:length]] += gain
            gain *= self.gamma


@given(
    start=st.integers(1, 3),
    left=st.floats(0.05, 0.95).filter(lambda left: left != 0.5),  # equal ones are taken in random order
    exploration=st.sampled_from([0.0, 0.3, 1.0, 4.0]),
    gamma=st.sampled_from([0.5, 0.9, 1.0]),
    outcome=st.sampled_from(["won", "score"]),
    merge=st.booleans(),
    steps=st.integers(1, 40),
)
def test_agrees_with_a_naive_twin(start, left, exploration, gamma, outcome, merge, steps) -> None:
    method, value = MCTS(exploration=exploration, merge=merge), Value(outcome, gamma=gamma, rollout=0)
    (tree,) = search(method, start=start, budget=Budget(steps=steps), value=value, listed=Priors(left), limit=None)
    naive = Naive(start, left, exploration, gamma, outcome, merge)
    for _ in range(steps):
        if naive.closed(""):
            break
        naive.step()
    assert statistics(tree) == {path: (naive.visits[path], round(naive.totals[path], 9)) for path in statistics(tree)}
    assert set(naive.visits) == set(statistics(tree))


def test_exhausted_repeated_and_led_searches() -> None:
    # Cells 1, 2, 3 and the two ends: from cell 2 the states 1, 3, 0, 4 are new, and two steps lead back: six steps.
    (tree,) = search(MCTS(), budget=Budget(steps=1000), value=Value(rollout=0), listed=Listed())
    assert tree.root.closed
    assert tree.cost.steps == 6
    assert tree.best.won
    # width 2, widening 0: two open children each. Drawn in the root: left, left (again), right.
    policy = saying("left", "left", "right")
    method = MCTS(width=2.0, widening=0.0, merge=False)
    (tree,) = search(method, budget=Budget(steps=2), value=Value(rollout=0), policy=policy)
    assert [(child.action, child.draws) for child in tree.root.children] == [("left", 2), ("right", 1)]
    assert (tree.cost.steps, asked(policy)) == (2, 3)
    policy = saying("jump")  # refused: the state stays, so it was met before
    (tree,) = search(MCTS(draws=5), budget=Budget(steps=1000), value=Value(rollout=0), policy=policy)
    assert (tree.cost.steps, asked(policy), tree.root.closed) == (1, 5, True)

    def first(left: float) -> str:
        (tree,) = search(MCTS(), budget=Budget(steps=1), listed=Priors(left), value=Value(rollout=0))
        return tree.root.children[0].action

    assert (first(0.7), first(0.3)) == ("left", "right")
    # Priors of .9 and .1, and two sub-environments: while left is under way it counts as lost, so right is tried.
    (tree,) = search(BY_HAND, num_envs=2, budget=Budget(steps=2), value=HALVES, listed=Priors(0.9))
    assert sorted(child.action for child in tree.root.children) == ["left", "right"]
    (alone,) = search(BY_HAND, num_envs=1, budget=Budget(steps=2), value=HALVES, listed=Priors(0.9))
    assert statistics(alone) == {"": (2, 0.0), "l": (2, 0.0), "ll": (1, 0.0)}
    method = MCTS(exploration=1.0, merge=False, decide="visits")
    (tree,) = search(method, budget=Budget(steps=5), value=HALVES, listed=Priors(0.55))
    assert commands(tree.plan()) == ["left"]  # three visits against two
    assert search(method, budget=Budget(steps=0))[0].plan() == []
    # The corridor's refused command costs .5: returns lie in -.5 to 1, so a return of 0 counts as a third.
    (tree,) = search(MCTS(merge=False), budget=Budget(steps=1), value=Value("return", rollout=0), policy=saying("jump"))
    assert (tree.low, tree.high) == (-0.5, 1.0)
    assert tree.action_value(tree.root.children[0]) == -0.5
    firsts = set()
    for seed in range(8):
        (tree,) = search(MCTS(), budget=Budget(steps=1), value=Value(rollout=0), listed=Listed(), seed=seed)
        firsts.add(tree.root.children[0].action)
    assert firsts == {"left", "right"}


def test_costs_and_limits() -> None:
    budget = Budget(steps=10, tokens=20)
    assert budget.allows(Cost(steps=9, tokens=15), 1, 5)
    assert not budget.allows(Cost(steps=10), 1)
    assert not budget.allows(Cost(tokens=18), 1, 3)
    assert Budget(tokens=5).allows(Cost(steps=10**9))
    cost = Cost(1, 2, 3, 4)
    cost.add(Cost(10, 20, 30, 40))
    assert cost == Cost(11, 22, 33, 44)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.001, 1.0), st.integers(0, 50), st.integers(1, 9))
def test_a_share_is_of_what_is_left_and_parts_are_as_equal_as_can_be(steps, spent, share, tokens, count) -> None:
    left = Budget(steps=steps).left(Cost(steps=spent), share).steps
    assert left is not None
    assert min(1, max(0, steps - spent)) <= left <= max(0, steps - spent)
    parts = Budget(steps=steps, tokens=tokens).parts(count)
    for name, whole in (("steps", steps), ("tokens", tokens)):
        given = [getattr(part, name) for part in parts]
        assert (len(given), sum(given)) == (count, whole)
        assert max(given) - min(given) <= 1


def test_rewards_on_the_way_are_discounted_and_where_a_rollout_ends_it_is_judged() -> None:
    for outcome, worth in (("score", 0.75), ("won", 0.0), ("return", 0.0)):
        (tree,) = search(MCTS(), value=Value(outcome, rollout=0), budget=Budget(steps=1), listed=Priors(0.1))
        assert tree.root.children[0].value == worth  # cell 3 of 4
    # From cell 3: a refused command (-.5), then won (1): -.5 + .5 * 1 = 0.
    (tree,) = search(BestOfN(1), start=3, value=Value("return", gamma=0.5), policy=saying("jump", "right"))
    assert tree.root.value == 0.0
    # From cell 1: right (the tree's step), right, left: cell 2 of 4, two steps later.
    policy = saying("right", "right", "left")
    value = Value(gamma=0.5, rollout=2)
    (tree,) = search(MCTS(), start=1, value=value, budget=Budget(steps=3), policy=policy)
    assert (tree.root.children[0].value, tree.root.value) == (0.5**2 * 0.5, 0.5**3 * 0.5)


def test_a_critic_judges_states_in_which_the_episode_goes_on_and_no_others() -> None:
    asked = []

    def critic(observations, infos):
        asked.extend(zip(observations, infos["state_key"], strict=True))
        return [0.9] * len(observations)

    value = Value("won", gamma=1.0, rollout=0, critic=critic)
    (tree,) = search(MCTS(), start=3, value=value, budget=Budget(steps=2), listed=Priors(0.6))
    assert asked == [("cell 2", "2")]
    # .9 for cell 2; then, with Q = .9 + .6 * 1.5 / 2 against .9 + .4 * 1.5, right: won, 1.
    assert {child.key: child.value for child in tree.root.children} == {"2": 0.9, "4": 1.0}
    for answer in ([0.5, 0.5], [np.nan]):
        value = Value(rollout=0, critic=lambda observations, infos, answer=answer: answer)
        refuses(ValueError, "1 finite numbers", lambda value=value: search(MCTS(), value=value, budget=Budget(steps=1)))


@cases(
    "make, options, words",
    (MCTS, {"exploration": -1}, "exploration must be at least 0, got -1"),
    (MCTS, {"width": 0}, "width must be above 0, got 0"),
    (MCTS, {"decide": "luck"}, "unknown MCTS.decide 'luck'"),
    (BestOfN, {"n": 0}, "at least 1, got 0"),
    (Beam, {"width": 0}, "Beam.width must be at least 1, got 0"),
    (Value, {"outcome": "luck"}, "unknown Value.outcome 'luck'"),
    (Value, {"gamma": 1.1}, "gamma"),
    (Value, {"rollout": -1}, "rollout"),
    *((Budget, limits, "budget of steps or tokens") for limits in ({}, {"steps": -1}, {"tokens": -5})),
)
def test_wrong_options_say_what_was_expected(make, options, words) -> None:
    refuses(ValueError, words, make, **options)


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
    monkeypatch.setattr(sys.modules[__name__], "CorridorVectorEnv", Unjudged)
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
    for options in ({"gap": 0.0}, {"gap": 0.1, "visits": 0}):
        refuses(ValueError, "a gap above 0", preferences, [], **options)
    refuses(ValueError, "simulated nothing", lambda: to_table(search(MCTS(), budget=Budget(steps=0))))


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
