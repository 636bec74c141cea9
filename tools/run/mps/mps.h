// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's Multi-Process Service for ranks that share a GPU: one control daemon for each node of a job, in
// folders of its own. The first rank of the node starts it; it ends with the last one, whatever ended that.

#pragma once

namespace fairlead::tools {

// Starts the daemon where none runs, and sets the variables by which CUDA finds it, for this process and the
// program that it becomes. A daemon that the user has started is used, and left alone. Throws a Failure where
// MPS cannot be started.
void use_mps();

}  // namespace fairlead::tools
