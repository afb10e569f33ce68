#pragma once
// Requests of users to the running job: each is refused at once, answered, or goes to decide().

#include "core/run/decisions/action.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/crew.h"
#include "core/run/launch/launcher/parts/speeds.h"
#include "core/run/launch/launcher/status_report.h"

namespace estrain::launch {

class Requests {
 public:
  Requests(Run& run, Crew& crew, Speeds& speeds, StatusReport& report, Audits& audits)
      : run_(run), crew_(crew), speeds_(speeds), report_(report), audits_(audits) {}

  void serve(ClientId client, const decisions::Request& request, int64_t arrived_ns);
  // Weighs an offer whose turn has come.
  void weigh(const decisions::WeighOffer& offer);

 private:
  struct Servant;  // one function for each request
  struct Wanted {
    Devices devices;
    bool oversubscribe = false, mixed = false;  // accepted for the devices
  };

  const std::string& own() const { return run_.state.options.own_host; }
  void begin_change(ClientId client, const decisions::ChangeRequest& request);
  void begin_resize(ClientId client, const decisions::ResizeRequest& request);
  void resize_as_planned(ClientId client);
  void ask_offer(ClientId client, const decisions::OfferRequest& request);
  void take_or_decline(ClientId client, const Devices& offered);
  void reclaim(ClientId client, const decisions::ReclaimRequest& request, int64_t arrived_ns);
  void check_wanted(const Wanted& wanted) const;

  Run& run_;
  Crew& crew_;
  Speeds& speeds_;
  StatusReport& report_;
  Audits& audits_;
};

}  // namespace estrain::launch
