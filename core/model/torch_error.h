#pragma once
// The border between LibTorch's exceptions and ours.

#include <c10/util/Exception.h>

#include <string_view>

#include "core/base/error.h"

namespace estrain::model {

// What a c10::Error thrown by a model means to the user.
inline Error from_torch(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  if (dynamic_cast<const c10::IndexError*>(&error) != nullptr) {
    return Error::make(Fault::mismatch, "a label or token of the batch is not one of the model's classes: {}", text)
        .advise("check the data, or set model.classes to the number of classes in it");
  }
  if (text.find("DefaultCPUAllocator") != std::string::npos || dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    return Error(Fault::infeasible, text).advise("use a smaller batch or model, or a machine with more memory");
  }
  return Error::make(Fault::bug, "LibTorch: {}", text);
}

// Runs `body`; a c10::Error that leaves it becomes an Error.
template <typename Body>
decltype(auto) translating_torch_errors(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const c10::Error& error) {
    throw from_torch(error);
  }
}

}  // namespace estrain::model
