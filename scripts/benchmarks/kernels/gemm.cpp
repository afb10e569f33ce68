// The portable matrix product against LibTorch's mm, addmm and bmm, in one process, alternating.
//
//   gemm [--isa avx512|avx2|fma128|baseline] [--threads N] [--rounds N] [--filter TEXT] [--json] [--peak]
//
// ratio = LibTorch's time / ours, of the fastest rounds (and of the medians): above 1 we are faster. LibTorch's own
// instruction set is limited from outside: ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 for --isa avx2.

#include "kernels/portable/gemm.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <tuple>
#include <utility>

#include "scripts/benchmarks/kernels/fma_peak.h"
#include "scripts/benchmarks/kernels/side_by_side.h"

namespace {

using namespace estrain::kernels;
using namespace estrain::benchmarks;

// Operands as the caller of mm has them: "n" row by row, "t" column by column.
struct Shape {
  std::string name;
  int64_t batch, m, n, k;
  bool a_transposed = false, b_transposed = false, bias = false;
};

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const int64_t n : {64, 128, 256, 384, 512, 768, 1024, 1536}) {
    out.push_back({"square " + std::to_string(n), 1, n, n, n});
  }
  out.push_back({"square 512 nt", 1, 512, 512, 512, false, true});
  out.push_back({"square 512 tn", 1, 512, 512, 512, true, false});
  out.push_back({"square 512 tt", 1, 512, 512, 512, true, true});
  for (const int64_t tokens : {512, 2048}) {
    for (const int64_t width : {64, 128, 384}) {
      const std::string at = std::to_string(tokens) + "x" + std::to_string(width);
      for (const auto& [part, outputs] : {std::pair{"proj", width}, std::pair{"qkv", 3 * width},
                                          std::pair{"up", 4 * width}, std::pair{"head", int64_t{256}}}) {
        out.push_back({"gpt " + at + " " + part + " forward", 1, tokens, outputs, width, false, true, true});
        out.push_back({"gpt " + at + " " + part + " dX", 1, tokens, width, outputs});
        out.push_back({"gpt " + at + " " + part + " dW", 1, outputs, width, tokens, true, false});
      }
      out.push_back({"gpt " + at + " down forward", 1, tokens, width, 4 * width, false, true, true});
    }
  }
  for (const auto& [heads, tokens, dim] :
       {std::tuple{16, 64, 16}, std::tuple{16, 64, 32}, std::tuple{32, 128, 32}, std::tuple{24, 256, 64}}) {
    const std::string at = std::to_string(heads) + " of " + std::to_string(tokens) + "x" + std::to_string(dim);
    out.push_back({"bmm " + at + " scores", heads, tokens, tokens, dim, false, true});
    out.push_back({"bmm " + at + " values", heads, tokens, dim, tokens});
    out.push_back({"bmm " + at + " dV", heads, tokens, dim, tokens, true, false});
  }
  for (const int64_t batch : {1, 4, 32, 64, 128}) {
    for (const auto& [inputs, outputs] :
         {std::pair{784, 128}, std::pair{128, 10}, std::pair{400, 120}, std::pair{120, 84}, std::pair{84, 10}}) {
      const std::string at = std::to_string(batch) + " " + std::to_string(inputs) + "x" + std::to_string(outputs) + " ";
      out.push_back({"linear " + at + "forward", 1, batch, outputs, inputs, false, true, true});
      out.push_back({"linear " + at + "dX", 1, batch, inputs, outputs});
      out.push_back({"linear " + at + "dW", 1, outputs, inputs, batch, true, false});
    }
  }
  out.push_back({"vector 1x1024 n", 1, 1, 1024, 1024});
  out.push_back({"vector 1x1024 t", 1, 1, 1024, 1024, false, true});
  out.push_back({"vector 1024x1 n", 1, 1024, 1, 1024});
  out.push_back({"vector 1024x1 t", 1, 1024, 1, 1024, true, false});
  out.push_back({"outer 1024x1024", 1, 1024, 1024, 1});
  return out;
}

at::Tensor operand(int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  return transposed ? at::randn({batch, columns, rows}).transpose(1, 2) : at::randn({batch, rows, columns});
}

portable::GemmOperand view(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}

// Against the peak of one core instead of LibTorch: the ratio is the share of it that a square product reaches.
bool against_peak(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--peak") == 0) return true;
  }
  return false;
}

Row measure(const Shape& s, const Options& options, bool peak) {
  const at::Tensor a = operand(s.batch, s.m, s.k, s.a_transposed), b = operand(s.batch, s.k, s.n, s.b_transposed);
  const at::Tensor bias = at::randn({s.n});
  at::Tensor c = at::empty({s.batch, s.m, s.n}), reference = at::empty({s.batch, s.m, s.n});
  portable::Gemm g{.batch = s.batch, .m = s.m, .n = s.n, .k = s.k, .a = view(a), .b = view(b)};
  g.c = c.data_ptr<float>();
  g.c_batch_stride = s.m * s.n;
  g.c_row_stride = s.n;
  if (s.bias) g.d = {bias.const_data_ptr<float>(), 0, 0, 1};
  const Execution execution = execution_of(options);
  const at::Tensor a0 = a[0], b0 = b[0];
  at::Tensor reference0 = reference[0];
  const auto theirs = [&] {
    if (peak) {
      fma_peak(2.0 * static_cast<double>(s.batch * s.m * s.n * s.k), options.isa);
    } else if (s.batch > 1) {
      at::bmm_out(reference, a, b);
    } else if (s.bias) {
      at::addmm_out(reference0, bias, a0, b0);
    } else {
      at::mm_out(reference0, a0, b0);
    }
  };
  Row row = alternate(
      s.name, options, [&] { portable::gemm(g, execution); }, theirs);
  row.gflops = 2.0 * static_cast<double>(s.batch * s.m * s.n * s.k) / row.ours * 1e-9;
  row.difference = largest_difference(g.c, reference.const_data_ptr<float>(), reference.numel());
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  at::set_num_threads(options.threads);
  Pool threads(options.threads);
  pool = &threads;
  std::vector<Row> rows;
  for (const Shape& shape : shapes()) {
    if (shape.name.find(options.filter) != std::string::npos)
      rows.push_back(measure(shape, options, against_peak(argc, argv)));
  }
  if (rows.empty()) return 1;
  print("gemm", rows, options);
  return 0;
}
