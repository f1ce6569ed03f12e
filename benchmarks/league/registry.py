"""Who competes: a credit method joins the league with one line of `LEAGUE`."""

from __future__ import annotations

from benchmarks.ranking.credit import METHODS, Credit
from benchmarks.ranking.recent import RECENT

#: Every credit that a table alone is enough for. A line is `Credit(method, part, variant, give)`, where `give` is a
#: function from a `StepTable` to float64 (N,); names are distinct.
LEAGUE: tuple[Credit, ...] = (
    *METHODS,
    *(credit for credit in RECENT if credit.name not in {known.name for known in METHODS}),
)
#: Methods that need what a scripted player's replies do not have.
WITHOUT_ROWS = {
    "empg, aem": "they weigh steps by the entropy of replies",
    "igpo, hcapo": "they ask the policy again, with the answer or the end of the episode shown to it",
    "vetta, ppo": "they need a critic",
    "istar, prime, spa, hisr, agentprm with a network": "they need a model that is trained beside the policy",
}
