"""What machine a measurement was made on."""

import importlib.metadata
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from agentgym.outside.packages import install

#: Distributions whose version may change a result.
_DISTRIBUTIONS = (
    "numpy", "scipy", "gymnasium", "torch", "transformers", "tokenizers", "stable-baselines3", "gym-sokoban",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """Where it ran. `cpu` names the processor, and the GPUs if there are any; `versions` are those of distributions."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    versions: dict[str, str]

    @property
    def hardware(self) -> str:
        return f"{self.cpu}, {self.cores} cores, {self.memory_gib:g} GiB, {self.system}"

    @property
    def software(self) -> str:
        return ", ".join([f"Python {self.python}", *(f"{name} {version}" for name, version in self.versions.items())])


def missing_package(error: ModuleNotFoundError) -> str:
    """Return what to install for a module that was not found, in words.

    >>> missing_package(ModuleNotFoundError("No module named 'rich'", name="rich")).partition(":")[0]
    "this needs the package 'rich', which is not installed"
    """
    name = (error.name or "").partition(".")[0].replace("_", "-")
    known = [part.partition(";") for part in importlib.metadata.requires("stepcredit") or ()]
    extras = [rest.partition("==")[2].strip(" \"'") for head, _, rest in known if re.split(r"[^\w-]", head)[0] == name]
    if not extras or not extras[0]:
        return str(error)
    needed = dict.fromkeys(["bench", extras[0]] if extras[0] != "train" else ["train", "bench"])
    return f"this needs the package {name!r}, which is not installed: {install(*needed)}"


def describe_machine() -> Machine:
    """Name the processor, GPUs, the cores this process may use, the memory, and the versions that matter."""
    versions = {}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Machine(
        cpu=", ".join([_cpu_name(), *_gpu_names()]),
        cores=usable_cores(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        versions=versions,
    )


def usable_cores() -> int:
    """Number of cores that this process may run on (a container or `taskset` may allow fewer than there are)."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _gpu_names() -> list[str]:
    """Names of NVIDIA's cards as the driver's own command tells them, which is quicker than importing PyTorch."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    except (OSError, subprocess.CalledProcessError):
        return []


def _cpu_name() -> str:
    """Model name as the kernel tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"
