// The only file that knows Python. Built once per instruction set (see CMakeLists.txt) under a
// module name given by ANNEALED_MODULE; annealed.kernels.compiled picks one at import.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "associate.hpp"
#include "online.hpp"
#include "running.hpp"
#include "soft_lvq.hpp"
#include "winner.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace annealed {

using Anything = nb::ndarray<nb::ro, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Classes = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class Number>
using Array = nb::ndarray<nb::numpy, Number>;

template <class Number>
Array<Number> new_array(std::vector<std::size_t> shape, Number*& data) {
    std::size_t size = 1;
    for (std::size_t n : shape) size *= n;
    data = new Number[size ? size : 1]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<Number*>(p); });
    return Array<Number>(data, shape.size(), shape.data(), owner);
}
Array<double> copy_out(const double* values, std::size_t size) {
    double* data;
    Array<double> array = new_array<double>({size}, data);
    std::copy(values, values + size, data);
    return array;
}
Array<double> rows_out(const Doubles& tiles, int K, int d) {
    double* data;
    Array<double> array = new_array<double>({static_cast<std::size_t>(K), static_cast<std::size_t>(d)}, data);
    from_tiles(tiles, K, d, data);
    return array;
}

template <class A>
auto* pointer(const std::optional<A>& array) {
    return array ? array->data() : nullptr;
}

// Sizes are checked wherever arrays come in: a model may have been read from a file nobody vouches
// for, and the loops behind believe what they are told.
void require(bool holds, const char* otherwise) {
    if (!holds) throw std::invalid_argument(otherwise);
}
int size_of(std::size_t n) {
    require(n > 0 && n < (std::size_t(1) << 30), "no codevectors or features, or too many of them");
    return static_cast<int>(n);
}
void require_square(const std::optional<Matrix>& matrix, std::size_t d) {
    require(!matrix || (matrix->shape(0) == d && matrix->shape(1) == d),
            "the matrix of the divergence does not fit the codevectors");
}
void require_length(const Vector& vector, std::size_t n, const char* otherwise) {
    require(vector.shape(0) == n, otherwise);
}
// A count or a sum of weights read from a saved state.
std::int64_t whole_in(const nb::dict& state, const char* key) {
    const auto value = nb::cast<std::int64_t>(state[key]);
    require(value >= 0 && value < (std::int64_t(1) << 62), "a saved count is out of range");
    return value;
}
double amount_in(const nb::dict& state, const char* key) {
    const auto value = nb::cast<double>(state[key]);
    require(value >= 0 && value < infinity, "a saved sum of weights is out of range");
    return value;
}
// Steps 1/(a + b n): anything else may never end (see log_gamma_ratio).
void require_steps(const LevelSettings& steps) {
    require(steps.a >= 1 && steps.a < infinity && steps.b > 0 && steps.b < infinity &&
                steps.alpha_min >= 0 && steps.alpha_min < 1,
            "steps 1/(a + b n) need a >= 1, b > 0 and a floor from 0 to below 1");
}

Samples samples_of(const Anything& X, const std::optional<Integers>& order,
                   const std::optional<Classes>& classes, const std::optional<Vector>& weights) {
    const bool single = X.dtype() == nb::dtype<float>();
    if (X.ndim() != 2 || (!single && X.dtype() != nb::dtype<double>()))
        throw std::invalid_argument("rows must be a 2-D float32 or float64 array");
    require((!classes || classes->shape(0) >= X.shape(0)) &&
                (!weights || weights->shape(0) >= X.shape(0)),
            "there are fewer classes or weights than rows");
    return {static_cast<const char*>(X.data()), X.stride(0), X.stride(1), single,
            pointer(order), pointer(classes), pointer(weights)};
}

// -- one sample at a time ---------------------------------------------------------------------

// What a sample must be to be taken as it comes: a dict with just these keys, or a sequence of
// numbers, all of them between the bounds.
struct SampleFormat {
    nb::object keys;  // a tuple, or None where samples are sequences
    double low, high;
};

