// SPDX-License-Identifier: Apache-2.0
//
// Partitioned sends and receives of device memory. The host MPI's partitioned functions move host memory in
// its place, so the host MPI does the matching, and peers may be of any kind. The user holds the host MPI's
// request. MPI_Pready copies its partitions out of the device before it calls the host MPI. MPI_Parrived
// copies a partition that has arrived into the device; the rest is copied when the receive completes. Each
// partition is copied once a round.
//
// Several threads may call MPI_Pready and MPI_Parrived at once; neither holds a lock while it copies.
//
// Kernels do the same by words (partition_words.h), if MPIX_Prequest_create() has made some for the request:
// each round of progress looks at them, and copies neighbouring partitions together, without a wait for the
// kernels, which may still run. The progress thread is awake meanwhile.

#include "mpi/p2p/partitioned.h"

#include <fairlead/partitioned.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "device/classify.h"
#include "device/copies/copy.h"
#include "device/copies/small_copy.h"
#include "mpi/abi/mutex.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/p2p/partition_words.h"
#include "observe/statistics.h"

namespace fairlead::mpi {
namespace {

using device::Error;

class Partitioned : public Operation {
 public:
  // `buffer` is the first partition.
  Partitioned(const UserBuffer& buffer, int partitions, int peer, int tag, MPI_Comm comm, Traffic path)
      : Operation(comm),
        path_(path),
        peer_(peer),
        tag_(tag),
        partitions_(partitions),
        datatype_(buffer.datatype),
        buffer_{buffer.address, buffer.count, datatype_.get()},
        layout_(layout_of(buffer.count, buffer.datatype)) {
    stride_ = extent_of(buffer_.datatype) * buffer.count;
    host_ = HostBuffer(static_cast<size_t>(layout_.bytes * partitions));
  }
  ~Partitioned() override {
    if (request_ != MPI_REQUEST_NULL) real.Request_free(&request_);
  }
  MPI_Comm comm() const { return comm_; }

  // `init` makes the host request for the memory, count and datatype that it gets.
  template <class Init>
  int make_request(Init init) {
    if (!host_.data()) {
      log_line(LogLevel::error, "no host memory for %d partitions of %lld bytes", partitions_,
               static_cast<long long>(layout_.bytes));
      return raise(MPI_ERR_OTHER);
    }
    return layout_.contiguous ? init(host_.data(), buffer_.count, buffer_.datatype, &request_)
                              : init(host_.data(), layout_.bytes, MPI_BYTE, &request_);
  }

  MPI_Request own_handle() const override { return request_; }

  bool has_words() const { return words_.use_count() > 1; }
  int partitions() const { return partitions_; }
  void use(std::shared_ptr<PartitionWords> words) { words_ = std::move(words); }

  int start() override {
    if (!has_words()) words_ = nullptr;  // MPIX_Prequest_free() has released them
    begin();
    record_.set_path(path_, static_cast<uint64_t>(layout_.bytes * partitions_));
    arrived_ = false;
    came_ = -1;
    host_error_ = error_ = MPI_SUCCESS;
    device_ = device::device_at(first_data_byte(buffer_.address, layout_));
    const int result = real.Start(&request_);
    if (words_ && result == MPI_SUCCESS) progress_thread().begin_enqueued();
    return result;
  }
  // No peer depends on Fairlead: the host MPI alone moves what it has been given.
  void quiesce() override {}
  std::string description() const override {
    return "a message of " + std::to_string(partitions_) + " partitions of " + bytes_in_words(layout_.bytes) +
           peer_in_words(path_ == Traffic::host_message_sent ? " to" : " from", peer_, tag_);
  }
  int finish(MPI_Status* status) override {
    record_.end();
    describe(status);
    if (host_error_ != MPI_SUCCESS) return host_error_;
    return error_ == MPI_SUCCESS ? MPI_SUCCESS : raise(error_);
  }

 protected:
  // True if the host MPI has sent or received the whole message. Tests the host request until it is complete,
  // which makes it inactive, because of the quirk partitioned_length.
  bool all_arrived() {
    if (arrived_) return true;
    std::lock_guard lock(asking_);
    MPI_Request request = request_;  // persistent: MPI_Test does not free it
    int done = 0;
    MPI_Status host;
    host.MPI_SOURCE = MPI_UNDEFINED;
    const int result = real.Test(&request, &done, &host);
    if (!done && result == MPI_SUCCESS) return false;
    if (host.MPI_SOURCE == peer_) came_ = byte_count(host);
    host_error_ = result;
    arrived_ = true;
    return true;
  }

