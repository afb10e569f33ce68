#pragma once
// The shared memory of audits (core/state/audit/audit.h): digests to be compared, requests, and passed audits.
//
//   rows    digests of one mini-batch, each row written by one worker between two meetings
//   words   written by the last worker to arrive at a meeting, while all others wait; `request` by the launcher;
//           `damage` by any worker between two meetings
//
// All accesses of words are sequentially consistent. Meetings order the accesses of rows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class AuditBoard {
 public:
  static constexpr size_t kRows = 4;
  // The length of a row: the gradients of all parameters, all buffers, the loss, the random stream. At least as long as
  // the random streams of an EST.
  static int64_t words_of_row(int64_t parameters, int64_t buffers, size_t stream_bytes = 0) {
    return std::max(parameters + buffers + 2, static_cast<int64_t>((stream_bytes + 7) / 8));
  }

  AuditBoard(MemoryHeader& words, uint64_t* rows) : words_(words), rows_(rows) {}

  uint64_t* row(size_t number) const { return rows_ + number * words_.audit_words; }
  // Memory for the random streams of the audited EST, before its mini-batch.
  std::byte* streams() const { return reinterpret_cast<std::byte*>(row(kRows)); }
  std::vector<uint64_t> digests(size_t number) const { return {row(number), row(number + 1)}; }

  // The number of passed audits of this job's memory, and their newest step; Step(0): no audit passed.
  int64_t passed() const { return words_.audits.load(); }
  Step newest() const { return Step(words_.audited_step.load()); }
  void note_passed(Step step);

  // The launcher asks for an audit of the next step to begin. The committing worker takes the request up: all workers
  // then agree on the step.
  void ask() { words_.audit_request.store(1); }
  void take_request(Step next);
  bool is_asked_for(Step step) const { return words_.audit_step.load() == step.value; }

  // Notes the number of a digest on record that the committed state no longer has. The smallest number is kept.
  void note_damage(int64_t digest);
  int64_t damaged() const { return words_.audit_damage.load(); }  // -1: no damage

 private:
  friend class StageControl;
  void open() { words_.audit_damage.store(-1); }

  MemoryHeader& words_;
  uint64_t* rows_;
};

}  // namespace estrain::comm
