"""A search among well-formed trees only: which symbols may come next, for a whole batch of hypotheses at once.

A tree over n words is written as its brackets from left to right: an opening symbol for each constituent, one word
symbol for each word, a closing symbol with the same label. What may come next follows from little: the labels that are
open, the words that are left, and whether the innermost constituent is still empty. So the state of a batch is a few
small tensors, and the mask a comparison of them with the symbols. The model's probabilities are left as they are: a
tree that is found has the log-probability that the model gives it among all outputs.
"""

# N sentences, W hypotheses of each, R rows (N x W), S structure symbols and END, V vocabulary, D depth

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.config import END
from transformer.parsing.tree_symbols import NO_TAG, Tags
from transformer.parsing.trees import MAX_DEPTH
from transformer.subwords import BOUNDARY, Subwords

NEVER = -math.inf
DEEPER = 16  # levels that a full stack grows by


@dataclass(frozen=True)
class TreeSymbols:
    """The ids of a vocabulary's structure symbols: `closes[i]` closes what `opens[i]` opens."""

    opens: tuple[int, ...]
    closes: tuple[int, ...]
    words: tuple[int, ...]  # stand for a word each; none where the words themselves do
    word_names: tuple[str, ...] = (NO_TAG,)

    @property
    def tags(self) -> Tags:
        """What stands for a word."""
        return "XX" if self.word_names == (NO_TAG,) else "keep" if self.word_names else "none"

    @classmethod
    def of(cls, subwords: Subwords) -> TreeSymbols:
        """ValueError where the vocabulary is not one of trees."""
        symbols = {piece.removeprefix(BOUNDARY): number for piece, number in subwords.symbols().items()}
        labels = [symbol[1:] for symbol in symbols if symbol[0] == "(" and f"){symbol[1:]}" in symbols]
        words = {symbol: number for symbol, number in symbols.items() if symbol[0] not in "()"}
        if not labels:
            raise ValueError("This model does not write trees: its vocabulary has no symbols for brackets.")
        opens, closes = (tuple(symbols[f"{mark}{each}"] for each in labels) for mark in "()")
        return cls(opens, closes, tuple(words.values()), tuple(words))


class Sentence(NamedTuple):
    """What a tree's words are made of: one symbol each, any of the vocabulary's; or, if they stand in the tree
    themselves, these subwords, of which `first` begin a word."""

    words: int
    spelled: tuple[int, ...] = ()
    first: tuple[bool, ...] = ()

    @property
    def symbols(self) -> int:
        """That the words take."""
        return len(self.spelled) or self.words


def sentences(symbols: TreeSymbols, texts: Sequence[str], subwords: Subwords) -> list[Sentence]:
    """The words of each text are what blanks set apart."""
    if symbols.words:
        return [Sentence(len(text.split())) for text in texts]
    found = []
    for text, ids in zip(texts, subwords.encode_all(texts), strict=True):
        first = tuple(piece.startswith(BOUNDARY) for piece in subwords.pieces(ids))
        found.append(Sentence(len(text.split()), tuple(ids), first))
    return found


