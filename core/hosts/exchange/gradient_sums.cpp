#include "core/hosts/exchange/gradient_sums.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/comm/sums/partial_sum.h"
#include "core/hosts/exchange/wire.h"

namespace estrain::hosts {
namespace {

constexpr size_t kChunk = 4096;  // floats: what is summed stays in a cache

template <typename T>
std::span<const std::byte> bytes_at(const T* first, size_t count) {
  return {reinterpret_cast<const std::byte*>(first), count * sizeof(T)};
}

// Visits the parameters of the piece, with those of their floats that are in it.
template <typename Visit>
void for_parameters_of(const Piece& piece, const std::vector<FloatRange>& parameters, Visit&& visit) {
  for (size_t i = piece.first_parameter; i < piece.last_parameter; ++i)
    visit(i, std::max(parameters[i].begin, piece.floats.begin), std::min(parameters[i].end, piece.floats.end));
}

// Runs the program of a plan over pieces that lie at `values`, `n` floats each; a sum is written over its left operand.
// Returns where the bottom of the stack lies then.
float* run(const comm::FinishPlan& plan, float* const* values, const bool* present, size_t n) {
  struct Item {
    float* values;
    bool present;
  };
  std::array<Item, comm::kDeepestStack> stack;
  size_t height = 0;
  for (const int instruction : plan.program) {
    if (instruction >= 0) {
      stack[height++] = {values[instruction], present[instruction]};
      continue;
    }
    --height;
    Item& left = stack[height - 1];
    const Item& right = stack[height];
    left.present = comm::add_partials({left.values, left.present}, {right.values, right.present}, left.values, n);
  }
  return stack[0].values;
}

// The stack that the program leaves, as the sources that each entry sums. An entry lies where its first source does.
std::vector<std::vector<size_t>> sums_left_by(const comm::FinishPlan& plan) {
  std::vector<std::vector<size_t>> stack;
  for (const int instruction : plan.program) {
    if (instruction >= 0) {
      stack.push_back({static_cast<size_t>(instruction)});
      continue;
    }
    const std::vector<size_t> right = std::move(stack.back());
    stack.pop_back();
    stack.back().insert(stack.back().end(), right.begin(), right.end());
  }
  return stack;
}

std::vector<EstRange> ranges_of_hosts(const HostPlan& plan) {
  std::vector<EstRange> ranges;
  for (const HostShare& host : plan.hosts) ranges.push_back(host.ests());
  return ranges;
}

// Bytes of one partial sum of the owner's pieces before this one, and of this one too.
uint64_t bytes_before(const Piece& piece) { return piece.parameters_before + piece.floats_before * sizeof(float); }
uint64_t bytes_through(const Piece& piece) {
  return bytes_before(piece) + piece.parameters() + piece.floats.size() * sizeof(float);
}

}  // namespace

GradientSums::GradientSums(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, Outbox& outbox,
                           size_t most)
    : memory_(memory),
      plan_(plan),
      parts_(parts),
      outbox_(outbox),
      pieces_(cut_pieces(parts.parameters(), plan.hosts.size(), most)),
      peers_(plan.hosts.size()) {
  for (const Piece& piece : pieces_) {
    peers_[piece.owner].pieces.push_back(&piece);
    if (is_own(piece.owner)) own_floats_ += piece.floats.size();
  }
  for_others([&](size_t host, Peer&) { lay_out_peer(host); });
  plan_fold();
  finish_ = comm::plan_finish(comm::SumOrder::tree, plan_.ests(), ranges_of_hosts(plan_));
}

template <typename Visit>
void GradientSums::for_others(Visit&& visit) {
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (!is_own(host)) visit(host, peers_[host]);
  }
}

void GradientSums::lay_out_peer(size_t host) {
  Peer& peer = peers_[host];
  const std::vector<const Piece*>& own = peers_[plan_.own].pieces;
  peer.rows =
      static_cast<size_t>(comm::plan_fold(comm::SumOrder::tree, plan_.ests(), plan_.hosts[host].ests()).passed_on);
  peer.partial_floats.resize(peer.rows * own_floats_);
  if (!own.empty()) peer.presence.resize(peer.rows * (own.back()->parameters_before + own.back()->parameters()));
  Places partial, sum;
  for (const Piece* piece : own) {
    partial.push_back(
        std::span(peer.presence).subspan(peer.rows * piece->parameters_before, peer.rows * piece->parameters()));
    for (size_t row = 0; row < peer.rows; ++row)
      partial.push_back(std::as_writable_bytes(
          std::span(peer.partial_floats).subspan(row * own_floats_ + piece->floats_before, piece->floats.size())));
  }
  peer.partial = Inflow(std::move(partial));
  for (const Piece* piece : peer.pieces) {
    peer.sum_presence.resize(std::max(peer.sum_presence.size(), piece->parameters()));
    peer.sum_floats.resize(std::max(peer.sum_floats.size(), piece->floats.size()));
  }
  for (const Piece* piece : peer.pieces) {
    sum.push_back(std::span(peer.sum_presence).first(piece->parameters()));
    sum.push_back(std::as_writable_bytes(std::span(peer.sum_floats).first(piece->floats.size())));
  }
  peer.sum = Inflow(std::move(sum));
}

