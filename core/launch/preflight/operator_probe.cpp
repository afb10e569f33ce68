#include "core/launch/preflight/operator_probe.h"

#include <fmt/ranges.h>

#include <csignal>

#include "core/base/error.h"
#include "core/base/process/child_process.h"
#include "core/comm/messages/message_socket.h"
#include "core/spec/enum_names.h"
#include "core/spec/parsing/parse.h"

namespace estrain::launch {
namespace {

std::string layers_of(const Json& use) {
  return fmt::format("{}", fmt::join(use.at("layers").get<std::vector<std::string>>(), ", "));
}

}  // namespace

Json probe_operators(const spec::JobSpec& spec, const Device& device, bool measures) {
  auto [ours, theirs] = comm::MessageSocket::pair();
  ChildOptions options;
  options.arguments = {own_executable(), "probe", "--socket", std::to_string(theirs.descriptor())};
  options.same_program = true;
  options.environment = device_environment(device, spec.job, own_environment());
  options.inherited = {theirs.descriptor()};
  ChildProcess process = ChildProcess::start(options);
  theirs.close();
  ours.send({{"spec", spec::to_toml(spec)}, {"measures", measures}, {"device", device.text()}});
  Json report;
  const auto received = ours.receive(&report, -1);
  const ChildEnd ended = process.wait();
  if (received != comm::MessageSocket::Received::message) {
    const bool killed = ended.signaled && ended.code == SIGKILL;
    throw Error::make(Fault::peer, "the process that tried a mini-batch on {} ended with {}", device.text(),
                      ended.text())
        .advise(killed ? "SIGKILL is what a machine does that is out of memory: lower data.batch, or free memory" : "");
  }
  if (report.value("say", "") == "error") {
    throw Error(static_cast<Fault>(report.value("fault", static_cast<int>(Fault::bug))), report.value("message", ""))
        .advise(report.value("advice", ""));
  }
  report.erase("say");
  return report;
}

std::vector<std::string> uncovered_operators(const Json& report) {
  std::vector<std::string> found;
  for (const Json& use : report.at("operators")) {
    if (use.at("coverage") != "not covered") continue;
    std::string text = use.at("name");
    if (use.at("type") != "") text += " on " + use.at("type").get<std::string>();
    if (!use.at("layers").empty()) text += " (" + layers_of(use) + ")";
    found.push_back(std::move(text));
  }
  return found;
}

Verdict choose_determinism(const spec::JobSpec& spec, const Json& report) {
  if (spec.job.precision != spec::Precision::fp32) {
    return {spec::Determinism::d1, spec::Kernels::torch,
            fmt::format("job.precision is \"{}\", the portable kernels compute in fp32 alone",
                        spec::to_string(spec.job.precision))};
  }
  const std::vector<std::string> uncovered = uncovered_operators(report);
  if (!uncovered.empty()) {
    return {spec::Determinism::d1, spec::Kernels::torch,
            fmt::format("no portable kernel for {}", fmt::join(uncovered, "; "))};
  }
  const double torch = report.at("seconds").at("torch"), portable = report.at("seconds").at("portable");
  const std::string cost = fmt::format(
      "a mini-batch takes {:.2f} ms with the portable kernels, {:.2f} ms with LibTorch's", 1e3 * portable, 1e3 * torch);
  if (portable > most_cost_of_d2 * torch) return {spec::Determinism::d1, spec::Kernels::torch, cost};
  return {spec::Determinism::d2, spec::Kernels::portable, "every operator is covered, and " + cost};
}

std::string format_operators(const Json& report) {
  std::string text = fmt::format("{:<52} {:<12} {:>6}  {}\n", "operator", "bits", "calls", "layers");
  for (const Json& use : report.at("operators")) {
    std::string name = use.at("name");
    if (use.at("type") != "") name += " on " + use.at("type").get<std::string>();
    std::string layers = layers_of(use);
    if (layers.size() > 60) layers = layers.substr(0, 57) + "...";
    text += fmt::format("{:<52} {:<12} {:>6}  {}\n", name, use.at("coverage").get<std::string>(),
                        use.at("calls").get<int64_t>(), layers);
  }
  return text;
}

}  // namespace estrain::launch
