"""The stage `shards`: pairs become micro-batches of subword ids."""
