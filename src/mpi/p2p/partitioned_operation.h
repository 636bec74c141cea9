// SPDX-License-Identifier: Apache-2.0
//
// Partitioned sends and receives of device memory. The host MPI's partitioned functions move host memory in
// its place, so the host MPI does the matching, and peers may be of any kind. The user holds the host MPI's
// request. MPI_Pready copies its partitions out of the device before it calls the host MPI. MPI_Parrived
// copies a partition that has arrived into the device; the rest is copied when the receive completes. Each
// partition is copied once a round.
//
// Requests that GPU streams or kernels use need the host MPI for their first rounds only: then the sender
// writes to the receiver's buffer, or kernels of both hand the partitions over (p2p/partition_channel.h). A
// round is `direct` if so. A stream may run such a round alone (mpi/stream/partitioned_enqueue.cpp); the
// request is not active then.
//
// Several threads may call MPI_Pready and MPI_Parrived at once; neither holds a lock while it copies.
//
// Kernels do the same by PartitionWords, if MPIX_Prequest_create() has made some for the request:
// each round of progress looks at them, and copies neighbouring partitions together, without a wait for the
// kernels, which may still run. The progress thread is awake meanwhile.

#pragma once

#include <fairlead/partitioned.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/memory/host_buffer.h"
#include "device/classify.h"
#include "device/copies/copy.h"
#include "device/pinned_buffer.h"
#include "kernels/kernel_run.h"
#include "mpi/abi/mutex.h"
#include "mpi/core/interception.h"
#include "mpi/core/operation.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/p2p/match_order.h"
#include "observe/statistics.h"
#include "p2p/partition_channel.h"

namespace fairlead::mpi {

// Words by which kernels and the CPU signal each other (include/fairlead/partitioned.h): one for each
// partition, in page-locked memory. A kernel sets that of a partition of a send when it is ready, or has been
// stored to the receiver, and the CPU clears it again; the CPU sets that of a partition of a receive when it
// is in device memory.
class PartitionWords {
 public:
  // Null if there is no page-locked memory.
  static std::shared_ptr<PartitionWords> make(int partitions) {
    auto made = std::make_shared<PartitionWords>(partitions);
    if (!made->memory_.pinned()) return nullptr;
    *made->way() = {};
    made->clear();
    return made;
  }
  explicit PartitionWords(int partitions)
      : partitions_(partitions),
        memory_(device::PinnedBuffer::of_program(sizeof(FairleadPartitionWay) +
                                                 sizeof(uint32_t) * static_cast<size_t>(partitions))) {}

  uint32_t* data() const { return reinterpret_cast<uint32_t*>(way() + 1); }
  // What a kernel has set the word to, which is cleared then.
  enum Mark : uint32_t { none, ready, stored };
  Mark mark(int partition) const { return Mark{word(partition).load(std::memory_order_acquire)}; }
  bool take(int partition, Mark expected) {
    if (mark(partition) != expected) return false;
    word(partition).store(none, std::memory_order_relaxed);
    return true;
  }
  // Kernels may store there, until it is closed.
  void open(const FairleadPartitionWay& to) {
    *way() = to;
    std::atomic_ref(way()->open).store(1, std::memory_order_release);
  }
  void close() { std::atomic_ref(way()->open).store(0, std::memory_order_release); }
  void set(int partition) { word(partition).store(1, std::memory_order_release); }
  void clear() {
    for (int partition = 0; partition < partitions_; ++partition)
      word(partition).store(0, std::memory_order_relaxed);
  }
  device::Error clear_on(device::Stream stream) {
    return device::runtime()->fill(data(), 0, sizeof(uint32_t) * static_cast<size_t>(partitions_), stream);
  }

 private:
  std::atomic_ref<uint32_t> word(int partition) const { return std::atomic_ref<uint32_t>(data()[partition]); }
  FairleadPartitionWay* way() const { return reinterpret_cast<FairleadPartitionWay*>(memory_.data()); }

  int partitions_;
  device::PinnedBuffer memory_;
};

class Partitioned : public Operation {
 public:
  // `buffer` is the first partition.
  Partitioned(const UserBuffer& buffer, int partitions, int peer, int tag, MPI_Comm comm, Traffic path);
  ~Partitioned() override;
  MPI_Comm comm() const { return comm_; }

