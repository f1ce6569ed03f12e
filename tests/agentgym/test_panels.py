"""Panels: the same tasks and hashes whatever orders the files and whoever asks, and refusals that say why."""

import re
import shutil
from pathlib import Path

import pytest

from agentgym.alfworld.official.dataset import open_split
from agentgym.outside.text import DataError
from agentgym.panels import OpenPanel, Panel, PanelError, find_panel, open_panel, panel_names, pin_of
from agentgym.sokoban.generated import LevelSpec, generate
from agentgym.sokoban.text import board_text
from tests.agentgym.alfworld.support import files
from tests.agentgym.sotopia.support import FOLDER, needs_data
from tests.oracles import oracle
from tests.refusals import refuses

GENERATED = (
    "alfworld/generated@1", "webshop/generated@1", "sokoban/6x6/9-12@1", "sotopia/generated@1", "telecom/generated@1",
)  # fmt: skip
LEVELS = [board_text(level) for level in generate(6, LevelSpec(boxes=(1,)))]
FILES = Panel("mine/levels@1", "AgentRL/Sokoban-v0", "all", {"max_episode_steps": 9}, {"levels": ""})


def write(folder: Path, parts: dict[str, list[int]]) -> Path:
    """Write levels to files of some names, in the order of the dict."""
    folder.mkdir()
    for name, numbers in parts.items():
        (folder / name).write_text("\n\n".join(LEVELS[number] for number in numbers), encoding="utf-8")
    return folder


def digests(found: OpenPanel) -> list[str]:
    return [task.digest for task in found.tasks]


@pytest.mark.parametrize("name", GENERATED)
def test_generated_panels_are_those_that_are_pinned(name: str) -> None:
    found = open_panel(name)
    assert found.pinned
    assert digests(found) == sorted(digests(found))


def test_a_panels_hash_is_that_of_its_content_alone(tmp_path: Path) -> None:
    one = open_panel(FILES, {"levels": write(tmp_path / "one", {"a.txt": [0, 1, 2], "b.txt": [3, 4, 5]})})
    folder = write(tmp_path / "other", {"z.xsb": [5, 2], "b.txt": [4, 0, 3], "a.txt": [1]})
    other = open_panel(FILES, {"levels": folder})
    assert (one.hash, digests(one)) == (other.hash, digests(other))
    assert [task.id for task in one.tasks] != [task.id for task in other.tasks]
    less = open_panel(FILES, {"levels": write(tmp_path / "less", {"a.txt": [0, 1, 2, 3, 4]})})
    assert less.hash != one.hash
    assert set(digests(less)) < set(digests(one))
    levels = {"levels": write(tmp_path / "two", {"a.txt": [0, 1]})}
    found = open_panel(FILES, {**levels, "symbols": "xsb"})
    assert (found.added, found.hash) == ({"symbols": "xsb"}, open_panel(FILES, levels).hash)
    longer = Panel(FILES.name, FILES.env, FILES.split, {"max_episode_steps": 10}, FILES.data)
    assert open_panel(longer, levels).hash != found.hash


def test_panels_have_versions_first_tasks_are_panels_and_what_is_unknown_is_explained(monkeypatch) -> None:
    found = open_panel("sokoban/generated@1")
    few = found.first(3)
    assert (few.tasks, few.panel.name) == (found.tasks[:3], "sokoban/generated@1[:3]")
    assert few.hash != found.hash
    # 3 tasks x 4 bytes = 12 bytes, 16 characters in base 64
    assert (pin_of(few)["hash"], len(pin_of(few)["tasks"])) == (few.hash, 16)
    assert found.first(256) is found
    for none in (0, -1):
        refuses(PanelError, f"a panel needs at least one task, got {none}", found.first, none)
    for name in panel_names():
        rule = find_panel(name)
        assert name.endswith("@1")
        assert (not rule.data) == (name in GENERATED or "generated" in name or name.startswith("sokoban/")), name
    assert len(panel_names()) == len(set(panel_names()))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    refuses(PanelError, "did you mean 'alfworld/valid_seen@1'", open_panel, "alfworld/valid_sen@1")
    words = "'max_episode_steps' belongs to the panel"
    refuses(PanelError, words, open_panel, "sokoban/generated@1", {"max_episode_steps": 5})
    refuses(DataError, r"needs data: give the argument 'data' .*ALFWORLD_DATA", open_panel, "alfworld/valid_seen@1")


def test_official_games_are_pinned_and_a_changed_one_is_named(tmp_path: Path) -> None:
    for split, task_id, name, content in sorted(files("valid_seen"), reverse=True):  # in the reverse order of names
        path = tmp_path / "json_2.1.1" / split / task_id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    found = open_panel("alfworld/valid_seen@1", {"data": tmp_path, "cache": "off"})
    assert (found.pinned, len(found.tasks)) == (True, 140)
    trials = sorted((tmp_path / "json_2.1.1" / "valid_seen").glob("*/*"))
    game = trials[3] / "game.tw-pddl"
    kept = game.read_text(encoding="utf-8")
    # one thing less that can be picked up
    game.write_text(re.sub(r"\(pickupable [A-Z][^)]*\)", "", kept, count=1), encoding="utf-8")
    try:
        assert game.read_text(encoding="utf-8") != kept
        open_split.cache_clear()
        given = {"data": tmp_path, "cache": "off"}
        refuses(DataError, f"1 of 140 tasks .* the first.*{trials[3].name}", open_panel, "alfworld/valid_seen@1", given)
        shutil.rmtree(trials[3].parent)
        open_split.cache_clear()
        refuses(DataError, "of the panel's 140 tasks are missing", open_panel, "alfworld/valid_seen@1", given)
    finally:
        open_split.cache_clear()


def test_boxoban_levels_are_pinned_and_others_refused() -> None:
    hard = oracle("boxoban", "hard_000.txt.xz")
    assert open_panel("boxoban/hard-000@1", {"levels": hard}).pinned
    words = "1000 of 1000 tasks are not among the panel's 1000; the first"
    refuses(DataError, words, open_panel, "boxoban/unfiltered-train-000@1", {"levels": hard})


@needs_data
def test_the_pairings_of_sotopia_are_pinned() -> None:
    assert [len(open_panel(f"sotopia/{name}@1", {"data": FOLDER}).tasks) for name in ("all", "hard")] == [450, 70]
