/* uses_c.c - unconditional includes of C and C++ in angle brackets. */
#include "exists/uses.h"

/* Headers of other systems, of kernels, of boards: code for them is written here, too. */
static bool is_of_host(view path)
{
    static const char *const begins[] = {
        "windows", "Windows", "winsock", "mswsock", "ws2", "win", "Win", "io.h", "conio.h",
        "direct.h", "process.h", "tchar.h", "strsafe.h", "shlobj", "shlwapi", "psapi",
        "tlhelp32", "dbghelp", "intrin.h", "d2d1", "d3d", "dxgi", "dwrite", "objbase",
        "comdef", "atl", "afx", "ole", "mmsystem", "crtdbg", "excpt.h", "sal.h", "wrl",
        "bcrypt.h", "wincrypt", "iphlpapi", "iptypes", "share.h", "mach/", "mach-o/",
        "machine/", "libkern/", "IOKit/", "Availability", "TargetConditionals", "Core",
        "Foundation/", "Cocoa/", "AppKit/", "UIKit/", "Metal", "Accelerate/", "AudioToolbox/",
        "Security/", "SystemConfiguration/", "ApplicationServices/", "Carbon/", "OpenGL/",
        "GLUT/", "OpenAL/", "QuartzCore/", "AVFoundation/", "os/", "dispatch/", "xpc/",
        "simd/", "objc/", "copyfile.h", "libproc.h", "sys/event.h", "sys/sysctl.h", "sys/kern",
        "sys/clonefile", "util.h", "libutil.h", "sys/cpuset.h", "pthread_np.h", "sys/endian.h",
        "sys/atomic", "sys/dtrace", "port.h", "sys/port.h", "ucontext", "kstat.h", "zone.h",
        "synch.h", "atomic.h", "thread.h", "sys/loadavg.h", "linux/", "asm/", "asm-generic/",
        "uapi/", "net/", "crypto/", "kunit/", "trace/", "xen/", "Arduino", "avr/", "util/",
        "esp", "ESP", "WiFi", "Wire.h", "SPI.h", "Servo.h", "EEPROM", "Adafruit", "FreeRTOS",
        "freertos/", "driver/", "nvs", "soc/", "hal/", "rom/", "zephyr/", "device.h",
        "kernel.h", "drivers/", "pico/", "hardware/", "tusb", "stm32", "STM32", "nrf", "cmsis",
        "arm_", "xc.h", "msp430", "mbed", "sel4", "rt", "unistd_ext", "vxworks", "VxWorks",
        "semLib", "taskLib", "sysLib", "cuda", "cub/", "thrust/", "nccl", "hip/", "rocm",
        "cublas", "cudnn", "curand", "nv", "CL/", "sycl/", "oneapi/", "jni", "android/",
        "emscripten", "wasi/", "GLES", "EGL/", "vulkan/", "switch", "nds", "gba", "3ds", "psp",
        "libdragon", "sgx", "ppapi/", "immintrin", "arm", "altivec", "riscv", "wasm", "msa.h",
        "lsxintrin", "tmmintrin", "x86intrin", "sys/priv", "sys/zone", "sys/vm", "sys/types32",
        "sys/tt", "sys/tspri", "sys/tsol/", "sys/termio.h", "sys/sysi86", "sys/sysconfig",
        "sys/systeminfo", "sys/synch", "sys/stropts", "sys/sockio", "sys/siginfo", "sys/shm_",
        "sys/sem_", "sys/segments", "sys/sched", "sys/rtpri", "sys/ps", "sys/proc", "sys/prio",
        "sys/pool", "sys/modctl", "sys/mnt", "sys/lwp", "sys/lgrp", "sys/ipc_", "sys/ioccom",
        "sys/iapri", "sys/fxpri", "sys/fs", "sys/filio", "sys/fasttrap", "sys/door",
        "sys/dirent", "sys/devinfo", "sys/dditypes", "sys/crypto/", "sys/corectl", "sys/auxv_",
        "sys/acl", "sys/trap", "sys/codesign", "sys/disk", "sys/domain", "sys/protosw",
        "sys/mbuf", "sys/module", "sys/bus", "sys/rman", "sys/malloc", "sys/lock", "sys/mutex",
        "sys/namei", "sys/vnode", "sys/conf", "sys/pset", "nfs/", "bsm/", "ia32/", "ucred.h",
        "vm/", "netinet6/", "security/", "libutil"};
    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (view_starts(path, view_of(begins[i]))) return true;
    return false;
}

