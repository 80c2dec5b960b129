"""Every step of a beam search as plain data, for the page's picture and for words that appear as they are found.

Shows what transformer/beam.py decides: at each step the best continuations of one sentence, and what became of each:
`kept` lives on, `ended` is a finished translation, `dropped` is what the beam let go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from transformer.beam import Step
from transformer.config import END
from transformer.subwords import Subwords


@dataclass
class SearchSteps:
    """Watches the search of one sentence. `on_words` is called with the best translation so far after every step."""

    subwords: Subwords
    beam: int
    on_words: Callable[[str], None] | None = None
    steps: list[list[dict[str, Any]]] = field(default_factory=list)
    over: bool = False

    def __call__(self, step: Step) -> None:
        scores, parents, tokens = step.scores[0].tolist(), step.parents[0].tolist(), step.tokens[0].tolist()
        possible = [rank for rank, score in enumerate(scores) if score > -math.inf]
        living = [rank for rank in possible if tokens[rank] != END][: self.beam]
        pieces = self.subwords.pieces(tokens)
        self.steps.append(
            [
                {
                    "piece": pieces[rank],
                    "parent": parents[rank],  # its place among the kept of the step before
                    "log_probability": round(scores[rank], 4),
                    "fate": self._fate(rank, tokens[rank], living),
                }
                for rank in possible
            ]
        )
        if self.on_words is not None and possible and not self.over:
            best = possible[0]  # once a translation has ended as the best of its step, what follows is for the n-best
            history = step.history_NWT[0, parents[best], 1:].tolist()
            self.over = tokens[best] == END
            self.on_words(self.subwords.decode(history if self.over else [*history, tokens[best]]))

    def _fate(self, rank: int, token: int, living: list[int]) -> str:
        if token == END:
            return "ended" if rank < self.beam else "dropped"
        return "kept" if rank in living else "dropped"