  void end_round() {
    if (words_) progress_thread().end_enqueued(false);
    complete_.store(true, std::memory_order_release);
  }

  // Copies runs of consecutive partitions that claim() accepts, one run after the other. Returns false while
  // a copy is in flight.
  bool copy_runs() {
    do {
      if (!copying_) continue;
      const Error state = copy_.poll();
      if (state == Error::not_ready) return false;
      copying_ = false;
      end_run(state);
    } while (start_next_run());
    return true;
  }
  // May a partition be copied now? If so, no other call may copy it.
  virtual bool claim(int partition) = 0;
  // The number of message bytes in so many partitions from the first one on.
  virtual size_t bytes_in(int /*first*/, int partitions) const {
    return static_cast<size_t>(layout_.bytes * partitions);
  }
  // Copies and waits.
  virtual bool copy_partitions(int first, int partitions) = 0;
  // The partitions from first_ to end_ have been copied.
  virtual void end_run(Error state) = 0;

  bool exists(int partition) const { return partition >= 0 && partition < partitions_; }
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
  Mutex asking_;  // guards host MPI calls that query request_
  std::atomic<bool> arrived_{false};
  MPI_Count came_ = -1;  // length of the received message, if the host MPI reported it
  int host_error_ = MPI_SUCCESS;
  int error_ = MPI_SUCCESS;
  std::shared_ptr<PartitionWords> words_;  // null: no kernel takes part
  bool copying_ = false;
  int first_ = 0, end_ = 0;  // the partitions of the last run

 private:
  bool claim_run() {
    for (first_ = 0; first_ < partitions_; ++first_)
      if (claim(first_)) break;
    if (first_ == partitions_) return false;
    for (end_ = first_ + 1; exists(end_) && claim(end_);) ++end_;
    return true;
  }

  bool start_next_run() {
    if (!claim_run()) return false;
    if (words_) progress_thread().wake();
    const size_t bytes = bytes_in(first_, end_ - first_);
    if (!layout_.contiguous || bytes == 0) {
      end_run(copy_partitions(first_, end_ - first_) ? Error::none : Error::failed);
      return true;
    }
    count(path_, bytes);
    char* const device = in_device(first_);
    unsigned char* const host = in_host(first_);
    const Error state = path_ == Traffic::host_message_sent ? copy_.start(device_, host, device, bytes)
                                                            : copy_.start(device_, device, host, bytes);
    copying_ = state == Error::none;
    if (!copying_) end_run(state);
    return true;
  }

  device::Copy copy_;
};

class PartitionedSend : public Partitioned {
 public:
  PartitionedSend(const UserBuffer& buffer, int partitions, int dest, int tag, MPI_Comm comm)
      : Partitioned(buffer, partitions, dest, tag, comm, Traffic::host_message_sent) {}

  int start() override {
    ready_ = 0;
    return Partitioned::start();
  }

  // The host request is tested only when all partitions are ready: quirk partitioned_early_end. If a
  // partition cannot be read, the send ends with an error.
  void advance() override {
    if (complete() || (words_ && !copy_runs())) return;
    if (error_ != MPI_SUCCESS || (ready_ >= partitions_ && all_arrived())) end_round();
  }

  void describe(MPI_Status* status) override { set_empty(status); }

  // Call before the host MPI's MPI_Pready for partitions `low` to `high`. The host MPI reports the error if a
  // partition does not exist.
  int copy_out(int low, int high) {
    if (!exists(low) || !exists(high) || low > high || layout_.bytes == 0) return MPI_SUCCESS;
    if (checks_streams())
      check_streams(device_, in_device(low), layout_of((high - low + 1) * buffer_.count, buffer_.datatype),
                    BufferUse::sent);
    if (copy_partitions(low, high - low + 1)) return MPI_SUCCESS;
    log_unreadable();
    return raise(MPI_ERR_OTHER);
  }
  // Call after the host MPI's MPI_Pready.
  void note_ready(int partitions) { ready_ += partitions; }

