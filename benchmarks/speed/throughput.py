"""`speed throughput`: environments and credit, beside peers of the same run.

Speeds of environments are medians of first visits, other figures the best of several repetitions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.checks import suggest
from benchmarks.console import asked
from benchmarks.speed import environments
from benchmarks.speed.credit import measure_credit
from benchmarks.speed.record import Part, SpeedConfig, speed_study

#: What can be measured alone.
PARTS = (*environments.WORLDS, "credit")


def configure(
    quick: Annotated[bool, asked("Fewer repetitions, about two minutes.", "--quick")] = False,
    only: Annotated[str | None, asked(f"Parts to measure, of {', '.join(PARTS)}; all by default.")] = None,
) -> SpeedConfig:
    """Measure environment steps, searches and credit, beside peers, as ratios."""
    parts = list(PARTS) if only is None else only.split(",")
    for name in parts:
        if name not in PARTS:
            raise typer.BadParameter(f"unknown part {name!r}; {suggest(name, PARTS)}", param_hint="--only")
    return SpeedConfig(parts, {"quick": quick})


def measure(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Measure one part."""
    quick, world = config.options["quick"], environments.WORLDS.get(part)
    if world is None:
        return Part(measure_credit(quick))
    missing = world.missing()
    return Part(environments.measure_world(world, quick), [missing] if missing else [])


STUDY = speed_study("throughput", "Speed", configure, measure, environments.COMPARISONS)
