"""What the panel commands print."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console

from agentgym.panels import Panel
from baselines.environments.settings import EnvSettings
from benchmarks.console import NONE, say, table
from benchmarks.panels.anchors import anchors_of
from benchmarks.panels.results import PanelResults
from benchmarks.statistics import Interval


def percent(found: Interval | None) -> str:
    """Return an interval in percent.

    >>> percent(Interval(0.5, 0.4, 0.625)), percent(None)
    ('50.0 (40.0 to 62.5)', '-')
    """
    return NONE if found is None else f"{100 * found.mean:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def short_name(policy: str) -> str:
    """Return the name of a policy without the folders that it lies in, or the address of its endpoint.

    >>> short_name("runs/sokoban/clone"), short_name("Qwen/Qwen3-8B@http://127.0.0.1:8000/v1 react, 2-shot")
    ('clone', 'Qwen3-8B react, 2-shot')
    """
    plain = re.sub(r"@https?://\S*", "", policy)
    return plain.rpartition("/")[2] or plain


def print_panel(shown: Sequence[PanelResults], row: EnvSettings, console: Console) -> None:
    """Print a line for each player of a panel: success per kind, then what else was measured."""
    first = shown[0]
    sizes = {kind: sum(task.kind == kind for task in first.tasks) for kind in first.summary.kinds}
    kinds = [kind for kind in [*row.kind_names, *sorted(sizes.keys() - row.kind_names.keys())] if kind in sizes]
    heads = ["success %", *(f"{row.kind_names.get(kind, kind)}\n{sizes[kind]}" for kind in kinds)]
    lines = []
    for one in shown:
        figures, name = one.summary, one.policy.name
        shares = [f"{100 * figures.kinds[kind].mean:.1f}" for kind in kinds]
        reach = f"{100 * figures.success.low:.0f}-{100 * figures.success.high:.0f}"
        refused = f"{100 * figures.invalid_rate:.1f}"
        lines.append([short_name(name), *shares, f"{100 * figures.success.mean:.1f}", reach, refused])
    title = f"{first.panel.name}, hash {first.panel.hash}, {len(first.tasks)} tasks x {first.samples}"
    heads += [f"All\n{len(first.tasks)}", "95 %", "refused\n%"]
    console.print(table(heads, lines, title=title))
    for one in shown:
        figures = one.summary
        tokens = f", {figures.prompt_tokens:,.0f} + {figures.reply_tokens:,.0f} tokens" if figures.prompt_tokens else ""
        again = f"; the same tasks again: {percent(figures.success_again)}" if figures.success_again else ""
        say(
            console,
            f"{one.policy.name}: {row.return_name} {_mean_total(one):.2f}, score {percent(figures.score)}, "
            f"{figures.steps:.1f} steps{tokens}, {figures.seconds:.1f} s, {figures.generation:.1f} s of them "
            f"generating{again}",
        )
    if not first.panel.pinned and "@" in first.panel.name and ":" not in first.panel.name:
        say(console, "this panel is not pinned here: compare its hash with that of others", "yellow")


def _mean_total(results: PanelResults) -> float:
    return sum(sum(task.total) for task in results.tasks) / (len(results.tasks) * results.samples)


def print_anchors(panel: str, console: Console) -> None:
    """Print what is published of a panel's tasks, if anything is."""
    lines = [[each.method, each.model, f"{each.success:.1f}", each.source, each.trap] for each in anchors_of(panel)]
    if lines:
        caption = "other prompts, training and numbers of games: see docs/anchors.md before comparing"
        heads = ["published", "model", "success %", "source", "note"]
        console.print(table(heads, lines, left=2, title=f"{panel.partition('@')[0]} elsewhere", caption=caption))


def print_panels(panels: Sequence[Panel], console: Console) -> None:
    """Print all panels: how many tasks, and what they need."""
    lines = [
        [
            each.name,
            str(each.tasks or each.most or NONE),
            ", ".join(f"--option {name}=PATH" for name in each.data) or NONE,
        ]
        for each in panels
    ]
    console.print(table(["panel", "tasks", "needs"], lines, left=3))
