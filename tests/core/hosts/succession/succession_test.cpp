#include "core/hosts/succession/succession.h"

#include <doctest/doctest.h>

#include "tests/durations.h"

namespace estrain::hosts {
namespace {

enum class Next { nothing, wait, take_lease, take_over, take_over_at_checkpoint, end };

Next next_of(const SuccessionAction& action) {
  if (std::holds_alternative<KeepWaiting>(action.deed)) return Next::wait;
  if (std::holds_alternative<TryLease>(action.deed)) return Next::take_lease;
  if (std::holds_alternative<EndOnThisHost>(action.deed)) return Next::end;
  return std::get<TakeOver>(action.deed).at_checkpoint ? Next::take_over_at_checkpoint : Next::take_over;
}

// An OrphanOf is a host without a coordinator; the test names the events.
class OrphanOf {
 public:
  OrphanOf(Orphan orphan, std::set<std::string> reached)
      : state_(succession_of(std::move(orphan), std::move(reached), kNoTime)) {}

  const LeadClaim& claim() const { return state_.claim; }
  // The reason of the last action but TellOthers.
  const std::string& why() const { return why_; }
  Next next(Nanoseconds since) { return carry_out(TimePasses{}, MonotonicTime(since)); }
  Next answer(LeaseAnswer answer) { return carry_out(LeaseAnswered{answer}, MonotonicTime(1ns)); }
  void hear(const std::string& from, const LeadClaim& claim) {
    carry_out(ClaimArrived{from, claim}, MonotonicTime(1ns));
  }
  void lose(const std::string& host) { carry_out(HostUnreached{host}, MonotonicTime(1ns)); }

  std::vector<LeadClaim> told;

 private:
  Next carry_out(const SuccessionEvent& event, MonotonicTime now) {
    Next next = Next::nothing;
    for (const SuccessionAction& action : decide(state_, event, now)) {
      CHECK_FALSE(action.reason.empty());
      if (const auto* tell = std::get_if<TellOthers>(&action.deed)) {
        told.push_back(tell->claim);
        continue;
      }
      next = next_of(action);
      why_ = action.reason;
    }
    return next;
  }

