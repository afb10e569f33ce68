#!/usr/bin/env python3
"""Exports a PyTorch module as the programs that estrain trains and evaluates.

    python examples/export/export.py net.py:build net.pt2

`build()` in net.py returns the module and an example mini-batch of two or more samples: a tuple or list of forward's
arguments, or a dictionary of them by name. Written are net.pt2, exported in train() mode, and net-eval.pt2, exported in
eval() mode. In a job's spec: model = { name = "program", file = "net.pt2", eval_file = "net-eval.pt2" }.
From Python: export(module, batch, "net.pt2").

Some of what Python does is not in an export. So a step of the module is compared with a step of the file as it is read
back: loss, every gradient, every buffer, bit for bit, on the whole mini-batch and on a shorter one. What is known to get
lost is refused by name.
"""

import argparse
import contextlib
import copy
import importlib.util
import pathlib
import random
import sys
import warnings

import torch
from torch.utils._pytree import tree_flatten, tree_map

SEED = 5  # of the random numbers in the steps that are compared
TRAINING_MARK = {"estrain.training": "exported in train() mode"}


class NotExportable(Exception):
    pass


def export(module, batch, path, evaluation=True):
    """Writes `path`, and with `evaluation` the path of evaluation_path(path). Returns the paths. Throws NotExportable;
    then nothing is written."""
    path = pathlib.Path(path)
    args, kwargs = own_tensors(batch)
    refuse_hooks(module)
    state = copy.deepcopy(module.state_dict())
    was_training = module.training
    written = []
    try:
        for trains in (True, False) if evaluation else (True,):
            module.train(trains)
            target = path if trains else evaluation_path(path)
            temporary = target.with_name(target.name + ".tmp.pt2")
            save(module, args, kwargs, temporary, trains)
            written.append((temporary, target))
            module.load_state_dict(state)
            compare(module, temporary, (args, kwargs), state, trains)
        for temporary, target in written:
            temporary.replace(target)
    finally:
        for temporary, _ in written:
            temporary.unlink(missing_ok=True)
        module.load_state_dict(state)
        module.train(was_training)
    return [target for _, target in written]


def evaluation_path(path):
    return path.with_name(path.stem + "-eval.pt2")


def own_tensors(batch):
    """The mini-batch as arguments and keyword arguments. Each tensor is its own: one that is given twice would become
    one input."""
    def clone(value):
        return value.detach().clone() if isinstance(value, torch.Tensor) else value
    is_dictionary = isinstance(batch, dict)
    args = () if is_dictionary else tree_map(clone, tuple(batch))
    kwargs = tree_map(clone, dict(batch)) if is_dictionary else {}
    for tensor in tensors_of(args, kwargs):
        if tensor.dim() == 0 or len(tensor) < 2:
            raise NotExportable("the example mini-batch needs two or more samples along the first dimension of each tensor")
    return args, kwargs


def tensors_of(args, kwargs):
    return [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]


def refuse_hooks(module):
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise NotExportable(f"module {name or type(part).__name__} has backward hooks, which an export drops")
    for name, tensor in module.named_parameters():
        if tensor._backward_hooks or tensor._post_accumulate_grad_hooks:
            raise NotExportable(f"parameter {name} has gradient hooks, which an export drops")


def save(module, args, kwargs, path, trains):
    def any_batch(value):
        return {0: torch.export.Dim.DYNAMIC} if isinstance(value, torch.Tensor) else None
    shapes = tree_map(any_batch, args) if args else tree_map(any_batch, kwargs)
    before = random.getstate(), numpy_state()
    with warnings.catch_warnings(), right_lstm_states():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
        if random.getstate() != before[0] or numpy_state() != before[1]:
            raise NotExportable("the module draws from Python's or numpy's random numbers, which an export freezes: "
                                "use torch's")
        torch.export.save(program, path, extra_files=TRAINING_MARK if trains else {})


@contextlib.contextmanager
def right_lstm_states():
    """torch 2.11 exports an LSTM's last states with a dimension too many (pytorch/pytorch issue 151200). Their shapes are
    those of the states that it started from."""
    decompositions = torch._decomp.decompositions
    layer = decompositions.one_layer_lstm

    def with_right_states(inputs, states, *args, **kwargs):
        outputs, last = layer(inputs, states, *args, **kwargs)
        return outputs, tuple(state.reshape(start.shape) for state, start in zip(last, states))

    decompositions.one_layer_lstm = with_right_states
    try:
        yield
    finally:
        decompositions.one_layer_lstm = layer


