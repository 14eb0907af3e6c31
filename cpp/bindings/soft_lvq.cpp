// Soft LVQ (soft_lvq.hpp).
#include "../soft_lvq.hpp"

#include <string>

#include "arrays.hpp"
#include "module.hpp"

namespace annealed {

// All arrays of a fine-tuning, by name: those of codevectors, which lie in tiles, with how many
// numbers there are of each, and those of features.
template <class Model, class OfCodevectors, class OfFeatures>
void visit(Model& model, OfCodevectors of_codevectors, OfFeatures of_features) {
    const auto ascent = [](const std::string& name, auto& by, const auto& each) {
        each((name + "_gradient").c_str(), by.gradient);
        each((name + "_first").c_str(), by.first);
        each((name + "_second").c_str(), by.second);
        each((name + "_mean").c_str(), by.mean);
    };
    const auto rows = [&](const char* key, auto& values) { of_codevectors(key, values, model.d); };
    const auto single = [&](const char* key, auto& values) { of_codevectors(key, values, 1); };
    rows("mu", model.tiles.mu);
    single("bias", model.bias);
    single("sharpness", model.sharpness);
    of_features("relevance", model.relevance);
    ascent("mu", model.by_mu, rows);
    ascent("bias", model.by_bias, single);
    ascent("sharpness", model.by_sharpness, single);
    ascent("relevance", model.by_relevance, of_features);
}

// What relevances are told by, of a batch under way. Older files have its sum over tiles.
template <class Model>
void restore_terms(Model& model, const nb::dict& state, const char* misfit) {
    const Vector terms = nb::cast<Vector>(state["terms"]);
    const auto lanes = state.contains("lanes") ? nb::cast<std::size_t>(state["lanes"]) : 4;
    const auto d = static_cast<std::size_t>(model.d);
    if (terms.shape(0) != lanes * d) {
        if (!model.terms.empty() || terms.shape(0) != 0)
            tiles_in(state, "terms", model.terms, model.K, model.d, misfit);
        return;
    }
    std::fill(model.terms.begin(), model.terms.end(), 0.0);
    if (model.terms.empty()) return;  // they do not move
    for (std::size_t k = 0; k < terms.shape(0); ++k)
        model.terms[k / lanes * W + k % lanes % W] += terms.data()[k];
}

template <class Divergence>
void define_one_soft_lvq(nb::module_& m, const std::string& name) {
    using Model = SoftLVQ<Divergence>;
    nb::class_<Model, Runner>(m, name.c_str())
        .def("__init__",
             [](Model* self, Matrix mu, Vector bias, Vector sharpness, Vector relevance,
                Integers first_of, Vector unit, nb::dict s, Vector low, Vector high,
                std::optional<Matrix> matrix) {
                 SoftSettings settings;
                 settings.rate = nb::cast<double>(s["rate"]);
                 settings.batch = nb::cast<int>(s["batch"]);
                 settings.temperatures = nb::cast<bool>(s["temperatures"]);
                 settings.relevances = nb::cast<bool>(s["relevances"]);
                 settings.T = nb::cast<double>(s["T"]);
                 settings.recent = nb::cast<double>(s["recent"]);
                 const std::size_t K = mu.shape(0), d = mu.shape(1), classes = first_of.shape(0);
                 const char* misfit = "the parts of a fine-tuning do not fit its codevectors";
                 require_length(bias, K, misfit);
                 require_length(sharpness, K, misfit);
                 for (const Vector* each : {&relevance, &unit, &low, &high})
                     require_length(*each, d, misfit);
                 require_square(matrix, d);
                 require(settings.batch > 0, misfit);
                 require(classes > 1 && first_of.data()[0] == 0 &&
                             first_of.data()[classes - 1] == static_cast<std::int64_t>(K),
                         misfit);
                 for (std::size_t c = 1; c < classes; ++c)
                     require(first_of.data()[c] > first_of.data()[c - 1], misfit);
                 new (self) Model(settings, size_of(K), size_of(d), mu.data(), bias.data(),
                                  sharpness.data(), relevance.data(), first_of.data(),
                                  first_of.shape(0) - 1, unit.data(), low.data(), high.data(),
                                  pointer(matrix));
             },
             "mu"_a, "bias"_a, "sharpness"_a, "relevance"_a, "first_of"_a, "unit"_a, "settings"_a,
             "low"_a, "high"_a, "matrix"_a.none())
        .def_ro("updates", &Model::updates)
        .def("learn",
             [](Model& self, Anything X, std::optional<Integers> order, Classes classes,
                std::optional<Vector> weights, std::int64_t begin, std::int64_t end, bool answer,
                bool averaged, int threads) {
                 const Samples samples =
                     rows_to_learn(X, self.d, order, classes, weights, begin, end);
                 double* posterior = nullptr;
                 auto answers = new_array<double>({static_cast<std::size_t>(answer ? end - begin : 0),
                                                   static_cast<std::size_t>(self.n_classes())},
                                                  posterior);
                 nb::gil_scoped_release unlocked;
                 learn_soft(self, samples, begin, end, answer ? posterior : nullptr, averaged,
                            threads);
                 return answers;
             },
             "X"_a, "order"_a.none(), "classes"_a, "weights"_a.none(), "begin"_a, "end"_a,
             "answer"_a = false, "averaged"_a = false, "threads"_a = 1)
        .def("shift",
             [](Model& self, Vector by) {
                 require_length(by, static_cast<std::size_t>(self.K),
                                "a shift is of other codevectors");
                 self.shift(by.data());
             },
             "by"_a, "Add to the biases of the codevectors.")
        .def("read",
             [](const Model& self) {
                 const auto K = static_cast<std::size_t>(self.K);
                 nb::dict state;
                 state["mu"] = rows_out(self.by_mu.mean, self.K, self.d);
                 state["bias"] = copy_out(self.by_bias.mean.data(), K);
                 state["sharpness"] = copy_out(self.by_sharpness.mean.data(), K);
                 state["relevance"] = copy_out(self.by_relevance.mean.data(),
                                               self.by_relevance.mean.size());
                 return state;
             },
             "The average of the iterates: the model to predict with.")
        .def("state",
             [](const Model& self) {
                 nb::dict state;
                 const auto save = [&](const char* name, const Doubles& values, int = 1) {
                     state[name] = copy_out(values.data(), values.size());
                 };
                 visit(self, save, save);
                 save("terms", self.terms);
                 state["lanes"] = W;
                 state["updates"] = self.updates;
                 state["waiting"] = self.waiting;
                 return state;
             },
             "Everything, to be restored in a model of the same shape.")
        .def("restore", [](Model& self, nb::dict state) {
            const char* misfit = "saved fine-tuning has another shape";
            visit(
                self,
                [&](const char* name, Doubles& into, int each) {
                    tiles_in(state, name, into, self.K, each, misfit);
                },
                [&](const char* name, Doubles& into) {
                    copy_in(state, name, into.data(), into.size(), misfit);
                });
            restore_terms(self, state, misfit);
            self.updates = whole_in(state, "updates");
            self.waiting = whole_in(state, "waiting");
            require(self.waiting < self.settings.batch, "a saved batch has too many samples");
            self.refresh();
        });
}

void define_soft_lvq(nb::module_& m) {
    for_each_divergence([&](auto divergence, const std::string& name, const std::string&) {
        define_one_soft_lvq<decltype(divergence)>(m, name + "SoftLVQ");
    });
}

}  // namespace annealed
