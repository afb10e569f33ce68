#include "core/state/comm/memory/commit_word.h"

#include <algorithm>

namespace estrain::comm {

void CommitWord::begin_at(Step step, double lr) {
  words_.lr[step.value & 1].store(lr);
  words_.committed.store(step.value);
  words_.trained.store(step.value);
}

void CommitWord::note_whole(Step step, double lr) {
  words_.lr[step.value & 1].store(lr);
  words_.whole.store(step.value);
}

void CommitWord::commit(Step step) {
  words_.committed.store(step.value);
  words_.trained.store(step.value);
}

void CommitWord::commit_saved(Step step, double lr) {
  words_.lr[step.value & 1].store(lr);
  words_.committed.store(step.value);
}

int64_t CommitWord::repair(std::optional<Step> newest) {
  const Step whole(words_.whole.exchange(0));
  if (newest == whole && whole == committed().next()) words_.committed.store(whole.value);
  const int64_t committed = words_.committed.load();
  return std::max<int64_t>(0, words_.trained.exchange(committed) - committed);
}

}  // namespace estrain::comm
