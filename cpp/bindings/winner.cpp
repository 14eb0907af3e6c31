// Winner takes all (winner.hpp).
#include "../winner.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "arrays.hpp"
#include "module.hpp"

namespace annealed {

template <class Divergence>
void define_winner(nb::module_& m, const std::string& name) {
    using Run = WinnerRun<Divergence>;
    const auto state = [](const Run& run) {
        nb::dict state;
        state["mu"] = rows_out(run.tiles.mu, run.K, run.d);
        state["updates"] = copy_out(run.updates.data(), run.updates.size());
        state["count"] = run.count;
        state["seen"] = run.seen;
        state["distortion"] = run.distortion;
        state["errors"] = run.errors;
        return state;
    };
    nb::class_<Run, WinnerBase>(m, name.c_str())
        .def("__init__",
             [](Run* self, Matrix mu, Classes classes, nb::dict s, bool simplex, Vector low,
                Vector high, std::optional<Matrix> matrix) {
                 const auto number = [&](const char* key) { return nb::cast<double>(s[key]); };
                 const auto rule = nb::cast<std::string>(s["rule"]);
                 WinnerSettings settings;
                 require(rule == "vq" || rule == "lvq1" || rule == "glvq",
                         "rule must be 'vq', 'lvq1' or 'glvq'");
                 require(mu.shape(0) > 0 && classes.shape(0) == mu.shape(0),
                         "one class for each codevector is needed");
                 for (std::size_t i = 0; i < classes.shape(0); ++i)
                     require(classes.data()[i] >= 0, "classes are numbered from 0");
                 settings.rule = rule == "vq"     ? WinnerRule::vq
                                 : rule == "lvq1" ? WinnerRule::lvq1
                                                  : WinnerRule::glvq;
                 settings.steps.a = number("a");
                 settings.steps.b = number("b");
                 settings.steps.alpha_min = number("alpha_min");
                 settings.scale = number("scale");
                 settings.simplex = simplex;
                 require_steps(settings.steps);
                 require_length(low, mu.shape(1), "bounds do not fit the codevectors");
                 require_length(high, mu.shape(1), "bounds do not fit the codevectors");
                 require_square(matrix, mu.shape(1));
                 const double n = amount_in(s, "n");
                 new (self) Run(settings, size_of(mu.shape(0)), size_of(mu.shape(1)), mu.data(),
                                classes.data(), n, low.data(), high.data(), pointer(matrix));
             },
             "mu"_a, "classes"_a, "settings"_a, "simplex"_a, "low"_a, "high"_a, "matrix"_a.none())
        .def("state", state, "All of the run's state, as arrays and numbers.")
        .def("read", state)
        .def("restore", [](Run& run, nb::dict state) {
            const Matrix mu = nb::cast<Matrix>(state["mu"]);
            const Vector updates = nb::cast<Vector>(state["updates"]);
            require(mu.shape(0) == static_cast<std::size_t>(run.K) &&
                        mu.shape(1) == static_cast<std::size_t>(run.d) &&
                        updates.shape(0) == static_cast<std::size_t>(run.K),
                    "saved run has another shape");
            for (int i = 0; i < run.K; ++i)
                require(updates.data()[i] >= 0 && updates.data()[i] < infinity,
                        "a saved count of updates is out of range");
            run.tiles.mu = to_tiles(mu.data(), run.K, run.d, true);
            run.updates.assign(updates.data(), updates.data() + run.K);
            run.count = whole_in(state, "count");
            run.seen = amount_in(state, "seen");
            run.distortion = nb::cast<double>(state["distortion"]);
            run.errors = nb::cast<double>(state["errors"]);
            run.refresh();
        });
}

void define_winners(nb::module_& m) {
    nb::class_<WinnerBase>(m, "Winner")
        .def_ro("count", &WinnerBase::count)
        .def_ro("seen", &WinnerBase::seen)
        .def_ro("distortion", &WinnerBase::distortion)
        .def_ro("errors", &WinnerBase::errors)
        .def("learn",
             [](WinnerBase& run, Anything X, std::optional<Integers> order,
                std::optional<Classes> classes, std::optional<Vector> weights, std::int64_t begin,
                std::int64_t end) {
                 const Samples samples =
                     rows_to_learn(X, run.features(), order, classes, weights, begin, end);
                 nb::gil_scoped_release unlocked;
                 compete(run, samples, begin, end);
             },
             "X"_a, "order"_a.none(), "classes"_a.none(), "weights"_a.none(), "begin"_a, "end"_a);
    for_each_divergence([&](auto divergence, const std::string& name, const std::string&) {
        define_winner<decltype(divergence)>(m, name + "Winner");
    });
}

}  // namespace annealed
