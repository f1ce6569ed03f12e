"""Published success rates, by the split that they were measured on: facts with their settings, see docs/anchors.md.

They stand beside one's own results, and are no claims of ours: models, prompts, training and numbers of games differ.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Anchor:
    """A published figure; Qwen2.5 stands for its instruction-tuned form.

    Attributes:
        tasks: what was played, as the beginning of a panel's name: "alfworld/valid_seen".
        method: as the source calls it.
        model: who was trained or prompted.
        success: in percent.
        source: where it is published, and by whom it was run where that is another one.
        trap: what to know before comparing; "" for what holds of the whole split.
    """

    tasks: str
    method: str
    model: str
    success: float
    source: str
    trap: str = ""


_SMALL, _LARGE = "Qwen2.5 1.5B", "Qwen2.5 7B"
_GIGPO, _GRAPHGPO, _PGPO, _MILEGPO = "GiGPO", "GraphGPO", "PGPO", "MileGPO"
_PEAK = "300 updates, best checkpoint"

ANCHORS: tuple[Anchor, ...] = (
    Anchor("alfworld/valid_seen", "GRPO", _SMALL, 72.8, _GIGPO),
    Anchor("alfworld/valid_seen", "GRPO", _SMALL, 77.9, f"{_GRAPHGPO}, re-run"),
    Anchor("alfworld/valid_seen", "GiGPO", _SMALL, 86.1, _GIGPO),
    Anchor("alfworld/valid_seen", "GiGPO", _SMALL, 90.9, f"{_GRAPHGPO}, re-run"),
    Anchor("alfworld/valid_seen", "GiGPO", _SMALL, 90.2, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_seen", "HGPO", _SMALL, 92.8, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_seen", "GraphGPO", _SMALL, 92.7, _GRAPHGPO),
    Anchor("alfworld/valid_seen", "PGPO", _SMALL, 93.0, _PGPO),
    Anchor("alfworld/valid_seen", "MileGPO", _SMALL, 96.3, _MILEGPO, _PEAK),
    Anchor("alfworld/valid_seen", "GRPO", _LARGE, 77.6, _GIGPO),
    Anchor("alfworld/valid_seen", "GRPO", _LARGE, 83.3, f"{_GRAPHGPO}, re-run"),
    Anchor("alfworld/valid_seen", "GiGPO", _LARGE, 94.3, f"{_GRAPHGPO}, re-run"),
    Anchor("alfworld/valid_seen", "GiGPO", _LARGE, 93.3, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_seen", "HGPO", _LARGE, 95.4, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_seen", "GraphGPO", _LARGE, 95.3, _GRAPHGPO),
    Anchor("alfworld/valid_seen", "PGPO", _LARGE, 96.5, _PGPO),
    Anchor("alfworld/valid_unseen", "GiGPO", _SMALL, 84.8, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_unseen", "GiGPO", _SMALL, 90.2, f"{_MILEGPO}, re-run", _PEAK),
    Anchor("alfworld/valid_unseen", "HGPO", _SMALL, 90.2, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_unseen", "GraphGPO", _SMALL, 91.5, f"{_MILEGPO}, re-run", _PEAK),
    Anchor("alfworld/valid_unseen", "PGPO", _SMALL, 88.7, _PGPO),
    Anchor("alfworld/valid_unseen", "MileGPO", _SMALL, 94.6, _MILEGPO, _PEAK),
    Anchor("alfworld/valid_unseen", "GiGPO", _LARGE, 92.2, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_unseen", "HGPO", _LARGE, 92.1, f"{_PGPO}, re-run"),
    Anchor("alfworld/valid_unseen", "PGPO", _LARGE, 90.8, _PGPO),
    Anchor("webshop/small", "GRPO", _SMALL, 56.8, _GIGPO),
    Anchor("webshop/small", "GRPO", _SMALL, 71.4, f"{_GRAPHGPO}, re-run"),
    Anchor("webshop/small", "GiGPO", _SMALL, 67.4, _GIGPO),
    Anchor("webshop/small", "GiGPO", _SMALL, 73.8, f"{_GRAPHGPO}, re-run"),
    Anchor("webshop/small", "GiGPO", _SMALL, 66.5, f"{_PGPO}, re-run"),
    Anchor("webshop/small", "HGPO", _SMALL, 71.5, f"{_PGPO}, re-run"),
    Anchor("webshop/small", "GraphGPO", _SMALL, 78.7, _GRAPHGPO),
    Anchor("webshop/small", "PGPO", _SMALL, 75.0, _PGPO),
    Anchor("webshop/small", "GRPO", _LARGE, 66.1, _GIGPO),
    Anchor("webshop/small", "GRPO", _LARGE, 75.0, f"{_GRAPHGPO}, re-run"),
    Anchor("webshop/small", "GiGPO", _LARGE, 75.2, _GIGPO),
    Anchor("webshop/small", "GiGPO", _LARGE, 78.4, f"{_GRAPHGPO}, re-run"),
    Anchor("webshop/small", "GiGPO", _LARGE, 77.6, f"{_PGPO}, re-run"),
    Anchor("webshop/small", "HGPO", _LARGE, 78.5, f"{_PGPO}, re-run"),
    Anchor("webshop/small", "GraphGPO", _LARGE, 80.3, _GRAPHGPO),
    Anchor("webshop/small", "PGPO", _LARGE, 79.1, _PGPO),
)


def anchors_of(panel: str) -> tuple[Anchor, ...]:
    """Return what is published of a panel's tasks, the best last.

    >>> [anchor.method for anchor in anchors_of("alfworld/valid_unseen@1")][-1]
    'MileGPO'
    """
    return tuple(sorted((each for each in ANCHORS if each.tasks == panel.partition("@")[0]), key=lambda a: a.success))
