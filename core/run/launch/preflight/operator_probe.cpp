#include "core/run/launch/preflight/operator_probe.h"

#include <fmt/ranges.h>

#include <csignal>

#include "core/base/error.h"
#include "core/base/process/child_process.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::launch {
namespace {

std::string layers_of(const comm::ProbedOperator& use) { return fmt::format("{}", fmt::join(use.layers, ", ")); }

std::string name_of(const comm::ProbedOperator& use) {
  return use.which.empty() ? use.name : use.name + " " + use.which;
}

// "aten::name on Double (layer, layer)" for each operator that `is_meant`.
std::vector<std::string> with_layers(const comm::ProbeReport& report, bool (*is_meant)(const comm::ProbedOperator&)) {
  std::vector<std::string> found;
  for (const comm::ProbedOperator& use : report.operators) {
    if (!is_meant(use)) continue;
    std::string text = name_of(use);
    if (!use.layers.empty()) text += " (" + layers_of(use) + ")";
    found.push_back(std::move(text));
  }
  return found;
}

// Starts a probe for one request, and returns its answer.
template <typename Answer>
Answer ask_probe(const comm::ProbeRequest& request, const spec::JobSpec& spec, const Device& device) {
  auto [ours, theirs] = comm::MessageSocket::pair();
  ChildOptions options;
  options.arguments = {own_executable(), "probe", "--socket", std::to_string(theirs.descriptor())};
  options.same_program = true;
  options.environment = device_environment(device, spec.job, own_environment());
  options.inherited = {theirs.descriptor()};
  ChildProcess process = ChildProcess::start(options);
  theirs.close();
  comm::ProbeChannel probe(std::move(ours));
  probe.send(request);
  comm::ProbeAnswer answer;
  const comm::Received received = probe.receive(&answer, kForever);
  const ChildEnd ended = process.wait();
  if (received != comm::Received::message) {
    const bool killed = ended.signaled && ended.code == SIGKILL;
    throw Error::make(Fault::peer, "the process that tried a mini-batch on {} ended with {}", device.text(),
                      ended.text())
        .advise(killed ? "SIGKILL is what a machine does that is out of memory: lower data.batch, or free memory" : "");
  }
  if (const auto* failed = std::get_if<comm::Failed>(&answer)) throw failed->error();
  return std::get<Answer>(std::move(answer));
}

}  // namespace

comm::ProbeReport probe_operators(const spec::JobSpec& spec, const Device& device, bool measures, bool foretells,
                                  bool factors) {
  return ask_probe<comm::ProbeReport>(
      comm::TryMiniBatch{spec::to_toml(spec), device.text(), measures, foretells, factors}, spec, device);
}

comm::ProbeReport probe_batch(const spec::JobSpec& spec, const Device& device) {
  comm::TryMiniBatch request{spec::to_toml(spec), device.text()};
  request.one_sample = true;
  return ask_probe<comm::ProbeReport>(request, spec, device);
}

comm::BlockTimes time_blocks(const spec::JobSpec& spec, const Device& device, double seconds) {
  return ask_probe<comm::BlockTimes>(comm::TimeBlocks{spec::to_toml(spec), device.text(), seconds}, spec, device);
}

std::vector<std::string> uncovered_operators(const comm::ProbeReport& report) {
  return with_layers(report,
                     [](const comm::ProbedOperator& use) { return use.coverage == comm::ProbedOperator::not_covered; });
}

std::vector<std::string> raising_operators(const comm::ProbeReport& report) {
  return with_layers(report,
                     [](const comm::ProbedOperator& use) { return use.on_gpus == comm::ProbedOperator::raises; });
}

std::vector<std::string> unpinned_operators(const comm::ProbeReport& report) {
  return with_layers(report,
                     [](const comm::ProbedOperator& use) { return use.on_gpus == comm::ProbedOperator::unpinned; });
}

void BitsChoice::settle(spec::JobSection& job) const {
  job.determinism = determinism;
  job.kernels = kernels;
}

BitsChoice choose_determinism(const spec::JobSpec& spec, const comm::ProbeReport& report) {
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
  const double torch = report.seconds.value().torch, portable = report.seconds->portable.value();
  const std::string cost = fmt::format(
      "a mini-batch takes {:.2f} ms with the portable kernels, {:.2f} ms with LibTorch's", 1e3 * portable, 1e3 * torch);
  if (portable > most_cost_of_d2 * torch) return {spec::Determinism::d1, spec::Kernels::torch, cost};
  return {spec::Determinism::d2, spec::Kernels::portable, "every operator is covered, and " + cost};
}

std::string format_operators(const comm::ProbeReport& report) {
  std::string text =
      fmt::format("{:<52} {:<12} {:<12} {:>6}  {}\n", "operator", "bits at D2", "GPUs at D1", "calls", "layers");
  for (const comm::ProbedOperator& use : report.operators) {
    std::string layers = layers_of(use);
    if (layers.size() > 60) layers = layers.substr(0, 57) + "...";
    text += fmt::format("{:<52} {:<12} {:<12} {:>6}  {}\n", name_of(use), use.coverage, use.on_gpus, use.calls, layers);
  }
  return text;
}

}  // namespace estrain::launch
