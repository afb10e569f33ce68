"""Weights between estrain's HDF5 checkpoints and a PyTorch state_dict, by name, in both directions.

    from load_checkpoint import load, save
    load(model, "run/checkpoints/step-000000100.h5")    # strict: a missing or unknown name is an error
    save(model, "weights.h5")                           # for  model.init = "weights.h5"  in a job spec

A checkpoint keeps parameters under /model and buffers (batch-norm statistics) under /buffers, one dataset per name of
the state_dict; a tied weight is a hard link to the tensor it shares.
"""

import sys

import h5py
import torch


def read(path):
    """The state_dict in the checkpoint at `path`."""
    with h5py.File(path, "r") as file:
        datasets = [item for group in ("model", "buffers") if group in file for item in file[group].items()]
        return {name: torch.as_tensor(dataset[()]) for name, dataset in datasets}


def load(model, path):
    state = read(path)
    known = model.state_dict()
    with torch.no_grad():
        for name, buffer in model.named_buffers():  # one with persistent=False that forward changes is kept, too
            if name not in known and name in state:
                buffer.copy_(state.pop(name))
    model.load_state_dict(state, strict=True)


def save(model, path):
    with h5py.File(path, "w") as file:
        write(file.create_group("model"), model.named_parameters(remove_duplicate=False))
        write(file.create_group("buffers"), model.named_buffers(remove_duplicate=False))


def write(group, named_tensors):
    first_names = {}
    for name, tensor in named_tensors:
        if tensor in first_names:
            group[name] = group[first_names[tensor]]  # a hard link
        else:
            group[name] = tensor.detach().cpu().numpy()
            first_names[tensor] = name


if __name__ == "__main__":
    for name, tensor in read(sys.argv[1]).items():
        print(f"{name:40} {str(tensor.dtype):14} {list(tensor.shape)}")