/* #ifndef NAME_H, as the first and last lines of a header are. */
static bool is_include_guard(const uses_call *c, uint32_t i)
{
    static const char *const ends[] = {"_H", "_H_", "_H__", "_HH", "_HPP", "_HPP_", "_HXX",
                                       "_INCLUDED", "_INCLUDED_", "_GUARD", "_INC"};
    if (!uses_is(c, i, "ifndef") || !uses_name(c, i + 1)) return false;
    view name = uses_word(c, i + 1);
    for (size_t k = 0; k < ARRAY_LEN(ends); k++) {
        size_t n = strlen(ends[k]);
        if (name.len > n && !memcmp(name.ptr + name.len - n, ends[k], n)) return true;
    }
    return false;
}

/* <net/buffer.h> if the workspace has a folder net: it may be written next. */
static bool is_own(const uses_call *c, view path)
{
    char name[300];
    index_name found;
    const char *slash = memchr(path.ptr, '/', path.len);
    int n = slash ? snprintf(name, sizeof name, "h%.*s", (int)(slash - path.ptr), path.ptr) : 0;
    return n > 0 && n < (int)sizeof name &&
           index_find(c->x, 0, (view){name, (size_t)n}, &found) == INDEX_THERE;
}

static void read_include(uses_call *c, uint32_t i)
{
    uint32_t stop = i + 1;
    index_name found;
    char name[NAMES_WORD_MAX];
    if (!uses_sign(c, i, '<')) return; /* "x.h" may be written next */
    while (stop < c->n && !uses_sign(c, stop, '>') && c->t[stop].line == c->t[i].line) stop++;
    if (!uses_sign(c, stop, '>') || c->t[stop].line != c->t[i].line) return;
    view path = {c->text.ptr + c->t[i].end, c->t[stop].begin - c->t[i].end};
    int n = snprintf(name, sizeof name, "c%.*s", (int)path.len, path.ptr);
    bool known = index_find(c->x, 0, VIEW("c!"), &found) == INDEX_THERE && path.len &&
                 n < (int)sizeof name && !memchr(path.ptr, '\\', path.len) &&
                 !memmem(path.ptr, path.len, "..", 2) && !is_of_host(path);
    if (!known || index_find(c->x, 0, (view){name, (size_t)n}, &found) != INDEX_NOT) return;
    if (!is_own(c, path))
        uses_report(c, EXISTS_IMPORT, NAMES_NONE, i, stop, (view){NULL, 0}, path);
}

void uses_c(uses_call *c)
{
    uses_state *s = c->s;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!c->t[i].first || !uses_sign(c, i, '#') || !uses_name(c, i + 1)) continue;
        view word = uses_word(c, i + 1);
        if (view_starts(word, VIEW("if"))) {
            bool guards = !is_include_guard(c, i + 1);
            if (s->n_blocks == USES_BLOCKS_MAX) s->guarded = true;
            else s->blocks[s->n_blocks++] = (uses_block){0, 0, guards, false};
        } else if (view_equal(word, VIEW("endif"))) {
            if (s->n_blocks) s->n_blocks--;
        } else if (view_equal(word, VIEW("include"))) {
            c->guards = s->guarded;
            for (uint32_t k = 0; k < s->n_blocks; k++) c->guards |= s->blocks[k].guards;
            read_include(c, i + 2);
        }
    }
}
