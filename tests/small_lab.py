"""The lab made small enough for tests: every experiment in seconds, through the real command line."""

from __future__ import annotations

MODEL = ("layers=1", "d_model=16", "d_ff=32", "num_heads=2")
TRAINING = ("steps=6", "warmup=3", "tokens_per_update=300")
SMALL_LAB = [
    "corpus.train_pairs=400", "corpus.dev_pairs=20", "corpus.test_pairs=20", "vocabulary.size=400",
    "shards.micro_batch_tokens=300",
    "scaling.d_k=4,64", "scaling.draws=300", "scaling.updates=20", "scaling.batch=16", "scaling.learning_rates=0.001",
    *(f"mask.model.{one}" for one in MODEL), "mask.looks=2", *(f"mask.training.{one}" for one in TRAINING),
    "mask.sentences=4",
    *(f"positions.model.{one}" for one in MODEL), "positions.updates=10", "positions.draws=2", "positions.batch=8",
    "positions.longest=6",
    "positions.beyond=8",
    "heads.heads=1,2", *(f"heads.model.{one}" for one in MODEL), "heads.updates=5", "heads.draws=2",
    *(f"heads.training.{one}" for one in TRAINING), "heads.sentences=4",
    "memory.lengths=64,256,1024", "memory.distances=1,8", "memory.d_model=64", "memory.num_heads=2", "memory.tries=1",
    "residual.model.layers=2", "residual.model.d_model=16", "residual.model.d_ff=32", "residual.warmup=5",
    "residual.updates=20", "residual.rates=0.001,0.003,0.01", "residual.draws=2",
    "warmup.model.layers=2", "warmup.model.d_model=16", "warmup.model.d_ff=32", "warmup.rates=0.001,0.01",
    "warmup.warmups=0,5", "warmup.updates=10", "warmup.draws=2",
    *(f"smoothing.model.{one}" for one in MODEL), "smoothing.average=1,2", "smoothing.every=2",
    "smoothing.draws=2", "smoothing.smoothing=0,0.1", "smoothing.sentences=4",
    *(f"smoothing.training.{one}" for one in TRAINING),
    *(f"recurrence.model.{one}" for one in MODEL), "recurrence.looks=2",
    "recurrence.factors=0.5,1", *(f"recurrence.training.{one}" for one in TRAINING), "recurrence.sentences=4",
    "recurrence.lengths=4,8", "recurrence.workers=1,2",
]  # fmt: skip
CHANGES = [word for setting in SMALL_LAB for word in ("--set", setting)]
