// Means and spreads that follow a stream (running.hpp).
#include "../running.hpp"

#include "arrays.hpp"
#include "module.hpp"

namespace annealed {

void define_running(nb::module_& m) {
    m.def("running_standardise",
          [](Matrix X, Statistic count, Statistic mean, Statistic m2, Vector fill) {
              for (const std::size_t size :
                   {count.shape(0), mean.shape(0), m2.shape(0), fill.shape(0)})
                  require(size == X.shape(1), "rows and statistics differ in their features");
              double* out;
              auto array = new_array<double>({X.shape(0), X.shape(1)}, out);
              nb::gil_scoped_release unlocked;
              running_standardise(X.data(), static_cast<std::int64_t>(X.shape(0)),
                                  static_cast<std::int64_t>(X.shape(1)), count.data(), mean.data(),
                                  m2.data(), fill.data(), out);
              return array;
          },
          "X"_a, "count"_a, "mean"_a, "m2"_a, "fill"_a);
}

}  // namespace annealed