bool read_number(PyObject* value, double& number) {
    number = PyFloat_AsDouble(value);
    if (number != -1.0 || !PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

// The sample's numbers, valid until the next call; null where it is out of the ordinary, for the
// caller to look at more closely.
const double* read_sample(nb::handle x, const SampleFormat& format, int d) {
    static thread_local Doubles values;
    values.resize(static_cast<std::size_t>(d));
    PyObject* sample = x.ptr();
    if (PyDict_Check(sample)) {
        PyObject* keys = format.keys.ptr();
        if (!PyTuple_Check(keys) || PyTuple_Size(keys) != d || PyDict_Size(sample) != d)
            return nullptr;
        for (int j = 0; j < d; ++j) {
            PyObject* value = PyDict_GetItemWithError(sample, PyTuple_GetItem(keys, j));
            if (!value || !read_number(value, values[j])) return PyErr_Clear(), nullptr;
        }
    } else if (PyList_Check(sample) || PyTuple_Check(sample)) {
        const bool list = PyList_Check(sample);
        if ((list ? PyList_Size(sample) : PyTuple_Size(sample)) != d) return nullptr;
        for (int j = 0; j < d; ++j)
            if (!read_number(list ? PyList_GetItem(sample, j) : PyTuple_GetItem(sample, j),
                             values[j]))
                return nullptr;
    } else {
        Vector array;
        if (!nb::try_cast<Vector>(x, array, false) || array.shape(0) != values.size())
            return nullptr;
        std::copy(array.data(), array.data() + d, values.begin());
    }
    for (const double value : values)  // nan is not between them either
        if (!(value > format.low && value < format.high)) return nullptr;
    return values.data();
}

bool is_weight(double w) { return w > 0 && w < infinity; }

bool feed_level(LevelBase& level, nb::handle x, const SampleFormat& format, double w) {
    const double* sample = read_sample(x, format, level.features());
    if (!sample || !is_weight(w)) return false;
    const FlushDenormals flush;
    level.seen += w;
    level.step({sample, 1, false}, w);
    return true;
}

template <class Divergence>
nb::object associations(OnlineLevel<Divergence>& level, nb::handle x, const SampleFormat& format) {
    const double* sample = read_sample(x, format, level.d);
    if (!sample || !level.pending_weights.empty()) return nb::none();
    const FlushDenormals flush;
    double* shares;
    auto array = new_array<double>({static_cast<std::size_t>(level.K)}, shares);
    level.associations({sample, 1, false}, shares);
    return nb::cast(array);
}

// log sum_i rho_i exp(-d/T) of one sample for each of several levels.
template <class Divergence>
nb::object evidence(const nb::sequence& levels, nb::handle x, const SampleFormat& format,
                    double T) {
    const std::size_t count = nb::len(levels);
    double* out;
    auto array = new_array<double>({count}, out);
    const FlushDenormals flush;
    for (std::size_t c = 0; c < count; ++c) {
        OnlineLevel<Divergence>* level = nullptr;
        if (!nb::try_cast<OnlineLevel<Divergence>*>(levels[c], level) || !level ||
            !level->pending_weights.empty())
            return nb::none();
        const double* sample = read_sample(x, format, level->d);
        if (!sample) return nb::none();
        out[c] = level->evidence({sample, 1, false}, T);
    }
    return nb::cast(array);
}

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
                          nullptr, nullptr, nullptr};
    associate<Divergence>(book, samples, 1, group.data(), model.classes(), posterior, &log_total,
                          &distortion);
    return nb::cast(array);
}

std::int64_t learn_rows(const std::vector<LevelBase*>& levels, const Anything& X,
                        const std::optional<Integers>& order, const std::optional<Classes>& classes,
                        const std::optional<Vector>& weights, std::int64_t begin, std::int64_t end) {
    const Samples samples = samples_of(X, order, classes, weights);
    const std::int64_t available =
        static_cast<std::int64_t>(order ? order->shape(0) : X.shape(0));
    if (begin < 0 || end > available) throw std::out_of_range("rows asked for are not in the array");
    for (const LevelBase* level : levels)
        if (level->features() != static_cast<int>(X.shape(1)))
            throw std::invalid_argument("rows and codevectors differ in their number of features");
    nb::gil_scoped_release unlocked;
    return learn(levels, samples, begin, end);
}

