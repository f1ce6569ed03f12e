"""What the site adds to an environment's page: an episode, the states that sixteen visit, and the class docstring."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import matplotlib
import numpy as np
from matplotlib.figure import Figure

import agentgym  # noqa: F401  registers the ids
from agentgym.rollout import collect
from benchmarks.report.state_graph import build_graph, layered_positions
from policies.scripted import ExpertPolicy, RandomPolicy
from wrappers import VectorReplyParser

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_ID = re.compile(r"`(AgentRL/\w+-v0)`")
#: Pages with environments are those of this folder.
_FOLDER = "environments/"
_STEPS, _EPISODES, _CHARACTERS = 3, 16, 900


class HalfExpert:
    """The expert's action or a random admissible one, by a coin; what visits enough states to be drawn."""

    def act(self, observations: Any, infos: Any, rng: np.random.Generator) -> list[Any]:
        """One reply per sub-environment."""
        good, other = (policy.act(observations, infos, rng) for policy in (ExpertPolicy(), RandomPolicy()))
        return [one if rng.random() < 0.5 else two for one, two in zip(good, other, strict=True)]


def episode(name: str) -> str:
    """The first observations of a task and the expert's answers, as text.

    >>> print(episode("AgentRL/Corridor-v0")[:54])
    Room 1 of 6. The sign says: music.
    <BLANKLINE>
    > north
    <BLANKLINE>
    Room 2 of
    """
    env = gym.make(name, expert=True)
    observation, info = env.reset(seed=0, options={"split": "train", "index": 0})
    shown = []
    for _ in range(_STEPS):
        action = info["expert_action"]
        shown += [_shortened(observation), f"> {action}"]
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break
    return "\n\n".join([*shown, _shortened(observation)])


def _shortened(observation: str) -> str:
    text = observation.strip("\n")
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS].rsplit(" ", 1)[0] + " ..."


def drawn(name: str) -> bytes:
    """The state graph of a group as SVG: states in the order of their first step, coloured by steps to success."""
    envs = VectorReplyParser(gym.make_vec(name, num_envs=_EPISODES, autoreset_mode="Disabled", expert=True))
    table = collect(envs, HalfExpert(), tasks=[{"split": "train", "index": 0}], group_size=_EPISODES, seed=0)
    graph = build_graph(table, 0, {}, method="", stage="", seed=0)
    places = np.array(layered_positions(graph))
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    for edge in graph.edges:
        if edge.source != edge.target:
            ends = places[[edge.source, edge.target]]
            width = 0.5 + np.log(edge.count)
            axes.plot(
                ends[:, 0],
                ends[:, 1],
                color="#1b7f5c" if edge.gain > 0 else "#9aa5b1",
                linewidth=width,
                alpha=0.6,
                zorder=1,
            )
    far = max([node.distance or 0 for node in graph.nodes], default=0) or 1
    ways = matplotlib.colormaps["viridis"]
    colours = ["#c3cad2" if node.distance is None else ways(1 - node.distance / far) for node in graph.nodes]
    sizes = [20 + 12 * np.sqrt(node.visits) for node in graph.nodes]
    axes.scatter(places[:, 0], places[:, 1], c=colours, s=sizes, edgecolors="#22303c", linewidths=0.5, zorder=2)
    title = f"{len(graph.nodes)} states of {_EPISODES} episodes of one task, {graph.won} won"
    axes.set_title(title, fontsize=10, color="#52606d")
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return file.getvalue()


def _picture(page: str) -> str:
    return f"images/{page.removesuffix('.md')}.svg"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Draw the graph of every environment."""
    from mkdocs.structure.files import File

    for page in [file for file in files.documentation_pages() if file.src_uri.startswith(_FOLDER)]:
        if found := _ID.search(page.content_string):
            files.append(File.generated(config, _picture(page.src_uri), content=drawn(found[1])))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the episode and the states behind the first section, the class at the end."""
    found = _ID.search(markdown)
    if not page.file.src_uri.startswith(_FOLDER) or not found:
        return markdown
    text = (
        "\n## An episode\n\nThe expert's first steps in `train`, index 0, after `>`:\n\n"
        f"``` {{ .text .episode }}\n{episode(found[1])}\n```\n\n"
        "The states of that task that sixteen episodes of a player visit, half of whose actions are the expert's, the "
        "others random. From left to right: steps after the start. Yellow: near success; grey: no success was reached "
        "from there. Green steps come nearer to success.\n\n"
        f"![State graph of one task](../{_picture(page.file.src_uri)})\n"
    )
    at = markdown.find("\n## ")
    at = len(markdown) if at < 0 else at
    name = str(gym.spec(found[1]).entry_point).replace(":", ".")
    options = "{show_root_heading: false, members: false, inherited_members: false}"
    shown = f"\n## Options and info\n\n::: {name}\n    options: {options}\n"
    return f"{markdown[:at]}{text}{markdown[at:]}{shown}"
