"""How fast do we translate? Target tokens per second beside CTranslate2 and Hugging Face, same weights, same run.

The set-up    beam 4, two processes of one thread each, start-up left out; engines in turn, round after round; each
              with the batches it is fastest with here. Rates are by the clock and by processor time, which a busy
              machine disturbs less.
The model     --model DIRECTORY, or one of 3 + 3 layers, 256 / 1024, 8,000 subwords with random weights. Random weights
              never end a sentence, so every translation is then as long as its source and one subword more.
The text      the 1,000 English sentences of Multi30k's test set (in ATTN_TEST_DATA or ../shared/data), or, where they
              are not, the demo language.
The job       jobs/translate/job.py itself, two actors on a Ray of this machine, by the clock (leave out: --no-job).

CTranslate2 runs as jobs/translate/ctranslate2.py runs it. Hugging Face's generate is measured where `transformers` is
installed: with 32 lines at a time in their order, as its documentation has it, and with our batches of like lengths.
The last line is the time per subword of long translations over that of short ones: 1 is linear to the letter.

By hand   python benchmarks/bench_decoding.py [--sentences 300] [--rounds 3] [--model DIRECTORY]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import importlib
import importlib.util
import io
import json
import multiprocessing
import os
import queue
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import sentencepiece
import torch
from safetensors.torch import save_file

from jobs.cluster.connect import connect
from jobs.configs import Resources, TranslateConfig, TranslateResources
from jobs.corpora.demo import language
from jobs.storage.artifacts import Artifact
from jobs.translate import job
from jobs.translate.ctranslate2 import CTranslate2Translator
from transformer.config import END, PAD, START, UNKNOWN, ModelConfig, SearchConfig
from transformer.model import Transformer
from transformer.positions import sinusoids
from transformer.subwords import Subwords
from transformer.translator import Alternative, Translation, Translator, length_batches

SHAPE = ModelConfig(layers=3, d_model=256, d_ff=1024, num_heads=8)
VOCABULARY = 8_000
BATCH_TOKENS = {"ours": 2_000, "ctranslate2": 2_000, "hugging face, sorted": 1_000}
IN_ORDER = 32  # lines at a time
PROCESSES = 2
LIBRARIES = {"ctranslate2": "ctranslate2", "hugging face": "transformers", "hugging face, sorted": "transformers"}


# --- what is translated with what --------------------------------------------------------------------------------


def texts(count: int) -> list[str]:
    directory = Path(os.environ.get("ATTN_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    file = directory / "multi30k" / "test_2016_flickr.en.gz"
    if file.is_file():
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
            return lines.read().split("\n")[:count]
    return [pair.source for pair in language.pairs(1, "test", 0, count)]


def random_model(directory: Path, lines: Sequence[str]) -> None:
    model_file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model_file, vocab_size=VOCABULARY, hard_vocab_limit=False,
        model_type="bpe", byte_fallback=True, pad_id=PAD, unk_id=UNKNOWN, bos_id=START, eos_id=END, minloglevel=2,
    )  # fmt: skip
    torch.manual_seed(1)
    model = Transformer(SHAPE, VOCABULARY)
    with torch.no_grad():
        model.embedding.weight.mul_(1.5)
        model.embedding.weight[len(Subwords(model_file.getvalue())) :] = 0
        model.embedding.weight[END] = 0
    about = {"model": dataclasses.asdict(SHAPE), "vocabulary_size": VOCABULARY}
    (directory / "config.json").write_text(json.dumps(about), encoding="utf-8")
    (directory / "subwords.model").write_bytes(model_file.getvalue())
    save_file({name: p.detach().clone() for name, p in model.named_parameters()}, directory / "model.safetensors")


# --- the engines -------------------------------------------------------------------------------------------------


class HuggingFaceTranslator:
    """The same weights in the library's Marian model, whose layers are the paper's."""

    def __init__(self, directory: Path, batch_tokens: int | None) -> None:
        self.batch_tokens = batch_tokens
        library: Any = importlib.import_module("transformers")
        ours = Translator.load(directory)
        self.subwords, config = ours.subwords, ours.model.config
        self.model = library.MarianMTModel(
            library.MarianConfig(
                vocab_size=ours.model.vocabulary_size, decoder_vocab_size=ours.model.vocabulary_size,
                d_model=config.d_model, encoder_layers=config.layers, decoder_layers=config.layers,
                encoder_attention_heads=config.num_heads, decoder_attention_heads=config.num_heads,
                encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff, activation_function="relu",
                scale_embedding=True, pad_token_id=PAD, eos_token_id=END, bos_token_id=START,
                decoder_start_token_id=START, forced_eos_token_id=None, max_position_embeddings=1024,
            )
        ).eval()  # fmt: skip
        absent = self.model.load_state_dict(marian_weights(ours.model), strict=False).missing_keys
        if [name for name in absent if not name.endswith("bias")]:
            raise RuntimeError(f"the library's model has parts we do not fill: {absent}")

    def translate(self, lines: Sequence[str], search: SearchConfig) -> list[Translation]:
        sources = self.subwords.encode_all(lines)
        found: list[Translation] = [Translation.of([Alternative("", 0.0, 0)])] * len(lines)
        for places in self._batches([len(ids) + 1 for ids in sources]):
            rows = [torch.tensor([*sources[place], END]) for place in places]
            source = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
            out = self.model.generate(
                input_ids=source, attention_mask=source != PAD, num_beams=search.beam, length_penalty=search.alpha,
                max_new_tokens=source.size(1) + search.extra_length, do_sample=False,
            )  # fmt: skip
            for place, ids in zip(places, out.tolist(), strict=True):
                kept = [i for i in ids if i not in (PAD, START, END)]
                found[place] = Translation.of([Alternative(self.subwords.decode(kept), 0.0, len(kept))])
        return found

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        if self.batch_tokens is not None:
            return length_batches(lengths, self.batch_tokens)
        places = list(range(len(lengths)))
        return [places[start : start + IN_ORDER] for start in range(0, len(places), IN_ORDER)]


def marian_weights(model: Transformer) -> dict[str, torch.Tensor]:
    """Our weights under the library's names; biases that we do not have are zero there."""
    table = sinusoids(1024, model.config.d_model)
    out = {"model.shared.weight": model.embedding.weight, "lm_head.weight": model.output_weight}
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        out |= {
            f"model.{side}.embed_tokens.weight": model.embedding.weight,
            f"model.{side}.embed_positions.weight": table,
        }
        for i, layer in enumerate(layers):
            at = f"model.{side}.layers.{i}"
            q, k, v = layer.self_attention.queries_keys_values.weight.chunk(3)
            parts = {"self_attn.q_proj": q, "self_attn.k_proj": k, "self_attn.v_proj": v}
            parts["self_attn.out_proj"] = layer.self_attention.output.weight
            norms = {"self_attn_layer_norm": "around_attention", "final_layer_norm": "around_feed_forward"}
            if side == "decoder":
                k, v = layer.source_attention.keys_values.weight.chunk(2)
                parts |= {"encoder_attn.q_proj": layer.source_attention.queries.weight, "encoder_attn.k_proj": k}
                parts |= {"encoder_attn.v_proj": v, "encoder_attn.out_proj": layer.source_attention.output.weight}
                norms |= {"self_attn_layer_norm": "around_self", "encoder_attn_layer_norm": "around_source"}
            for name, weight in parts.items():
                out |= {f"{at}.{name}.weight": weight, f"{at}.{name}.bias": torch.zeros(weight.size(0))}
            for name, linear in (("fc1", layer.feed_forward.inner), ("fc2", layer.feed_forward.outer)):
                out |= {f"{at}.{name}.weight": linear.weight, f"{at}.{name}.bias": linear.bias}
            for name, ours in norms.items():
                norm = getattr(layer, ours).norm
                out |= {f"{at}.{name}.weight": norm.weight, f"{at}.{name}.bias": norm.bias}
    return {name: weight.detach().clone() for name, weight in out.items()}


