"""One row per environment that the learning benchmark knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from baselines.environments.alfworld import ALFWORLD
from baselines.environments.corridor import CORRIDOR
from baselines.environments.searchqa import SEARCHQA
from baselines.environments.settings import EnvSettings, Setup
from baselines.environments.sokoban import SOKOBAN, VISUAL_SOKOBAN
from baselines.environments.sotopia import SOTOPIA
from baselines.environments.telecom import TELECOM
from baselines.environments.virtualhome import VIRTUALHOME
from baselines.environments.webshop import WEBSHOP

if TYPE_CHECKING:
    from wrappers.advice import Adviser

SETTINGS: tuple[EnvSettings, ...] = (
    SOKOBAN, VISUAL_SOKOBAN, ALFWORLD, VIRTUALHOME, WEBSHOP, SEARCHQA, SOTOPIA, CORRIDOR, TELECOM,
)  # fmt: skip

#: Experts that are cloned in place of an environment's own.
ADVISERS: dict[str, Callable[[], Adviser]] = {
    name: adviser for row in SETTINGS for name, adviser in row.advisers.items()
}


def settings_of(env: str, options: Mapping[str, Any] | None = None) -> EnvSettings:
    """Return the row of an id or a name; an environment without a row has Sokoban's sizes and nothing to imitate.

    >>> settings_of("alfworld").id, settings_of("corridor", {"length": 24}).name
    ('AgentRL/ALFWorld-v0', 'corridor-n24')
    """
    for row in SETTINGS:
        if env in (row.id, row.name):
            return row if options is None or row.with_options is None else row.with_options(row, options)
    full, quick = (dataclasses.replace(sizes, clone_tasks=0) for sizes in (SOKOBAN.full, SOKOBAN.quick))
    return dataclasses.replace(
        SOKOBAN, name=env.rpartition("/")[2].rpartition(":")[2], id=env, full=full, quick=quick, setup=Setup(),
        tiles=None, data={}, scripted=None, is_known=False,
    )  # fmt: skip
