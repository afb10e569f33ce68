#include "tests/hosts_in_virtual_time/mistakes.h"

#include <array>
#include <utility>
#include <variant>
#include <vector>

namespace estrain::hosts_in_virtual_time {
namespace {

using hosts::Holdings;
using hosts::LeaseAnswer;
using hosts::OpeningPatience;
using hosts::Orphan;
using hosts::PeerAnswer;
using hosts::Succession;
using hosts::SuccessionAction;
using hosts::SuccessionEvent;
using run_directory::Term;

std::vector<SuccessionAction> without_lease(std::vector<SuccessionAction> actions) {
  std::erase_if(actions, [](const SuccessionAction& one) { return std::holds_alternative<hosts::TryLease>(one.deed); });
  return actions;
}

constexpr std::array kMistakes = {
    Mistake{"a coordinator that most hosts may have left goes on", Law::minority_gives_up,
            [](Rules& rules) { rules.must_give_up = [](size_t, size_t, size_t) { return false; }; }},
    Mistake{"a coordinator gives up when half of the hosts are silent", Law::minority_gives_up,
            [](Rules& rules) {
              rules.must_give_up = [](size_t all, size_t silent, size_t see) { return 2 * silent >= all && see > 0; };
            }},
    Mistake{"a coordinator gives up though nobody else could lead", Law::minority_gives_up,
            [](Rules& rules) {
              rules.must_give_up = [](size_t all, size_t silent, size_t) {
                return hosts::must_give_up(all, silent, silent);
              };
            }},
    Mistake{"a host leads though it does not see the run directory", Law::sees_what_it_leads,
            [](Rules& rules) {
              rules.orphan = [](Orphan orphan) {
                orphan.sees_run = true;
                return orphan;
              };
            }},
    Mistake{"a host leads though another has the lock", Law::one_leader,
            [](Rules& rules) { rules.respects_locks = false; }},
    Mistake{"a host leads though another has led since", Law::nothing_lost,
            [](Rules& rules) {
              rules.judge_lease = [](bool owned, const Term& known, const Term& now) {
                return hosts::judge_lease(owned, known, {known.term, now.term == known.term ? now.stage : 0});
              };
            }},
    Mistake{"a host leads though a later stage was opened without it", Law::nothing_lost,
            [](Rules& rules) {
              rules.judge_lease = [](bool owned, const Term& known, const Term& now) {
                return hosts::judge_lease(owned, known, {now.term, 0});
              };
            }},
    Mistake{"a host goes on with a run that has ended", Law::ended_stays_ended,
            [](Rules& rules) {
              rules.judge_lease = [](bool, const Term& known, const Term& now) {
                return hosts::judge_lease(true, known, now);
              };
            }},
    Mistake{"a host leads from a state of which half is there", Law::nothing_lost,
            [](Rules& rules) {
              rules.is_fit = [](Holdings holdings) {
                holdings.receives_state = false;
                return hosts::is_fit(holdings);
              };
            }},
    Mistake{"a host leads without the records that the files lack", Law::no_record_lost,
            [](Rules& rules) {
              rules.is_fit = [](Holdings holdings) {
                holdings.recorded = holdings.records_from;
                return hosts::is_fit(holdings);
              };
            }},
    Mistake{"a host learns only after a first step what the run's files have", Law::who_can_leads,
            [](Rules& rules) { rules.plan_tells_records = false; }},
    Mistake{"a host that has opened no stage waits, though nobody has one", Law::who_can_leads,
            [](Rules& rules) {
              rules.decide = [](Succession& state, const SuccessionEvent& event, MonotonicTime now) {
                const bool is_newcomer = state.orphan.stage == 0;
                return is_newcomer ? without_lease(hosts::decide(state, event, now)) : hosts::decide(state, event, now);
              };
            }},
    Mistake{"a host forgets the step that it had said is whole", Law::nothing_lost,
            [](Rules& rules) { rules.keeps_whole_steps = false; }},
    Mistake{"an agent follows an earlier coordinator", Law::no_old_orders,
            [](Rules& rules) {
              rules.judge_peer = [](int64_t own, bool, int64_t peer, bool leads) {
                return leads && peer > own ? PeerAnswer::begin_anew : PeerAnswer::take;
              };
            }},
    Mistake{"a host takes locks for seen that are not", Law::most_are_behind,
            [](Rules& rules) {
              rules.orphan = [](Orphan orphan) {
                orphan.sees_locks = true;
                return orphan;
              };
            }},
    Mistake{"half of the hosts are taken for most", Law::most_are_behind,
            [](Rules& rules) {
              rules.orphan = [](Orphan orphan) {
                if (orphan.hosts.size() % 2 == 0 && !orphan.hosts.empty()) orphan.hosts.erase(orphan.hosts.begin());
                return orphan;
              };
            }},
    Mistake{"an orphan waits for ever", Law::everybody_ends,
            [](Rules& rules) {
              rules.orphan = [](Orphan orphan) {
                orphan.patience = Nanoseconds(INT64_C(1) << 60);
                return orphan;
              };
            }},
    Mistake{"a coordinator waits for ever for a stage to open", Law::openings_end,
            [](Rules& rules) {
              rules.unanswered = [](OpeningPatience&, MonotonicTime) -> std::optional<OpeningPatience::Unanswered> {
                return std::nullopt;
              };
            }},
    Mistake{"a coordinator sets a host aside that has opened the stage", Law::openings_end,
            [](Rules& rules) {
              rules.unanswered = [](OpeningPatience& patience, MonotonicTime now) {
                auto found = patience.look(now);
                if (found) found->host = "h1";
                return found;
              };
            }},
    Mistake{"nobody notices that two hosts with a coordinator are cut off from each other", Law::stages_advance,
            [](Rules& rules) { rules.notices_unacknowledged = false; }},
    Mistake{"a host expects beats of all others, as if the coordinator were lost", Law::living_are_kept,
            [](Rules& rules) { rules.expects_beats = [](bool, bool, bool) { return true; }; }},
    Mistake{"a host with a coordinator does not answer the beats of an orphan", Law::living_are_kept,
            [](Rules& rules) {
              rules.sends_beats = [](bool leads, bool has_coordinator, bool other_leads, Nanoseconds) {
                return hosts::exchanges_beats(leads, has_coordinator, other_leads);
              };
            }},
    Mistake{"an orphan goes on to send beats to its coordinator alone", Law::living_are_kept,
            [](Rules& rules) {
              rules.sends_beats = [](bool leads, bool, bool other_leads, Nanoseconds) { return leads || other_leads; };
            }},
    Mistake{"every host leaves that another host has lost", Law::accusers_stay,
            [](Rules& rules) {
              rules.hosts_to_leave = [](const std::vector<hosts::LossReport>& reports,
                                        const std::vector<std::string>&) {
                std::vector<hosts::LostHost> all;
                for (const hosts::LossReport& report : reports) all.push_back(report.lost);
                return all;
              };
            }},
    Mistake{"hosts outside of the plan have a say in which hosts are lost", Law::accusers_stay,
            [](Rules& rules) { rules.outsiders_have_say = true; }},
    Mistake{"no host leaves that another host has lost", Law::stages_advance,
            [](Rules& rules) {
              rules.hosts_to_leave = [](const std::vector<hosts::LossReport>&, const std::vector<std::string>&) {
                return std::vector<hosts::LostHost>();
              };
            }},
    Mistake{"nobody but the first in order tries to lead", Law::who_can_leads,
            [](Rules& rules) {
              rules.decide = [](Succession& state, const SuccessionEvent& event, MonotonicTime now) {
                std::vector<SuccessionAction> actions = hosts::decide(state, event, now);
                return state.claim.backs == state.orphan.name ? actions : without_lease(std::move(actions));
              };
            }},
};

}  // namespace

std::span<const Mistake> mistakes() { return kMistakes; }

}  // namespace estrain::hosts_in_virtual_time
