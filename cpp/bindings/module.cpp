// Built once per instruction set (see CMakeLists.txt) under a module name given by ANNEALED_MODULE;
// annealed.kernels.compiled picks one at import. Only this folder knows Python.
#include "module.hpp"

#include "../simd.hpp"

namespace annealed {

static bool cpu_has_avx2() {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
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
    define_levels(m);
    define_soft_lvq(m);
    define_winners(m);
    define_reading(m);
    define_running(m);
}
