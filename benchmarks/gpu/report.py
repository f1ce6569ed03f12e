"""`report.md` and `report.html` of the GPU report."""

from __future__ import annotations

from pathlib import Path

from agentgym.outside.files import write_file
from benchmarks.gpu.results import RESULTS, GpuResults
from benchmarks.gpu.table import lines, markdown, notes
from benchmarks.report import assemble

PAGE, TEXT = "report.html", "report.md"


def write_report(results: GpuResults, folder: Path) -> tuple[Path, Path]:
    """Write page and Markdown table into the folder and return their paths."""
    assemble.write_page(render(results), folder / PAGE)
    write_file(folder / TEXT, markdown(results).encode())
    return folder / PAGE, folder / TEXT


def render(results: GpuResults) -> str:
    """Return the page."""
    heads, rows = lines(results)
    about = []
    for one in results.shapes:
        about += [
            (f"{one.shape}: measured", one.created),
            (f"{one.shape}: machine", one.hardware.machine.hardware),
            (f"{one.shape}: software", one.hardware.machine.software),
            (f"{one.shape}: sizes", ", ".join(f"{k} {v}" for k, v in vars(results.asked[one.shape]).items())),
            (f"{one.shape}: memory by arithmetic", _parts(one.memory.parts)),
        ]
    return assemble.page(
        "gpu.html.j2",
        styles=["report.css"],
        chips=[("shapes", ", ".join(heads)), ("weights", "random")],
        heads=heads,
        rows=rows,
        notes=notes(results),
        about=[*about, ("data", f"{RESULTS} beside this page holds every number")],
    )


def _parts(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g} GiB" for name, value in parts.items())