// The slots are numbered as the workers number them: core/train/shared/gradient_store.h.
void GradientSums::plan_fold() {
  const std::vector<EstRange>& workers = plan_.here().workers;
  const size_t parameters = parts_.parameters().size();
  fold_ = comm::plan_finish(comm::SumOrder::tree, plan_.ests(), workers);
  std::vector<int64_t> first_slot;
  int64_t slots = 0;
  for (const EstRange& range : workers) {
    first_slot.push_back(slots);
    slots += comm::plan_fold(comm::SumOrder::tree, plan_.ests(), range).buffers;
  }
  for (const comm::FinishPlan::Source& source : fold_.sources)
    fold_slots_.push_back(first_slot[static_cast<size_t>(source.worker.value)] + source.slot);
  for (std::vector<size_t>& sources : sums_left_by(fold_)) {
    const int64_t slot = fold_slots_[sources.front()];
    passed_on_.push_back({slot, std::move(sources), std::vector<uint8_t>(parameters)});
  }
  present_.assign(fold_slots_.size(), std::vector<uint8_t>(parameters));
}

void GradientSums::begin(int64_t step) {
  step_ = step;
  ready_ = folded_ = summed_ = 0;
  for (Peer& peer : peers_) peer.summed = 0;
  is_open_ = true;
}

bool GradientSums::is_all_folded() const {
  return memory_.sums().folded_by_all(plan_.here().workers.size()) == parts_.parameters().size();
}

bool GradientSums::is_ready(const Piece& piece) const {
  return ready_ + piece.first_parameter >= parts_.parameters().size();
}

// Flags as the workers left them are kept: where they stand, those of the sum will.
void GradientSums::note_presence() {
  const size_t parameters = parts_.parameters().size(), end = parameters - ready_;
  ready_ = std::min<size_t>(memory_.sums().folded_by_all(plan_.here().workers.size()), parameters);
  const size_t begin = parameters - ready_;
  for (size_t source = 0; source < fold_slots_.size(); ++source) {
    const uint8_t* flags = memory_.gradient_slot(fold_slots_[source]).presence;
    for (size_t i = begin; i < end; ++i) present_[source][i] = flags[i] != 0 ? 1 : 0;
  }
  for (PassedOn& sum : passed_on_) {
    for (size_t i = begin; i < end; ++i)
      sum.present[i] =
          std::ranges::any_of(sum.sources, [&](size_t source) { return present_[source][i] != 0; }) ? 1 : 0;
  }
}

bool GradientSums::fold_piece() {
  if (!is_open_ || folded_ == pieces_.size()) return false;
  note_presence();
  const Piece& piece = pieces_[folded_];
  if (!is_ready(piece)) return false;
  fold(piece);
  ++folded_;
  if (!is_own(piece.owner)) send_partial(piece);
  return folded_ < pieces_.size() && is_ready(pieces_[folded_]);
}

// Sums the parts that the host's workers pass on, as far as the tree allows; each sum replaces its first part.
void GradientSums::fold(const Piece& piece) {
  const size_t sources = fold_slots_.size();
  if (sources == 1) return;
  std::vector<float*> values(sources);
  std::vector<uint8_t> flags(sources);
  for_parameters_of(piece, parts_.parameters(), [&](size_t parameter, size_t begin, size_t end) {
    for (size_t source = 0; source < sources; ++source) flags[source] = present_[source][parameter];
    const auto* present = reinterpret_cast<const bool*>(flags.data());
    for (size_t at = begin; at < end; at += kChunk) {
      for (size_t source = 0; source < sources; ++source)
        values[source] = memory_.gradient_slot(fold_slots_[source]).values + at;
      run(fold_, values.data(), present, std::min(kChunk, end - at));
    }
  });
}

void GradientSums::send_partial(const Piece& piece) {
  uint64_t offset = passed_on_.size() * bytes_before(piece);
  const auto head_of = [&](std::span<const std::byte> bytes) {
    const net::FrameHead head = {Kind::partial, static_cast<uint32_t>(bytes.size()), round_number(plan_.stage, step_),
                                 offset};
    offset += bytes.size();
    return head;
  };
  std::vector<uint8_t> flags;
  for (const PassedOn& sum : passed_on_) {
    const auto first = sum.present.begin() + static_cast<ptrdiff_t>(piece.first_parameter);
    flags.insert(flags.end(), first, first + static_cast<ptrdiff_t>(piece.parameters()));
  }
  outbox_.send_copy(piece.owner, head_of(std::as_bytes(std::span(flags))), std::as_bytes(std::span(flags)));
  for (const PassedOn& sum : passed_on_) {
    const auto bytes = bytes_at(memory_.gradient_slot(sum.slot).values + piece.floats.begin, piece.floats.size());
    outbox_.send(piece.owner, head_of(bytes), bytes);
  }
}

bool GradientSums::has_partial(const Peer& peer, const Piece& piece) const {
  return peer.partial.bytes() >= peer.rows * bytes_through(piece);
}

