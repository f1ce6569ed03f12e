"""A corpus of four passages, questions about it, and retrievers whose answers a test can foresee."""

from collections.abc import Sequence

from agentgym.searchqa.question import Question
from agentgym.searchqa.retriever import Found, Hit, Passage, SearchFailure

ADA = Passage("ada", '"Ada Bell"\nAda Bell was born in Port Ulm.')
ULM = Passage("ulm", '"Port Ulm"\nPort Ulm is a town in the Kingdom of Zell.')
IVA = Passage("iva", '"Iva Moll"\nIva Moll taught Ada Bell.')
ZELL = Passage("zell", '"Kingdom of Zell"\nThe crown is its currency.')
PASSAGES = (ADA, ULM, IVA, ZELL)

WHERE = Question("where", "Where was Ada Bell born", ("Port Ulm", "Old Ulm"), "one_hop", "train", ("ada",))
COUNTRY = Question(
    "country", "In which country was Ada Bell born?", ("Kingdom of Zell",), "two_hop", "train", ("ada", "ulm")
)
LOOSE = Question("loose", "Is there a sea?", ("no",), "nq", "test")
QUESTIONS = (WHERE, COUNTRY, LOOSE)


class Titles:
    """Finds the passages whose title holds a word of the query, in the order of the corpus; counts its calls."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        self.passages = tuple(passages)
        self.calls: list[list[str]] = []

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        self.calls.append(list(queries))
        return [self._find(query, k) for query in queries]

    def _find(self, query: str, k: int) -> Found:
        if query == "broken":
            return SearchFailure("the engine is broken")
        words = set(query.lower().split())
        fitting = [each for each in self.passages if words & set(each.title.lower().strip('"').split())]
        return tuple([Hit(passage, 1.0 / (i + 1)) for i, passage in enumerate(fitting[:k])])
