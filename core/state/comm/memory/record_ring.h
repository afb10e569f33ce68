#pragma once
// The ring of step records. Workers add to the pending record, the last worker publishes the record, the scribe drains.
//
//   published   the number of visible records (modulo 2^32); the pending record has this number
//   drained     the number of records that the scribe has written to its files
//
// 1. drained <= published < drained + capacity: the pending record overwrites no record still to be drained.
// 2. The pending record reads as zero when the record before is published.
// 3. At any time a single writer publishes, and a single reader drains.
// `published` is stored behind the record, `drained` behind the files; both sequentially consistent. If a scribe ends
// between the two stores, the next scribe drains a record again, and skips it, since the files have it.

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
  // Returns the record under construction by the workers.
  RecordView pending() { return at(published()); }
  // Returns the newest published record; nothing before the first.
  std::optional<RecordView> newest();

  // Returns the record of a step, if it is among the newest half of the ring: workers overwrite the record only after
  // as many more records.
  std::optional<RecordView> find(Step step);

  // Makes the pending record visible to the scribe and clears the next record. Sleeps while the ring is full. False on
  // abort.
  bool publish();
  void clear_pending();

  // For the scribe: all records before `sequence` are in the files.
  void drain_to(uint32_t sequence);

 private:
  std::byte* start_of(uint32_t sequence);

  MemoryHeader& words_;
};

}  // namespace estrain::comm
