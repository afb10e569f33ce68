#include "core/engine/model/exported/operand.h"

#include <ATen/ScalarOps.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/engine/model/exported/scalar_type.h"

namespace estrain::model {
namespace {

constexpr int64_t kStrided = 7;  // of the schema's layouts

torch::Tensor wrapped(const at::Scalar& number) {  // like Python's bindings when a number is passed for a tensor
  torch::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::MemoryFormat memory_format(int64_t number) {
  switch (number) {
    case 1:
      return at::MemoryFormat::Contiguous;
    case 2:
      return at::MemoryFormat::ChannelsLast;
    case 3:
      return at::MemoryFormat::ChannelsLast3d;
    default:
      return at::MemoryFormat::Preserve;
  }
}

// A Formal is the type that an operator requires for an argument.
class Formal {
 public:
  explicit Formal(const c10::Argument& argument) : argument_(argument), type_(argument.real_type()) {
    if (const auto optional = type_->cast<c10::OptionalType>()) type_ = optional->getElementType(), optional_ = true;
    if (const auto list = type_->cast<c10::ListType>()) item_ = list->getElementType();
  }
  bool is_optional() const { return optional_; }
  c10::TypeKind kind() const { return type_->kind(); }
  bool is(c10::TypeKind kind) const { return type_->kind() == kind; }
  bool is_whole() const { return is(c10::TypeKind::IntType) || is(c10::TypeKind::SymIntType); }
  bool is_list() const { return item_ != nullptr; }
  c10::TypeKind item() const { return item_->kind(); }
  bool is_list_of_optional() const { return is_list() && item() == c10::TypeKind::OptionalType; }
  bool is_list_of_whole() const {
    return is_list() && (item() == c10::TypeKind::IntType || item() == c10::TypeKind::SymIntType);
  }
  bool is_list_of_float() const { return is_list() && item() == c10::TypeKind::FloatType; }
  size_t length() const { return static_cast<size_t>(std::clamp(argument_.N().value_or(1), 1, 16)); }

 private:
  const c10::Argument& argument_;
  c10::TypePtr type_, item_;
  bool optional_ = false;
};

struct BadArgument {};

// Converts an argument of a call to an operand of the type required by `formal`. Throws BadArgument if the argument has
// no such form.
struct ToOperand {
  const Formal& formal;
  const c10::Device device;

  static Operand constant(c10::IValue value) { return {.constant = std::move(value)}; }

  Operand number(const at::Scalar& value) const {
    if (formal.is(c10::TypeKind::TensorType)) return constant(wrapped(value));
    if (formal.is(c10::TypeKind::NumberType)) return constant(value);
    if (formal.is(c10::TypeKind::FloatType)) return constant(value.toDouble());
    if (formal.is_whole() && !value.isFloatingPoint()) return constant(value.toLong());
    if (formal.is(c10::TypeKind::BoolType) && !value.isFloatingPoint()) return constant(value.toLong() != 0);
    if (formal.is_list_of_whole() && !value.isFloatingPoint())
      return constant(std::vector<int64_t>(formal.length(), value.toLong()));
    if (formal.is_list_of_float()) return constant(std::vector<double>(formal.length(), value.toDouble()));
    throw BadArgument{};
  }

  Operand operator()(program::None) const {
    if (!formal.is_optional()) throw BadArgument{};
    return {};
  }
  Operand operator()(program::ValueRef value) const {
    return {.kind = Operand::Kind::value,
            .value = value.number,
            .is_tensor = formal.is(c10::TypeKind::TensorType),
            .is_float = formal.is(c10::TypeKind::FloatType)};
  }
  Operand operator()(bool value) const {
    if (formal.is(c10::TypeKind::BoolType)) return constant(value);
    return number(value);
  }
  Operand operator()(int64_t value) const { return number(value); }
  Operand operator()(double value) const { return number(value); }
  Operand operator()(const std::string& value) const {
    if (!formal.is(c10::TypeKind::StringType)) throw BadArgument{};
    return constant(value);
  }
  Operand operator()(const std::vector<int64_t>& value) const {
    if (formal.is_list_of_float()) return constant(std::vector<double>(value.begin(), value.end()));
    if (!formal.is_list_of_whole()) throw BadArgument{};
    return constant(value);
  }
  Operand operator()(const std::vector<double>& value) const {
    if (!formal.is_list_of_float()) throw BadArgument{};
    return constant(value);
  }
  Operand operator()(const std::vector<bool>& value) const {
    if (!formal.is_list() || formal.item() != c10::TypeKind::BoolType) throw BadArgument{};
    c10::List<bool> list;
    for (const bool item : value) list.push_back(item);
    return constant(list);
  }
  Operand operator()(const std::vector<program::Item>& items) const {
    Operand list;
    if (formal.is_list_of_optional()) {
      list.kind = Operand::Kind::optional_tensors;
    } else if (formal.is_list() && formal.item() == c10::TypeKind::TensorType) {
      list.kind = Operand::Kind::tensors;
    } else if (formal.is_list_of_whole()) {
      list.kind = Operand::Kind::integers;
    } else {
      throw BadArgument{};
    }
    for (const program::Item& item : items) {
      if (const auto* value = std::get_if<program::ValueRef>(&item)) {
        list.items.push_back({.kind = Operand::Kind::value, .value = value->number});
      } else if (const auto* whole = std::get_if<int64_t>(&item)) {
        if (list.kind != Operand::Kind::integers) throw BadArgument{};
        list.items.push_back(constant(*whole));
      } else {
        if (list.kind != Operand::Kind::optional_tensors) throw BadArgument{};
        list.items.emplace_back();
      }
    }
    return list;
  }
  Operand operator()(program::ScalarType type) const {
    if (!formal.is(c10::TypeKind::ScalarTypeType) && !formal.is_whole()) throw BadArgument{};
    return constant(static_cast<int64_t>(scalar_type(type)));
  }
  Operand operator()(program::Layout layout) const {
    if (layout.number != kStrided) throw BadArgument{};
    return constant(static_cast<int64_t>(c10::Layout::Strided));
  }
  Operand operator()(program::MemoryFormat format) const {
    return constant(static_cast<int64_t>(memory_format(format.number)));
  }
  Operand operator()(const program::DeviceArgument&) const { return constant(device); }
};

}  // namespace

std::optional<Operand> to_operand(const program::Argument& argument, const c10::Argument& formal, c10::Device device) {
  try {
    return std::visit(ToOperand{Formal(formal), device}, argument);
  } catch (const BadArgument&) {
    return std::nullopt;
  }
}

std::optional<Operand> to_number(const program::Argument& argument) {
  if (const auto* value = std::get_if<program::ValueRef>(&argument))
    return Operand{.kind = Operand::Kind::value, .value = value->number};
  if (const auto* whole = std::get_if<int64_t>(&argument)) return Operand{.constant = *whole};
  if (const auto* real = std::get_if<double>(&argument)) return Operand{.constant = *real};
  if (const auto* truth = std::get_if<bool>(&argument)) return Operand{.constant = *truth};
  return std::nullopt;
}

c10::IValue evaluate(const Operand& operand, const std::vector<c10::IValue>& values) {
  const auto value_of = [&](const Operand& item) -> const c10::IValue& {
    return item.value >= 0 ? values[static_cast<size_t>(item.value)] : item.constant;
  };
  switch (operand.kind) {
    case Operand::Kind::constant:
      return operand.constant;
    case Operand::Kind::value: {
      const c10::IValue& value = values[static_cast<size_t>(operand.value)];
      if (operand.is_tensor && value.isScalar()) return wrapped(value.toScalar());
      if (operand.is_float && value.isInt()) return static_cast<double>(value.toInt());
      return value;
    }
    case Operand::Kind::tensors: {
      c10::List<at::Tensor> list;
      for (const Operand& item : operand.items) list.push_back(value_of(item).toTensor());
      return list;
    }
    case Operand::Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const Operand& item : operand.items) {
        const c10::IValue& value = value_of(item);
        list.push_back(value.isNone() ? std::nullopt : std::optional(value.toTensor()));
      }
      return list;
    }
    case Operand::Kind::integers: {
      c10::List<int64_t> list;
      for (const Operand& item : operand.items) list.push_back(value_of(item).toInt());
      return list;
    }
  }
  throw Error(Fault::bug, "unknown kind of operand");
}

}  // namespace estrain::model
