#include "core/engine/model/exported/size_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace estrain::model {
namespace {

using Values = std::vector<c10::IValue>;

Error not_computable(const char* why) { return Error::make(Fault::corrupt, "arithmetic of sizes: {}", why); }

bool is_real(const c10::IValue& value) { return value.isDouble(); }

const c10::IValue& operand(const Values& values, size_t i) {
  if (i >= values.size()) throw not_computable("an operand is missing");
  if (!values[i].isInt() && !values[i].isDouble() && !values[i].isBool())
    throw not_computable("an operand is not a number");
  return values[i];
}

double real(const Values& values, size_t i) { return operand(values, i).toScalar().toDouble(); }
int64_t whole(const Values& values, size_t i) {
  const c10::IValue& value = operand(values, i);
  return value.isBool() ? int64_t{value.toBool()} : value.toInt();
}
bool any_real(const Values& values) { return std::ranges::any_of(values, is_real); }

template <typename Whole, typename Real>
c10::IValue binary(const Values& values, Whole on_whole, Real on_real) {
  if (any_real(values)) return on_real(real(values, 0), real(values, 1));
  int64_t result = 0;
  if (on_whole(whole(values, 0), whole(values, 1), &result)) throw not_computable("a result is too large");
  return result;
}

c10::IValue add(const Values& v) {
  return binary(
      v, [](int64_t a, int64_t b, int64_t* r) { return __builtin_add_overflow(a, b, r); },
      [](double a, double b) { return a + b; });
}
c10::IValue sub(const Values& v) {
  return binary(
      v, [](int64_t a, int64_t b, int64_t* r) { return __builtin_sub_overflow(a, b, r); },
      [](double a, double b) { return a - b; });
}
c10::IValue mul(const Values& v) {
  return binary(
      v, [](int64_t a, int64_t b, int64_t* r) { return __builtin_mul_overflow(a, b, r); },
      [](double a, double b) { return a * b; });
}

int64_t divisor(const Values& values) {
  const int64_t b = whole(values, 1);
  if (b == 0) throw not_computable("a division by zero");
  return b;
}

int64_t floor_of(int64_t a, int64_t b) {
  if (b == -1) return a == INT64_MIN ? throw not_computable("a result is too large") : -a;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

c10::IValue floordiv(const Values& v) {
  if (any_real(v)) return std::floor(real(v, 0) / real(v, 1));
  return floor_of(whole(v, 0), divisor(v));
}
c10::IValue mod(const Values& v) {
  const int64_t a = whole(v, 0), b = divisor(v);
  return b == -1 ? int64_t{0} : a - floor_of(a, b) * b;
}
c10::IValue truediv(const Values& v) {
  if (real(v, 1) == 0) throw not_computable("a division by zero");
  return real(v, 0) / real(v, 1);
}
c10::IValue neg(const Values& v) {
  if (any_real(v)) return -real(v, 0);
  return sub({int64_t{0}, whole(v, 0)});
}
c10::IValue power(const Values& v) {
  if (any_real(v) || whole(v, 1) < 0) return std::pow(real(v, 0), real(v, 1));
  c10::IValue result = int64_t{1};
  if (whole(v, 1) > 64) throw not_computable("a power beyond 64");
  for (int64_t i = 0; i < whole(v, 1); ++i) result = mul({result, v[0]});
  return result;
}
c10::IValue largest(const Values& v) {
  if (any_real(v)) return std::max(real(v, 0), real(v, 1));
  return std::max(whole(v, 0), whole(v, 1));
}
c10::IValue smallest(const Values& v) {
  if (any_real(v)) return std::min(real(v, 0), real(v, 1));
  return std::min(whole(v, 0), whole(v, 1));
}
c10::IValue to_real(const Values& v) { return real(v, 0); }

int64_t integer_of(double value) {
  if (!(std::fabs(value) < 9e18)) throw not_computable("a number beyond the integers");
  return static_cast<int64_t>(value);
}
c10::IValue to_whole(const Values& v) { return integer_of(std::trunc(real(v, 0))); }
c10::IValue ceiling(const Values& v) { return integer_of(std::ceil(real(v, 0))); }
c10::IValue floor(const Values& v) { return integer_of(std::floor(real(v, 0))); }
c10::IValue root(const Values& v) { return std::sqrt(real(v, 0)); }

template <typename Compare>
c10::IValue compare(const Values& v, Compare with) {
  if (any_real(v)) return with(real(v, 0), real(v, 1));
  return with(whole(v, 0), whole(v, 1));
}
c10::IValue eq(const Values& v) {
  return compare(v, [](auto a, auto b) { return a == b; });
}
c10::IValue ne(const Values& v) {
  return compare(v, [](auto a, auto b) { return a != b; });
}
c10::IValue lt(const Values& v) {
  return compare(v, [](auto a, auto b) { return a < b; });
}
c10::IValue le(const Values& v) {
  return compare(v, [](auto a, auto b) { return a <= b; });
}
c10::IValue gt(const Values& v) {
  return compare(v, [](auto a, auto b) { return a > b; });
}
c10::IValue ge(const Values& v) {
  return compare(v, [](auto a, auto b) { return a >= b; });
}
c10::IValue both(const Values& v) { return whole(v, 0) != 0 && whole(v, 1) != 0; }
c10::IValue either(const Values& v) { return whole(v, 0) != 0 || whole(v, 1) != 0; }
c10::IValue inverse(const Values& v) { return whole(v, 0) == 0; }

constexpr std::pair<std::string_view, SizeArithmetic> kArithmetic[] = {
    {"add", add},
    {"sub", sub},
    {"mul", mul},
    {"floordiv", floordiv},
    {"mod", mod},
    {"truediv", truediv},
    {"neg", neg},
    {"pow", power},
    {"sym_max", largest},
    {"sym_min", smallest},
    {"sym_float", to_real},
    {"sym_int", to_whole},
    {"trunc", to_whole},
    {"ceil", ceiling},
    {"floor", floor},
    {"sym_sqrt", root},
    {"eq", eq},
    {"ne", ne},
    {"lt", lt},
    {"le", le},
    {"gt", gt},
    {"ge", ge},
    {"and_", both},
    {"or_", either},
    {"not_", inverse},
    {"sym_not", inverse},
};

}  // namespace

SizeArithmetic size_arithmetic(std::string_view name) {
  const auto found = std::ranges::find(kArithmetic, name, &std::pair<std::string_view, SizeArithmetic>::first);
  return found == std::end(kArithmetic) ? nullptr : found->second;
}

}  // namespace estrain::model
