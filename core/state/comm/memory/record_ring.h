#pragma once
// The ring of step records. Workers add to the pending record, one of them publishes it, the scribe drains.
//
//   published   how many records were made visible (modulo 2^32); the pending one has this number
//   drained     how many the scribe has written to its files
//
// 1. drained <= published < drained + capacity: the pending record overwrites none that is still to be drained.
// 2. The pending record reads as zero when the one before it is published.
// 3. One writer publishes at a time, one reader drains.
// `published` is stored behind the record, `drained` behind the files; both sequentially consistent. If a scribe
// dies between the two, the next one drains a record again, and leaves it out, since the files have it.

#include <optional>

#include "core/state/comm/memory/memory_header.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::comm {

class RecordRing {
 public:
  explicit RecordRing(MemoryHeader& words) : words_(words) {}

  uint32_t published() const { return words_.published.load(); }
  uint32_t drained() const { return words_.drained.load(); }
  uint32_t waiting() const { return published() - drained(); }
  uint64_t capacity() const { return words_.ring_records; }
  int64_t digests() const { return words_.digests; }  // of one record

  RecordView at(uint32_t sequence);
  // The record that workers are adding to.
  RecordView pending() { return at(published()); }
  // The newest published record; none: nothing was published.
  std::optional<RecordView> newest();

  // The record of a step, if it is among the newest half of the ring: workers overwrite it only after as many more
  // records.
  std::optional<RecordView> find(Step step);

  // Makes the pending record visible to the scribe and clears the next one. Sleeps while the ring is full. False on
  // abort.
  bool publish();
  void clear_pending();

  // The scribe's: all before `sequence` are in its files.
  void drain_to(uint32_t sequence);

 private:
  std::byte* start_of(uint32_t sequence);

  MemoryHeader& words_;
};

}  // namespace estrain::comm