 private:
  bool claim(int partition) override { return words_->take(partition); }

  bool copy_partitions(int first, int partitions) override {
    const size_t bytes = bytes_in(first, partitions);
    if (bytes == 0) return true;
    count(path_, bytes);
    if (layout_.contiguous)
      return device::copy_to_host(device_, in_host(first), in_device(first), bytes) == Error::none;
    bool copied = true;
    for (int partition = first; partition < first + partitions && copied; ++partition)
      copied = pack(partition);
    return copied;
  }

  // What kernels have marked ready is in host memory.
  void end_run(Error state) override {
    if (state == Error::none) {
      error_ = real.Pready_range(first_, end_ - 1, request_);
      note_ready(end_ - first_);
    } else {
      log_unreadable();
      error_ = MPI_ERR_OTHER;
    }
  }

  void log_unreadable() {
    log_line(LogLevel::error, "a device buffer cannot be read: %s", device::runtime()->error_text());
  }

  bool pack(int partition) {
    HostBuffer packed;
    if (!pack_from_device(in_device(partition), buffer_.count, buffer_.datatype, layout_, device_, &packed))
      return false;
    std::memcpy(in_host(partition), packed.data(), static_cast<size_t>(layout_.bytes));
    return true;
  }

  std::atomic<int> ready_{0};
};

class PartitionedReceive : public Partitioned {
 public:
  PartitionedReceive(const UserBuffer& buffer, int partitions, int source, int tag, MPI_Comm comm)
      : Partitioned(buffer, partitions, source, tag, comm, Traffic::host_message_received),
        locations_(static_cast<size_t>(partitions)) {}

  int start() override {
    for (auto& location : locations_) location = Location::in_host;
    if (words_) words_->clear();
    int result = Partitioned::start();
    if (layout_.bytes > 0 && !words_ && checks_streams())
      check_streams(device_, in_device(0), layout_of(partitions_ * buffer_.count, buffer_.datatype),
                    BufferUse::received);
    return result;
  }

  void advance() override {
    if (complete()) return;
    const bool all = all_arrived();
    if ((!all && !words_) || !copy_runs() || !all) return;
    for (auto& location : locations_)
      if (location.load(std::memory_order_acquire) != Location::in_device) return;  // still in MPI_Parrived
    end_round();
  }

  // There are no wildcards. The length is the one that the host MPI has reported, or else the same at both
  // ends.
  void describe(MPI_Status* status) override {
    set_empty(status);
    status->MPI_SOURCE = peer_;
    if (peer_ == MPI_PROC_NULL) return;
    status->MPI_TAG = tag_;
    set_byte_count(status, came_ >= 0 ? came_ : layout_.bytes * partitions_);
  }

  int arrived(int partition, int* flag) {
    if (!exists(partition)) return real.Parrived(request_, partition, flag);
    *flag = 1;
    if (!active || complete()) return MPI_SUCCESS;
    std::atomic<Location>& location = locations_[static_cast<size_t>(partition)];
    if (location.load(std::memory_order_acquire) == Location::in_device) return MPI_SUCCESS;
    if (int result = ask_host(partition, flag); result != MPI_SUCCESS || !*flag) return result;
    Location expected = Location::in_host;
    if (location.compare_exchange_strong(expected, Location::moving)) {
      // If the copy fails, the receive tries it once more when it completes, and reports an error if that
      // fails too.
      expected = copy_partitions(partition, 1) ? Location::in_device : Location::in_host;
      if (expected == Location::in_device)
        set_in_device(partition);
      else
        location.store(expected, std::memory_order_release);
    }
    *flag = expected == Location::in_device;
    return MPI_SUCCESS;
  }

  Error clear_words_on(device::Stream stream) { return has_words() ? words_->clear_on(stream) : Error::none; }

 private:
  enum class Location : uint8_t { in_host, moving, in_device };

  // Asks the host MPI only while its request is active. Later, every partition has arrived.
  int ask_host(int partition, int* flag) {
    std::lock_guard lock(asking_);
    return arrived_ ? MPI_SUCCESS : real.Parrived(request_, partition, flag);
  }

