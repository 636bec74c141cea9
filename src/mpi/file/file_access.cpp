// SPDX-License-Identifier: Apache-2.0
//
// Blocking reads and writes. A long one of this rank alone is pipelined: while the host MPI reads or writes
// one piece, another is copied to or from the device.

#include "mpi/file/file_access.h"

#include <algorithm>
#include <deque>

#include "base/options.h"
#include "device/pinned_buffer.h"
#include "mpi/check/stream_check.h"
#include "mpi/core/operation.h"
#include "mpi/core/record.h"
#include "mpi/file/file_buffer.h"
#include "observe/statistics.h"

namespace fairlead::mpi::file {

using device::Error;

namespace {

constexpr size_t pieces_at_once = 2;  // one in the host MPI, one that is copied

// Longer than the chunks of messages: the host MPI does more in a call on a file than in one on a message.
// Its count is an int.
uint64_t longest_piece() {
  return std::min(4 * options().pieces("network"), uint64_t{1} << 30);
}

struct Piece {
  explicit Piece(uint64_t length) : memory(length), bytes(length) {}
  device::PinnedBuffer memory;
  uint64_t bytes;
  packing::Move copy;
};

class Pipeline {
 public:
  Pipeline(FileBuffer& buffer, const BlockingFileHost& host)
      : call_(buffer.call()), elements_(buffer.elements()), host_(host), total_(elements_.bytes()) {
    if (!call_.may_split || !elements_.view() || total_ <= longest_piece()) return;
    if (call_.offset == own_pointer && !PointerTurn::is_alone(call_.file)) return;
    if (!call_.writes && buffer.may_end_early()) return;
    const FileView& view = buffer.view();
    int atomic = 0;
    if (!view.native || view.etype_bytes <= 0 ||
        PMPI_File_get_atomicity(call_.file, &atomic) != MPI_SUCCESS || atomic)
      return;
    etype_bytes_ = static_cast<uint64_t>(view.etype_bytes);
    piece_bytes_ = longest_piece() / etype_bytes_ * etype_bytes_;
    // The host MPI refuses a part of an etype before it touches the file.
    if (total_ % etype_bytes_ != 0) piece_bytes_ = 0;
  }
  bool possible() const { return piece_bytes_ > 0; }

  int run(MPI_Status* status) {
    int result = call_.writes ? write(status) : read(status);
    for (Piece& piece : pieces_) note(piece.copy.wait());
    set_byte_count(status, static_cast<MPI_Count>(done_));
    return result == MPI_SUCCESS && copied_ != Error::none ? raise_copy_error(call_, elements_) : result;
  }

 private:
  int write(MPI_Status* status) {
    uint64_t started = 0;
    while (done_ < total_) {
      for (; started < total_ && pieces_.size() < pieces_at_once; started += pieces_.back().bytes) {
        Piece& piece = pieces_.emplace_back(std::min(piece_bytes_, total_ - started));
        note(!piece.memory.data() ? Error::out_of_memory
                                  : piece.copy.start(elements_.device(), {piece.memory.data(), piece.bytes},
                                                     0, *elements_.view(), started, piece.bytes));
      }
      note(pieces_.front().copy.wait());
      if (copied_ != Error::none) return MPI_SUCCESS;
      uint64_t written = 0;
      const int result = call_host(pieces_.front(), status, &written);
      if (result != MPI_SUCCESS || written < pieces_.front().bytes) return result;
      pieces_.pop_front();
    }
    return MPI_SUCCESS;
  }

  int read(MPI_Status* status) {
    while (done_ < total_ && copied_ == Error::none) {
      if (pieces_.size() == pieces_at_once) {
        note(pieces_.front().copy.wait());
        pieces_.pop_front();
      }
      Piece& piece = pieces_.emplace_back(std::min(piece_bytes_, total_ - done_));
      if (!piece.memory.data()) {
        note(Error::out_of_memory);
        break;
      }
      const uint64_t at = done_;
      uint64_t arrived = 0;
      const int result = call_host(piece, status, &arrived);
      if (arrived > 0)
        note(piece.copy.start(elements_.device(), *elements_.view(), at, {piece.memory.data(), arrived}, 0,
                              arrived));
      if (result != MPI_SUCCESS || arrived < piece.bytes) return result;
    }
    return MPI_SUCCESS;
  }

  int call_host(const Piece& piece, MPI_Status* status, uint64_t* moved) {
    const int result = host_(static_cast<MPI_Offset>(done_ / etype_bytes_), piece.memory.data(),
                             static_cast<MPI_Count>(piece.bytes), MPI_BYTE, status);
    if (result == MPI_SUCCESS) *moved = static_cast<uint64_t>(byte_count(*status));
    done_ += *moved;
    return result;
  }

  void note(Error error) {
    if (copied_ == Error::none) copied_ = error;
  }

  const FileCall& call_;
  const Elements& elements_;
  const BlockingFileHost& host_;
  const uint64_t total_;
  uint64_t etype_bytes_ = 0, piece_bytes_ = 0;
  uint64_t done_ = 0;  // read from or written to the file
  Error copied_ = Error::none;
  std::deque<Piece> pieces_;
};

}  // namespace

bool is_accepted(const FileCall& call) {
  const UserBuffer& buffer = call.buffer;
  return call.file != MPI_FILE_NULL && packed_bytes(buffer.count, buffer.datatype) > 0 &&
         !is_refused(buffer.count, buffer.datatype);
}

int begin_staging(const FileCall& call) {
  if (!options().gpu_support) return refuse_file(call.file);
  const void* first = first_data_byte(call.buffer.address, call.buffer.datatype);
  check_streams(device::device_at(first), call.writes ? BufferUse::sent : BufferUse::received);
  count(Traffic::file, static_cast<uint64_t>(packed_bytes(call.buffer.count, call.buffer.datatype)));
  return MPI_SUCCESS;
}

int access_staged(const FileCall& call, MPI_Status* status, const BlockingFileHost& host) {
  if (int result = begin_staging(call); result != MPI_SUCCESS) return result;
  BlockingHostCall blocking_call;
  const PointerTurn turn(call.file, call.offset,
                         call.may_split ? PointerTurn::With::nobody_if_free : PointerTurn::With::others);
  MessageRecord record;
  record.begin();
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  FileBuffer buffer(call, FileBuffer::Needed::in_call);
  record.set_path(Traffic::file, buffer.elements().bytes());
  int result;
  if (Pipeline pipeline(buffer, host); pipeline.possible()) {
    result = pipeline.run(status);
  } else {
    result = buffer.call_host(host, status);
    if (result == MPI_SUCCESS) result = buffer.store(byte_count(*status));
  }
  record.end();
  return result;
}

}  // namespace fairlead::mpi::file
