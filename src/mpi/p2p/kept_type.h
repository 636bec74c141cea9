// SPDX-License-Identifier: Apache-2.0
//
// A datatype equal to a derived one and built from it, because the program may free its own while the message
// is in flight. Building one from a datatype of many blocks takes long, so KeptType builds none if `layout`
// describes the datatype completely.

#pragma once

#include "mpi/datatype/first_bytes.h"

namespace fairlead::mpi {

class KeptType {
 public:
  explicit KeptType(MPI_Datatype datatype, const Layout& layout = {});
  ~KeptType();
  KeptType(const KeptType&) = delete;
  KeptType& operator=(const KeptType&) = delete;
  MPI_Datatype get() const { return datatype_; }
  // The same buffer with the kept datatype; if `layout` made that unnecessary, the same address with MPI_BYTE
  // and the number of bytes of the message.
  UserBuffer kept(const UserBuffer& buffer) const;

 private:
  MPI_Datatype datatype_;
  MPI_Count bytes_ = 0;
  bool own_ = false;
};

}  // namespace fairlead::mpi
