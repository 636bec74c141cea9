# SPDX-License-Identifier: Apache-2.0
"""AMD machines as their kernel describes them (KFD, /sys/class/kfd/kfd/topology), made from short tables.

Reduced models, written by hand after the documentation of the kernel and of the products; no file is of a machine that
exists. A tree is a table of texts by path, below the folder of the topology. Addresses are in the order of the nodes.
"""

import os

TOPOLOGY = "sys/class/kfd/kfd/topology"
PCIE, XGMI = 2, 11
HOP, IN_PACKAGE = 15, 13  # weights of XGMI
GFX90A, GFX942, GFX1100 = 90010, 90402, 110000
SIMDS = {GFX90A: 440, GFX942: 1216, GFX1100: 192}


def properties(**values):
    return "".join(f"{name} {value}\n" for name, value in values.items())


def location(address):
    """Domain and location of "0000:c1:00.0"."""
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    return int(domain, 16), int(bus, 16) << 8 | int(device, 16) << 3 | int(function)


def tree(processors, gpus, link):
    """`gpus`: address and target version of each; link(a, b) of two of them: type, weight, least and most MB/s, or None."""
    files = {}
    for node in range(processors):
        files[f"nodes/{node}/gpu_id"] = "0\n"
        files[f"nodes/{node}/properties"] = properties(
            cpu_cores_count=32, simd_count=0, mem_banks_count=1, gfx_target_version=0, vendor_id=0, location_id=0, domain=0)
    for place, (address, version) in enumerate(gpus):
        domain, where = location(address)
        node = f"nodes/{processors + place}"
        links = [(other, link(place, other)) for other in range(len(gpus)) if other != place]
        links = [(other, found) for other, found in links if found]
        files[f"{node}/gpu_id"] = f"{40000 + place}\n"
        files[f"{node}/properties"] = properties(
            cpu_cores_count=0, simd_count=SIMDS[version], mem_banks_count=1, caches_count=200,
            io_links_count=1 + len(links), p2p_links_count=0, wave_front_size=32 if version >= 100000 else 64,
            gfx_target_version=version, vendor_id=4098, device_id=29704, location_id=where, domain=domain,
            drm_render_minor=128 + place, hive_id=0, unique_id=1000 + place, num_xcc=1)
        ends = [(0, (PCIE, 20, 312, 32000))] + [(processors + other, found) for other, found in links]
        for number, (other, (kind, weight, least, most)) in enumerate(ends):
            folder = "p2p_links" if kind == PCIE and other >= processors else "io_links"
            files[f"{node}/{folder}/{number}/properties"] = properties(
                type=kind, version_major=0, version_minor=0, node_from=processors + place, node_to=other, weight=weight,
                min_latency=0, max_latency=0, min_bandwidth=least, max_bandwidth=most, recommended_transfer_size=0, flags=1)
    return files


def packages_of_two(addresses, same_package):
    """MI250X: four links in a package, one or two between some, two hops between the others."""
    two_links = [{0, 6}, {2, 4}]
    one_link = [{1, 3}, {1, 5}, {3, 7}, {5, 7}]

    def link(a, b):
        if same_package(a, b):
            return XGMI, HOP, 50000, 200000
        if {a, b} in two_links:
            return XGMI, HOP, 50000, 100000
        return (XGMI, HOP, 50000, 50000) if {a, b} in one_link else (XGMI, 2 * HOP, 50000, 50000)

    return tree(4, [(address, GFX90A) for address in addresses], link)


MI250X_ADDRESSES = [f"0000:{bus}:00.0" for bus in ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de")]
MI250X = packages_of_two(MI250X_ADDRESSES, lambda a, b: a // 2 == b // 2)
# The same GPUs where addresses do not follow packages.
MI250X_APART = packages_of_two(MI250X_ADDRESSES, lambda a, b: a % 4 == b % 4)

MI300X_BUSES = ["05", "26", "46", "65", "85", "a6", "c6", "e5"]
MI300A_DOMAINS = range(4)


def partitioned(processors, first_addresses, count):
    """Mode CPX: so many partitions of each GPU, whose addresses end in their numbers."""
    addresses = [address[:-1] + str(part) for address in first_addresses for part in range(count)]
    return tree(processors, [(address, GFX942) for address in addresses],
                lambda a, b: (XGMI, IN_PACKAGE, 819200, 819200) if a // count == b // count
                else (XGMI, 2 * IN_PACKAGE + HOP, 0, 0))


def all_alike(processors, addresses, least, most):
    return tree(processors, [(address, GFX942) for address in addresses], lambda a, b: (XGMI, HOP, least, most))


MI300X_ADDRESSES = [f"0000:{bus}:00.0" for bus in MI300X_BUSES]
MI300X = all_alike(2, MI300X_ADDRESSES, 64000, 64000)
MI300X_CPX = partitioned(2, MI300X_ADDRESSES, 8)
MI300A_ADDRESSES = [f"{domain:04x}:01:00.0" for domain in MI300A_DOMAINS]
MI300A = all_alike(4, MI300A_ADDRESSES, 64000, 128000)
MI300A_CPX = partitioned(4, MI300A_ADDRESSES, 6)

# Two MI210 with a bridge of three links, each beside a Radeon PRO W7900.
MIXED_ADDRESSES = ["0000:03:00.0", "0000:23:00.0", "0000:83:00.0", "0000:a3:00.0"]
MIXED = tree(2, list(zip(MIXED_ADDRESSES, [GFX90A, GFX1100, GFX90A, GFX1100])),
             lambda a, b: (XGMI, HOP, 50000, 150000) if {a, b} == {0, 2} else (PCIE, 40, 312, 32000))


def write(folder, files):
    """Makes the files, and returns the folder. One that is there stays as it is: programs may be reading it."""
    if os.path.exists(folder):
        return folder
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    return folder


def on_machine(files):
    """The paths of a tree as they are on its machine, below its root."""
    return {f"{TOPOLOGY}/{name}": text for name, text in files.items()}
