"""Who competes: every credit that a file of `wrappers/credit/` declares, see `wrappers.credit.method`."""

from __future__ import annotations

from wrappers.credit.method import ENTROPY, Credit, credits, methods

#: Every credit that a table alone is enough for.
LEAGUE: tuple[Credit, ...] = tuple(credit for credit in credits() if credit.part != ENTROPY)
#: Credits that learned players have beside these: the entropies of replies are estimated from their log-probabilities.
WITH_PROBABILITIES: tuple[Credit, ...] = tuple(credit for credit in credits() if credit.part == ENTROPY)
_REASONS = dict.fromkeys(method.unmeasured for method in methods().values() if method.unmeasured)
#: Methods that are not measured, or not for scripted players, and why.
WITHOUT_ROWS = {
    ", ".join(name for name, method in methods().items() if method.unmeasured == reason): reason for reason in _REASONS
}
