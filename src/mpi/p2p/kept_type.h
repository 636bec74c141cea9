// SPDX-License-Identifier: Apache-2.0
//
// The same as a derived datatype, and made of it: the program may free its own while the message is on its
// way. Making one of many blocks takes long, so that there is none where `layout` tells all.

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
  // The same buffer with the copy; or, where there is none, with the bytes that travel.
  UserBuffer kept(const UserBuffer& buffer) const;

 private:
  MPI_Datatype datatype_;
  MPI_Count bytes_ = 0;
  bool own_ = false;
};

}  // namespace fairlead::mpi
