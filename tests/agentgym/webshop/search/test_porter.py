"""The stemmer beside NLTK's, on every word of the data: NLTK's "Martin's extensions" have the two later rules."""

import json
import re

import pytest

from agentgym.outside.text import read_text
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.search.analyser import STOP_WORDS, stem
from agentgym.webshop.search.search import search_text
from tests.agentgym.webshop.oracles import FOLDER

nltk = pytest.importorskip("nltk.stem.porter", reason="nltk is not installed: pip install 'stepcredit[dev]'")


def words() -> set[str]:
    """Lower-case words of the generated shop and, where they are, of official products and an encyclopaedia."""
    texts = [search_text(product) for product in generate(2_000)]
    for name in ("webshop/items_shuffle_1000.json", "webshop/items_human_ins.json", "searchqa/corpus.jsonl.xz"):
        path = FOLDER.parent / name
        if path.exists():
            # Escapes of JSON would be words of their own: they are read as what they stand for.
            texts += [json.dumps(json.loads(line), ensure_ascii=False) for line in read_text(path).splitlines()]
    return {word for text in texts for word in re.findall(r"[^\W_]+(?:'[^\W_]+)?", text.lower())} - STOP_WORDS


@pytest.mark.slow
def test_stems_are_nltks() -> None:
    stemmer = nltk.PorterStemmer(mode=nltk.PorterStemmer.MARTIN_EXTENSIONS)
    known = words()
    assert len(known) > 1_000
    different = {word: (stem(word), stemmer.stem(word)) for word in known if stem(word) != stemmer.stem(word)}
    assert different == {}
