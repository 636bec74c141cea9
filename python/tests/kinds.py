# SPDX-License-Identifier: Apache-2.0
"""The kinds of arrays that tests pass to mpi4py, behind one small interface.

Each kind makes a device array from a NumPy array, waits until it is there, as MPI demands of the caller, and brings
it back. None of them changes what mpi4py or the array library does with it.
"""

import numpy as np


class Unavailable(Exception):
    """The library is not installed, or there is no device for it."""


class Sim:
    """Fairlead's own arrays, on the simulated GPU or any other."""

    def __init__(self):
        from fairlead import arrays

        if arrays.device_count() == 0:
            raise Unavailable("no device")
        self.arrays = arrays

    def choose(self, local_rank):
        self.arrays.set_device(local_rank % self.arrays.device_count())

    def make(self, array):
        return self.arrays.from_numpy(array)

    def back(self, array):
        return array.to_numpy()


class Cupy:
    def __init__(self):
        try:
            import cupy

            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as error:
            raise Unavailable(error) from None
        self.cupy, self.count = cupy, count

    def choose(self, local_rank):
        self.cupy.cuda.Device(local_rank % self.count).use()

    def make(self, array):
        result = self.cupy.asarray(array)
        self.cupy.cuda.get_current_stream().synchronize()
        return result

    def back(self, array):
        return self.cupy.asnumpy(array)


class Torch:
    def __init__(self):
        try:
            import torch
        except ImportError as error:
            raise Unavailable(error) from None
        if not torch.cuda.is_available():
            raise Unavailable("PyTorch sees no GPU")
        self.torch = torch

    def choose(self, local_rank):
        self.torch.cuda.set_device(local_rank % self.torch.cuda.device_count())

    def make(self, array):
        result = self.torch.from_numpy(np.ascontiguousarray(array)).cuda()
        self.torch.cuda.synchronize()
        return result

    def back(self, array):
        return array.cpu().numpy()


class Numba:
    def __init__(self):
        try:
            from numba import cuda

            available = cuda.is_available()
        except Exception as error:
            raise Unavailable(error) from None
        if not available:
            raise Unavailable("Numba sees no GPU")
        self.cuda = cuda

    def choose(self, local_rank):
        self.cuda.select_device(local_rank % len(self.cuda.gpus))

    def make(self, array):
        result = self.cuda.to_device(np.ascontiguousarray(array))
        self.cuda.synchronize()
        return result

    def back(self, array):
        return array.copy_to_host()


class Jax:
    """JAX takes its arrays for constant: each is made for one call, and read once behind it."""

    def __init__(self):
        try:
            import jax

            self.devices = jax.devices("gpu")
        except Exception as error:
            raise Unavailable(error) from None
        jax.config.update("jax_enable_x64", True)
        self.jax, self.device = jax, self.devices[0]

    def choose(self, local_rank):
        self.device = self.devices[local_rank % len(self.devices)]

    def make(self, array):
        return self.jax.device_put(array, self.device).block_until_ready()

    def back(self, array):
        return np.asarray(array)


class Numpy:
    """Host memory: what a case means, for a run without Fairlead."""

    def choose(self, local_rank):
        pass

    def make(self, array):
        return np.array(array)

    def back(self, array):
        return array


KINDS = {"sim": Sim, "cupy": Cupy, "torch": Torch, "numba": Numba, "jax": Jax, "numpy": Numpy}
