"""The optimizers of torch.optim by the names of a spec, and those that torch.optim does not have."""

import inspect

import torch


class Lion(torch.optim.Optimizer):
    """The formula of the authors' program (`lion_pytorch` of google/automl; X. Chen et al., "Symbolic Discovery of
    Optimization Algorithms", algorithm 2), operation by operation."""

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


class Lamb(torch.optim.Optimizer):
    """Y. You et al., "Large Batch Optimization for Deep Learning", algorithm 2, with the order of operations of timm's
    `Lamb(max_grad_norm=None, foreach=False)`; updates are counted for each parameter."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, trust_clip=False,
                 always_adapt=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, trust_clip=trust_clip,
                                      always_adapt=always_adapt))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(self.scaled(p, group), alpha=-group["lr"])

    def scaled(self, p, group):
        """The step of a parameter for a learning rate of 1."""
        step = self.direction(p, group)
        decay = group["weight_decay"]
        if decay:
            step.add_(p, alpha=decay)
        if not decay and not group["always_adapt"]:
            return step
        lengths = p.norm(2.0), step.norm(2.0)
        ratio = lengths[0] / lengths[1] if min(lengths) > 0 else torch.ones(())
        return step.mul_(ratio.clamp(max=1.0) if group["trust_clip"] else ratio)

    def direction(self, p, group):
        """Adam's, with both averages corrected."""
        state, (beta1, beta2) = self.state[p], group["betas"]
        if not state:
            state |= dict(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        state["step"] += 1
        state["exp_avg"].lerp_(p.grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        root = state["exp_avg_sq"].sqrt() / (1 - beta2 ** state["step"]) ** 0.5
        return (state["exp_avg"] / (1 - beta1 ** state["step"])).div_(root.add_(group["eps"]))


BY_NAME = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
BY_NAME |= dict(lion=Lion, lamb=Lamb)


def arguments(name, settings):
    """The arguments of the class for keys of [optimizer], or of one of its groups."""
    settings = dict(settings)
    if name == "adafactor" and ("eps" in settings or "eps2" in settings):
        settings["eps"] = settings.get("eps"), settings.pop("eps2", 1e-3)  # None: the eps of float32
    return settings


def default_lr(name):
    return inspect.signature(BY_NAME[name]).parameters["lr"].default


class OfGroups(torch.optim.Optimizer):
    """An optimizer for each group of parameters, which schedulers see as one. groups: (name, options, group)."""

    def __init__(self, groups):
        self.each = [BY_NAME[name]([group], **options) for name, options, group in groups]
        super().__init__([dict(group) for _, _, group in groups], dict(lr=0.0))
        self.param_groups = [optimizer.param_groups[0] for optimizer in self.each]

    @property
    def state(self):
        return {p: state for optimizer in self.each for p, state in optimizer.state.items()}

    @state.setter
    def state(self, _):
        """torch.optim's constructor sets one."""

    def step(self):
        for optimizer in self.each:
            optimizer.step()
