#include "core/state/checkpoint/models/conversion.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/error.h"

namespace estrain::checkpoint {
namespace {

struct Bfloat16 {
  uint16_t bits;
  float value() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

struct Half {
  uint16_t bits;
  float value() const {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -small : small;
  }
};

struct Boolean {
  uint8_t byte;
  uint8_t value() const { return byte != 0; }
};

template <typename Number>
struct Plain {
  Number number;
  Number value() const { return number; }
};

// Calls visit() with an element of the type. Returns false if the type cannot be converted.
template <typename Visit>
bool with_element(std::string_view type, Visit visit) {
  if (type == "float32") return visit(Plain<float>{}), true;
  if (type == "float64") return visit(Plain<double>{}), true;
  if (type == "BF16") return visit(Bfloat16{}), true;
  if (type == "F16") return visit(Half{}), true;
  if (type == "BOOL") return visit(Boolean{}), true;
  if (type == "int8" || type == "I8") return visit(Plain<int8_t>{}), true;
  if (type == "int16" || type == "I16") return visit(Plain<int16_t>{}), true;
  if (type == "int32" || type == "I32") return visit(Plain<int32_t>{}), true;
  if (type == "int64") return visit(Plain<int64_t>{}), true;
  if (type == "uint8") return visit(Plain<uint8_t>{}), true;
  if (type == "uint16" || type == "U16") return visit(Plain<uint16_t>{}), true;
  if (type == "uint32" || type == "U32") return visit(Plain<uint32_t>{}), true;
  if (type == "uint64" || type == "U64") return visit(Plain<uint64_t>{}), true;
  return false;
}

// A float beyond all integers becomes the least, as on x86.
template <typename To, typename From>
To converted(From value) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    const bool fits = value >= -0x1p63 && value < 0x1p63;
    return static_cast<To>(fits ? static_cast<int64_t>(value) : INT64_MIN);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename Element>
void convert(const std::byte* in, uint64_t count, std::byte* out) {
  for (uint64_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, in + i * sizeof(Element), sizeof(Element));
    const To value = converted<To>(element.value());
    std::memcpy(out + i * sizeof(To), &value, sizeof(To));
  }
}

}  // namespace

bool is_convertible(std::string_view type) {
  return with_element(type, [](auto) {});
}

void convert_elements(std::string_view type, const std::byte* in, uint64_t count, DType as, std::byte* out) {
  const bool done = with_element(type, [&]<typename Element>(Element) {
    switch (as) {
      case DType::f32:
        return convert<float, Element>(in, count, out);
      case DType::f64:
        return convert<double, Element>(in, count, out);
      case DType::i32:
        return convert<int32_t, Element>(in, count, out);
      case DType::i64:
        return convert<int64_t, Element>(in, count, out);
      case DType::u8:
        return convert<uint8_t, Element>(in, count, out);
    }
  });
  if (!done) throw Error::make(Fault::bug, "elements of type {} are not converted", type);
}

}  // namespace estrain::checkpoint
