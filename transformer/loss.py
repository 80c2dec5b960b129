"""The training loss (section 5.4): cross-entropy against a target smoothed by epsilon, summed over real tokens only.

The smoothed target is (1 - epsilon) on the right subword plus epsilon / V on every subword (Szegedy et al., the paper's
reference). The scores of all tokens for the whole vocabulary would be the largest tensor of a step, so they are
computed in chunks, each with its gradient: one chunk is in memory at a time.
"""

# N real target tokens, C tokens of a chunk, D d_model, V vocabulary

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer.cpu.linear import narrowed, product

CHUNK_SCORES = 2**22  # scores per chunk: 16 MB in single precision; smaller products run below a core's full rate
CHUNK_SCORES_GPU = 2**27  # 512 MB: a micro-batch of the paper is one chunk; 13 small ones leave a GPU half idle
LEAST_CHUNK = 256  # tokens


class OutputMatrix(NamedTuple):
    """The output matrix for products in a narrower type, and the sum of its rows in a wider one."""

    weight_VD: Tensor
    sum_D: Tensor


def chunk_losses(
    hidden_CD: Tensor, gold_C1: Tensor, out: OutputMatrix, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(smoothed loss, plain loss, probabilities) of a chunk; the losses are sums over its tokens."""
    wide = out.sum_D.dtype
    scores_CV = product(hidden_CD, out.weight_VD).to(wide)
    p_CV = scores_CV.softmax(dim=1)
    # log z from the likeliest subword, whose probability is never too small for a logarithm
    log_z_C = scores_CV.amax(dim=1) - p_CV.amax(dim=1).log()
    nll = (log_z_C - scores_CV.gather(1, gold_C1)[:, 0]).sum()
    # minus the mean over the vocabulary of log p is log z minus the mean score, and the latter is one small product
    uniform = (log_z_C - hidden_CD.to(wide) @ out.sum_D / scores_CV.size(1)).sum()
    return (1 - smoothing) * nll + smoothing * uniform, nll, p_CV


def scores_gradient(p_CV: Tensor, gold_C1: Tensor, smoothing: float) -> Tensor:
    """Probabilities minus the smoothed target. Overwrites the probabilities."""
    grad_CV = p_CV.sub_(smoothing / p_CV.size(1))
    return grad_CV.scatter_add_(1, gold_C1, grad_CV.new_full(gold_C1.shape, smoothing - 1))


def chunk_tokens(device: str, vocabulary_size: int) -> int:
    """Tokens whose scores are held at a time, by the kind of device."""
    return max(LEAST_CHUNK, (CHUNK_SCORES if device == "cpu" else CHUNK_SCORES_GPU) // vocabulary_size)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Loss and, in the same pass, its gradients. The second result is the loss without smoothing, for perplexity."""

    @staticmethod
    def forward(ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, gold_N: Tensor, smoothing: float, train: bool) -> Any:
        kind = hidden_ND.device.type
        narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight_VD.dtype
        wide = torch.float64 if weight_VD.dtype == torch.float64 else torch.float32
        with torch.autocast(kind, enabled=False):
            hidden_ND = hidden_ND.to(narrow)
            out = OutputMatrix(narrowed(weight_VD, narrow), weight_VD.sum(dim=0, dtype=wide))
            grad_hidden_ND = torch.empty_like(hidden_ND if train else hidden_ND[:0])
            grad_weight_VD = torch.zeros_like(weight_VD if train else weight_VD[:0])
            loss = nll = torch.zeros((), dtype=wide, device=hidden_ND.device)
            size = chunk_tokens(kind, weight_VD.size(0))
            for start in range(0, hidden_ND.size(0), size):
                chunk = slice(start, start + size)
                hidden_CD, gold_C1 = hidden_ND[chunk], gold_N[chunk, None]
                chunk_loss, chunk_nll, p_CV = chunk_losses(hidden_CD, gold_C1, out, smoothing)
                loss, nll = loss + chunk_loss, nll + chunk_nll
                if train:
                    grad_CV = scores_gradient(p_CV, gold_C1, smoothing).to(narrow)
                    grad_hidden_ND[chunk] = product(grad_CV, out.weight_VD.T)
                    if narrow == weight_VD.dtype:
                        grad_weight_VD.addmm_(grad_CV.T, hidden_CD)
                    else:
                        grad_weight_VD += grad_CV.T @ hidden_CD
        ctx.save_for_backward(grad_hidden_ND, grad_weight_VD)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad_hidden_ND, grad_weight_VD = ctx.saved_tensors
        share = grads[0]  # 1 / tokens of the update: multiplied before rounding to a narrow type, not after
        grad_hidden = (grad_hidden_ND.to(share.dtype) * share).to(grad_hidden_ND.dtype)
        return grad_hidden, grad_weight_VD * share, None, None, None


def smoothed_cross_entropy(
    hidden_ND: Tensor, weight_VD: Tensor, gold_N: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """(smoothed loss, loss without smoothing), each a sum over the N tokens. Only the first has a gradient."""
    train = torch.is_grad_enabled() and (hidden_ND.requires_grad or weight_VD.requires_grad)
    loss, nll = _SmoothedCrossEntropy.apply(hidden_ND, weight_VD, gold_N, smoothing, train)  # type: ignore[no-untyped-call]
    return loss, nll
