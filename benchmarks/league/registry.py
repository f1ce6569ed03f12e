"""Who competes: a credit method joins the league with one line of `LEAGUE`."""

from __future__ import annotations

from benchmarks.ranking.credit import METHODS, Credit
from benchmarks.ranking.recent import RECENT
from wrappers.credit.aem import aem
from wrappers.credit.empg import empg

#: Part of credits that weigh an episode's outcome by the entropy of its replies.
ENTROPY = "entropy"

#: Every credit that a table alone is enough for. A line is `Credit(method, part, variant, give)`, where `give` is a
#: function from a `StepTable` to float64 (N,); names are distinct.
LEAGUE: tuple[Credit, ...] = (
    *METHODS,
    *(credit for credit in RECENT if credit.name not in {known.name for known in METHODS}),
)
#: Credits that learned players have beside these: the entropies of replies are estimated from their log-probabilities.
WITH_PROBABILITIES: tuple[Credit, ...] = (Credit("empg", ENTROPY, "", empg), Credit("aem", ENTROPY, "", aem))
#: Methods that are not measured, or not for scripted players, and why.
WITHOUT_ROWS = {
    "empg, aem": "they weigh steps by the entropy of replies, which only learned players have",
    "igpo, hcapo": "they ask the policy again, with the answer or the end of the episode shown to it",
    "vetta, ppo": "they need a critic",
    "istar, prime, spa, hisr, agentprm with a network": "they need a model that is trained beside the policy",
}
