// Nearest neighbours and nearest means at a temperature (nearest.hpp).
#include "../nearest.hpp"

#include <string>

#include "arrays.hpp"
#include "module.hpp"

namespace annealed {

// All arrays by name: those of codevectors, which lie in tiles, with how many numbers there are of
// each, and the others.
template <class Model, class OfCodevectors, class Others>
void visit_nearest(Model& model, OfCodevectors of_codevectors, Others others) {
    of_codevectors("mu", model.tiles.mu, model.d);
    of_codevectors("owner", model.owner, 1);
    of_codevectors("born", model.born, 1);
    of_codevectors("log_weight", model.log_weight, 1);
    others("relevance", model.relevance);
    others("gradient", model.gradient);
    others("first", model.first);
    others("second", model.second);
}
template <class Model, class Visit>
void visit_numbers(Model& model, Visit each) {
    each("sharpness", model.sharpness);
    each("log_recency", model.log_recency);
    each("nearest", model.nearest);
    each("apart", model.apart);
}

template <class Divergence>
void define_one_nearest(nb::module_& m, const std::string& name) {
    using Model = Nearest<Divergence>;
    nb::class_<Model, Runner>(m, name.c_str())
        .def("__init__",
             [](Model* self, Vector start, std::size_t room, std::size_t classes, nb::dict s,
                Vector low, Vector high, std::optional<Matrix> matrix) {
                 NearestSettings settings;
                 settings.rate = nb::cast<double>(s["rate"]);
                 settings.batch = nb::cast<int>(s["batch"]);
                 settings.recency = nb::cast<double>(s["recency"]);
                 settings.means = nb::cast<bool>(s["means"]);
                 settings.relevances = nb::cast<bool>(s["relevances"]);
                 const std::size_t d = start.shape(0);
                 const char* misfit = "the parts of nearest neighbours do not fit together";
                 require_length(low, d, misfit);
                 require_length(high, d, misfit);
                 require_square(matrix, d);
                 require(settings.batch > 0 && settings.recency > 0 && settings.recency < infinity, misfit);
                 require(!settings.means || room == classes, misfit);
                 new (self) Model(settings, size_of(room), size_of(d), size_of(classes), start.data(),
                                  low.data(), high.data(), pointer(matrix));
             },
             "start"_a, "room"_a, "classes"_a, "settings"_a, "low"_a, "high"_a, "matrix"_a.none())
        .def_ro("updates", &Model::updates)
        .def_ro("seen", &Model::seen)
        .def("know_classes", [](Model& self, std::size_t n) { self.know_classes(size_of(n)); }, "n"_a,
             "There are so many classes from now on.")
        .def("forget", [](Model& self, std::int64_t kept) { self.forget(kept); }, "kept"_a,
             "Let go of all samples but the latest few.")
        .def("learn",
             [](Model& self, Anything X, std::optional<Integers> order, Classes classes,
                std::optional<Vector> weights, std::int64_t begin, std::int64_t end, bool answer,
                bool tests) {
                 const Samples samples = rows_to_learn(X, self.d, order, classes, weights, begin, end);
                 double* posterior = nullptr;
                 auto answers = new_array<double>({static_cast<std::size_t>(answer ? end - begin : 0),
                                                   static_cast<std::size_t>(self.classes)},
                                                  posterior);
                 nb::gil_scoped_release unlocked;
                 learn_nearest(self, samples, begin, end, tests, answer ? posterior : nullptr);
                 return answers;
             },
             "X"_a, "order"_a.none(), "classes"_a, "weights"_a.none(), "begin"_a, "end"_a,
             "answer"_a = false, "tests"_a = true)
        .def("read",
             [](const Model& self) {
                 // Those there are, the oldest first.
                 std::vector<int> present;
                 for (int i = 0; i < self.K; ++i)
                     if (self.owner[i] >= 0) present.push_back(i);
                 std::stable_sort(present.begin(), present.end(),
                                  [&](int a, int b) { return self.born[a] < self.born[b]; });
                 const std::size_t n = present.size(), d = static_cast<std::size_t>(self.d);
                 double *mu, *classes, *bias, *ages;
                 nb::dict state;
                 state["mu"] = new_array<double>({n, d}, mu);
                 state["classes"] = new_array<double>({n}, classes);
                 state["log_weight"] = new_array<double>({n}, bias);
                 state["age"] = new_array<double>({n}, ages);
                 for (std::size_t k = 0; k < n; ++k) {
                     const int i = present[k];
                     const double* tile = &self.tiles.mu[self.tiles.offset(i / W) + i % W];
                     for (std::size_t j = 0; j < d; ++j) mu[k * d + j] = tile[j * W];
                     classes[k] = self.owner[i];
                     bias[k] = self.log_weight[i];
                     ages[k] = self.age(i);
                 }
                 state["relevance"] = copy_out(self.relevance.data(), d);
                 state["temperature"] = self.temperature();
                 state["recency"] = self.settings.means ? self.settings.recency : self.recency();
                 return state;
             },
             "Codevectors with class, log weight and age, the oldest first, and what is fitted.")
        .def("state",
             [](const Model& self) {
                 nb::dict state;
                 const auto save = [&](const char* name, const Doubles& values, int = 1) {
                     state[name] = copy_out(values.data(), values.size());
                 };
                 visit_nearest(self, save, save);
                 state["lanes"] = W;
                 visit_numbers(self, [&](const char* name, double value) { state[name] = value; });
                 state["seen"] = self.seen;
                 state["at"] = self.at;
                 state["measured"] = self.measured;
                 state["updates"] = self.updates;
                 state["waiting"] = self.waiting;
                 return state;
             },
             "Everything, to be restored in a model of the same shape.")
        .def("restore", [](Model& self, nb::dict state) {
            const char* misfit = "saved nearest neighbours have another shape";
            visit_nearest(
                self,
                [&](const char* name, Doubles& into, int each) {
                    tiles_in(state, name, into, self.K, each, misfit);
                },
                [&](const char* name, Doubles& into) {
                    copy_in(state, name, into.data(), into.size(), misfit);
                });
            visit_numbers(self, [&](const char* name, double& into) {
                into = nb::cast<double>(state[name]);
                require(into > -infinity && into < infinity, misfit);
            });
            for (std::size_t i = 0; i < self.owner.size(); ++i) {
                const double c = self.owner[i];
                require(c >= -1 && c < self.classes && c == std::floor(c), misfit);
                require((c >= 0 && static_cast<int>(i) < self.K) == (self.log_weight[i] > -infinity), misfit);
                require(!self.settings.means || c < 0 || c == static_cast<double>(i), misfit);
            }
            self.seen = whole_in(state, "seen");
            self.at = whole_in(state, "at");
            require(self.at < self.K, misfit);
            self.measured = whole_in(state, "measured");
            self.updates = whole_in(state, "updates");
            self.waiting = whole_in(state, "waiting");
            require(self.waiting < self.settings.batch, "a saved batch has too many samples");
            self.refresh();
        });
}

void define_nearest(nb::module_& m) {
    for_each_divergence([&](auto divergence, const std::string& name, const std::string&) {
        define_one_nearest<decltype(divergence)>(m, name + "Nearest");
    });
}

}  // namespace annealed
