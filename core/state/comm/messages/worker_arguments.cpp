#include "core/state/comm/messages/worker_arguments.h"

#include <charconv>
#include <utility>

#include "core/base/error.h"

namespace estrain::comm {
namespace {

constexpr std::string_view kVerb = "worker";

std::string text_of(const std::string& value) { return value; }
std::string text_of(int value) { return std::to_string(value); }

bool is_given(const std::string& value) { return !value.empty(); }
bool is_given(int descriptor) { return descriptor >= 0; }

bool read(const std::string& text, std::string& value) {
  value = text;
  return true;
}

bool read(const std::string& text, int& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::vector<std::string> WorkerArguments::words() const {
  std::vector<std::string> words = {std::string(kVerb)};
  fields(*this, [&](std::string_view name, const auto& value) {
    if (is_given(value)) words.insert(words.end(), {fmt::format("--{}", name), text_of(value)});
  });
  return words;
}

WorkerOptions WorkerArguments::worker_options() const {
  WorkerOptions read;
  codec::from_field(parse_json(options, "--options"), read);
  read.checkpoint = checkpoint;
  return read;
}

PythonWorker python_worker(const WorkerArguments& arguments, std::string algorithm_store) {
  return {.run = {arguments.run},
          .socket = arguments.socket,
          .memory = arguments.memory,
          .doorbell = arguments.doorbell,
          .courier = arguments.courier,
          .options = arguments.worker_options(),
          .checkpoint = {arguments.checkpoint},
          .algorithm_store = {std::move(algorithm_store)}};
}

WorkerArguments WorkerArguments::parse(const std::vector<std::string>& words) {
  WorkerArguments arguments;
  bool is_known = words.size() >= 2 && words.size() % 2 == 0 && words[1] == kVerb;
  for (size_t i = 2; is_known && i < words.size(); i += 2) {
    is_known = false;
    fields(arguments, [&](std::string_view name, auto& value) {
      if (words[i] == fmt::format("--{}", name)) is_known = read(words[i + 1], value);
    });
  }
  if (!is_known) throw Error(Fault::bug, "a worker was called with other arguments than the launcher has for it");
  return arguments;
}

}  // namespace estrain::comm