  // `init` makes the host request for the memory, count and datatype that it gets.
  template <class Init>
  int make_request(Init init) {
    if (!has_host_memory()) return raise(MPI_ERR_OTHER);
    return layout_.contiguous ? init(host_.data(), buffer_.count, buffer_.datatype, &request_)
                              : init(host_.data(), layout_.bytes, MPI_BYTE, &request_);
  }
  // Which message it is, once the host MPI has its request.
  void set_key(const p2p::MessageKey& key) { key_ = key; }

  MPI_Request own_handle() const override { return request_; }

  bool has_words() const { return words_.use_count() > 1; }
  int partitions() const { return partitions_; }
  bool is_on(int device) const { return device::device_at(buffer_.address) == device; }
  uint64_t bytes_of(int partitions) const { return static_cast<uint64_t>(layout_.bytes * partitions); }
  bool exists(int partition) const { return partition >= 0 && partition < partitions_; }
  // Kernels of the program will mark or await partitions. False: it is too late, kernels of Fairlead's hand
  // them over.
  bool use(std::shared_ptr<PartitionWords> words);
  // The program has enqueued a start that the CPU will come to; `times` < 0: it does not any more.
  void note_start(int times = 1) { starts_enqueued_ += times; }
  bool will_start() const { return !active && starts_enqueued_ > 0; }
  // Does a stream run the round that the program has enqueued last?
  std::atomic<bool> in_stream = false;
  // A stream or a kernel will take part: rounds may become direct. `may_map`: the call may end a capture of
  // the program's.
  virtual void use_on_gpu(bool may_map) = 0;
  int start() override;
  // No peer depends on Fairlead: the host MPI alone moves what it has been given, and the progress thread
  // makes direct rounds.
  void quiesce() override {}
  std::string description() const override;
  int finish(MPI_Status* status) override;

 protected:
  // Can `key_` name a message whose bytes another rank of the node reads or writes as they are?
  bool may_be_direct() const;
  p2p::PartitionShape shape() const {
    return {partitions_, static_cast<uint64_t>(layout_.bytes), !has_words()};
  }
  int peer_on_node() const;
  virtual bool leave_to_cpu() = 0;
  // Is the round that starts now direct?
  virtual bool begin_direct() = 0;

  // True if the host MPI has sent or received the whole message. Tests the host request until it is complete,
  // which makes it inactive, because of the quirk partitioned_length.
  bool all_arrived();
  void end_round();

  // Copies runs of consecutive partitions that claim() accepts, one run after the other. Returns false while
  // a copy is in flight.
  bool copy_runs();
  // May a partition be copied now? If so, no other call may copy it.
  virtual bool claim(int partition) = 0;
  // The number of message bytes in so many partitions from the first one on.
  virtual size_t bytes_in(int first, int partitions) const;
  // Copies and waits.
  virtual bool copy_partitions(int first, int partitions) = 0;
  virtual device::Error start_copy(device::Copy& copy, int first, size_t bytes) = 0;
  // The partitions from first_ to end_ have been copied.
  virtual void end_run(device::Error state) = 0;

  char* in_device(int partition) const { return static_cast<char*>(buffer_.address) + stride_ * partition; }
  unsigned char* in_host(int partition) const { return host_.data() + layout_.bytes * partition; }

  Traffic path_;
  int peer_, tag_;
  int partitions_;
  KeptType datatype_;
  UserBuffer buffer_;
  Layout layout_;  // of one partition
  MPI_Count stride_ = 0;
  int device_ = -1;
  HostBuffer host_;  // the partitions, packed without gaps
  MPI_Request request_ = MPI_REQUEST_NULL;
  p2p::MessageKey key_;
  uint64_t rounds_ = 0;  // that have started
  bool on_gpu_ = false, direct_ = false;
  Mutex asking_;  // guards host MPI calls that query request_
  std::atomic<int> starts_enqueued_ = 0;
  std::atomic<bool> arrived_{false};
  MPI_Count came_ = -1;  // length of the received message, if the host MPI reported it
  int host_error_ = MPI_SUCCESS;
  int error_ = MPI_SUCCESS;
  std::shared_ptr<PartitionWords> words_;
  bool by_kernels_ = false;  // they take part in this round
  bool copying_ = false;
  int first_ = 0, end_ = 0;  // the partitions of the last run

 private:
  bool has_host_memory() const;
  bool claim_run();
  bool start_next_run();

  device::Copy copy_;

 protected:
  kernels::KernelRun handing_over_;
};

class PartitionedSend : public Partitioned {
 public:
  static constexpr Direction direction = Direction::to_peer;
  PartitionedSend(const UserBuffer& buffer, int partitions, int dest, int tag, MPI_Comm comm);

