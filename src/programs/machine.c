/* machine.c - topology from hwloc, bandwidth from bandwidth.c. */
#include "programs/machine.h"

#include <hwloc.h>
#include <unistd.h>

#include "base/thread.h"
#include "programs/bandwidth.h"

enum { RUNS = 5, DRAM_BYTES = 512 << 20, L2_ASSUMED = 1 << 20 };

/* Bytes of all caches of a kind that belong to the first n of cpus. */
static uint64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type, const uint32_t *cpus,
                            uint32_t n)
{
    uint64_t total = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, type, o));) {
        bool ours = false;
        for (uint32_t i = 0; i < n && !ours; i++) ours = hwloc_bitmap_isset(o->cpuset, cpus[i]);
        if (ours && o->attr) total += o->attr->cache.size;
    }
    return total;
}

static int read_caches(uint64_t *l2, uint64_t *l3, const uint32_t *cpus, uint32_t n)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology)) return CERIUM_ERR_MEMORY;
    hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return CERIUM_ERR_MEMORY;
    }
    *l2 = cache_bytes(topology, HWLOC_OBJ_L2CACHE, cpus, n);
    *l3 = cache_bytes(topology, HWLOC_OBJ_L3CACHE, cpus, n);
    hwloc_topology_destroy(topology);
    return CERIUM_OK;
}

static void add(residency_machine *m, const char *name, uint64_t size, double bytes_per_s)
{
    m->levels[m->n_levels++] = (residency_level){name, size, bytes_per_s};
}

int machine_measure(residency_machine *out, uint32_t threads, cerium_error *err)
{
    uint32_t cpus[THREAD_CPUS_MAX], n_cores, n_cpus = thread_cpus(cpus, &n_cores);
    uint64_t l2 = 0, l3 = 0;
    residency_machine m = {.threads = threads ? threads : n_cores};
    const uint32_t n = m.threads < n_cpus ? m.threads : n_cpus;
    if (read_caches(&l2, &l3, cpus, n))
        return error_set(err, CERIUM_ERR_MEMORY, "hwloc cannot read this machine's topology");
    if (!l2) {
        l2 = (uint64_t)L2_ASSUMED * n;
        m.assumed = "the system hides its caches: 1 MB of L2 a core was assumed, and no L3";
    }
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    add(&m, "L2", l2, bandwidth_read(l2 / 2, m.threads, RUNS));
    if (l3) add(&m, "L3", l3, bandwidth_read(l3 / 2, m.threads, RUNS));
    add(&m, "memory", pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0,
        bandwidth_read(DRAM_BYTES > l3 * 4 ? DRAM_BYTES : l3 * 4, m.threads, RUNS));
    for (uint32_t i = 0; i < m.n_levels; i++)
        if (m.levels[i].bytes_per_s <= 0)
            return error_set(err, CERIUM_ERR_MEMORY, "no memory to measure its bandwidth");
    /* Other virtual machines may use the cache that we are shown. */
    const double inner = m.levels[m.n_levels - 2].bytes_per_s;
    if (inner < m.levels[m.n_levels - 1].bytes_per_s * 1.2 && !m.assumed)
        m.assumed = "the last cache is hardly faster than memory: others may be using it";
    *out = m;
    return CERIUM_OK;
}
