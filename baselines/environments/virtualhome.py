"""VirtualHome in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

from agentgym.virtualhome.commands import TEMPLATES
from agentgym.virtualhome.generated.catalogue import KINDS, ROOMS
from agentgym.virtualhome.generated.families import SENTENCES, UNPLUG
from agentgym.virtualhome.player import VirtualHomePlayer
from baselines.environments.settings import limit_of_steps, read


def _words() -> list[str]:
    kinds = [f" {name.replace('_', ' ')}" for name in (*KINDS, *ROOMS, "hands", "door")]
    texts = [text.replace("{}", "x") for text in TEMPLATES.values()]
    said = [text.replace("{", "").replace("}", "") for text in (*SENTENCES.values(), UNPLUG)]
    numbers = [f" {number}{mark}" for number in range(10) for mark in ("", ",", ".", ";")]
    return [*kinds, *texts, *(f" {text}" for text in texts), *said, *numbers]


VIRTUALHOME = read(
    __file__, papers_options={"steps": limit_of_steps}, words=_words, advisers={"helper": VirtualHomePlayer}
)