  int start() override;
  // The host request is tested only when all partitions are ready: quirk partitioned_early_end. If a
  // partition cannot be read, the send ends with an error.
  void advance() override;
  void describe(MPI_Status* status) override { set_empty(status); }

  // Marks partitions. `tell_host` is the host MPI's function, which refuses those that do not exist.
  template <class TellHost>
  int mark_ready(const std::vector<int>& partitions, TellHost tell_host) {
    if (!active) return tell_host();
    const bool direct = direct_;
    int result = MPI_SUCCESS;
    for (size_t i = 0; i < partitions.size() && result == MPI_SUCCESS; ++i)
      result = direct ? mark_direct(partitions[i], partitions[i]) : copy_out(partitions[i], partitions[i]);
    return direct ? result : end_marking(result, static_cast<int>(partitions.size()), tell_host);
  }
  template <class TellHost>
  int mark_ready(int low, int high, TellHost tell_host) {
    if (!active) return tell_host();
    if (direct_) return mark_direct(low, high);
    return end_marking(copy_out(low, high), high - low + 1, tell_host);
  }

  void use_on_gpu(bool may_map) override;
  // May a stream of the device run the next round alone?
  bool stream_may_run(int device);
  kernels::HandOver giving(int low, int high) const {
    return link_->giving(buffer_.address, low, high - low + 1);
  }
  p2p::PartitionLink& link() { return *link_; }

 private:
  void join();
  // Do kernels hand this round over?
  bool is_handed_over() const { return direct_ && link_->by_kernels(); }
  bool leave_to_cpu() override { return !link_ || !link_->by_kernels(); }
  bool begin_direct() override;
  bool claim(int partition) override;
  bool copy_partitions(int first, int partitions) override;
  device::Error start_copy(device::Copy& copy, int first, size_t bytes) override;
  void end_run(device::Error state) override;
  int copy_out(int low, int high);
  int mark_direct(int low, int high);
  template <class TellHost>
  int end_marking(int result, int partitions, TellHost tell_host) {
    if (result == MPI_SUCCESS) result = tell_host();
    if (result == MPI_SUCCESS) ready_ += partitions;
    return result;
  }
  void check(int low, int high);
  void log_unreadable();
  bool pack(int partition);
  void open_to_kernels();

  std::atomic<int> ready_{0};
  std::unique_ptr<p2p::PartitionLink> link_;
  bool opened_ = false;  // by the receiver
  std::vector<std::atomic<bool>> ready_to_write_;
};

class PartitionedReceive : public Partitioned {
 public:
  static constexpr Direction direction = Direction::from_peer;
  PartitionedReceive(const UserBuffer& buffer, int partitions, int source, int tag, MPI_Comm comm);

  int start() override;
  void advance() override;
  // There are no wildcards. The length is the one that the host MPI has reported, or else the same at both
  // ends.
  void describe(MPI_Status* status) override;
  int arrived(int partition, int* flag);
  device::Error clear_words_on(device::Stream stream) {
    return has_words() ? words_->clear_on(stream) : device::Error::none;
  }

  void use_on_gpu(bool may_map) override;
  // May a stream of the device run the next round alone?
  bool stream_may_run(int device);
  // Whose words that stream uses.
  p2p::PartitionOffer& offer() { return *offer_; }

 private:
  enum class Location : uint8_t { in_host, moving, in_device };

  bool leave_to_cpu() override { return !offer_ || offer_->leave_to_cpu(); }
  bool begin_direct() override;
  int ask_host(int partition, int* flag);
  size_t bytes_in(int first, int partitions) const override;
  bool copy_partitions(int first, int partitions) override;
  bool claim(int partition) override;
  device::Error start_copy(device::Copy& copy, int first, size_t bytes) override;
  void end_run(device::Error state) override;
  void set_in_device(int partition);
  bool see_arrivals();
  bool open_buffer();

  std::vector<std::atomic<Location>> locations_;
  std::unique_ptr<p2p::PartitionOffer> offer_;
  bool to_open_ = false;  // this round's buffer
};

// Null if the request is not one of Fairlead's.
template <class Type>
Type* find_partitioned(MPI_Request request) {
  if (!intercepting() || !engine().busy()) return nullptr;
  return dynamic_cast<Type*>(engine().find(request));
}

}  // namespace fairlead::mpi
