#include "core/hosts/step/peer_sums.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace estrain::hosts {

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
  partial_floats_.resize(rows_ * floats_);
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
  return {partial_floats_.data() + row * floats_ + piece.floats_before,
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