def engine(name: str, directory: Path) -> Any:
    if name.startswith("hugging face"):
        return HuggingFaceTranslator(directory, BATCH_TOKENS.get(name))
    if name == "ctranslate2":
        made: Any = CTranslate2Translator.load(directory, threads=1)
    else:
        made = Translator.load(directory)
    made.batch_tokens = BATCH_TOKENS[name]
    return made


# --- measuring ---------------------------------------------------------------------------------------------------


class Speed(NamedTuple):
    """Target tokens per second of all processes together."""

    by_clock: float
    by_processor: float | None


class Share(NamedTuple):
    """What one process did in one round."""

    engine: str
    number: int
    tokens: int
    seconds: float
    processor_seconds: float


def measure(
    names: Sequence[str], directory: Path, lines: Sequence[str], search: SearchConfig, rounds: int
) -> dict[str, Speed]:
    """The speed of each engine, the median over the rounds."""
    context = multiprocessing.get_context("spawn")
    barrier, sent = context.Barrier(PROCESSES), context.Queue()
    workers = [
        context.Process(target=_work, args=(list(names), directory, lines[n::PROCESSES], search, rounds, barrier, sent))
        for n in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    shares: list[Share] = []
    while len(shares) < PROCESSES * len(names) * rounds:
        with contextlib.suppress(queue.Empty):
            shares.append(sent.get(timeout=1))
        if any(worker.exitcode for worker in workers):
            for worker in workers:
                worker.terminate()
            raise SystemExit("A process of the benchmark died; what it said stands above.")
    for worker in workers:
        worker.join()
    return {name: speed([share for share in shares if share.engine == name], rounds) for name in names}


def speed(shares: Sequence[Share], rounds: int) -> Speed:
    """A round lasts as long as its slowest process."""
    together = [[share for share in shares if share.number == number] for number in range(rounds)]
    return Speed(
        median(sum(s.tokens for s in some) / max(s.seconds for s in some) for some in together),
        median(sum(s.tokens for s in some) / max(s.processor_seconds for s in some) for some in together),
    )


def _work(
    names: list[str], directory: Path, lines: Sequence[str], search: SearchConfig, rounds: int, barrier: Barrier,
    sent: Queue[Share],
) -> None:  # fmt: skip
    torch.set_num_threads(1)
    engines = {name: engine(name, directory) for name in names}
    for made in engines.values():
        made.translate(lines[:10], search)
    for number in range(rounds):
        for name, made in engines.items():
            barrier.wait()
            start, processor_start = time.perf_counter(), time.process_time()
            found = made.translate(lines, search)
            seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor_start
            sent.put(Share(name, number, sum(each.tokens for each in found), seconds, processor_seconds))


def growth(directory: Path, search: SearchConfig) -> float:
    """Processor time per subword of translations of 160 subwords over that of translations of 20, as many at once."""
    torch.set_num_threads(1)
    translator = Translator.load(directory)
    costs = []
    for length in (20, 160):
        sources = [[END + 1 + i % 200 for i in range(length)]] * 12
        start = time.process_time()
        found = translator.search(sources, search)
        costs.append((time.process_time() - start) / sum(len(best[0].ids) for best in found))
    return costs[1] / costs[0]


def job_speed(directory: Path, lines: Sequence[str], search: SearchConfig) -> float:
    connect(cpus=PROCESSES, object_store_gb=1.0)
    with tempfile.TemporaryDirectory(prefix="attn-bench-") as scratch:
        testset = Artifact(f"{scratch}/testset")
        with testset.writing("pairs/part-00000.parquet") as path:
            pq.write_table(pa.table({"source": list(lines), "target": list(lines)}), path)
        testset.write_json("about.json", {"source_language": "en", "target_language": "de"})
        on = Resources(
            translate=TranslateResources(actors=PROCESSES, cpus_per_actor=1, batch_tokens=BATCH_TOKENS["ours"])
        )
        facts = job.run(
            TranslateConfig(search=search), model=Artifact(str(directory)), testset=testset,
            out=Artifact(f"{scratch}/out"), on=on, log=lambda event: None,
        )  # fmt: skip
    return float(facts["tokens_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-job", action="store_true")
    args = parser.parse_args()
    lines = texts(args.sentences)
    with tempfile.TemporaryDirectory(prefix="attn-bench-") as scratch:
        directory, search = args.model, SearchConfig()
        if directory is None:
            directory, search = Path(scratch), SearchConfig(extra_length=1)
            random_model(directory, lines)
        names = ["ours", *(name for name, library in LIBRARIES.items() if importlib.util.find_spec(library))]
        speeds = measure(names, directory, lines, search, args.rounds)
        if not args.no_job:
            speeds["ours, the job"] = Speed(job_speed(directory, lines, search), None)
        ratio = growth(directory, dataclasses.replace(search, extra_length=1))
    print(f"{len(lines)} sentences, beam {search.beam}, {PROCESSES} processes of one thread, target tokens per second")
    for name, found in speeds.items():
        print(f"  {name:20} {found.by_clock:8,.0f}{beside(found, speeds) if name.startswith('ours') else ''}")
    print(f"  time per subword, translations of 160 over translations of 20 subwords: {ratio:.2f}")


def beside(ours: Speed, speeds: Mapping[str, Speed]) -> str:
    """How many times as fast as the references: by the clock, and by processor time where that was measured."""
    verdicts = []
    for name, other in speeds.items():
        if name in LIBRARIES:
            by_processor = (
                f" ({ours.by_processor / other.by_processor:.2f})" if ours.by_processor and other.by_processor else ""
            )
            verdicts.append(f"{ours.by_clock / other.by_clock:.2f}{by_processor} x {name}")
    return "   " + "; ".join(verdicts)


if __name__ == "__main__":
    main()
