#include "core/engine/cuda/nccl_exchange.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"

namespace estrain::cuda {
namespace {

using std::chrono::milliseconds;

static_assert(sizeof(ncclUniqueId) == sizeof(device::ExchangeId));

constexpr milliseconds kBetweenLooks{20};
constexpr milliseconds kCalmly{1};
constexpr size_t kConnectingBytes = 256;
// Time for the launcher to notice a lost peer and abort the stage, before this worker reports the NCCL error. Shorter
// than the launcher's patience with workers that all wait for each other.
constexpr milliseconds kPatienceWithLauncher{1000};

Error failure(const std::string& why) {
  return Error(Fault::device, why)
      .advise("run again with NCCL_DEBUG=INFO and read the worker's log; job.exchange = \"host\" does without NCCL");
}

bool failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

std::string in_words(const char* call, ncclResult_t result) {
  return fmt::format("{}: {}", call, ncclGetErrorString(result));
}

class NcclExchange : public device::DeviceExchange {
 public:
  NcclExchange(c10::cuda::CUDAStream by, const device::ExchangeParty& party)
      : index_(by.device_index()), party_(party), stream_(by) {}
  ~NcclExchange() override;

  // Returns false on abort.
  bool meet(const ncclUniqueId& id);

  bool connect(std::function<void()> beat) override;
  void follow() override;
  void transfer(const device::TransferGroup& group) override;
  void run(const std::function<void()>& work) override;
  std::function<void()> mark() override;
  void check() override;

 private:
  void watch();
  enum class Pace { busy, calm };
  void settle(std::unique_lock<std::mutex>& lock, const char* call, Pace pace = Pace::busy);
  void await_enqueued();
  bool has_met();
  void end(std::string why);

  const c10::DeviceIndex index_;
  device::ExchangeParty party_;
  const c10::cuda::CUDAStream stream_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable closing_;
  ncclComm_t communicator_ = nullptr;  // null: ended
  std::string failure_;
  bool closes_ = false;
  std::thread watcher_;
};

NcclExchange::~NcclExchange() {
  {
    const std::lock_guard lock(mutex_);
    closes_ = true;
  }
  closing_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  const std::lock_guard lock(mutex_);
  end("");
  (void)cudaStreamSynchronize(stream_);  // transfers in progress write to memory that the caller may free next
}

// Call this function under the lock. Aborts the communicator without waiting for peers. Keeps the first reason.
void NcclExchange::end(std::string why) {
  if (communicator_ == nullptr) return;
  ncclCommAbort(communicator_);
  communicator_ = nullptr;
  failure_ = std::move(why);
}

void NcclExchange::watch() {
  c10::cuda::set_device(index_);
  std::unique_lock lock(mutex_);
  while (!closing_.wait_for(lock, kBetweenLooks, [&] { return closes_; }) && communicator_ != nullptr) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
    if (asked != ncclSuccess) state = asked;
    if (party_.is_aborted()) {
      end("");
    } else if (failed(state)) {
      end(in_words("NCCL", state));
    }
  }
}

// NCCL runs in non-blocking mode: waits until the call's work is complete or the exchange has ended.
void NcclExchange::settle(std::unique_lock<std::mutex>& lock, const char* call, Pace pace) {
  while (communicator_ != nullptr) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess) return;
    if (failed(state)) return end(in_words(call, state));
    lock.unlock();  // for the watcher
    if (party_.beat) party_.beat();
    pace == Pace::busy ? std::this_thread::yield() : std::this_thread::sleep_for(kCalmly);
    lock.lock();
  }
}

bool NcclExchange::meet(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  {
    constexpr const char* call = "ncclCommInitRankConfig";
    std::unique_lock lock(mutex_);
    const ncclResult_t begun = ncclCommInitRankConfig(&communicator_, static_cast<int>(party_.workers), id,
                                                      static_cast<int>(party_.worker), &config);
    if (failed(begun)) {
      end("");
      failure_ = in_words(call, begun);
    }
    watcher_ = std::thread([this] { watch(); });
    settle(lock, call, Pace::calm);
  }
  party_.beat = nullptr;
  return has_met();
}

bool NcclExchange::has_met() {
  check();
  const std::lock_guard lock(mutex_);
  return communicator_ != nullptr;
}

