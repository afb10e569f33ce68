#pragma once
// The open stage of this host. Hands the requests of the host's workers and the frames of other hosts to the exchange
// (step_exchange.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/hosts/courier/host_links.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/step/step_exchange.h"

namespace estrain::hosts {

class RunningStage : private StepOutbox {
 public:
  // `mismatch`: hosts have come to different bits.
  RunningStage(net::Loop& loop, HostLinks& links, std::function<void(const Error&)> mismatch)
      : loop_(loop), links_(links), mismatch_(std::move(mismatch)) {}

  void begin(comm::JobMemory& memory, const HostPlan& plan);
  // Returns false if no stage is open, or the stage was aborted before.
  bool abort();
  // No worker of this host is in its loop.
  void forget();
  void keep_whole_step();  // StepExchange's

  const HostPlan* plan() const { return exchange_ ? &exchange_->plan() : nullptr; }  // null: no stage since forget()
  uint64_t number() const { return exchange_ ? exchange_->plan().stage : 0; }
  bool is_aborted() const { return aborted_; }
  std::optional<size_t> index_of(const std::string& host) const;  // of another host of the stage
  int64_t workers_begun() const { return exchange_->workers_begun(); }
  std::optional<FactorExchange::Summary> take_chosen_factors() {
    return exchange_ ? exchange_->take_chosen_factors() : std::nullopt;
  }
  StepExchange::TimeTaken take_pace() { return exchange_ ? exchange_->take_pace() : StepExchange::TimeTaken{}; }

  // Workers have rung, or frames have come.
  void serve_workers();
  // Takes a frame of this stage, drops a frame of a past stage, lets a frame of a later stage wait.
  std::optional<Landing> landing(const std::string& host, const net::FrameHead& head);

 private:
  template <typename Act>
  void attempt(Act&& act);
  void take_request();
  void work();
  void send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override;
  void send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override;

  net::Loop& loop_;
  HostLinks& links_;
  const std::function<void(const Error&)> mismatch_;
  comm::JobMemory* memory_ = nullptr;
  std::shared_ptr<StepExchange> exchange_;
  bool aborted_ = false;
  uint32_t asked_ = 0;  // the last request handed to the exchange
  bool works_ = false;  // continues work() in a moment
};

}  // namespace estrain::hosts
