#pragma once
// Translates LibTorch's exceptions to estrain's.

#include <c10/util/Exception.h>

#include <string>

#include "core/base/error.h"

namespace estrain::model {

// Returns the message without LibTorch's debugging hints, and without a final full stop: more text may follow.
inline std::string said_by(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  if (text.ends_with('.')) text.pop_back();
  for (const char* hint : {" If reserved but unallocated", "\nSearch for `cuda", "\nCUDA kernel errors might"}) {
    if (const size_t at = text.find(hint); at != std::string::npos) return text.substr(0, at);
  }
  return text;
}

inline constexpr const char* label_out_of_range = "a label or token of the batch is not one of the model's classes";

// Translates a c10::Error of a model into the user's terms.
inline Error from_torch(const c10::Error& error) {
  const std::string text = said_by(error);
  if (dynamic_cast<const c10::IndexError*>(&error) != nullptr) {
    return Error::make(Fault::mismatch, "{}: {}", label_out_of_range, text)
        .advise("check the data, or set model.classes to the number of classes in it");
  }
  if (text.find("DefaultCPUAllocator") != std::string::npos)
    return Error(Fault::infeasible, text).advise("lower data.batch, use a smaller model, or a host with more memory");
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    return Error(Fault::infeasible, text)
        .advise(
            "lower data.batch, use a smaller model or a device with more memory, or keep the optimizer's slots in host "
            "memory (job.state = \"host\")");
  }
  return Error::make(Fault::bug, "LibTorch: {}", text).caused_by("torch_exception");
}

// Runs `body`, and converts a c10::Error to an Error.
template <typename Body>
decltype(auto) translating_torch_errors(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const c10::Error& error) {
    throw from_torch(error);
  }
}

}  // namespace estrain::model
