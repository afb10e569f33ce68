// Disturbances of a job: faults and users' requests.

#include <algorithm>
#include <sstream>

#include "tests/virtual_time/world.h"

namespace estrain::virtual_time {
namespace {

constexpr const char* kKinds[] = {"cpu", "cpu", "cpu:avx2"};
constexpr int64_t kGpus = 6;

// Reads a list that placement::list_of() wrote.
placement::Devices devices_in(const std::string& list) {
  if (list == placement::list_of({})) return {};
  std::vector<std::string> texts;
  std::istringstream parts(list);
  for (std::string text; std::getline(parts, text, ',');) texts.push_back(text);
  return placement::devices_from(texts);
}

}  // namespace

void World::strike() {
  ++outcome_.coverage.faults[static_cast<size_t>(job_.phase)];
  disturbed_until_ = std::max(disturbed_until_, now_);
  std::vector<WorkerId> alive;
  for (const auto& [id, process] : processes_) {
    if (process.alive) alive.push_back(id);
  }
  const auto victim = [&] { return alive[static_cast<size_t>(random_.between(0, std::ssize(alive) - 1))]; };
  const int64_t kind = random_.between(1, 100);
  if (kind <= 60 && !alive.empty()) {
    die(victim());
    if (random_.chance(20)) die(victim());
  } else if (kind <= 72 && !alive.empty()) {
    const WorkerId id = victim();
    processes_.at(id).hung = true;
    later(random_.between(1000, 3000) * kMs, What::hang_noticed, id.value);
  } else if (kind <= 77) {
    stage_.stalled = true;
    later(2000 * kMs, What::stall_noticed, stage_.number);
  } else if (kind <= 87 && scribe_.alive) {
    scribe_.alive = false;
    later(random_.between(0, 50) * kMs, What::scribe_end_noticed, scribe_.number);
  } else if (kind <= 93) {
    disk_full_ = true;
    later(random_.between(10, 3000) * kMs, What::disk_has_room);
    if (attached_) decide(decisions::NotWritten{"no space left on device"});
  } else if (kind <= 99) {
    starts_fail_until_ = now_ + random_.between(10, 3000) * kMs;
    if (!alive.empty()) die(victim());
  } else if (job_.phase != decisions::RunPhase::over) {
    cannot_go_on_ = true;
    if (random_.chance(50)) {
      decide(decisions::ScribeFailed{Error(Fault::corrupt, "the scribe cannot go on")});
    } else {
      decide(decisions::CannotGoOn{Error(Fault::mismatch, "hosts have come to different bits")});
    }
  }
}

decisions::ClientId World::new_client() {
  const auto id = static_cast<decisions::ClientId>(clients_.size()) + 1;
  clients_[id] = Client{.gone = random_.chance(10)};
  return id;
}

void World::answer(decisions::ClientId client) {
  const auto at = clients_.find(client);
  if (at == clients_.end()) return break_law(Law::each_request_answered, fmt::format("client {} never asked", client));
  if (++at->second.answers > 1)
    break_law(Law::each_request_answered, fmt::format("client {} is answered again", client));
}

placement::Assignment World::some_devices(int64_t most) {
  placement::Assignment devices;
  const int64_t count = random_.between(1, std::min<int64_t>(most, job_.ests));
  if (job_.gpus_exchange) {
    const int64_t first = random_.between(0, kGpus - 1);
    for (int64_t i = 0; i < count; ++i) devices.push_back({{"cuda", (first + i) % kGpus}});
    return devices;
  }
  for (int64_t i = 0; i < count; ++i) devices.push_back({{kKinds[random_.between(0, 2)]}});
  return devices;
}

void World::request() {
  disturbed_until_ = std::max(disturbed_until_, now_);
  if (job_.closing == decisions::Closing::closed) return;  // the launcher no longer listens
  ++outcome_.coverage.requests[static_cast<size_t>(job_.phase)];
  const int64_t kind = random_.between(1, 100);
  if (kind <= 40) return ask_change();
  if (kind <= 47) return ask_shares();
  if (kind <= 52) return ask_batch();
  if (kind <= 65) {
    return decide(decisions::OfferAsked{new_client(), {placement::format_devices(some_devices(2))}});
  }
  if (kind <= 88) {
    placement::Devices wanted = job_.held;
    while (wanted.size() > 1 && random_.chance(70))
      wanted.erase(wanted.begin() + random_.between(0, std::ssize(wanted) - 1));
    if (random_.chance(10)) wanted.push_back({"cpu:sse"});
    const double within = static_cast<double>(random_.between(50, 5000)) / 1000;
    return ask_reclaim(new_client(), {placement::list_of(wanted), within}, now_);
  }
  ask_stop();
  if (job_.scribe.waits_for_room && random_.chance(50)) ask_stop();  // and again
}

void World::ask_stop() {
  const bool signal = random_.chance(50);
  decide(decisions::StopAsked{
      .why = "asked to", .client = signal ? std::nullopt : std::optional(new_client()), .insists = signal});
}

void World::ask_change() {
  const decisions::ClientId client = new_client();
  if (why_not_now(job_, moment())) return answer(client);  // the launcher refuses it
  decisions::PendingChange change;
  change.client = client;
  change.devices = some_devices(4);
  change.held = devices_of(change.devices);
  change.why = "asked to";
  decide(decisions::ChangeAsked{std::move(change), {}});
}

// The planner moves ESTs between the existing workers.
void World::ask_shares() {
  if (!is_settled(job_)) return;
  decisions::PendingChange change;
  int64_t left = job_.ests;
  for (size_t i = 0; i < job_.workers.size(); ++i) {
    const auto others = static_cast<int64_t>(job_.workers.size() - i - 1);
    const int64_t share = others == 0 ? left : random_.between(1, left - others);
    left -= share;
    change.devices.push_back({job_.workers[i].device, share});
    change.workers.push_back(job_.workers[i].id);
  }
  change.held = job_.held;
  change.why = "faster";
  change.keeps_devices = true;
  decide(decisions::ChangeAsked{std::move(change), {}});
}

void World::ask_batch() {
  const decisions::ClientId client = new_client();
  if (why_not_now(job_, moment())) return answer(client);  // the launcher refuses it
  decisions::PendingChange change;
  change.client = client;
  change.devices = devices_in_force(job_);
  for (const decisions::Member& worker : job_.workers) change.workers.push_back(worker.id);
  change.held = job_.held;
  change.why = "asked to";
  change.keeps_devices = true;
  change.batch = decisions::ChangeRequest{.batch = random_.between(1, 64), .lr_factor = std::nullopt};
  decide(decisions::ChangeAsked{std::move(change), {}});
}

void World::ask_reclaim(decisions::ClientId client, const decisions::ReclaimRequest& request, MonotonicTime arrived) {
  decisions::ReclaimAsked asked{client, request, devices_in(request.devices), arrived, {}};
  const auto rest = without(job_.held, asked.wanted);
  if (attached_ && rest && !rest->empty()) {
    const placement::Devices staying = common(devices_of(devices_in_force(job_)), *rest);
    for (const placement::Device& device : staying.empty() ? *rest : staying) {
      if (std::ssize(asked.shrunk.devices) < job_.ests) asked.shrunk.devices.push_back({device});
    }
    asked.shrunk.why = "devices were reclaimed";
  }
  decide(std::move(asked));
}

void World::take_up(const decisions::WaitingRequest& waiting) {
  if (const auto* offer = std::get_if<decisions::OfferRequest>(&waiting.request))
    return decide(decisions::OfferAsked{waiting.client, *offer});
  ask_reclaim(waiting.client, std::get<decisions::ReclaimRequest>(waiting.request), waiting.arrived);
}

void World::weigh(decisions::ClientId client, const decisions::OfferRequest& request) {
  if (random_.chance(40)) return answer(client);  // declined
  const placement::Devices offered = devices_in(request.devices);
  decisions::PendingChange change;
  change.client = client;
  change.held = job_.held;
  change.held.insert(change.held.end(), offered.begin(), offered.end());
  for (const placement::Device& device : change.held) {
    if (std::ssize(change.devices) < job_.ests) change.devices.push_back({device});
  }
  change.why = "an offer";
  decide(decisions::ChangeAsked{std::move(change), {}});
}

}  // namespace estrain::virtual_time
