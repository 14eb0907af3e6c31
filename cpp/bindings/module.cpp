// Built once per instruction set (see CMakeLists.txt) under a module name given by ANNEALED_MODULE;
// annealed.kernels.compiled picks one at import. Only this folder knows Python.
#include "module.hpp"

#include "../simd.hpp"

#if defined(__x86_64__) && !defined(_MSC_VER)
#include <cpuid.h>
#endif

namespace annealed {

// Asked of the processor: __builtin_cpu_supports needs a run-time library that not every toolchain
// has (zig, with which wheels are built, has not).
static bool cpu_has_avx2() {
#if defined(__x86_64__) && !defined(_MSC_VER)
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_OSXSAVE)) return false;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6) return false;  // the operating system does not keep the wide registers
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
#else
    return false;
#endif
}

}  // namespace annealed

NB_MODULE(ANNEALED_MODULE, m) {
    using namespace annealed;
    m.def("cpu_has_avx2", &cpu_has_avx2, "Whether this machine can run the AVX2 build.");
    m.attr("uses_avx2") = bool(ANNEALED_AVX2);
    define_one_sample(m);
    define_stream(m);
    define_levels(m);
    define_soft_lvq(m);
    define_nearest(m);
    define_winners(m);
    define_reading(m);
    define_running(m);
    define_record(m);
}
