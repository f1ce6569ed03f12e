"""The tiny policy of SOTOPIA's meetings knows every word, and its commands are short."""

import re

import pytest

from agentgym.outside.dialogue import LEAVE, Act, write
from agentgym.sotopia.generated import generate
from agentgym.sotopia.players import make_player
from baselines.environments.sotopia import SOTOPIA
from tests.agentgym.sotopia.support import play


def test_no_word_of_a_meeting_is_spelled_out() -> None:
    tokenizer = pytest.importorskip("policies.tiny").tiny_tokenizer(SOTOPIA.words(), pieces=SOTOPIA.pieces)
    for index in range(30):
        dialogue = play(generate("schedule", 0, index), make_player("negotiator"), make_player("rules"))
        texts = [dialogue.text.partition("Conversation Starts:")[2]]
        texts += [write(turn.acts[0]) for turn in dialogue.turns if turn.acts[0].kind in ("speak", "leave")]
        for text in texts:
            letters = [token for token in tokenizer.tokenize(text) if re.fullmatch("[A-Za-z]", token)]
            assert not letters, (text, letters)
    assert len(tokenizer.tokenize(write(Act("speak", "How about Monday at noon?")))) == 5
    assert len(tokenizer.tokenize(write(LEAVE))) == 1
