#include "core/engine/model/block_watch.h"

#include <utility>

namespace estrain::model {
namespace {

thread_local const BlockBegins* current_watch = nullptr;

}  // namespace

BlockWatch::BlockWatch(BlockBegins begins) : begins_(std::move(begins)) { current_watch = &begins_; }

BlockWatch::~BlockWatch() { current_watch = nullptr; }

bool blocks_are_watched() { return current_watch != nullptr; }

torch::Tensor begin_block(std::string_view block, const torch::Tensor& activation) {
  return current_watch == nullptr ? activation : (*current_watch)(block, activation);
}

}  // namespace estrain::model
