#include "core/hosts/exchange/gradient_sums.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/comm/sums/partial_sum.h"
#include "core/hosts/exchange/wire.h"

namespace estrain::hosts {
namespace {

constexpr size_t kChunk = 4096;  // floats: what is summed stays in a cache

template <typename T>
std::span<const std::byte> bytes_at(const T* first, size_t count) {
  return {reinterpret_cast<const std::byte*>(first), count * sizeof(T)};
}

template <typename T>
std::span<std::byte> places_at(T* first, size_t count) {
  return {reinterpret_cast<std::byte*>(first), count * sizeof(T)};
}

// Visits the parameters that have floats in the range, with those floats.
template <typename Visit>
void for_parameters_in(const std::vector<FloatRange>& parameters, const FloatRange& floats, Visit&& visit) {
  auto at = std::ranges::upper_bound(parameters, floats.begin, {}, &FloatRange::end);
  for (; at != parameters.end() && at->begin < floats.end; ++at)
    visit(static_cast<size_t>(at - parameters.begin()), std::max(at->begin, floats.begin),
          std::min(at->end, floats.end));
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

std::vector<FloatRange> pieces_of(const FloatRange& share, size_t piece) {
  std::vector<FloatRange> pieces;
  for (size_t at = share.begin; at < share.end; at += piece) pieces.push_back({at, std::min(at + piece, share.end)});
  return pieces;
}

}  // namespace

GradientSums::GradientSums(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, Outbox& outbox,
                           size_t piece)
    : memory_(memory),
      plan_(plan),
      parts_(parts),
      outbox_(outbox),
      own_share_(parts_.share(plan_.own)),
      peers_(plan_.hosts.size()) {
  cut_pieces(piece);
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (!is_own(host)) lay_out_peer(host);
  }
  plan_fold();
  plan_finish();
}

// The owners in turn, the next host first, so that no host is sent everything at the same time.
void GradientSums::cut_pieces(size_t piece) {
  own_pieces_ = pieces_of(own_share_, piece);
  std::vector<std::vector<FloatRange>> shares;
  size_t most = 0;
  for (size_t host = 0; host < peers_.size(); ++host) {
    shares.push_back(pieces_of(parts_.share(host), piece));
    most = std::max(most, shares.back().size());
  }
  for (size_t at = 0; at < most; ++at) {
    for (size_t i = 1; i <= peers_.size(); ++i) {
      const size_t owner = (plan_.own + i) % peers_.size();
      if (at < shares[owner].size()) pieces_.push_back({owner, shares[owner][at]});
    }
  }
}

void GradientSums::lay_out_peer(size_t host) {
  Peer& peer = peers_[host];
  peer.rows =
      static_cast<size_t>(comm::plan_fold(comm::SumOrder::tree, plan_.ests(), plan_.hosts[host].ests()).passed_on);
  peer.presence.resize(peer.rows * parts_.parameters().size());
  peer.partial_floats.resize(peer.rows * own_share_.size());
  Places places = {std::span(peer.presence)};
  for (const FloatRange& piece : own_pieces_) {
    for (size_t row = 0; row < peer.rows; ++row)
      places.push_back(places_at(
          peer.partial_floats.data() + row * own_share_.size() + (piece.begin - own_share_.begin), piece.size()));
  }
  peer.partial = Inflow(std::move(places));
  peer.sum_floats.resize(parts_.share(host).size());
  peer.sum = Inflow({places_at(peer.sum_floats.data(), peer.sum_floats.size())});
}

// The slots are numbered as the workers number them: core/train/shared/gradient_store.h.
void GradientSums::plan_fold() {
  const std::vector<EstRange>& workers = plan_.here().workers;
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
    passed_on_.push_back({slot, std::move(sources)});
  }
  present_.assign(fold_slots_.size(), std::vector<uint8_t>(parts_.parameters().size()));
}

void GradientSums::plan_finish() {
  finish_ = comm::plan_finish(comm::SumOrder::tree, plan_.ests(), ranges_of_hosts(plan_));
  const size_t parameters = parts_.parameters().size();
  for (const comm::FinishPlan::Source& source : finish_.sources) {
    const auto host = static_cast<size_t>(source.worker.value), row = static_cast<size_t>(source.slot);
    if (is_own(host)) {
      const comm::GradientSlot slot = memory_.gradient_slot(passed_on_[row].slot);
      sources_.push_back({slot.values + own_share_.begin, slot.presence});
    } else {
      Peer& peer = peers_[host];
      sources_.push_back({peer.partial_floats.data() + row * own_share_.size(),
                          reinterpret_cast<const uint8_t*>(peer.presence.data()) + row * parameters});
    }
  }
}

void GradientSums::begin(int64_t step) {
  step_ = step;
  has_begun_ = true;
  folded_ = own_folded_ = finished_ = 0;
  note_presence();
  send_presence();
}

// Flags as the workers left them are kept for the fold; in their places stand those of what is passed on.
void GradientSums::note_presence() {
  const size_t parameters = parts_.parameters().size();
  for (size_t source = 0; source < fold_slots_.size(); ++source) {
    const uint8_t* flags = memory_.gradient_slot(fold_slots_[source]).presence;
    for (size_t i = 0; i < parameters; ++i) present_[source][i] = flags[i] != 0 ? 1 : 0;
  }
  for (const PassedOn& sum : passed_on_) {
    uint8_t* flags = memory_.gradient_slot(sum.slot).presence;
    for (size_t i = 0; i < parameters; ++i)
      flags[i] = std::ranges::any_of(sum.sources, [&](size_t source) { return present_[source][i] != 0; }) ? 1 : 0;
  }
}

