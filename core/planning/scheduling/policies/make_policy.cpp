#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "core/base/error.h"
#include "core/job/spec/keys/closest.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

// KEY=VALUE:… after a policy's name. Each known key is removed; the remaining keys are unknown.
class Given {
 public:
  Given(std::string policy, std::string_view rest, EasyscaleRules rules) : policy_(std::move(policy)), rules_(rules) {
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      const std::string_view pair = rest.substr(0, end);
      const size_t equals = pair.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        throw Error::make(Fault::usage, "policy {}: \"{}\" is not of the form KEY=VALUE", policy_, pair);
      }
      if (!values_.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second) {
        throw Error::make(Fault::usage, "policy {}: \"{}\" is given twice", policy_, pair.substr(0, equals));
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  EasyscaleRules rules() const { return rules_; }

  void number(const std::string& key, double& value, double least, double most) {
    known_.push_back(key);
    const auto at = values_.find(key);
    if (at == values_.end()) return;
    const std::string& text = at->second;
    double parsed = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (wrong != std::errc() || end != text.data() + text.size() || !(parsed >= least && parsed <= most)) {
      throw Error::make(Fault::usage, "policy {}: {}={} is not a number from {} to {}", policy_, key, text, least,
                        most);
    }
    value = parsed;
    values_.erase(at);
  }

  // Returns the index of the given word, or the default if no word is given.
  size_t word(const std::string& key, const std::vector<std::string>& words, size_t by_default = 0) {
    known_.push_back(key);
    const auto at = values_.find(key);
    if (at == values_.end()) return by_default;
    const auto word = std::ranges::find(words, at->second);
    if (word == words.end()) {
      throw Error::make(Fault::usage, "policy {}: {}={} is not one of {}", policy_, key, at->second,
                        spec::quoted_list(words));
    }
    values_.erase(at);
    return static_cast<size_t>(word - words.begin());
  }

  void refuse_unknown() const {
    if (values_.empty()) return;
    const std::string& key = values_.begin()->first;
    const std::optional<std::string> meant = spec::closest(key, known_);
    throw Error::make(Fault::usage, "policy {} has no option \"{}\"; {}", policy_, key,
                      known_.empty() ? "it has none"
                      : meant        ? "did you mean \"" + *meant + "\"?"
                                     : "known are " + spec::quoted_list(known_));
  }

 private:
  std::string policy_;
  EasyscaleRules rules_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
};

struct Maker {
  std::string name, source, options;
  std::function<void(Given&, uint64_t seed, PolicyChoice&)> make;
  const char* only_simulated = nullptr;  // why only a simulation can carry the policy out
};

EstrainOptions free_batch_options(Knowledge knowledge) {
  EstrainOptions options{
      .exponent = 0.85, .alone = 0.65, .makespan = 80, .patience = 4, .horizon = 2000, .aging = 0.3, .exact = true};
  if (knowledge == Knowledge::learnt_batch) {
    options.exponent = 0.9;
    options.makespan = 10;
    options.patience = 2;  // a job that is held back gives no measurements
    options.aging = 0;
  }
  if (knowledge == Knowledge::shared_batch) {
    options.exponent = 0.8;
    options.patience = 6;
  }
  return options;
}

void choose_estrain(Given& given, uint64_t, PolicyChoice& choice) {
  EstrainOptions options;
  if (given.word("deadlines", {"ignored", "first"}) == 1) {
    choice.policy = make_elasticflow({.reconsiders = true});
    return;
  }
  constexpr std::array kGoodputs = {Knowledge::free_batch, Knowledge::learnt_batch, Knowledge::shared_batch};
  const bool is_free = given.word("batch", {"given", "free"}) == 1;
  const Knowledge goodput = kGoodputs[given.word("goodput", {"known", "learnt", "shared"})];
  if (!is_free && goodput != Knowledge::free_batch) {
    throw Error(Fault::usage, "policy estrain: goodput=learnt and goodput=shared need batch=free");
  }
  if (is_free) {
    options = free_batch_options(goodput);
    choice.knowledge = goodput;
    choice.batches = BatchRule::by_goodput;
  }
  given.number("exponent", options.exponent, 0.01, 4);
  given.number("alone", options.alone, 0, 4);
  given.number("makespan", options.makespan, 0, 1e6);
  given.number("patience", options.patience, 0, 1000);
  given.number("horizon", options.horizon, 1, 1e12);
  given.number("aging", options.aging, 0, 4);
  options.exact = given.word("shares", {"greedy", "exact"}, options.exact ? 1 : 0) == 1;
  choice.policy = make_estrain(options);
}

void choose_easyscale(Given& given, bool mixes, PolicyChoice& choice) {
  EasyscaleOptions options;
  options.mixes = mixes;
  given.number("growth", options.growth, 1, 1e9);
  options.as_simulated =
      given.word("rule", {"paper", "simulator"}, given.rules() == EasyscaleRules::paper ? 0 : 1) == 1;
  choice.holds_idle_devices = options.as_simulated && mixes;
  choice.policy = make_easyscale(options);
}

const std::vector<Maker>& makers() {
  static const std::vector<Maker> all = {
      {"fifo-serial", "one job at a time", "",
       [](Given&, uint64_t, PolicyChoice& choice) { choice.policy = make_fifo_serial(); }},
      {"fifo", "gangs, strictly in order of submission", "",
       [](Given&, uint64_t, PolicyChoice& choice) { choice.policy = make_fifo(false); }},
      {"fifo-backfill", "gangs; later jobs that fit may start", "",
       [](Given&, uint64_t, PolicyChoice& choice) { choice.policy = make_fifo(true); }},
      {"srtf", "gangs, shortest remaining service first, preemptive", "",
       [](Given&, uint64_t, PolicyChoice& choice) { choice.policy = make_srtf(); }},
      {"tiresias", "two queues by attained service (NSDI'19)", "limit=57600 (device-seconds)",
       [](Given& given, uint64_t, PolicyChoice& choice) {
         TiresiasOptions options;
         given.number("limit", options.limit, 0, 1e15);
         choice.policy = make_tiresias(options);
       }},
      {"optimus", "marginal gain in remaining time (EuroSys'18), speeds known", "",
       [](Given&, uint64_t, PolicyChoice& choice) { choice.policy = make_optimus(); }},
      {"pollux", "genetic search over learnt goodput, with free batches (OSDI'21)", "population=100, generations=100",
       [](Given& given, uint64_t seed, PolicyChoice& choice) {
         PolluxOptions options;
         given.number("population", options.population, 2, 10'000);
         given.number("generations", options.generations, 0, 10'000);
         choice.knowledge = Knowledge::learnt_batch;
         choice.batches = BatchRule::by_goodput;
         choice.policy = make_pollux(options, seed);
       }},
      {"philly", "gangs by locality, relaxed after some tries; quotas of virtual clusters (ATC'19)",
       "timeout=150, back_off=120, tries=3, busy=0.9",
       [](Given& given, uint64_t, PolicyChoice& choice) {
         PhillyOptions options;
         given.number("timeout", options.timeout, 0, 1e6);
         given.number("back_off", options.back_off, 0, 1e6);
         given.number("tries", options.tries, 0, 1e6);
         given.number("busy", options.busy, 0, 1);
         choice.policy = make_philly(options);
       }},
      {"easyscale-homo", "speed-up per device, one type per job (EasyScale, section 3.4)",
       "growth=2, rule=paper|simulator (default: simulator in the world easyscale, else paper)",
       [](Given& given, uint64_t, PolicyChoice& choice) { choose_easyscale(given, false, choice); }},
      {"easyscale-heter", "the same; jobs at D2 mix types",
       "growth=2, rule=paper|simulator (default: simulator in the world easyscale, else paper)",
       [](Given& given, uint64_t, PolicyChoice& choice) { choose_easyscale(given, true, choice); }},
      {"elasticflow", "smallest shares that meet deadlines, admission at arrival (ASPLOS'23)", "",
       [](Given&, uint64_t, PolicyChoice& choice) { choice.policy = make_elasticflow({}); }},
      {"deeppool", "burst-parallel foreground, background jobs in its gaps (MLSys'22)", "",
       [](Given&, uint64_t, PolicyChoice& choice) { choice.policy = make_deeppool(); },
       "gives each layer of a job devices of its own, which no real job can do (`estrain pool submit --background` "
       "puts jobs into the gaps under every other policy)"},
      {"ones", "evolution towards the smallest remaining utilisation, with free batches (SC'21)",
       "population=64, generations=4, rate=0.1, patience=20, age=5, belief=0|1 (a job's end is the expected one, or "
       "drawn; default: 0 where ends are learnt from other jobs, else 1)",
       [](Given& given, uint64_t seed, PolicyChoice& choice) {
         OnesOptions options;
         given.number("population", options.population, 2, 10'000);
         given.number("generations", options.generations, 1, 10'000);
         given.number("rate", options.rate, 0, 1);
         given.number("patience", options.patience, 0, 1000);
         given.number("age", options.age, 0, 1000);
         options.belief = static_cast<OnesOptions::Belief>(
             given.word("belief", {"0", "1"}, static_cast<size_t>(OnesOptions::Belief::by_outlook)));
         choice.knowledge = Knowledge::learnt_batch;
         choice.batches = BatchRule::linear;
         choice.policy = make_ones(options, seed);
       }},
      {"estrain", "ours: elastic, short jobs first, changes only where they pay",
       "batch=given|free, goodput=known|learnt|shared (shared: jobs know what all jobs of their application have "
       "measured), deadlines=ignored|first; exponent=0.78, alone=0, makespan=0, "
       "patience=11, horizon=1e12 (s), aging=0, shares=greedy|exact (with batch=free: 0.85, 0.65, 80, 4, 2000, "
       "0.3, exact; with goodput=learnt: 0.9, 0.65, 10, 2, 2000, 0, exact; with goodput=shared: 0.8, 0.65, 80, 6, "
       "2000, 0.3, exact)",
       choose_estrain},
  };
  return all;
}

// Finds the maker by the name at the beginning of the text.
const Maker& maker_for(std::string_view text) {
  const std::string name(text.substr(0, text.find(':')));
  const auto maker = std::ranges::find(makers(), name, &Maker::name);
  if (maker != makers().end()) return *maker;
  std::vector<std::string> names;
  for (const Maker& known : makers()) names.push_back(known.name);
  const std::optional<std::string> meant = spec::closest(name, names);
  throw Error::make(Fault::usage, "unknown policy \"{}\"; {}", name,
                    meant ? "did you mean \"" + *meant + "\"?" : "known are " + spec::quoted_list(names));
}

}  // namespace

PolicyChoice make_policy(std::string_view text, uint64_t seed, EasyscaleRules rules) {
  const Maker& maker = maker_for(text);
  Given given(maker.name, text.substr(std::min(maker.name.size() + 1, text.size())), rules);
  PolicyChoice choice;
  choice.text = text;
  maker.make(given, seed, choice);
  given.refuse_unknown();
  return choice;
}

PolicyChoice make_policy_for_real_jobs(std::string_view text, uint64_t seed) {
  PolicyChoice choice = make_policy(text, seed);
  const char* why = maker_for(text).only_simulated;
  if (choice.holds_idle_devices) why = "gives jobs more devices than they can use";
  if (why == nullptr) return choice;
  throw Error::make(Fault::usage, "policy \"{}\" {}: only for estrain simulate", text, why)
      .advise("policies for a pool: " + spec::quoted_list(policies_for_real_jobs()));
}

std::vector<std::string> policies_for_real_jobs() {
  std::vector<std::string> names;
  for (const Maker& maker : makers()) {
    if (maker.only_simulated == nullptr) names.push_back(maker.name);
  }
  return names;
}

std::string describe_policies(bool for_real_jobs) {
  std::string text;
  for (const Maker& maker : makers()) {
    if (for_real_jobs && maker.only_simulated != nullptr) continue;
    text += fmt::format("  {:<14} {}{}\n", maker.name, maker.source,
                        maker.options.empty() ? "" : "; options: " + maker.options);
  }
  return text;
}

}  // namespace estrain::scheduling
