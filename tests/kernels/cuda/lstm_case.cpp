#include "kernels/portable/lstm.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

std::string lstm_case(uint32_t seed) {
  Draw draw(seed);
  LstmShape s;
  s.steps = draw.integer(1, 4);
  s.samples = draw.integer(1, 9);
  s.width = draw.one_of<int64_t>({1, 15, 16, 33, draw.integer(1, 70)});
  const int64_t w = s.width, cells = s.samples * w, all = s.steps * cells;
  Twin<float> input(draw.floats(4 * all)), weight(draw.floats(4 * w * w)), bias(draw.normal(4 * w));
  Twin<float> hidden0(draw.normal(cells)), cell0(draw.floats(cells)), gradient(draw.floats(all));
  Twin<float> gates(Draw::blank(4 * all)), each(Draw::blank(all)), squashed(Draw::blank(all)), hidden(Draw::blank(all));
  Twin<float> carried_hidden(draw.normal(cells)), carried_cell(draw.normal(cells)), gate_gradient(Draw::blank(4 * all));
  Twin<float> weight_gradient(Draw::blank(4 * w * w)), bias_gradient(Draw::blank(4 * w)), scratch(Draw::blank(4 * w));
  const bool has_bias = draw.chance(70), has_output = draw.chance(70);
  const bool has_hidden = !has_output || draw.chance(50), has_cell = draw.chance(50);
  const auto call = [&](auto at, const Execution& e) {
    const LstmStart start = {at(hidden0), at(cell0)};
    lstm(s,
         {at(input), at(weight), has_bias ? at(bias) : nullptr, start, at(gates), at(each), at(squashed), at(hidden)},
         e);
    LstmBackward backward;
    backward.weight = at(weight);
    backward.start = start;
    backward.gates = at(gates);
    backward.cells = at(each);
    backward.squashed = at(squashed);
    backward.hidden = at(hidden);
    if (has_output) backward.output_gradient = at(gradient);
    backward.carried_hidden = at(carried_hidden);
    backward.carried_cell = at(carried_cell);
    backward.has_hidden = has_hidden;
    backward.has_cell = has_cell;
    backward.gate_gradient = at(gate_gradient);
    backward.weight_gradient = at(weight_gradient);
    if (has_bias) backward.bias_gradient = at(bias_gradient);
    backward.step_bias = at(scratch);
    lstm_backward(s, backward, e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, on_cpu());
  call([](Twin<float>& twin) { return twin.there(); }, on_device());
  return report(gates.difference("gates") + each.difference("cells") + squashed.difference("squashed") +
                    hidden.difference("hidden") + gate_gradient.difference("gate_gradient") +
                    carried_hidden.difference("carried_hidden") + carried_cell.difference("carried_cell") +
                    weight_gradient.difference("weight_gradient") + bias_gradient.difference("bias_gradient"),
                shape_of("steps, samples, width", s.steps, s.samples, s.width));
}

}  // namespace estrain::kernels::test
