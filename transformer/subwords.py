"""Text to subword ids and back (section 5.1): one SentencePiece model shared by both languages.

Reads  subwords.model, whose first four ids are padding, unknown, start and end, as transformer/config.py has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from transformer.config import END, PAD, START, UNKNOWN

BOUNDARY = "▁"  # what SentencePiece writes for the blank before a word


class Subwords:
    """A subword vocabulary. Ids are bare: START and END are added by batching. Can be pickled."""

    def __init__(self, model: bytes) -> None:
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
        except (RuntimeError, OSError, TypeError) as error:
            raise ValueError(f"these {len(model)} bytes are no SentencePiece model: {error}") from error
        found = tuple(int(getattr(self._processor, name)()) for name in ("pad_id", "unk_id", "bos_id", "eos_id"))
        wanted = (PAD, UNKNOWN, START, END)
        if found != wanted:
            raise ValueError(f"a subword model needs the ids pad, unk, bos, eos = {wanted}, and this one has {found}")

    @classmethod
    def load(cls, path: Path | str) -> Subwords:
        return cls(Path(path).read_bytes())

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        return list(self._processor.encode(text))

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        return list(self._processor.encode(list(texts), num_threads=threads))

    def symbols(self) -> dict[str, int]:
        """Subwords that were given to the vocabulary whole, with their ids: they stand between END and the bytes."""
        found: dict[str, int] = {}
        for number in range(END + 1, len(self)):
            if self._processor.is_byte(number):
                break
            found[str(self._processor.id_to_piece(number))] = number
        return found

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode([int(i) for i in ids]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords as they are written in the vocabulary, for pictures and for other engines."""
        return [str(self._processor.id_to_piece(int(i))) for i in ids]

    def text_of(self, pieces: Sequence[str]) -> str:
        """The text of subwords as `pieces` gives them."""
        return str(self._processor.decode_pieces(list(pieces)))
