"""What the service counts, in Prometheus' format at /metrics: requests, tokens, queue, batch size, latency.

No text and no key is in a label. Ray's own figures of replicas and queues (ray_serve_*) are beside them on a cluster.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from jobs.serve.engine import Done

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServeMetrics:
    """The figures of one replica of the API."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("attn_requests", "Requests answered.", ("path", "status"), registry=self.registry)
        self.latency = Histogram(
            "attn_request_seconds", "From a request to its answer.", ("path",), buckets=SECONDS, registry=self.registry
        )
        self.inside = Gauge("attn_requests_inside", "Requests that are being answered.", registry=self.registry)
        self.waiting = Gauge(
            "attn_works_waiting", "Works sent to models and not back yet.", ("model",), registry=self.registry
        )
        self.source_tokens = Counter("attn_source_tokens", "Read by models.", ("model",), registry=self.registry)
        self.target_tokens = Counter("attn_target_tokens", "Written by models.", ("model",), registry=self.registry)
        self.batch_sentences = Histogram(
            "attn_batch_sentences", "Sentences translated together.", ("model",), buckets=SIZES,
            registry=self.registry,
        )  # fmt: skip
        self.retries = Counter(
            "attn_retries", "Works sent again: a replica was lost.", ("model",), registry=self.registry
        )
        self.loops = Counter("attn_loops", "Translations that repeat themselves.", ("model",), registry=self.registry)

    def count_done(self, model: str, done: Done) -> None:
        self.source_tokens.labels(model).inc(done.source_tokens)
        self.target_tokens.labels(model).inc(sum(found[0].tokens for found in done.alternatives))
        if done.batch_sentences is not None:
            self.batch_sentences.labels(model).observe(done.batch_sentences)

    def text(self) -> bytes:
        return generate_latest(self.registry)
