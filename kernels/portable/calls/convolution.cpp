#include "kernels/portable/convolution.h"

#include <algorithm>
#include <utility>

#include "kernels/portable/calls/convolution_phase.h"
#include "kernels/portable/calls/convolution_plan.h"
#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/depthwise.h"
#include "kernels/portable/gemm.h"
#include "kernels/portable/loops/convolution.h"
#include "kernels/portable/loops/depthwise.h"
#include "kernels/workspace.h"

namespace estrain::kernels::portable {
namespace {

constexpr int kGridSlot = 2;           // 0 and 1 are loops/convolution_multiply.cpp's
constexpr double kWorthSharing = 1e6;  // multiply-adds

// The tensors of a product, of its first group, and how far the next group's lie.
struct Operands {
  const float* source;
  const float* operand;
  const float* bias;
  float* result;
  int64_t source_group, operand_group, bias_group, result_group;

  Operands of_group(int64_t g) const {
    return {source + g * source_group,
            operand + g * operand_group,
            bias == nullptr ? nullptr : bias + g * bias_group,
            result + g * result_group,
            0,
            0,
            0,
            0};
  }
};

// 1x1: y[n] = w x[n], and dx[n] = w^T dy[n], where k runs over the filter's rows.
void multiply_matrices(const GemmPlan& plan, const float* source, const Operands& operands,
                       const Execution& execution) {
  const PackedOperand& w = plan.operand;
  const int64_t positions = plan.result_channel, terms = plan.phases[0].terms;
  Gemm g = {.batch = plan.grid.copy.images, .m = w.channels, .n = positions, .k = terms};
  g.a = {operands.operand, 0, w.channel_stride, w.runs == 1 ? 1 : w.run_stride};
  g.b = {source, plan.grid.image, plan.grid.plane, 1};
  g.c = operands.result;
  g.c_batch_stride = plan.result_image;
  g.c_row_stride = positions;
  g.d = {operands.bias, 0, 1, 0};
  gemm(g, execution);
}

void multiply(const GemmPlan& plan, const std::vector<GemmPhase>& phases, const Operands& operands,
              const ConvolutionLoops& loops, const Execution& execution) {
  const float* in_grid = plan.grid_is_operand ? operands.operand : operands.source;
  const float* from = in_grid + plan.grid.in_place_offset;
  if (plan.grid.copied) {
    float* grid = workspace(kGridSlot, static_cast<size_t>(plan.grid.floats() + loops.vector_width));
    loops.copy_grid(plan.grid.copy, in_grid, grid, execution);
    from = grid;
  }
  if (plan.matrix) return multiply_matrices(plan, from, operands, execution);
  ImplicitGemm gemm;
  gemm.source = plan.grid_is_operand ? operands.source : from;
  gemm.phases = phases.data();
  gemm.num_phases = static_cast<int64_t>(phases.size());
  if (plan.trimmed) {  // one group
    gemm.source_least = loops.least_magnitude(operands.source, plan.grid.copy.images * plan.grid.copy.image_stride);
  }
  gemm.operand = plan.operand;
  gemm.operand.data = plan.grid_is_operand ? from : operands.operand;
  gemm.result = operands.result;
  gemm.result_channel = plan.result_channel;
  gemm.result_column = plan.result_column;
  gemm.bias = operands.bias;
  (plan.narrow ? loops.multiply_narrow : loops.multiply)(gemm, execution);
}

struct GroupTask {
  const GemmPlan& plan;
  const std::vector<GemmPhase>& phases;
  const Operands& operands;
  const ConvolutionLoops& loops;
  Execution serial;
};

void multiply_group(void* context, int g) {
  const GroupTask& task = *static_cast<const GroupTask*>(context);
  multiply(task.plan, task.phases, task.operands.of_group(g), task.loops, task.serial);
}

// Threads divide the groups. A single group divides its own work among the threads.
void multiply_groups(GemmPlan plan, const Convolution& shape, const Operands& operands, const Execution& execution) {
  plan.grid.point_at_phases();
  if (!plan.first_row.empty()) {
    plan.operand.first_row = plan.first_row.data();
    plan.operand.row_step = plan.row_step.data();
  }
  if (!plan.channel_offsets.empty()) {
    plan.operand.channel_offsets = plan.channel_offsets.data();
    plan.operand.term_offsets = plan.term_offsets.data();
  }
  std::vector<GemmPhase> phases;
  for (PhasePlan& phase : plan.phases) phases.push_back(phase.view());
  const ConvolutionLoops& loops = convolution_loops(execution.isa);
  if (shape.groups == 1) return multiply(plan, phases, operands, loops, execution);
  GroupTask task = {plan, phases, operands, loops, {.isa = execution.isa, .threads = 1, .run = nullptr}};
  const int groups = static_cast<int>(shape.groups);
  if (execution.run != nullptr && execution.threads > 1) return execution.run(groups, multiply_group, &task);
  for (int g = 0; g < groups; ++g) multiply_group(&task, g);
}

// A small convolution stays on one thread.
Execution shared(const Convolution& shape, const Execution& execution) {
  Execution chosen = execution;
  const double outputs = static_cast<double>(shape.batch * shape.channels_out * shape.output_height()) *
                         static_cast<double>(shape.output_width());
  const double terms = static_cast<double>(shape.channels_in * shape.filter_height * shape.filter_width) /
                       static_cast<double>(shape.groups);
  if (outputs * terms < kWorthSharing) chosen.threads = 1;
  if (chosen.threads == 1) chosen.run = nullptr;
  return chosen;
}

// With at most this many channels, most lanes of wide vectors would be empty, so narrower vectors are faster.
constexpr int64_t kFewChannels = 8;
Execution narrower(Execution execution, int64_t channels) {
  if (channels <= kFewChannels && execution.isa == Isa::avx512) execution.isa = Isa::avx2;
  return execution;
}

bool is_depthwise(const Convolution& shape) { return shape.groups > 1 && shape.groups == shape.channels_in; }

DepthwiseShape depthwise_shape(const Convolution& shape) {
  return {.n = shape.batch,
          .channels = shape.channels_in,
          .multiplier = shape.channels_out / shape.groups,
          .height = shape.height,
          .width = shape.width,
          .output_height = shape.output_height(),
          .output_width = shape.output_width(),
          .kernel_height = shape.filter_height,
          .kernel_width = shape.filter_width,
          .stride_height = shape.stride_height,
          .stride_width = shape.stride_width,
          .padding_height = shape.padding_height,
          .padding_width = shape.padding_width,
          .dilation_height = shape.dilation_height,
          .dilation_width = shape.dilation_width};
}

// Number of floats of a group (for tensors with images: in one image).
struct GroupSizes {
  int64_t x, y, w, channels_out;
};
GroupSizes group_sizes(const Convolution& shape) {
  const int64_t channels_in = shape.channels_in / shape.groups, channels_out = shape.channels_out / shape.groups;
  return {channels_in * shape.height * shape.width, channels_out * shape.output_height() * shape.output_width(),
          channels_out * channels_in * shape.filter_height * shape.filter_width, channels_out};
}

DepthwiseArguments arguments_of(const DepthwiseShape& s) {
  DepthwiseArguments a = {};
  a.n = s.n;
  a.channels = s.channels;
  a.multiplier = s.multiplier;
  a.h = {s.height, s.output_height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height};
  a.w = {s.width, s.output_width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width};
  return a;
}

}  // namespace

int64_t convolution_output_size(int64_t size, int64_t filter, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t span = size + 2 * padding - dilation * (filter - 1) - 1;
  return span < 0 ? 0 : span / stride + 1;
}

int64_t Convolution::output_height() const {
  return convolution_output_size(height, filter_height, stride_height, padding_height, dilation_height);
}
int64_t Convolution::output_width() const {
  return convolution_output_size(width, filter_width, stride_width, padding_width, dilation_width);
}

void convolution_forward(const Convolution& shape, const float* x, const float* w, const float* bias, float* y,
                         const Execution& execution) {
  if (execution.device != nullptr)
    return execution.device->kernels->convolution_forward(shape, x, w, bias, y, execution);
  const Execution chosen = shared(shape, execution);
  if (is_depthwise(shape)) return depthwise_forward(y, x, w, bias, depthwise_shape(shape), chosen);
  const GroupSizes sizes = group_sizes(shape);
  if (shape.batch == 0 || sizes.y == 0) return;
  multiply_groups(plan_forward(shape, convolution_loops(chosen.isa)), shape,
                  {x, w, bias, y, sizes.x, sizes.w, sizes.channels_out, sizes.y}, chosen);
}

void convolution_backward_data(const Convolution& shape, const float* dy, const float* w, float* dx,
                               const Execution& execution) {
  if (execution.device != nullptr)
    return execution.device->kernels->convolution_backward_data(shape, dy, w, dx, execution);
  const Execution chosen = shared(shape, execution);
  if (is_depthwise(shape)) return depthwise_backward_data(dx, dy, w, depthwise_shape(shape), chosen);
  const GroupSizes sizes = group_sizes(shape);
  if (shape.batch == 0 || sizes.x == 0) return;
  GemmPlan plan = plan_backward_data(shape, convolution_loops(chosen.isa));
  if (plan.clear_first) std::fill_n(dx, shape.batch * shape.groups * sizes.x, 0.0f);
  multiply_groups(std::move(plan), shape, {dy, w, nullptr, dx, sizes.y, sizes.w, 0, sizes.x}, chosen);
}

void convolution_backward_filter(const Convolution& shape, const float* x, const float* dy, float* dw,
                                 const Execution& execution) {
  if (execution.device != nullptr)
    return execution.device->kernels->convolution_backward_filter(shape, x, dy, dw, execution);
  Execution chosen = shared(shape, execution);
  if (is_depthwise(shape)) return depthwise_backward_filter(dw, dy, x, depthwise_shape(shape), chosen);
  const GroupSizes sizes = group_sizes(shape);
  if (sizes.w == 0) return;
  chosen = narrower(chosen, sizes.channels_out);
  GemmPlan plan = plan_backward_filter(shape, convolution_loops(chosen.isa));
  if (plan.clear_first) std::fill_n(dw, shape.groups * sizes.w, 0.0f);
  Operands operands = {x, dy, nullptr, dw, sizes.x, sizes.y, 0, sizes.w};
  if (plan.grid_is_operand) {
    std::swap(operands.source, operands.operand);
    std::swap(operands.source_group, operands.operand_group);
  }
  multiply_groups(std::move(plan), shape, operands, chosen);
}

void convolution_backward_bias(const Convolution& shape, const float* dy, float* db, const Execution& execution) {
  if (execution.device != nullptr)
    return execution.device->kernels->convolution_backward_bias(shape, dy, db, execution);
  const int64_t positions = shape.output_height() * shape.output_width();
  Execution chosen = shared(shape, execution);
  convolution_loops(chosen.isa)
      .sum_channels(dy, shape.batch, shape.channels_out * positions, shape.channels_out, positions, db, chosen);
}

void depthwise_forward(float* y, const float* x, const float* filters, const float* bias, const DepthwiseShape& shape,
                       const Execution& execution) {
  DepthwiseArguments a = arguments_of(shape);
  a.y = y;
  a.x = x;
  a.filters = filters;
  a.bias = bias;
  depthwise_loops(execution.isa).forward(a, execution);
}

void depthwise_backward_data(float* dx, const float* dy, const float* filters, const DepthwiseShape& shape,
                             const Execution& execution) {
  DepthwiseArguments a = arguments_of(shape);
  a.dx = dx;
  a.dy = dy;
  a.filters = filters;
  depthwise_loops(execution.isa).backward_data(a, execution);
}

void depthwise_backward_filter(float* dfilters, const float* dy, const float* x, const DepthwiseShape& shape,
                               const Execution& execution) {
  DepthwiseArguments a = arguments_of(shape);
  a.dfilters = dfilters;
  a.dy = dy;
  a.x = x;
  depthwise_loops(execution.isa).backward_filter(a, execution);
}

}  // namespace estrain::kernels::portable
