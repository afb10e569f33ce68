#pragma once
// Whether hosts send the factors of a gradient in place of its sums (core/hosts/PROTOCOL.md). Pure.

#include <cstddef>
#include <vector>

namespace estrain::plan {

// A gradient that has factors.
struct FactoredGradient {
  double bytes = 0;            // of the gradient
  size_t factor_bytes = 0;     // of the factors of an EST
  double product_seconds = 0;  // of an EST's factors, on the first host
};

// What all hosts know of a gradient that may go as factors.
struct FactorOffers {
  struct OfHost {
    size_t bytes = 0;           // of the factors of an EST; 0: no offer
    double seconds = 0;         // of the product of an EST's factors
    double waited_seconds = 0;  // for the sums of all gradients
    size_t ests = 0;
  };
  std::vector<OfHost> hosts;
  double gradient_bytes = 0, bytes_of_all = 0;  // of the gradient, and of all gradients
};

enum class FactorChoice {
  sent,
  without,    // a host has found none, or another size than the others
  too_large,  // half of the bytes of sums, or more
  too_slow    // to multiply
};

// A gradient goes as factors if these have less than half of the bytes of its partial sums and sums, and the products
// of the other hosts' factors take less than half of the part of the waiting that goes with those bytes. The shortest
// waiting of all hosts counts: other hosts wait for the slowest host, too. `always`: the time does not matter.
FactorChoice choice_of(const FactorOffers& offers, bool always);

}  // namespace estrain::plan
