# SPDX-License-Identifier: Apache-2.0
"""Machines for the tests of binding: as hwloc's XML, made from a table of NUMA nodes, their cores and their GPUs, and
as /sys, made from tables of GPUs and network adapters."""

import os

# NUMA nodes in their order: numbers of cores, PCI addresses of GPUs.
DGX = [(4, ["0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0"]),
       (4, ["0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"])]
# As on nodes of four MI250X: the GPUs with the lowest addresses are near the last cores.
MI250X = [(4, ["0000:d1:00.0", "0000:d6:00.0"]), (4, ["0000:c9:00.0", "0000:ce:00.0"]),
          (4, ["0000:d9:00.0", "0000:de:00.0"]), (4, ["0000:c1:00.0", "0000:c6:00.0"])]
# Two cores, which any machine has.
SMALL = [(1, ["0000:c1:00.0", "0000:c6:00.0"]), (1, ["0000:1b:00.0", "0000:43:00.0"])]

VGA = "0300 [1a03:2000] [0000:0000] 41"  # what shows a server's console
GPU = "0302 [10de:2335] [10de:18be] a1"


def as_xml(nodes):
    number = iter(range(1, 1000))

    def place(first, count, node_set):
        cpus = ((1 << count) - 1) << first
        return (f'cpuset="0x{cpus:08x}" complete_cpuset="0x{cpus:08x}" nodeset="0x{node_set:08x}" '
                f'complete_nodeset="0x{node_set:08x}" gp_index="{next(number)}"')

    def device(address, kind):
        return (f'<object type="PCIDev" gp_index="{next(number)}" pci_busid="{address}" pci_type="{kind}" '
                'pci_link_speed="63.015385"/>')

    cores, all_nodes = sum(count for count, _ in nodes), (1 << len(nodes)) - 1
    machine = place(0, cores, all_nodes)
    allowed = machine.replace("complete_cpuset", "allowed_cpuset").replace("complete_nodeset", "allowed_nodeset")
    allowed = " ".join(word for word in allowed.split() if word.startswith("allowed"))
    text = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
            '<topology version="2.0">', f'<object type="Machine" os_index="0" {machine} {allowed}>']
    first = 0
    for node, (count, gpus) in enumerate(nodes):
        text.append(f'<object type="Package" os_index="{node}" {place(first, count, 1 << node)}>')
        text.append(f'<object type="NUMANode" os_index="{node}" {place(first, count, 1 << node)} local_memory="1073741824"/>')
        for core in range(first, first + count):
            text.append(f'<object type="Core" os_index="{core}" {place(core, 1, 1 << node)}>'
                        f'<object type="PU" os_index="{core}" {place(core, 1, 1 << node)}/></object>')
        bus = gpus[0].split(":")[1]
        text.append(f'<object type="Bridge" gp_index="{next(number)}" bridge_type="0-1" depth="0" '
                    f'bridge_pci="0000:[{bus}-{gpus[-1].split(":")[1]}]">')
        if node == 0:
            text.append(device(f"0000:{bus}:01.0", VGA))
        text += [device(gpu, GPU) for gpu in gpus] + ["</object>", "</object>"]
        first += count
    return "\n".join([*text, "</object>", "</topology>"]) + "\n"


# For SMALL: the folders of PCI devices under /sys/devices, and their NUMA nodes.
PCI = {"0000:1b:00.0": ("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0", 1),
       "0000:43:00.0": ("pci0000:40/0000:40:01.0", 1),
       "0000:c1:00.0": ("pci0000:c0/0000:c0:01.0", 0), "0000:c6:00.0": ("pci0000:c5/0000:c5:01.0", 0)}
# Network adapters: the class, the folder of the PCI device, its NUMA node, its driver, and of each port state and rate.
UP, DOWN = "4: ACTIVE", "1: DOWN"
MLX5 = {"mlx5_0": ("infiniband", "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:04.0/0000:1a:00.0", 1, "mlx5_core", [(UP, 400)]),
        "mlx5_1": ("infiniband", "pci0000:40/0000:40:02.0/0000:44:00.0", 1, "mlx5_core", [(DOWN, 10), (UP, 400)]),
        "mlx5_2": ("infiniband", "pci0000:e0/0000:e0:01.0/0000:e1:00.0", 0, "mlx5_core", [(UP, 400)]),
        "mlx5_3": ("infiniband", "pci0000:e4/0000:e4:01.0/0000:e5:00.0", 0, "mlx5_core", [(UP, 400)]),
        "mlx5_4": ("infiniband", "pci0000:e6/0000:e6:01.0/0000:e7:00.0", 0, "mlx5_core", [(UP, 25)]),
        "mlx5_5": ("infiniband", "pci0000:c0/0000:c0:01.0/0000:c2:00.0", 0, "mlx5_core", [(DOWN, 400)])}
CXI = {f"cxi{i}": ("cxi", f"pci0000:{bus}/0000:{bus}:02.0", numa, "cxi_ss1", []) for i, (bus, numa) in enumerate([("c0", 0), ("40", 1)])}
EFA = {"rdmap26s0": ("infiniband", "pci0000:c0/0000:c0:01.0/0000:c3:00.0", 0, "efa", [(UP, 100)])}


def write_sys(root, adapters):
    """A folder as SIM_SYS_ROOT names it."""
    def write(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(f"{text}\n")

    def link(path, target):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.makedirs(target, exist_ok=True)
        os.symlink(os.path.relpath(target, os.path.dirname(path)), path)

    for address, (bridges, numa) in PCI.items():
        device = f"{root}/sys/devices/{bridges}/{address}"
        write(f"{device}/numa_node", numa)
        link(f"{root}/sys/bus/pci/devices/{address}", device)
    for name, (kind, folder, numa, driver, ports) in adapters.items():
        device = f"{root}/sys/devices/{folder}"
        write(f"{device}/numa_node", numa)
        link(f"{device}/driver", f"{root}/sys/bus/pci/drivers/{driver}")
        for number, (state, rate) in enumerate(ports, start=1):
            write(f"{device}/{kind}/{name}/ports/{number}/state", state)
            write(f"{device}/{kind}/{name}/ports/{number}/rate", f"{rate} Gb/sec (4X NDR)")
        link(f"{device}/{kind}/{name}/device", device)
        link(f"{root}/sys/class/{kind}/{name}", f"{device}/{kind}/{name}")
    return root