template <class Divergence>
void define_level(nb::module_& m, const char* name) {
    using Level = OnlineLevel<Divergence>;
    const auto padded = [](const Level& level, const Doubles& values) {
        return copy_out(values.data(), static_cast<std::size_t>(level.K));
    };
    const auto export_state = [padded](const Level& level) {
        nb::dict state;
        state["mu"] = rows_out(level.tiles.mu, level.K, level.d);
        state["r"] = padded(level, level.r);
        state["axis"] = rows_out(level.axis, level.K, level.d);
        state["u"] = rows_out(level.u, level.K, level.d);
        state["p"] = padded(level, level.sums.p);
        state["p2"] = padded(level, level.sums.p2);
        state["y"] = padded(level, level.sums.y);
        state["y2"] = padded(level, level.sums.y2);
        state["y4"] = padded(level, level.sums.y4);
        state["turned"] = rows_out(level.sums.turned, level.K, level.d);
        state["pending"] = copy_out(level.pending.data(), level.pending.size());
        state["pending_weights"] =
            copy_out(level.pending_weights.data(), level.pending_weights.size());
        state["g"] = level.g;
        state["n"] = level.n;
        state["count"] = level.count;
        state["seen"] = level.seen;
        state["streak"] = level.streak;
        state["done"] = level.done;
        state["weight"] = level.sums.weight;
        state["distortion"] = level.sums.distortion;
        state["entropy"] = level.sums.entropy;
        return state;
    };
    nb::class_<Level, LevelBase>(m, name)
        .def("__init__",
             [](Level* self, Matrix mu, Vector rho, Matrix axis, nb::dict s,
                std::optional<Vector> low, std::optional<Vector> high,
                std::optional<Matrix> matrix) {
                 LevelSettings settings;
                 const auto number = [&](const char* key) { return nb::cast<double>(s[key]); };
                 const auto whole = [&](const char* key) { return nb::cast<std::int64_t>(s[key]); };
                 settings.T = number("T");
                 settings.small_step = number("small_step");
                 settings.a = number("a");
                 settings.b = number("b");
                 settings.alpha_min = number("alpha_min");
                 settings.first_axis = whole("first_axis");
                 settings.second_axis = whole("second_axis");
                 settings.at_least = whole("at_least");
                 settings.at_most = whole("at_most");
                 settings.patience = static_cast<int>(whole("patience"));
                 require_steps(settings);
                 const int K = size_of(mu.shape(0)), d = size_of(mu.shape(1));
                 require(rho.shape(0) == mu.shape(0) && axis.shape(0) == mu.shape(0) &&
                             axis.shape(1) == mu.shape(1),
                         "weights or axes do not fit the codevectors");
                 require(!Divergence::bounded || (low && high), "this divergence has bounds");
                 if (low) require_length(*low, mu.shape(1), "bounds do not fit the codevectors");
                 if (high) require_length(*high, mu.shape(1), "bounds do not fit the codevectors");
                 require_square(matrix, mu.shape(1));
                 const double n = amount_in(s, "n");
                 new (self) Level(settings, K, d, mu.data(), rho.data(), axis.data(), pointer(low),
                                  pointer(high), pointer(matrix));
                 self->n = n;
             },
             "mu"_a, "rho"_a, "axis"_a, "settings"_a, "low"_a.none(), "high"_a.none(),
             "matrix"_a.none())
        .def_static("evidence", &evidence<Divergence>, "levels"_a, "x"_a, "format"_a, "T"_a,
                    "log sum_i rho_i exp(-d_i/T) of one sample for every level; None as above.")
        .def("associations", &associations<Divergence>, "x"_a, "format"_a,
             "p_i of one sample; None where it is out of the ordinary or samples are pending.")
        .def("state", export_state,
             "All of the level's state, as arrays and numbers; samples may be pending.")
        .def("read",
             [export_state](Level& level) {
                 // Reading must not close a block early, or the model would depend on who looked.
                 const auto before = std::make_tuple(level.tiles.mu, level.r, level.g, level.n,
                                                     level.streak, level.pending,
                                                     level.pending_weights);
                 level.settle();
                 nb::dict state = export_state(level);
                 std::tie(level.tiles.mu, level.r, level.g, level.n, level.streak, level.pending,
                          level.pending_weights) = before;
                 return state;
             },
             "The state once the pending samples are learnt; the level itself stays as it is.")
        .def("restore",
             [](Level& level, nb::dict state) {
                 const auto rows = [&](const char* key, bool pad) {
                     const Matrix array = nb::cast<Matrix>(state[key]);
                     if (array.shape(0) != static_cast<std::size_t>(level.K) ||
                         array.shape(1) != static_cast<std::size_t>(level.d))
                         throw std::invalid_argument("saved level has another shape");
                     return to_tiles(array.data(), level.K, level.d, pad);
                 };
                 const auto values = [&](const char* key, Doubles& into) {
                     const Vector array = nb::cast<Vector>(state[key]);
                     if (array.shape(0) != static_cast<std::size_t>(level.K))
                         throw std::invalid_argument("saved level has another shape");
                     std::copy(array.data(), array.data() + level.K, into.begin());
                 };
                 level.tiles.mu = rows("mu", true);
                 level.axis = rows("axis", false);
                 level.u = rows("u", false);
                 level.sums.turned = rows("turned", false);
                 values("r", level.r);
                 values("p", level.sums.p);
                 values("p2", level.sums.p2);
                 values("y", level.sums.y);
                 values("y2", level.sums.y2);
                 values("y4", level.sums.y4);
                 const auto waiting = [&](const char* key, std::size_t each, Doubles& into) {
                     const Vector array = nb::cast<Vector>(state[key]);
                     if (array.shape(0) % each || array.shape(0) / each >= Level::block)
                         throw std::invalid_argument("saved level has too many pending samples");
                     into.assign(array.data(), array.data() + array.shape(0));
                 };
                 waiting("pending", static_cast<std::size_t>(level.d), level.pending);
                 waiting("pending_weights", 1, level.pending_weights);
                 if (level.pending.size() != level.pending_weights.size() * level.d)
                     throw std::invalid_argument("saved level has rows and weights that differ");
                 level.g = nb::cast<double>(state["g"]);
                 level.n = amount_in(state, "n");
                 level.count = whole_in(state, "count");
                 level.seen = amount_in(state, "seen");
                 level.streak = nb::cast<int>(state["streak"]);
                 level.done = nb::cast<bool>(state["done"]);
                 level.sums.weight = nb::cast<double>(state["weight"]);
                 level.sums.distortion = nb::cast<double>(state["distortion"]);
                 level.sums.entropy = nb::cast<double>(state["entropy"]);
                 level.refresh();
             });
}

