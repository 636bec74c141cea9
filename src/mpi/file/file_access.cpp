// SPDX-License-Identifier: Apache-2.0
//
// Blocking reads and writes. A long one of this rank alone is pipelined: while the host MPI reads or writes
// one piece, another is copied to or from the device.

#include "mpi/file/file_access.h"

#include <algorithm>

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

// Longer than the chunks of messages: the host MPI does more in a call on a file than in one on a message.
// Its count is an int.
uint64_t longest_piece() {
  return std::min(4 * options().pieces("network"), uint64_t{1} << 30);
}

struct Piece {
  explicit Piece(uint64_t length) : memory(length) {}
  device::PinnedBuffer memory;
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
    Piece pieces[] = {Piece(piece_bytes_), Piece(piece_bytes_)};  // one in the host MPI, one that is copied
    const auto write_to_file = [&](Piece& piece, uint64_t, uint64_t bytes) {
      return copied(piece.copy.wait()) && call_host(piece, bytes, status) == bytes;
    };
    const auto read_from_file = [&](Piece& piece, uint64_t at, uint64_t bytes) {
      const uint64_t arrived = call_host(piece, bytes, status);
      return (arrived == 0 || copied(piece.copy.start(elements_.device(), *elements_.view(), at,
                                                      {piece.memory.data(), arrived}, 0, arrived))) &&
             arrived == bytes;
    };
    const auto copy_out = [&](Piece& piece, uint64_t at, uint64_t bytes) {
      return copied(piece.copy.start(elements_.device(), {piece.memory.data(), bytes}, 0, *elements_.view(),
                                     at, bytes));
    };
    const auto copied_in = [&](Piece& piece, uint64_t, uint64_t) { return copied(piece.copy.wait()); };
    if (!pieces[0].memory.data() || !pieces[1].memory.data())
      copied(Error::out_of_memory);
    else if (call_.writes)
      packing::pass_in_pieces(pieces, total_, piece_bytes_, copy_out, write_to_file);
    else
      packing::pass_in_pieces(pieces, total_, piece_bytes_, read_from_file, copied_in);
    for (Piece& piece : pieces) copied(piece.copy.wait());
    set_byte_count(status, static_cast<MPI_Count>(done_));
    return result_ == MPI_SUCCESS && copied_ != Error::none ? raise_copy_error(call_, elements_) : result_;
  }

 private:
  // Returns how many bytes the host MPI has read or written.
  uint64_t call_host(const Piece& piece, uint64_t bytes, MPI_Status* status) {
    result_ = host_(static_cast<MPI_Offset>(done_ / etype_bytes_), piece.memory.data(),
                    static_cast<MPI_Count>(bytes), MPI_BYTE, status);
    const uint64_t moved = result_ == MPI_SUCCESS ? static_cast<uint64_t>(byte_count(*status)) : 0;
    done_ += moved;
    return moved;
  }

  // False if a copy has failed.
  bool copied(Error error) {
    if (copied_ == Error::none) copied_ = error;
    return copied_ == Error::none;
  }

  const FileCall& call_;
  const Elements& elements_;
  const BlockingFileHost& host_;
  const uint64_t total_;
  uint64_t etype_bytes_ = 0, piece_bytes_ = 0;
  uint64_t done_ = 0;  // read from or written to the file
  Error copied_ = Error::none;
  int result_ = MPI_SUCCESS;
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
  if (checks_streams())
    check_streams(device::device_at(first), call.buffer.address,
                  layout_of(call.buffer.count, call.buffer.datatype),
                  call.writes ? BufferUse::sent : BufferUse::received);
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
