#pragma once
// Requests of users to the running job: each is refused at once, answered, or goes to decide().

#include <memory>
#include <optional>
#include <string>

#include "core/run/decisions/action.h"
#include "core/run/decisions/event.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/crew.h"
#include "core/run/launch/launcher/parts/speeds.h"
#include "core/run/launch/launcher/status_report.h"

namespace estrain::launch {

class Requests {
 public:
  // What requests work on.
  struct Means {
    Crew& crew;
    Speeds& speeds;
    StatusReport& report;
    Audits& audits;
    RunOptions& options;  // a resize may allow mixed devices from then on
  };
  // `control`: the way to the clients; set before the first request.
  Requests(const RunView& run, const std::unique_ptr<ControlServer>& control, const Means& parts)
      : run_(run), control_(control), parts_(parts) {}

  // Returns the event to decide about, if the request is neither answered nor refused here. `now`: as decide() sees the
  // moment.
  std::optional<decisions::Event> serve(const decisions::WaitingRequest& asked, const decisions::Moment& now);
  // Weighs an offer whose turn has come.
  std::optional<decisions::Event> weigh(const decisions::WeighOffer& offer);

  // The change of the batch behind a stop: where the workers at work cannot take a change, the job stops for the
  // change, and a new launch in the place of this program resumes the run.
  const std::optional<decisions::ChangeRequest>& batch_change() const { return batch_change_; }
  // Another stop was asked for.
  void forget_batch_change() { batch_change_.reset(); }

 private:
  struct Servant;  // one function for each request
  struct Wanted {
    Devices devices;
    bool oversubscribe = false, mixed = false;  // accepted for the devices
  };

  const std::string& own() const { return run_.options.own_host; }
  using ToDecide = std::optional<decisions::Event>;
  ToDecide begin_change(ClientId client, const decisions::ChangeRequest& request, const decisions::Moment& now);
  bool workers_can_take_change() const;
  ToDecide begin_resize(ClientId client, const decisions::ResizeRequest& request, const decisions::Moment& now);
  ToDecide resize_as_planned(ClientId client);
  ToDecide ask_offer(ClientId client, const decisions::OfferRequest& request);
  ToDecide take_or_decline(ClientId client, const Devices& offered);
  ToDecide reclaim(ClientId client, const decisions::ReclaimRequest& request, MonotonicTime arrived);
  void check_wanted(const Wanted& wanted) const;

  const RunView run_;
  const std::unique_ptr<ControlServer>& control_;
  const Means parts_;
  std::optional<decisions::ChangeRequest> batch_change_;
};

}  // namespace estrain::launch
