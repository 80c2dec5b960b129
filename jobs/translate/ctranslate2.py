"""Export a trained model to CTranslate2, an independent engine: the same weights must give the same translations.

Reads   a model directory (config.json, model.safetensors, subwords.model)
Writes  a CTranslate2 directory (config.json, model.bin, shared_vocabulary.json) with the subwords.model beside it

Without a length penalty CTranslate2's search is ours (transformer/beam.py), and `CTranslate2Translator` then ranks what
has finished by the paper's ((5 + length) / 6) ^ alpha; CTranslate2's own penalty is length ^ alpha. What remains apart:
it returns only the `beam` most probable of what has finished, and it cuts a translation that reaches the limit of
its length where ours is forced to END.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from jobs.errors import UserError
from jobs.translate.export import load_for_export, whole_directory
from transformer.attention import CrossAttention, SelfAttention
from transformer.beam import length_penalty
from transformer.config import END, START, SUBWORDS, UNKNOWN, SearchConfig
from transformer.layers import FeedForward
from transformer.loading import load_subwords
from transformer.model import Transformer
from transformer.positions import SinusoidalPositions, sinusoids
from transformer.subwords import Subwords
from transformer.translator import (
    BATCH_TOKENS,
    EMPTY,
    LONGEST,
    Alternative,
    Translation,
    length_batches,
    require_length,
)

try:
    import ctranslate2
    from ctranslate2.specs import transformer_spec
except ImportError:  # an optional dependency
    ctranslate2 = None

POSITIONS = LONGEST  # rows of the table of sinusoids: the longest sentence that the exported model can read
WEIGHTS = "model.bin"


def require_ctranslate2() -> None:
    if ctranslate2 is None:
        raise UserError("CTranslate2 is not installed: `pip install 'attn[export]'` (or ctranslate2 itself) adds it.")


# --- export ------------------------------------------------------------------------------------------------------


def to_ctranslate2(directory: Path, output: Path, quantization: str | None = None) -> None:
    """Write the model for CTranslate2; `quantization` is one of its own, such as int8, or None for the same weights."""
    require_ctranslate2()
    translator = load_for_export(directory)
    spec = specification(translator.model, translator.subwords)
    with whole_directory(output) as draft:
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(draft))
        shutil.copyfile(directory / SUBWORDS, draft / SUBWORDS)


def specification(model: Transformer, subwords: Subwords) -> Any:
    """The model in CTranslate2's terms."""
    config = model.config
    if config.key_width != config.value_width or config.key_width * config.num_heads != config.d_model:
        raise UserError(
            f"CTranslate2 wants d_k = d_v = d_model / h, and this model has d_k={config.key_width}, "
            f"d_v={config.value_width}, d_model={config.d_model}, h={config.num_heads}: it cannot be exported."
        )
    spec = transformer_spec.TransformerSpec.from_config(config.layers, config.num_heads, pre_norm=config.norm == "pre")
    names = subwords.pieces(range(len(subwords)))
    names += [f"<unused {i}>" for i in range(len(names), model.vocabulary_size)]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = names[UNKNOWN], names[START], names[END]
    spec.config.decoder_start_token = names[START]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.encoder_layers[0].around_attention.norm.eps
    _set_encoder(spec.encoder, model)
    _set_decoder(spec.decoder, model)
    return spec


def _set_encoder(spec: Any, model: Transformer) -> None:
    table = model.embedding if model.config.tied_embeddings else model.source_embedding
    spec.embeddings[0].weight = _plain(table.weight)
    spec.position_encodings.encodings = _plain(_positions(model.source_positions))
    if model.config.norm == "pre":
        _set_norm(spec.layer_norm, model.encoder_norm)
    for theirs, ours in zip(spec.layer, model.encoder_layers, strict=True):
        _set_self_attention(theirs.self_attention, ours.self_attention)
        _set_norm(theirs.self_attention.layer_norm, ours.around_attention.norm)
        _set_feed_forward(theirs.ffn, ours.feed_forward)
        _set_norm(theirs.ffn.layer_norm, ours.around_feed_forward.norm)


def _set_decoder(spec: Any, model: Transformer) -> None:
    spec.embeddings.weight = _plain(model.embedding.weight)
    spec.position_encodings.encodings = _plain(_positions(model.target_positions))
    spec.projection.weight = _plain(model.output_weight)
    if model.config.norm == "pre":
        _set_norm(spec.layer_norm, model.decoder_norm)
    for theirs, ours in zip(spec.layer, model.decoder_layers, strict=True):
        _set_self_attention(theirs.self_attention, ours.self_attention)
        _set_norm(theirs.self_attention.layer_norm, ours.around_self.norm)
        _set_cross_attention(theirs.attention, ours.source_attention)
        _set_norm(theirs.attention.layer_norm, ours.around_source.norm)
        _set_feed_forward(theirs.ffn, ours.feed_forward)
        _set_norm(theirs.ffn.layer_norm, ours.around_feed_forward.norm)


def _set_self_attention(spec: Any, attention: SelfAttention) -> None:
    spec.linear[0].weight = _plain(attention.queries_keys_values.weight)
    spec.linear[1].weight = _plain(attention.output.weight)


