from policies.decode.reply_text import ReplyText
from policies.pretrained import Settings
from policies.tiny import tiny_tokenizer


def test_what_the_model_writes_is_clean_text():
    tokenizer = type("Foul", (), {"decode": lambda self, ids, **_: "a\ud800\x1b\x00b\n"})()
    assert ReplyText(tokenizer, Settings())((1, 2)) == "a\ufffd\ufffd\ufffdb\n"


def test_text_and_tokens_are_each_other_s_inverse():
    tokenizer = tiny_tokenizer(["look"], ["up", "down"])
    text = ReplyText(tokenizer, Settings(prefix="<action>", suffix="</action>", max_new_tokens=4))
    ids = text.tokens("<action>up down</action>")
    assert ids[-1] == tokenizer.eos_token_id  # no stop text ends it
    assert text(ids) == "<action>up down</action>"
    assert text(ids[:1]) == text(ids[:1]) == "<action>up</action>"