  // Beyond the end of a shorter message, the buffer stays as it is.
  size_t bytes_in(int first, int partitions) const override {
    const MPI_Count room = layout_.bytes * partitions;
    if (!arrived_ || came_ < 0) return static_cast<size_t>(room);
    return static_cast<size_t>(std::clamp(came_ - layout_.bytes * first, MPI_Count{0}, room));
  }

  bool copy_partitions(int first, int partitions) override {
    const size_t bytes = bytes_in(first, partitions);
    if (bytes == 0) return true;
    count(path_, bytes);
    if (layout_.contiguous)
      return device::copy_now(device_, in_device(first), in_host(first), bytes) == Error::none;
    for (int partition = first; partition < first + partitions; ++partition)
      if (const size_t some = bytes_in(partition, 1); some > 0)
        if (!unpack_to_device(in_host(partition), static_cast<MPI_Count>(some), in_device(partition),
                              buffer_.count, buffer_.datatype, layout_, device_))
          return false;
    return true;
  }

  bool claim(int partition) override {
    std::atomic<Location>& location = locations_[static_cast<size_t>(partition)];
    Location expected = location.load(std::memory_order_relaxed);
    int arrived = 1;
    if (expected != Location::in_host || ask_host(partition, &arrived) != MPI_SUCCESS || !arrived)
      return false;
    return location.compare_exchange_strong(expected, Location::moving);
  }

  void end_run(Error state) override {
    if (state != Error::none) {
      log_line(LogLevel::error, "a received message cannot be written to device memory: %s",
               device::runtime()->error_text());
      error_ = MPI_ERR_OTHER;
    }
    // Also after an error, which the completion of the receive returns: a kernel may wait for these.
    for (int partition = first_; partition < end_; ++partition) set_in_device(partition);
  }

  void set_in_device(int partition) {
    locations_[static_cast<size_t>(partition)].store(Location::in_device, std::memory_order_release);
    if (words_) words_->set(partition);
  }

  std::vector<std::atomic<Location>> locations_;
};

// Returns null if the host MPI can handle the call alone, or refuses it.
template <class Type>
std::unique_ptr<Type> make(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int peer,
                           int tag, MPI_Comm comm) {
  if (!intercepting() || partitions <= 0 || is_invalid(buf, count, datatype) || !is_device(buf, datatype) ||
      is_refused(count, datatype))
    return nullptr;
  return std::make_unique<Type>(UserBuffer{buf, count, datatype}, partitions, peer, tag, comm);
}

template <class Type, class Init>
int hand_out_partitioned(std::unique_ptr<Type> operation, Init init, MPI_Request* request) {
  if (int result = operation->make_request(init); result != MPI_SUCCESS) return result;
  MPI_Request handle = operation->own_handle();
  hand_out_persistent(std::move(operation), handle, request);
  return MPI_SUCCESS;
}

// Returns null if the request is not one of Fairlead's.
template <class Type>
Type* find(MPI_Request request) {
  if (!intercepting() || !engine().busy()) return nullptr;
  return dynamic_cast<Type*>(engine().find(request));
}

template <class CopyOut, class TellHost>
int mark_ready(MPI_Request request, int partitions, CopyOut copy_out, TellHost tell_host) {
  auto* operation = find<PartitionedSend>(request);
  if (!operation) return tell_host();
  int result = copy_out(*operation);
  if (result == MPI_SUCCESS) result = tell_host();
  if (result == MPI_SUCCESS) operation->note_ready(partitions);
  return result;
}

// The words of all MPIX_Prequest that are not freed, by their address.
struct Prequests {
  Mutex mutex;
  std::map<const void*, std::shared_ptr<PartitionWords>> words;
};
auto& prequests = *new Prequests;

int refuse(const char* function, const std::string& why, MPI_Comm comm = comm_of_no_object()) {
  return refuse_call(comm, function, MPI_ERR_REQUEST, why);
}

int create(MPI_Request request, MPIX_Prequest* prequest) {
  const char* name = "MPIX_Prequest_create";
  auto* operation = find<Partitioned>(request);
  if (!operation)
    return refuse(name,
                  "the request is not one of MPI_Psend_init or MPI_Precv_init for device memory; a kernel "
                  "cannot mark partitions of host memory");
  if (operation->active || operation->has_words())
    return refuse(name,
                  operation->active ? "the request is active" : "the request has an MPIX_Prequest already",
                  operation->comm());
  if (const std::string why = why_no_progress_thread(); !why.empty())
    return refuse(name, why, operation->comm());
  std::shared_ptr<PartitionWords> words = PartitionWords::make(operation->partitions());
  if (!words) return refuse(name, "no page-locked memory is left for it (FAIRLEAD_POOLS)", operation->comm());
  *prequest = {words->data(), operation->partitions()};
  operation->use(words);
  std::lock_guard lock(prequests.mutex);
  prequests.words[words->data()] = std::move(words);
  return MPI_SUCCESS;
}

int free_prequest(MPIX_Prequest* prequest) {
  std::unique_lock lock(prequests.mutex);
  const bool found = prequests.words.erase(prequest->words) > 0;
  lock.unlock();
  if (!found) return refuse("MPIX_Prequest_free", "this is not what MPIX_Prequest_create has returned");
  *prequest = {};
  return MPI_SUCCESS;
}

}  // namespace

device::Error clear_arrivals(MPI_Request request, device::Stream stream) {
  auto* operation = find<PartitionedReceive>(request);
  return operation ? operation->clear_words_on(stream) : Error::none;
}

}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPIX(Prequest_create, (MPI_Request request, MPIX_Prequest* prequest)) {
  return create(request, prequest);
}

