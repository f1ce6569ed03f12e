"""Make a page or picture from templates and numbers: one file each, no network, no server, inert texts."""

import io
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from agentgym.outside.files import new_file, write_file
from agentgym.outside.text import clean
from wrappers.credit.method import colours

#: Of methods without a colour of their own; all are Okabe and Ito's palette, then Tol's muted.
_SPARE = ("#F0E442", "#999999")
#: Characters of one text that a page shows; longer ones are cut.
LONGEST = 5_000


def page(
    template: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str] = (),
    data: Any = None,
    libraries: Sequence[str] = (),
    **values: Any,
) -> str:
    """Return a page with its styles, scripts and data inside."""
    files = resources.files("benchmarks.report")

    def read(name: str) -> str:
        return (files / name).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read), autoescape=True, undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    shown = environment.get_template(template).render(
        style=markupsafe.Markup("\n".join(map(read, styles))),
        scripts=[markupsafe.Markup(script) for script in (*libraries, *map(read, scripts))],
        # No "<" of a text may be read as the end of the script element that holds the data.
        data=markupsafe.Markup(json.dumps(_short(data), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")),
        **_short(values),
    )
    return clean(shown, len(shown))


def _short(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]} … ({len(value):,} characters)"
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


def chart_library() -> list[str]:
    """Bokeh's own scripts, as its wheel brings them."""
    from bokeh.resources import Resources

    library, interface, *_ = Resources(mode="inline", components=["bokeh", "bokeh-api"]).js_raw
    # Quiet: a page that is in order writes nothing into the console of the browser.
    return [library, interface, 'Bokeh.logger.set_level("error");']


def write_page(content: str, path: Path) -> None:
    """Write a page; an interrupted write leaves the old one."""
    write_file(path, content.encode())


def new_figure(rows: int, columns: int, size: tuple[float, float], dpi: int, **options: Any) -> tuple[Any, Any]:
    """Return a matplotlib figure that needs no screen, and its grid of panels, shape (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for panel in grid.flat:
        panel.grid(alpha=0.25, lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, grid


def label(text: str) -> str:
    r"""Return a name as a picture can show it: no formulas between dollars, one line, not too long.

    >>> label("a$b\ud800")
    'a\\$b�'
    """
    return clean(text, 60).replace("\n", " ").replace("$", r"\$")


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure as a PNG; an interrupted write leaves the old one."""
    with new_file(path) as stream:
        figure.savefig(stream, format="png")


def as_svg(figure: Any) -> bytes:
    """Return a figure as an SVG whose words are text, the same for the same figure."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "stepcredit"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def colour_of(method: str) -> str:
    """Colour of a method, stable between pictures."""
    return colours().get(method) or _SPARE[sum(map(ord, method)) % len(_SPARE)]
