#include "kernels/pinned/fields.h"

#include <vector>

namespace estrain::kernels::pinned {
namespace {

std::string text_of(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

// Of `first` and a number of each axis.
std::string text_of(std::vector<int64_t> first, const ConvolutionProblem& c, int64_t ConvolutionExtent::*number) {
  for (const ConvolutionExtent& axis : c.axes()) first.push_back(axis.*number);
  return text_of(first);
}

std::string text_of(const ProductProblem::MatrixOperand& operand) {
  return (operand.transposed ? "t" : "n") + std::to_string(operand.leading) + "-" + std::to_string(operand.stride);
}

std::string text_of(ProductProblem::Addend addend, const ProductProblem::MatrixOperand& operand) {
  if (addend == ProductProblem::Addend::none) return "none";
  return addend == ProductProblem::Addend::bias ? "bias" : text_of(operand);
}

}  // namespace

std::string operation_of(const ProductProblem&) { return "product"; }

std::string operation_of(const ConvolutionProblem& c) {
  return c.pass == Pass::forward ? "convolution_forward"
         : c.pass == Pass::data  ? "convolution_data"
                                 : "convolution_filter";
}

Fields fields_of(const ProductProblem& p) {
  return {{"element", name_of(p.element)},
          {"math", name_of(p.math)},
          {"batch", std::to_string(p.batch)},
          {"size", text_of(std::vector{p.m, p.n, p.k})},
          {"alignment", std::to_string(p.alignment)},
          {"a", text_of(p.a)},
          {"b", text_of(p.b)},
          {"addend", text_of(p.addend, p.c)},
          {"d", text_of(p.d)}};
}

Fields fields_of(const ConvolutionProblem& c) {
  return {{"element", name_of(c.element)},
          {"math", name_of(c.math)},
          {"input", text_of({c.batch, c.channels_in}, c, &ConvolutionExtent::size)},
          {"filter", text_of({c.channels_out, c.channels_in / c.groups}, c, &ConvolutionExtent::filter)},
          {"groups", std::to_string(c.groups)},
          {"stride", text_of({}, c, &ConvolutionExtent::stride)},
          {"padding", text_of({}, c, &ConvolutionExtent::padding)},
          {"dilation", text_of({}, c, &ConvolutionExtent::dilation)}};
}

}  // namespace estrain::kernels::pinned
