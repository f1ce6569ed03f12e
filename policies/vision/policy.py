"""Vision-language policies: models that read the pictures of chat messages.

Messages may contain pictures, as `wrappers.prompt` and `wrappers.transcript` write them. torchvision is not needed.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from agentgym.outside.packages import install
from agentgym.outside.text import DataError, read_json, read_text
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Sampler
from policies.huggingface import HuggingFacePolicy
from policies.lora import ADAPTER_FILE, adapter_base
from policies.pretrained import SEEING, pictures_of
from policies.prompts import Prompt, PromptEncoder
from policies.vision.inputs import PictureInputs
from policies.vision.store import PictureStore

#: File of the image processor in a model's folder.
PROCESSOR_FILE = "preprocessor_config.json"
_CONFIG_FILE = "config.json"


class VisionPolicy(HuggingFacePolicy):
    """A vision-language model that reads chat messages with pictures and writes replies.

    `Reply.prompt_ids` represents a picture by numbers made from its pixels (`policies.vision.store`).

    Args:
        model: of the Qwen2.5-VL or Qwen3-VL architecture.
        processor: its image processor, such as one from `image_processor`; it determines the size of pictures.
        pictures: a store shared with another policy; None: the store of another policy over this model, else an empty
            one.
        sampler: None: the loop of `policies.decode.loop`. Engines are refused, because they do not receive pictures.

    Raises:
        TypeError: the model is of another architecture.
        ValueError: model and image processor cut pictures into different patches; `pictures` belongs to another
            processor, or the model already reads another store; or a sampler is given.
        ImportError: the release of transformers is too old.
    """

    def __init__(
        self, model: Any, tokenizer: Any, processor: Any, *, pictures: PictureStore | None = None,
        sampler: Sampler | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        _check(model, processor)
        if sampler is not None and type(sampler) is not LoopSampler:
            raise ValueError(
                f"{type(sampler).__name__} is not given the pictures of prompts: a policy that sees writes its replies "
                "itself, sampler=None"
            )
        there = pictures_of(model)
        self.pictures = pictures or (PictureStore(processor) if there is None else there.pictures)
        if self.pictures.processor is not processor:
            raise ValueError(
                "the pictures are made into patches by another image processor than the one given: give pictures' own, "
                "pictures.processor; a policy with another one needs a model of its own"
            )
        config = model.config
        self._inputs = PictureInputs(self.pictures, config)
        self._inputs.attach(model)
        self._frame = tuple(tokenizer.convert_ids_to_tokens([config.vision_start_token_id, config.vision_end_token_id]))
        super().__init__(model, tokenizer, sampler=sampler, **settings)

    def _make_encoder(self, **given: Any) -> PromptEncoder:
        return PicturePromptEncoder(self.pictures, self._frame, **given)

    def _like(self, model: Any, **given: Any) -> HuggingFacePolicy:
        return VisionPolicy(model, self.tokenizer, self.pictures.processor, pictures=self.pictures, **given)

    def read_pictures(self, model: Any) -> None:
        """Let another model read the prompts of this policy, such as a critic's trunk."""
        self._inputs.attach(model)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write model, tokenizer, image processor and settings; any Hugging Face tool can read the folder."""
        super().save_pretrained(folder)
        self.pictures.processor.save_pretrained(folder)

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, download: bool = False, processor: Any = None, **options: Any
    ) -> Self:
        """Read a folder written by `save_pretrained`, or a Qwen2.5-VL or Qwen3-VL model; see `HuggingFacePolicy`.

        Args:
            path: a folder, or a model name on the Hugging Face Hub.
            download: fetch the model when `path` is a name that is not in the local cache.
            processor: replaces the image processor of the model's folder, or of an adapter's base; that of `pictures`,
                where these are given.
            **options: see `HuggingFacePolicy.from_pretrained`.

        Raises:
            DataError: there is no such model, no image processor beside it, or the folder holds no usable model.
        """
        if processor is None and (pictures := options.get("pictures")) is not None:
            processor = pictures.processor
        if processor is None:
            beside = _seeing(path, options.get("base"))
            try:
                processor = _processor_class().from_pretrained(beside, local_files_only=not download)
            except OSError as error:
                raise DataError(
                    f"{str(beside)!r} holds no {PROCESSOR_FILE}, or is no model here; pass download=True to fetch it. "
                    f"Cause: {error}"
                ) from error
        return super().from_pretrained(path, download=download, processor=processor, **options)


def load_policy(path: str | Path, *, download: bool = False, **options: Any) -> HuggingFacePolicy:
    """Load a vision-language policy if the model reads pictures, else a `HuggingFacePolicy`.

    Args:
        path: a folder, or a model name on the Hugging Face Hub.
        download: fetch the model when `path` is a name that is not in the local cache.
        **options: see `HuggingFacePolicy.from_pretrained`.
    """
    kind = VisionPolicy if sees(path, download=download, base=options.get("base")) else HuggingFacePolicy
    return kind.from_pretrained(path, download=download, **options)


def sees(path: str | Path, *, download: bool = False, base: str | Path | None = None) -> bool:
    """Return whether a model reads pictures; False if there is no such model.

    Args:
        path: a folder, or a model name on the Hugging Face Hub.
        download: fetch the config when `path`, or an adapter's base, is a name that is not in the local cache.
        base: path of an adapter's base; None: the path at which it was when the adapter was saved.
    """
    try:
        folder = Path(_seeing(path, base))
    except ValueError:
        return False
    if (folder / ADAPTER_FILE).is_file():  # an adapter with its own image processor
        return True
    if folder.is_dir():
        try:
            config = read_json(read_text(folder / _CONFIG_FILE))
        except (OSError, DataError):
            return False  # loading it raises the error
        return isinstance(config, dict) and config.get("model_type") in SEEING
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(str(folder), local_files_only=not download).model_type in SEEING
    except (OSError, ValueError):
        return False


def _seeing(path: str | Path, base: str | Path | None) -> str | Path:
    folder = Path(path)
    alone = (folder / ADAPTER_FILE).is_file() and not (folder / PROCESSOR_FILE).is_file()
    return adapter_base(folder, base) if alone else path


def image_processor(**options: Any) -> Any:
    """Return an image processor of transformers that needs no torchvision.

    Args:
        **options: such as `size={"shortest_edge": 3136, "longest_edge": 1003520}`, the fewest and the most pixels of a
            picture after resizing, `patch_size` and `merge_size`.
    """
    return _processor_class()(**options)


def _processor_class() -> Any:
    import transformers

    # Some releases have two; take the one that does not need torchvision.
    return getattr(transformers, "Qwen2VLImageProcessorPil", None) or transformers.Qwen2VLImageProcessor


def _check(model: Any, processor: Any) -> None:
    under = model.get_base_model() if hasattr(model, "get_base_model") else model
    kind = getattr(under.config, "model_type", "")
    if kind not in SEEING or not hasattr(under.config, "vision_config"):
        raise TypeError(f"expected a model out of {SEEING}, got {type(under).__name__} ({kind!r})")
    if "mm_token_type_ids" not in inspect.signature(under.forward).parameters:
        raise ImportError(f"this release of transformers is too old for pictures: {install('vision')}")
    seen = under.config.vision_config
    for name, expected in (("patch_size", seen.patch_size), ("merge_size", seen.spatial_merge_size)):
        if getattr(processor, name) != expected:
            raise ValueError(
                f"the image processor has {name}={getattr(processor, name)}, the model was made for {expected}"
            )


class PicturePromptEncoder(PromptEncoder):
    """Renders observations with pictures: a picture is written as its numbers between two frame tokens."""

    def __init__(self, pictures: PictureStore, frame: Sequence[str], **given: Any) -> None:
        super().__init__(**given)
        self._pictures = pictures
        self._before, self._behind = frame
        self._named = re.compile(
            rf"(?<={re.escape(self._before)})\[picture ([0-9a-f]{{32}})\](?={re.escape(self._behind)})"
        )

    def __call__(self, observation: Any) -> Prompt:
        """Return the token ids of one observation.

        Raises:
            TypeError: it is neither text nor messages, a part of a message is neither text nor picture, or a picture is
                no uint8 array (height, width, 3).
        """
        if isinstance(observation, str):
            return super().__call__(observation)
        try:
            messages = [{"role": each["role"], "content": self._content(each["content"])} for each in observation]
        except (KeyError, IndexError):
            messages = observation  # raises the usual error for a wrong observation
        return super().__call__(messages)

    def _content(self, content: Any) -> Any:
        if not isinstance(content, list):
            return content
        return "".join(map(self._part, content))

    def _part(self, part: Mapping[str, Any]) -> str:
        if part.get("type") == "image":
            return f"{self._before}[picture {self._pictures.add(part['image']).name}]{self._behind}"
        text = part.get("text")
        if part.get("type") != "text" or not isinstance(text, str):
            raise TypeError(f"a part of a message is {{'type': 'text'}} or {{'type': 'image'}}, got {part!r:.200}")
        return text

    def _tokens(self, text: str, special: bool = False) -> Prompt:
        ids: list[int] = []
        # Texts and names alternate; a name that belongs to no picture is ordinary text.
        for place, piece in enumerate(self._named.split(text)):
            picture = self._pictures.named(piece) if place % 2 else None
            if picture is None:
                ids += super()._tokens(f"[picture {piece}]" if place % 2 else piece, special and not place)
            else:
                ids += picture.ids
        return tuple(ids)
