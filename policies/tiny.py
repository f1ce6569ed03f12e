"""A language model of about 0.2 million parameters, built from a config: nothing is downloaded."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from agentgym.outside.text import clean
from policies.huggingface import HuggingFacePolicy

PAD, END, UNKNOWN = "<|pad|>", "<|end|>", "<|unknown|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TAGS = ("<think>", "</think>", "<action>", "</action>")

# One token per piece: a tag, a word, or any single character, so that "#_O" on a board is three tokens although
# nothing separates them. A capital is one token unless it starts a word ("Push"), because boards use them as symbols.
_PIECES = r"</?[a-z_]+>|[A-Z]?[a-z]+|[\s\S]"

# The wall around a board has no information, yet on 6x6 it is 25 of 41 characters: its first line, its last line and
# the wall between two rows are one token each. All boards of one size keep their cells at the same positions,
# which is why a wall inside the room is never merged.
FRAME = (r"\A#+\n#", r"#\n#+\z", r"#\n#")

#: Largest score of the token before the current one in the head that looks back.
_SHARPNESS = 12.0
#: Share of the random weights of that head's queries and keys that remains, so that it can still learn otherwise.
_KEPT = 0.1
#: Scale of queries and keys that find the same token again.
_MATCH = 0.7

# The shortest template that distinguishes the speakers: every token costs time.
_TEMPLATE = (
    "{% for message in messages %}"
    "<|{{ 'user' if message['role'] == 'tool' else message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tiny_tokenizer(
    texts: Sequence[str], extra_words: Sequence[str] = (), *, pieces: Sequence[str] = FRAME, lower_case: bool = False
) -> Any:
    r"""Build a tokenizer whose words are the words of the environment's text.

    Every word, every tag and every other character is one token. A word that was not in `texts` is spelled
    letter by letter; a character that is neither printable ASCII nor in `texts` becomes the unknown token. Text without
    unknown tokens is decoded exactly.

    Args:
        texts: examples of what the policy will read (observations, instructions).
        extra_words: further words, for example the policy's commands.
        pieces: regular expressions (Oniguruma) of further text to keep in one token, tried first.
        lower_case: everything is read in lower case, so that a word and its title form are one token.

    Returns:
        A `transformers.PreTrainedTokenizerFast` with a minimal chat template; deterministic in its arguments.

    Example:
        >>> tokenizer = tiny_tokenizer(["####\n#PO#\n####"], ["up"])
        >>> tokenizer.tokenize("####\n#OP#\n####")
        ['####\n#', 'O', 'P', '#\n####']
        >>> tokenizer.tokenize("P#\n<action>up</action>")
        ['P', '#', '\n', '<action>', 'up', '</action>']
    """
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import BPE
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    splitter = Split(Regex("|".join([*pieces, _PIECES])), "isolated")
    counts: Counter[str] = Counter()
    for text in map(clean, (*texts, *extra_words)):
        counts.update(piece for piece, _ in splitter.pre_tokenize_str(text.lower() if lower_case else text))
    special = [PAD, END, UNKNOWN, *ROLES]
    letters = sorted({"\n", *map(chr, range(32, 127)), *(letter for piece in counts for letter in piece)})
    words = sorted((piece for piece in counts if len(piece) > 1), key=lambda piece: (-counts[piece], piece))
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys([*special, *TAGS, *letters, *words]))}

    # No merges: a piece is a whole known word (ignore_merges) or falls apart into characters.
    tokenizer = Tokenizer(BPE(vocabulary, [], unk_token=UNKNOWN, ignore_merges=True))
    if lower_case:
        tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, unk_token=UNKNOWN,
        additional_special_tokens=list(ROLES), chat_template=_TEMPLATE, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def tiny_policy(
    texts: Sequence[str], *, seed: int, extra_words: Sequence[str] = ("up", "down", "left", "right"), width: int = 64,
    layers: int = 4, heads: int = 4, kv_heads: int = 2, head_size: int | None = None, copying: bool = False,
    mlp: int = 192, positions: int = 2048, rope_base: float = 100.0, initial_scale: float | None = None,
    pieces: Sequence[str] = FRAME, lower_case: bool = False, prefix: str = "<action>", suffix: str = "</action>",
    max_new_tokens: int = 1, **settings: Any,
) -> HuggingFacePolicy:  # fmt: skip
    """Build an untrained policy of the Qwen2 architecture with its own tokenizer.

    By default it answers with one token: the tag that opens the action ends the prompt, so that a turn costs one
    forward pass over a short prompt. That is what makes reinforcement learning feasible on a CPU.

    Args:
        texts: examples of what the policy will read, see `tiny_tokenizer`.
        seed: seed of the weights; the state of the global torch generator does not change.
        extra_words: see `tiny_tokenizer`.
        kv_heads: key-value heads; each serves `heads / kv_heads` attention heads.
        head_size: width of one head; None = width / heads. Wide heads distinguish more words.
        copying: begin with weights that quickly learn to copy words of the prompt, see `start_copying`; for commands
            with names from the prompt.
        mlp: hidden units of a block's feed-forward part.
        rope_base: base of the rotary position angles; 100 distinguishes positions within some hundred tokens.
        initial_scale: standard deviation of the initial weights; None = 1 / sqrt(width). With the 0.02 of large models,
            outputs of this width are almost 0, and learning takes several times as long.
        pieces: text kept in one token, see `tiny_tokenizer`.
        prefix: put before every reply, see `policies.huggingface.Settings`.
        max_new_tokens: length limit of what the model itself writes.
        **settings: further arguments of `policies.huggingface.HuggingFacePolicy`.

    Raises:
        ValueError: a head's size is odd, or the width is no multiple of the heads, or these of the key-value heads.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    size = width // heads if head_size is None else head_size
    if (head_size is None and width % heads) or size < 2 or size % 2 or heads % kv_heads:
        raise ValueError(
            f"heads must be of even size and a multiple of kv_heads, got width={width}, heads={heads}, "
            f"head_size={head_size}, kv_heads={kv_heads}"
        )
    tokenizer = tiny_tokenizer(texts, extra_words, pieces=pieces, lower_case=lower_case)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=size,
        max_position_embeddings=positions,
        rope_theta=rope_base,  # type: ignore[call-arg]  # releases 4 and 5 both take this name
        initializer_range=width**-0.5 if initial_scale is None else initial_scale,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    # transformers draws initial weights from the global generator: fork it.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
    if copying:
        start_copying(model, seed=seed)
    return HuggingFacePolicy(model, tokenizer, prefix=prefix, suffix=suffix, max_new_tokens=max_new_tokens, **settings)


