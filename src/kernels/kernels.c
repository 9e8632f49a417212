/* kernels.c - which kernels this processor can run, and the table of them. */
#include "kernels/kernels.h"

#include "kernels/matmul.h"
#include "kernels/vector.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static const char *const cpu_names[] = {
    [KERNEL_CPU_REF] = "ref",
    [KERNEL_CPU_AVX2] = "avx2",
    [KERNEL_CPU_AVX512VNNI] = "avx512vnni",
    [KERNEL_CPU_AMX] = "amx",
    [KERNEL_CPU_NEON] = "neon",
    [KERNEL_CPU_NEONDOT] = "neondot",
};
_Static_assert(ARRAY_LEN(cpu_names) == KERNEL_CPU_END, "every level has a name");

#if defined(__x86_64__)
/* Bits of CPUID: Intel's manual, volume 2, CPUID, leaves 1, 7 and 1DH. */
enum {
    LEAF1_ECX_FMA = 1 << 12,
    LEAF1_ECX_OSXSAVE = 1 << 27,
    LEAF1_ECX_AVX = 1 << 28,
    LEAF1_ECX_F16C = 1 << 29,
    LEAF7_EBX_AVX2 = 1 << 5,
    LEAF7_EBX_AVX512F = 1 << 16,
    LEAF7_EBX_AVX512DQ = 1 << 17,
    LEAF7_EBX_AVX512BW = 1 << 30,
    LEAF7_ECX_AVX512VNNI = 1 << 11,
    LEAF7_EDX_AMX_TILE = 1 << 24,
    LEAF7_EDX_AMX_INT8 = 1 << 25,
    LEAF1D_TILES = 8,       /* of palette 1, with rows of 64 bytes */
    LEAF1D_ROW_BYTES = 64,
    LEAF1D_ROWS = 16,
    XCR0_YMM = 0x06,        /* the system keeps xmm and ymm */
    XCR0_ZMM = 0xe6,        /* and masks, upper halves of zmm, zmm16..31 */
    XCR0_TILES = 0x60000,   /* and tiles */
    XFEATURE_TILE_DATA = 18,
    ARCH_REQUEST_PERMISSION = 0x1023, /* ARCH_REQ_XCOMP_PERM of asm/prctl.h, since Linux 5.16 */
};
static const uint32_t leaf7_ebx_avx512vl = 1u << 31;

static bool has_all(uint32_t bits, uint32_t wanted)
{
    return (bits & wanted) == wanted;
}

/* Tiles are large, so the system gives them to a process that asks, and to all its threads. */
static bool may_use_tiles(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d)) return false;
    if (b >> 16 != LEAF1D_TILES || (b & 0xffff) != LEAF1D_ROW_BYTES || (c & 0xffff) != LEAF1D_ROWS)
        return false;
    return syscall(SYS_arch_prctl, ARCH_REQUEST_PERMISSION, XFEATURE_TILE_DATA) == 0;
}

kernel_cpu kernel_cpu_detect(void)
{
    uint32_t a, b, c, d, xcr0, xcr0_high;
    const uint32_t avx = LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX | LEAF1_ECX_FMA | LEAF1_ECX_F16C;
    const uint32_t avx512 =
        LEAF7_EBX_AVX512F | LEAF7_EBX_AVX512DQ | LEAF7_EBX_AVX512BW | leaf7_ebx_avx512vl;
    const uint32_t amx = LEAF7_EDX_AMX_TILE | LEAF7_EDX_AMX_INT8;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, avx)) return KERNEL_CPU_REF;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
    if (!has_all(xcr0, XCR0_YMM)) return KERNEL_CPU_REF;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(b, LEAF7_EBX_AVX2))
        return KERNEL_CPU_REF;
    if (!has_all(b, avx512) || !has_all(c, LEAF7_ECX_AVX512VNNI) || !has_all(xcr0, XCR0_ZMM))
        return KERNEL_CPU_AVX2;
    if (!has_all(d, amx) || !has_all(xcr0, XCR0_TILES) || !may_use_tiles())
        return KERNEL_CPU_AVX512VNNI;
    return KERNEL_CPU_AMX;
}

