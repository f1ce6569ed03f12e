"""Where a reply ends, and that looking for it takes linear time."""

from policies.reply_end import ReplyEnd
from policies.tiny import tiny_tokenizer
from tests.growth import MOST_GROWTH, growth


def test_an_end_token_or_a_text_over_several_tokens_ends_a_reply() -> None:
    tokenizer = tiny_tokenizer(["PO#"])
    first, second, other = (tokenizer(text)["input_ids"][0] for text in "PO#")
    over = ReplyEnd(tokenizer, {tokenizer.eos_token_id}, ("PO",))
    assert [over(ids) for ids in ([first], [first, second], [second], [other, first, second], [first, other])] == [
        False, True, False, True, False
    ]  # fmt: skip
    assert over([first, tokenizer.eos_token_id])
    assert not ReplyEnd(tokenizer, (), ())([tokenizer.eos_token_id])


def test_looking_for_stop_texts_takes_linear_time() -> None:
    tokenizer = tiny_tokenizer(["Px"])
    token, other = (tokenizer(text)["input_ids"][0] for text in "Px")
    over = ReplyEnd(tokenizer, (), ("P" * 9 + "x",))

    def write(length: int) -> None:
        ids: list[int] = []
        for _ in range(length):
            ids.append(other if len(ids) % 5 == 4 else token)
            assert not over(ids)

    assert growth(write, 400, 8 * 400) < MOST_GROWTH
    assert over([token] * 9 + [other])
