"""`speed throughput`: environments and credit, with peers in the same run.

Speeds of environments are medians of first visits, other figures the best of several repetitions.
"""

from pathlib import Path
from typing import Annotated

from benchmarks.console import option
from benchmarks.json_files import check_known
from benchmarks.speed import environments
from benchmarks.speed.credit import measure_credit
from benchmarks.speed.record import Part, SpeedConfig, speed_study

#: What can be measured alone.
PARTS = (*environments.WORLDS, "credit")


def configure(
    quick: Annotated[bool, option("Fewer repetitions, about two minutes.", "--quick")] = False,
    only: Annotated[str | None, option(f"Parts to measure, of {', '.join(PARTS)}; all by default.")] = None,
) -> SpeedConfig:
    """Measure environment steps, searches and credit, and ratios to peers."""
    parts = list(PARTS) if only is None else only.split(",")
    check_known("part", parts, PARTS)
    return SpeedConfig(parts, {"quick": quick})


def measure(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Measure one part."""
    quick, world = config.options["quick"], environments.WORLDS.get(part)
    if world is None:
        return Part(measure_credit(quick))
    missing = world.missing()
    return Part(environments.measure_world(world, quick), [missing] if missing else [])


STUDY = speed_study("throughput", "Speed", configure, measure, environments.COMPARISONS)
