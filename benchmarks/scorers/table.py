"""The table of the scorers' study for a terminal, and the words that explain it."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.console import NONE, table
from benchmarks.ranking.table import EXPLAINED, number
from benchmarks.scorers.results import Point, ScorerResult, Study

_SHOWN = ("within", "same", "overall")
HEADS = ("scorer", "after", "rank", "same", "overall", "graph", "pairs", "centred", "loss", "cost")


def print_study(study: Study, console: Console) -> None:
    """Print one table, and what its columns are."""
    console.print(study_table(study))
    console.print(caption(study), style="dim", markup=False, highlight=False)
    explained = {
        "after": "iterations of learning.",
        "rank": ". ".join(EXPLAINED["within"]),
        "same": ". ".join(EXPLAINED["same"]),
        "overall": ". ".join(EXPLAINED["overall"]),
        "graph": "rank correlation within states of credit with GraphGPO's, where that speaks: what is known of a "
        "scorer where no distance is.",
        "pairs": "share of pairs of a won and a lost episode of a group whose sums of scores are in that order.",
        "centred": "the same where every score is less the group's mean: nothing is gained by being short.",
        "loss": "as the scorer reports it, mean over the iterations since the line before.",
        "cost": "processor time of scores and update, in updates of the policy on the same batch.",
    }
    for name, words in explained.items():
        console.print(Text.assemble((f"{name}: ", "bold"), words), style="dim")


def study_table(study: Study) -> Table:
    """One line per scorer and number of iterations."""
    rows: list[list[str | Text] | None] = []
    for result in study.results:
        if rows:
            rows.append(None)
        beside = [result.name, f"({result.kind})"] + [""] * len(result.points)
        rows += [_line(words, result, point) for words, point in zip(beside, result.points, strict=False)]
    shown = table(
        HEADS, rows, title="scores learned beside a policy that stands still", box=SIMPLE_HEAD, padding=0,
        pad_edge=False,
    )  # fmt: skip
    shown.columns[0].no_wrap = True
    return shown


def _line(words: str, result: ScorerResult, point: Point) -> list[str | Text]:
    return [
        words,
        str(point.iterations),
        *(number(point.measures[measure], measure) for measure in _SHOWN),
        f"{point.agreement:.2f}".replace("0.", ".", 1),
        *(f"{100 * share:.0f} %" for share in (point.pairs, point.centred_pairs)),
        NONE if point.loss is None else f"{point.loss:.3f}",
        NONE if result.cost is None or words != result.name else f"{result.cost:.2f}",
    ]


def caption(study: Study) -> str:
    """What was done, in one paragraph."""
    sizes, held_out = study.config.sizes, study.held_out
    return (
        f"{sizes.groups} training levels x {sizes.group_size} episodes per iteration, at the policy's learning rate. "
        f"Measured on {sizes.levels} held-out levels x {sizes.episodes} episodes in groups of {sizes.group_size}: "
        f"{held_out.steps} steps, {100 * held_out.success:.1f} % of episodes solved, {100 * held_out.comparable:.0f} % "
        "of steps in a state where the group took actions of different worth. Scores of states become credit as their "
        "change over a step, where the outcome stands behind the last; the others are credit as they are."
    )