  Succession state_;
  std::string why_;
};

Orphan orphan(const std::string& name, bool sees_locks) {
  return {.name = name, .hosts = {"", "a", "b"}, .stage = 7, .fit = true, .sees_locks = sees_locks, .patience = 90s};
}

TEST_CASE("a coordinator gives up when the hosts that are silent may be a majority without it") {
  CHECK(!must_give_up(2, 1, 1));
  CHECK(!must_give_up(3, 1, 1));
  CHECK(must_give_up(3, 2, 2));
  CHECK(!must_give_up(4, 2, 2));
  CHECK(must_give_up(4, 3, 3));
  CHECK(must_give_up(5, 3, 3));
  CHECK(must_give_up(5, 3, 1));
  CHECK(!must_give_up(5, 3, 0));  // none of them sees the run directory
}

TEST_CASE("the first in the order of the plan takes the lease, the next waits for its turn") {
  OrphanOf a(orphan("a", true), {"b"}), b(orphan("b", true), {"a"});
  CHECK(a.next(0ns) == Next::wait);  // b has not spoken
  a.hear("b", b.claim());
  b.hear("a", a.claim());
  CHECK(a.next(1ns) == Next::take_lease);
  CHECK(b.next(1ns) == Next::wait);
  a.answer(LeaseAnswer::held);
  CHECK(a.next(2ns) == Next::take_lease);
  CHECK(b.next(25s) == Next::take_lease);  // a came to nothing
  CHECK(a.answer(LeaseAnswer::taken) == Next::take_over);
  CHECK(a.next(3ns) == Next::nothing);
}

TEST_CASE("a host that is alone leads where locks are seen, and waits where they are not") {
  OrphanOf seen(orphan("b", true), {}), blind(orphan("b", false), {});
  CHECK(seen.next(0ns) == Next::take_lease);
  CHECK(blind.next(0ns) == Next::wait);
  CHECK(blind.next(89s) == Next::wait);
  CHECK(blind.next(91s) == Next::end);
}

TEST_CASE("without locks that are seen a majority must back the host, and each backs one for good") {
  OrphanOf a(orphan("a", false), {"b"}), b(orphan("b", false), {"a"});
  a.hear("b", b.claim());
  b.hear("a", a.claim());
  CHECK(b.next(1ns) == Next::wait);
  CHECK(b.claim().backs == "a");
  CHECK(a.next(1ns) == Next::wait);  // b's word is on its way
  a.hear("b", b.claim());
  CHECK(a.next(2ns) == Next::take_lease);
  b.lose("a");
  CHECK(b.next(3ns) == Next::wait);  // it backs a
  CHECK(b.claim().backs == "a");
}

TEST_CASE("half of the hosts are no majority") {
  const auto of_even_stage = [](const std::string& name, std::vector<std::string> hosts) {
    Orphan one = orphan(name, false);
    one.hosts = std::move(hosts);
    return one;
  };
  OrphanOf of_two(of_even_stage("a", {"", "a"}), {});
  CHECK(of_two.next(50s) == Next::wait);
  OrphanOf a(of_even_stage("a", {"", "a", "b", "c"}), {"b"});
  const LeadClaim backs_a{.stage = 7, .fit = true, .backs = "a"};
  a.hear("b", backs_a);
  CHECK(a.next(1ns) == Next::wait);  // the other half may lead, too
  CHECK(a.claim().backs == "a");
  a.hear("c", backs_a);
  CHECK(a.next(2ns) == Next::take_lease);
}

TEST_CASE("hosts that were not in the stage have no voice") {
  const LeadClaim backs_a{.stage = 7, .fit = true, .backs = "a"};
  OrphanOf a(orphan("a", false), {"b"});
  a.hear("b", {.stage = 7, .fit = true, .backs = ""});
  a.hear("stranger", backs_a);
  CHECK(a.next(1ns) == Next::wait);
  CHECK(a.claim().backs == "a");
  a.hear("b", backs_a);
  CHECK(a.next(2ns) == Next::take_lease);
  OrphanOf seen(orphan("a", true), {});
  seen.hear("stranger", {.stage = 9, .fit = true, .backs = "stranger"});  // of another stage, so it leads nowhere
  CHECK(seen.next(1ns) == Next::take_lease);
}

TEST_CASE("a host that lacks state, or opened an earlier stage, does not lead") {
  Orphan unfit = orphan("a", true);
  unfit.fit = false;
  CHECK(OrphanOf(unfit, {}).next(1ns) == Next::wait);
  OrphanOf old(orphan("a", true), {"b"});
  old.hear("b", {.stage = 8, .fit = true, .backs = "b"});
  CHECK(old.next(80s) == Next::wait);
}

TEST_CASE("a host that has opened no stage leads where nobody else can, from the newest checkpoint") {
  Orphan newcomer = orphan("a", true);
  newcomer.stage = 0;
  newcomer.fit = false;
  OrphanOf alone(newcomer, {"b"});
  CHECK(alone.next(0ns) == Next::wait);  // b has not spoken
  alone.hear("b", {.stage = 0, .fit = false, .backs = ""});
  CHECK(alone.next(1ns) == Next::take_lease);
  OrphanOf beside(newcomer, {"b"});
  beside.hear("b", {.stage = 1, .fit = true, .backs = "b"});
  CHECK(beside.next(1ns) == Next::wait);  // b holds more
  CHECK(beside.next(11s) == Next::take_lease);
  OrphanOf untold(newcomer, {});
  CHECK(untold.next(1ns) == Next::take_lease);
  untold.answer(LeaseAnswer::over);  // others have trained without it
  CHECK(untold.next(2ns) == Next::take_lease);
  CHECK(untold.next(91s) == Next::end);
  newcomer.sees_locks = false;
  CHECK(OrphanOf(newcomer, {}).next(50s) == Next::wait);
}

TEST_CASE("what the run directory says of those that led decides from what a host goes on") {
  const run_directory::Term known{3, 7};
  CHECK(judge_lease(true, known, {3, 7}) == LeaseAnswer::taken);
  CHECK(judge_lease(true, known, {3, 6}) == LeaseAnswer::taken);
  CHECK(judge_lease(true, known, {3, 8}) == LeaseAnswer::over);  // a stage without it
  CHECK(judge_lease(true, known, {4, 1}) == LeaseAnswer::over);  // somebody trained on
  CHECK(judge_lease(true, known, {4, 0}) == LeaseAnswer::taken_at_checkpoint);
  CHECK(judge_lease(true, known, {2, 0}) == LeaseAnswer::over);
  CHECK(judge_lease(true, {3, 7}, {3, 0}) == LeaseAnswer::taken);  // its coordinator had not opened it
  CHECK(judge_lease(true, {3, 0}, {3, 0}) == LeaseAnswer::taken_at_checkpoint);
  CHECK(judge_lease(true, {3, 0}, {3, 1}) == LeaseAnswer::over);
  CHECK(judge_lease(false, known, {3, 7}) == LeaseAnswer::over);  // it ended as it should
  CHECK(judge_lease(false, known, {4, 0}) == LeaseAnswer::over);
}

TEST_CASE("an agent follows the next coordinator, and no earlier one") {
  CHECK(judge_peer(2, false, 1, true) == PeerAnswer::turn_away);
  CHECK(judge_peer(2, false, 2, true) == PeerAnswer::take);
  CHECK(judge_peer(2, true, 2, true) == PeerAnswer::turn_away);
  CHECK(judge_peer(2, true, 3, true) == PeerAnswer::begin_anew);
  CHECK(judge_peer(2, true, 2, false) == PeerAnswer::take);
  CHECK(judge_peer(2, false, 3, false) == PeerAnswer::turn_away);
}

TEST_CASE("a host that does not see the run directory never leads, and backs who does") {
  Orphan apart = orphan("a", false);
  apart.sees_run = false;
  OrphanOf a(apart, {"b"}), b(orphan("b", false), {"a"});
  CHECK_FALSE(a.claim().fit);
  a.hear("b", b.claim());
  b.hear("a", a.claim());
  CHECK(a.next(1ns) == Next::wait);
  CHECK(a.claim().backs == "b");
  CHECK(b.next(1ns) == Next::wait);  // a's word is on its way
  b.hear("a", a.claim());
  CHECK(b.next(2ns) == Next::take_lease);
  a.lose("b");
  CHECK(a.next(80s) == Next::wait);
  CHECK(a.next(91s) == Next::end);
  OrphanOf waits(orphan("b", true), {"a"});
  LeadClaim later = a.claim();
  later.stage = 8;  // opened there, and not by the coordinator, as the run directory will tell
  waits.hear("a", later);
  CHECK(waits.next(1ns) == Next::take_lease);
  for (const bool sees_locks : {true, false}) {
    apart.sees_locks = sees_locks;
    apart.hosts = {"", "a"};
    CHECK(OrphanOf(apart, {}).next(1s) == Next::wait);
    Orphan newcomer = apart;
    newcomer.stage = 0;
    CHECK(OrphanOf(newcomer, {}).next(80s) == Next::wait);
  }
}

TEST_CASE("an agent that joins by an address begins anew for a later coordinator, or for the one that it has left") {
  CHECK(judge_registry(2, false, 1) == PeerAnswer::turn_away);
  CHECK(judge_registry(2, true, 1) == PeerAnswer::turn_away);
  CHECK(judge_registry(2, false, 2) == PeerAnswer::take);
  CHECK(judge_registry(2, true, 2) == PeerAnswer::begin_anew);
  CHECK(judge_registry(2, false, 3) == PeerAnswer::begin_anew);
}

TEST_CASE("a host stops where somebody has led since") {
  OrphanOf a(orphan("a", true), {});
  a.answer(LeaseAnswer::over);
  CHECK(a.next(1ns) == Next::end);
  CHECK(a.why() == "another host has led the run since, or the run has ended");
}

TEST_CASE("a host tells its claim at once, when the claim changes, and from time to time") {
  OrphanOf a(orphan("a", true), {"b"});
  a.next(0ns);
  CHECK(a.told.size() == 1);
  a.next(1ns);
  CHECK(a.told.size() == 1);
  a.hear("b", {.stage = 7, .fit = true, .backs = ""});
  a.next(2ns);
  REQUIRE(a.told.size() == 2);
  CHECK(a.told.back().backs == "a");
  a.next(199ms);
  CHECK(a.told.size() == 2);
  a.next(201ms);
  CHECK(a.told.size() == 3);
}

TEST_CASE("a host that leads is told from where the run resumes") {
  OrphanOf a(orphan("a", true), {});
  CHECK(a.answer(LeaseAnswer::held) == Next::wait);
  CHECK(a.answer(LeaseAnswer::taken_at_checkpoint) == Next::take_over_at_checkpoint);
}

}  // namespace
}  // namespace estrain::hosts
