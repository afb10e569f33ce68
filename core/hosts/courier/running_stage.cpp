#include "core/hosts/courier/running_stage.h"

#include <algorithm>

#include "core/state/comm/stage_control.h"

namespace estrain::hosts {

template <typename Act>
void RunningStage::attempt(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.fault() != Fault::mismatch) throw;
    mismatch_(error);
  }
}

void RunningStage::begin(comm::JobMemory& memory, const HostPlan& plan) {
  memory_ = &memory;
  asked_ = memory.hosts().answered();
  exchange_ = std::make_shared<StepExchange>(memory, plan, static_cast<StepOutbox&>(*this));
}

bool RunningStage::abort() {
  if (aborted_ || !exchange_) return false;
  aborted_ = true;
  comm::StageControl(*memory_).abort();
  return true;
}

void RunningStage::forget() {
  exchange_.reset();
  aborted_ = false;
}

void RunningStage::keep_whole_step() {
  if (exchange_) exchange_->keep_whole_step();
}

std::optional<size_t> RunningStage::index_of(const std::string& name) const {
  if (!exchange_) return std::nullopt;
  const std::vector<HostShare>& hosts = exchange_->plan().hosts;
  const auto at = std::ranges::find(hosts, name, &HostShare::name);
  if (at == hosts.end() || exchange_->plan().here().name == name) return std::nullopt;
  return static_cast<size_t>(at - hosts.begin());
}

void RunningStage::serve_workers() {
  if (!exchange_ || aborted_) return;
  take_request();
  work();
}

void RunningStage::take_request() {
  const comm::HostRequest request = memory_->hosts().open_request();
  if (request.what == comm::HostAsk::nothing || request.sequence == asked_) return;
  asked_ = request.sequence;
  attempt([&] { exchange_->ask(request); });
}

// Works in small turns: finished results leave between the turns.
void RunningStage::work() {
  if (works_ || !exchange_ || aborted_) return;
  attempt([&] { works_ = exchange_->work(); });
  if (!works_) return;
  loop_.post([this] {
    works_ = false;
    work();
  });
}

std::optional<Landing> RunningStage::landing(const std::string& host, const net::FrameHead& head) {
  const uint64_t stage = stage_of(head.number);
  if (stage > number()) return std::nullopt;
  const auto index = index_of(host);
  if (stage < number() || aborted_ || !index) return Landing{};
  return Landing{exchange_->room_for(*index, head), [this, held = exchange_, index = *index, head] {
                   if (held != exchange_ || aborted_) return;
                   attempt([&] { held->received(index, head); });
                   serve_workers();  // a waiting host may have asked meanwhile
                 }};
}

void RunningStage::send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) {
  if (net::Connection* to = links_.to(exchange_->plan().hosts[host].name)) to->send_from(head, bytes);
}

void RunningStage::send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) {
  if (net::Connection* to = links_.to(exchange_->plan().hosts[host].name))
    to->send(head, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace estrain::hosts