def _set_cross_attention(spec: Any, attention: CrossAttention) -> None:
    spec.linear[0].weight = _plain(attention.queries.weight)
    spec.linear[1].weight = _plain(attention.keys_values.weight)
    spec.linear[2].weight = _plain(attention.output.weight)


def _set_feed_forward(spec: Any, network: FeedForward) -> None:
    spec.linear_0.weight, spec.linear_0.bias = _plain(network.inner.weight), _plain(network.inner.bias)
    spec.linear_1.weight, spec.linear_1.bias = _plain(network.outer.weight), _plain(network.outer.bias)


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _plain(norm.weight), _plain(norm.bias)


def _positions(module: Any) -> Tensor:
    table: Tensor = module.table
    return sinusoids(POSITIONS, table.size(1)) if isinstance(module, SinusoidalPositions) else table


def _plain(weight: Tensor) -> Any:
    return weight.detach().float().contiguous().numpy()


def decoding_limit(source: Sequence[int], search: SearchConfig) -> int:
    """Subwords that a translation may have, END counted; never more than there are positions."""
    return min(len(source) + search.extra_length + 1, POSITIONS)


# --- the exported model at work ----------------------------------------------------------------------------------


class CTranslate2Translator:
    """The same as `transformer.translator.Translator`, done by CTranslate2."""

    def __init__(self, engine: Any, subwords: Subwords, batch_tokens: int = BATCH_TOKENS) -> None:
        self.engine = engine
        self.subwords = subwords
        self.batch_tokens = batch_tokens

    @classmethod
    def load(cls, directory: Path, threads: int = 0, compute_type: str = "float32") -> CTranslate2Translator:
        """From an exported directory, or from a model directory, which is exported first."""
        require_ctranslate2()
        directory = Path(directory)
        options = {"device": "cpu", "intra_threads": threads, "compute_type": compute_type}
        if (directory / WEIGHTS).is_file():
            try:
                engine = ctranslate2.Translator(str(directory), **options)
            except (RuntimeError, ValueError) as error:
                raise ValueError(f"{directory} is no model of CTranslate2: {error}") from error
        else:
            with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
                exported = Path(scratch) / "model"
                to_ctranslate2(directory, exported)
                engine = ctranslate2.Translator(str(exported), **options)
        return cls(engine, load_subwords(directory))

    def translate(self, texts: Sequence[str], search: SearchConfig | None = None) -> list[Translation]:
        """Each text's translation, in the order of the texts. A blank text stays blank."""
        search = search or SearchConfig()
        sources = self.subwords.encode_all(texts)
        require_length(texts, sources)
        found = [EMPTY for _ in texts]
        places = [place for place, ids in enumerate(sources) if ids]
        for some in length_batches([len(sources[place]) + 1 for place in places], self.batch_tokens):
            chosen = [places[i] for i in some]
            for place, translation in zip(chosen, self._search([sources[p] for p in chosen], search), strict=True):
                found[place] = translation
        return found

    def _search(self, sources: list[list[int]], search: SearchConfig) -> list[Translation]:
        """CTranslate2 has one limit of length for a batch. Whoever comes near its own limit under the batch's larger
        one is translated again beside sources of its own length, so that a translation depends on no neighbour."""
        limits = [decoding_limit(ids, search) for ids in sources]
        results = self._translate_batch(sources, max(limits), search)
        by_limit: dict[int, list[int]] = {}
        for place, (result, limit) in enumerate(zip(results, limits, strict=True)):
            if limit < max(limits) and max(map(len, result.hypotheses)) >= limit - 1:
                by_limit.setdefault(limit, []).append(place)
        for limit, places in by_limit.items():
            again = self._translate_batch([sources[place] for place in places], limit, search)
            for place, result in zip(places, again, strict=True):
                results[place] = result
        return [self._ranked(result, search) for result in results]

    def _translate_batch(self, sources: list[list[int]], limit: int, search: SearchConfig) -> list[Any]:
        try:
            return list(
                self.engine.translate_batch(
                    [self.subwords.pieces(ids) for ids in sources],
                    beam_size=search.beam,
                    num_hypotheses=search.beam,
                    length_penalty=0,
                    min_decoding_length=0,
                    max_decoding_length=limit,
                    max_input_length=0,
                    return_scores=True,
                )
            )
        except (RuntimeError, ValueError) as error:
            longest = max(map(len, sources))
            reason = str(error).partition("\n")[0]
            raise UserError(f"CTranslate2 could not translate a text of {longest:,} subwords: {reason}") from error

    def _ranked(self, result: Any, search: SearchConfig) -> Translation:
        """What has finished, in the order of the paper's length penalty."""
        alternatives = []
        for pieces, log_probability in zip(result.hypotheses, result.scores, strict=True):
            score = log_probability / float(length_penalty(len(pieces) + 1, search.alpha))
            text = self.subwords.text_of(pieces).replace("\r", " ").replace("\n", " ")
            alternatives.append(Alternative(text, score, len(pieces)))
        alternatives.sort(key=lambda alternative: -alternative.score)
        return Translation.of(alternatives[: search.n_best])
