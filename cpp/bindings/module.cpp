// Built once per instruction set (see CMakeLists.txt) under a module name given by ANNEALED_MODULE;
// annealed.kernels.compiled picks one at import. Only this folder knows Python.
#include "module.hpp"

#include "../simd.hpp"

#if defined(__x86_64__) && !defined(_MSC_VER)
#include <cpuid.h>
#endif

namespace annealed {

// What the processor can run, as bits of `wanted` in register b of leaf 7. Asked of the processor
// itself: __builtin_cpu_supports needs a run-time library that not every toolchain has (zig, with
// which wheels are built, has not).
#if defined(__x86_64__) && !defined(_MSC_VER)
static bool cpu_has(unsigned wanted, unsigned registers) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_OSXSAVE)) return false;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & registers) != registers) return false;  // the system does not keep so wide ones
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & wanted) == wanted;
}
static bool cpu_has_avx2() { return cpu_has(bit_AVX2, 0x06); }
static bool cpu_has_avx512() {
    // all of x86-64-v4, which the build may use
    return cpu_has(bit_AVX2 | bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL,
                   0xe6);
}
#else
static bool cpu_has_avx2() { return false; }
static bool cpu_has_avx512() { return false; }
#endif

}  // namespace annealed

NB_MODULE(ANNEALED_MODULE, m) {
    using namespace annealed;
    m.def("cpu_has_avx2", &cpu_has_avx2, "Whether this machine can run the AVX2 build.");
    m.def("cpu_has_avx512", &cpu_has_avx512, "Whether this machine can run the AVX-512 build.");
    m.attr("instructions") = ANNEALED_AVX512 ? "AVX-512" : ANNEALED_AVX2 ? "AVX2" : "baseline";
    define_one_sample(m);
    define_stream(m);
    define_levels(m);
    define_soft_lvq(m);
    define_nearest(m);
    define_winners(m);
    define_reading(m);
    define_running(m);
    define_record(m);
    define_borders(m);
}