def start_copying(model: Any, *, seed: int) -> None:
    """Initialise the attention weights of an untrained model for copying.

    Commands contain names from the prompt: a product, a person, a room. Pretrained models copy by attention heads that
    find an earlier occurrence of a token and repeat the token after it. A model of two or three layers with random
    weights learns this late, and nothing else improves before. Here

    * the first head of the first layer begins by looking at the token before the current one;
    * the values of every head, seen through its output weights, begin as the token itself, in a random subspace;
    * queries and keys of all layers but the first begin alike, so that a token finds itself.

    This is only an initialisation: every weight is trained.

    Args:
        model: an untrained causal language model with Llama's module names, rotary positions and biases in its query
            and key projections (the Qwen2 architecture).

    Source:
        Olsson et al., "In-context Learning and Induction Heads", 2022; queries and keys, values and outputs alike:
        Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", ICML 2023.
    """
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.hidden_size
    with torch.no_grad():
        for number, layer in enumerate(model.model.layers):
            attention = layer.self_attn
            size = attention.q_proj.weight.shape[0] // heads
            for kv in range(kv_heads):
                values, keys = (_subspace(width, size, generator) for _ in range(2))
                key_rows = slice(kv * size, (kv + 1) * size)
                attention.v_proj.weight[key_rows] = values
                if number:
                    attention.k_proj.weight[key_rows] = _MATCH * keys
                for head in range(kv * heads // kv_heads, (kv + 1) * heads // kv_heads):
                    rows = slice(head * size, (head + 1) * size)
                    attention.o_proj.weight[:, rows] = values.T
                    if number:
                        attention.q_proj.weight[rows] = _MATCH * keys
        _look_back(model.model.layers[0].self_attn, model.model.rotary_emb.inv_freq)


def _subspace(width: int, size: int, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.randn(max(width, size), min(width, size), generator=generator)
    basis: torch.Tensor = torch.linalg.qr(drawn)[0]
    return basis.T if size <= width else basis


def _look_back(attention: Any, frequencies: torch.Tensor) -> None:
    half = len(frequencies)
    length = math.sqrt(_SHARPNESS * math.sqrt(2 * half) / half)
    attention.q_proj.weight[: 2 * half] *= _KEPT
    attention.k_proj.weight[: 2 * half] *= _KEPT
    attention.q_proj.bias[: 2 * half] = length * torch.cat([torch.cos(frequencies), -torch.sin(frequencies)])
    attention.k_proj.bias[: 2 * half] = length * torch.cat([torch.ones(half), torch.zeros(half)])
