"""Configurations of runs, for all tests that only need one."""

import dataclasses
from typing import Any

from baselines.environments.registry import settings_of
from baselines.runs.config import Config, make_config


def config_of(env: str, model: str = "tiny", full: bool = False, **sizes: Any) -> Config:
    """Return that of GRPO with one seed: a quick run, unless a full one is asked for, with some sizes changed."""
    row = settings_of(env)
    played = row.played_by(model)
    chosen = dataclasses.replace(played.full if full else played.quick, **sizes)
    return make_config(row, methods=["grpo"], seeds=[0], model=model, history=None, sizes=chosen)
