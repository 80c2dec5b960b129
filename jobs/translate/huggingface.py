"""Export a trained model to Hugging Face's `transformers`, in the layout of its Marian models.

Reads   a model directory (config.json, model.safetensors, subwords.model)
Writes  config.json, generation_config.json, model.safetensors, source.spm, target.spm, vocab.json,
        tokenizer_config.json: MarianMTModel.from_pretrained and MarianTokenizer.from_pretrained read it

Marian's layers are the paper's: post-norm, sinusoids, one matrix for both embeddings and the softmax. Two things
differ. Its sinusoids stand in two halves, sines then cosines, where ours alternate (section 3.5): the axis of d_model
is permuted in every tensor, which changes no product. Its attention has biases: they are zero. Its search divides by
length ^ alpha, where the paper divides by ((5 + length) / 6) ^ alpha: without a penalty both find the same words.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from jobs.errors import UserError
from jobs.translate.export import load_for_export, whole_directory
from transformer.attention import CrossAttention, SelfAttention
from transformer.config import END, PAD, START, SUBWORDS, UNKNOWN, WEIGHTS, ModelConfig, SearchConfig
from transformer.layers import DecoderLayer, EncoderLayer, FeedForward
from transformer.model import Transformer

POSITIONS = 1_024  # rows of Marian's table of sinusoids: it has no rule for longer sentences


def to_huggingface(directory: Path, output: Path) -> None:
    """Write the model as `transformers` reads it."""
    translator = load_for_export(directory)
    model, subwords = translator.model, translator.subwords
    require_marian(model.config)
    names = subwords.pieces(range(len(subwords)))
    names += [f"<unused {i}>" for i in range(len(names), model.vocabulary_size)]
    with whole_directory(output) as draft:
        save_file(weights(model), draft / WEIGHTS, metadata={"format": "pt"})
        write_json(draft / "config.json", model_config(model))
        write_json(draft / "generation_config.json", generation_config())
        write_json(draft / "vocab.json", {name: number for number, name in enumerate(names)})
        write_json(draft / "tokenizer_config.json", tokenizer_config(names))
        for side in ("source.spm", "target.spm"):
            shutil.copyfile(directory / SUBWORDS, draft / side)


def require_marian(config: ModelConfig) -> None:
    """Refuse what Marian's layout has no place for."""
    faults = [
        sentence
        for wrong, sentence in (
            (config.norm == "pre", "model.norm=pre: Marian's layers normalise after the residual"),
            (config.positions == "learned", "model.positions=learned: Marian computes sinusoids"),
            (not config.tied_embeddings, "model.tied_embeddings=false: Marian shares one matrix"),
            (
                not config.key_width == config.value_width == config.d_model / config.num_heads,
                f"d_k={config.key_width}, d_v={config.value_width}: Marian's are d_model / h",
            ),
        )
        if wrong
    ]
    if faults:
        raise UserError(f"This model cannot be exported to Marian's layout ({'; '.join(faults)}).")


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# --- settings ----------------------------------------------------------------------------------------------------


def model_config(model: Transformer) -> dict[str, Any]:
    config = model.config
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", config.layers),
            ("attention_heads", config.num_heads),
            ("ffn_dim", config.d_ff),
        )
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": model.vocabulary_size,
        "decoder_vocab_size": model.vocabulary_size,
        "d_model": config.d_model,
        **sides,
        "activation_function": "relu",
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.relu_dropout,
        "max_position_embeddings": POSITIONS,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": START,
        "eos_token_id": END,
        "decoder_start_token_id": START,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def generation_config() -> dict[str, Any]:
    """The paper's beam; no length penalty, since `transformers` has another one than the paper."""
    return {
        "num_beams": SearchConfig().beam,
        "length_penalty": 0.0,
        "max_length": POSITIONS // 2,
        "suppress_tokens": [PAD, UNKNOWN, START],
        "pad_token_id": PAD,
        "bos_token_id": START,
        "eos_token_id": END,
        "decoder_start_token_id": START,
    }


def tokenizer_config(names: list[str]) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "pad_token": names[PAD],
        "unk_token": names[UNKNOWN],
        "eos_token": names[END],
        "model_max_length": POSITIONS // 2,
        "clean_up_tokenization_spaces": False,
    }


# --- weights -----------------------------------------------------------------------------------------------------


def weights(model: Transformer) -> dict[str, Tensor]:
    """Every tensor under Marian's name, with the axis of d_model permuted to sines before cosines."""
    width = model.config.d_model
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    found = {"model.shared.weight": model.embedding.weight[:, order]}
    for number, encoder_layer in enumerate(model.encoder_layers):
        found |= prefixed(f"model.encoder.layers.{number}", encoder_weights(encoder_layer, order))
    for number, decoder_layer in enumerate(model.decoder_layers):
        found |= prefixed(f"model.decoder.layers.{number}", decoder_weights(decoder_layer, order))
    found["final_logits_bias"] = torch.zeros(1, model.vocabulary_size)
    return {name: weight.detach().float().contiguous() for name, weight in found.items()}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def encoder_weights(layer: EncoderLayer, order: Tensor) -> dict[str, Tensor]:
    return {
        **prefixed("self_attn", self_attention(layer.self_attention, order)),
        **prefixed("self_attn_layer_norm", norm(layer.around_attention.norm, order)),
        **feed_forward(layer.feed_forward, order),
        **prefixed("final_layer_norm", norm(layer.around_feed_forward.norm, order)),
    }


def decoder_weights(layer: DecoderLayer, order: Tensor) -> dict[str, Tensor]:
    return {
        **prefixed("self_attn", self_attention(layer.self_attention, order)),
        **prefixed("self_attn_layer_norm", norm(layer.around_self.norm, order)),
        **prefixed("encoder_attn", cross_attention(layer.source_attention, order)),
        **prefixed("encoder_attn_layer_norm", norm(layer.around_source.norm, order)),
        **feed_forward(layer.feed_forward, order),
        **prefixed("final_layer_norm", norm(layer.around_feed_forward.norm, order)),
    }


def self_attention(attention: SelfAttention, order: Tensor) -> dict[str, Tensor]:
    return projections(attention.queries_keys_values.weight.chunk(3), attention.output.weight, order)


def cross_attention(attention: CrossAttention, order: Tensor) -> dict[str, Tensor]:
    keys, values = attention.keys_values.weight.chunk(2)
    return projections((attention.queries.weight, keys, values), attention.output.weight, order)


def projections(queries_keys_values: tuple[Tensor, ...], output: Tensor, order: Tensor) -> dict[str, Tensor]:
    """The heads' axis stays as it is; biases are zero."""
    named = zip(("q_proj", "k_proj", "v_proj"), (weight[:, order] for weight in queries_keys_values), strict=True)
    matrices = {**dict(named), "out_proj": output[order]}
    found = {f"{name}.weight": weight for name, weight in matrices.items()}
    return found | {f"{name}.bias": torch.zeros(len(weight)) for name, weight in matrices.items()}


def feed_forward(network: FeedForward, order: Tensor) -> dict[str, Tensor]:
    return {
        "fc1.weight": network.inner.weight[:, order],
        "fc1.bias": network.inner.bias,
        "fc2.weight": network.outer.weight[order],
        "fc2.bias": network.outer.bias[order],
    }


def norm(layer: Any, order: Tensor) -> dict[str, Tensor]:
    return {"weight": layer.weight[order], "bias": layer.bias[order]}
