// What the module consists of: one function, and one file, for each subject.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "../divergences.hpp"

namespace annealed {

void define_one_sample(nanobind::module_& m);
void define_stream(nanobind::module_& m);
void define_levels(nanobind::module_& m);
void define_soft_lvq(nanobind::module_& m);
void define_nearest(nanobind::module_& m);
void define_winners(nanobind::module_& m);
void define_reading(nanobind::module_& m);
void define_running(nanobind::module_& m);
void define_record(nanobind::module_& m);
void define_borders(nanobind::module_& m);

// Every compiled divergence, with its name in classes and in functions.
template <class Define>
void for_each_divergence(Define define) {
    define(SquaredEuclidean{}, std::string("SquaredEuclidean"), std::string("squared_euclidean"));
    define(IDivergence{}, std::string("IDivergence"), std::string("i_divergence"));
    define(ItakuraSaito{}, std::string("ItakuraSaito"), std::string("itakura_saito"));
    define(Logistic{}, std::string("Logistic"), std::string("logistic"));
}

}  // namespace annealed
