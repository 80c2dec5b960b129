"""The layers of Table 1, each (1, T, D) to (1, T, D): attention written out and fused, an LSTM, a convolution."""

# B batch, T length, D d_model

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from transformer.attention import SelfAttention, weights
from transformer.config import ModelConfig
from transformer.unpadded import Rectangle

WIDTH = 3  # of the convolution's kernel


class Attention(nn.Module):
    """The model's own self-attention, with PyTorch's fused kernel."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)

    def forward(self, x_BTD: Tensor) -> Tensor:
        rows = Rectangle.of(x_BTD[:, :, 0])
        return rows.unpack(self.attention(rows.pack(x_BTD), rows))


class WrittenOut(Attention):
    """The same with eq. (1) as it is written: the scores of all pairs, their softmax, its product with the values."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        rows = Rectangle.of(x_BTD[:, :, 0])
        queries_BHTK, (keys_BHSK, values_BHSV) = self.attention.project(rows.pack(x_BTD), rows)
        return rows.unpack(self.attention.merge(weights(queries_BHTK, keys_BHSK) @ values_BHSV, rows))


class Recurrent(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)

    def forward(self, x_BTD: Tensor) -> Tensor:
        out: Tensor = self.lstm(x_BTD)[0]
        return out


class Convolution(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, WIDTH, padding=WIDTH // 2)

    def forward(self, x_BTD: Tensor) -> Tensor:
        out: Tensor = self.convolution(x_BTD.transpose(1, 2)).transpose(1, 2)
        return out


LAYERS: Mapping[str, str] = {
    "written out": "self-attention, scores written out",
    "fused": "self-attention, fused kernel",
    "LSTM": "recurrent",
    "convolution": f"convolution, width {WIDTH}",
}


def built(name: str, d_model: int, num_heads: int) -> nn.Module:
    attention = ModelConfig(d_model=d_model, num_heads=num_heads)
    made: Mapping[str, Callable[[], nn.Module]] = {
        "written out": lambda: WrittenOut(attention),
        "fused": lambda: Attention(attention),
        "LSTM": lambda: Recurrent(d_model),
        "convolution": lambda: Convolution(d_model),
    }
    return made[name]()