void GradientSums::send_presence() {
  const size_t parameters = parts_.parameters().size();
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (is_own(host)) continue;
    std::vector<std::span<const std::byte>> rows;
    for (const PassedOn& sum : passed_on_)
      rows.push_back(bytes_at(memory_.gradient_slot(sum.slot).presence, parameters));
    cut_into_frames(
        Kind::partial, round_number(plan_.stage, step_), rows,
        [&](const net::FrameHead& head, std::span<const std::byte> bytes) { outbox_.send(host, head, bytes); });
    peers_[host].sent_partial = passed_on_.size() * parameters;
  }
}

bool GradientSums::fold_piece() {
  if (!has_begun_ || folded_ == pieces_.size()) return false;
  const Piece& piece = pieces_[folded_++];
  fold(piece.floats);
  if (is_own(piece.owner)) {
    ++own_folded_;
  } else {
    send_partial(piece);
  }
  return folded_ < pieces_.size();
}

// Sums the parts that the host's workers pass on, as far as the tree allows; each sum replaces its first part.
void GradientSums::fold(const FloatRange& floats) {
  const size_t sources = fold_slots_.size();
  if (sources == 1) return;
  std::vector<float*> values(sources);
  std::vector<uint8_t> flags(sources);
  for_parameters_in(parts_.parameters(), floats, [&](size_t parameter, size_t begin, size_t end) {
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
  Peer& peer = peers_[piece.owner];
  for (const PassedOn& sum : passed_on_) {
    const auto bytes = bytes_at(memory_.gradient_slot(sum.slot).values + piece.floats.begin, piece.floats.size());
    outbox_.send(
        piece.owner,
        {Kind::partial, static_cast<uint32_t>(bytes.size()), round_number(plan_.stage, step_), peer.sent_partial},
        bytes);
    peer.sent_partial += bytes.size();
  }
}

// True: the part of this host's share up to its float `end` has arrived.
bool GradientSums::Peer::has_piece(size_t end, size_t parameters) const {
  return partial.bytes() >= rows * (parameters + end * sizeof(float));
}

void GradientSums::finish_pieces() {
  if (!has_begun_) return;
  for (; finished_ < own_folded_; ++finished_) {
    const FloatRange& piece = own_pieces_[finished_];
    for (size_t host = 0; host < peers_.size(); ++host) {
      const bool is_here =
          is_own(host) || peers_[host].has_piece(piece.end - own_share_.begin, parts_.parameters().size());
      if (!is_here) return;
    }
    finish(piece);
    send_sum(piece);
  }
}

// The sum of a piece of this host's share, where its own part of the first slot lies.
void GradientSums::finish(const FloatRange& floats) {
  float* target = memory_.gradient_slot(0).values;
  std::vector<float*> values(sources_.size());
  std::vector<uint8_t> flags(sources_.size());
  for_parameters_in(parts_.parameters(), floats, [&](size_t parameter, size_t begin, size_t end) {
    for (size_t source = 0; source < sources_.size(); ++source)
      flags[source] = sources_[source].presence[parameter] != 0 ? 1 : 0;
    const auto* present = reinterpret_cast<const bool*>(flags.data());
    for (size_t at = begin; at < end; at += kChunk) {
      const size_t n = std::min(kChunk, end - at), offset = at - own_share_.begin;
      for (size_t source = 0; source < sources_.size(); ++source) values[source] = sources_[source].floats + offset;
      const float* sum = run(finish_, values.data(), present, n);
      if (sum != target + at) std::memcpy(target + at, sum, n * sizeof(float));
    }
  });
}

void GradientSums::send_sum(const FloatRange& floats) {
  const auto bytes = bytes_at(memory_.gradient_slot(0).values + floats.begin, floats.size());
  const net::FrameHead head = {Kind::sum, static_cast<uint32_t>(bytes.size()), round_number(plan_.stage, step_),
                               (floats.begin - own_share_.begin) * sizeof(float)};
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (!is_own(host)) outbox_.send(host, head, bytes);
  }
}

bool GradientSums::complete() const {
  if (!has_begun_ || finished_ < own_pieces_.size() || folded_ < pieces_.size()) return false;
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (!is_own(host) && !(peers_[host].partial.complete() && peers_[host].sum.complete())) return false;
  }
  return true;
}

void GradientSums::take() {
  uint8_t* presence = memory_.gradient_slot(0).presence;
  for (size_t i = 0; i < parts_.parameters().size(); ++i)
    presence[i] = std::ranges::any_of(sources_, [&](const Source& source) { return source.presence[i] != 0; }) ? 1 : 0;
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (is_own(host)) continue;
    Peer& peer = peers_[host];
    std::ranges::copy(peer.sum_floats, memory_.gradient_slot(0).values + parts_.share(host).begin);
    peer.partial.begin_anew();
    peer.sum.begin_anew();
  }
  has_begun_ = false;
}

}  // namespace estrain::hosts
