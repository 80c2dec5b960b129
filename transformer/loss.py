"""The training loss (section 5.4): cross-entropy against a target smoothed by epsilon, summed over real tokens only.

The smoothed target is (1 - epsilon) on the right subword plus epsilon / V on every subword (Szegedy et al., the paper's
reference). Scores of all tokens for the whole vocabulary are the largest tensor of a step, so they are made in chunks:
each chunk's gradient is taken while it is at hand, and no more than one chunk is ever held.
"""

# N real target tokens, C tokens of a chunk, D d_model, V vocabulary

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_SCORES = 2**22  # scores per chunk: 16 MB in single precision; smaller products run below a core's full rate
LEAST_CHUNK = 256  # tokens


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Loss and, in the same pass, its gradients. The second result is the loss without smoothing, for perplexity."""

    @staticmethod
    def forward(ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, gold_N: Tensor, smoothing: float) -> Any:
        kind = hidden_ND.device.type
        narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight_VD.dtype
        wide = torch.float64 if weight_VD.dtype == torch.float64 else torch.float32
        with torch.autocast(kind, enabled=False):
            hidden_ND, weight_narrow_VD = hidden_ND.to(narrow), weight_VD.to(narrow)
            train = any(ctx.needs_input_grad[:2])
            grad_hidden_ND = torch.empty_like(hidden_ND) if train else None
            grad_weight_VD = torch.zeros_like(weight_VD) if train else None
            column_sums_D = weight_narrow_VD.sum(dim=0, dtype=wide)
            loss = nll = torch.zeros((), dtype=wide, device=hidden_ND.device)
            chunk = max(LEAST_CHUNK, CHUNK_SCORES // weight_VD.size(0))
            for start in range(0, hidden_ND.size(0), chunk):
                hidden_CD, gold_C1 = hidden_ND[start : start + chunk], gold_N[start : start + chunk, None]
                scores_CV = (hidden_CD @ weight_narrow_VD.T).to(wide)
                log_p_CV = scores_CV.log_softmax(dim=1)
                nll_C1 = -log_p_CV.gather(1, gold_C1)
                log_z_C1 = scores_CV.gather(1, gold_C1) + nll_C1
                # -sum over the vocabulary of log p = V log z - sum of scores, and the latter is one product
                uniform_C = weight_VD.size(0) * log_z_C1[:, 0] - hidden_CD.to(wide) @ column_sums_D
                nll = nll + nll_C1.sum()
                loss = loss + (1 - smoothing) * nll_C1.sum() + smoothing / weight_VD.size(0) * uniform_C.sum()
                if grad_hidden_ND is None or grad_weight_VD is None:
                    continue
                grad_CV = log_p_CV.exp_().sub_(smoothing / weight_VD.size(0))
                grad_CV.scatter_add_(1, gold_C1, torch.full_like(nll_C1, smoothing - 1))
                grad_CV = grad_CV.to(narrow)
                torch.mm(grad_CV, weight_narrow_VD, out=grad_hidden_ND[start : start + chunk])
                if narrow == weight_VD.dtype:
                    grad_weight_VD.addmm_(grad_CV.T, hidden_CD)
                else:
                    grad_weight_VD += grad_CV.T @ hidden_CD
        if grad_hidden_ND is not None and grad_weight_VD is not None:
            ctx.save_for_backward(grad_hidden_ND, grad_weight_VD)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad_hidden_ND, grad_weight_VD = ctx.saved_tensors
        return grad_hidden_ND * grads[0].to(grad_hidden_ND.dtype), grad_weight_VD * grads[0], None, None


def smoothed_cross_entropy(
    hidden_ND: Tensor, weight_VD: Tensor, gold_N: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """(smoothed loss, loss without smoothing), each a sum over the N tokens. Only the first has a gradient."""
    loss, nll = _SmoothedCrossEntropy.apply(hidden_ND, weight_VD, gold_N, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll
