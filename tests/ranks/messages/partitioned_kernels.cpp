// SPDX-License-Identifier: Apache-2.0
//
// Kernels that mark the partitions of a send, and look at those of a receive.

#include "messages/partitioned_kernels.h"

#include <fairlead/kernel.h>
#include <fairlead/partitioned.h>

using fairlead::kernel::block_index;
using fairlead::kernel::block_size;
using fairlead::kernel::thread_index;
using ranks::partition_byte;

// Block i writes and marks partition order[i]. The last block runs until *over is not 0, unless `over` is
// null.
FAIRLEAD_KERNEL(fill_and_mark, (unsigned char* data, unsigned long partition_bytes, unsigned seed,
                                const int* order, const volatile int* over, MPIX_Prequest prequest)) {
  const int partition = order[block_index()];
  unsigned char* const first = data + static_cast<unsigned long>(partition) * partition_bytes;
  for (unsigned long i = thread_index(); i < partition_bytes; i += block_size())
    first[i] = partition_byte(seed, partition, i);
  fairlead::kernel::block_barrier();
  if (!fairlead::kernel::is_last_thread()) return;
  MPIX_Pready(partition, prequest);
  if (!over || block_index() != fairlead::kernel::grid_size() - 1) return;
  while (!*over) {
  }
}

// Block i writes partition order[i], and its threads store it to the receiver.
FAIRLEAD_KERNEL(fill_and_store, (unsigned char* data, unsigned long partition_bytes, unsigned seed,
                                 const int* order, MPIX_Prequest prequest)) {
  const int partition = order[block_index()];
  unsigned char* const first = data + static_cast<unsigned long>(partition) * partition_bytes;
  for (unsigned long i = thread_index(); i < partition_bytes; i += block_size())
    first[i] = partition_byte(seed, partition, i);
  MPIX_Pready_block(partition, prequest, thread_index(), block_size());
}

// Stores which partitions have arrived.
FAIRLEAD_KERNEL(look_at_arrivals, (int* arrived, MPIX_Prequest prequest)) {
  for (int i = 0; i < prequest.partitions; ++i) MPIX_Parrived(prequest, i, &arrived[i]);
}

// Waits for each partition and copies it, by one thread.
FAIRLEAD_KERNEL(await_and_copy, (unsigned char* to, const unsigned char* from, unsigned long partition_bytes,
                                 MPIX_Prequest prequest)) {
  for (int partition = 0; partition < prequest.partitions; ++partition) {
    for (int flag = 0; !flag;) MPIX_Parrived(prequest, partition, &flag);
    const unsigned long first = static_cast<unsigned long>(partition) * partition_bytes;
    for (unsigned long i = first; i < first + partition_bytes; ++i) to[i] = from[i];
  }
}
