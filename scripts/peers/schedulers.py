"""torch.optim.lr_scheduler's class for each of the spec's schedules, made from the keys of [schedule]."""

from torch.optim import lr_scheduler as lrs

CLASSES = {"constant": lrs.ConstantLR, "step": lrs.StepLR, "multistep": lrs.MultiStepLR,
           "cosine": lrs.CosineAnnealingLR, "linear": lrs.LinearLR, "polynomial": lrs.PolynomialLR,
           "onecycle": lrs.OneCycleLR, "plateau": lrs.ReduceLROnPlateau}
NAMES_IN_TORCH = {"step": dict(period="step_size"), "cosine": dict(period="T_max"),
                  "linear": dict(period="total_iters"), "polynomial": dict(period="total_iters"),
                  "onecycle": dict(period="total_steps"), "plateau": dict(metric="mode")}
MODES = {"loss": "min", "accuracy": "max"}
PERIOD = 30  # the spec's default


def make_main(section, optimizer):
    """Without the warm-up."""
    renamed = NAMES_IN_TORCH.get(section["name"], {})
    arguments = {renamed.get(key, key): value for key, value in section.items()
                 if key not in ("name", "unit", "warmup", "warmup_start")}
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
