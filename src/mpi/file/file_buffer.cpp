// SPDX-License-Identifier: Apache-2.0

#include "mpi/file/file_buffer.h"

#include <string_view>

#include "base/log.h"
#include "mpi/core/error_handler.h"
#include "mpi/datatype/type_origin.h"

namespace fairlead::mpi {

using device::Error;

FileView::FileView(MPI_File file) {
  MPI_Offset displacement = 0;
  MPI_Datatype etype = MPI_DATATYPE_NULL, filetype = MPI_DATATYPE_NULL;
  char representation[MPI_MAX_DATAREP_STRING] = "";
  if (PMPI_File_get_view(file, &displacement, &etype, &filetype, representation) != MPI_SUCCESS) return;
  native = representation == std::string_view("native");
  etype_bytes = packed_bytes(1, etype);
  MPI_Count lower = 0;
  PMPI_Type_get_true_extent_x(etype, &lower, &etype_span);
  for (MPI_Datatype* type : {&etype, &filetype})
    if (!is_predefined(*type)) PMPI_Type_free(type);
}

FileBuffer::FileBuffer(const FileCall& call, Needed needed)
    : call_(call),
      // Also without gaps: quirk nested_types_misread.
      as_bytes_(!is_plain(call.buffer.datatype) && view().native),
      elements_(to_keep(needed)),
      as_image_(!as_bytes_ && !elements_.layout().contiguous),
      host_elements_(as_bytes_ ? elements_.layout().bytes : call.buffer.count,
                     as_bytes_ ? MPI_BYTE : elements_.buffer().datatype) {}

UserBuffer FileBuffer::to_keep(Needed needed) {
  UserBuffer kept = call_.buffer;
  if (needed == Needed::in_call || is_plain(kept.datatype)) return kept;
  const Layout layout = layout_of(kept.count, kept.datatype);
  if (!as_bytes_ || !(layout.plan || layout.contiguous))
    kept.datatype = kept_type_.emplace(kept.datatype).get();
  return kept;
}

bool FileBuffer::compare_lengths() {
  MPI_Offset first = call_.offset, last = 0, length = 0;
  if (first == own_pointer &&
      (!PointerTurn::is_alone(call_.file) || PMPI_File_get_position(call_.file, &first) != MPI_SUCCESS))
    return true;
  // In other representations, elements have other lengths in the file.
  if (first < 0 || !view().native || view().etype_bytes <= 0) return true;
  const auto bytes = static_cast<MPI_Count>(elements_.bytes());
  const MPI_Offset last_etype = first + static_cast<MPI_Offset>((bytes - 1) / view().etype_bytes);
  return PMPI_File_get_byte_offset(call_.file, last_etype, &last) != MPI_SUCCESS ||
         PMPI_File_get_size(call_.file, &length) != MPI_SUCCESS ||
         last + static_cast<MPI_Offset>(view().etype_span) > length;
}

void FileBuffer::load() {
  const bool filled = call_.writes || may_end_early();
  if (as_image_) {
    loaded_ = image_.emplace(elements_, filled).valid();
    return;
  }
  memory_ = device::PinnedBuffer(elements_.bytes());
  if (!memory_.data()) return;
  loaded_ = !filled ||
            (elements_.view() ? packing::move_now(elements_.device(), {memory_.data(), elements_.bytes()}, 0,
                                                  *elements_.view(), 0, elements_.bytes()) == Error::none
                              : elements_.pack(memory_.data()));
}

Error FileBuffer::start_store(MPI_Count bytes) {
  if (call_.writes || bytes == 0 || !loaded_) return Error::none;
  if (!image_ && elements_.view())
    return move_.start(elements_.device(), *elements_.view(), 0, {memory_.data(), elements_.bytes()}, 0,
                       static_cast<uint64_t>(bytes));
  const bool stored = image_ ? image_->write_back(bytes) : elements_.unpack(memory_.data(), bytes);
  return stored ? Error::none : Error::failed;
}

int FileBuffer::result(Error stored) const {
  return loaded_ && stored == Error::none ? MPI_SUCCESS : raise_copy_error(call_, elements_);
}

int FileBuffer::store(MPI_Count bytes) {
  const Error started = start_store(bytes);
  return result(started == Error::none ? move_.wait() : started);
}

std::string description(const FileCall& call, const Elements& elements) {
  return (call.writes ? "a write of " : "a read of ") + bytes_in_words(elements.layout().bytes) +
         (call.writes ? " to a file" : " from a file") + overrun(elements.address(), elements.layout());
}

int raise_copy_error(const FileCall& call, const Elements& elements) {
  log_line(LogLevel::error, "a device buffer cannot be copied to or from host memory: %s",
           device::runtime() ? device::runtime()->error_text() : "out of memory");
  return raise_file_error(call.file, MPI_ERR_OTHER, description(call, elements));
}

}  // namespace fairlead::mpi
