"""Text that hurts parsers, by the length wanted: tags that never close, white space, brackets, what is not text."""

import time
from collections.abc import Callable

FAMILIES: dict[str, Callable[[int], str]] = {
    "open angles": lambda n: "<" * n,
    "angles and spaces": lambda n: "< " * (n // 2),
    "open actions": lambda n: "<action>" * (n // 8),
    "closed actions": lambda n: "</action>" * (n // 9),
    "empty actions": lambda n: "<action></action>" * (n // 17),
    "one long action": lambda n: f"<action>{'x' * n}</action>",
    "one blank action": lambda n: f"<action>{' ' * n}</action>",
    "unclosed action": lambda n: "<action>" + "up " * (n // 3),
    "open thoughts": lambda n: "<think>" * (n // 7),
    "empty thoughts": lambda n: "<think></think>" * (n // 15),
    "crossed tags": lambda n: "<think><action></think></action>" * (n // 32),
    "half tags": lambda n: "<action" * (n // 7),
    "tags of any case": lambda n: "<AcTiOn></aCtIoN>" * (n // 17),
    "command tags": lambda n: "<search>" * (n // 8) + "</answer>",
    "white space": lambda n: " \t\n" * (n // 3),
    "line breaks": lambda n: "\r\n\x85\u2028" * (n // 4),
    "surrogates": lambda n: "\ud800" * n,
    "control characters": lambda n: "\x00\x1b[31m" * (n // 6),
    "letters that grow": lambda n: "İß" * (n // 2),
    "brackets and quotes": lambda n: '[{"' * (n // 3),
    "fences": lambda n: "```json\n" * (n // 8),
}


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Processor time of the fastest of some runs, at least 1 ms, below which a clock says little."""
    least = 1e-3
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return max(least, min(times))


def growth(work: Callable[[int], Callable[[], object]], n: int, repeats: int = 5) -> float:
    """How many times longer `work(8 * n)()` takes than `work(n)()`; what a call of `work` does is not counted."""
    return seconds(work(8 * n), repeats) / seconds(work(n), repeats)