class WellFormed:
    """Where each hypothesis of a batch stands in its tree. Begins with one hypothesis of each sentence, the empty one.

    `limits_N` is how many symbols each tree may have: at least two more than its words take. The same rules as
    `tree_symbols.Derivation`, for a whole batch.
    """

    def __init__(
        self, symbols: TreeSymbols, sentences: Sequence[Sentence], limits_N: Tensor, openings: int = 20
    ) -> None:
        device = limits_N.device
        self.labels, self.limits_N, self.openings = len(symbols.opens), limits_N, openings
        self.brackets = torch.tensor((*symbols.opens, *symbols.closes), device=device)
        self.kinds = torch.tensor(symbols.words, dtype=torch.long, device=device)
        self.used = 0  # symbols so far
        self.left_NW = torch.tensor([each.symbols for each in sentences], device=device).unsqueeze(1)  # of the words
        longest = int(self.left_NW.max())
        spelled = [(*each.spelled, *(END,) * (longest + 1 - len(each.spelled))) for each in sentences]
        first = [(*each.first, *(True,) * (longest + 1 - len(each.first))) for each in sentences]
        self.spelled_NT = torch.tensor(spelled, device=device)
        self.first_NT = torch.tensor(first, device=device)
        self.all_N1 = self.left_NW
        self.depth_NW = torch.zeros_like(self.left_NW)
        self.opened_NW = torch.zeros_like(self.left_NW)  # constituents that begin at the next word so far
        self.empty_NW = torch.zeros_like(self.left_NW, dtype=torch.bool)  # the innermost constituent has nothing yet
        self.stack_NWD = torch.zeros(len(sentences), 1, DEEPER, dtype=torch.long, device=device)  # labels, outer first

    def most_probable(self, logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The `count` largest logits of each row among the symbols that may come next (-inf where there are fewer),
        their ids, and the row's logsumexp over the whole vocabulary."""
        ids_RS = torch.cat((self.brackets, self.kinds, self.brackets.new_tensor([END]))).expand(len(logits_RV), -1)
        if not len(self.kinds):
            ids_RS = torch.cat((ids_RS[:, :-1], self._next(self.spelled_NT), ids_RS[:, -1:]), dim=1)
        logits_RS = logits_RV.gather(1, ids_RS).masked_fill_(~self._allowed(), NEVER)
        top_RK, found = logits_RS.topk(min(count, logits_RS.size(1)), dim=1)
        return top_RK, ids_RS.gather(1, found), logits_RV.logsumexp(dim=1)

    def _next(self, of_NT: Tensor) -> Tensor:
        """(R, 1): what is said of the subword that each hypothesis comes to next."""
        at_NW = (self.all_N1 - self.left_NW).clamp(0, of_NT.size(1) - 1)
        return of_NT.gather(1, at_NW).view(-1, 1)

    def _allowed(self) -> Tensor:
        """(R, S): True where a symbol may come next."""
        left, depth, empty = self.left_NW.flatten(), self.depth_NW.flatten(), self.empty_NW.flatten()
        room = self.limits_N.repeat_interleave(self.left_NW.size(1)) - self.used
        begun, between = self.used > 0, self._next(self.first_NT).squeeze(1)  # between words, not inside one
        opens = between & (left > 0) & (room >= left + depth + 2) & (self.opened_NW.flatten() < self.openings)
        opens &= (depth < MAX_DEPTH - 1) & (depth > 0 if begun else depth == 0)
        closes = between & (depth > 0) & ~empty & ((depth > 1) | (left == 0))
        word, done = (left > 0) & (depth > 0), (depth == 0) & begun
        innermost = self.stack_NWD.flatten(0, 1).gather(1, (depth - 1).clamp(min=0).unsqueeze(1))
        matching = torch.arange(self.labels, device=left.device) == innermost
        return torch.cat(
            (
                opens.unsqueeze(1).expand(-1, self.labels),
                closes.unsqueeze(1) & matching,
                word.unsqueeze(1).expand(-1, len(self.kinds) or 1),
                done.unsqueeze(1),
            ),
            dim=1,
        )

    def follow(self, parents_NW: Tensor, tokens_NW: Tensor) -> None:
        """Go on with the hypotheses that continue `parents_NW` by `tokens_NW`."""
        left, depth = self.left_NW.gather(1, parents_NW), self.depth_NW.gather(1, parents_NW)
        if int(depth.max()) >= self.stack_NWD.size(2) - 1:
            self.stack_NWD = F.pad(self.stack_NWD, (0, DEEPER))
        stack = self.stack_NWD.gather(1, parents_NW.unsqueeze(2).expand(-1, -1, self.stack_NWD.size(2)))
        same = tokens_NW.unsqueeze(2) == self.brackets
        bracket, label = same.any(dim=2), same.to(torch.uint8).argmax(dim=2)
        opens, closes = bracket & (label < self.labels), bracket & (label >= self.labels)
        words = ~bracket & (tokens_NW != END)
        label = torch.where(opens, label, stack.gather(2, depth.unsqueeze(2)).squeeze(2))
        self.stack_NWD = stack.scatter(2, depth.unsqueeze(2), label.unsqueeze(2))
        self.depth_NW = (depth + opens.long() - closes.long()).clamp(min=0)
        self.left_NW = left - words.long()
        self.opened_NW = torch.where(words, 0, self.opened_NW.gather(1, parents_NW) + opens.long())
        self.empty_NW = opens
        self.used += 1

    def select(self, kept: Tensor) -> None:
        self.limits_N, self.all_N1 = self.limits_N[kept], self.all_N1[kept]
        self.spelled_NT, self.first_NT = self.spelled_NT[kept], self.first_NT[kept]
        self.left_NW, self.depth_NW = self.left_NW[kept], self.depth_NW[kept]
        self.opened_NW, self.empty_NW = self.opened_NW[kept], self.empty_NW[kept]
        self.stack_NWD = self.stack_NWD[kept]