def numpy_state():
    numpy = sys.modules.get("numpy")
    return None if numpy is None else repr(numpy.random.get_state())


def compare(module, path, batch, state, trains):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = torch.export.load(path).module()
    samples = len(tensors_of(*batch)[0])
    for count in {samples, max(2, samples - 1)}:
        part = tree_map(lambda value: value[:count].clone() if isinstance(value, torch.Tensor) else value, batch)
        run = training_step if trains else evaluation_step
        ours, theirs = run(module, part, state), run(again, part, state)
        different = [name for name in ours | theirs if not same(ours.get(name), theirs.get(name))]
        if different:
            raise NotExportable(f"the exported program computes otherwise than the module with {count} samples: "
                                f"{', '.join(different[:5])}{' and more' if len(different) > 5 else ''} differ" +
                                way_out(module))


def way_out(module):
    """transformers takes another path through its attention "sdpa" while a model is exported than while it trains."""
    configs = [getattr(part, "config", None) for part in module.modules()]
    if not any(getattr(config, "_attn_implementation", None) == "sdpa" for config in configs):
        return ""
    return '; build the model with attn_implementation="eager": "sdpa" is exported otherwise than it trains'


def same(a, b):
    return a is not None and b is not None and a.dtype == b.dtype and a.shape == b.shape and \
        torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def training_step(module, batch, state):
    """Loss, gradients by the first name of each parameter, and buffers after one step."""
    module.load_state_dict(state, strict=False)
    for parameter in module.parameters():
        parameter.grad = None
    torch.manual_seed(SEED)
    outputs = [value for value in tree_flatten(module(*batch[0], **batch[1]))[0] if isinstance(value, torch.Tensor)]
    if not outputs:
        raise NotExportable("forward returns no tensor")
    refuse_functions(outputs[0])
    result = {f"output {i}": value.detach().contiguous() for i, value in enumerate(outputs)}
    if outputs[0].requires_grad:
        outputs[0].double().sum().backward()
    result |= {f"gradient of {name}": value for name, value in gradients(module, state).items()}
    return result | {f"buffer {name}": value.clone().contiguous() for name, value in module.named_buffers()
                     if name in state}


def gradients(module, state):
    """A file that is read back has tied parameters untied: what each name got is summed."""
    first_names = {}
    for name, value in state.items():
        first_names.setdefault((value.data_ptr(), value.shape), name)
    sums = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.grad is None:
            continue
        key = first_names.get((state[name].data_ptr(), state[name].shape), name)
        own = id(parameter)
        if own not in sums.setdefault(key, {}):
            sums[key][own] = parameter.grad
    return {key: sum(list(parts.values())[1:], list(parts.values())[0]).contiguous() for key, parts in sums.items()}


def evaluation_step(module, batch, state):
    module.load_state_dict(state, strict=False)
    torch.manual_seed(SEED)
    with torch.no_grad():
        outputs = tree_flatten(module(*batch[0], **batch[1]))[0]
    return {f"output {i}": value.contiguous() for i, value in enumerate(outputs) if isinstance(value, torch.Tensor)}


def refuse_functions(tensor):
    """A backward of one's own that stands in the graph of `tensor`, other than torch's."""
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        function = getattr(node, "_forward_cls", None)
        if function is not None and not function.__module__.startswith("torch."):
            raise NotExportable(f"torch.autograd.Function {function.__qualname__} has a backward of its own, which an "
                                "export drops: write it with torch's operators")
        waiting.extend(next_node for next_node, _ in node.next_functions)


def build_of(place):
    file, _, function = place.partition(":")
    specification = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    loaded = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
    sys.modules[specification.name] = loaded
    specification.loader.exec_module(loaded)
    return getattr(loaded, function or "build")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="FILE.py:FUNCTION")
    parser.add_argument("path", metavar="OUT.pt2")
    parser.add_argument("--no-eval", action="store_true", help="only the program that is trained")
    arguments = parser.parse_args()
    module, batch = build_of(arguments.build)()
    try:
        for path in export(module, batch, arguments.path, not arguments.no_eval):
            print(path)
    except NotExportable as error:
        sys.exit(f"{arguments.build}: {error}")


if __name__ == "__main__":
    main()
