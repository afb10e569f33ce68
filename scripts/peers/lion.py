"""Lion, which torch.optim does not have: the formula of the authors' program (`lion_pytorch` of google/automl; X. Chen
et al., "Symbolic Discovery of Optimization Algorithms", algorithm 2), operation by operation."""

import torch


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.mul_(1 - group["lr"] * group["weight_decay"])
                if not self.state[p]:
                    self.state[p]["exp_avg"] = torch.zeros_like(p)
                average = self.state[p]["exp_avg"]
                update = average * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                average.mul_(beta2).add_(p.grad, alpha=1 - beta2)
