"""torch.optim.lr_scheduler's class for each of the spec's schedules, made from the keys of [schedule]."""

import bisect
import math

from torch.optim import lr_scheduler as lrs

CLASSES = {"constant": lrs.ConstantLR, "step": lrs.StepLR, "multistep": lrs.MultiStepLR,
           "cosine": lrs.CosineAnnealingLR, "linear": lrs.LinearLR, "polynomial": lrs.PolynomialLR,
           "onecycle": lrs.OneCycleLR, "plateau": lrs.ReduceLROnPlateau, "exponential": lrs.ExponentialLR,
           "restarts": lrs.CosineAnnealingWarmRestarts}
NAMES_IN_TORCH = {"step": dict(period="step_size"), "cosine": dict(period="T_max"),
                  "linear": dict(period="total_iters"), "polynomial": dict(period="total_iters"),
                  "restarts": dict(period="T_0", period_factor="T_mult"), "onecycle": dict(period="total_steps"),
                  "plateau": dict(metric="mode")}
MODES = {"loss": "min", "accuracy": "max"}
PERIOD = 30  # the spec's default


# The factors of schedules that torch makes by LambdaLR. The first two are those of transformers (module optimization:
# _get_inverse_sqrt_schedule_lr_lambda, _get_wsd_scheduler_lambda) after their warm-up.

def inverse_sqrt(step, period=PERIOD):
    return 1.0 / math.sqrt((step + period) / period)


def wsd(step, period=PERIOD, decay=10, decay_shape="linear", min_factor=0.0):
    if step < period:
        return 1.0
    if step < period + decay:
        progress = float(step - period) / float(max(1, decay))
        if decay_shape == "linear":
            factor = 1.0 - progress
        elif decay_shape == "cos":
            factor = 0.5 * (1.0 + math.cos(math.pi * 0.5 * 2.0 * progress))
        else:
            factor = 1.0 - math.sqrt(progress)
        factor = factor * (1.0 - min_factor) + min_factor
        return max(0.0, factor)
    return min_factor


def table(step, points, factors, between="constant"):
    at = bisect.bisect_right(points, step) - 1
    if between == "constant" or at + 1 == len(points):
        return factors[at]
    part = (step - points[at]) / (points[at + 1] - points[at])
    return factors[at] + (factors[at + 1] - factors[at]) * part


FACTORS = {"inverse_sqrt": inverse_sqrt, "wsd": wsd, "table": table}


def make_main(section, optimizer):
    """Without the warm-up."""
    renamed = NAMES_IN_TORCH.get(section["name"], {})
    arguments = {renamed.get(key, key): value for key, value in section.items()
                 if key not in ("name", "unit", "warmup", "warmup_start")}
    if section["name"] in FACTORS:
        factor = FACTORS[section["name"]]
        return lrs.LambdaLR(optimizer, lambda step: factor(step, **arguments))
    if "period" in renamed:
        arguments.setdefault(renamed["period"], PERIOD)
    if section["name"] == "constant":
        arguments = dict(factor=1, total_iters=0)
    if section["name"] == "onecycle":
        arguments |= dict(max_lr=[group["lr"] for group in optimizer.param_groups], cycle_momentum=False)
    if section["name"] == "plateau":
        arguments["mode"] = MODES[arguments.get("mode", "loss")]
    return CLASSES[section["name"]](optimizer, **arguments)


def make(section, optimizer):
    if not section.get("warmup"):
        return make_main(section, optimizer)
    warmup = lrs.LinearLR(optimizer, section.get("warmup_start", 0.1), 1.0, section["warmup"])
    return lrs.SequentialLR(optimizer, [warmup, make_main(section, optimizer)], milestones=[section["warmup"]])