void GradientSums::finish_pieces() {
  if (!is_open_) return;
  Peer& own = peers_[plan_.own];
  for (; own.summed < own.pieces.size(); ++own.summed) {
    const Piece& piece = *own.pieces[own.summed];
    bool is_here = is_folded(piece);
    for_others([&](size_t, const Peer& peer) { is_here &= has_partial(peer, piece); });
    if (!is_here) break;
    finish(piece);
    send_sum(piece);
  }
  note_sums();
}

std::vector<GradientSums::Source> GradientSums::sources_of(const Piece& piece) {
  std::vector<Source> sources;
  for (const comm::FinishPlan::Source& source : finish_.sources) {
    const auto host = static_cast<size_t>(source.worker.value), row = static_cast<size_t>(source.slot);
    if (is_own(host)) {
      const PassedOn& sum = passed_on_[row];
      sources.push_back(
          {memory_.gradient_slot(sum.slot).values + piece.floats.begin, sum.present.data() + piece.first_parameter});
    } else {
      Peer& peer = peers_[host];
      const std::byte* flags = peer.presence.data() + peer.rows * piece.parameters_before + row * piece.parameters();
      sources.push_back({peer.partial_floats.data() + row * own_floats_ + piece.floats_before,
                         reinterpret_cast<const uint8_t*>(flags)});
    }
  }
  return sources;
}

// The sum of an own piece, where this host's part of the first slot lies.
void GradientSums::finish(const Piece& piece) {
  float* target = memory_.gradient_slot(0).values;
  const std::vector<Source> sources = sources_of(piece);
  std::vector<float*> values(sources.size());
  std::vector<uint8_t> flags(sources.size());
  for_parameters_of(piece, parts_.parameters(), [&](size_t parameter, size_t begin, size_t end) {
    for (size_t source = 0; source < sources.size(); ++source)
      flags[source] = sources[source].presence[parameter - piece.first_parameter] != 0 ? 1 : 0;
    const auto* present = reinterpret_cast<const bool*>(flags.data());
    for (size_t at = begin; at < end; at += kChunk) {
      const size_t n = std::min(kChunk, end - at), offset = at - piece.floats.begin;
      for (size_t source = 0; source < sources.size(); ++source) values[source] = sources[source].floats + offset;
      const float* sum = run(finish_, values.data(), present, n);
      if (sum != target + at) std::memcpy(target + at, sum, n * sizeof(float));
    }
  });
  note_flags(piece, sources);
}

void GradientSums::note_flags(const Piece& piece, const std::vector<Source>& sources) {
  uint8_t* presence = memory_.gradient_slot(0).presence + piece.first_parameter;
  for (size_t i = 0; i < piece.parameters(); ++i)
    presence[i] = std::ranges::any_of(sources, [&](const Source& source) { return source.presence[i] != 0; }) ? 1 : 0;
}

void GradientSums::send_sum(const Piece& piece) {
  const comm::GradientSlot slot = memory_.gradient_slot(0);
  const auto flags = bytes_at(slot.presence + piece.first_parameter, piece.parameters());
  const auto bytes = bytes_at(slot.values + piece.floats.begin, piece.floats.size());
  const uint64_t number = round_number(plan_.stage, step_), offset = bytes_before(piece);
  for_others([&](size_t host, const Peer&) {
    outbox_.send_copy(host, {Kind::sum, static_cast<uint32_t>(flags.size()), number, offset}, flags);
    outbox_.send(host, {Kind::sum, static_cast<uint32_t>(bytes.size()), number, offset + flags.size()}, bytes);
  });
}

// Nobody can have summed what this host has not sent.
Inflow& GradientSums::sum(size_t host) {
  Peer& peer = peers_.at(host);
  if (peer.summed < peer.pieces.size() && !is_folded(*peer.pieces[peer.summed]))
    throw Error(Fault::corrupt, "a sum out of turn");
  return peer.sum;
}

void GradientSums::received_sum(size_t host) {
  Peer& peer = peers_[host];
  const Piece& piece = *peer.pieces[peer.summed];
  if (peer.sum.bytes() < bytes_through(piece)) return;
  const comm::GradientSlot slot = memory_.gradient_slot(0);
  std::memcpy(slot.values + piece.floats.begin, peer.sum_floats.data(), piece.floats.size() * sizeof(float));
  std::memcpy(slot.presence + piece.first_parameter, peer.sum_presence.data(), piece.parameters());
  ++peer.summed;
  note_sums();
}

void GradientSums::note_sums() {
  const size_t before = summed_;
  while (summed_ < pieces_.size() && peers_[pieces_[summed_].owner].summed > pieces_[summed_].number) ++summed_;
  if (summed_ > before) memory_.sums().note_summed(pieces_[summed_ - 1].floats.begin);
}

void GradientSums::end() {
  is_open_ = false;
  folded_ = 0;
  for_others([](size_t, Peer& peer) {
    peer.summed = 0;
    peer.partial.begin_anew();
    peer.sum.begin_anew();
  });
}

}  // namespace estrain::hosts
