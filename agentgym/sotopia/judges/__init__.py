"""Who scores a dialogue that has ended: rules, or a language model."""

from __future__ import annotations

from agentgym.checks import suggest
from agentgym.outside.redaction import refuse_credential
from agentgym.sotopia.dialogue import Judge
from agentgym.sotopia.judges.rules import RulesJudge


def make_judge(judge: str | Judge) -> Judge:
    """Return a judge: itself when it is one, else the one of that name.

    Args:
        judge: an object with `score`; "rules", which computes the goal from what was agreed; or `MODEL@URL` as in
            `players.make_player`.

    Raises:
        ValueError: when there is no such judge, or the URL holds a credential.
        ImportError: when a package that it needs is not installed.
    """
    if not isinstance(judge, str):
        if not isinstance(judge, Judge):
            raise ValueError(f"judge must have score(dialogues), or be a name such as 'rules', got {judge!r}")
        return judge
    if "://" in judge:
        refuse_credential("judge", judge, "agentgym.sotopia.judges.model.ModelJudge.at(name)")
        from agentgym.sotopia.judges.model import ModelJudge

        return ModelJudge.at(judge)
    if judge != "rules":
        raise ValueError(f"unknown judge {judge!r}; {suggest(judge, ['rules'])}, or MODEL@URL")
    return RulesJudge()
