// Soft LVQ (soft_lvq.hpp).
#include "../soft_lvq.hpp"

#include <string>

#include "../associate.hpp"
#include "module.hpp"
#include "one_sample.hpp"

namespace annealed {

template <class Divergence>
bool feed_soft(SoftLVQ<Divergence>& model, nb::handle x, const SampleFormat& format, int y,
               double w) {
    require(y >= 0 && y < model.classes(), "a sample is of a class that does not exist");
    const double* sample = read_sample(x, format, model.d);
    if (!sample || !is_weight(w)) return false;
    const FlushDenormals flush;
    model.step({sample, 1, false}, y, w, nullptr);
    return true;
}

template <class Divergence>
int test_soft(SoftLVQ<Divergence>& model, nb::handle x, const SampleFormat& format, int y, double w,
              std::optional<Answer> into) {
    require(y >= 0 && y < model.classes(), "a sample is of a class that does not exist");
    const double* sample = read_sample(x, format, model.d);
    if (!sample || !is_weight(w)) return -1;
    const FlushDenormals flush;
    static thread_local Doubles posterior;
    posterior.resize(static_cast<std::size_t>(model.classes()));
    model.step({sample, 1, false}, y, w, posterior.data(), true);
    return told_wrong(posterior, y, into);
}

// p(c|x) of the averaged iterates, as `associate` gives it.
template <class Divergence>
nb::object soft_answer(const SoftLVQ<Divergence>& model, nb::handle x, const SampleFormat& format,
                       const Integers& group) {
    const double* sample = read_sample(x, format, model.d);
    if (!sample || group.shape(0) != static_cast<std::size_t>(model.K)) return nb::none();
    for (std::size_t i = 0; i < group.shape(0); ++i)
        require(group.data()[i] >= 0 && group.data()[i] < model.classes(),
                "a codevector is of a class that does not exist");
    const auto K = static_cast<std::size_t>(model.K), d = static_cast<std::size_t>(model.d);
    static thread_local Doubles mu, sharpness, relevance;
    mu.resize(K * d), sharpness.resize(K), relevance.resize(d);
    from_tiles(model.by_mu.mean, model.K, model.d, mu.data());
    for (std::size_t i = 0; i < K; ++i) sharpness[i] = std::exp(model.by_sharpness.mean[i]);
    for (std::size_t j = 0; j < d; ++j) relevance[j] = std::exp(model.by_relevance.mean[j]);
    const Codebook book{mu.data(),        model.by_bias.mean.data(),
                        model.K,          model.d,
                        model.settings.T, model.matrix(),
                        sharpness.data(), model.settings.relevances ? relevance.data() : nullptr};
    double *posterior, log_total, distortion;
    auto array = new_array<double>({static_cast<std::size_t>(model.classes())}, posterior);
    const Samples samples{reinterpret_cast<const char*>(sample), model.d, 1, false,
                          nullptr, nullptr, nullptr, nullptr};
    associate<Divergence>(book, samples, 1, 1, group.data(), model.classes(), posterior,
                          &log_total, &distortion);
    return nb::cast(array);
}

// All arrays of a fine-tuning, by name; those of codevectors are padded to whole tiles.
template <class Model, class Visit>
void visit(Model& model, Visit each) {
    each("mu", model.tiles.mu);
    each("bias", model.bias);
    each("sharpness", model.sharpness);
    each("relevance", model.relevance);
    each("terms", model.terms);
    const auto ascent = [&](const std::string& name, auto& by) {
        each((name + "_gradient").c_str(), by.gradient);
        each((name + "_first").c_str(), by.first);
        each((name + "_second").c_str(), by.second);
        each((name + "_mean").c_str(), by.mean);
    };
    ascent("mu", model.by_mu);
    ascent("bias", model.by_bias);
    ascent("sharpness", model.by_sharpness);
    ascent("relevance", model.by_relevance);
}

template <class Divergence>
void define_one_soft_lvq(nb::module_& m, const std::string& name) {
    using Model = SoftLVQ<Divergence>;
    nb::class_<Model>(m, name.c_str())
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
        .def("feed", &feed_soft<Divergence>, "x"_a, "format"_a, "y"_a, "w"_a,
             "Learn one sample; False, and nothing learnt, where it is out of the ordinary.")
        .def("test", &test_soft<Divergence>, "x"_a, "format"_a, "y"_a, "w"_a, "into"_a.none(),
             "Learn one sample; 1 if the average told it wrong before, 0 if not, -1 where it is out "
             "of the ordinary and nothing was learnt. The answer goes into an array.")
        .def("answer", &soft_answer<Divergence>, "x"_a, "format"_a, "group"_a,
             "p(c|x) of one sample; None where it is out of the ordinary.")
        .def("learn",
             [](Model& self, Anything X, std::optional<Integers> order, Classes classes,
                std::optional<Vector> weights, std::int64_t begin, std::int64_t end, bool answer,
                bool averaged) {
                 const Samples samples =
                     rows_to_learn(X, self.d, order, classes, weights, begin, end);
                 double* posterior = nullptr;
                 auto answers = new_array<double>({static_cast<std::size_t>(answer ? end - begin : 0),
                                                   static_cast<std::size_t>(self.classes())},
                                                  posterior);
                 nb::gil_scoped_release unlocked;
                 learn_soft(self, samples, begin, end, answer ? posterior : nullptr, averaged);
                 return answers;
             },
             "X"_a, "order"_a.none(), "classes"_a, "weights"_a.none(), "begin"_a, "end"_a,
             "answer"_a = false, "averaged"_a = false)
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
                 visit(self, [&](const char* name, const Doubles& values) {
                     state[name] = copy_out(values.data(), values.size());
                 });
                 state["updates"] = self.updates;
                 state["waiting"] = self.waiting;
                 return state;
             },
             "Everything, to be restored in a model of the same shape.")
        .def("restore", [](Model& self, nb::dict state) {
            visit(self, [&](const char* name, Doubles& into) {
                copy_in(state, name, into.data(), into.size(),
                        "saved fine-tuning has another shape");
            });
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
