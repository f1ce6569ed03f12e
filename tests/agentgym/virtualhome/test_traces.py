"""Episodes that were played on the original simulators, played again by the checker that lies beside them.

Every 45th episode of each kind is played; STEPCREDIT_TRACES=all plays all 2,075, which takes minutes.
"""

import importlib.util
import itertools
import lzma
import os
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym.virtualhome.rules import World
from tests.agentgym.virtualhome import replay_adapter
from tests.agentgym.virtualhome.official_houses import differences, find, lines_of, scene_of

EPISODES = {"gold_v1": 351, "gold_head": 351, "random_v1": 627, "random_head": 502, "wrapper": 244}
EVERY = 1 if os.environ.get("STEPCREDIT_TRACES") == "all" else 45


def replay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str) -> str:
    """What the checker says of a file of episodes in its last line."""
    spec = importlib.util.spec_from_file_location("replay_check", find("replay_check.py"))
    assert spec.loader is not None
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    path = find(f"traces/{name}.jsonl.xz")

    def opened(file: str, mode: str) -> Any:
        stream = lzma.open(file, mode)  # noqa: SIM115
        return itertools.islice(stream, 0, None, EVERY) if file == str(path) else stream

    monkeypatch.setattr(checker, "lzma", SimpleNamespace(open=opened))
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = [replay_adapter.__file__, str(path.parents[1]), str(path), "--exc-text"]
    monkeypatch.setattr(sys, "argv", ["replay_check.py", *arguments])
    with pytest.raises(SystemExit) as end:
        checker.main()
    said = capsys.readouterr().out
    assert end.value.code == 0, said
    return said.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", EPISODES)
def test_recorded_episodes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str) -> None:
    said = replay(monkeypatch, capsys, name)
    assert f"'episodes': {len(range(0, EPISODES[name], EVERY))}" in said
    assert "different" not in said


@pytest.mark.parametrize(("dialect", "ran", "ended"), [("v1", 518, 518), ("head", 363, 234)])
def test_published_programs(dialect: str, ran: int, ended: int) -> None:
    """How many run to the end, and how many leave the house as published (whatever failed on the way)."""
    counts: Counter[str] = Counter()
    for program, row in differences().items():
        scene = scene_of(program)
        world = World(scene, dialect)
        done = [world.step(line).ok for line in lines_of(program)]
        counts["ran"] += all(done)
        add, remove = (list(map(tuple, row[key])) for key in ("goal_add", "goal_rem"))
        counts["ended"] += world.cells == list(scene.changed((), dict(row["goal_states"]), add, remove).cells)
        world.undo()
        assert world.get_state() == World(scene, dialect).get_state()
    assert counts == {"ran": ran, "ended": ended}
