#include "core/engine/model/exported/program_blocks.h"

#include <fmt/format.h>

#include <algorithm>

namespace estrain::model {
namespace {

struct Cut {
  size_t begin;  // the first call behind the cut
  int activation;
};

// A ValueFlow follows a program's values from call to call. Call i counts as the moment i + 1.
class ValueFlow {
 public:
  explicit ValueFlow(const ProgramUses& program) : program_(program), values_(static_cast<size_t>(program.values)) {
    for (const auto& [value, name] : program.parameters) at(value).of_state = true;
    for (const int value : program.written_buffers) at(value).of_state = true;
    for (const int value : program.inputs) at(value).of_batch = true;
    for (size_t i = 0; i < program.calls.size(); ++i) follow(program.calls[i], i + 1);
    for (const int value : program.outputs) at(value).last_read = program.calls.size() + 1;
  }

  std::vector<Cut> cuts() const {
    std::vector<Cut> cuts;
    std::set<int> live;  // activations
    const auto take = [&](const std::vector<int>& given, size_t moment) {
      for (const int value : given)
        if (at(value).of_state && at(value).last_read > moment) live.insert(value);
    };
    take(program_.inputs, 0);  // a call may write to the mini-batch
    for (size_t moment = 1; moment < program_.calls.size(); ++moment) {
      take(program_.calls[moment - 1].gives, moment);
      for (const int value : program_.calls[moment - 1].changes)
        if (program_.written_buffers.contains(value)) live.insert(value);  // until the buffer's last read
      std::erase_if(live, [&](int value) { return at(value).last_read <= moment; });
      if (live.size() == 1 && may_cross(*live.begin(), moment)) cuts.push_back({moment, *live.begin()});
    }
    return cuts;
  }

 private:
  struct Facts {
    bool of_state = false;                  // depends on a parameter, a written buffer or a random draw
    bool of_batch = false;                  // depends on the mini-batch
    bool is_number = false;                 // no tensor
    size_t last_read = 0, last_change = 0;  // moments; 0: never
  };

  bool may_cross(int value, size_t moment) const {
    const Facts& facts = at(value);
    const bool is_buffer = program_.written_buffers.contains(value);
    return facts.of_batch && !facts.is_number && !is_buffer && facts.last_change <= moment;
  }

  Facts& at(int value) { return values_[static_cast<size_t>(value)]; }
  const Facts& at(int value) const { return values_[static_cast<size_t>(value)]; }

  void follow(const UsedCall& call, size_t moment) {
    Facts given{.of_state = call.draws, .is_number = call.gives_numbers};
    for (const int value : call.reads) {
      at(value).last_read = moment;
      if (call.measures) continue;
      given.of_state |= at(value).of_state;
      given.of_batch |= at(value).of_batch;
    }
    for (const int value : call.changes) {
      at(value).last_change = moment;
      at(value).of_state |= given.of_state;
      at(value).of_batch |= given.of_batch;
    }
    for (const int value : call.gives) at(value) = given;
  }

  const ProgramUses& program_;
  std::vector<Facts> values_;
};

// "layer1.0" of "layer1.0.weight"; of a name without a dot the name itself.
std::string owner_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

// Returns the modules of the calls with parameters, each once, in order.
std::vector<std::string> owners_in(const ProgramUses& program, size_t begin, size_t end) {
  std::vector<std::string> owners;
  for (size_t i = begin; i < end; ++i) {
    for (const int value : program.calls[i].reads) {
      const auto parameter = program.parameters.find(value);
      if (parameter == program.parameters.end()) continue;
      const std::string& module = program.calls[i].module;
      const std::string owner = module.empty() ? owner_of(parameter->second) : module;
      if (std::ranges::find(owners, owner) == owners.end()) owners.push_back(owner);
    }
  }
  return owners;
}

// Returns the innermost module that is or holds both modules; empty: only the outermost does.
std::string shared_module(std::string a, const std::string& b) {
  while (!a.empty() && a != b && !b.starts_with(a + ".")) a = a.find('.') == a.npos ? "" : owner_of(a);
  return a;
}

std::string name_of(const std::vector<std::string>& owners) {
  if (owners.empty()) return "without parameters";
  std::string shared = owners.front();
  for (const std::string& owner : owners) shared = shared_module(shared, owner);
  if (!shared.empty()) return shared;
  return owners.front() + (owners.size() > 2 ? "+…+" : "+") + owners.back();
}

void name_blocks(const ProgramUses& program, std::vector<ProgramBlock>& blocks) {
  std::map<std::string, int> uses;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t end = i + 1 < blocks.size() ? blocks[i + 1].begin : program.calls.size();
    blocks[i].name = name_of(owners_in(program, blocks[i].begin, end));
    const int use = ++uses[blocks[i].name];
    if (use > 1) blocks[i].name += fmt::format(" ({})", use);
  }
}

}  // namespace

std::vector<ProgramBlock> blocks_of(const ProgramUses& program) {
  const std::vector<Cut> cuts = ValueFlow(program).cuts();
  const auto end_of = [&](size_t cut) { return cut < cuts.size() ? cuts[cut].begin : program.calls.size(); };
  std::vector<ProgramBlock> blocks(1);
  bool has_parameters = !owners_in(program, 0, end_of(0)).empty();
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (owners_in(program, cuts[i].begin, end_of(i + 1)).empty()) continue;
    if (has_parameters) blocks.push_back({"", cuts[i].begin, cuts[i].activation});
    has_parameters = true;
  }
  name_blocks(program, blocks);
  return blocks;
}

}  // namespace estrain::model
