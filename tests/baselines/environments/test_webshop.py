"""WebShop's tiny policy: nothing on its way is spelled letter by letter, and it can write all that its expert says."""

import itertools

import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")

from baselines.environments.webshop import WEBSHOP
from baselines.runs.config import make_config
from baselines.runs.stack import make_envs, tasks
from policies.tiny import tiny_tokenizer

LETTERS = set("abcdefghijklmnopqrstuvwxyz0123456789")


def whole(text):
    """Leave the line out at which a page was cut off; a long phrase of many lines goes with it."""
    if "[cut]" not in text:
        return text
    lines = itertools.takewhile(lambda line: not line.startswith("Rating"), text.split(" [SEP] ")[:-1])
    return " [SEP] ".join([*lines, ""])


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer([], WEBSHOP.words(), pieces=WEBSHOP.pieces, lower_case=True)


@pytest.fixture(scope="module")
def steps():
    """Prompts and advice of 64 training episodes."""
    config = make_config(WEBSHOP, methods=["grpo"], seeds=[0], model="tiny", history=None, sizes=WEBSHOP.quick)
    envs = make_envs(config, 64, expert=True)
    observations, infos = envs.reset(options=tasks("train", 64))
    found = []
    for _ in range(config.setup.options["max_episode_steps"]):
        found += [
            (chat[-1]["content"], advice) for chat, advice in zip(observations, infos["expert_action"], strict=True)
        ]
        observations, _, _, _, infos = envs.step([f"<action>{advice}</action>" for advice in infos["expert_action"]])
    return [(prompt, advice) for prompt, advice in found if advice]


def test_words_of_prompts_and_commands_are_few_tokens_and_read_back(tokenizer, steps):
    assert len(steps) > 200
    for prompt, advice in steps:
        for text in (prompt, advice):
            # Numbers below ten are words of one character.
            tokens = tokenizer.tokenize(whole(text))
            assert not [token for token in tokens if token in LETTERS - set("123456789")], (text, tokens)
    lengths = [len(tokenizer(prompt)["input_ids"]) for prompt, _ in steps]
    assert max(lengths) < 220
    assert sum(lengths) / len(lengths) < 100
    # the command, the tag that closes it, and nothing more
    longest = max(len(tokenizer(f"{advice}</action>")["input_ids"]) for _, advice in steps)
    assert longest <= WEBSHOP.setup.policy["max_new_tokens"]
    for _, advice in steps:
        assert tokenizer.decode(tokenizer(advice)["input_ids"]) == advice
    assert tokenizer.tokenize("click[b000001234]") == ["click[b00000", "12", "34", "]"]
    assert tokenizer.tokenize("search[Odor Resistant sandals]") == ["search[", "odor resistant", " ", "sandals", "]"]
    assert tokenizer.tokenize("click[buy now]") == ["click[buy now]"]
    # A phrase inside another word is none.
    assert "sandals" not in tokenizer.tokenize("sandalsandals")
