// Reading a codebook (associate.hpp).
#include <string>
#include <type_traits>

#include "../labels.hpp"
#include "arrays.hpp"
#include "module.hpp"

namespace annealed {

template <class Divergence>
void define_readers(nb::module_& m, const std::string& suffix) {
    const auto book_of = [](const Matrix& mu, const std::optional<Vector>& log_weight, double T,
                            const std::optional<Matrix>& matrix,
                            const std::optional<Vector>& sharpness = {},
                            const std::optional<Vector>& relevance = {}) {
        require((!log_weight || log_weight->shape(0) == mu.shape(0)) &&
                    (!sharpness || sharpness->shape(0) == mu.shape(0)) &&
                    (!relevance || relevance->shape(0) == mu.shape(1)),
                "weights, sharpness or relevance do not fit the codevectors");
        require_square(matrix, mu.shape(1));
        return Codebook{mu.data(), pointer(log_weight), size_of(mu.shape(0)),
                        size_of(mu.shape(1)), T, pointer(matrix),
                        pointer(sharpness), pointer(relevance)};
    };
    const auto check_groups = [](const Integers& group, const Matrix& mu, std::int64_t groups) {
        require(group.shape(0) == mu.shape(0), "groups do not fit the codevectors");
        for (std::size_t i = 0; i < group.shape(0); ++i)
            require(group.data()[i] >= 0 && group.data()[i] < groups,
                    "a codevector is of a group that does not exist");
    };
    m.def(("divergences_" + suffix).c_str(),
          [=](Anything X, Matrix mu, std::optional<Vector> relevance,
              std::optional<Matrix> matrix, int threads) {
              const Samples samples = rows_to_read(X, mu.shape(1));
              const auto rows = static_cast<std::int64_t>(X.shape(0));
              double* out;
              auto array = empty_array<double>({X.shape(0), mu.shape(0)}, out);
              const Codebook book = book_of(mu, {}, 0, matrix, {}, relevance);
              const Unlocked unlocked(static_cast<double>(rows) * static_cast<double>(mu.size()));
              divergences<Divergence>(book, samples, rows, threads, out);
              return array;
          },
          "X"_a, "mu"_a, "relevance"_a.none(), "matrix"_a.none(), "threads"_a);
    m.def(("assign_" + suffix).c_str(),
          [=](Anything X, Matrix mu, Vector log_weight, double T, std::optional<Integers> group,
              std::int64_t count, std::optional<Matrix> matrix, int threads) {
              const Samples samples = rows_to_read(X, mu.shape(1));
              const auto rows = static_cast<std::int64_t>(X.shape(0));
              if (group) check_groups(*group, mu, count);
              require(!group || T >= std::numeric_limits<double>::min(),
                      "groups are of a temperature above 0");
              std::int64_t* labels;
              auto array = empty_array<std::int64_t>({X.shape(0)}, labels);
              const Codebook book = book_of(mu, log_weight, T, matrix);
              const Groups groups{pointer(group), group ? count : 0};
              nb::gil_scoped_release unlocked;
              if constexpr (std::is_same<Divergence, SquaredEuclidean>::value)
                  labels_by_products(book, samples, rows, threads, groups, labels);
              else
                  assign<Divergence>(book, samples, rows, threads, groups, labels);
              return array;
          },
          "X"_a, "mu"_a, "log_weight"_a, "T"_a, "group"_a.none(), "groups"_a, "matrix"_a.none(),
          "threads"_a);
    m.def(("associate_" + suffix).c_str(),
          [=](Anything X, Matrix mu, Vector log_weight, double T, Integers group,
              std::int64_t groups, std::optional<Vector> sharpness,
              std::optional<Vector> relevance, std::optional<Matrix> matrix, int threads) {
              const Samples samples = rows_to_read(X, mu.shape(1));
              const auto rows = static_cast<std::int64_t>(X.shape(0));
              check_groups(group, mu, groups);
              const std::size_t count = X.shape(0);
              double *posterior, *log_total, *distortion;
              auto shares =
                  empty_array<double>({count, static_cast<std::size_t>(groups)}, posterior);
              auto totals = empty_array<double>({count}, log_total);
              auto distortions = empty_array<double>({count}, distortion);
              const Codebook book =
                  book_of(mu, log_weight, T, matrix, sharpness, relevance);
              {
                  nb::gil_scoped_release unlocked;
                  associate<Divergence>(book, samples, rows, threads, group.data(), groups,
                                        posterior, log_total, distortion);
              }
              return nb::make_tuple(shares, totals, distortions);
          },
          "X"_a, "mu"_a, "log_weight"_a, "T"_a, "group"_a, "groups"_a, "sharpness"_a.none(),
          "relevance"_a.none(), "matrix"_a.none(), "threads"_a);
    m.def(("losses_" + suffix).c_str(),
          [=](Anything X, Classes classes, Matrix mu, Vector log_weight, double T, Integers group,
              Vector factors, std::optional<Matrix> matrix, int threads) {
              const Samples samples = rows_to_read(X, mu.shape(1), classes);
              const auto rows = static_cast<std::int64_t>(X.shape(0));
              require(group.shape(0) == mu.shape(0), "groups do not fit the codevectors");
              double* loss;
              auto array = new_array<double>({factors.shape(0)}, loss);
              const Codebook book = book_of(mu, log_weight, T, matrix);
              nb::gil_scoped_release unlocked;
              losses<Divergence>(book, samples, rows, threads, group.data(), factors.data(),
                                 static_cast<int>(factors.shape(0)), loss);
              return array;
          },
          "X"_a, "classes"_a, "mu"_a, "log_weight"_a, "T"_a, "group"_a, "factors"_a,
          "matrix"_a.none(), "threads"_a);
    m.def(("hard_sums_" + suffix).c_str(),
          [=](Anything X, Matrix mu, std::optional<Vector> weights, std::optional<Matrix> matrix,
              int threads) {
              const Samples samples = rows_to_read(X, mu.shape(1), {}, weights);
              const auto rows = static_cast<std::int64_t>(X.shape(0));
              double *weight, *total;
              std::int64_t* labels;
              auto counts = new_array<double>({mu.shape(0)}, weight);
              auto sums = new_array<double>({mu.shape(0), mu.shape(1)}, total);
              auto assigned = empty_array<std::int64_t>({X.shape(0)}, labels);
              const Codebook book = book_of(mu, {}, 0, matrix);
              HardSums hard{weight, total, 0.0};
              {
                  nb::gil_scoped_release unlocked;
                  hard_sums<Divergence>(book, samples, rows, threads, labels, hard);
              }
              return nb::make_tuple(counts, sums, assigned, hard.distortion);
          },
          "X"_a, "mu"_a, "weights"_a.none(), "matrix"_a.none(), "threads"_a);
}

void define_reading(nb::module_& m) {
    m.def("threads_for", &threads_for, "multiplications"_a, "allowed"_a,
          "How many threads so much work is shared out to.");
    m.def("column_ranges",
          [](Anything X, int threads) {
              const Samples samples = rows_to_read(X, X.ndim() == 2 ? X.shape(1) : 0);
              const auto rows = static_cast<std::int64_t>(X.shape(0));
              double *low, *high;
              auto lowest = empty_array<double>({X.shape(1)}, low);
              auto highest = empty_array<double>({X.shape(1)}, high);
              bool finite;
              {
                  nb::gil_scoped_release unlocked;
                  finite = column_ranges(samples, rows, static_cast<std::int64_t>(X.shape(1)),
                                         threads, low, high);
              }
              return nb::make_tuple(lowest, highest, finite);
          },
          "X"_a, "threads"_a, "Lowest and highest value of every column, and whether all are finite.");
    for_each_divergence([&](auto divergence, const std::string&, const std::string& suffix) {
        define_readers<decltype(divergence)>(m, suffix);
    });
}

}  // namespace annealed
