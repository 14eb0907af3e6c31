// Clusters of any shape (borders.hpp).
#include "../borders.hpp"
#include "arrays.hpp"
#include "module.hpp"

namespace annealed {

static Places places_in(const Matrix& distances, const Vector& weights, int dimensions,
                        double narrowest, double samples) {
    const std::size_t n = weights.shape(0);
    require(n > 0 && distances.shape(0) == n && distances.shape(1) == n,
            "distances and weights do not fit each other");
    const auto positive = [](double value) {  // and neither flushed to zero nor infinite
        return value >= std::numeric_limits<double>::min() && value < infinity;
    };
    require(dimensions > 0 && positive(narrowest) && positive(samples),
            "dimensions, widths and samples are positive numbers");
    return {Doubles(distances.data(), distances.data() + distances.size()),
            Doubles(weights.data(), weights.data() + n), static_cast<double>(dimensions), narrowest,
            samples};
}

void define_borders(nb::module_& m) {
    m.def("cuts",
          [](Matrix distances, Vector weights, int dimensions, double narrowest, double samples,
             double least, int threads) {
              const Places places = places_in(distances, weights, dimensions, narrowest, samples);
              std::vector<Cut> found;
              {
                  nb::gil_scoped_release unlocked;
                  ThreadTeam team(threads);
                  found = cuts(places, least, team);
              }
              double* support;
              std::int64_t* clusters;
              auto supports = empty_array<double>({found.size()}, support);
              auto all = empty_array<std::int64_t>({found.size(), weights.shape(0)}, clusters);
              for (const Cut& cut : found) {
                  *support++ = cut.support;
                  clusters = std::copy(cut.clusters.begin(), cut.clusters.end(), clusters);
              }
              return nb::make_tuple(supports, all);
          },
          "distances"_a, "weights"_a, "dimensions"_a, "narrowest"_a, "samples"_a, "least"_a,
          "threads"_a, "Codevectors divided at the clearest border, again and again.");
    m.def("support_between",
          [](Matrix distances, Vector weights, int dimensions, double narrowest, double samples,
             Integers clusters, int threads) {
              const Places places = places_in(distances, weights, dimensions, narrowest, samples);
              const auto n = static_cast<std::int64_t>(weights.shape(0));
              require(clusters.shape(0) == weights.shape(0), "clusters do not fit the codevectors");
              for (std::int64_t i = 0; i < n; ++i)
                  require(clusters.data()[i] >= 0 && clusters.data()[i] < n,
                          "a codevector is of a cluster that does not exist");
              nb::gil_scoped_release unlocked;
              ThreadTeam team(threads);
              return support_between(places, clusters.data(), team);
          },
          "distances"_a, "weights"_a, "dimensions"_a, "narrowest"_a, "samples"_a, "clusters"_a,
          "threads"_a, "The support of all borders between given clusters, taken together.");
    m.def("loose",
          [](Matrix distances, Vector weights, int dimensions, double narrowest, double samples,
             double size, int threads) {
              const Places places = places_in(distances, weights, dimensions, narrowest, samples);
              std::vector<char> apart;
              {
                  nb::gil_scoped_release unlocked;
                  ThreadTeam team(threads);
                  apart = loose(places, size, team);
              }
              bool* out;
              auto array = empty_array<bool>({weights.shape(0)}, out);
              std::copy(apart.begin(), apart.end(), out);
              return array;
          },
          "distances"_a, "weights"_a, "dimensions"_a, "narrowest"_a, "samples"_a, "size"_a,
          "threads"_a, "Which codevectors lie apart from the others.");
}

}  // namespace annealed