FAIRLEAD_MPIX(Prequest_free, (MPIX_Prequest * prequest)) {
  return free_prequest(prequest);
}

FAIRLEAD_MPI(Psend_init, (const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                          int tag, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
  CallRecord record(Function::Psend_init, a_send(partitions * count, datatype, dest, tag, comm, request));
  auto init = [&](const void* host, MPI_Count host_count, MPI_Datatype host_type, MPI_Request* into) {
    return real.Psend_init(host, partitions, host_count, host_type, dest, tag, comm, info, into);
  };
  auto operation =
      make<PartitionedSend>(const_cast<void*>(buf), partitions, count, datatype, dest, tag, comm);
  return operation ? hand_out_partitioned(std::move(operation), init, request)
                   : init(buf, count, datatype, request);
}

FAIRLEAD_MPI(Precv_init, (void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source,
                          int tag, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
  CallRecord record(Function::Precv_init,
                    a_receive(partitions * count, datatype, source, tag, comm, request));
  auto init = [&](void* host, MPI_Count host_count, MPI_Datatype host_type, MPI_Request* into) {
    return real.Precv_init(host, partitions, host_count, host_type, source, tag, comm, info, into);
  };
  auto operation = make<PartitionedReceive>(buf, partitions, count, datatype, source, tag, comm);
  return operation ? hand_out_partitioned(std::move(operation), init, request)
                   : init(buf, count, datatype, request);
}

FAIRLEAD_MPI(Pready, (int partition, MPI_Request request)) {
  CallRecord record(Function::Pready);
  return mark_ready(
      request, 1, [&](PartitionedSend& operation) { return operation.copy_out(partition, partition); },
      [&] { return real.Pready(partition, request); });
}

FAIRLEAD_MPI(Pready_range, (int low, int high, MPI_Request request)) {
  CallRecord record(Function::Pready_range);
  return mark_ready(
      request, high - low + 1, [&](PartitionedSend& operation) { return operation.copy_out(low, high); },
      [&] { return real.Pready_range(low, high, request); });
}

FAIRLEAD_MPI(Pready_list, (int length, const int partitions[], MPI_Request request)) {
  CallRecord record(Function::Pready_list);
  auto copy_out = [&](PartitionedSend& operation) {
    int result = MPI_SUCCESS;
    for (int i = 0; i < length && result == MPI_SUCCESS; ++i)
      result = operation.copy_out(partitions[i], partitions[i]);
    return result;
  };
  return mark_ready(request, length, copy_out, [&] { return real.Pready_list(length, partitions, request); });
}

FAIRLEAD_MPI(Parrived, (MPI_Request request, int partition, int* flag)) {
  CallRecord record(Function::Parrived);
  if (intercepting() && engine().busy()) engine().progress();
  if (auto* operation = find<PartitionedReceive>(request)) return operation->arrived(partition, flag);
  return real.Parrived(request, partition, flag);
}
