#include "core/hosts/step/gradient_sums.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/hosts/exchange/wire.h"

namespace estrain::hosts {
namespace {

template <typename T>
std::span<const std::byte> bytes_at(const T* first, size_t count) {
  return {reinterpret_cast<const std::byte*>(first), count * sizeof(T)};
}

comm::FinishPlan finish_plan(const HostPlan& plan) {
  std::vector<EstRange> ranges;
  for (const HostShare& host : plan.hosts) ranges.push_back(host.ests());
  return comm::plan_finish(comm::SumOrder::tree, plan.ests(), ranges);
}

// The number of partial sums that a host passes on.
size_t rows_of(const HostPlan& plan, size_t host) {
  return static_cast<size_t>(comm::plan_fold(comm::SumOrder::tree, plan.ests(), plan.hosts[host].ests()).passed_on);
}

}  // namespace

GradientSums::GradientSums(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, StepOutbox& outbox,
                           size_t most, const std::vector<bool>& left_out)
    : memory_(memory),
      plan_(plan),
      parts_(parts),
      outbox_(outbox),
      pieces_(cut_pieces(parts.parameters(), plan.hosts.size(), most, left_out)),
      own_pieces_(pieces_of(plan.own)),
      finish_(finish_plan(plan)),
      own_(memory, plan, parts) {
  for (size_t host = 0; host < plan.hosts.size(); ++host) {
    if (host != plan.own) peers_.try_emplace(host, rows_of(plan, host), own_pieces_, pieces_of(host));
  }
}

std::vector<const Piece*> GradientSums::pieces_of(size_t host) const {
  std::vector<const Piece*> owned;
  for (const Piece& piece : pieces_) {
    if (piece.owner == host) owned.push_back(&piece);
  }
  return owned;
}

void GradientSums::begin(int64_t step) {
  step_ = step;
  folded_ = finished_ = summed_ = 0;
  own_.begin();
  is_open_ = true;
  if (pieces_.empty()) memory_.sums().note_summed(0);
}

bool GradientSums::fold_piece() {
  if (!is_open_ || folded_ == pieces_.size()) return false;
  own_.look();
  const Piece& piece = pieces_[folded_];
  if (!own_.is_ready(piece)) return false;
  own_.fold(piece);
  ++folded_;
  if (piece.owner != plan_.own) send_partials(piece);
  return folded_ < pieces_.size() && own_.is_ready(pieces_[folded_]);
}

void GradientSums::send_partials(const Piece& piece) {
  uint64_t offset = own_.rows() * bytes_before(piece);
  const auto head_of = [&](std::span<const std::byte> bytes) {
    const net::FrameHead head = {Kind::partial, static_cast<uint32_t>(bytes.size()), round_number(plan_.stage, step_),
                                 offset};
    offset += bytes.size();
    return head;
  };
  std::vector<std::byte> flags;
  for (size_t row = 0; row < own_.rows(); ++row) {
    const auto present = bytes_at(own_.row(row, piece).presence, piece.parameters());
    flags.insert(flags.end(), present.begin(), present.end());
  }
  outbox_.send_copy(piece.owner, head_of(flags), flags);
  for (size_t row = 0; row < own_.rows(); ++row) {
    const auto bytes = bytes_at(own_.row(row, piece).values, piece.floats.size());
    outbox_.send(piece.owner, head_of(bytes), bytes);
  }
}

bool GradientSums::is_everywhere(const Piece& piece) const {
  return is_folded(piece) &&
         std::ranges::all_of(peers_, [&](const auto& peer) { return peer.second.has_partials(piece); });
}

void GradientSums::finish_pieces() {
  if (!is_open_) return;
  for (; finished_ < own_pieces_.size() && is_everywhere(*own_pieces_[finished_]); ++finished_) {
    finish(*own_pieces_[finished_]);
    send_sum(*own_pieces_[finished_]);
  }
  note_sums();
}

// The sum goes to the place of this host's part of the first slot.
void GradientSums::finish(const Piece& piece) {
  std::vector<PieceSource> sources;
  for (const comm::FinishPlan::Source& source : finish_.sources) {
    const auto host = static_cast<size_t>(source.worker.value), row = static_cast<size_t>(source.slot);
    sources.push_back(host == plan_.own ? own_.row(row, piece) : peers_.at(host).row(row, piece));
  }
  const comm::GradientSlot slot = memory_.gradients()[0];
  sum_into(slot.values + piece.floats.begin, finish_, sources, piece, parts_.parameters());
  for (size_t i = 0; i < piece.parameters(); ++i) slot.presence[piece.first_parameter + i] = present_in_any(sources, i);
}

void GradientSums::send_sum(const Piece& piece) {
  const comm::GradientSlot slot = memory_.gradients()[0];
  const auto flags = bytes_at(slot.presence + piece.first_parameter, piece.parameters());
  const auto bytes = bytes_at(slot.values + piece.floats.begin, piece.floats.size());
  const uint64_t number = round_number(plan_.stage, step_), offset = bytes_before(piece);
  for (const auto& [host, peer] : peers_) {
    outbox_.send_copy(host, {Kind::sum, static_cast<uint32_t>(flags.size()), number, offset}, flags);
    outbox_.send(host, {Kind::sum, static_cast<uint32_t>(bytes.size()), number, offset + flags.size()}, bytes);
  }
}

// No host can have summed partial sums that this host has not sent.
Inflow& GradientSums::sum(size_t host) {
  PeerSums& peer = peers_.at(host);
  const Piece* due = peer.due();
  if (due && !is_folded(*due)) throw Error(Fault::corrupt, "a sum out of turn");
  return peer.sums();
}

void GradientSums::received_sum(size_t host) {
  if (peers_.at(host).take_sum(memory_.gradients()[0])) note_sums();
}

bool GradientSums::is_summed(const Piece& piece) const {
  return (piece.owner == plan_.own ? finished_ : peers_.at(piece.owner).taken()) > piece.number;
}

void GradientSums::note_sums() {
  const size_t before = summed_;
  while (summed_ < pieces_.size() && is_summed(pieces_[summed_])) ++summed_;
  if (summed_ == before) return;
  constexpr size_t unit = comm::SumProgress::floats_of_unit;
  memory_.sums().note_summed(summed_ == pieces_.size() ? 0 : (pieces_[summed_].floats.end + unit - 1) / unit * unit);
}

void GradientSums::end() {
  is_open_ = false;
  folded_ = 0;
  for (auto& [host, peer] : peers_) peer.begin_anew();
}

uint64_t bytes_before(const Piece& piece) { return piece.parameters_before + piece.floats_before * sizeof(float); }

uint64_t bytes_through(const Piece& piece) {
  return bytes_before(piece) + piece.parameters() + piece.floats.size() * sizeof(float);
}

PeerSums::PeerSums(size_t rows, const std::vector<const Piece*>& here, std::vector<const Piece*> there)
    : rows_(rows), there_(std::move(there)) {
  lay_out_partials(here);
  lay_out_sums();
}

void PeerSums::lay_out_partials(const std::vector<const Piece*>& here) {
  for (const Piece* piece : here) floats_ += piece->floats.size();
  partial_floats_ = std::make_unique_for_overwrite<float[]>(rows_ * floats_);
  if (!here.empty()) presence_.resize(rows_ * (here.back()->parameters_before + here.back()->parameters()));
  Places places;
  for (const Piece* piece : here) {
    const auto flags = std::span(presence_).subspan(rows_ * piece->parameters_before, rows_ * piece->parameters());
    places.push_back(std::as_writable_bytes(flags));
    for (size_t row = 0; row < rows_; ++row)
      places.push_back(std::as_writable_bytes(std::span(this->row(row, *piece).values, piece->floats.size())));
  }
  partials_ = Inflow(std::move(places));
}

void PeerSums::lay_out_sums() {
  size_t parameters = 0, floats = 0;
  for (const Piece* piece : there_) {
    parameters = std::max(parameters, piece->parameters());
    floats = std::max(floats, piece->floats.size());
  }
  sum_presence_.resize(parameters);
  sum_floats_.resize(floats);
  Places places;
  for (const Piece* piece : there_) {
    places.push_back(std::as_writable_bytes(std::span(sum_presence_).first(piece->parameters())));
    places.push_back(std::as_writable_bytes(std::span(sum_floats_).first(piece->floats.size())));
  }
  sums_ = Inflow(std::move(places));
}

PieceSource PeerSums::row(size_t row, const Piece& piece) {
  return {partial_floats_.get() + row * floats_ + piece.floats_before,
          presence_.data() + rows_ * piece.parameters_before + row * piece.parameters()};
}

const Piece* PeerSums::due() const { return taken_ < there_.size() ? there_[taken_] : nullptr; }

bool PeerSums::take_sum(const comm::GradientSlot& slot) {
  const Piece& piece = *due();
  if (sums_.bytes() < bytes_through(piece)) return false;
  std::memcpy(slot.values + piece.floats.begin, sum_floats_.data(), piece.floats.size() * sizeof(float));
  std::memcpy(slot.presence + piece.first_parameter, sum_presence_.data(), piece.parameters());
  ++taken_;
  return true;
}

void PeerSums::begin_anew() {
  taken_ = 0;
  partials_.begin_anew();
  sums_.begin_anew();
}

}  // namespace estrain::hosts
