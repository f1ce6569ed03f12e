"""The corridor in the learning benchmark: a clone of a guide that is often wrong, so that practice has what to add."""

import dataclasses
import zlib
from collections.abc import Collection, Mapping
from typing import Any

from agentgym.corridor.env import DIRECTIONS, MEANING, WORDS
from baselines.environments.settings import SMOLLM2, EnvSettings, ModelSettings, read

#: How often the guide that is cloned names a direction at random.
NOISE = 0.7


class Guide:
    """Knows half of the words, and mistakes the others for the next one's, with a probability.

    What it has seen decides when; nothing is drawn.
    """

    def __init__(self, noise: float) -> None:
        self.noise, self._seen = noise, 0

    def act(self, observation: str, admissible: Collection[str]) -> str:
        self._seen = zlib.crc32(observation.encode(), self._seen)
        word = observation.rpartition(": ")[2].rstrip(".")
        mistaken = WORDS.index(word) % 8 < 4 and self._seen < self.noise * 2**32
        right = DIRECTIONS.index(MEANING[word])
        return DIRECTIONS[(right + mistaken) % 4]


#: Per room the reply tokens of a run, and the cloned steps: of the tiny policy (25 iterations of a group), and SmolLM2.
_TOKENS, _CLONED = 250, 1200
_SMOLLM2_TOKENS, _SMOLLM2_CLONED = 2000, 600


def _of_length(row: EnvSettings, options: Mapping[str, Any]) -> EnvSettings:
    length = int(options.get("length", 12))
    beside = "".join(f"-{name}-{value}" for name, value in sorted(options.items()) if name not in ("length", "data"))

    def sized(of: EnvSettings | ModelSettings, tokens: int, cloned: int) -> dict[str, Any]:
        return {
            "full": dataclasses.replace(of.full, clone_tasks=max(1, cloned // length)),
            "setup": dataclasses.replace(of.setup, options={**of.setup.options, "length": length}),
            "token_budget": tokens * length,
        }

    pretrained = row.models[SMOLLM2]
    models = {SMOLLM2: dataclasses.replace(pretrained, **sized(pretrained, _SMOLLM2_TOKENS, _SMOLLM2_CLONED))}
    return dataclasses.replace(row, name=f"corridor-n{length}{beside}", models=models, **sized(row, _TOKENS, _CLONED))


CORRIDOR = read(
    __file__,
    words=lambda: [*MEANING, *DIRECTIONS],
    advisers={"guide": lambda: Guide(NOISE), "guide-0.5": lambda: Guide(0.5), "guide-0.9": lambda: Guide(0.9)},
    with_options=_of_length,
)
