"""`collect`, `TableBuilder` and lanes on the corridor."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agentgym.rollout import collect
from agentgym.rollout.lanes import LaneError, Played, collect_lanes
from agentgym.rollout.recorder import TableBuilder, UnscoredError
from agentgym.trajectory import Reply, StepTable
from baselines.play.rollouts import Timed
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import Drawn, Scripted, corridor, of
from tests.refusals import refuses


class Coin(Drawn):
    """Left, right or jump by the generator; counts the places it was shown."""

    shown = 0

    def act(self, observations: Sequence[str], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        assert list(observations) == [f"cell {key}" for key in infos["state_key"]]
        self.shown += len(observations)
        return super().act(observations, infos, rng)


def coin() -> Coin:
    return Coin("left", "right", "jump")


def disabled(places: int) -> CorridorVectorEnv:
    return corridor(places, max_episode_steps=6)


def by_place(*words: str) -> Scripted:
    return Scripted(*words, by="place")


def test_collect_asks_only_for_running_places_and_keeps_replies() -> None:
    policy = coin()
    table = collect(disabled(4), policy, tasks=[{"index": 1}, {"index": 3}, {"index": 2}], group_size=2, seed=5)
    assert policy.shown == len(table)
    assert (table.n_trajectories, table.groups) == (6, ("start-1", "start-3", "start-2"))
    assert table.trajectory_group.tolist() == [0, 0, 1, 1, 2, 2]
    assert np.all(np.diff(table.trajectory) >= 0)
    assert [reply.text for reply in table.replies] == [table.actions[i] for i in table.action]
    for trajectory in table.to_trajectories():
        final = trajectory.steps[-1].next_state
        assert trajectory.won == (final == "4 [success]")
        assert trajectory.terminated == (final in ("4 [success]", "0 [failure]"))
        assert trajectory.truncated == (len(trajectory.steps) == 6)
        assert all(step.valid == (step.action != "jump") for step in trajectory.steps)


def test_collect_and_builders_repeat_themselves_and_refuse_what_they_cannot_do() -> None:
    tasks = [{"index": 2}, {"index": 2}, {}]
    first = collect(disabled(3), coin(), tasks=tasks, group_size=2, seed=1)
    second = collect(disabled(3), coin(), tasks=tasks, group_size=2, seed=1)
    assert first.to_trajectories() == second.to_trajectories()
    other = collect(disabled(3), coin(), tasks=tasks, group_size=2, seed=2)
    assert first.to_trajectories() != other.to_trajectories()
    assert (first.groups[:2], first.n_groups) == (("start-2", "start-2 (2)"), 3)
    refuses(ValueError, "autoreset DISABLED", collect, CorridorVectorEnv(2), coin(), tasks=[{}], seed=0)
    refuses(ValueError, "expected tasks", collect, disabled(2), coin(), tasks=[], seed=0)
    with pytest.raises(TypeError, match=r"Strings\.act must answer Reply objects, .*Reply\('left'\), got 'left'"):
        collect(disabled(2), Strings(), tasks=[{"index": 2}], seed=0)
    envs = of(VagueEnv, 2)
    with pytest.raises(TypeError, match=r"sub-environment 1: infos\['won'\] must be a bool \(or 0 or 1\), got str"):
        collect(envs, by_place("right", "left"), tasks=[{"index": 1}], group_size=2, seed=0)
    envs = CorridorVectorEnv(2)
    builder = TableBuilder(2, AutoresetMode.SAME_STEP)
    builder.reset(envs.reset(seed=0)[1])
    refuses(ValueError, "no episode has finished", builder.table)
    builder = TableBuilder(1, AutoresetMode.DISABLED)
    refuses(ValueError, "no episode runs in sub-environment 0", builder.give_up, 0, Reply(""))


class Strings:
    """Answers bare strings."""

    def act(self, observations: Sequence[str], infos: Mapping[str, Any], rng: np.random.Generator) -> Any:
        return ["left"] * len(observations)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_builder_cuts_a_stream_into_episodes(mode: AutoresetMode) -> None:
    envs = CorridorVectorEnv(3, max_episode_steps=4, autoreset_mode=mode)
    builder = TableBuilder(3, mode)
    rng = np.random.default_rng(0)
    builder.reset(envs.reset(seed=0)[1])
    for _ in range(40):
        actions = [("left", "right", "jump")[i] for i in rng.integers(0, 3, 3)]
        builder.step(actions, *envs.step(actions)[1:])
    table = builder.table()
    assert table.n_trajectories > 20
    check_corridor_dynamics(table)


def check_corridor_dynamics(table: StepTable) -> None:
    """Every recorded transition is one the corridor makes, and trajectories are connected."""
    for trajectory in table.to_trajectories():
        assert trajectory.steps[0].state == str(trajectory.group).removeprefix("start-")
        for step, following in zip(trajectory.steps, [*trajectory.steps[1:], None], strict=True):
            move = {"left": -1, "right": 1, "jump": 0}[str(step.action)]
            cell = int(str(step.state)) + move
            assert str(step.next_state).split(" ")[0] == str(cell)
            assert step.reward == {True: 1.0 if cell == 4 else 0.0, False: -0.5}[step.valid]
            if following is not None:
                assert following.state == step.next_state


class UnjudgedEnv(CorridorEnv):
    """A corridor whose judge never looks into the cell at the left end."""

    def describe(self, valid: bool) -> dict[str, Any]:
        lost = self.cell == 0
        return {**super().describe(valid), "unscored": lost, "failure": "the judge sleeps" if lost else ""}


def test_unscored_episodes_are_left_out_and_counted_and_a_success_at_a_limit_has_a_state_of_its_own() -> None:
    envs = of(UnjudgedEnv, 2)
    with pytest.warns(RuntimeWarning, match="2 of 4 episodes have no score and are left out.*the judge sleeps"):
        table = collect(envs, by_place("left", "right"), tasks=[{"index": 2}], group_size=4, seed=0)
    assert table.won.all()
    assert (table.n_trajectories, len(table)) == (2, 4)
    with pytest.warns(RuntimeWarning), pytest.raises(UnscoredError, match="none of 2 episodes could be scored"):
        collect(envs, by_place("left"), tasks=[{"index": 2}], group_size=2, seed=0)
    table = collect(of(LimitedEnv, 2), by_place("left", "right"), tasks=[{"index": 3}], group_size=2, seed=0)
    assert table.truncated.all()
    assert not table.terminated.any()
    ends = {bool(table.won[row]): table.states[table.next_state[row]] for row in range(2)}
    assert ends[True].endswith(" [success]")
    assert not ends[False].endswith("]")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_builder_leaves_them_out_in_every_mode(mode: AutoresetMode) -> None:
    envs = of(UnjudgedEnv, 2, mode)
    builder = TableBuilder(2, mode)
    builder.reset(envs.reset(seed=0, options=[{"index": 1}, {"index": 3}])[1])
    builder.step(["left", "right"], *envs.step(["left", "right"])[1:])
    assert builder.unscored == ["the judge sleeps"]
    assert builder.table().won.tolist() == [True]


class LimitedEnv(CorridorEnv):
    """A corridor whose ends do not end the episode; a step from the start does, as a limit of its own."""

    def act(self, command: str) -> tuple[float, bool, bool]:
        reward, _, valid = super().act(command)
        return reward, False, valid

    def is_cut(self) -> bool:
        return True


def test_an_environment_that_refuses_the_whole_first_batch_is_warned_of_once() -> None:
    envs = disabled(2)
    with warnings.catch_warnings(record=True, action="always") as caught:
        for _ in range(2):
            table = collect(envs, by_place("jump"), tasks=[{"index": 2}], group_size=3, seed=0)
    (warning,) = caught
    assert "refused every action of the first 2 episodes, the last was 'jump': " in str(warning.message)
    assert warning.filename == __file__
    assert not table.valid.any()
    with warnings.catch_warnings(action="error"):  # one that was accepted is enough, and later batches are free
        collect(disabled(2), by_place("jump", "left"), tasks=[{"index": 2}], group_size=2, seed=0)
        collect(disabled(1), Scripted("left", "left", *["jump"] * 6), tasks=[{"index": 2}], group_size=2, seed=0)


class Forgetful:
    """Walks to the right, and has no room for what it sees in some cells."""

    def __init__(self, *cells: str) -> None:
        self.cells, self.shown = cells, list[str]()

    def act(self, observations: Sequence[str], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        self.shown += observations
        right, none = Reply("right", (1,), (2,), (-0.5,), "stop"), Reply("", finish="prompt-too-long")
        return [none if seen in self.cells else right for seen in observations]


def test_an_episode_ends_where_the_prompt_does_not_fit_and_others_play_on(tmp_path: Path) -> None:
    policy = Forgetful("cell 3", "cell 1")
    table = collect(disabled(3), policy, tasks=[{"index": 2}, {"index": 1}], group_size=2, seed=0)
    # From cell 2 one step is made; from cell 1 none. Nobody asks again.
    assert policy.shown == ["cell 2", "cell 2", "cell 1", "cell 3", "cell 3", "cell 1"]
    expected = [
        (["2", "3"], ["right", ""], ["3", "3"], [True, False], ["stop", "prompt-too-long"]),
        (["1"], [""], ["1"], [False], ["prompt-too-long"]),
    ]
    for one, (states, actions, after, valid, finishes) in zip(table.to_trajectories()[::2], expected, strict=True):
        assert [step.state for step in one.steps] == states
        assert [step.action for step in one.steps] == actions
        assert [step.next_state for step in one.steps] == after
        assert [step.valid for step in one.steps] == valid
        assert [step.reply.finish for step in one.steps if step.reply] == finishes
        assert {step.reward for step in one.steps} == {0.0}
        assert (one.won, one.terminated, one.truncated) == (False, False, True)
    assert table.trajectory_return.tolist() == [0.0] * 4
    table.to_jsonl(tmp_path / "table.jsonl")
    assert StepTable.from_jsonl(tmp_path / "table.jsonl").to_trajectories() == table.to_trajectories()
    envs = disabled(2)
    tasks, done = [{"index": 3}, {"index": 1}], list[int]()
    with warnings.catch_warnings(action="error"):  # a prompt that did not fit is no refused action
        found = collect(envs, Forgetful("cell 1"), tasks=tasks, seed=0, progress=done.append)
        none = collect(disabled(2), Forgetful("cell 1"), tasks=tasks[1:], group_size=2, seed=0)
    assert found.trajectory_won.tolist() == [True, False]
    assert [table.states[i] for table in (found,) for i in table.next_state] == ["4 [success]", "1"]
    assert done == [2]
    assert len(none) == 2
    assert collect(CorridorEnv(), Forgetful("cell 1"), tasks=tasks, seed=0).to_trajectories() == found.to_trajectories()


class VagueEnv(CorridorEnv):
    """Says in words whether an episode was won."""

    def describe(self, valid: bool) -> dict[str, Any]:
        return {**super().describe(valid), "won": "no"}


TASKS = [{"index": 1}, {"index": 3}, {"index": 2}, {}, {"index": 3}]


class Shuffled(Coin):
    """Left, right or jump by the generator of the request; who is answered when is drawn by another one."""

    def __init__(self, delays: int, fail: Any = None) -> None:
        super().__init__("left", "right", "jump")
        self.delays, self.fail, self.closed = delays, fail, 0
        self.order: list[int] = []

    def reply_queue(self) -> Any:
        return ShuffledQueue(self)


class ShuffledQueue:
    def __init__(self, policy: Shuffled) -> None:
        self.policy = policy
        self.waiting: dict[int, Reply] = {}
        self.delays = np.random.default_rng(policy.delays)

    def put(self, names: Any, observations: Any, infos: Any, rngs: Any) -> None:
        assert not self.waiting.keys() & set(names)
        for k, (name, rng) in enumerate(zip(names, rngs, strict=True)):
            row = {key: column[k : k + 1] for key, column in infos.items()}
            (self.waiting[name],) = self.policy.act(observations[k : k + 1], row, rng)

    def get(self) -> Any:
        chosen = self.delays.permutation(sorted(self.waiting))[: self.delays.integers(1, len(self.waiting) + 1)]
        self.policy.order += chosen.tolist()
        came = [(name, self.waiting.pop(name)) for name in chosen.tolist()]
        return [(name, OSError("the line is dead") if name == self.policy.fail else reply) for name, reply in came]

    def close(self) -> None:
        self.policy.closed += 1


def play(lanes: int, delays: int, places: int = 1, **given: Any) -> Any:
    envs = [disabled(places) for _ in range(lanes)]
    return collect_lanes(envs, Shuffled(delays), tasks=TASKS, group_size=4, seed=3, **given)


def test_one_lane_is_collect_and_any_number_in_any_timing_is_the_same_table() -> None:
    lockstep = collect(disabled(6), Shuffled(0), tasks=TASKS, group_size=4, seed=3)
    one = collect_lanes([disabled(6)], Shuffled(0), tasks=TASKS, group_size=4, seed=3)
    assert one.to_trajectories() == lockstep.to_trajectories()
    assert one.groups == lockstep.groups == ("start-1", "start-3", "start-2", "start-2 (2)", "start-3 (2)")
    # The seeds of episodes are those of collect: a task drawn at random (the fourth) is the same one.
    for seed in range(4):
        given: Any = {"tasks": [{}, {}], "seed": seed}
        lanes = collect_lanes([disabled(1), disabled(1)], Shuffled(0), **given)
        assert lanes.groups == collect(disabled(2), Shuffled(0), **given).groups
    tables = [play(lanes, delays, places) for lanes, delays, places in ((2, 0, 1), (4, 1, 1), (8, 2, 1), (3, 3, 4))]
    first = tables[0].to_trajectories()
    assert all(table.to_trajectories() == first for table in tables[1:])
    # Groups are whole and in the order of the tasks, episodes are named by their number.
    assert tables[0].groups == ("start-1", "start-3", "start-2", "start-2 (2)", "start-3 (2)")
    assert tables[0].trajectory_group.tolist() == [group for group in range(5) for _ in range(4)]
    assert tables[0].trajectories == tuple(range(20))
    check_corridor_dynamics(collect_lanes([disabled(1), disabled(2)], Shuffled(0), tasks=TASKS[:3], seed=3))
    # The delays do shuffle, and another seed is another table.
    orders = [Shuffled(0), Shuffled(1)]
    for policy in orders:
        collect_lanes([disabled(1), disabled(2)], policy, tasks=TASKS, seed=3)
        assert policy.closed == 1
    assert orders[0].order != orders[1].order
    other = collect_lanes([disabled(1), disabled(1)], Shuffled(0), tasks=TASKS, group_size=4, seed=4)
    assert other.to_trajectories() != first


def test_a_policy_without_a_queue_is_asked_in_turn_and_told() -> None:
    with pytest.warns(RuntimeWarning, match=r"Coin has no reply_queue\(\): lanes are asked one after the other"):
        table = collect_lanes([disabled(2), disabled(2)], coin(), tasks=TASKS, group_size=4, seed=3)
    assert table.to_trajectories() == play(2, 0).to_trajectories()

    class Other(Shuffled):
        """Overrides `act` alone: the queue of its parent is not meant."""

        act = Always.act
        word = "right"

    with pytest.warns(RuntimeWarning, match="Other has no reply_queue"):
        assert collect_lanes([disabled(2), disabled(2)], Other(0), tasks=[{"index": 1}], seed=0).won.all()


def test_a_failing_lane_is_named_and_nothing_is_lost() -> None:
    whole = play(2, 0)
    broken = disabled(2)
    steps = broken.step
    left = [3]  # steps until it breaks

    def step(actions: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise ConnectionError("the simulator is gone")
        return steps(actions)

    broken.step = step  # type: ignore[method-assign]
    policy = Shuffled(1)
    with pytest.raises(LaneError, match=r"1 of 3 lanes failed \(1\); lane 1, .*: ConnectionError: the simulator") as e:
        collect_lanes([disabled(2), broken, disabled(2)], policy, tasks=TASKS, group_size=4, seed=3)
    error = e.value
    assert isinstance(error.failures[1], ConnectionError)
    assert error.__cause__ is error.failures[1]
    # Lanes of two places: those of lane 1 are 2, 3, then 8, 9, ..; the others have played theirs.
    theirs = {number for number in range(20) if number // 2 % 3 == 1}
    assert set(range(20)) - theirs <= error.finished.keys()
    assert theirs - error.finished.keys()
    assert policy.closed == 1
    # The same call goes on, in other lanes and another timing, to the table that there would have been.
    assert play(4, 5, finished=error.finished).to_trajectories() == whole.to_trajectories()


def test_a_reply_that_fails_is_its_lane_s_failure_and_what_an_interrupted_call_finished_is_kept() -> None:
    envs = [disabled(1) for _ in range(4)]
    with pytest.raises(LaneError, match=r"lane 2, .* with episode 6: OSError: the line is dead\. The 16 finished"):
        # Lane 2 of 4 plays the episodes 2, 6, 10, .. of 20: one is finished, four are missing.
        collect_lanes(envs, Shuffled(2, fail=6), tasks=TASKS, group_size=4, seed=3)
    kept: Any = {}

    def interrupt(count: int) -> None:
        if count == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(3, 0, finished=kept, progress=interrupt)
    assert len(kept) == 7
    counts: list[int] = []
    assert play(2, 1, finished=kept, progress=counts.append).to_trajectories() == play(2, 0).to_trajectories()
    assert (counts[0], counts[-1], len(kept)) == (7, 20, 20)


def test_lanes_refuse_what_they_cannot_do() -> None:
    one, other = disabled(1), disabled(1)
    first, third = Played("start-1", "not scored"), Played("start-3", "not scored")
    given: Any = {"tasks": TASKS, "seed": 0}
    for lanes, more, words in (
        ([one, one], {}, "each another environment, got 2"), ([], {}, "at least one lane"),
        ([one], {"finished": {0: first}}, "use at least two lanes"), ([one, other], {"tasks": []}, "expected tasks"),
        ([one, other], {"finished": {9: first}}, r"another call: episodes \[9\], here there are 5"),
        ([one, other], {"finished": {0: third}, "group_size": 2},
         "task 0 .* is 'start-3' in one episode and 'start-1' in another"),
    ):  # fmt: skip
        refuses(ValueError, words, collect_lanes, lanes, Shuffled(0), **given | more)
    with pytest.warns(RuntimeWarning), pytest.raises(TypeError, match=r"Strings\.act must answer Reply .*got 'left'"):
        collect_lanes([one, other], Strings(), **given)


class Always(Shuffled):
    reply_queue = Shuffled.reply_queue

    def __init__(self, word: str) -> None:
        super().__init__(0)
        self.word = word

    def act(self, observations: Any, infos: Any, rng: np.random.Generator) -> list[Reply]:
        return [Reply(self.word)] * len(observations)


def test_refused_and_unscored_episodes_of_all_lanes_are_warned_of_once_and_counted() -> None:
    with pytest.warns(RuntimeWarning, match=r"refused every action of the first 5 episodes, the last was 'jump'"):
        collect_lanes([disabled(1), disabled(1)], Always("jump"), tasks=TASKS, seed=0)
    given: Any = {"tasks": [{"index": 1}, {"index": 3}], "group_size": 6, "seed": 3}
    two, three = ([of(UnjudgedEnv, 1) for _ in range(lanes)] for lanes in (2, 3))
    with pytest.warns(RuntimeWarning, match=r"of 12 episodes have no score and are left out; the first: "):
        table = collect_lanes(three, Shuffled(0), **given)
    with pytest.warns(RuntimeWarning, match="of 12 episodes have no score"):
        other = collect_lanes(two, Shuffled(1), **given)
    assert table.to_trajectories() == other.to_trajectories()
    assert 0 < table.n_trajectories < 12
    assert table.won.all()
    refuses(UnscoredError, "none of 12 episodes could be scored", collect_lanes, two, Always("left"), **given)


class Odd(ShuffledQueue):
    """A policy that is its own queue, and answers what a function makes of the names that it was given."""

    act = Shuffled.act

    def __init__(self, answer: Any) -> None:
        super().__init__(Shuffled(0))
        self.answer = answer

    def reply_queue(self) -> "Odd":
        return self

    def get(self) -> Any:
        return self.answer([*self.waiting])


@pytest.mark.parametrize("timed", [False, True])
@cases(
    "answer, error, words",
    (lambda names: [], ValueError, r"returned nothing while 4 requests are .*\(0, 1, 2, 3\): it must wait"),
    (lambda names: None, TypeError, r"must return a list of pairs \(name, reply\).*, got None"),
    (lambda names: [Reply("left")], TypeError, r"must return a list of pairs"),
    (lambda names: [(names[0], Reply("left"))] * 2, ValueError, r"answered 0 twice: each name given to `put` is"),
    (lambda names: [(77, Reply("left"))], ValueError, r"answered 77, which is not pending: .* are 0, 1"),
    (lambda names: [(0, Reply("left"))], ValueError, r"answered 0, which is not pending: .*pending are 1, 2, 3"),
)  # fmt: skip
def test_a_queue_that_breaks_its_promise_is_named(answer: Any, error: Any, words: str, timed: bool) -> None:
    lanes = [corridor(2, max_episode_steps=4) for _ in range(2)]
    odd = Odd(answer)
    policy: Any = Timed(odd) if timed else odd
    with pytest.raises(error, match=rf"^Odd\.get {words}"):
        collect_lanes(lanes, policy, tasks=[{"index": 1}, {"index": 2}], group_size=2, seed=0)
    assert odd.policy.closed == 1