template <class Divergence>
void define_reading(nb::module_& m, const std::string& suffix) {
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
    const auto check = [](const Anything& X, const Matrix& mu) {
        if (X.ndim() != 2 || X.shape(1) != mu.shape(1))
            throw std::invalid_argument("rows and codevectors differ in their number of features");
        return static_cast<std::int64_t>(X.shape(0));
    };
    m.def(("divergences_" + suffix).c_str(),
          [=](Anything X, Matrix mu, std::optional<Vector> relevance,
              std::optional<Matrix> matrix) {
              const std::int64_t rows = check(X, mu);
              const Samples samples = samples_of(X, {}, {}, {});
              double* out;
              auto array = new_array<double>({static_cast<std::size_t>(rows), mu.shape(0)}, out);
              const Codebook book = book_of(mu, {}, 0, matrix, {}, relevance);
              nb::gil_scoped_release unlocked;
              divergences<Divergence>(book, samples, rows, out);
              return array;
          },
          "X"_a, "mu"_a, "relevance"_a.none(), "matrix"_a.none());
    m.def(("assign_" + suffix).c_str(),
          [=](Anything X, Matrix mu, Vector log_weight, double T, std::optional<Matrix> matrix) {
              const std::int64_t rows = check(X, mu);
              const Samples samples = samples_of(X, {}, {}, {});
              std::int64_t* labels;
              auto array = new_array<std::int64_t>({static_cast<std::size_t>(rows)}, labels);
              const Codebook book = book_of(mu, log_weight, T, matrix);
              nb::gil_scoped_release unlocked;
              assign<Divergence>(book, samples, rows, labels);
              return array;
          },
          "X"_a, "mu"_a, "log_weight"_a, "T"_a, "matrix"_a.none());
    m.def(("associate_" + suffix).c_str(),
          [=](Anything X, Matrix mu, Vector log_weight, double T, Integers group,
              std::int64_t groups, std::optional<Vector> sharpness,
              std::optional<Vector> relevance, std::optional<Matrix> matrix) {
              const std::int64_t rows = check(X, mu);
              const Samples samples = samples_of(X, {}, {}, {});
              check_groups(group, mu, groups);
              const auto count = static_cast<std::size_t>(rows);
              double *posterior, *log_total, *distortion;
              auto shares = new_array<double>({count, static_cast<std::size_t>(groups)}, posterior);
              auto totals = new_array<double>({count}, log_total);
              auto distortions = new_array<double>({count}, distortion);
              const Codebook book =
                  book_of(mu, log_weight, T, matrix, sharpness, relevance);
              {
                  nb::gil_scoped_release unlocked;
                  associate<Divergence>(book, samples, rows, group.data(), groups, posterior,
                                        log_total, distortion);
              }
              return nb::make_tuple(shares, totals, distortions);
          },
          "X"_a, "mu"_a, "log_weight"_a, "T"_a, "group"_a, "groups"_a, "sharpness"_a.none(),
          "relevance"_a.none(), "matrix"_a.none());
    m.def(("losses_" + suffix).c_str(),
          [=](Anything X, Classes classes, Matrix mu, Vector log_weight, double T, Integers group,
              Vector factors, std::optional<Matrix> matrix) {
              const std::int64_t rows = check(X, mu);
              require(group.shape(0) == mu.shape(0), "groups do not fit the codevectors");
              const Samples samples = samples_of(X, {}, classes, {});
              double* loss;
              auto array = new_array<double>({factors.shape(0)}, loss);
              const Codebook book = book_of(mu, log_weight, T, matrix);
              nb::gil_scoped_release unlocked;
              losses<Divergence>(book, samples, rows, group.data(), factors.data(),
                                 static_cast<int>(factors.shape(0)), loss);
              return array;
          },
          "X"_a, "classes"_a, "mu"_a, "log_weight"_a, "T"_a, "group"_a, "factors"_a,
          "matrix"_a.none());
    m.def(("hard_sums_" + suffix).c_str(),
          [=](Anything X, Matrix mu, std::optional<Vector> weights, std::optional<Matrix> matrix) {
              const std::int64_t rows = check(X, mu);
              const Samples samples = samples_of(X, {}, {}, weights);
              double *weight, *total;
              std::int64_t* labels;
              auto counts = new_array<double>({mu.shape(0)}, weight);
              auto sums = new_array<double>({mu.shape(0), mu.shape(1)}, total);
              auto assigned = new_array<std::int64_t>({static_cast<std::size_t>(rows)}, labels);
              const Codebook book = book_of(mu, {}, 0, matrix);
              double distortion;
              {
                  nb::gil_scoped_release unlocked;
                  distortion = hard_sums<Divergence>(book, samples, rows, weight, total, labels);
              }
              return nb::make_tuple(counts, sums, assigned, distortion);
          },
          "X"_a, "mu"_a, "weights"_a.none(), "matrix"_a.none());
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
void define_soft_lvq(nb::module_& m, const std::string& name) {
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
        .def("answer", &soft_answer<Divergence>, "x"_a, "format"_a, "group"_a,
             "p(c|x) of one sample; None where it is out of the ordinary.")
        .def("learn",
             [](Model& self, Anything X, std::optional<Integers> order, Classes classes,
                std::optional<Vector> weights, std::int64_t begin, std::int64_t end, bool answer) {
                 const Samples samples = samples_of(X, order, classes, weights);
                 const auto available =
                     static_cast<std::int64_t>(order ? order->shape(0) : X.shape(0));
                 if (begin < 0 || end > available || end < begin)
                     throw std::out_of_range("rows asked for are not in the array");
                 if (static_cast<int>(X.shape(1)) != self.d)
                     throw std::invalid_argument(
                         "rows and codevectors differ in their number of features");
                 double* posterior = nullptr;
                 auto answers = new_array<double>({static_cast<std::size_t>(answer ? end - begin : 0),
                                                   static_cast<std::size_t>(self.classes())},
                                                  posterior);
                 nb::gil_scoped_release unlocked;
                 learn_soft(self, samples, begin, end, answer ? posterior : nullptr);
                 return answers;
             },
             "X"_a, "order"_a.none(), "classes"_a, "weights"_a.none(), "begin"_a, "end"_a,
             "answer"_a = false)
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
                const Vector array = nb::cast<Vector>(state[name]);
                if (array.shape(0) != into.size())
                    throw std::invalid_argument("saved fine-tuning has another shape");
                std::copy(array.data(), array.data() + into.size(), into.begin());
            });
            self.updates = whole_in(state, "updates");
            self.waiting = whole_in(state, "waiting");
            require(self.waiting < self.settings.batch, "a saved batch has too many samples");
            self.refresh();
        });
}

