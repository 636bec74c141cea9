# SPDX-License-Identifier: Apache-2.0
"""Machines for the tests of binding: as hwloc's XML, made from a table of NUMA nodes, their cores and their GPUs."""

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
