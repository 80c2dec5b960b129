"""The reference of bench_training.py: a Hugging Face MarianMTModel in a plain training loop on the given micro-batches.

Reads a file of padded arrays, prints a line of JSON. Needs torch, numpy and transformers, and nothing of this project.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F
from transformers import MarianConfig, MarianMTModel

PAD, START, END = 0, 2, 3


def main() -> None:
    task = json.loads(sys.argv[1])
    torch.set_num_threads(task["threads"])
    torch.manual_seed(1)
    shape, vocabulary = task["model"], task["vocabulary_size"]
    model = MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            d_model=shape["d_model"],
            encoder_layers=shape["layers"],
            decoder_layers=shape["layers"],
            encoder_attention_heads=shape["num_heads"],
            decoder_attention_heads=shape["num_heads"],
            encoder_ffn_dim=shape["d_ff"],
            decoder_ffn_dim=shape["d_ff"],
            activation_function="relu",
            dropout=shape["dropout"],
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=PAD,
            bos_token_id=START,
            eos_token_id=END,
            decoder_start_token_id=START,
            use_cache=False,
            attn_implementation="sdpa",
        )
    ).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    held = np.load(task["batches"])
    per_update, spent, cpu, tokens = task["per_update"], [], [], []
    for number in range(task["updates"]):
        started, busy = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        places = range(number * per_update, (number + 1) * per_update)
        golds = [torch.from_numpy(held[f"gold{place}"]) for place in places]
        total = sum(int((gold != PAD).sum()) for gold in golds)
        for place, gold in zip(places, golds, strict=True):
            source = torch.from_numpy(held[f"source{place}"])
            target_in = torch.from_numpy(held[f"target_in{place}"])
            mask = (source != PAD).long()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task["bf16"]):
                logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target_in).logits
                loss = F.cross_entropy(
                    logits.view(-1, vocabulary), gold.view(-1), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
                )
            (loss / total).backward()
        optimizer.step()
        spent.append(time.perf_counter() - started)
        cpu.append(time.process_time() - busy)
        tokens.append(total)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": spent, "cpu_seconds": cpu, "tokens": tokens, "memory_gb": memory}))


main()
