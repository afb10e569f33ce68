"""Writes the tensors of a file of torch.save as a safetensors file, with any release of torch. request.py goes before.

The request has {"file", "out", "key"}: `key` names the state_dict in the file, such as "model" or "ema.model" (empty: the
only one). The answer is {"tensors", "key"}. The file is loaded with weights_only: it can run no code. Formats:
https://huggingface.co/docs/safetensors.
"""
import ctypes
import pickle
import struct

MOST_NAMED = 8


def load(path):
    try:
        import torch
    except ImportError as error:
        raise Refused(f"{sys.executable}: torch cannot be imported: {error}",
                      "name a Python with torch by --python, such as venv/bin/python")
    try:
        return torch, torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        told = lines_of(error)
        named = [line for mark in ("GLOBAL", "WeightsUnpickler error") for line in told if mark in line] + told
        raise Refused(f"torch cannot load it without running code from it: {named[0].split(' Please use')[0]}",
                      "let the program that wrote the file save module.state_dict() alone")
    except Exception as error:  # noqa: BLE001: whatever torch finds in a stranger's file
        raise Refused(f"torch cannot read it: {lines_of(error)[0]}",
                      "the file may be damaged or cut short: copy or download it again")


def dictionaries(torch, value, key=""):
    """Yields (key, dictionary) of all dictionaries whose values are tensors."""
    if not isinstance(value, dict) or not value:
        return
    if all(isinstance(each, torch.Tensor) for each in value.values()):
        yield key, value
        return
    for name, each in value.items():
        yield from dictionaries(torch, each, f"{key}.{name}" if key else str(name))


def chosen(torch, loaded, key):
    found = {at: tensors for at, tensors in dictionaries(torch, loaded) if all(isinstance(name, str) for name in tensors)}
    named = ", ".join([at or "the file itself" for at in found][:MOST_NAMED])
    if key:
        if key not in found:
            raise Refused(f"there is no state_dict {key}", f"there are: {named}" if found else "the file has none")
        return key, found[key]
    if not found:
        raise Refused("no state_dict: a dictionary of tensors by name", "save module.state_dict()")
    if len(found) > 1:
        raise Refused(f"several state_dicts: {named}", "choose one by --key")
    return next(iter(found.items()))


def words(torch):
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
             "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL"}
    return {getattr(torch, name): word for name, word in names.items()}


def write(torch, tensors, path):
    known = words(torch)
    for name, tensor in tensors.items():
        if tensor.dtype not in known or tensor.layout != torch.strided:
            raise Refused(f"{name}: {tensor.dtype}, {tensor.layout}", "no model of a job has such a tensor")
        if tensor.is_meta:
            raise Refused(f"{name} has a shape and no values: it was saved from the device meta",
                          "save the module with its values")
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())  # each tensor then lies at a multiple of its elements' size
    header, at = {}, 0
    for name in order:
        tensor = tensors[name]
        end = at + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": known[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with whole_file(path) as part, open(part, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            whole = tensors[name].detach().resolve_neg().contiguous()
            if whole.numel():
                file.write((ctypes.c_char * (whole.numel() * whole.element_size())).from_address(whole.data_ptr()))


def main():
    torch, loaded = load(REQUEST["file"])
    key, tensors = chosen(torch, loaded, REQUEST["key"])
    write(torch, tensors, REQUEST["out"])
    return {"tensors": len(tensors), "key": key}


answer(main)
