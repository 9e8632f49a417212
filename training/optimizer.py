"""Muon for the matrices of the blocks, AdamW for the embedding and norms.

Muon replaces a matrix's momentum by the nearest orthogonal matrix, found with
a few Newton-Schulz steps. Matrices of one shape are stepped as one batch.
"""

import torch

TOGETHER = 3  # matrices stepped as one batch, the unit of work of a thread


def orthogonal(batch, steps=5, dtype=torch.float32):
    """Push every singular value of [n, rows, columns] towards one.

    The polynomial leaves them between 0.7 and 1.2, so that products in
    bfloat16 are as good.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = (batch / (batch.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(dtype)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(batch.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum, weight_decay):
        super().__init__(parameters, {"lr": lr, "momentum": momentum,
                                      "weight_decay": weight_decay})
        self.map = map  # a pool's map, if there are threads to share the work
        self.dtype = torch.float32  # of the products

    def step(self):
        tasks = []
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                shapes.setdefault(p.shape, []).append(p)
            for shape, alike in shapes.items():
                tasks += [(group, shape, alike[i:i + TOGETHER])
                          for i in range(0, len(alike), TOGETHER)]
        # The largest first, so that threads finish together.
        tasks.sort(key=lambda t: -t[1].numel() * len(t[2]))
        list(self.map(lambda task: self.step_shape(*task), tasks))

    @torch.no_grad()
    def step_shape(self, group, shape, parameters):
        directions = []
        for p in parameters:
            momentum = self.state[p].setdefault("momentum",
                                                torch.zeros_like(p))
            momentum.lerp_(p.grad, 1 - group["momentum"])
            directions.append(p.grad.lerp(momentum, group["momentum"]))
        updates = orthogonal(torch.stack(directions), dtype=self.dtype)
        size = max(1.0, shape[0] / shape[1]) ** 0.5
        for p, update in zip(parameters, updates):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(update, alpha=-group["lr"] * size)


def optimizers(model, args):
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    others = [p for p in model.parameters()
              if all(p is not m for m in matrices)]
    return [Muon(matrices, args.matrix_lr, 0.95, args.weight_decay),
            torch.optim.AdamW(others, args.lr, betas=(0.9, 0.95), eps=1e-10,
                              weight_decay=0.0, fused=True)]