/* By the maker's name and the family: what a core reads in one stream would take megabytes that are
 * in no cache to measure, at every start. */
kernel_panel_order kernel_panel_order_detect(void)
{
    enum { ZEN_5 = 0x1a, BASE = 15 };
    uint32_t a, b, c, d, name[3];
    if (!__get_cpuid(0, &a, &name[0], &name[2], &name[1]) ||
        memcmp(name, "AuthenticAMD", sizeof name) != 0 || !__get_cpuid(1, &a, &b, &c, &d))
        return KERNEL_PANELS_APART;
    const uint32_t family = (a >> 8 & 15) == BASE ? BASE + (a >> 20 & 255) : a >> 8 & 15;
    return family >= ZEN_5 ? KERNEL_PANELS_AHEAD : KERNEL_PANELS_IN_LINE;
}
#elif defined(__aarch64__)
kernel_cpu kernel_cpu_detect(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? KERNEL_CPU_NEONDOT : KERNEL_CPU_NEON;
}
#else
kernel_cpu kernel_cpu_detect(void)
{
    return KERNEL_CPU_REF;
}
#endif

#if !defined(__x86_64__)
kernel_panel_order kernel_panel_order_detect(void)
{
    return KERNEL_PANELS_APART;
}
#endif

bool kernel_cpu_has(kernel_cpu cpu)
{
    const kernel_cpu best = kernel_cpu_detect();
    if (cpu > best) return false;
#if defined(__aarch64__)
    return cpu == KERNEL_CPU_REF || cpu >= KERNEL_CPU_NEON;
#else
    return true;
#endif
}

bool kernel_cpu_of_name(const char *name, kernel_cpu *out)
{
    for (size_t i = 0; i < ARRAY_LEN(cpu_names); i++) {
        if (strcmp(name, cpu_names[i]) == 0) {
            *out = (kernel_cpu)i;
            return true;
        }
    }
    return false;
}

const char *kernel_cpu_name(kernel_cpu cpu)
{
    CHECK((size_t)cpu < ARRAY_LEN(cpu_names));
    return cpu_names[cpu];
}

void kernel_table_init(kernel_table *table, kernel_cpu cpu)
{
    CHECK(kernel_cpu_has(cpu));
    *table = (kernel_table){.name = kernel_cpu_name(cpu)};
    kernel_matmul_init(table, cpu);
    kernel_vector_init_ref(table);
    kernel_recurrent_init_ref(table);
    kernel_attention_init_ref(table);
    kernel_attention_i8_init_ref(table);
#if defined(__x86_64__)
    if (cpu < KERNEL_CPU_AVX2) return;
    kernel_vector_init_avx2(table);
    kernel_recurrent_init_avx2(table);
    kernel_attention_init_avx2(table);
    kernel_attention_f32_init_avx2(table);
    kernel_attention_i8_init_avx2(table);
    if (cpu < KERNEL_CPU_AVX512VNNI) return;
    kernel_vector_init_avx512vnni(table);
    kernel_recurrent_init_avx512vnni(table);
    kernel_attention_init_avx512vnni(table);
    kernel_attention_f32_init_avx512vnni(table);
    kernel_attention_i8_init_avx512vnni(table);
    if (cpu < KERNEL_CPU_AMX) return;
    kernel_attention_i8_init_amx(table);
#elif defined(__aarch64__)
    if (cpu < KERNEL_CPU_NEON) return;
    kernel_vector_init_neon(table);
    kernel_recurrent_init_neon(table);
    kernel_attention_init_neon(table);
    kernel_attention_f32_init_neon(table);
#endif
}

void kernel_float_setup(void)
{
#if defined(__x86_64__)
    const uint32_t mxcsr = 0x1f80; /* all masked, nearest, neither FTZ nor DAZ */
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#endif
}
