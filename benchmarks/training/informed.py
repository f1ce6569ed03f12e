"""`head-to-head --privileged`: what the methods of privileged contexts gain over their wrong twins."""

from __future__ import annotations

#: What clones learn to read, in multiples of the expert's steps.
CONTEXTS = {"expert": 0.25, "sibling": 1.0}
CONTROLS = ("right", "wrong", "task")
#: Settings that a head to head chose in the corridor; the methods of contexts have GRPO's rate. Those that teach where
#: all lost keep such groups, the others have them replaced, as tuned GRPO does.
_RATE, _REPLACED = "learning_rate=0.0008", "rollout.resample_rounds=10"
REFERENCES = (f"grpo {_RATE} {_REPLACED}", "graphgpo learning_rate=0.0016", f"oracle {_RATE}", f"turn_credit {_RATE}")


def setting(method: str, context: str, control: str) -> str:
    """Return the label of a method with a context under a control."""
    replaced = "" if method == "sdpo" else f" {_REPLACED}"
    return f"{method}:context={context}:control={control} {_RATE}{replaced}"


ARMS = (
    *REFERENCES,
    *(
        setting(method, context, control)
        for context in CONTEXTS for method in ("rlsd", "rlcsd", "sdpo") for control in CONTROLS
    ),
)  # fmt: skip
