// Levels, the warm-up before them and what is measured at their end (level.hpp, online.hpp,
// level_end.hpp).
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>

#include "../level_end.hpp"
#include "../online.hpp"
#include "module.hpp"
#include "one_sample.hpp"

namespace annealed {

static bool feed_level(LevelBase& level, nb::handle x, const SampleFormat& format, double w) {
    const double* sample = read_sample(x, format, level.features());
    if (!sample || !is_weight(w)) return false;
    const FlushDenormals flush;
    level.seen += w;
    level.step({sample, 1, false}, w, both_roles);
    return true;
}

// The same, and the sample is written to a row of an array.
using Kept = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
static bool feed_and_keep(LevelBase& level, nb::handle x, const SampleFormat& format, double w,
                          const Kept& rows, std::size_t at) {
    const auto d = static_cast<std::size_t>(level.features());
    require(rows.shape(1) == d && at < rows.shape(0), "there is no room to keep the sample");
    const double* sample = read_sample(x, format, level.features());
    if (!sample || !is_weight(w)) return false;
    std::copy(sample, sample + d, rows.data() + at * d);
    const FlushDenormals flush;
    level.seen += w;
    level.step({sample, 1, false}, w, both_roles);
    return true;
}

template <class Divergence>
nb::object associations(OnlineLevel<Divergence>& level, nb::handle x, const SampleFormat& format,
                        const std::optional<Integers>& clusters) {
    const auto K = static_cast<std::size_t>(level.K);
    require(!clusters || clusters->shape(0) == K, "clusters are of another number of codevectors");
    const double* sample = read_sample(x, format, level.d);
    if (!sample || !level.pending_weights.empty()) return nb::none();
    const FlushDenormals flush;
    double* shares;
    if (!clusters) {
        auto array = new_array<double>({K}, shares);
        level.associations({sample, 1, false}, shares);
        return nb::cast(array);
    }
    const std::int64_t* cluster = clusters->data();
    const std::int64_t last = std::max<std::int64_t>(*std::max_element(cluster, cluster + K), -1);
    auto array = new_array<double>({static_cast<std::size_t>(last + 1)}, shares);
    std::fill_n(shares, last + 1, 0.0);
    Doubles each(K);
    level.associations({sample, 1, false}, each.data());
    for (std::size_t i = 0; i < K; ++i)
        if (cluster[i] >= 0) shares[cluster[i]] += each[i];
    return nb::cast(array);
}

static std::int64_t learn_rows(const std::vector<LevelBase*>& levels, const Anything& X,
                               const std::optional<Integers>& order,
                               const std::optional<Classes>& classes,
                               const std::optional<Vector>& weights, std::int64_t begin,
                               std::int64_t end, const std::optional<Bytes>& roles, int threads) {
    require(!levels.empty(), "there is no level to learn");
    const int d = levels[0]->features();
    for (const LevelBase* level : levels)
        require(level->features() == d, "levels differ in their number of features");
    Samples samples = rows_to_learn(X, d, order, classes, weights, begin, end);
    require(!roles || roles->shape(0) >= X.shape(0), "there are fewer roles than rows");
    samples.roles = pointer(roles);
    nb::gil_scoped_release unlocked;
    return learn(levels, samples, begin, end, threads);
}

template <class Divergence>
void define_level(nb::module_& m, const std::string& name) {
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
        state["mass"] = padded(level, level.sums.mass);
        state["spread"] = padded(level, level.sums.spread);
        state["turned"] = rows_out(level.sums.turned, level.K, level.d);
        state["pending"] = copy_out(level.pending.data(), level.pending.size());
        state["pending_weights"] =
            copy_out(level.pending_weights.data(), level.pending_weights.size());
        state["pending_roles"] = copy_out(level.pending_roles.data(), level.pending_roles.size());
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
    nb::class_<Level, LevelBase>(m, name.c_str())
        .def("__init__",
             [](Level* self, Matrix mu, Vector rho, Matrix axis, Vector memory, nb::dict s,
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
                 settings.by_roles = nb::cast<bool>(s["by_roles"]);
                 require_steps(settings);
                 const int K = size_of(mu.shape(0)), d = size_of(mu.shape(1));
                 require(rho.shape(0) == mu.shape(0) && axis.shape(0) == mu.shape(0) &&
                             axis.shape(1) == mu.shape(1) && memory.shape(0) == mu.shape(0),
                         "weights or axes do not fit the codevectors");
                 require(!Divergence::bounded || (low && high), "this divergence has bounds");
                 if (low) require_length(*low, mu.shape(1), "bounds do not fit the codevectors");
                 if (high) require_length(*high, mu.shape(1), "bounds do not fit the codevectors");
                 require_square(matrix, mu.shape(1));
                 const double n = amount_in(s, "n");
                 new (self) Level(settings, K, d, mu.data(), rho.data(), axis.data(), memory.data(),
                                  pointer(low), pointer(high), pointer(matrix));
                 self->n = n;
             },
             "mu"_a, "rho"_a, "axis"_a, "memory"_a, "settings"_a, "low"_a.none(), "high"_a.none(),
             "matrix"_a.none())
        .def("associations", &associations<Divergence>, "x"_a, "format"_a, "clusters"_a.none(),
             "p_i of one sample, or their sum in each cluster; None where it is out of the ordinary or "
             "samples are pending.")
        .def("state", export_state,
             "All of the level's state, as arrays and numbers; samples may be pending.")
        .def("read",
             [export_state](Level& level) {
                 // Reading must not close a block early, or the model would depend on who looked.
                 if (level.pending_weights.empty()) return export_state(level);
                 const auto before = std::make_tuple(
                     level.tiles.mu, level.r, level.g, level.n, level.streak, level.axis, level.u,
                     level.sums, level.pending, level.pending_weights, level.pending_roles);
                 level.settle();
                 nb::dict state = export_state(level);
                 std::tie(level.tiles.mu, level.r, level.g, level.n, level.streak, level.axis,
                          level.u, level.sums, level.pending, level.pending_weights,
                          level.pending_roles) = before;
                 return state;
             },
             "The state once the pending samples are learnt; the level itself stays as it is.")
        .def("restore",
             [](Level& level, nb::dict state) {
                 const char* misfit = "saved level has another shape";
                 const auto rows = [&](const char* key, bool pad) {
                     const Matrix array = nb::cast<Matrix>(state[key]);
                     require(array.shape(0) == static_cast<std::size_t>(level.K) &&
                                 array.shape(1) == static_cast<std::size_t>(level.d),
                             misfit);
                     return to_tiles(array.data(), level.K, level.d, pad);
                 };
                 const auto values = [&](const char* key, Doubles& into) {
                     copy_in(state, key, into.data(), static_cast<std::size_t>(level.K), misfit);
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
                 values("mass", level.sums.mass);
                 values("spread", level.sums.spread);
                 const auto waiting = [&](const char* key, std::size_t each, Doubles& into) {
                     const Vector array = nb::cast<Vector>(state[key]);
                     const auto most = static_cast<std::size_t>(level.block);
                     require(array.shape(0) % each == 0 && array.shape(0) / each < most,
                             "saved level has too many pending samples");
                     into.assign(array.data(), array.data() + array.shape(0));
                 };
                 waiting("pending", static_cast<std::size_t>(level.d), level.pending);
                 waiting("pending_weights", 1, level.pending_weights);
                 waiting("pending_roles", 1, level.pending_roles);
                 require(level.pending.size() == level.pending_weights.size() * level.d &&
                             level.pending_roles.size() == level.pending_weights.size(),
                         "saved level has rows and weights or roles that differ");
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

void define_levels(nb::module_& m) {
    m.def("measure_level",
          [](nb::dict state, Vector critical, Vector error, Vector mass, double again) {
              const char* misfit = "the sums of a level do not fit its codevectors";
              const std::size_t K = critical.shape(0);
              Vector sums[7];
              const char* names[] = {"p", "p2", "y", "y2", "y4", "mass", "spread"};
              for (int k = 0; k < 7; ++k) {
                  sums[k] = nb::cast<Vector>(state[names[k]]);
                  require_length(sums[k], K, misfit);
              }
              require_length(error, K, misfit);
              require_length(mass, K, misfit);
              Found found;
              auto criticals = empty_array<double>({K}, found.critical);
              auto errors = empty_array<double>({K}, found.error);
              auto masses = empty_array<double>({K}, found.mass);
              auto distortions = empty_array<double>({K}, found.distortion);
              measure_level({sums[0].data(), sums[1].data(), sums[2].data(), sums[3].data(),
                             sums[4].data(), sums[5].data(), sums[6].data()},
                            {critical.data(), error.data(), mass.data()}, again, K, found);
              return nb::make_tuple(criticals, errors, masses, distortions);
          },
          "state"_a, "critical"_a, "error"_a, "mass"_a, "again"_a,
          "Critical temperatures, their errors, the mass they rest on, and distortions.");
    nb::class_<LevelBase>(m, "Level")
        .def("feed", &feed_level, "x"_a, "format"_a, "w"_a,
             "Learn one sample; False, and nothing learnt, where it is out of the ordinary.")
        .def("feed_and_keep", &feed_and_keep, "x"_a, "format"_a, "w"_a, "rows"_a, "at"_a,
             "As feed does; the sample is written to rows[at], too.")
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
        .def("associations", [](const WarmUp&, nb::args) { return nb::none(); })
        .def("state",
             [](const WarmUp& self) {
                 nb::dict state;
                 state["mean"] = copy_out(self.mean.data(), self.mean.size());
                 state["squares"] = copy_out(self.squares.data(), self.squares.size());
                 state["last"] = copy_out(self.last.data(), self.last.size());
                 state["lowest"] = copy_out(self.lowest.data(), self.lowest.size());
                 state["highest"] = copy_out(self.highest.data(), self.highest.size());
                 state["difference"] = copy_out(self.difference.data(), self.difference.size());
                 state["crossed"] = self.crossed;
                 state["seen"] = self.seen;
                 state["count"] = self.count;
                 state["done"] = self.done;
                 return state;
             })
        .def("read", [](nb::handle self) { return self.attr("state")(); })
        .def("restore", [](WarmUp& self, nb::dict state) {
            const auto values = [&](const char* key, Doubles& into) {
                copy_in(state, key, into.data(), into.size(), "saved warm-up has another shape");
            };
            values("mean", self.mean);
            values("squares", self.squares);
            values("last", self.last);
            values("lowest", self.lowest);
            values("highest", self.highest);
            values("difference", self.difference);
            self.crossed = amount_in(state, "crossed");
            self.seen = amount_in(state, "seen");
            self.count = whole_in(state, "count");
            self.done = nb::cast<bool>(state["done"]);
        });
    m.def("learn", &learn_rows, "levels"_a, "X"_a, "order"_a.none(), "classes"_a.none(),
          "weights"_a.none(), "begin"_a, "end"_a, "roles"_a.none(), "threads"_a,
          "Present rows until one of them completes its class's level; returns how far it came.");
    for_each_divergence([&](auto divergence, const std::string& name, const std::string&) {
        define_level<decltype(divergence)>(m, name + "Level");
    });
}

}  // namespace annealed
