"""Where a reply ends."""

from policies.decode.reply_end import ReplyEnd
from policies.tiny import tiny_tokenizer


def test_an_end_token_or_a_text_over_several_tokens_ends_a_reply() -> None:
    tokenizer = tiny_tokenizer(["PO#"])
    first, second, other = (tokenizer(text)["input_ids"][0] for text in "PO#")
    over = ReplyEnd(tokenizer, {tokenizer.eos_token_id}, ("PO",))
    assert [over(ids) for ids in ([first], [first, second], [second], [other, first, second], [first, other])] == [
        False, True, False, True, False
    ]  # fmt: skip
    assert over([first, tokenizer.eos_token_id])
    assert not ReplyEnd(tokenizer, (), ())([tokenizer.eos_token_id])


def test_a_stop_text_of_ten_tokens_is_seen_at_its_last() -> None:
    tokenizer = tiny_tokenizer(["Px"])
    token, other = (tokenizer(text)["input_ids"][0] for text in "Px")
    over = ReplyEnd(tokenizer, (), ("P" * 9 + "x",))
    ids: list[int] = []
    for _ in range(400):
        ids.append(other if len(ids) % 5 == 4 else token)
        assert not over(ids)
    assert over([token] * 9 + [other])
