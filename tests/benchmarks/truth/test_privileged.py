"""What an informed teacher says of turns, by hand; the scorer itself is tested where it is."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from agentgym.trajectory import Reply
from baselines.environments.registry import settings_of
from baselines.runs.config import Config
from baselines.scorers.privileged import belief_gains, beliefs, turn_gaps
from benchmarks.report.markdown import replaced
from benchmarks.run import STUDIES
from benchmarks.study import Study
from benchmarks.training import informed
from benchmarks.training.head_to_head_page import section as section_of
from benchmarks.training.head_to_head_page import write_between_marks
from benchmarks.training.learning import cloned_for
from benchmarks.training.records import Point, Record, Setting, load_folders
from benchmarks.truth.privileged import STUDY, configure, section
from tests.playing import filled

RESULTS = Path(__file__).parents[3] / "docs" / "results"
#: Published rankings before training, in the order of the table.
RANKED = ["corridor-n12", "sokoban", "alfworld", "corridor-n6-smollm2", "sokoban-smollm2", "alfworld-smollm2"]

TABLE = filled(replies=[Reply("x", (1,), ids, (0.0,) * len(ids)) for ids in ((1,), (1, 2), (1,))])


def test_gaps_and_beliefs_by_hand() -> None:
    scores = np.array([[1.0, 0.0], [-1.0, 2.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(turn_gaps(TABLE, scores), [1.0, 0.5, np.nan])
    assert beliefs(np.array([np.log(3.0)])) == pytest.approx([0.5, 0.75])
    drift = belief_gains(TABLE, np.array([-5.0, -5.0, -5.0]))  # the gaps' own mean says nothing
    np.testing.assert_allclose(drift, 0.0, atol=1e-12)
    gains = belief_gains(TABLE, np.array([1.0, -1.0, np.nan]))
    assert gains[0] > 0 > gains[1]
    assert np.isnan(gains[2])
    assert STUDIES["privileged"] == "benchmarks.truth.privileged:STUDY"
    config = configure(quick=True, context=["expert", "sibling"], option=["length=3"], read=["expert=0.5"], seeds=2)
    assert config.clone_contexts == {"expert": 0.5}
    assert STUDY.parts(config) == [f"{name}, clone {seed}" for seed in (0, 1) for name in ("expert", "sibling")]


def test_a_short_clone_has_the_tiny_policys_tasks_and_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Config]()
    monkeypatch.setattr(Study, "do", lambda study, config, *others: seen.append(config))
    for name, short in (("long", 0), ("short", 30)):
        how = {"quick": False, "model": "smollm2", "contexts": {"expert": 0.5}, "short": short}
        cloned_for(settings_of("alfworld"), tmp_path / name, 1, **how)
    for config, tiny in zip(seen, (False, True), strict=True):
        assert config.setup.clone_contexts == {"expert": 0.5}
        assert (config.model, config.instructions) == ("smollm2", not tiny)
        assert config.history == (8 if tiny else 2)
        assert ("max_episode_steps" in config.setup.options) == tiny
        assert config.setup.policy == {}
        assert (config.clone_tasks, config.clone_epochs, config.eval_tasks) == ((30, 1, 8) if tiny else (6000, 2, 256))


def test_the_pages_have_what_the_records_say() -> None:
    ranks = [STUDY.load(RESULTS / "privileged-ranks" / f"{name}.json") for name in RANKED]
    assert [each.config.name for each in ranks] == RANKED
    sections = {"privileged-ranks": section(ranks)}
    for place, trained in enumerate(load_folders(RESULTS / "privileged")):
        sections[trained.config.name] = section_of(trained, whole=not place)  # said once
    shown = set()
    for page in (RESULTS / "horizon.md", RESULTS / "head-to-head-tables.md"):
        right = page.read_text(encoding="utf-8")
        for name, text in sections.items():
            if f"<!-- {name} -->" in right:
                right = replaced(right, name, text)
                shown.add(name)
        if os.environ.get("WRITE_DOCS"):
            page.write_text(right, encoding="utf-8")
        assert page.read_text(encoding="utf-8") == right
    assert shown == {*sections}


def test_the_command_writes_the_captions_of_several_studies_once(tmp_path: Path) -> None:
    pages = [tmp_path / "results" / name for name in ("horizon.md", "head-to-head-tables.md")]
    pages[0].parent.mkdir()
    for page in pages:
        page.write_bytes((RESULTS / page.name).read_bytes())
    write_between_marks(load_folders(RESULTS / "privileged"), tmp_path / "results")
    assert [page.read_bytes() for page in pages] == [(RESULTS / page.name).read_bytes() for page in pages]


def test_a_context_is_held_against_its_wrong_twin_seed_by_seed() -> None:
    study = next(each for each in load_folders(RESULTS / "privileged") if each.config.name.startswith("corridor"))
    labels = [informed.setting("sdpo", "expert", control) for control in ("right", "wrong")]

    def run(label: str, seed: int, success: float) -> Record:
        curve = [Point(0, 0.0, 0.0, 0.0), Point(study.config.token_budget, 1.0, success, success)]
        test = dict.fromkeys(("greedy", "sampled"), "1" * 128)
        return Record("final", label, seed, Setting.stated(label), 1, 10, 1.0, 1.0, {}, curve, test, teacher_replies=20)

    ends = {0: (0.8, 0.2), 1: (1.0, 0.2), 2: (0.9, 0.1), 3: (0.9, 0.3)}
    records = [run(label, seed, pair[at]) for at, label in enumerate(labels) for seed, pair in ends.items()]
    study = dataclasses.replace(study, records=records)
    found = informed.difference(study, *(label.split(" ")[0] for label in labels))
    assert found[0].mean == pytest.approx((0.6 + 0.8 + 0.8 + 0.6) / 4 / 2)  # a straight line from 0: half of its end
    assert informed.verdicts(study) == {("sdpo", "expert"): "settled"}
    assert informed.verdicts(dataclasses.replace(study, records=records[:3] + records[4:7])) == {
        ("sdpo", "expert"): "open"
    }
    assert "| sdpo | expert | 4 | 45.0 | 100.0 | - | - | +35.0 [" in section_of(study)