// NCCL connects two GPUs at the GPUs' first transfer: do the first transfer here, not in a step.
bool NcclExchange::connect(std::function<void()> beat) {
  party_.beat = std::move(beat);
  const at::Tensor bytes = at::empty({static_cast<int64_t>(party_.workers * kConnectingBytes)},
                                     at::TensorOptions(at::kByte).device(c10::Device(c10::kCUDA, index_)));
  auto* const place = static_cast<std::byte*>(bytes.mutable_data_ptr());
  device::TransferGroup group;
  for (uint32_t peer = 0; peer < party_.workers; ++peer) {
    if (peer == party_.worker) continue;
    group.sends.push_back({peer, place + party_.worker * kConnectingBytes, kConnectingBytes});
    group.receives.push_back({peer, place + peer * kConnectingBytes, kConnectingBytes});
  }
  follow();
  transfer(group);
  device::TransferGroup gathers;
  gathers.gathers.push_back({place + party_.worker * kConnectingBytes, place, kConnectingBytes});
  transfer(gathers);
  join();  // before the memory is reused
  party_.beat = nullptr;
  return has_met();
}

void NcclExchange::follow() {
  await_enqueued();
  c10::cuda::CUDAEvent computed(cudaEventDisableTiming);
  computed.record(c10::cuda::getCurrentCUDAStream(index_));
  computed.block(stream_);
}

void NcclExchange::transfer(const device::TransferGroup& group) {
  std::unique_lock lock(mutex_);
  settle(lock, "ncclGroupEnd");
  if (communicator_ == nullptr || group.is_empty()) return;
  std::string first_failure;
  const auto note = [&first_failure](const char* call, ncclResult_t result) {
    if (failed(result) && first_failure.empty()) first_failure = in_words(call, result);
  };
  note("ncclGroupStart", ncclGroupStart());
  for (const device::Transfer& send : group.sends)
    note("ncclSend",
         ncclSend(send.memory, send.bytes, ncclUint8, static_cast<int>(send.peer), communicator_, stream_.stream()));
  for (const device::Transfer& receive : group.receives)
    note("ncclRecv", ncclRecv(receive.memory, receive.bytes, ncclUint8, static_cast<int>(receive.peer), communicator_,
                              stream_.stream()));
  for (const device::Gather& gather : group.gathers)
    note("ncclAllGather",
         ncclAllGather(gather.from, gather.to, gather.bytes, ncclUint8, communicator_, stream_.stream()));
  note("ncclGroupEnd", ncclGroupEnd());  // always: an open group would absorb later calls
  if (!first_failure.empty()) end(first_failure);
}

// NCCL enqueues a group a while after its end. Only the next call that needs the order in the stream waits for this.
void NcclExchange::await_enqueued() {
  std::unique_lock lock(mutex_);
  settle(lock, "ncclGroupEnd");
}

void NcclExchange::run(const std::function<void()>& work) {
  await_enqueued();
  const c10::cuda::CUDAStreamGuard guard(stream_);
  work();
}

std::function<void()> NcclExchange::mark() {
  await_enqueued();
  const auto reached = std::make_shared<c10::cuda::CUDAEvent>(cudaEventDisableTiming);
  reached->record(stream_);
  return [this, reached] { reached->block(c10::cuda::getCurrentCUDAStream(index_)); };
}

void NcclExchange::check() {
  std::unique_lock lock(mutex_);
  if (failure_.empty()) return;
  const auto until = std::chrono::steady_clock::now() + kPatienceWithLauncher;
  while (!party_.is_aborted() && std::chrono::steady_clock::now() < until) {
    lock.unlock();
    std::this_thread::sleep_for(kBetweenLooks);
    lock.lock();
  }
  if (!party_.is_aborted()) throw failure(failure_);
}

}  // namespace

device::ExchangeId new_nccl_id() {
  ncclUniqueId id;
  const ncclResult_t made = ncclGetUniqueId(&id);
  if (made != ncclSuccess) throw failure(in_words("ncclGetUniqueId", made));
  device::ExchangeId bytes;
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

std::unique_ptr<device::DeviceExchange> open_nccl_exchange(const device::ExchangeId& id, c10::cuda::CUDAStream by,
                                                           const device::ExchangeParty& party) {
  ncclUniqueId nccl_id;
  std::memcpy(&nccl_id, id.data(), sizeof nccl_id);
  auto exchange = std::make_unique<NcclExchange>(by, party);
  if (!exchange->meet(nccl_id)) return nullptr;
  return exchange;
}

}  // namespace estrain::cuda
