"""An OpenAI-compatible endpoint without a model: answers the same after a delay, to any number at a time.

`python -m benchmarks.speed.stub_endpoint DELAY DEVIATION ANSWER...` prints its port. A request whose system message
begins with the first word of an answer, up to its `=`, gets the rest of that answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def stub_endpoint(delay: float, answers: Mapping[str, str], deviation: float = 0.0) -> Iterator[str]:
    """Run the endpoint in a process of its own, and give its base URL."""
    command = [sys.executable, "-m", "benchmarks.speed.stub_endpoint", str(delay), str(deviation)]
    process = subprocess.Popen(
        [*command, *(f"{start}={answer}" for start, answer in answers.items())], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def _serve(delay: float, deviation: float, answers: Mapping[str, bytes]) -> None:
    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(maxsplit=1)[0])
                asked = json.loads(await reader.readexactly(length))
                first = asked["messages"][0]["content"]
                drawn = random.Random(asked.get("seed")).gauss(delay, deviation) if deviation else delay
                await asyncio.sleep(min(max(drawn, 0.0), 4 * delay))
                writer.write(next(answer for start, answer in answers.items() if first.startswith(start)))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _response(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 600, "completion_tokens": 30, "total_tokens": 630}
    answer = {"id": "stub", "object": "chat.completion", "created": 0, "model": "stub"}
    body = json.dumps({**answer, "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    pairs = (answer.partition("=") for answer in sys.argv[3:])
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            _serve(float(sys.argv[1]), float(sys.argv[2]), {start: _response(text) for start, _, text in pairs})
        )
