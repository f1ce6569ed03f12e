"""The table, from a real run."""

import dataclasses
import io

import pytest

pytest.importorskip("rich")

from benchmarks.learning.results import load
from benchmarks.learning.table import KindRow, kind_table, rich_table, scores_of

from benchmarks.training.learning_page import caption, table_rows


@pytest.fixture
def found(finished_run):
    return load(finished_run / "results.json")


def test_rows_are_averages_over_seeds(found):
    rows = {row.policy: row for row in table_rows(found)}
    assert list(rows) == ["random", "expert", "clone", "grpo", "rewardflow"]
    for policy in ("clone", "grpo"):
        greedy = scores_of(found, policy, "greedy")
        assert [score.seed for score in greedy] == [0, 1]
        solved = sum(score.success.count("1") for score in greedy)
        assert rows[policy].greedy.mean == pytest.approx(solved / 24)
        assert rows[policy].mean_length == pytest.approx(sum(score.mean_length for score in greedy) / 2)
    assert rows["expert"].greedy.mean == 1.0


def test_only_methods_are_compared_and_only_trained_policies_have_a_time(found):
    for row in table_rows(found):
        assert (row.difference is not None) == (row.policy in ("grpo", "rewardflow"))
        assert (row.seconds is None) == (row.policy in ("random", "expert"))
    assert table_rows(found)[0].greedy is None
    assert table_rows(found)[1].sampled is None


def test_the_difference_is_that_of_the_success_rates(found):
    rows = {row.policy: row for row in table_rows(found)}
    for method in ("grpo", "rewardflow"):
        assert rows[method].difference.mean == pytest.approx(rows[method].greedy.mean - rows["clone"].greedy.mean)


@pytest.mark.parametrize("width", [80, 130])
def test_the_terminal_shows_every_policy_and_no_cell_is_cut(found, width):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width)
    console.print(rich_table(found, width))
    text = console.file.getvalue()
    assert all(name in text for name in ("random", "expert", "clone", "grpo", "rewardflow"))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_a_long_name_takes_no_room_from_the_numbers(finished_run, tmp_path, width):
    from rich.console import Console

    long = "reinforce_plus_plus_baseline"
    text = (finished_run / "results.json").read_text("utf-8").replace("rewardflow", long)
    (tmp_path / "results.json").write_text(text, "utf-8")
    console = Console(file=io.StringIO(), width=width)
    console.print(rich_table(load(tmp_path / "results.json"), width))
    text = console.file.getvalue()
    assert "…" not in text
    folded = "".join(line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│"))
    assert long in folded
    if width == 80:
        assert "100.0" in text


def test_the_caption_says_how_many_tasks_and_seeds(found):
    assert caption(found).startswith("12 held-out test tasks, 2 training seeds.")
    assert "admissible" not in caption(found)
    setup = dataclasses.replace(found.config.setup, policy={"admissible": True})
    limited = dataclasses.replace(found, config=dataclasses.replace(found.config, setup=setup))
    assert caption(limited).endswith("Models write admissible commands only, and are trained under that restriction.")


def test_the_table_of_kinds_shows_what_was_refused_where_it_is_known():
    from rich.console import Console

    def shown(*rows):
        console = Console(file=io.StringIO(), width=80)
        console.print(kind_table("split", rows, {"heat": "Heat"}))
        return console.file.getvalue()

    kinds = {"heat": 1}, {"heat": 4}
    text = shown(KindRow("clone", *kinds, refused=1.0), KindRow("expert", *kinds))
    assert "refused %" in text
    lines = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    assert "25.0" in lines["clone"]
    assert "100.0" in lines["clone"]
    assert "100.0" not in lines["expert"]
    assert "refused" not in shown(KindRow("expert", *kinds))
