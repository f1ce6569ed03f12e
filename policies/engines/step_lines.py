"""Steps as lines of JSON for a model to read: observation, action, and whether it was refused.

A line is one step: every text in it is a JSON string whose line breaks and marks of chat templates are escaped
(`agentgym.outside.text.quote`), so that no text can start a new step or end the list.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.outside.text import quote
from agentgym.trajectory import StepTable

#: Text of `wrappers.prompt` between earlier steps and the current observation.
_NOW = "Now you see:\n"


@dataclass(frozen=True)
class StoryStep:
    """What a judge reads of a step.

    Attributes:
        saw: what the agent saw before it; "" if that adds nothing.
        refused: the environment did not accept that.
        then: what the agent saw afterwards; "" if the next step contains it.
    """

    saw: str
    did: str
    refused: bool = False
    then: str = ""


@dataclass(frozen=True)
class Story:
    """What a judge reads of a trajectory.

    Attributes:
        end: how it ended; "": left out.
    """

    task: str
    steps: tuple[StoryStep, ...]
    end: str = ""


def step_lines(story: Story, *, text_chars: int, task_chars: int, all_chars: int) -> str:
    r"""Return the task and the steps, numbered from 1, one JSON object a line.

    A text that is longer than its limit becomes `["its begin", {"characters_left_out": n}, "its end"]`.

    Args:
        text_chars: maximum number of characters of each text of a step, at least 1.
        task_chars: maximum number of characters of the task.
        all_chars: maximum number of characters of all steps together; if they have more, all their limits are lowered.

    >>> steps = (StoryStep("A door.\n{\"step\": 2}", "open it"), StoryStep("", "wait" * 9, refused=True))
    >>> print(step_lines(Story("Get out.", steps, "success"), text_chars=20, task_chars=99, all_chars=99))
    {"task": "Get out."}
    {"step": 1, "saw": "A door.\n{\"step\": 2}", "did": "open it"}
    {"step": 2, "did": ["waitwaitwa", {"characters_left_out": 16}, "itwaitwait"], "refused": true}
    {"end": "success"}
    """
    lengths = [len(text) for step in story.steps for text in (step.saw, step.did, step.then) if text]
    most = _limit(lengths, text_chars, all_chars)
    lines = [f'{{"task": {_shown(story.task, task_chars)}}}']
    for number, step in enumerate(story.steps, 1):
        fields = [f'"step": {number}']
        fields += [f'"saw": {_shown(step.saw, most)}'] if step.saw else []
        fields += [f'"did": {_shown(step.did, most)}']
        fields += ['"refused": true'] if step.refused else []
        fields += [f'"then": {_shown(step.then, most)}'] if step.then else []
        lines.append(f"{{{', '.join(fields)}}}")
    if story.end:
        lines.append(f'{{"end": {quote(story.end)}}}')
    return "\n".join(lines)


def _limit(lengths: Sequence[int], each: int, together: int) -> int:
    left = together
    for done, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - done)
        if length > share:
            return max(1, min(each, share))
        left -= length
    return each


def _shown(text: str, most: int) -> str:
    if len(text) <= most:
        return quote(text)
    head, tail = most - most // 2, most // 2
    end = quote(text[len(text) - tail :])
    return f'[{quote(text[:head])}, {{"characters_left_out": {len(text) - most}}}, {end}]'


def story_of_states(table: StepTable, rows: Sequence[int]) -> Story:
    """Describe a trajectory by its group's label, its states and its actions.

    States and actions without a text are left out. The whole reply replaces an action that is "".

    Args:
        rows: those of one trajectory, in the order of t.
    """
    steps = [
        StoryStep(value_text(table.states[table.state[row]]), _action(table, row), not table.valid[row]) for row in rows
    ]
    return Story(value_text(table.groups[table.group[rows[0]]]), tuple(steps))


def story_of_prompts(table: StepTable, rows: Sequence[int], tokenizer: Any) -> Story:
    """Describe a trajectory by its prompts: the first one is the task, and later ones are what the agent saw.

    Later prompts are shown without the text that all prompts share and without earlier steps. If a reply has no
    prompt, the state replaces it.

    Args:
        rows: those of one trajectory, in the order of t.
        tokenizer: the Hugging Face tokenizer that made the prompts.
    """
    story = story_of_states(table, rows)
    replies: list[Any] = [None if table.replies is None else table.replies[row] for row in rows]
    if not all(reply is not None and reply.prompt_ids for reply in replies):
        return story
    prompts = [reply.prompt_ids for reply in replies]
    # The unknown token occurs within texts; some models use the end-of-text token for it.
    unknown = {tokenizer.unk_token_id} - {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    special = frozenset(tokenizer.all_special_ids) - unknown
    head, tail = _frame(prompts, special)

    def read(ids: Sequence[int]) -> str:
        parts = [tokenizer.decode(list(part)).strip("\n") for part in _parts(ids, special)]
        return "\n".join(part for part in parts if part)

    seen = [""]
    for before, reply, after in zip(prompts, replies, prompts[1:], strict=False):
        past, begin = (*before, *reply.token_ids), head
        if after[: len(before)] == before:
            begin = len(past) if after[: len(past)] == past else len(before)
        text = read(after[begin : len(after) - tail])
        seen.append(text.partition(_NOW)[2].strip("\n") or text)
    steps = [StoryStep(saw, step.did, step.refused) for saw, step in zip(seen, story.steps, strict=True)]
    return Story(read(prompts[0][: len(prompts[0]) - tail]), tuple(steps))


def _parts(ids: Sequence[int], special: frozenset[int]) -> Iterator[Sequence[int]]:
    begin = 0
    for place, token in enumerate(ids):
        if token in special:
            yield ids[begin:place]
            begin = place + 1
    yield ids[begin:]


def _frame(prompts: Sequence[tuple[int, ...]], special: frozenset[int]) -> tuple[int, int]:
    """Return how many tokens stand before and behind the messages in which prompts differ.

    Before: the common beginning, up to its last special token. Behind: the common end, from its last special token.
    """
    distinct = list(dict.fromkeys(prompts))
    if len(distinct) < 2:
        return len(distinct[0]), 0
    before = [place for place, token in enumerate(_shared(distinct), 1) if token in special]
    behind = [
        place for place, token in enumerate(_shared([prompt[::-1] for prompt in distinct]), 1) if token in special
    ]
    return max(before, default=0), min(behind, default=0)


def _shared(prompts: Sequence[tuple[int, ...]]) -> list[int]:
    columns = zip(*prompts, strict=False)
    return [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)]


def _action(table: StepTable, row: int) -> str:
    text = value_text(table.actions[table.action[row]])
    reply = None if table.replies is None else table.replies[row]
    return text if text or reply is None else reply.text


def value_text(value: Any) -> str:
    """Return a state, an action or an observation as text: a text itself, JSON of other values, else "".

    JSON values are numbers, True, False, None, lists and mappings of these, and vectors, but not pictures.

    >>> value_text("a hall"), value_text((1, np.int64(2))), value_text(frozenset("ab"))
    ('a hall', '[1, 2]', '')
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return ""


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.ndim < 2:  # not pictures
        return value.tolist()
    raise TypeError


def message_texts(shown: Any) -> Iterator[tuple[str, str]]:
    """Yield (role, text) of an observation: chat messages, or one text, which has the role "user".

    Pictures are left out, and of an observation that is a mapping everything but its "text".
    """
    if _is_chat(shown):
        for message in shown:
            content = message["content"]
            parts = content if isinstance(content, (list, tuple)) else [content]
            texts = [part.get("text", "") if isinstance(part, dict) else value_text(part) for part in parts]
            yield str(message.get("role", "user")), "\n".join(text for text in texts if text)
    elif isinstance(shown, dict) and "text" in shown:
        yield "user", value_text(shown["text"])
    else:
        yield "user", value_text(shown)


def _is_chat(shown: Any) -> bool:
    several = isinstance(shown, (list, tuple)) and bool(shown)
    return several and all(isinstance(message, dict) and "content" in message for message in shown)
