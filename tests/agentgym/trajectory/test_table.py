"""StepTable: columns, checks, shuffling, JSON lines."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agentgym.adapter import adapt
from agentgym.rollout import collect
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import Ending, Reply, StepTable
from tests.cases import cases
from tests.playing import Scripted
from tests.refusals import refuses

# Two groups; trajectory "b" has two steps and was truncated, "a" and "c" one step each.
COLUMNS = {
    "group": ["g", "g", "g", "h"], "trajectory": ["a", "b", "b", "c"], "t": [0, 0, 1, 0],
    "state": ["s", "s", "u", "s"], "action": ["right", "left", "left", "right"],
    "next_state": ["goal", "u", "s", "pit"], "reward": [1.0, -0.1, -0.1, 0.0], "valid": [True, True, False, True],
    "terminated": [True, False, False, True], "truncated": [False, False, True, False],
    "won": [True, False, False, False],
}  # fmt: skip


def test_columns_offsets_endings_in_any_order_and_the_repr() -> None:
    table = StepTable.from_arrays(**COLUMNS)
    assert (table.states, table.next_state.tolist()) == (("s", "u", "goal", "pit"), [2, 1, 0, 3])
    assert (table.offsets.tolist(), table.last.tolist()) == ([0, 1, 3, 4], [0, 2, 3])
    assert (table.trajectory_group.tolist(), table.trajectory_won.tolist()) == ([0, 0, 1], [True, False, False])
    assert table.trajectory_return.tolist() == [1.0, -0.2, 0.0]
    table = StepTable.from_arrays(**{**COLUMNS, "terminated": [True, False, False, False]})
    assert table.endings == (Ending.SUCCESS, Ending.TIME_LIMIT, Ending.CUT)
    assert [trajectory.ending for trajectory in table.to_trajectories()] == list(table.endings)
    assert StepTable.from_arrays(**COLUMNS).endings[2] is Ending.FAILURE
    # Won in the very step that the limit allows last; and nobody can say.
    assert Ending.of(won=True, terminated=False, truncated=True) is Ending.SUCCESS
    assert Ending.of(won=True, terminated=True, truncated=False, unscored=True) is Ending.UNSCORED
    shuffle = [2, 3, 1, 0]
    table = StepTable.from_arrays(**{name: [column[i] for i in shuffle] for name, column in COLUMNS.items()})
    assert [table.states[i] for i in table.state] == ["u", "s", "s", "s"]
    ordered = [shuffle[i] for i in table.order]
    # Trajectories are numbered by first appearance: b, c, a; within b, t = 0 comes before t = 1.
    assert ordered == [1, 2, 3, 0]
    assert table.truncated[table.last].tolist() == [True, False, False]
    table = StepTable.from_arrays(
        group=np.zeros(3, int), trajectory=np.array([7, 7, 9]), t=np.array([0, 1, 0]), state=np.array([5, 6, 5]),
        action=np.array([1, 1, 0]), next_state=np.array([6, 8, 5]), reward=np.zeros(3), won=np.array([1, 1, 0]),
        truncated=np.array([0, 0, 1]),
    )  # fmt: skip
    assert (table.states, table.trajectories) == ((5, 6, 8), (7, 9))
    assert table.valid.all()
    assert table.terminated.tolist() == [False, True, False]
    table = StepTable.from_arrays(**COLUMNS)
    both = StepTable.concatenate([table, StepTable.from_arrays(**{**COLUMNS, "trajectory": ["d", "e", "e", "f"]})])
    assert (len(both), both.n_groups, both.n_trajectories) == (8, 2, 6)
    table = StepTable.from_arrays(**COLUMNS)
    refuses(ValueError, "trajectory 'a' is in several tables", StepTable.concatenate, [table, table])
    columns = "group, trajectory, t, state, next_state, action, valid, reward, terminated, truncated, won"
    table = StepTable.from_arrays(**COLUMNS, replies=[Reply("x")] * 4)
    assert repr(table) == f"StepTable(4 rows, 3 trajectories, 2 groups, 33.3% won; columns: {columns}, replies)"
    none = {name: [] for name in COLUMNS}
    assert repr(StepTable.from_arrays(**none)).startswith("StepTable(0 rows, 0 trajectories, 0 groups, empty;")


def test_to_pandas_names_what_ids_stand_for() -> None:
    pytest.importorskip("pandas")
    shuffle = [2, 0, 3, 1]
    columns = {name: [column[i] for i in shuffle] for name, column in COLUMNS.items()}
    table = StepTable.from_arrays(**columns, replies=[Reply("go"), None, Reply("no"), Reply("")])
    frame = table.to_pandas()
    assert {name: frame[name].tolist() for name in columns} == columns
    assert [reply if isinstance(reply, str) else None for reply in frame["reply"]] == ["go", None, "no", ""]
    assert frame.shape == (4, 12)
    frame.loc[0, "reward"] = 7.0  # a copy
    assert table.reward[0] == -0.1
    ids = {**columns, "state": [(0, 1), (0, 2), (0, 1), (5, 5)], "next_state": [1, 2, 3, 4]}
    assert StepTable.from_arrays(**ids).to_pandas()["state"].tolist() == ids["state"]


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    refuses(ImportError, r"pip install .*\[pandas\]'", lambda: StepTable.from_arrays(**COLUMNS).to_pandas())


def test_jsonl_keeps_everything_replies_may_be_missing_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    whole = Reply("<action>right</action>", (1, 2), (3,), (-0.25,), "stop", 2, ((3, 4),))
    replies = [whole, None, Reply("left"), Reply("√", (), (4, 5), (-1.0, -2.0))]
    table = StepTable.from_arrays(**COLUMNS, replies=replies)
    table.to_jsonl(tmp_path / "rollout.jsonl")
    again = StepTable.from_jsonl(tmp_path / "rollout.jsonl")
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    assert (again.states, again.actions, again.groups) == (table.states, table.actions, table.groups)
    assert again.replies.tolist() == replies
    table = StepTable.from_arrays(**COLUMNS)
    table.to_jsonl(tmp_path / "x.jsonl")
    assert StepTable.from_jsonl(tmp_path / "x.jsonl").replies is None
    assert StepTable.from_trajectories(table.to_trajectories()).replies is None
    path = tmp_path / "x.jsonl"
    path.write_text(f"{json.dumps(LINE)}\n{json.dumps({**LINE, 'trajectory': 8})}\n\n", encoding="utf-8")
    assert StepTable.from_jsonl(path).n_trajectories == 2
    path.write_text("\n \n", encoding="utf-8")
    refuses(ValueError, r"x.jsonl: no line holds a trajectory", StepTable.from_jsonl, path)


@cases(
    "change, message",
    ({"reward": [1.0, 0.0, np.nan, 0.0]}, r"row 2 \(trajectory 'b', t=1\): reward is not finite"),
    ({"reward": [1.0, 0.0, -2e300, 0.0]}, r"row 2 \(trajectory 'b', t=1\): reward is beyond 1e\+300"),
    ({"group": ["g", "g", "h", "h"]}, "occurs in another group"),
    ({"won": [True, False, True, False]}, "won differs within the trajectory"),
    ({"terminated": [True, True, False, True]}, "terminated before the trajectory's last row"),
    ({"truncated": [False, True, False, False]}, "truncated before the trajectory's last row"),
    ({"t": [0, 1, 1, 0]}, "t occurs twice"),
    ({"action": ["right"]}, "column 'action' has 1 rows, 'state' has 4"),
    ({"t": [0, 0, 1.5, 0]}, "row 2: column 't' must hold an integer, got 1.5"),
    ({"won": [10.9, 0, 0, 0]}, "row 0: column 'won' must hold True or False, got 10.9"),
    ({"won": np.zeros((4, 1))}, r"column 'won' must hold one number per row, got shape \(4, 1\)"),
)
def test_broken_tables_name_the_row(change: dict, message: str) -> None:
    refuses(ValueError, message, StepTable.from_arrays, **{**COLUMNS, **change})


def test_object_columns_are_read_and_later_writes_do_not_matter() -> None:
    table = StepTable.from_arrays(**{name: np.array(column, object) for name, column in COLUMNS.items()})
    assert table.to_trajectories() == StepTable.from_arrays(**COLUMNS).to_trajectories()
    columns = {name: np.array(column) for name, column in COLUMNS.items()}
    table = StepTable.from_arrays(**columns)
    for name in ("t", "reward", "valid", "terminated", "truncated", "won"):
        columns[name][:] = 1
        np.testing.assert_array_equal(getattr(table, name), COLUMNS[name])
    words = "column 'action' must hold one hashable value per row"
    refuses(TypeError, words, StepTable.from_arrays, **{**COLUMNS, "action": [["right"]] * 4})
    columns = {name: [0] for name in ("group", "trajectory", "t", "state", "action", "next_state", "won")}
    words = "from_arrays: unknown argument 'rewards'; .*did you mean 'reward'"
    refuses(TypeError, words, StepTable.from_arrays, **columns, rewards=[1.0])


def test_texts_come_back_clean_and_ids_that_are_no_json_are_refused_at_once(tmp_path: Path) -> None:
    texts = ["line\u2028end", "\r\n\t", "√", "</script>"]
    table = StepTable.from_arrays(**{**COLUMNS, "action": texts}, replies=[Reply(text) for text in texts])
    table.to_jsonl(tmp_path / "x.jsonl")
    assert StepTable.from_jsonl(tmp_path / "x.jsonl").to_trajectories() == table.to_trajectories()
    foul = StepTable.from_arrays(**{**COLUMNS, "action": ["half a pair \ud800", "\x00", "a", "b"]})
    foul.to_jsonl(tmp_path / "foul.jsonl")
    assert StepTable.from_jsonl(tmp_path / "foul.jsonl").actions == ("half a pair \ufffd", "\ufffd", "a", "b")
    for value in ((1, 2), 10**18, b"bytes"):
        table = StepTable.from_arrays(**{**COLUMNS, "state": [value] * 4})
        refuses(TypeError, "cannot write .* to JSON", table.to_jsonl, tmp_path / "y.jsonl")
    table = StepTable.from_arrays(**{**COLUMNS, "state": [float("inf")] * 4})
    refuses(ValueError, "JSON", table.to_jsonl, tmp_path / "y.jsonl")
    assert not (tmp_path / "y.jsonl").exists()


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_a_compressed_file_is_written_and_read_by_its_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.jsonl{suffix}"
    table = StepTable.from_arrays(**COLUMNS)
    table.to_jsonl(path)
    assert StepTable.from_jsonl(path).to_trajectories() == table.to_trajectories()
    path.write_bytes(path.read_bytes()[:-9])
    refuses(ValueError, rf"x.jsonl{suffix}: damaged compressed file", StepTable.from_jsonl, path)


STEP = {"t": 0, "state": "s", "action": "a", "next_state": "u", "reward": 1.0, "valid": True, "reply": None}
LINE = {"group": "g", "trajectory": 7, "won": True, "terminated": True, "truncated": False, "steps": [STEP]}
REPLY = {"text": "x", "prompt_ids": [1], "token_ids": [2], "logprobs": [-0.5]}


def with_step(**change: object) -> dict:
    return {**LINE, "steps": [{**STEP, **change}]}


def with_reply(**change: object) -> dict:
    return with_step(reply={**REPLY, **change})


@cases(
    "line, message",
    ("3", "the line must be an object, got 3"), ("{}", "the line has no 'group'"),
    ("{", "not JSON: Expecting property name"), (b'{"group": "\xff"}', "not UTF-8: invalid start byte at byte 11"),
    ({**LINE, "won": 1, "steps": [{}]}, "won must be true or false, got 1"),
    ({**LINE, "steps": [{}]}, r"steps\[0\] has no 'action'"), ({**LINE, "steps": []}, "no steps"),
    ({**LINE, "wonn": 1}, "an unknown 'wonn'; expected group, trajectory"),
    ({**LINE, "steps": {"0": STEP}}, "steps must be a list"),
    ({**LINE, "steps": ["x"]}, r"steps\[0\] must be an object, got 'x'"),
    ({**LINE, "steps": [STEP, STEP]}, r"steps\[1\].t must be more than 0, the one before, got 0"),
    ({**LINE, "trajectory": "a"}, "trajectory 'a' was in line 1 already"),
    (with_step(reward=float("nan")), "NaN is not a JSON number"),
    (with_step(reward=1e301), r"steps\[0\].reward must be a number within 1e\+300, got 1e\+301"),
    (with_step(reward="1"), r"steps\[0\].reward must be a number"),
    (with_step(state=["s"]), r"steps\[0\].state must be a string, a number or null"),
    (with_step(t=0.5), r"steps\[0\].t must be an integer, got 0.5"),
    (with_step(t=True), r"steps\[0\].t must be an integer, got True"),
    (with_step(valid=1), r"steps\[0\].valid must be true or false, got 1"),
    (with_step(reply="x"), r"steps\[0\].reply must be an object or null"),
    (with_step(reply={}), r"steps\[0\].reply has no 'logprobs'"),
    (with_reply(text=None), r"steps\[0\].reply.text must be a string"),
    (with_reply(token_ids=[2.5]), "token_ids must be a list of integers"),
    (with_reply(logprobs=["x"]), "logprobs must be a list of numbers"),
    (with_reply(finish="end"), "finish must be '', 'stop', 'length' or 'prompt-too-long'"),
    (with_reply(version="1"), "version must be an integer"),
    (with_reply(allowed=[[1.5]]), "allowed must be a list of lists of int"),
    (with_reply(allowed=[[2], [3]]), "has 1 token_ids, allowed"),
    (with_reply(logprobs=[]), "has 1 token_ids and 0 logprobs"),
    *(({**LINE, "parent": parent}, r"parent must be null or \[trajectory, t\]") for parent in ([["a"], 0], ["a", 0.5])),
    ({**LINE, "parent": "a"}, r"parent must be null or \[trajectory, t\], got 'a'"),
    ({**LINE, "parent": ["z", 0]}, r"its parent \('z', 0\) is not in the table"),
    ({**with_step(t=1), "group": "h", "parent": ["b", 0]}, "of another group"),
)  # fmt: skip
def test_damage_is_named_with_file_and_line(tmp_path: Path, line: dict | str | bytes, message: str) -> None:
    path = tmp_path / "x.jsonl"
    StepTable.from_arrays(**COLUMNS).to_jsonl(path)
    text = json.dumps(line) if isinstance(line, dict) else line
    path.write_bytes(path.read_bytes() + (text if isinstance(text, bytes) else text.encode()) + b"\n")
    refuses(ValueError, f"x.jsonl, line 4: .*{message}", StepTable.from_jsonl, path)


SHARED = r"won and lost episodes of one group end in the same state 'Game over\.': .* such as 'success' and 'failure'"


def columns(*ends: Any, won: tuple[int, ...] = (1, 0, 0), **others: Any) -> dict[str, Any]:
    """Three episodes of one step each out of one state."""
    return {
        "group": ["g"] * 3, "trajectory": ["a", "b", "c"], "t": [0] * 3, "state": ["door"] * 3,
        "action": ["open", "kick", "leave"], "next_state": list(ends), "reward": list(won), "won": list(won), **others,
    }  # fmt: skip


def test_shared_endings_are_warned_of_once_for_a_state_and_a_place() -> None:
    with pytest.warns(RuntimeWarning, match=SHARED) as found:
        StepTable.from_arrays(**columns("Game over.", "Game over.", "street"))
    assert (len(found), found[0].filename) == (1, __file__)
    with pytest.warns(RuntimeWarning, match=SHARED):
        StepTable.from_arrays(**columns("Game over.", "Game over.", "pit", truncated=[1, 0, 0]))
    n = 300
    with pytest.warns(RuntimeWarning, match="the same state 7:") as found:
        StepTable.from_arrays(
            group=np.arange(n) // 2, trajectory=range(n), t=[0] * n, state=[0] * n, action=[0] * n,
            next_state=7 + np.arange(n) // 2, reward=[0] * n, won=np.arange(n) % 2 == 0,
        )  # fmt: skip
    assert len(found) == 1
    with warnings.catch_warnings(record=True, action="default") as found:
        for number in range(3):  # as iterations of training do, each with tasks of its own
            for end in ("Game over.", "over"):
                StepTable.from_arrays(**columns(end, end, "street", group=[f"task {number}"] * 3))
    assert [str(each.message).partition(": ")[0][-12:] for each in found] == ["'Game over.'", "state 'over'"]


@cases(
    "given",
    columns("success", "failure", "failure"),
    columns("over", "over", "over", won=(1, 1, 1)),
    columns("over", "over", "over", won=(0, 0, 0)),
    # A limit cut two episodes off, in an ordinary state in which another one was won.
    columns("door", "door", "door", truncated=[0, 1, 1]),
    # A recording that stopped; and episodes that are not compared.
    columns("over", "over", "pit", terminated=[1, 0, 1]),
    columns("over", "over", "over", group=["g", "h", "h"]),
)
def test_endings_that_say_enough_are_taken_without_a_word(given: dict[str, Any]) -> None:
    with warnings.catch_warnings(action="error"):
        assert len(StepTable.from_arrays(**given)) == 3


@pytest.mark.parametrize("name", ["state", "next_state"])
def test_a_missing_state_is_refused_with_its_row(name: str) -> None:
    given = columns("success", "failure", "failure")
    given[name] = [given[name][0], None, given[name][2]]
    words = "must be the key of a state, got None; .* 'success' and 'failure'"
    expected = rf"row 1 \(trajectory 'b', t=0\): {name} {words}"
    refuses(ValueError, expected, StepTable.from_arrays, **given)
    refuses(ValueError, expected, StepTable.from_arrays, **{**given, name: np.array(given[name], object)})
    pandas = pytest.importorskip("pandas")
    for missing in (pandas.NA, pandas.NaT):
        with pytest.raises(ValueError, match=f"row 1 .*{name} must be the key of a state, got <?Na?T?A?>?"):
            StepTable.from_arrays(**{**given, name: [given[name][0], missing, given[name][2]]})
    with pytest.raises(ValueError, match="equal themselves, got nan"):
        StepTable.from_arrays(**{**given, name: pandas.Series(given[name], dtype="str").astype(object)})


def test_other_ways_into_a_table_ask_the_same(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=SHARED):
        table = StepTable.from_arrays(**columns("Game over.", "Game over.", "street"))
    path = tmp_path / "x.jsonl"
    table.to_jsonl(path)
    for way, given in (
        (StepTable.from_jsonl, path), (StepTable.from_trajectories, table.to_trajectories()),
        (StepTable.concatenate, [table]),
    ):  # fmt: skip
        with pytest.warns(RuntimeWarning, match=SHARED):
            way(given)
    path.write_text(path.read_text().replace('"next_state": "street"', '"next_state": null'))
    words = r"x\.jsonl: row 2 .*next_state must be the key of a state, got None"
    refuses(ValueError, words, StepTable.from_jsonl, path)


class Doors(gym.Env):
    """One guess, after which every episode shows the same words."""

    observation_space = action_space = gym.spaces.Text(20)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "left or right?", {"admissible_actions": ("left", "right")}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        won = action == "left"
        return "Game over.", float(won), True, False, {"admissible_actions": (), "success": won}


def test_collected_episodes_are_told_apart_and_need_a_key() -> None:
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        table = collect(adapt(Doors()), Scripted("right", "left", by="reply"), tasks=[{}], group_size=2, seed=0)
    assert {*table.states} == {"left or right?", "Game over. [success]", "Game over. [failure]"}
    envs = adapt(Doors(), key=lambda observation, info: None)
    words, policy = "the key of a state is None: give each state its own name", Scripted("right", "left", by="reply")
    refuses(ValueError, words, collect, envs, policy, tasks=[{}], group_size=2, seed=0)
    builder = TableBuilder(1, AutoresetMode.DISABLED)
    infos = {"state_key": np.array([None]), "task_id": np.array(["t"])}
    words = "info 'state_key' of sub-environment 0 must be the key of a state, got None"
    refuses(ValueError, words, builder.reset, infos)