template <class Divergence>
void define(nb::module_& m, const std::string& name, const char* suffix) {
    define_level<Divergence>(m, (name + "Level").c_str());
    define_soft_lvq<Divergence>(m, name + "SoftLVQ");
    define_reading<Divergence>(m, suffix);
}

template <class Divergence>
void define_winner(nb::module_& m, const char* name) {
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
    nb::class_<Run, WinnerBase>(m, name)
        .def("__init__",
             [](Run* self, Matrix mu, Classes classes, nb::dict s, bool simplex, Vector low,
                Vector high, std::optional<Matrix> matrix) {
                 const auto number = [&](const char* key) { return nb::cast<double>(s[key]); };
                 const auto rule = nb::cast<std::string>(s["rule"]);
                 WinnerSettings settings;
                 if (rule != "vq" && rule != "lvq1" && rule != "glvq")
                     throw std::invalid_argument("rule must be 'vq', 'lvq1' or 'glvq'");
                 if (mu.shape(0) == 0 || classes.shape(0) != mu.shape(0))
                     throw std::invalid_argument("one class for each codevector is needed");
                 for (std::size_t i = 0; i < classes.shape(0); ++i)
                     if (classes.data()[i] < 0)
                         throw std::invalid_argument("classes are numbered from 0");
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
            if (mu.shape(0) != static_cast<std::size_t>(run.K) ||
                mu.shape(1) != static_cast<std::size_t>(run.d) ||
                updates.shape(0) != static_cast<std::size_t>(run.K))
                throw std::invalid_argument("saved run has another shape");
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

void compete_rows(WinnerBase& run, const Anything& X, const std::optional<Integers>& order,
                  const std::optional<Classes>& classes, const std::optional<Vector>& weights,
                  std::int64_t begin, std::int64_t end) {
    const Samples samples = samples_of(X, order, classes, weights);
    const std::int64_t available =
        static_cast<std::int64_t>(order ? order->shape(0) : X.shape(0));
    if (begin < 0 || end > available) throw std::out_of_range("rows asked for are not in the array");
    if (run.features() != static_cast<int>(X.shape(1)))
        throw std::invalid_argument("rows and codevectors differ in their number of features");
    nb::gil_scoped_release unlocked;
    compete(run, samples, begin, end);
}

bool cpu_has_avx2() {
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

    using Statistic = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    m.def("running_standardise",
          [](Matrix X, Statistic count, Statistic mean, Statistic m2, Vector fill) {
              for (const std::size_t size :
                   {count.shape(0), mean.shape(0), m2.shape(0), fill.shape(0)})
                  if (size != X.shape(1))
                      throw std::invalid_argument("rows and statistics differ in their features");
              double* out;
              auto array = new_array<double>({X.shape(0), X.shape(1)}, out);
              nb::gil_scoped_release unlocked;
              running_standardise(X.data(), static_cast<std::int64_t>(X.shape(0)),
                                  static_cast<std::int64_t>(X.shape(1)), count.data(), mean.data(),
                                  m2.data(), fill.data(), out);
              return array;
          },
          "X"_a, "count"_a, "mean"_a, "m2"_a, "fill"_a);
    nb::class_<SampleFormat>(m, "SampleFormat")
        .def(nb::init<nb::object, double, double>(), "keys"_a.none(), "low"_a, "high"_a);
    nb::class_<LevelBase>(m, "Level")
        .def("feed", &feed_level, "x"_a, "format"_a, "w"_a,
             "Learn one sample; False, and nothing learnt, where it is out of the ordinary.")
        .def_ro("count", &LevelBase::count)
        .def_ro("seen", &LevelBase::seen)
        .def_ro("done", &LevelBase::done);
    nb::class_<WarmUp, LevelBase>(m, "WarmUp")
        .def("__init__",
             [](WarmUp* self, int d, std::int64_t at_least, std::optional<Matrix> matrix) {
                 require(d > 0, "there must be a feature");
                 require_square(matrix, static_cast<std::size_t>(d));
                 new (self) WarmUp(d, at_least, pointer(matrix));
             },
             "d"_a, "at_least"_a, "matrix"_a.none())
        .def("associations",
             [](const WarmUp&, nb::handle, const SampleFormat&) { return nb::none(); })
        .def("state",
             [](const WarmUp& self) {
                 nb::dict state;
                 state["mean"] = copy_out(self.mean.data(), self.mean.size());
                 state["squares"] = copy_out(self.squares.data(), self.squares.size());
                 state["last"] = copy_out(self.last.data(), self.last.size());
                 state["lowest"] = copy_out(self.lowest.data(), self.lowest.size());
                 state["highest"] = copy_out(self.highest.data(), self.highest.size());
                 state["seen"] = self.seen;
                 state["count"] = self.count;
                 state["done"] = self.done;
                 return state;
             })
        .def("read", [](nb::handle self) { return self.attr("state")(); })
        .def("restore", [](WarmUp& self, nb::dict state) {
            const auto values = [&](const char* key, Doubles& into) {
                const Vector array = nb::cast<Vector>(state[key]);
                if (array.shape(0) != into.size())
                    throw std::invalid_argument("saved warm-up has another shape");
                std::copy(array.data(), array.data() + into.size(), into.begin());
            };
            values("mean", self.mean);
            values("squares", self.squares);
            values("last", self.last);
            values("lowest", self.lowest);
            values("highest", self.highest);
            self.seen = amount_in(state, "seen");
            self.count = whole_in(state, "count");
            self.done = nb::cast<bool>(state["done"]);
        });
    m.def("learn", &learn_rows, "levels"_a, "X"_a, "order"_a.none(), "classes"_a.none(),
          "weights"_a.none(), "begin"_a, "end"_a,
          "Present rows until one of them completes its class's level; returns how far it came.");

    define<SquaredEuclidean>(m, "SquaredEuclidean", "squared_euclidean");
    define<IDivergence>(m, "IDivergence", "i_divergence");
    define<ItakuraSaito>(m, "ItakuraSaito", "itakura_saito");
    define<Logistic>(m, "Logistic", "logistic");

    nb::class_<WinnerBase>(m, "Winner")
        .def_ro("count", &WinnerBase::count)
        .def_ro("seen", &WinnerBase::seen)
        .def_ro("distortion", &WinnerBase::distortion)
        .def_ro("errors", &WinnerBase::errors)
        .def("learn", &compete_rows, "X"_a, "order"_a.none(), "classes"_a.none(),
             "weights"_a.none(), "begin"_a, "end"_a);
    define_winner<SquaredEuclidean>(m, "SquaredEuclideanWinner");
    define_winner<IDivergence>(m, "IDivergenceWinner");
    define_winner<ItakuraSaito>(m, "ItakuraSaitoWinner");
    define_winner<Logistic>(m, "LogisticWinner");
}
