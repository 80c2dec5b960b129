"""The stage `average`: the last checkpoints of a training become one model."""
